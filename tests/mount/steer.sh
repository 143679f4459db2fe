#!/usr/bin/env bash
# params/experts_bias: which experts tokens pass through, as experts/trace shows them.
. "$(dirname "$0")/lib.sh"
mounted
loaded
echo 0 >sessions/default/params/temperature
bias=sessions/default/params/experts_bias
question="What is the capital of France?"

traced() { # the experts that an answer passes through, as LAYER/EXPERT
	echo reset >ctl
	exec 3<experts/trace # before the turn, since the trace of an idle model is at its end
	echo "$question" >prompt
	timeout $limit cat <&3 >"$work/trace" || fail "the trace did not end"
	exec 3<&-
	cat output >"$work/said"
	awk '{ for (i = 5; i <= NF; i++) { sub(/[*]/, "", $i); print $4 "/" $i } }' "$work/trace" | sort -u
}

turns_off() {
	printf '%s\n' '03/* -0.5' '05/00? off' >"$work/lines"
	cp "$work/lines" $bias || fail "refused"
	same "$(cat $bias)" "$(cat "$work/lines")" "reads back"
	traced >"$work/experts"
	[ -s "$work/experts" ] || fail "no trace"
	grep -E '^0?5/0*[0-9]$' "$work/experts" && fail "an expert that is off"
	same "$(grep lossy stats)" "lossy experts_bias=42"
	printf '\n' >"$work/none"
	cp "$work/none" $bias
	ask "$question" >"$work/said"
	same "$(cat "$work/said")" "The capital of France is Paris."
	same "$(grep lossy stats)" ""
}
claim "an expert that is off is in no line of the trace" turns_off

refuses() {
	for line in '03 off' '03/001 nan' '99/000 1' 'x'; do
		echo "$line" >"$work/lines"
		fails_with "Invalid argument" cp "$work/lines" $bias
	done
	grep -q "is not an expert and a number" sessions/default/error || fail "$(cat sessions/default/error)"
	same "$(cat $bias)" ""
}
claim "bad lines are EINVAL" refuses

ablates() {
	echo "The capital of France is Paris." >"$work/text"
	timeout $limit "$root/examples/ablate.sh" "$m" "$work/text" 3 '0[01]' >"$work/found" || fail "status $?"
	same "$(wc -l <"$work/found")" 3
	grep -qE '^-?[0-9.]+	0[01]/[0-9]{3}$' "$work/found" || fail "$(cat "$work/found")"
	LC_ALL=C sort -c -gr "$work/found" || fail "$(cat "$work/found")"
	same "$(cat $bias)" "" "what was there"
}
claim "examples/ablate.sh finds the experts that a text needs" ablates
finish
