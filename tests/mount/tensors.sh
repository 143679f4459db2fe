#!/usr/bin/env bash
# tensors/: every tensor of the checkpoint as a NumPy file, by its name, with the right size before it is read,
# readable at any offset and by mmap; the numbers are the published ones, or the recipe's; no model is loaded.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3, which reads the files"
one=$(readlink -f "$MODEL")
# A model of a folder is loaded by its first prompt.
mkdir -p "$work/models" && ln -s "$one" "$work/models/first" && ln -s "$one" "$work/models/second"
# A model with tensor names of any bytes, those of an image encoder, which is not used.
fixture=$root/tests/data/fixtures/qwen3_5
if command -v zstd >/dev/null; then
	mkdir "$work/models/named"
	for f in "$fixture"/*; do
		case $f in
		*.zst) zstd -qdc "$f" >"$work/models/named/$(basename "$f" .zst)" ;;
		*.packed) "$root/build/pack" -d "$f" "$work/models/named/$(basename "$f" .packed)" ;;
		*) cp "$f" "$work/models/named" ;;
		esac
	done
	python3 "$here/tensors.py" name "$work/models/named/model.safetensors" || skip_all "the fixture cannot be changed"
fi
MODEL=$work/models
m=$mnt mounted -o quant=tq3
cd "$mnt" || exit 1
first=$(find . -maxdepth 1 -name "$(basename "$one")*" | sort | head -1)
cd "$first" || exit 1
tool() { python3 "$here/tensors.py" "$@"; }
check() { tool compare "$1/tensors" "$one/model.safetensors" "$2"; }

listed() {
	tool names "$one/model.safetensors" | sed 's/$/.npy/' | LC_ALL=C sort >"$work/names"
	cmp "$work/names" <(find tensors -type f -printf '%P\n' | LC_ALL=C sort) || fail "$(ls tensors | wc -l) files"
	same "$(stat -c '%a %F' tensors)" "755 directory" && same "$(find tensors -type f ! -perm 0444 | wc -l)" 0 modes
	same "$(find tensors -type f -printf '%i\n' | sort -u | wc -l)" "$(wc -l <"$work/names")" "inode numbers"
	same "$(find "$mnt"/*/tensors -type f -printf '%i\n' | sort | uniq -d | wc -l)" 0 "inode numbers that two models share"
}
claim "each tensor has a file, called as it was published" listed
claim "its size is known before it is read" tool sizes tensors "$one/model.safetensors"
claim "quantised tensors are near the published ones, all others equal" check . 0.06
claim "NumPy's own readers open it" tool load tensors
other_names() {
	local file=$(ls tensors | head -1) name
	for name in "${file%.npy}" "${file%.npy}.NPY" ".npy" "./x.npy" "%6d${file#m}" "x~0123456789abcdef.npy" \
		"$(printf 'x%.0s' $(seq 251)).npy" "model.embed_tokens.npy"; do
		fails_with "No such file" stat "tensors/$name"
	done
}
claim "and by no other name" other_names
refused() {
	local file=tensors/$(ls tensors | head -1)
	fails_with "Operation not permitted" touch tensors/new.npy
	fails_with "Operation not permitted" mkdir tensors/new
	fails_with "Operation not permitted" rm -f "$file"
	fails_with "Operation not permitted" mv "$file" tensors/x.npy
	fails_with "Permission denied" dd if=/dev/null of="$file" conv=notrunc
	fails_with "Permission denied" truncate -s 0 "$file"
}
claim "nothing there can be written, made or removed" refused
claim "it can be read and mapped anywhere" tool random "tensors/$(ls -S tensors | head -1)"
named() {
	cd "../named/tensors" || fail "is not mounted: $(cat ../error)"
	tool named . || exit
	grep -rqs "no such words" . && fail "grep found what is not there"
	tar cf "$work/named.tar" . && same "$(tar tf "$work/named.tar" | grep -c npy)" "$(ls -A | wc -l)" "in the archive"
}
[ -d "$work/models/named" ] && claim "a name with anything in it is a safe name" named
place() { same "$(du -s --block-size=1M tensors | cut -f1)" 1 && [ "$(du -s --apparent-size --block-size=1M tensors | cut -f1)" -gt 10 ]; }
claim "it takes no space: du counts none" place
unloaded() {
	same "$(cat "$mnt"/*/info/state | sort -u)" unloaded
	same "$(awk '$1 == "bytes_read" { print $2 }' "$mnt/cache/stats")" 0
	[ ! -e "$store" ] || [ -z "$(find "$store" -name 'experts*')" ] || fail "a store was made"
	same "$(grep -v 'only sessions can be renamed' "$mnt/error")" "" # which a claim above tried
}
claim "nothing was loaded or converted for it" unloaded
# Once there is a store, the bytes are the store's: read again without the kernel's cache of the earlier read.
sha256sum tensors/* >"$work/sums"
echo "What is the capital of France?" >prompt && cat output >/dev/null
complete "$PWD"
cd / && unmounted
m=$mnt mounted -o quant=tq3
cd "$mnt/$first" || exit 1
from_store() {
	[ -e "$(cat info/store)/index" ] || fail "there is no store in $(cat info/store)"
	sha256sum -c --quiet "$work/sums" || fail "the numbers are others"
	same "$(cat info/state)" unloaded
}
claim "from the store come the same bytes, and no model is loaded by that either" from_store
cd / && unmounted
MODEL=$one m=$mnt/$(basename "$one")
mounted -o quant=bf16
claim "in 16 bits every number is the published one" check . 0
busy() {
	local last=
	loaded
	complete
	echo "What is 12 x 6?" >prompt && cat output >/dev/null
	until_true at_rest "$daemon" || fail "it does not rest" # an expert that is just being read arrives behind the answer
	last=$(cat experts/stats)
	cat tensors/*experts* >/dev/null
	same "$(cat experts/stats)" "$last" "experts and their uses"
}
claim "reading tensors moves no expert" busy
finish
