#!/usr/bin/env bash
# Answers for scripts: constrained to JSON, to a schema, or to a regular expression, through the mount.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded
cd sessions/default || exit 1
echo 300 >params/max_tokens

free() { echo text >params/format; echo >params/grammar; echo 0 >params/temperature; }
parses() { # at temperatures from 0 to one that rambles
	local t
	echo json >params/format
	for t in 0 0.8 1.5; do
		echo $t >params/temperature
		ask "Write JSON for Mary, 46 years old, from Islamabad." >"$work/answer" || fail "no answer at $t"
		grep -qx 'finish end' stats || { grep -qx 'finish length' stats && continue; fail "$(grep finish stats)"; }
		jq -e 'type == "object" or type == "array"' "$work/answer" >/dev/null || fail "at $t: $(cat "$work/answer")"
	done
	echo 0 >params/temperature
	same "$(ask "Write JSON for Mary, 46 years old, from Islamabad." | jq -r .city)" Islamabad
	free
}
schema='{"type":"object","required":["name","age"],"additionalProperties":false,
"properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":18,"maximum":65}}}'
fits_schema() {
	local seed
	echo schema >params/format
	echo "$schema" >params/grammar
	same "$(cat params/grammar)" "$schema"
	echo 1.5 >params/temperature
	for seed in 1 2 3 4; do
		echo $seed >params/seed
		ask "Who are you?" | jq -e '(keys == ["age", "name"]) and (.age >= 18 and .age <= 65) and
			(.age == (.age | floor)) and (.name | length <= 12)' >/dev/null || fail "$(cat output)"
		same "$(grep finish stats)" "finish end"
	done
	free
}
fits_regex() {
	echo regex >params/format
	{ printf '(yes|no), '; printf '[a-z]{3,8}\n'; } >params/grammar # in pieces
	echo 1.5 >params/temperature
	ask "Is the sky blue?" | grep -qxE '(yes|no), [a-z]{3,8}' || fail "$(cat output)"
	free
}
refused() { # FORMAT SOURCE WORDS
	echo >params/grammar
	echo "$1" >params/format
	sh -c 'printf "%s" "$1" >params/grammar' sh "$2" 2>/dev/null
	grep -qF -- "$3" error ../../../error || fail "$2: error says $(cat error ../../../error)"
	same "$(cat params/grammar)" "" "what was refused"
}
in_words() {
	fails_with "Invalid argument" bash -c 'echo yaml >params/format'
	fails_with "Invalid argument" bash -c 'echo "two words" >params/tool_choice'
	refused schema '{"type": "strin"}' '"strin" is not a type'
	refused schema '{"uniqueItems": true}' 'uniqueItems'
	refused schema '{' 'schema'
	refused regex '(a' 'the group is not closed'
	refused regex '(a)\1' 'not supported'
	refused regex 'a{99999}' '10000'
	ask "What is the capital of France?" >/dev/null 2>&1 && fail "a regex that is missing was not missed"
	grep -q 'params/grammar is empty' error || fail "$(cat error)"
	free
	ask "What is the capital of France?" | grep -q Paris || fail "afterwards: $(cat output)"
}
costly='((a|b){1,1000}){1,1000}'
# Its writer waits; requests of others are answered meanwhile.
compiling() { # COMMAND: a shell's
	local writer seen status
	: >"$MOEFS_HOLD_GRAMMAR"
	sh -c "$1" 2>"$work/said" &
	writer=$!
	until_true_by $writer test -e "$MOEFS_HOLD_GRAMMAR.stands" && seen=$(timeout "$limit" bash -c meanwhile 2>&1)
	rm -f "$MOEFS_HOLD_GRAMMAR" "$MOEFS_HOLD_GRAMMAR.stands"
	wait $writer
	status=$?
	same "${seen#*$'\n'}" Paris "while a grammar is compiled for $1"
	return $status
}
meanwhile() { # the tree, this session and another one answer
	ls params ../.. >/dev/null && mkdir ../other && echo text >../other/params/format &&
		echo "What is the capital of France?" >../other/prompt &&
		cat status && grep -o Paris ../other/output
	rmdir ../other
}
export -f meanwhile
keeps_nobody_waiting() {
	echo regex >params/format
	compiling "echo '$costly' >params/grammar" # not every shell says that a close failed
	grep -q 'params/grammar.*too large.*smaller' error || fail "$(cat error)"
	compiling "echo 'answer grammar=$costly' >ctl" && fail "ctl took it"
	grep -q 'params/grammar.*too large.*smaller' error || fail "$(cat error)"
	same "$(cat params/grammar)" "" "what was refused"
	echo text >params/format
	echo "$costly" >params/grammar
	compiling "echo regex >params/format" || fail "a format is not taken: $(cat "$work/said")"
	free
}
warned_of() { # FORMAT SOURCE WORDS
	echo text >params/format
	echo "$2" >params/grammar || fail "a grammar before its format is refused"
	echo "$1" >params/format || fail "a format is refused for the grammar that is there"
	grep -qF "params/grammar (params/format is $1): $3" error || fail "the warning: $(cat error)"
	ask "What is the capital of France?" >/dev/null 2>&1 && fail "a wrong grammar was not missed"
	grep -qF "params/grammar (params/format is $1): $3" error || fail "the turn's reason: $(cat error)"
	free
}
mended() {
	ask "What is the capital of France?" >/dev/null
	echo "(a" >params/grammar && echo regex >params/format
	[ -s error ] || fail "no warning"
	echo "(a)" >params/grammar
	same "$(cat error)" "" "error once the grammar is right"
	echo text >params/format && echo "(a" >params/grammar && echo regex >params/format
	[ -s error ] || fail "no warning the second time"
	echo text >params/format
	same "$(cat error)" "" "error once the format is another one"
	free
}
claim "format json gives what jq parses" parses
claim "format schema gives text that is valid by the schema" fits_schema
claim "format regex gives text that matches the expression" fits_regex
claim "errors give a reason" in_words
claim "a grammar is compiled where nobody waits for it but its writer" keeps_nobody_waiting
claim "a format warns of the schema that is there, and so does the turn" warned_of schema hello "schema: not JSON"
claim "a format warns of the regex that is there, and so does the turn" warned_of regex "(a" "regex: byte 0"
claim "the warning goes with its reason" mended
finish
