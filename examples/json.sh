#!/bin/sh
# An answer that a script can rely on: examples/json.sh MODEL SCHEMA QUESTION
#
# MODEL is a model's folder in the mount, SCHEMA a file with a JSON schema. Prints an answer that is valid by it, in a
# session of its own. What the model knows is another question: the form is certain, and the facts are not.
set -eu
[ $# = 3 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }

session=$1/sessions/json.$$
mkdir "$session"
trap 'rmdir "$session"' EXIT
trap 'exit 1' INT TERM
fail() { cat "$session/error" >&2; exit 1; }
echo schema > "$session/params/format"
cat "$2" > "$session/params/grammar" # closes it; what is wrong with it is in error
[ ! -s "$session/error" ] || fail
printf '%s\n' "$3" > "$session/prompt" || fail
cat "$session/output" || fail
finish=$(sed -n "s/^finish //p" "$session/stats")
[ "$finish" = end ] || { echo "the answer is not complete: finish $finish" >&2; exit 1; }
