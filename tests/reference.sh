#!/usr/bin/env bash
# The reference in tests/reference makes the numbers that lie beside the fixtures: those of its own making to
# 1e-6, and another's, which were made in single precision, to 1e-5. Then one that is wrong is found.
set -u
cd "$(dirname "$0")/.." || exit 1
export PYTHONDONTWRITEBYTECODE=1

skip() { echo "ok the reference makes the fixtures' golden numbers # skip $1"; exit 0; }
python=
for p in ${PYTHON:-python3 /usr/bin/python3}; do
	[ -n "$python" ] || ! "$p" -c 'import numpy' 2>/dev/null || python=$p
done
[ -n "$python" ] || skip 'python3-numpy is not installed'
command -v zstd >/dev/null || skip 'zstd, which unpacks the fixtures, is not installed'

bound() { # FIXTURE: how far its numbers may be off
	case $1 in *qwen3_next) echo 1e-5 ;; *) echo 1e-6 ;; esac
}

status=0
result() { # WHAT, COMMAND…
	local what=$1
	shift
	if "$@"; then echo "ok $what"; else echo "not ok $what"; status=1; fi
}

shared=${MOEFS_TESTDATA:-../shared}/fixtures
fixtures=()
for fixture in tests/data/fixtures/*/config.json; do # not what lies in files of one
	case $fixture in
	*/deepseek_v3_fp8/* | */deepseek_v4/* | */gemma3*/* | */gemma4_* | */glm5_next/* | */glm_moe_dsa/* | */gpt_oss_mxfp4/* | \
		*/granite_dense/* | */granite_groups/* | */granitemoehybrid/* | */kimi_linear/* | */lfm2*/* | */llama/* | \
		*/minimax_m3/* | */nemotron_*/* | */phi3/* | */phi3_partial/* | */qwen4_exp/* | */smollm3/*)
		# Their golden numbers come from another implementation; the reference does not know these families.
		echo "# not checked: $(basename "${fixture%/config.json}")" ;;
	*) fixtures+=("${fixture%config.json}") ;;
	esac
done
for name in qwen3_5_moe_fused qwen3_moe_fp8 tq3_native tq3_native_sensitive4; do
	if [ -d "$shared/$name" ]; then fixtures+=("$shared/$name")
	else echo "ok the reference makes $name's golden numbers # skip no $shared/$name"; fi
done
for fixture in "${fixtures[@]%/}"; do
	result "the reference makes $(basename "$fixture")'s golden numbers" \
		"$python" tests/reference check -b "$(bound "$fixture")" "$fixture"
done

folder=$(mktemp -d "${TMPDIR:-/tmp}/moefs-reference.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cp tests/data/fixtures/qwen3/* "$folder"
sed -i 's/"rms_norm_eps": 1e-06/"rms_norm_eps": 1e-05/' "$folder/config.json"
another_model() { ! "$python" tests/reference check "$folder"; }
result 'numbers of another model are found to differ' another_model

# What is written is what is read: golden files made anew hold the model that was changed.
"$python" - "$folder" <<'PY'
import sys
sys.path.insert(0, "tests/reference")
import tensors
golden = tensors.read(f"{sys.argv[1]}/golden.safetensors")
for name in "input_ids", "long_input_ids":
    with open(f"{sys.argv[1]}/{name}", "w") as f:
        print(*golden[name][1], file=f)
PY
made() {
	"$python" tests/reference make "$folder" "$folder/input_ids" "$folder/long_input_ids" &&
		"$python" tests/reference check "$folder"
}
result 'golden numbers that were made anew are those of the model' made
exit $status
