#!/bin/sh
# Another question in a conversation's place: examples/edit.sh SESSION QUESTION
#
# SESSION is a session's folder in the mount (or the model's own). Its last question becomes QUESTION, what came after it
# is forgotten, and the answer is printed; only what differs is computed. Needs jq.
set -eu
[ $# = 2 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -e "$1/prompt" ] || { echo "$1 is not a session's or a model's folder in a mount of moefs" >&2; exit 1; }
cd "$1"

# Truncation alone changes nothing, so the file may be read and written in one line; jq hears of a close that fails.
jq --arg question "$2" '
	(map(.role == "user") | rindex(true) // error("no question was asked yet")) as $last
	| .[:$last] + [.[$last] + {content: $question}]' messages.json > messages.json || { cat error >&2; exit 1; }
echo answer > ctl || { cat error >&2; exit 1; }
cat output || { cat error >&2; exit 1; }
