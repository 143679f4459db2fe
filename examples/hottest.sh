#!/bin/sh
# Which experts were used last? examples/hottest.sh MODEL [HOW_MANY]
#
# MODEL is a model's folder in the mount. A line for each of the 10 (or HOW_MANY) that were used last and are in memory
# or on the GPU: when, their bytes there in KiB, layer/expert. An expert's access time is its last use, its blocks are its
# memory (one block: it is in neither): find and sort know both.
set -eu
[ $# -ge 1 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
[ -e "$1/experts/map" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }
case ${2:-10} in
*[!0-9]* | 0) echo "HOW_MANY is a number from 1, not $2" >&2; exit 2 ;;
esac

find "$1/experts" -path '*/[0-9]*/[0-9]*' -printf '%b %A@ %AT %k %P\n' | awk '$1 > 1' |
	sort -k 2,2gr -k 5 | head -n "${2:-10}" | cut -d ' ' -f 3-
