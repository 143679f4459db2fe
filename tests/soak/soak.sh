#!/usr/bin/env bash
# Many processes do at random what users do, for SECONDS (600): tests/soak/operations.py has the table of it. At the end the
# daemon must answer as it did at the beginning, to the byte, and hold at most 5 % more memory than after a tenth of the time (a
# minute), both times without sessions. Under a sanitizer the size is printed but not checked; its findings end the daemon.
#
#     SECONDS_OF=600 PROCESSES=8 SEED=1 MOEFS=build/asan/moefs tests/soak/soak.sh
. "$(dirname "$0")/../mount/lib.sh"
seconds=${SECONDS_OF:-600} processes=${PROCESSES:-8} seed=${SEED:-$(date +%s)}
. "$root/tests/soak/models.sh"

mounted -o budget=8M -o context_budget=64M
echo "load soaked" >../ctl
loaded
complete
ask "What is the capital of France?" >"$work/before"
[ -s "$work/before" ] || fail "not ok soak: there is no answer to begin with"

judged=yes
grep -qaE '__(asan|tsan)_init' "$MOEFS" && judged=
echo "# seed $seed, $processes processes, $seconds s"
timeout $((seconds + 600)) python3 "$root/tests/soak/operations.py" "$m" "$daemon" "$seconds" "$processes" "$seed" \
	"$checkpoint" "$MODEL" >"$work/report"
status=$?
sed 's/^/# /' "$work/report"
claim "no operation hung or met what may not be" [ $status -eq 0 ]
claim "the daemon lives" alive "$daemon"
ask "What is the capital of France?" >"$work/after"
claim "it answers as before" cmp "$work/before" "$work/after"
first=$(awk '/^resident first/ { print $3 }' "$work/report") last=$(awk '/^resident last/ { print $3 }' "$work/report")
if [ -n "$judged" ]; then
	claim "resident size within 5 % ($first to $last KiB)" [ "$((last * 100))" -le "$((first * 105))" ]
fi
finish
