#!/usr/bin/env bash
# The kernels of another processor, where they cannot run by themselves: cross-compiles them with a program
# that compares every table with the scalar one (tests/cross/compare.c), and runs it under an emulator, once
# as a processor with all instructions and once as one without the dot product. What it shows is that the
# bits are the same; how fast they come an emulator cannot tell.
set -u
cd "$(dirname "$0")/.." || exit 1

CC=${CROSS_CC:-aarch64-linux-gnu-gcc}
tree=build/aarch64
compare=$tree/cross/compare failed=0

skip() { # REASON
	echo "ok cross # skip: $1"
	exit 0
}

# Says the lines of one run, each for its processor; a run that ends badly or says nothing has failed.
compare() { # PROCESSOR TABLES, the last of which is compared
	local lines status tables
	lines=$(qemu-aarch64 -cpu "$1" "$compare" "${2##* }")
	status=$?
	printf '%s\n' "$lines" | sed "s/$/ ($1)/"
	tables=$(printf '%s\n' "$lines" | sed -n 's/^ok \([a-z0-9]*\) .*/\1/p' | uniq | xargs)
	if [ "$status" -eq 0 ] && [ "$tables" = "$2" ]; then
		echo "ok all tables of $1"
	else
		echo "not ok all tables of $1: status $status, tables '$tables', not '$2'"
		failed=1
	fi
}

command -v "${CC%% *}" >/dev/null || skip "no ${CC%% *}; install gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"
command -v qemu-aarch64 >/dev/null || skip "no qemu-aarch64; install qemu-user"

echo 'int main(void) { return 0; }' | $CC -x c -static -o /dev/null - 2>/dev/null ||
	skip "$CC has no C library; install libc6-dev-arm64-cross"

# All of it said here, so that nothing of the build that runs the tests comes in.
if ! make -s CC="$CC" BUILD="$tree" CFLAGS='-O2 -g' LDFLAGS=-static SANITIZE= PKG_CFLAGS= "$compare"; then
	echo "not ok cross: $compare cannot be built"
	exit 1
fi
# Each table once, where it is the fastest: an emulator does the same for an instruction on every processor that has it.
compare max "neon neondot"
compare cortex-a53 "neon"
exit "$failed"
