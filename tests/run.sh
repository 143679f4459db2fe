#!/usr/bin/env bash
# Runs every test and counts: the unit tests of each build tree, then the tests of the mount. Each
# program runs under a time limit, so that a hung mount never hangs the suite; JOBS of them (one per core)
# run side by side. What a failed test printed is shown; of the others only the skips, with their reason.
# The last line is the count.
set -u
cd "$(dirname "$0")/.." || exit 1

lanes=${JOBS:-$(nproc 2>/dev/null || echo 2)}
passed=0 failed=0 skipped=0 failures=()
folder=$(mktemp -d "${TMPDIR:-/tmp}/moefs-run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'kill "${!names[@]}" 2>/dev/null; wait; exit 130' INT TERM
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1 second_deadlock_stack=1}

# Adds up what a program printed: cmocka's lines or "ok", "not ok", "ok … # skip". A program that ends badly
# without naming a failed test counts as one.
count() { # NAME STATUS SECONDS LOG
	local ok bad skip log=$4
	ok=$(grep -cE '^\[       OK \]|^ok ' "$log")
	# cmocka names them again at the end
	bad=$(grep -E '^\[  FAILED  \] [_a-zA-Z0-9]+$|^not ok ' "$log" | sort -u | wc -l)
	skip=$(grep -E '^\[  SKIPPED \] [_a-zA-Z0-9]+$|^ok .*# skip' "$log" | sort -u | wc -l)
	ok=$((ok - $(grep -cE '^ok .*# skip' "$log")))
	[ "$2" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
	printf '%-44s %3d passed' "$1" "$ok"
	[ "$bad" -gt 0 ] && printf ', %d FAILED (status %d)' "$bad" "$2"
	[ "$skip" -gt 0 ] && printf ', %d skipped' "$skip"
	printf '  %d s\n' "$3"
	if [ "$bad" -gt 0 ]; then
		sed 's/^/    /' "$log" | tail -n 60
		failures+=("$1: $(grep -E '^\[  FAILED  \] [_a-zA-Z0-9]+$|^not ok ' "$log" | sort -u | paste -sd';')")
	elif [ "$skip" -gt 0 ]; then
		grep -iE 'skip' "$log" | grep -vE '^\[|SKIPPED TEST' | sed 's/^/    /'
	fi
}

# By process: what runs in the lanes.
declare -A names=() logs=() begun=()
finish_one() {
	local pid status
	wait -n -p pid "${!names[@]}"
	status=$?
	count "${names[$pid]}" $status $((SECONDS - begun[$pid])) "${logs[$pid]}"
	unset "names[$pid]"
}
run() { # NAME COMMAND…: as soon as there is a lane
	local name=$1 log
	shift
	[ ${#names[@]} -lt "$lanes" ] || finish_one
	log=$(mktemp "$folder/XXXXXX")
	timeout --kill-after=10 600 "$@" >"$log" 2>&1 </dev/null &
	names[$!]=$name logs[$!]=$log begun[$!]=$SECONDS
}

# Those that take longest first, so that no lane is left with one of them at the end.
for tree in build/tsan build/asan build; do
	for program in "$tree"/tests/test_*; do
		[ -x "$program" ] && [ ! -d "$program" ] && run "$program" "$program"
	done
done

run tests/bench/smoke.sh tests/bench/smoke.sh build/moefs-bench
run tests/cross.sh tests/cross.sh
run tests/layers.sh tests/layers.sh

if [ ! -c /dev/fuse ] || ! command -v fusermount3 >/dev/null; then
	echo "FUSE is missing, so the tests of the mount are skipped; install fuse3 and load the fuse module"
	skipped=$((skipped + 1))
else
	# What threads and lifetimes are hardest on, with the sanitizers watching.
	for tree in build/tsan build/asan; do
		for name in ask faults idioms interrupt poll refused shutdown tools tree turns; do
			run "$tree/moefs: $name.sh" env MOEFS="$PWD/$tree/moefs" LIMIT=300 "tests/mount/$name.sh"
		done
	done
	for script in tests/mount/*.sh; do
		[ "$(basename "$script")" = lib.sh ] || run "$script" "$script"
	done
fi
while [ ${#names[@]} -gt 0 ]; do finish_one; done

# Once more at the end, which is what is read first.
[ "$failed" -gt 0 ] && printf 'failed: %s\n' "${failures[@]}"
summary="$passed passed, $failed failed"
[ "$skipped" -gt 0 ] && summary="$summary, $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
