#!/bin/sh
# Finds the experts whose absence costs most on a text: turns each one off in turn, and scores the text.
# Prints how much the mean log-probability of a token falls, the largest loss first.
#
#     ablate.sh MOUNT/MODEL TEXT-FILE [HOW-MANY [LAYERS]]
#
# LAYERS is a pattern, such as '0[0-3]'; otherwise all layers are tried. score takes the params of
# sessions/default, so nobody else should change them meanwhile; they are put back at the end.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 MOUNT/MODEL TEXT-FILE [HOW-MANY [LAYERS]]" >&2; exit 2; }
model=$1 text=$2 most=${3:-10} layers=${4:-*}
[ -s "$text" ] || { echo "$text is missing or empty" >&2; exit 1; }
bias=$model/sessions/default/params/experts_bias
before=$(cat "$bias")
losses=$(mktemp)
trap 'printf "%s\n" "$before" >"$bias"; rm -f "$losses"' EXIT

mean() { # of the text's log-probabilities
	sh -c 'exec 3<>"$0"; cat "$1" >&3; cat <&3' "$model/score" "$text" | sed -n 's/^mean //p'
}
whole=$(mean)
[ -n "$whole" ] || { cat "$model/../error" >&2; exit 1; }
for layer in "$model"/experts/$layers/; do
	layer=$(basename "$layer")
	for expert in "$model/experts/$layer"/*; do
		[ -e "$expert" ] || continue # a dense layer
		name=$layer/$(basename "$expert")
		printf '%s\n%s off\n' "$before" "$name" >"$bias"
		printf '%s %s %s\n' "$whole" "$(mean)" "$name"
	done
done >"$losses"
awk '{ printf "%.6f\t%s\n", $1 - $2, $3 }' "$losses" | LC_ALL=C sort -gr | head -n "$most"
