#!/usr/bin/env bash
# Checks that each subcommand of moefs-bench works with the smallest sizes: it ends with 0 and prints one JSON object with a
# measurement; and tree.sh. No figure is judged. A first argument names another program than build/moefs-bench. SMOKE=short runs
# each subcommand at least once, but `recipe`, `quality`, `files` and `http`, which take most of the time, and of formats one or
# two.
set -u
cd "$(dirname "$0")/../.." || exit 1

bench=${1:-build/moefs-bench}
here=$(mktemp -d "${TMPDIR:-/tmp}/moefs-bench.XXXXXX")
trap 'rm -rf "$here"' EXIT
effort=(--rounds 1 --threads 2 --json)
failed=0
whole() { [ "${SMOKE:-whole}" != short ]; }
quants=(tq2 tq3 bf16 3bit) mixes=(q4_k_m q8_0 mxfp4)
whole || { quants=(bf16 3bit) mixes=(q4_k_m); }

if [ ! -x "$bench" ]; then
	echo "ok bench # skip $bench is not built"
	exit 0
fi

# NAME KEY COMMAND…: runs it, and looks for KEY in what must be one JSON object
try() {
	local name=$1 key=$2
	shift 2
	if ! "$bench" "$@" >"$here/out" 2>"$here/words"; then
		echo "not ok $name: $(head -c 300 "$here/words")"
	elif ! python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))[sys.argv[2]]' "$here/out" "$key" \
		2>>"$here/words"; then
		echo "not ok $name: no JSON object with \"$key\": $(head -c 200 "$here/out")"
	else
		echo "ok $name"
		return
	fi
	failed=1
}

# NAME WORD COMMAND…: must fail in words that contain WORD
refuse() {
	local name=$1 word=$2
	shift 2
	if "$bench" "$@" >"$here/out" 2>"$here/words"; then
		echo "not ok $name: it succeeded"
	elif ! grep -q -- "$word" "$here/words"; then
		echo "not ok $name: $(head -c 300 "$here/words")"
	else
		echo "ok $name"
		return
	fi
	failed=1
}

# NAME CONDITION: whether the last report, r, is like that
check() {
	if python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' \
		"$here/out" "$2" 2>"$here/words"; then
		echo "ok $1"
	else
		echo "not ok $1: $(head -c 300 "$here/out") $(tail -n 1 "$here/words")"
		failed=1
	fi
}

cat >"$here/config.json" <<'END'
{"model_type": "qwen3_moe", "hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 4100,
 "max_position_embeddings": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
 "intermediate_size": 256, "moe_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2,
 "norm_topk_prob": true, "rope_theta": 10000.0, "rms_norm_eps": 1e-06, "tie_word_embeddings": false}
END

# Qwen3.6-35B-A3B, shrunk: the text part of a model that also sees, with a list of its layers' types
python3 - >"$here/hybrid.json" <<'END'
import json
text = {
    "model_type": "qwen3_5_moe_text", "hidden_size": 256, "num_hidden_layers": 8, "vocab_size": 4100,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2, "max_position_embeddings": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "attn_output_gate": True,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32,
    "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2,
    "mtp_num_hidden_layers": 1, "rms_norm_eps": 1e-06, "tie_word_embeddings": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                        "mrope_interleaved": True, "mrope_section": [3, 3, 2]},
}
print(json.dumps({"model_type": "qwen3_5_moe", "text_config": text, "tie_word_embeddings": False,
                  "vision_config": {"depth": 27, "hidden_size": 1152}}))
END

try "grammar measures masks" forms grammar examples/models/fable-moe-15m --tokens 50 --json
try "the ceilings of memory and arithmetic" arithmetic_and_memory \
	machine "${effort[@]}" --seconds 0.001 --memory 8M --no-disk
try "the ceiling of a disk" cpu \
	machine "${effort[@]}" --seconds 0.001 --memory 8M --dir "$here" --file 4M --records 65536 --depths 2
try "every kernel" multiply kernels "${effort[@]}" --seconds 0.001 --memory 4M --columns 128,200 \
	--tokens 1,3 --positions 70
for quant in "${quants[@]}"; do
	try "a synthetic model in $quant" seconds \
		make "$here/config.json" "$here/model" --layers 2 --quant $quant --skew 1 --json
	try "it runs" phases run "$here/model" --quant $quant "${effort[@]}" --seconds 0.001 \
		--prompt 9 --tokens 3 --context 9,300 --busy
done
try "a timeline of a token" timeline run "$here/model" --quant "$quant" "${effort[@]}" --seconds 0.001 \
	--prompt 9 --tokens 3 --timeline
check "which has all of its time" 'abs(sum(c["percent"] for c in r["timeline"]) - 100) < 1'
check "and its loops" 'sum(l["loops"] for l in r["timeline_loops"]) >= 1'
try "several contexts answered together" answers run "$here/model" --quant "$quant" "${effort[@]}" --seconds 0.001 \
	--tokens 2 --context 70 --answers 1,3,9
check "beside both limits" 'all(a["memory_limit"]["least"] > 0 and a["computing_limit"]["least"] > 0 for a in r["answers"])'
check "choosing more experts the more they are" 'r["answers"][0]["experts"] == 2 < r["answers"][2]["experts"] <= 8'
try "the same with room for few experts" answers run "$here/model" --quant "$quant" "${effort[@]}" --seconds 0.001 \
	--tokens 2 --context 70 --answers 1,9 --budget 256K
check "which have to be read" 'r["answers"][0]["disk_mb_per_step"] > 0 and r["answers"][0]["memory_limit"] is None'
sed 's/"moe_intermediate_size": 128/"moe_intermediate_size": 256/; s/"head_dim": 32/"head_dim": 64/' "$here/config.json" >"$here/wide.json"
for mix in "${mixes[@]}"; do
	try "a synthetic GGUF file in $mix" seconds make "$here/wide.json" "$here/$mix.gguf" --gguf $mix --json
	try "it runs" phases run "$here/$mix.gguf" "${effort[@]}" --seconds 0.001 --prompt 9 --tokens 3
	check "as it is" '"in place" in r["recipe"]'
done
try "what it thinks of a text" nll perplexity "$here/q4_k_m.gguf" --text README.md --chunk 64 --json
check "is about what chance would" '8 < r["nll"] < 10' # ln 4100 is 8.3
# With room for an answer that goes on for as long as a prompt beside it may be late: one of 512 tokens is over in a moment.
sed 's/"max_position_embeddings": 512/"max_position_embeddings": 262144/' "$here/config.json" >"$here/long.json"
try "a synthetic model with a tokenizer" seconds make "$here/long.json" "$here/talker" \
	--tokenizer examples/models/fable-moe-15m --json
try "sessions beside each other" figures company "$here/talker" --answers 3 --tokens 40 --prompt 100 --rounds 1 --threads 2 --json
check "have a slowest one" '0 < r["figures"][0]["value"]["median"] <= 1'
try "its first token" first_token_seconds first "$here/q4_k_m.gguf" --prompt 3 --threads 2 --json
check "answers the prompt" 'r["prompt_tokens"] == 3'
refuse "rows that are no whole number of blocks" 'rows of 128' make "$here/config.json" "$here/no.gguf" --gguf q4_k_m
refuse "a mix that is not known" 'must be q4_k_m' make "$here/config.json" "$here/no.gguf" --gguf q9
try "with room for few experts" phases run "$here/model" "${effort[@]}" --seconds 0.001 --prompt 9 --tokens 3 \
	--budget 256K

# A token passes through 3 delta nets (4 heads of 32 x 32, and 3 inputs of 256 channels), 1 attention (a key and a
# value of 2 heads of 64 in 16 bits) and 4 routed layers, of the 5 that the store has.
try "a hybrid with a draft layer, cut to half of its layers" seconds \
	make "$here/hybrid.json" "$here/hybrid" --layers 4 --json
try "it runs" phases run "$here/hybrid" "${effort[@]}" --seconds 0.001 --prompt 9 --tokens 3 --context 9,300
check "its recurrent states are counted read and written" \
	'round(r["state_mb_per_token"] * 1e6) == 2 * 4 * 3 * (4 * 32 * 32 + 3 * 256)'
check "its keys are those of its attention" 'round(r["key_kb_per_position"] * 1e3) == 2 * 2 * 64 * 2'
check "a token does not pass through the draft layer's experts" \
	'all(p["hits_per_token"] == 4 * 2 for p in r["phases"] if p["phase"] == "decode")'
check "a share of the time is its delta nets'" 'all(0 < p["delta_percent"]["median"] < 100 for p in r["phases"])'
python3 -c 'print("Once upon a time there was " * 60)' >"$here/words.txt"
try "what it thinks of a text" nll perplexity "$here/hybrid" --text "$here/words.txt" --json
check "is about what chance would" '8 < r["nll"] < 10' # ln 4100 is 8.3
if whole; then
# What is within the default and as the default has it is the default.
try "what each choice of a recipe costs" groups recipe examples/models/fable-moe-15m --text "$here/words.txt" \
	--turns examples/models/fable-moe-15m/skills.jsonl --tokens 100 --store "$here/stores" --threads 2 --json
check "is nothing for what is kept" \
	'all(g["alone_text"] == g["alone_turns"] == 0 for g in r["groups"] if g["format"] == "kept")'
check "is least in 8 bits" 'all(min(a["alone_text"], b["alone_text"]) > c["alone_text"] > 0 for a, b, c in
	zip(*[[g for g in r["groups"] if g["format"] == f] for f in ("tq3", "tq4", "8 bits")]))'
check "is that of the recipe for what is as the recipe has it" 'len({g["within_text"] for g in r["groups"]
	if g["default"]} | {x["text"] for x in r["recipes"] if x["recipe"] == "4bit" and x["arithmetic"] == "exact"}) == 1'
try "what each recipe costs and gives" recipes quality examples/models/fable-moe-15m --text "$here/words.txt" \
	--turns examples/models/fable-moe-15m/skills.jsonl --tokens 100 --store "$here/stores" --threads 2 --rounds 1 \
	--quants bf16,tq3,3bit --json
check "is nothing in 16 bits" 'r["recipes"][0]["kl_1"] == r["recipes"][0]["kl_answers"] == 0 and r["recipes"][0]["bits"] == 16'
check "and bits and bytes are what the formats have" '(r["recipes"][2]["bits"] < 3.25 < 3.9 < r["recipes"][1]["bits"] < 4 and
	r["recipes"][2]["mb_per_token"] < r["recipes"][1]["mb_per_token"])'
check "and less is lost by better codes" 'r["recipes"][2]["kl_1"] < r["recipes"][1]["kl_1"]'
try "a synthetic checkpoint of one" seconds make "$here/hybrid.json" "$here/raw_hybrid" --layers 4 --raw --json
check "with a layer of the draft's beside its 4" \
	'"mtp.layers.0.mlp.experts.7.up_proj.weight" in open(r["model"] + "/model.safetensors.index.json").read()'
try "it is converted" first_token_seconds \
	first "$here/raw_hybrid" --store "$here/stores" --complete --threads 2 --json
fi

# 3 layers (the store has 2), 8 experts, a prompt of 2 tokens and an answer of 40
{
	echo "# a remark"
	echo "turn,phase,step,layer,slot,expert,weight"
	for layer in 0 1 2; do
		for token in 0 1; do
			echo "0,0,$token,$layer,0,$((layer + token)),0.6"
			echo "0,0,$token,$layer,1,7,0.4"
		done
	done
	for token in {2..41}; do
		for layer in 0 1 2; do
			echo "0,1,$token,$layer,0,$((token * (layer + 1) % 8)),1"
		done
	done
} >"$here/trace.csv"
sed 's/,7,/,8,/' "$here/trace.csv" >"$here/wide.csv"
store=(--store "$here/model.moefs/bf16")
try "a trace replayed with room for all" phases \
	pager --trace "$here/trace.csv" "${store[@]}" --budget 4M --rounds 2 --seconds 0.001 --json
try "with room for three experts" phases \
	pager --trace "$here/trace.csv" "${store[@]}" --budget 600K --policy lru --rounds 1 --seconds 0.001 --json
try "with forecasts" forecast \
	pager --trace "$here/trace.csv" "${store[@]}" --budget 1M --forecast ranks --compute 100 --rounds 1 --seconds 0.001 --json
refuse "a forecast of another kind" "ranks or all" pager --trace "$here/trace.csv" "${store[@]}" --budget 4M --forecast best
refuse "a trace of more experts than the store has" "9 experts" pager --trace "$here/wide.csv" "${store[@]}" --budget 4M
refuse "a trace without a budget" "--budget" pager --trace "$here/trace.csv" "${store[@]}"
refuse "a policy that is not known" "write scales" pager --trace "$here/trace.csv" "${store[@]}" --budget 4M --policy best
refuse "a folder that is no store" "$here" pager --trace "$here/trace.csv" --store "$here" --budget 4M
refuse "a file that is no trace" "config.json:1" pager --trace "$here/config.json" "${store[@]}" --budget 4M
fixture=$here/qwen3_moe
mkdir "$fixture"
cp tests/data/fixtures/qwen3_moe/*.json "$fixture" && build/pack -d tests/data/fixtures/qwen3_moe/model.safetensors.packed "$fixture/model.safetensors" || failed=1
python3 -c '
import json, sys
golden = json.load(open(sys.argv[1] + "/golden.json"))
open(sys.argv[2] + "/text", "w", encoding="utf-8").write(golden["long_prompt"])
print(golden["long_mean_nll"])' $fixture "$here" >"$here/nll"
predict=(perplexity $fixture --text "$here/text" --store "$here/stores" --json)
whole && chunks=(1 64) || chunks=(64)
for chunk in "${chunks[@]}"; do
	try "a text's likelihood" nll "${predict[@]}" --quant bf16 --chunk $chunk
	python3 -c '
import json, sys
got, want = json.load(open(sys.argv[1]))["nll"], float(open(sys.argv[2]).read())
print("ok" if abs(got - want) < 1e-5 else "not ok", "it is that of the reference:", got)' \
		"$here/out" "$here/nll" | tee "$here/words"
	grep -q '^ok' "$here/words" || failed=1
done
try "a text with losses" lossy "${predict[@]}" --experts-per-token 2 --drop-missing 0.4 --budget 256K \
	--tokens 99 --context 50
refuse "more experts than the model's own" experts_per_token "${predict[@]}" --experts-per-token 5
refuse "no text" "--text" perplexity $fixture
refuse "a text of one token" predict perplexity $fixture --text <(printf a) --store "$here/stores"
try "a conversation rendered and encoded" page page $fixture --bytes 2K --rounds 1 --json
check "has what was said and more" 'r["bytes"] > 2048 and r["tokens"] > 100'
refuse "a template that is not there" "template.none" page $fixture --template "$here/template.none"
if whole && [ -c /dev/fuse ] && command -v fusermount3 >/dev/null; then
	TMPDIR=$here try "a tree beside a bare echo" files files examples/models/fable-moe-15m --store "$here/stores" --rounds 1 --asks 2 --tokens 8 --json
	check "both have told of tokens" 'all(t["tokens"] > 0 for t in r["files"])'
	TMPDIR=$here try "a tree over HTTP beside its files" http http examples/models/fable-moe-15m --store "$here/stores" --rounds 1 --asks 2 --tokens 8 --streams 2 --json
	check "both have told of text" 'all(t["rate"]["median"] > 0 for t in r["http"])'
fi
try "a synthetic checkpoint" seconds make "$here/config.json" "$here/raw" --layers 2 --raw --json
whole && founds=(converted read) || founds=(converted)
for found in "${founds[@]}"; do
	try "the first token of one that has to be $found" first_token_seconds \
		first "$here/raw" --store "$here/stores" --complete --threads 2 --json
done
refuse "a model that is there is not overwritten" "" make "$here/config.json" "$here/model" --layers 2
refuse "an unknown option is named" "--nonsense" run "$here/model" --nonsense
refuse "a number out of range is named" "--rounds 0" run "$here/model" --rounds 0
refuse "positions that the model does not have" "512" run "$here/model" --prompt 510 --tokens 30

if ! whole; then
	:
elif ! READERS=20 ROUNDS=1 tests/bench/tree.sh >"$here/out" 2>&1; then
	echo "not ok how fast the tree responds: $(tail -n 3 "$here/out" | tr '\n' ' ')"
	failed=1
elif ! grep '# skip' "$here/out"; then
	[ "$(grep -c ' ms' "$here/out")" = 7 ] || { echo -n "not "; failed=1; }
	echo "ok how fast the tree responds: seven times are told"
fi
exit $failed
