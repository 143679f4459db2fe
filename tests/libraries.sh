#!/usr/bin/env bash
# Building where libraries are too old or not there: make names each of them, the needed version and the remedy, and compiles
# nothing. The libraries are only .pc files, which pkg-config finds before the system's.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-libraries.XXXXXX")
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH=$work
unset MAKEFLAGS
least="fuse3=3.14 liburing=2.2 libpcre2-8=10.40 libmicrohttpd=0.9.71 json-c=0.15"

describe() { # NAME VERSION
	printf 'Name: %s\nDescription: of no use\nVersion: %s\n' "$1" "$2" >"$work/$1.pc"
}
failed=0
result() { # NAME, and the status of what was tried
	if [ "$2" = 0 ]; then
		echo "ok $1"
	else
		echo "not ok $1: $(tail -n 3 "$work/out" | tr '\n' ' ')"
		failed=1
	fi
}
builds() { # one object, in a tree of its own
	make BUILD="$work/build" "$work/build/cache/err.o" >"$work/out" 2>&1
}
refuses() { # NAME VERSION NEEDED
	describe "$1" "$2"
	! builds && [ ! -e "$work/build" ] && grep -q "^$1 $2 is too old: moefs needs $3 or later" "$work/out"
}

if ! pkg-config --exists fuse3 liburing libpcre2-8 libmicrohttpd json-c; then
	echo "ok libraries # skip: those that it is built with are not there"
	exit 0
fi
for old in "fuse3 3.13.1 3.14" "liburing 2.1 2.2" "libpcre2-8 10.39 10.40" "libmicrohttpd 0.9.70 0.9.71" "json-c 0.14 0.15"; do
	# shellcheck disable=SC2086 # three words
	refuses $old
	result "${old% *} is too old, in words" $?
	rm "$work"/*.pc
done
for library in $least; do describe "${library%=*}" "${library#*=}"; done
builds
result "$least are new enough" $?
rm -rf "$work/build"

for library in $least; do describe "${library%=*}" 0.1; done
builds
[ "$(grep -c 'is too old' "$work/out")" = 5 ]
result "all that are too old are named at once" $?

rm "$work"/*.pc
PKG_CONFIG_LIBDIR=$work builds
grep -q '^fuse3 is missing: examples/packages.sh' "$work/out"
result "one that is not there is named with the remedy" $?

for library in $least libzstd=1 libutf8proc=1 libxxhash=1 libedit=1; do describe "${library%=*}" "${library#*=}"; done
PKG_CONFIG_LIBDIR=$work builds
result "the program asks for no library that only tests and benchmarks use" $?
rm -rf "$work/build"

told() { # in docs/machines.md, whatever each library is called there
	local library
	for library in $least; do
		grep -qF " ${library#*=}" docs/machines.md || { echo "docs/machines.md lacks $library" >"$work/out"; return 1; }
	done
}
told
result "docs/machines.md names the versions" $?
exit $failed
