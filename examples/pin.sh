#!/bin/sh
# A layer that stays in memory: examples/pin.sh MODEL LAYER QUESTION
#
# MODEL is a model's folder in the mount, LAYER a layer's number as `ls experts` has it. The layer is pinned by its sticky
# bit, QUESTION is asked, what had to be read is told, and the layer is let go again. Where it is more than the budget
# allows, chmod says so.
set -eu
[ $# = 3 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
layer=$1/experts/$2

chmod +t "$layer" || { cat "$1/../error" >&2; exit 1; }
trap 'chmod -t "$layer"' EXIT
trap 'exit 1' INT TERM
until [ -z "$(find "$layer" -type f -size 1)" ]; do sleep 0.1; done # an expert of one block is not in memory yet
printf '%s\n' "$3" > "$1/ask.d/pin.$$"
cat "$1/ask.d/pin.$$"
du -h --max-depth 0 "$layer"
