#!/bin/sh
# A layer that stays in memory: examples/pin.sh MODEL LAYER QUESTION
#
# MODEL is a model's folder in the mount, LAYER a layer's number as `ls experts` has it. The layer is pinned by its sticky
# bit, QUESTION is asked, what had to be read is told, and the layer is let go again. Where it is more than the budget
# allows, chmod says so. Gives up where no expert has come into memory for a minute.
set -eu
[ $# = 3 ] || { sed -n '2,7s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }
layer=$1/experts/$2
[ -d "$layer" ] || { echo "there is no layer $2: ls $1/experts" >&2; exit 1; }
fail() { cat "$1/../error" >&2; exit 1; }

chmod +t "$layer" || fail "$1"
trap 'chmod -t "$layer"; rm -f "$1/ask.d/pin.$$"' EXIT
trap 'exit 1' INT TERM
left=240 before=
while missing=$(find "$layer" -type f -size 1 | wc -l); [ "$missing" -gt 0 ]; do # an expert of one block is not in memory yet
	[ "$missing" = "$before" ] || { left=240 before=$missing; }
	[ $((left -= 1)) -gt 0 ] || { echo "experts of layer $2 do not come into memory: $missing are missing" >&2; fail "$1"; }
	sleep 0.25
done
printf '%s\n' "$3" > "$1/ask.d/pin.$$" || fail "$1"
cat "$1/ask.d/pin.$$" || fail "$1"
du -h --max-depth 0 "$layer"
