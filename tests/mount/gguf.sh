#!/usr/bin/env bash
# A GGUF file as a model: it gives the same answers as the checkpoint that it was made from; its names, its config, and
# the other paths that lead to such a file.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3, which makes the file"
checkpoint=$MODEL
mkdir "$work/files"
MODEL=$work/files/Tiny-BF16.gguf
m=$mnt/Tiny-BF16
python3 "$here/gguf.py" "$checkpoint" "$MODEL" || { echo "not ok the file cannot be made"; exit 1; }
others=("$checkpoint")
mounted -o budget=64M

claim "it has its own name" same "$(cd "$mnt" && echo */prompt)" "Tiny-BF16/prompt $(basename "$checkpoint")/prompt"
config() {
	python3 -m json.tool config.json >"$work/json" || fail "no JSON: $(cat config.json)"
	grep -q '"model_type": "qwen3_moe"' config.json || fail "$(cat config.json)"
	same "$(stat -c %s config.json)" "$(wc -c <config.json)" size
}
claim "its keys are shown as the config.json that they were made from" config
answer() { # FOLDER TEXT
	echo 0 >"$1/sessions/default/params/temperature"
	echo 24 >"$1/sessions/default/params/max_tokens"
	echo reset >"$1/ctl"
	echo "$2" >"$1/prompt"
	cat "$1/output"
}
answers() {
	local q
	for q in "What is the capital of France?" "What is 12 plus 30?" "Which command lists files?"; do
		[ -n "$(answer "$m" "$q")" ] || fail "no answer to $q: $(cat "$m/error")"
		same "$(answer "$m" "$q")" "$(answer "$mnt/$(basename "$checkpoint")" "$q")" "$q"
	done
}
claim "it answers as the checkpoint does" answers
cd / && unmounted
others=()

m=$mnt/other
mounted -o name=other
claim "-o name= names its folder" same "$(cd "$mnt" && echo */prompt)" other/prompt
cd / && unmounted

hub="$work/hub/models--Some-Org--Tiny/snapshots/0123abcd"
mkdir -p "$hub" "$work/hub/models--Some-Org--Tiny/blobs"
for f in "$checkpoint"/*; do ln -s "$f" "$hub"; done
cp "$MODEL" "$work/files/Tiny-copy.gguf"
: >"$work/files/mmproj-Tiny.gguf"
MODEL=$work/files
others=("$work/hub")
m=$mnt/Tiny
mounted
claim "folders of them, and a hub's cache, show each by its name" \
	same "$(cd "$mnt" && echo */prompt)" "Tiny-BF16/prompt Tiny-copy/prompt Tiny/prompt"
cd / && unmounted
others=()

refuses() { # WORDS ARGUMENT…
	local words=$1
	shift
	fails_with "$words" timeout "$limit" "$MOEFS" -o "store=$store" "$@" "$mnt"
}
names() {
	refuses "is for one model, but 2 are given" -o name=x "$work/files/Tiny-copy.gguf" "$checkpoint"
	refuses "2 models in GGUF files" -o name=x "$work/files"
	refuses "no slash" -o name=a/b "$work/files/Tiny-copy.gguf"
	refuses "name= is not" -o name= "$work/files/Tiny-copy.gguf"
}
claim "a name that matches nothing is refused with a reason" names
cut_short() {
	truncate -s 1M "$work/files/Tiny-copy.gguf"
	refuses "cut short" "$work/files/Tiny-copy.gguf"
}
claim "a truncated file is refused with a reason" cut_short
finish
