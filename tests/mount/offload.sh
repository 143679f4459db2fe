#!/usr/bin/env bash
# -o offload=: a conversation whose memory was needed has its context again from disk, with the same answer; stats, why and
# cache/stats say so; the file has no name; and without the option nothing is written.
. "$(dirname "$0")/lib.sh"
rules=$(for i in $(seq 40); do printf 'Rule %d is to be brief. ' "$i"; done)
# A new session with these rules, and a word of its own.
makes() { # NAME
	mkdir "sessions/$1" || fail "mkdir $1"
	printf '%s' "$1. $rules" >"sessions/$1/params/system"
	echo "$1" >"sessions/$1/params/share_with"
	echo 0 >"sessions/$1/params/temperature"
	echo 8 >"sessions/$1/params/max_tokens"
}
asks() { # NAME QUESTION
	echo "$2" >"sessions/$1/prompt"
	cat "sessions/$1/output" || fail "no answer"
}
value() { sed -n "s/^$2 //p" "$1"; } # FILE KEY
# The second answer of a session beside which another one has needed all memory.
second_answer() {
	makes one && asks one "What is the capital of Peru?" >/dev/null
	local before
	before=$(cat ../cache/context_budget)
	rm -f prefixes/*
	echo $(($(value ../cache/stats context_used) * 9 / 8)) >../cache/context_budget
	makes two && asks two "What is the capital of Chad?" >/dev/null
	echo "$before" >../cache/context_budget
	cp sessions/one/stats "$work/rested"
	value ../cache/stats offload_used >"$work/used"
	asks one "And of Iran?"
	cp sessions/one/stats sessions/one/why "$work/"
	rmdir sessions/one sessions/two
}

mounted -o quant=3bit
loaded
off() {
	second_answer >"$work/computed"
	same "$(value "$work/stats" from_disk_tokens)" 0
	same "$(cat "$work/used")" 0
	grep -q '^reason the session had computed it, but its memory was needed$' "$work/why" || fail "$(cat "$work/why")"
}
claim "without the option the text is computed again" off
cd / && unmounted

mounted -o quant=3bit,offload=64M
loaded
comes_back() {
	same "$(second_answer)" "$(cat "$work/computed")" "the answer"
	[ "$(value "$work/rested" on_disk_tokens)" -gt 200 ] || fail "$(cat "$work/rested")"
	[ "$(cat "$work/used")" -gt 100000 ] || fail "$(cat "$work/used") bytes on disk"
	[ "$(value "$work/stats" from_disk_tokens)" -gt 200 ] || fail "$(cat "$work/stats")"
	[ "$(value "$work/why" from_disk_tokens)" -gt 200 ] || fail "$(cat "$work/why")"
	same "$(value "$work/why" found_in)" session
	until_true eval '[ "$(value ../cache/stats offload_used)" = 0 ]' || fail "something stays on disk"
}
claim "with it the context comes back from disk, and the answer is the same" comes_back
no_name() {
	second_answer >/dev/null
	[ -z "$(find "$store" "$work" -name '*offload*')" ] || fail "a file has a name"
}
claim "the file has no name" no_name
cd / && unmounted

mounted -o quant=3bit,offload=4096
loaded
too_small() {
	same "$(second_answer)" "$(cat "$work/computed")" "the answer"
	grep -q 'no room for it on disk' "$work/why" || fail "$(cat "$work/why")"
}
claim "without room on disk the text is computed again" too_small
finish
