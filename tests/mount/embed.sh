#!/usr/bin/env bash
# embed, embed.npy, embed.d: vectors of texts. And what examples/meaning.sh makes of them.
. "$(dirname "$0")/lib.sh"
python3 -c 'import numpy' 2>/dev/null || skip_all "no NumPy"
mounted
loaded
array() { timeout $limit sh -c 'exec 3<>embed.npy; cat >&3; cat <&3'; } # texts in, the file out
line() { exec 3<>embed; printf '%s\n' "$1" >&3 || return 1; timeout $limit cat <&3; exec 3>&-; }

agree() {
	printf '%s\0' "a text" "another text" "a text" | array >"$work/v.npy" || fail "not embedded"
	line "a text" >"$work/line"
	echo "a text" >embed.d/one && timeout $limit cat embed.d/one >"$work/named"
	same "$(cat "$work/named")" "$(cat "$work/line")" "embed.d and embed"
	same "$(ls embed.d ask.d | grep -c one)" 0 "the name stays"
	python3 - "$work/v.npy" "$work/line" <<'PY' || fail "the numbers"
import sys, numpy as np
v, line = np.load(sys.argv[1]), np.loadtxt(sys.argv[2], dtype=np.float32)
assert v.shape == (3, line.size) and v.dtype == np.float32, v.shape
assert (v[0] == v[2]).all() and (v[0] == line).all() and not (v[0] == v[1]).all()
PY
	[ "$(wc -l <"$work/line")" = 1 ] || fail "more than a line"
}
claim "a line, an array and a name have the same numbers" agree

says_how() { same "$(cat info/embedding)" "mean of the tokens (the checkpoint says nothing of embeddings)"; }
claim "info says how a vector is made" says_how

refuses() {
	exec 3<>embed
	printf 'a\0b' >&3
	timeout $limit cat <&3 2>/dev/null && fail "a NUL byte"
	exec 3>&-
	grep -q "embed.npy takes several texts" "$mnt/error" || fail "$(cat "$mnt/error")"
	printf 'a\0\0b' | array >/dev/null 2>&1 && fail "an empty text"
	grep -q "text 2 has no tokens" "$mnt/error" || fail "$(cat "$mnt/error")"
	fails_with "Invalid argument" sh -c 'echo x > embed'
	same "$(cat messages.json)" "[]" "a conversation"
}
claim "what cannot be embedded is refused in words" refuses

looking() { # find and grep read nothing from it
	same "$(timeout $limit cat embed embed.npy)" ""
	same "$(ls -A embed.d)" ""
}
claim "looking embeds nothing" looking

finds() {
	local texts=$work/texts
	mkdir -p "$texts/below" && printf 'The capital of France is Paris.\n\nA fox lives in the wood.\n' >"$texts/a"
	echo "1 2 3 4 5" >"$texts/below/b"
	timeout $limit "$root/examples/meaning.sh" "$m" "$texts" "The capital of France is Paris." 2 >"$work/found" 2>"$work/said" ||
		fail "status $?: $(cat "$work/said")"
	same "$(head -1 "$work/found" | cut -f 2)" "$texts/a:1"
	same "$(wc -l <"$work/found")" 2
	same "$(cat "$work/said")" "2 of 2 files read"
	timeout $limit "$root/examples/meaning.sh" "$m" "$texts" "A fox lives in the wood." 1 >"$work/found" 2>"$work/said"
	same "$(cut -f 2 "$work/found")" "$texts/a:3"
	same "$(cat "$work/said")" "0 of 2 files read" "the index is not used"
	python3 - "$texts/.meaning.npz" <<'PY'
import sys, numpy as np
z = dict(np.load(sys.argv[1]))
z["model"] = "somebody else's"
np.savez(sys.argv[1], **z)
PY
	timeout $limit "$root/examples/meaning.sh" "$m" "$texts" "A fox." 1 >"$work/found" 2>"$work/said"
	grep -q "was made by another model (somebody else's)" "$work/said" || fail "$(cat "$work/said")"
}
claim "examples/meaning.sh finds paragraphs, and keeps their vectors" finds
finish
