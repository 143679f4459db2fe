#!/usr/bin/env bash
# plan: what a turn will cost, before it runs; and how far off it was.
. "$(dirname "$0")/lib.sh"
mounted
question="What is the capital of France?"
planned() { # PROMPT
	exec 3<>plan
	printf '%s\n' "$1" >&3 || fail "refused"
	timeout $limit cat <&3
	exec 3>&-
}
value() { awk -v name="$1" '$1 == name { print $2 }' "$2"; }

new() {
	planned "$question" >"$work/plan"
	[ "$(value prompt_tokens "$work/plan")" -gt 5 ] || fail "$(cat "$work/plan")"
	same "$(value first_token_seconds "$work/plan")" - "nothing was measured yet"
	same "$(value kept_tokens "$work/plan")" 0
	same "$(cat messages.json)" "[]"
}
claim "a plan asks nothing" new
loaded

as_asked() {
	local prompt
	for prompt in "$question" "What is 12 x 6?"; do
		planned "$prompt" >"$work/plan"
		ask "$prompt" >"$work/said"
		same "$(value prompt_tokens "$work/plan")" "$(value prompt_tokens stats)" "tokens"
		same "$(value kept_tokens "$work/plan")" "$(value cached_tokens stats)" "kept"
	done
	timeout $limit cat plan >"$work/plan"
	[ "$(value kept_tokens "$work/plan")" -gt 5 ] || fail "$(cat "$work/plan")"
	[ "$(value token_seconds "$work/plan")" != - ] || fail "no times"
	same "$(wc -l <"$work/plan")" 8
	same "$(value remembered "$work/plan")" no
}
claim "the tokens of the plan are those of the turn" as_asked

refuses() {
	fails_with "Invalid argument" sh -c 'echo hello > plan'
	head -c 100000 /dev/zero | tr '\0' x >"$work/long"
	exec 3<>plan
	cat "$work/long" >&3 2>/dev/null && fail "too long"
	exec 3>&-
	same "$(stat -c '%a %s' plan)" "600 0"
}
claim "what cannot be planned is refused" refuses
finish
