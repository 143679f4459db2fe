#!/bin/sh
# Which experts are in memory, as they come and go: examples/watch.sh MODEL
#
# MODEL is a model's folder in the mount. A digit is an expert in memory, a letter one that is not, each by how often it
# was used; a dot was never used. What has changed since the last second stands out. Ctrl-C ends it.
set -eu
[ $# = 1 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }
cd "$1"
exec watch --differences --interval 1 'cat experts/map; df -h --output=size,used,pcent . | tail -n 1; cat status'
