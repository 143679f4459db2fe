#!/bin/sh
# What is in these files? examples/summarise.sh MODEL FILE...
#
# MODEL is a model's folder in the mount. A line or more for each FILE, in a session of its own that each file finds empty.
# INSTRUCTION in the environment asks for something else than a summary.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
session=$1/sessions/summarise.$$
shift
mkdir "$session"
trap 'rmdir "$session"' EXIT
trap 'exit 1' INT TERM

for file; do
	{ echo "${INSTRUCTION:-Sum up this text in one sentence:}"; cat "$file"; } > "$session/prompt" || continue
	printf '%s: ' "$file"
	cat "$session/output" || cat "$session/error" >&2
	echo reset > "$session/ctl"
done
