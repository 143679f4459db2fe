#!/usr/bin/env bash
# choices: an answer is one of a list, and choices.tsv says how likely each was.
. "$(dirname "$0")/lib.sh"
mounted
loaded
cd sessions/default || exit 1
echo 0 >params/temperature
echo choices >params/format

compares() {
	printf '%s\n' yes no "The capital of France is Paris." >choices || fail "refused"
	same "$(cat choices)" "$(printf '%s\n' yes no "The capital of France is Paris.")"
	[ "$(ask "What is the capital of France?")" = "The capital of France is Paris." ] || fail "$(cat output error)"
	same "$(cut -f3 choices.tsv | sort)" "$(sort choices)" "every candidate has a line"
	same "$(head -1 choices.tsv | cut -f3)" "$(cat output)" "the most probable first"
	awk -F '\t' '{ s += $1; if (NR > 1 && $2 > last) exit 1; last = $2 } END { exit !(s > 0.9999 && s < 1.0001) }' choices.tsv ||
		fail "$(cat choices.tsv)"
	same "$(stat -c %a choices choices.tsv | sort -u)" 600
}
claim "a script compares the answer" compares

lists() {
	echo '["two\nlines", "a\tb"]' >choices || fail "refused"
	ask "Say something." >"$work/said"
	same "$(cut -f3- choices.tsv | sort)" "$(printf '%s\n' 'a\tb' 'two\nlines')"
	grep -qx -e 'two' -e $'a\tb' "$work/said" || fail "$(cat "$work/said")"
}
claim "a list in JSON" lists

ignores() {
	printf '%s\n' yes no >choices
	echo 1 >params/max_tokens
	ask "Say something." >"$work/said"
	same "$(grep ignored stats)" "ignored max_tokens"
	echo 0 >params/max_tokens
	ask "Say something." >"$work/said"
	same "$(grep ignored stats)" ""
}
claim "what is ignored is in stats" ignores

copies() {
	cp state "$work/state" && mkdir ../copy && cp "$work/state" ../copy/state || fail "not copied"
	same "$(cat ../copy/choices ../copy/choices.tsv)" "$(cat choices choices.tsv)"
	rmdir ../copy
}
claim "a state has the choices" copies

refuses() {
	printf '%s\n' a a >"$work/twice"
	fails_with "Invalid argument" cp "$work/twice" choices
	grep -q "candidates 1 and 2 are the same" error || fail "$(cat error)"
	head -c 5000000 /dev/zero | tr '\0' x >"$work/long"
	shell_fails_with "File too large" "cat '$work/long' > choices"
	same "$(cat choices)" "$(printf '%s\n' yes no)" "the choices are those that were there"
	echo >choices
	echo "Say something." >prompt
	cat output 2>/dev/null && fail "an answer"
	grep -q "write the candidates to choices" error || fail "$(cat error)"
}
claim "bad choices are refused in words" refuses

ranks() {
	echo "The capital of France is Paris." >"$work/paris"
	seq 9 >"$work/numbers"
	"$root/examples/rerank.sh" "$m" "What is the capital of France?" "$work/paris" "$work/numbers" >"$work/ranked" || fail "status $?"
	same "$(cut -f2 "$work/ranked" | sort)" "$(printf '%s\n' "$work/numbers" "$work/paris")"
	LC_ALL=C sort -c -grs "$work/ranked" || fail "$(cat "$work/ranked")"
	"$root/examples/rerank.sh" "$m" "What?" "$work/none" 2>"$work/errors" && fail "a file that is missing"
	grep -q "cannot be read" "$work/errors" || fail "$(cat "$work/errors")"
	same "$(ls ../)" default "left behind"
}
claim "examples/rerank.sh orders texts by the probability of yes" ranks
finish
