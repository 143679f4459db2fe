#!/bin/sh
# What else could it have said? examples/forks.sh SESSION HOW_MANY QUESTION
#
# SESSION is a session's folder in the mount. QUESTION is asked of HOW_MANY forks of it, each with a seed of its own, and
# the session stays as it was. What it has read is not computed again: a fork is a copy of `state`.
set -eu
[ $# = 3 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
session=$1 i=0

while [ $((i += 1)) -le "$2" ]; do
	fork=$(dirname "$session")/$(basename "$session").fork.$$
	mkdir "$fork"
	trap 'rmdir "$fork"' EXIT
	trap 'exit 1' INT TERM
	cp "$session/state" "$fork/state"
	echo "$i" > "$fork/params/seed"
	printf '%s\n' "$3" > "$fork/prompt"
	printf '%d: ' "$i"
	cat "$fork/output" || { cat "$fork/error" >&2; exit 1; }
	rmdir "$fork"
	trap - EXIT
done
