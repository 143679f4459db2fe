#!/bin/sh
# What is in these files? examples/summarise.sh MODEL FILE...
#
# MODEL is a model's folder in the mount. A line or more for each FILE, in a session of its own that each file finds empty.
# INSTRUCTION in the environment asks for something else than a summary. Returns 1 if a file could not be read or answered.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }
if [ -z "${INSTRUCTION:-}" ] && [ "$(cat "$1/info/parameters")" -lt 100000000 ]; then
	echo "$1 is too small to sum up a text: it has $(cat "$1/info/parameters") parameters." >&2
	echo "Take a model of a billion or more, or ask for something that it can do, as by INSTRUCTION='Answer this:'." >&2
	exit 1
fi
session=$1/sessions/summarise.$$ status=0
shift
mkdir "$session"
trap 'rmdir "$session"' EXIT
trap 'exit 1' INT TERM

for file; do
	[ -f "$file" ] && [ -r "$file" ] || { echo "$file cannot be read" >&2; status=1; continue; }
	{ echo "${INSTRUCTION:-Sum up this text in one sentence:}"; cat "$file"; } > "$session/prompt" || :
	if answer=$(cat "$session/output"); then # which fails of a refused prompt, too
		printf '%s: %s\n' "$file" "$answer"
	else
		cat "$session/error" >&2
		status=1
	fi
	echo reset > "$session/ctl"
done
exit $status
