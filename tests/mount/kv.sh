#!/usr/bin/env bash
# -o kv=: keys and values of contexts as codes, through the mount: it answers, says what they take, keeps a conversation
# whose state was saved with another type, and refuses what cannot be.
. "$(dirname "$0")/lib.sh"

refused_with() { # OPTIONS WORDS
	timeout $limit "$MOEFS" -o "store=$store,$1" "$MODEL" "$mnt" 2>"$work/said" && fail "$1 was mounted"
	grep -qF -- "$2" "$work/said" || fail "$1: $(cat "$work/said")"
}
cannot_be() {
	mkdir -p "$mnt"
	refused_with exact,kv=q8 "contradicts exact"
	refused_with kv=q5 "kv=q5"
}
answers() { (cd sessions/default && ask "What is the capital of Peru?" | grep -q Lima) || fail "$(cat sessions/default/output)"; }
says_what_it_takes() {
	grep -qxE 'q8; f16 would take [0-9]+ bytes instead of [0-9]+' info/kv || fail "$(cat info/kv)"
	local floats codes
	read -r _ _ _ _ floats _ _ _ codes <info/kv
	same "$(cat info/context_bytes)" "$codes"
	[ "$codes" -lt $((floats * 6 / 10)) ] || fail "q8 takes $codes of $floats"
}
goes_on_with_another_type() {
	cp "$work/state" sessions/default/state || fail "not restored"
	grep -qx 'context_tokens 0' sessions/default/stats || fail "$(grep context_tokens sessions/default/stats)"
	grep -q Lima sessions/default/messages.json || fail "the conversation is gone"
	grep -qE '^f16; q8 would take' info/kv || fail "$(cat info/kv)"
	answers
}
claim "what cannot be is refused in words" cannot_be
mounted -o kv=q8
loaded
claim "a model with keys and values in 8 bits answers" answers
claim "info/kv says what another type would take" says_what_it_takes
cp sessions/default/state "$work/state"
cd / && unmounted
mounted
loaded
claim "a state of another type is computed again" goes_on_with_another_type
finish
