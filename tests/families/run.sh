#!/bin/bash
# Each family's fixture three ways: see README.md.
. "$(dirname "$0")/../mount/lib.sh"
families=$root/tests/families
place=$root/build/families
fixtures=${MOEFS_TESTDATA:-$root/../shared}/fixtures
export PYTHONDONTWRITEBYTECODE=1

# fetched: the source package, for its converter, and what that needs, in an environment of their own; made once. Another
# program that has all of it may be named by FAMILIES_PYTHON, and the unpacked package by FAMILIES_SOURCE.
fetched() {
	local set part why
	python=${FAMILIES_PYTHON:-} source=${FAMILIES_SOURCE:-}
	[ -z "$python" ] || [ -z "$source" ] || return 0
	set=$place/python-$(cksum <"$families/packages.txt" | cut -d ' ' -f 1)
	python=$set/bin/python source=$set/source
	[ ! -e "$set/done" ] || return 0
	part=$(mktemp -d "$place/part.XXXXXX") || exit 1
	if ! { python3 -m venv --system-site-packages --clear "$set" && mkdir "$source" &&
		timeout 3000 "$python" -m pip install --quiet --no-deps --require-hashes -r "$families/packages.txt" &&
		grep -A 1 '^llama-cpp-python' "$families/packages.txt" >"$part/source.txt" &&
		"$python" -m pip download --quiet --no-deps --no-binary :all: --require-hashes -r "$part/source.txt" -d "$part" &&
		tar xzf "$part"/*.tar.gz -C "$source" --strip-components 1; } >"$part/said" 2>&1; then
		why=$(grep -v '^\[notice\]' "$part/said" | tail -n 1)
		rm -rf "$part" "$set"
		skip_all "the packages cannot be had from Python's registry: $why"
	fi
	rm -r "$part"
	: >"$set/done"
}

scored() { # MODEL FILE: what `score` says of $work/prompt
	MODEL=$1
	m=$mnt/$(basename "$MODEL" .gguf)
	trap 'cd /; unmounted' EXIT
	mounted -o exact
	exec 3<>score && cat "$work/prompt" >&3 && timeout $limit cat <&3 >"$2" || fail "$(cat error)"
	exec 3>&-
}

# The fixture's files, with the config as published files spell it where there is one: the converter reads that.
staged() { # FIXTURE FOLDER
	mkdir "$2" && ln -s "$(realpath "$1")"/* "$2" || exit 1
	[ ! -e "$2/config.published.json" ] || mv "$2/config.published.json" "$2/config.json"
}

# The folder of a fixture; those of the repository lie packed, and are unpacked.
folder_of() { # NAME
	local file own=$root/tests/data/fixtures/$1
	[ ! -e "$fixtures/$1" ] || { echo "$fixtures/$1" && return; }
	mkdir -p "$work/own/$1"
	for file in "$own"/*; do
		case $file in
		*.zst) zstd -qdc "$file" >"$work/own/$1/$(basename "$file" .zst)" ;;
		*.packed) "$root/build/pack" -d "$file" "$work/own/$1/$(basename "$file" .packed)" ;;
		*) cp "$file" "$work/own/$1" ;;
		esac || exit 1
	done
	echo "$work/own/$1"
}

# What the converter does not write, so that the file means the published model's value. Such a file is compared with
# the fixture at that value.
# minimax_m3: minimax.py, set_gguf_parameters, has no swiglu_limit; 7, where the fixture has 1.5. Its shared expert is
# not as wide as a routed one, which has no key either: moefs takes the tensor's width, llama.cpp refuses it.
# gemma3: gemma.py, Gemma3Model.set_gguf_parameters, has neither the layers' types nor query_pre_attn_scalar.
without_unsaid() { # NAME FOLDER: true if its config was changed
	local members
	case $1 in
	minimax_m3) members='{"text_config": {"swiglu_limit": 7}}' ;;
	gemma3) members='{"layer_types": null, "_sliding_window_pattern": 6, "sliding_window_pattern": 6, "query_pre_attn_scalar": 32}' ;;
	*) return 1 ;;
	esac
	python3 - "$2/config.json" "$members" <<-'END'
		import json, os, sys
		config, members = json.load(open(sys.argv[1])), json.loads(sys.argv[2])
		config.get("text_config", {}).update(members.pop("text_config", {}))
		config.update(members)
		os.unlink(sys.argv[1])
		json.dump(config, open(sys.argv[1], "w"))
	END
}

three_ways() { # FIXTURE; `score` takes the last newline for that of echo
	local name other=
	name=$(basename "$1")
	staged "$1" "$work/$name"
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["prompt"])' "$1/golden.json" >"$work/prompt" ||
		fail "golden.json has no prompt"
	"$python" "$families/convert.py" "$source" "$work/$name" "$work/$name.gguf" >"$work/said" 2>&1 ||
		fail "the converter: $(tail -n 1 "$work/said")"
	(scored "$work/$name" "$work/first") || fail "the checkpoint cannot be scored"
	(scored "$work/$name.gguf" "$work/second") || fail "the file cannot be scored"
	if without_unsaid "$name" "$work/$name"; then
		other=$work/other
		(scored "$work/$name" "$other") || fail "the changed checkpoint cannot be scored"
	fi
	"$python" "$families/compare.py" "$1" "$work/first" "$work/second" "$work/$name.gguf" ${other:+"$other"} >"$work/numbers"
}

command -v python3 >/dev/null || skip_all "python3 is missing"
[ -e "$fixtures" ] || skip_all "there are no fixtures at $fixtures; name their folder's parent with MOEFS_TESTDATA="
mkdir -p "$place"
fetched
"$python" -c 'import torch' 2>/dev/null || skip_all "torch is missing, which the converter needs"
# Not granite_groups and granite_dense: granite.py, set_gguf_parameters, writes add_rope_scaling_finetuned(False) for every
# model with Mamba, and theirs turns by positions.
for name in ${FAMILIES:-llama smollm3 gemma3 gemma3_linear phi3 phi3_partial gemma4_ple gemma4_moe lfm2 lfm2_moe \
	granitemoehybrid nemotron_h nemotron_latent kimi_linear glm_moe_dsa minimax_m3 glm5_next qwen4_exp}; do
	: >"$work/numbers"
	folder=$(folder_of "$name") || exit 1
	claim "$name: the checkpoint and its GGUF file compute the golden numbers" three_ways "$folder"
	cat "$work/numbers"
done
finish
