#!/usr/bin/env bash
# Models that other programs keep: `moefs -a` lists them with the reason where one cannot be opened, `moefs -a MOUNTPOINT`
# mounts them, and nothing is ever written into their folders.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3, which makes the file"
checkpoint=$MODEL
export HOME=$work/home
unset OLLAMA_MODELS HF_HOME HF_HUB_CACHE LLAMA_CACHE XDG_CACHE_HOME
ollama=$HOME/.ollama/models studio=$HOME/.lmstudio/models hub=$HOME/.cache/huggingface/hub llama=$HOME/.cache/llama.cpp
mkdir -p "$mnt" "$HOME"

# Of this home alone, whatever the machine has in ollama's system folder.
list() { "$MOEFS" -a | grep -F "$HOME"; }
names() { list | cut -f 1 | sort | xargs; }
below() { find "$ollama" "$studio" "$hub" "$llama" -printf '%p %y %s %T@ %C@\n' 2>/dev/null | sort; }

nothing() {
	fails_with "no model of another program is here" env OLLAMA_MODELS=/nonexistent "$MOEFS" -a
	fails_with "no model of another program is here" env OLLAMA_MODELS=/nonexistent "$MOEFS" -a "$mnt"
	fails_with "-a and --check exclude each other" "$MOEFS" -a --check "$checkpoint"
	fails_with "leave out -a" "$MOEFS" -a -o name=x "$mnt"
}
claim "where there are none, it says so" nothing

# ---- the folders ----

mkdir -p "$studio/Pub/Fable-GGUF" "$hub/models--Org--Fable/snapshots/0123abcd" "$hub/models--Org--Fable/refs" "$llama" \
	"$ollama/blobs" "$ollama/manifests/registry.ollama.ai/library/fable"
python3 "$here/gguf.py" "$checkpoint" "$studio/Pub/Fable-GGUF/Fable.gguf" || { echo "not ok the file cannot be made"; exit 1; }
: >"$studio/Pub/Fable-GGUF/mmproj-Fable.gguf"
for f in "$checkpoint"/*; do ln -s "$f" "$hub/models--Org--Fable/snapshots/0123abcd"; done
echo -n 0123abcd >"$hub/models--Org--Fable/refs/main"
head -c 1000 "$studio/Pub/Fable-GGUF/Fable.gguf" >"$llama/org_cut.gguf"
layer() { # TYPE FILE: stores it by its digest, and prints the layer
	local sum
	sum=$(sha256sum <"$2")
	cp "$2" "$ollama/blobs/sha256-${sum%% *}"
	printf '{"mediaType": "application/vnd.ollama.image.%s", "digest": "sha256:%s", "size": 1}' "$1" "${sum%% *}"
}
manifest() { # NAME/TAG LAYER…
	mkdir -p "$ollama/manifests/registry.ollama.ai/library/${1%/*}"
	local IFS=,
	printf '{"schemaVersion": 2, "layers": [%s]}' "${*:2}" >"$ollama/manifests/registry.ollama.ai/library/$1"
}
echo "Answer briefly." >"$work/system"
echo '{"temperature": 0.25, "stop": ["Q:"], "num_ctx": 4096}' >"$work/params"
weights=$(layer model "$studio/Pub/Fable-GGUF/Fable.gguf")
manifest fable/latest "$weights" "$(layer system "$work/system")" "$(layer params "$work/params")"
manifest fable/tuned "$weights" "$(layer adapter "$work/params")"

listed() {
	same "$(names)" "Org-Fable Pub-Fable fable fable:tuned org_cut" names
	list | grep -q $'^fable:tuned\t.*\t.*it has an adapter' || fail "$(list)"
	list | grep -q $'^org_cut\t.*\t.*cut short' || fail "$(list)"
	same "$(list | awk -F '\t' 'NF == 2' | wc -l)" 3 "models without a reason"
}
claim "they are listed by name, with the reason where one cannot be opened" listed

theirs() {
	[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "only root can try"; return; }
	chmod 755 "$work" "$HOME"
	chmod 700 "$studio/Pub" && chmod 600 "$llama/org_cut.gguf"
	setpriv --reuid=65534 --regid=65534 --clear-groups "$MOEFS" -a >"$work/list" || fail "$(cat "$work/list")"
	chmod 755 "$studio/Pub" && chmod 644 "$llama/org_cut.gguf"
	grep -q $'^-\t'"$studio/Pub"$'\t.*Permission denied' "$work/list" || fail "the folder: $(cat "$work/list")"
	grep -q $'^org_cut.gguf\t.*\t.*Permission denied' "$work/list" || fail "the file: $(cat "$work/list")"
	grep -q $'^fable\t[^\t]*$' "$work/list" || fail "the others: $(cat "$work/list")"
}
claim "what another user keeps from us is named with the reason" theirs

before=$(below)
timeout "$limit" "$MOEFS" -a "$mnt" 2>"$work/stderr" || { echo "not ok mount: $(cat "$work/stderr")"; exit 1; }
daemon=$(pgrep -n -f -- " $mnt\$")
models() { (cd "$mnt" && echo */prompt); }

mounts() {
	same "$(models)" "Org-Fable/prompt Pub-Fable/prompt fable/prompt" models
	grep -q "skipped: fable:tuned: .*it has an adapter" "$mnt/error" || fail "$(cat "$mnt/error")"
	same "$(cat "$mnt"/*/info/state | sort -u)" unloaded states
}
claim "they are mounted by these names, and none is loaded" mounts

says() {
	same "$(cat "$mnt/fable/sessions/default/params/system")" "Answer briefly." system
	same "$(cat "$mnt/fable/sessions/default/params/temperature")" 0.25 temperature
	same "$(cat "$mnt/fable/sessions/default/params/stop")" "Q:" stop
	same "$(cat "$mnt/Pub-Fable/sessions/default/params/system")" "" "of another program"
	grep -qx "ignored num_ctx 4096" "$mnt/fable/info/defaults" || fail "$(cat "$mnt/fable/info/defaults")"
}
claim "ollama's system message and params are the model's defaults" says

answer() { # MODEL
	echo 0 >"$mnt/$1/sessions/default/params/temperature"
	echo 16 >"$mnt/$1/sessions/default/params/max_tokens"
	echo "What is the capital of France?" >"$mnt/$1/prompt"
	timeout "$limit" cat "$mnt/$1/output"
}
unwritten() {
	local name
	: >"$mnt/fable/sessions/default/params/system"
	for name in Org-Fable Pub-Fable fable; do
		[ -n "$(answer $name)" ] || fail "no answer of $name: $(cat "$mnt/error")"
		complete "$mnt/$name"
		case $(cat "$mnt/$name/info/store") in "$HOME/.cache/moefs"/*) ;; *) fail "$(cat "$mnt/$name/info/store")" ;; esac
	done
	same "$(answer Pub-Fable)" "$(answer fable)" "the same file's text"
	same "$(below)" "$before" "what is in their folders"
}
claim "answers and conversions write nothing into their folders" unwritten

here() { [ -e "$mnt/$1/prompt" ]; }
gone() { ! here "$1"; }
later() {
	mkdir -p "$studio/New/Repo" && ln "$studio/Pub/Fable-GGUF/Fable.gguf" "$studio/New/Repo/Late.gguf"
	echo rescan >"$mnt/ctl"
	here Late || fail "$(ls "$mnt"; cat "$mnt/error")"
	rm -r "$studio/New/Repo"
	until_true gone Late || fail "Late stays"
	manifest other/1b "$weights"
	until_true here other:1b || fail "$(ls "$mnt"; cat "$mnt/error")"
}
claim "models that come later appear, and those that are removed go" later

cd / && unmounted
one_folder() {
	timeout "$limit" "$MOEFS" "$ollama" "$mnt" 2>"$work/stderr" || fail "$(cat "$work/stderr")"
	same "$(models)" "fable/prompt other:1b/prompt" models
}
claim "one such folder can be given by its path" one_folder
unmounted
copied() { # by its shape alone
	cp -r "$ollama" "$work/copy"
	timeout "$limit" "$MOEFS" "$work/copy/manifests/registry.ollama.ai/library/fable/latest" "$mnt" 2>"$work/stderr" || fail "$(cat "$work/stderr")"
	same "$(models)" "fable/prompt" models
	[ -n "$(answer fable)" ] || fail "no answer: $(cat "$mnt/error")"
	same "$(find "$work/copy" -name '*moefs*')" "" "stores"
}
claim "so can one manifest, wherever ollama's folder was copied to" copied
finish
