#!/bin/bash
# The examples that work on a mount: what they print, and that they say what was wrong and leave nothing behind.
# (demo.sh is run by readme.sh, tools.sh by toolcalls.sh.)
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || skip_all "jq is missing"
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "the answers are those of fable-moe-15m, not of $MODEL"
mounted
loaded
echo 0 >sessions/default/params/temperature
echo 0 >sessions/default/params/max_tokens # a form needs its room

run() { timeout $limit "$root/examples/$1.sh" "${@:2}" 2>"$work/errors"; }
says() { grep -qF -- "$1" "$work/errors" || fail "not said: $1, but $(cat "$work/errors")"; }

edits() {
	run edit . "What is 9 x 4?" && fail "edited where nothing was asked"
	says "no question was asked yet"
	ask "What is the capital of France?" >/dev/null
	ask "What is 12 x 6?" >/dev/null
	same "$(run edit . "What is 9 x 4?")" "9 x 4 = 36"
	same "$(jq -r '.[].content' messages.json)" "$(printf '%s\n' "What is the capital of France?" \
		"The capital of France is Paris." "What is 9 x 4?" "9 x 4 = 36")"
}
compares() {
	local rome=$work/rome paris=$work/paris
	echo "The capital of France is Rome." >"$rome"
	echo "The capital of France is Paris." >"$paris"
	same "$(run perplexity . "$rome" "$paris" | cut -f 2-)" "$(printf '9\t%s\n9\t%s' "$paris" "$rome")"
	run perplexity . "$paris" "$work/none" && fail "a file that is missing"
	says "$work/none is missing or empty"
	seq 5000 >"$work/long"
	run perplexity . "$work/long" && fail "a text that is longer than the context"
	says "score it in parts"
}
parses() {
	echo '{"type": "object", "properties": {"capital": {"enum": ["Lima", "Quito"]}, "sea": {"type": "boolean"}},
		"required": ["capital", "sea"], "additionalProperties": false}' >"$work/schema"
	run json . "$work/schema" "What is the capital of Peru?" >"$work/said" || fail "status $?: $(cat "$work/errors")"
	jq -e '(.capital | . == "Lima" or . == "Quito") and (.sea | type == "boolean") and length == 2' "$work/said" >/dev/null ||
		fail "it says $(cat "$work/said")"
	echo '{"typ": "object"}' >"$work/schema"
	run json . "$work/schema" "What is the capital of Peru?" && fail "no schema"
	says '"typ" is not known'
	same "$(ls sessions)" default "left behind"
}
claim "edit.sh asks another question in the last one's place" edits
claim "perplexity.sh names the likelier text first" compares
claim "json.sh gives what its schema says" parses
finish
