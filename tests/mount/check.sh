#!/usr/bin/env bash
# moefs --check: what a model is, how much memory and disk it needs, and which files are missing, for people and for
# scripts. It mounts and writes nothing.
. "$(dirname "$0")/lib.sh"
trap clean_up EXIT
original=$MODEL
cd "$work" || exit

check() { # STATUS ARGUMENT…: tables in $work/tables, words in $work/words
	local wanted=$1 status=0
	shift
	timeout "$limit" "$MOEFS" --check -o "store=$store" "$@" >"$work/tables" 2>"$work/words" || status=$?
	same "$status" "$wanted" "status of --check $* ($(cat "$work/words"))"
}
value() { # KEY
	sed -n "s/^$1 //p" "$work/tables"
}
copy() { # NAME: a copy of the model without its weights' bytes
	mkdir -p "$1" && cp "$original"/*.json "$original"/*.jinja "$1" && ln -s "$original/model.safetensors" "$1"
}

what_it_is() {
	check 0 "$original"
	same "$(value name)" "$(basename "$original")" name
	same "$(value source)" checkpoint source
	same "$(value architecture)" qwen3_moe architecture
	same "$(value encoding)" BF16 encoding
	same "$(value source_bytes)" "$(stat -Lc %s "$original/model.safetensors")" source_bytes
	same "$(value recipe)" "4bit, the default for models whose experts fit the budget" recipe
	same "$(value tokenizer)" "tokenizer.json, 4096 tokens" tokenizer
	same "$(value template)" chat_template.jinja template
	same "$(tail -n 1 "$work/tables")" "mountable yes" "the last line"
	same "$(cat "$work/words")" "" words
	[ "$(value paged_bytes)" -lt "$(value resident_bytes)" ] || fail "paged $(value paged_bytes), resident $(value resident_bytes)"
	grep -vE '^[a-z_]+ [^ ].*$' "$work/tables" && fail "lines that are no key and value"
	return 0
}
claim "it describes a checkpoint, line by line" what_it_is

nothing() {
	copy kept
	local before=$(find "$work" ! -name out ! -name tables ! -name words | sort)
	check 0 kept
	same "$(find "$work" ! -name out ! -name tables ! -name words | sort)" "$before" "files"
}
claim "it writes nothing, and makes no folder" nothing

true_sizes() { # the sizes that --check prints are the ones that a mount writes
	check 0 "$original"
	local bytes=$(value store_bytes) folder=$(value store)
	[ -n "$bytes" ] && [ "$bytes" -gt 0 ] || fail "store_bytes $bytes"
	mounted
	loaded
	complete
	cd "$work" && unmounted
	local taken=$(cat "$folder"/{dense,experts}.safetensors "$folder/index" | wc -c)
	[ $((taken * 100 / bytes)) -ge 99 ] && [ $((taken * 100 / bytes)) -le 100 ] || fail "said $bytes, took $taken"
	check 0 "$original"
	same "$(value store_bytes)" 0 "of a complete store"
}
claim "a store takes the announced space, and none once it exists" true_sizes

gguf() {
	command -v python3 >/dev/null || { echo "no python3, which makes the file"; return 0; }
	mkdir -p files
	python3 "$here/gguf.py" "$original" files/Tiny-BF16.gguf || fail "the file cannot be made"
	check 0 files/Tiny-BF16.gguf
	same "$(value source)" "GGUF file" source
	same "$(value architecture)" qwen3_moe architecture
	same "$(value tokenizer)" "GGUF, 4096 tokens" tokenizer
	head -c 20000 files/Tiny-BF16.gguf >cut.gguf
	check 1 cut.gguf
	same "$(value mountable)" no mountable
	grep -q "cut.gguf" "$work/words" || fail "$(cat "$work/words")"
}
claim "a GGUF file needs no separate tokenizer; a truncated one is reported as truncated" gguf

hub() {
	local at="hub/models--Some-Org--Tiny/snapshots/0123abcd"
	mkdir -p "$at" "hub/models--Some-Org--Tiny/blobs"
	ln -sf "$original"/* "$at"
	check 0 hub/models--Some-Org--Tiny
	same "$(value name)" Tiny name
	same "$(value source)" "checkpoint in a hub's cache" source
	check 0 hub
	same "$(value name)" Tiny name
}
claim "a model in a hub's cache is one" hub

many() { # good models and bad ones in one folder
	copy models/good
	copy models/no-tokenizer && rm models/no-tokenizer/tokenizer.json
	copy models/no-weights && rm models/no-weights/model.safetensors
	copy models/strange && sed -i 's/"model_type": *"[a-z0-9_]*"/"model_type": "mamba"/' models/strange/config.json
	copy models/garbled && echo '{' >models/garbled/tokenizer.json
	mkdir -p models/other && echo text >models/notes.txt
	check 1 models
	same "$(value name | tr '\n' ' ')" "garbled good no-tokenizer no-weights strange " names
	same "$(value mountable | tr '\n' ' ')" "no yes no no no " mountable
	same "$(wc -l <"$work/words")" 4 "lines of words: $(cat "$work/words")"
	local word
	for word in garbled/tokenizer.json "no-tokenizer has no tokenizer" "no-weights has no weights" mamba; do
		grep -q "^moefs: .*$word" "$work/words" || fail "nothing of $word: $(cat "$work/words")"
	done
	check 0 models/good "$original"
	same "$(grep -c '^mountable yes$' "$work/tables") $(grep -c '^$' "$work/tables")" "2 1" "tables and empty lines"
}
claim "each of several models has a table, with a line for each error" many

hostile() { # hostile files neither hang it nor break a line
	mkdir -p "hostile/loop" "hostile/pipe" "hostile/deep" $'hostile/new\nmountable yes'
	ln -sf ../loop hostile/loop/config.json
	mkfifo hostile/pipe/config.json hostile/pipe/model.safetensors
	printf '[%.0s' $(seq 5000) >hostile/deep/config.json
	echo '{"model_type": 3}' >$'hostile/new\nmountable yes/config.json'
	mkfifo hostile/a.gguf
	check 1 hostile
	grep -q "^mountable yes" "$work/tables" && fail "$(cat "$work/tables")"
	local each
	for each in hostile/*; do
		check 1 "$each"
		same "$(grep -c ^mountable "$work/tables") $(wc -l <"$work/words")" "1 1" "tables and words of $each"
	done
	check 1 absent
}
claim "a path that is not a model is reported as such, whatever it is" hostile

exact() {
	check 0 -o exact "$original"
	same "$(value recipe)" bf16 recipe
	check 0 -o exact,quant=bf16 "$original"
	same "$(value recipe)" bf16 recipe
	check 0 -o exact,quant=tq4 "$original"
	same "$(value recipe)" "tq4, exact" recipe
}
claim "-o exact keeps the checkpoint's numbers, unless a recipe makes others" exact

usage() {
	check 2
	check 2 -o quant=tq9 "$original"
	check 2 -o sideways "$original"
	check 1 -o budget=4K "$original"
	grep -q "one expert takes" "$work/words" || fail "$(cat "$work/words")"
	"$MOEFS" --check "$original" >/dev/full 2>/dev/null && fail "a table that could not be written is status 0"
	return 0
}
claim "a wrong option is another status than a model that cannot be mounted" usage
finish
