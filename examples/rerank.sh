#!/bin/sh
# Orders files by how well they answer a question, the best first: the model is asked about each one,
# may only say yes or no, and the files are sorted by the probability of yes.
#
#     rerank.sh MOUNT/MODEL QUESTION FILE...
#
# It needs a model that can judge a text, unlike the demonstration model.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 MOUNT/MODEL QUESTION FILE..." >&2; exit 2; }
model=$1 question=$2
shift 2
for file; do
	[ -r "$file" ] || { echo "$file cannot be read" >&2; exit 1; }
done
session=$model/sessions/rerank-$$
mkdir "$session"
printf 'yes\nno\n' >"$session/choices"
echo choices >"$session/params/format"
echo off >"$session/params/thinking" 2>/dev/null || : # where the template knows thinking
scored=$(mktemp)
trap 'rmdir "$session"; rm -f "$scored"' EXIT
for file; do
	echo reset >"$session/ctl"
	{
		echo "Does this text answer the question \"$question\"? Say yes or no."
		cat "$file"
	} >"$session/prompt"
	cat "$session/output" >/dev/null || { cat "$session/error" >&2; exit 1; }
	yes=$(awk -F '\t' '$3 == "yes" { print $1 }' "$session/choices.tsv")
	printf '%s\t%s\n' "$yes" "$file"
done >"$scored"
LC_ALL=C sort -grs "$scored"
