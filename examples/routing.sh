#!/bin/sh
# A picture of the routing: examples/routing.sh MODEL QUESTION PICTURE.png
#
# MODEL is a model's folder in the mount. QUESTION is asked in a session of its own, the answer is printed, and the
# picture shows how often each expert (across) of each layer (down) was picked for a token of either. Needs gnuplot.
set -eu
[ $# = 3 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }
model=$1 name=routing.$$
counts=$(mktemp)
mkdir "$model/sessions/$name"
trap 'rmdir "$model/sessions/$name"; rm -f "$counts"' EXIT
trap 'exit 1' INT TERM

fail() { cat "$model/sessions/$name/error" >&2; exit 1; }

# The trace is opened before the question is asked: a reader sees what follows its opening.
exec 3< "$model/experts/trace"
printf '%s\n' "$2" > "$model/sessions/$name/prompt" || fail
awk -v name="$name" -v experts="$(cat "$model/info/experts")" -v layers="$(cat "$model/info/layers")" '
	$1 == name { for (i = 5; i <= NF; i++) picked[$4 + 0, $i + 0]++ }
	END { for (l = 0; l < layers; l++) for (e = 0; e < experts; e++) printf "%d%s", picked[l, e], e < experts - 1 ? " " : "\n" }
' <&3 > "$counts"
cat "$model/sessions/$name/output" || fail

gnuplot <<END
set terminal pngcairo size 960, 480
set output "$3"
set title "experts picked"
set xlabel "expert"
set ylabel "layer"
set autoscale fix
set yrange [] reverse
plot "$counts" matrix with image notitle
END
