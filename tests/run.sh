#!/usr/bin/env bash
# Runs tests and counts them: the unit tests, scripts and tests of the mount with the plain tree (make check), or, with
# CHECK=full, those of the sanitizers' trees and all of smoke.sh (make check-sanitizers). cross.sh is left to make
# check-full: its emulator takes five minutes. Each program runs under a time limit, so that a hung mount never hangs
# the suite; three of them run side by side for two cores (JOBS). Their order is random, and so is that of the tests
# within a group of unit tests; SEED=… repeats it. With BEGIN_UNTIL=SECONDS, since 1970, no program is begun after that time;
# those that were not are counted as skipped. What a failed test printed is shown. At the end come what was
# skipped, with its reason, why tests failed, and which, one line each; the last line is the count.
set -u
cd "$(dirname "$0")/.." || exit 1

full=false
[ "${CHECK:-}" = full ] && full=true
trees=(build) watched=()
$full && trees=(build/tsan build/asan) watched=("${trees[@]}")
cores=${JOBS:-$(nproc 2>/dev/null || echo 2)}
lanes=$((cores + cores / 2)) # a third of its time a program waits, for the disk mostly
passed=0 failed=0 failures=() skips=() reasons=()
folder=$(mktemp -d "${TMPDIR:-/tmp}/moefs-run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'kill "${!names[@]}" 2>/dev/null; wait; exit 130' INT TERM
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1 second_deadlock_stack=1}

# Prints "TEST: REASON" for each test that a program skipped: the line before cmocka's, or what follows "# skip".
skipped_in() { # LOG
	awk '/^\[ RUN  / { reason = "" }
	     /^\[  SKIPPED \] [_a-zA-Z0-9]+$/ && !seen[$4]++ { print $4 ": " reason }
	     /^ok .*# skip/ { at = match($0, / # skip:? */); print substr($0, 4, at - 4) ": " substr($0, at + RLENGTH) }
	     !/^\[/ { reason = $0 }' "$1"
}

# What of a failed test's output says why, in at most 16 lines: assertions and reports, and then its end.
why_in() { # LOG
	grep -E '^\[  ERROR   \]|^ERROR: |^\[   LINE   \]|^not ok |runtime error:|^SUMMARY: |(ERROR|WARNING): [A-Z][a-z]+Sanitizer' "$1" |
		head -n 10 | cut -c 1-400
	tail -n 6 "$1" | cut -c 1-400
}

# Adds up what a program printed: cmocka's lines or "ok", "not ok", "ok … # skip". A program that ends badly
# without naming a failed test counts as one, and so does a test that was skipped for no reason.
count() { # NAME STATUS SECONDS LOG
	local ok bad log=$4 skip silent
	ok=$(grep -cE '^\[       OK \]|^ok ' "$log")
	# cmocka names them again at the end
	bad=$(grep -E '^\[  FAILED  \] [_a-zA-Z0-9]+$|^not ok ' "$log" | sort -u | wc -l)
	mapfile -t skip < <(skipped_in "$log")
	mapfile -t silent < <(printf '%s\n' "${skip[@]}" | sed -n 's/: $/: skipped without a reason/p')
	ok=$((ok - $(grep -cE '^ok .*# skip' "$log")))
	[ "$2" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
	bad=$((bad + ${#silent[@]}))
	passed=$((passed + ok)) failed=$((failed + bad)) skips+=("${skip[@]/#/$1: }")
	printf '%-44s %3d passed' "$1" "$ok"
	[ "$bad" -gt 0 ] && printf ', %d FAILED (status %d)' "$bad" "$2"
	[ ${#skip[@]} -gt 0 ] && printf ', %d skipped' ${#skip[@]}
	printf '  %d s\n' "$3"
	if [ "$bad" -gt 0 ]; then
		sed 's/^/    /' "$log" | tail -n 60
		reasons+=("$1:"$'\n'"$(why_in "$log" | sed 's/^/    /')")
		failures+=("$1: $({
			grep -E '^\[  FAILED  \] [_a-zA-Z0-9]+$|^not ok ' "$log" | sort -u
			printf '%s\n' "${silent[@]}"
		} | grep . | paste -sd';')")
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
	timeout --kill-after=10 1800 "$@" >"$log" 2>&1 </dev/null &
	names[$!]=$name logs[$!]=$log begun[$!]=$SECONDS
}

# Programs that start no thread: ThreadSanitizer would watch nothing that the other trees do not.
one_thread=' anthropic block checkpoint codec config context depth draft_meter encodings format generation gguf
	grammar heat identity json json_memory kernels kernels_attend kernels_block
	kernels_convolve kernels_delta kernels_multiply kernels_window lookup memory messages params
	pressure recipe responses rotation rounding safetensors sampler sizes spelling split split_forms
	split_pieces split_templates store_faults store_layout stream tc template tensor_names token_rights
	tokenizer_files tokenizer_gguf tokenizer_pieces tokenizer_vocabularies tq trace utf8 weights '

# Whole models on an emulated GPU take minutes with a sanitizer: under AddressSanitizer they run where nobody ends the tests,
# and under ThreadSanitizer, where each of the GPU's threads is a thread of the system, the kernels alone (cuda_kernels).
emulated=' cuda_asks cuda_backend cuda_choice cuda_faults cuda_formats cuda_parts cuda_states gpu_tiers '
left_out() { # TREE GROUP
	case $1 in
	build/tsan) [[ $one_thread$emulated =~ [[:space:]]$2[[:space:]] ]] ;;
	build/asan) [ -n "${BEGIN_UNTIL:-}" ] && [[ $emulated =~ [[:space:]]$2[[:space:]] ]] ;;
	*) false ;;
	esac
}

# The names of what is to be run.
named() {
	local tree group script
	for tree in "${trees[@]}"; do
		[ -x "$tree/unit" ] || continue
		for group in $("$tree/unit"); do
			left_out "$tree" "$group" || echo "$tree/unit $group"
		done
	done
	echo tests/bench/smoke.sh
	$full || printf '%s\n' tests/*.sh | grep -vE '/(run|cross)\.sh'
	$fuse || return
	# What threads and lifetimes are hardest on, with the sanitizers watching.
	for tree in "${watched[@]}"; do
		[ -x "$tree/moefs" ] || continue
		printf "$tree/moefs: %s.sh\n" ask faults idioms interrupt poll refused shutdown tools trace tree turns
	done
	$full || printf '%s\n' tests/mount/*.sh | grep -v /lib.sh
}
begin() { # NAME
	case $1 in
	*/unit\ *) run "$1" "${1% *}" "${1#* }" ;;
	*/moefs:*) run "$1" env MOEFS="$PWD/${1%%:*}" "tests/mount/${1#*: }" ;;
	tests/bench/smoke.sh) run "$1" env SMOKE="$($full || echo short)" "$1" build/moefs-bench ;;
	*) run "$1" "$1" ;;
	esac
}

# Those that take minutes are begun first, so that no lane is left with one of them at the end; each of both parts is in
# the order of the seed.
long='unit (cuda_backend|cuda_parts|cuda_states|refine|first|draft_own|native|golden|convert)$|/(refine_idle|faults_convert|skills|parallel|refine|looking|pressure|smoke|reference)\.sh$'
SEED=${SEED:-$RANDOM}
export SEED
shuffled() { shuf --random-source=<(yes "$SEED"); }
fuse=true
[ -c /dev/fuse ] && command -v fusermount3 >/dev/null || fuse=false
$fuse || skips+=("tests/mount: FUSE is missing; install fuse3 and load the fuse module")
for tree in "${trees[@]}"; do
	[ -x "$tree/unit" ] || skips+=("$tree/unit: it is not built; run make ${tree#build/}")
	[[ $tree = build || -x $tree/moefs ]] || skips+=("$tree/moefs: it is not built; run make ${tree#build/}")
done
echo "SEED=$SEED repeats this order"
mapfile -t order < <(named | grep -E "$long" | shuffled; named | grep -vE "$long" | shuffled)
late=false
for name in "${order[@]}"; do
	if [ "$EPOCHSECONDS" -le "${BEGIN_UNTIL:-$EPOCHSECONDS}" ]; then
		begin "$name"
	else
		skips+=("$name: not begun: out of time") late=true
	fi
done
while [ ${#names[@]} -gt 0 ]; do finish_one; done

# Once more at the end, which is what is read first, and may be all that is kept: what failed stands last.
[ ${#skips[@]} -gt 0 ] && printf 'skipped: %s\n' "${skips[@]}"
# Of three, which are fewer lines than the end of a log that is kept.
[ "$failed" -gt 0 ] && printf '%s\n' "${reasons[@]:0:3}" && printf 'failed: %s\n' "${failures[@]}"
[ "$failed" -gt 0 ] && echo "the order is repeated by SEED=$SEED"
echo "$passed passed, $failed failed, ${#skips[@]} skipped"
[ "$failed" -eq 0 ] && { [ "$passed" -gt 0 ] || $late; }
