#!/bin/sh
# How much sooner many questions are answered side by side: examples/side_by_side.sh MODEL [JOBS] < QUESTIONS
#
# MODEL is a model's folder in the mount, QUESTIONS has one a line. Asks them one after the other, then JOBS (32) at a time,
# and prints both times. Each is a conversation of its own that shares nothing with others, so all answers must be the same
# both times, and none is found in MODEL/prefixes. For example:
# jq -r .question examples/models/fable-moe-15m/skills.jsonl | head -100 | examples/side_by_side.sh ~/m/fable-moe-15m
set -eu
[ $# -ge 1 ] || { sed -n '2,7s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }

model=$(cd "$1" && pwd) jobs=${2:-32}
case $jobs in 0* | *[!0-9]*) echo "JOBS is a number from 1 on, not $jobs" >&2; exit 2 ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
cd "$folder"
mkdir questions once together
awk '{ print > "questions/" NR; close("questions/" NR) }'
count=$(find questions -type f | wc -l)
[ "$count" -gt 0 ] || { echo "there are no questions on standard input" >&2; exit 1; }

# A question in a session of its own, at temperature 0.
cat >ask <<'END'
number=${2##*/} session=$1/sessions/side_by_side.$PPID.${2##*/}
mkdir "$session" || exit 255
trap 'rmdir "$session"' EXIT
trap 'exit 255' INT TERM
echo 0 >"$session/params/temperature" && echo "${session##*/}" >"$session/params/share_with" || exit 255
cat "$2" >"$session/prompt" && cat "$session/output" >"$3/$number" || { cat "$session/error" >&2; exit 255; }
END
# JOBS FOLDER: answers all questions into the folder, and sets `seconds`.
answer_all() {
	began=$(date +%s.%N)
	find questions -type f | sort -t / -k 2n | xargs -P "$1" -I '{}' sh ask "$model" '{}' "$2"
	seconds=$(echo "$(date +%s.%N) $began" | awk '{ print $1 - $2 }')
}
mkdir before && sh ask "$model" questions/1 before # loads the model
answer_all 1 once
alone=$seconds
answer_all "$jobs" together
diff -r once together >&2 || { echo "an answer depends on what is asked beside it: please report this" >&2; exit 1; }
echo "$count $alone $jobs $seconds" | awk '{
	printf "%d questions one after the other: %.1f s\n%d at a time: %.1f s, %.2f times as fast\n", $1, $2, $3, $4, $2 / $4 }'
