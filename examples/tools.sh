#!/bin/sh
# A model that uses tools: examples/tools.sh SESSION TOOLS QUESTION
#
# SESSION is a session's folder in the mount (or the model's own). TOOLS has tools.json, the functions on offer, and a
# program of each function's name: it reads the call's arguments as JSON and writes the result. What the programs do is
# theirs to check: a model calls them with whatever it likes. Needs jq.
set -eu
[ $# = 3 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
[ -e "$1/prompt" ] || { echo "$1 is not a session's or a model's folder in a mount of moefs" >&2; exit 1; }
session=$1 tools=$2

run() { # NAME ARGUMENTS: what that tool says, or why it says nothing
	if jq -e --arg name "$1" 'any(.[]; .function.name == $name)' "$tools/tools.json" >/dev/null; then
		printf '%s\n' "$2" | "$tools/$1" 2>&1 || echo "it failed with status $?"
	else
		echo "there is no such tool"
	fi
}

fail() { cat "$session/error" >&2; exit 1; }
answer() { cat "$session/output" || fail; }

[ -r "$tools/tools.json" ] || { echo "$tools/tools.json cannot be read" >&2; exit 1; }
cp "$tools/tools.json" "$session/tools.json" || fail
printf '%s\n' "$3" > "$session/prompt" || fail
answer
while [ "$(jq length "$session/tool_calls.json")" -gt 0 ]; do
	jq -c '.[]' "$session/tool_calls.json" | while read -r call; do
		name=$(printf '%s\n' "$call" | jq -r .function.name)
		result=$(run "$name" "$(printf '%s\n' "$call" | jq -c .function.arguments)")
		printf '%s\n' "$call" | jq -c --arg result "$result" '{tool_call_id: .id, content: $result}'
	done > "$session/tool_result"
	answer
done
