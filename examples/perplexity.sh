#!/bin/sh
# Which text does a model find likelier? examples/perplexity.sh MODEL FILE...
#
# MODEL is a model's folder in the mount. A line for each FILE, the likeliest first: its perplexity, how many tokens it
# is, its name. Perplexities are for one model's tokens: two models' are not to be compared.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }
model=$1
shift

lines=
for file; do
	[ -s "$file" ] || { echo "$file is missing or empty" >&2; exit 1; }
	scored=$(sh -c 'exec 3<>"$0"; cat >&3; cat <&3' "$model/score" < "$file") || { cat "$model/../error" >&2; exit 1; }
	lines=$lines$(printf '%s\n' "$scored" | awk '$1 == "perplexity" { printf "%s\t%d\t", $2, NR - 2 }')$file'
'
done
printf %s "$lines" | sort -g
