#!/usr/bin/env bash
# The budget while it runs: writing cache/budget shrinks and grows the pool of a generating model at once, without stopping the
# turn or changing its text.
. "$(dirname "$0")/lib.sh"
holdable

mounted -o budget=64M,quant=bf16
loaded

stat_of() { awk -v key="$1" '$1 == key { print $2 }' "$mnt/cache/stats"; }
df_of() { df -B1 --output="$1" "$mnt" | tail -n 1 | tr -d ' '; }
# Used memory falls to the budget while the turn goes on: experts in use are freed after their step.
shrinks_to() { # BYTES WORDS
	echo "$2" > "$mnt/cache/budget" || fail "refused: $2"
	until_true has_shrunk "$1" || fail "$(df_of used) bytes are used, not $1"
	same "$(df_of size)" "$1" "df's size"
	same "$(cat "$mnt/cache/budget")" "$2" "cache/budget"
}
has_shrunk() { [ "$(df_of used)" -le "$1" ] || { working; false; }; }
goes_on() { # the turn generates more text
	local before
	before=$(stat -c %s log)
	tokens=$((tokens + 40))
	hold_at $tokens
	until_true has_grown "$before" || fail "the log stays at $before bytes"
}
has_grown() { longer log "$1" || { working; false; }; }

undisturbed() {
	mkdir sessions/quiet && cd sessions/quiet || exit
	long_turn
	idle
	[ "$(wc -c <output)" -gt 1000 ] || fail "a short answer"
	cp output "$work/quiet"
}
claim "a long turn, for comparison" undisturbed

changed() {
	local round tokens=40
	mkdir sessions/changed && cd sessions/changed || exit
	begin_long $tokens
	for round in 1 2; do
		goes_on
		shrinks_to 1048576 1M && goes_on
		shrinks_to 262144 256K && goes_on
		echo 32M > "$mnt/cache/budget" && same "$(df_of size)" 33554432 "df's size" || exit
		working
		while [ "$(df_of used)" -le 4194304 ]; do goes_on; done # it fills again
	done
	working
	let_go
	idle
	same "$(cat status)" done
	cmp output "$work/quiet"
}
claim "shrinking and growing are done while the turn goes on, and change no text" changed

# A token passes 4 experts of a layer; the turn had room for a few of all.
forecast() {
	local list
	for list in forecast used read; do
		awk -v list=$list '$1 == "ahead_1_" list || $1 == "ahead_2_" list { n++; if (NF != 5) exit 1 } END { exit n != 2 }' \
			"$mnt/cache/stats" || fail "$(cat "$mnt/cache/stats")"
	done
	awk '$1 ~ /^ahead_._forecast$/ { for (i = 2; i <= NF; i++) all[i] = $i }
		$1 ~ /^ahead_._used$/ { for (i = 2; i <= NF; i++) if ($i > all[i] || !all[i]) exit 1 }' "$mnt/cache/stats" ||
		fail "$(cat "$mnt/cache/stats")"
}
claim "cache/stats says which ranks of the forecasts came true" forecast

agree() { [ "$(df_of size)" = "$(stat_of budget)" ]; } # the automatic budget follows free memory, also between the two looks
automatic() {
	echo auto > "$mnt/cache/budget" || fail refused
	same "$(stat_of budget_asked)" auto
	until_true agree || fail "df: $(df_of size), cache/stats: $(stat_of budget)"
	case $(cat "$mnt/cache/budget") in *[!0-9KMGT]* | "") fail "reads $(cat "$mnt/cache/budget")" ;; esac
	shell_fails_with "Invalid argument" "echo automatic > $mnt/cache/budget"
	shell_fails_with "Numerical result out of range" "echo 1K > $mnt/cache/budget"
	same "$(stat_of budget_asked)" auto "after what was refused"
	printf 8M > "$mnt/cache/budget" && same "$(stat_of budget_asked)" 8388608
	printf auto > "$mnt/cache/budget" && same "$(stat_of budget_asked)" auto
}
claim "auto goes back to free memory" automatic

# A budget is at most the machine's memory. Other programs may use half of that, so experts never get all of it.
everything() {
	local total
	total=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
	echo "${total}K" > "$mnt/cache/budget" || fail refused
	total=$((total * 1024))
	same "$(stat_of budget_asked)" "$total"
	[ "$(stat_of budget)" -lt "$total" ] || fail "all of the machine's memory is for experts"
}
claim "a budget beyond what there is is kept to as far as memory allows" everything
finish
