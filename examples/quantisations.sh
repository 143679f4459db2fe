#!/bin/sh
# What do fewer bits cost a model? examples/quantisations.sh MODELDIR TEXT [QUANT...]
#
# Mounts the checkpoint MODELDIR once for each QUANT (bf16 and 3bit), scores the file TEXT, and prints each perplexity:
# how surprised the model is by the text. The stores lie beside the checkpoint, as always, and stay.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -f "$2" ] && [ -s "$2" ] || { echo "$2 is missing or empty" >&2; exit 1; }
moefs=$(command -v moefs || echo "$(dirname "$0")/../build/moefs")
model=$1 text=$2
shift 2
[ $# -gt 0 ] || set -- bf16 3bit

mount=$(mktemp -d)
trap 'fusermount3 -u "$mount" 2>/dev/null || :; rmdir "$mount"' EXIT
trap 'exit 1' INT TERM
status=0
for quant; do
	"$moefs" -o quant="$quant,name=model" ${STORE:+-o "store=$STORE"} "$model" "$mount"
	if scored=$(sh -c 'exec 3<>"$0"; cat >&3; cat <&3' "$mount/model/score" < "$text"); then
		printf '%s ' "$quant"
		printf '%s\n' "$scored" | tail -n 1
	else
		cat "$mount/error" >&2
		status=1
	fi
	fusermount3 -u "$mount"
done
exit $status
