#!/bin/sh
# What else could it have said? examples/forks.sh SESSION HOW_MANY QUESTION
#
# SESSION is a session's folder in the mount (or the model's own). QUESTION is asked of HOW_MANY forks of it, each with a
# seed of its own, and the session stays as it was. What it has read is not computed again: a fork shares that. Where the
# session has temperature 0, at which all would say the same, the forks take the model's own temperature.
set -eu
[ $# = 3 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
[ -e "$1/prompt" ] || { echo "$1 is not a session's or a model's folder in a mount of moefs" >&2; exit 1; }
case $2 in
'' | *[!0-9]* | 0) echo "HOW_MANY is a number from 1, not $2" >&2; exit 2 ;;
esac
session=$1 i=0
[ ! -d "$1/sessions" ] || session=$1/sessions/default # the model's own files are those of this one
session=$(cd "$session" && pwd)
fail() { cat "$fork/error" >&2; exit 1; }

while [ $((i += 1)) -le "$2" ]; do
	fork=$session.fork.$$
	echo "fork ${fork##*/}" > "$session/ctl" || { cat "$session/error" >&2; exit 1; }
	trap 'rmdir "$fork"' EXIT
	trap 'exit 1' INT TERM
	echo "$i" > "$fork/params/seed"
	[ "$(cat "$fork/params/temperature")" != 0 ] || echo auto > "$fork/params/temperature"
	printf '%s\n' "$3" > "$fork/prompt" || fail
	printf '%d: ' "$i"
	cat "$fork/output" || fail
	rmdir "$fork"
	trap - EXIT
done
