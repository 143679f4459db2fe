#!/usr/bin/env bash
# A model with embeddings of n-grams reads them in its source: info/ngrams says how large the tables are and how much of
# them is in memory, stats how many rows an answer took; looking reads nothing. Without its source it says what it needs.
. "$(dirname "$0")/lib.sh"
command -v zstd >/dev/null || skip_all "no zstd, which unpacks the fixture"
MODEL=$work/one
mkdir -p "$MODEL"
for f in "$root"/tests/data/fixtures/qwen4_exp/*; do
	case $f in
	*golden*) ;;
	*.zst) zstd -qdc "$f" >"$MODEL/$(basename "$f" .zst)" ;;
	*.packed) "$root/build/pack" -d "$f" "$MODEL/$(basename "$f" .packed)" || exit 1 ;;
	*) cp "$f" "$MODEL" ;;
	esac
done
m=$mnt/one
of() { awk -v key="$1" '$1 == key { print $2 }' "$m/info/ngrams"; }

answered() {
	mounted
	loaded
	(cd "$m/sessions/default" && echo 6 >params/max_tokens && ask "The river runs under the bridge") >/dev/null
	same "$(of bytes)" 32256 "bytes of the tables"
	[ "$(of rows)" -gt 100 ] || fail "$(of rows) rows were read"
	same "$(awk '$1 == "ngram_rows" { print $2 }' "$m/sessions/default/stats")" "$(of rows)" "rows of the one session, and of all"
	[ "$(of in_memory)" -le 40960 ] || fail "$(of in_memory) bytes in memory"
	before=$(of rows)
	cat "$m/info/ngrams" >/dev/null
	same "$(of rows)" "$before" "rows after looking"
	cd /
	unmounted
}
claim "rows are counted, for the session and for the model" answered

left_out() {
	mounted
	loaded
	same "$(cat "$m/info/left_out")" "model.visual. tensors 1 bytes 16"
	cd /
	unmounted
}
claim "what of the checkpoint is not used is listed" left_out

gone() {
	mv "$MODEL/model.safetensors" "$work/away"
	"$MOEFS" -o "store=$store" "$MODEL" "$mnt" 2>"$work/said" && fail "a model without its source was mounted"
	grep -q "no weights" "$work/said" || fail "said: $(cat "$work/said")"
}
claim "without its source a model with a complete store is refused, and says what is missing" gone
finish
