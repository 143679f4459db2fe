#!/bin/sh
# Finds the commit since which an answer is another one, by git bisect, in a repository that has questions in files
# NAME.question. For each commit that is tried, make has all of them answered, eight at a time (ask.mk); in a mount with
# -o remember=DIR only those that were never asked before are computed.
#
#     bisect.sh MOUNT/MODEL NAME GOOD [BAD]
#
# GOOD is a commit at which NAME's answer was still as it should be. Stand in a clean repository; it is as before
# afterwards. Prints the first commit with another answer, and how many answers were computed.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 MOUNT/MODEL NAME GOOD [BAD]" >&2; exit 2; }
model=$1 name=$2 good=$3 bad=${4:-HEAD}
rules=$(cd "$(dirname "$0")" && pwd)/ask.mk
[ -z "$(git status --porcelain)" ] || { echo "commit first: bisect changes the files" >&2; exit 1; }
answers=$(mktemp -d)
trap 'git bisect reset >/dev/null 2>&1 || true; rm -rf "$answers"' EXIT
count() { sed -n "s/^$1 //p" "$model/../cache/stats"; }
turns=$(count turns) remembered=$(count turns_remembered)

# What bisect runs for each commit. Status 1: the answer is another; 125: this commit has no such question, or no answer.
cat >"$answers/try" <<END
rm -f "$answers"/*.question "$answers"/*.answer
cp ./*.question "$answers" && cd "$answers" && [ -e "$name.question" ] || exit 125
make -s -j 8 -f "$rules" MODEL="$model" \$(ls ./*.question | sed 's/question\$/answer/') || exit 125
[ -e "$answers/right" ] || cp "$name.answer" "$answers/right"
cmp -s "$answers/right" "$name.answer"
END
here=$(git symbolic-ref -q --short HEAD || git rev-parse HEAD)
git checkout -q "$good"
sh "$answers/try" 2>"$answers/log" || { git checkout -q "$here"; cat "$answers/log" >&2; echo "$name has no answer at $good" >&2; exit 1; }
git checkout -q "$here"
git bisect start "$bad" "$good" >/dev/null
git bisect run sh "$answers/try" >"$answers/log" 2>&1 || { cat "$answers/log" >&2; exit 1; }
git log -1 --format='%h %s' refs/bisect/bad
turns=$(($(count turns) - turns)) remembered=$(($(count turns_remembered) - remembered))
echo "$turns answers, of which $((turns - remembered)) were computed"
