#!/usr/bin/env bash
# The mount is removed while many users work (operations.py), ROUNDS (20) times, each time in another way. The daemon must end,
# and a sanitizer must report nothing, no leaks either.
#
#     ROUNDS=20 PROCESSES=6 SEED=1 MOEFS=build/asan/moefs tests/soak/unmounts.sh
. "$(dirname "$0")/../mount/lib.sh"
rounds=${ROUNDS:-20} processes=${PROCESSES:-6} seed=${SEED:-$(date +%s)}
. "$root/tests/soak/models.sh"
export ASAN_OPTIONS=abort_on_error=1:log_path=$work/report UBSAN_OPTIONS=print_stacktrace=1:log_path=$work/report
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:log_path=$work/report

way() { # one of those in which a mount goes
	case $(($1 % 4)) in
	0) fusermount3 -u "$mnt" || fusermount3 -u -z "$mnt" ;;
	1) fusermount3 -u -z "$mnt" ;;
	2) kill -TERM "$daemon" ;;
	3) kill -TERM "$daemon" && kill -INT "$daemon" && fusermount3 -u -z "$mnt" ;;
	esac 2>/dev/null
}
gone() {
	local i
	for i in $(seq $((limit * 10))); do
		alive "$daemon" || return 0
		sleep 0.1
	done
	fail "it still runs: $(cat /proc/"$daemon"/task/*/comm | xargs)"
}
silent() { ! cat "$work"/report.* 2>/dev/null; }
unhurt() { ! grep -E 'hung|Sanitizer' "$work/users"; }

echo "# seed $seed, $processes processes, $rounds rounds"
for round in $(seq "$rounds"); do
	mounted -o budget=8M -o context_budget=64M
	cd / || exit 1
	[ $((round % 3)) = 0 ] || echo "load soaked" >"$mnt/ctl"
	timeout $((limit * 2)) python3 "$root/tests/soak/operations.py" "$m" "$daemon" 30 "$processes" $((seed + round)) \
		"$checkpoint" "$MODEL" >"$work/users" 2>&1 &
	users=$!
	sleep $((1 + round % 4)) # in the midst of it, wherever that is
	way "$round"
	claim "round $round: the daemon ends" gone
	wait $users
	claim "round $round: nobody hung" unhurt
	claim "round $round: there is no report" silent
	daemon=
	find "$MODEL" -mindepth 1 -maxdepth 1 -name 'x*' -exec rm -r {} +
	[ $failures = 0 ] || break
done
finish
