#!/usr/bin/env bash
# Runs fuzzers, each for a time, from the fixtures as the first inputs: run.sh SECONDS FUZZER...
# Prints one line each, and then the count; JOBS (1) run side by side. A crash fails, and its input stays beside the
# fuzzer.
set -u
[ $# -ge 2 ] || {
	echo "usage: ${0##*/} SECONDS FUZZER..." >&2
	exit 2
}
published=$(cd "$(dirname "$0")/../data/fixtures" && pwd) || exit 1
seconds=$1
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-fuzz.XXXXXX") || exit 1
# The folder for fuzzers' files: in memory if possible.
TMPDIR=$(mktemp -d /dev/shm/moefs-fuzz.XXXXXX 2>/dev/null) || TMPDIR=$work/files
fixtures=$work/fixtures
export TMPDIR MOEFS_FIXTURES=$fixtures
mkdir -p "$TMPDIR" "$fixtures"
trap 'rm -rf "$work" "$TMPDIR"' EXIT
# Large files lie compressed; one model's are unpacked, to begin with.
ln -s "$published"/* "$fixtures" && rm "$fixtures/qwen3" && cp -r "$published/qwen3" "$fixtures" &&
	"$published/../../../build/pack" -d "$published/qwen3/model.safetensors.packed" "$fixtures/qwen3/model.safetensors" || exit 1

# The header of a .safetensors file as fuzz_safetensors.c takes it.
header() { # FILE
	local bytes size
	bytes=$(od -An -tu8 -N8 "$1" | tr -d ' ')
	size=$(stat -c %s "$1")
	echo $((size - 8 - bytes))
	tail -c +9 "$1" | head -c "$bytes"
}

# Real weights as fuzz_codec.c codes and changes them: a record of 2000 bytes, one bit of it flipped.
coded() { # FILE
	printf '\241\017\100\001\000\000'
	tail -c 2000 "$1"
}

# Records of an identity as fuzz_identity.c takes them: a file of 256 bytes, two ranges of it, and its end.
record() { # KIND, OFFSET or COUNT, SIZE in two bytes, all octal: one of file 0
	printf "\\$1\\0\\0\\0\\0\\0\\0\\0\\$2\\0\\0\\0\\0\\0\\0\\0\\$3\\$4"
	head -c 30 /dev/zero
}
records() {
	record 1 7 0 1
	record 2 0 100 0
	record 2 100 20 0
	record 3 2 0 0
}

# A GGUF header as fuzz_gguf.c takes it: one more byte than what it has, an array of two strings and one tensor
# of four numbers. The version is given.
gguf() {
	printf '\0GGUF\'"$1"'\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0'
	printf '\21\0\0\0\0\0\0\0general.alignment\4\0\0\0\40\0\0\0'
	printf '\1\0\0\0\0\0\0\0s\11\0\0\0\10\0\0\0\2\0\0\0\0\0\0\0'
	printf '\1\0\0\0\0\0\0\0a\2\0\0\0\0\0\0\0bc'
	printf '\1\0\0\0\0\0\0\0t\1\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
	head -c 64 /dev/zero
}

# Keys of a dense model and of one with experts as fuzz_gguf_config.c takes them: rows of the tables, kinds and values.
gguf_keys() { # ARCHITECTURE, octal
	printf "\\$1\\1\\77\\0\\0\\100\\0\\0\\0\\1\\0\\40\\0\\0\\0\\2\\0\\100\\0\\0\\0\\3\\0\\4\\0\\0\\0"
	printf '\4\0\2\0\0\0\5\0\10\0\0\0\6\1\254\305\47\67\7\1\0\100\34\106\23\0\2\0\0\0'
}

# A checkpoint as fuzz_package.c takes it: codes and what belongs to them, one of each encoding.
package() { # BYTES CONFIG NAME TYPE SHAPE END [NAME TYPE SHAPE END]...
	local bytes=$1 config=$2 begin=0 head='' comma=''
	shift 2
	while [ $# -gt 0 ]; do
		head+="$comma\"$1\":{\"dtype\":\"$2\",\"shape\":[$3],\"data_offsets\":[$begin,$4]}"
		begin=$4 comma=,
		shift 4
	done
	printf '%s\n%s\n{%s}' "$bytes" "$config" "$head"
}
packages() { # FOLDER
	local affine='{"quantization":{"group_size":64,"bits":4,"b":{"group_size":32,"bits":3},"c":false}}'
	package 508 '{"quantization_config":{"quant_method":"fp8","weight_block_size":[3,32]}}' \
		a F8_E4M3 7,70 490 a_scale_inv BF16 3,3 508 >"$1/fp8"
	package 216 "$affine" a.weight U32 2,3,8 192 a.scales BF16 2,3,1 204 a.biases BF16 2,3,1 216 >"$1/affine"
	package 40 "$affine" b.weight U32 1,6 24 b.scales F32 1,2 32 b.biases F32 1,2 40 >"$1/affine3"
	package 102 '{}' a_blocks U8 2,3,16 96 a_scales U8 2,3 102 >"$1/mxfp4"
	package 240 '{}' a.tq_packed U8 4,48 192 a.tq_norms F32 2,2 208 b BF16 4,4 240 >"$1/tq"
}

# A vocabulary as fuzz_vocabulary.c takes it: model and split, marks, tokens as kind and score, length and
# bytes, an empty one, merges.
vocabulary() { # the first byte, octal
	printf "\\$1\\17\\2\\5<unk>\\3\\3<s>\\3\\4</s>\\11\\3\342\226\201\\21\\1a\\31\\1b\\1\\2ab\\1\\2\303\251\\1\\0a b\n"
}

# Answers as fuzz_split.c takes them: one of each form, in the order of the forms' table.
answers() { # FOLDER
	local form=0 line first
	while IFS= read -r line; do
		for first in 0 7; do # in pieces of one byte, thinking as it is marked; of three, and open
			printf "\\$first\\$(printf %o $form)$line" >"$1/$form.$first"
		done
		form=$((form + 1))
	done <"$(dirname "$0")/answers.txt"
}

# The same in Anthropic's form, and as OpenAI's responses.
message() {
	cat <<'JSON'
{"model": "m", "max_tokens": 9000, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "q"},
 {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "x"}, {"type": "text", "text": "a"},
 {"type": "tool_use", "id": "i", "name": "f", "input": {"a": 1}}]}, {"role": "user", "content": [{"type": "tool_result",
 "tool_use_id": "i", "is_error": true, "content": [{"type": "tool_reference", "tool_name": "g"}, {"type": "search_result",
 "title": "t", "source": "u", "content": [{"type": "text", "text": "c"}]}]}, {"type": "document", "source": {"type": "text",
 "data": "d"}}]}], "tools": [{"name": "f", "input_schema": {"type": "object"}}, {"name": "g", "input_schema": {},
 "defer_loading": true}, {"type": "bash_20250124", "name": "bash"}], "tool_choice": {"type": "tool", "name": "f",
 "disable_parallel_tool_use": true}, "thinking": {"type": "enabled", "budget_tokens": 2000}, "stop_sequences": ["x"],
 "temperature": 0.5, "top_p": 0.9, "top_k": 5, "output_config": {"format": {"type": "json_schema", "schema": {}}}}
JSON
}
response() {
	cat <<'JSON'
{"model": "m", "instructions": "i", "input": [{"role": "developer", "content": "d"}, {"type": "reasoning", "content":
 [{"type": "reasoning_text", "text": "r"}]}, {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
 {"type": "function_call", "call_id": "c", "namespace": "n", "name": "f", "arguments": "{}"}, {"type":
 "function_call_output", "call_id": "c", "output": "o"}, {"type": "custom_tool_call", "call_id": "e", "name": "p",
 "input": "x"}, {"type": "custom_tool_call_output", "call_id": "e", "output": "y"}], "tools": [{"type": "custom",
 "name": "p", "format": {"syntax": "lark", "definition": "s"}}, {"type": "namespace", "name": "n", "tools": [{"type":
 "function", "name": "f", "parameters": {}}]}], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools":
 [{"type": "custom", "name": "p"}]}, "text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "low"},
 "max_output_tokens": 9, "truncation": "auto", "parallel_tool_calls": false, "store": false}
JSON
}
# The body of a request as fuzz_request.c takes it, with each field that it looks at.
request() {
	cat <<'JSON'
{"model": "m", "messages": [{"role": "system", "content": "Date: 1\nBe brief."}, {"role": "user", "content": [{"type": "text",
"text": "a"}]}, {"role": "assistant", "content": null, "reasoning_content": "t", "tool_calls": [{"id": "1", "type": "function",
"function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "x"}], "tools": [{"type":
"function", "function": {"name": "f", "parameters": {}}}], "temperature": 0.5, "stop": ["a", "b\n"], "logit_bias": {"1": -100},
"seed": -1, "max_tokens": 5, "modalities": ["text"], "audio": null, "suffix": ""}
JSON
}

# Conversations and tools as fuzz_messages.c takes them.
messages() { # FOLDER
	local call='{"id": "a0", "type": "function", "function": {"name": "f", "arguments": {"a": [1, "\u00e9"]}}}'
	printf '[{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]' >"$1/user"
	printf '[{"role": "assistant", "content": null, "thinking": "t", "tool_calls": [%s]}]' "$call" >"$1/call"
	printf '[{"role": "assistant", "reasoning_content": "t", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]' \
		>"$1/text"
	printf '[{"role": "tool", "tool_call_id": "a0", "name": "f", "content": "4"}, {"role": "developer", "content": ""}]' \
		>"$1/result"
	printf '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]' >"$1/tools"
}

# What ollama keeps of a model as fuzz_manifest.c takes it.
manifests() { # FOLDER
	local type layers=() digits
	printf -v digits %064d 1
	for type in model template system params license messages projector adapter; do
		layers+=("{\"mediaType\": \"application/vnd.ollama.image.$type\", \"digest\": \"sha256:$digits\", \"size\": 9}")
		printf '\0{"schemaVersion": 2, "layers": [%s]}' "$(IFS=,; echo "${layers[*]}")" >"$1/$type"
	done
	printf '\1{"temperature": 0.5, "top_k": 9, "seed": 1, "num_predict": -1, "num_ctx": 4096, "stop": ["a\\n", "b"]}' >"$1/params"
	printf '\1{"top_p": 0.5, "min_p": 0, "repeat_penalty": 1.1, "stop": "<|im_end|>"}' >"$1/one_stop"
}

seed() { # FUZZER FOLDER
	local fixture name
	for fixture in "$fixtures"/*/; do
		[ -e "$fixture/config.json" ] || continue # a folder of GGUF files
		name=$(basename "$fixture")
		# Of those whose large files lie compressed, the configs are enough.
		[ "$1" = fuzz_config ] || [ -e "$fixture/model.safetensors" ] || continue
		case $1 in
		fuzz_config) cp "$fixture/config.json" "$2/$name" ;;
		fuzz_generation) cp "$fixture/generation_config.json" "$2/$name" ;;
		fuzz_json)
			cp "$fixture/config.json" "$2/$name"
			cp "$fixture/tokenizer_config.json" "$2/$name.tokenizer"
			;;
		fuzz_safetensors) header "$fixture/model.safetensors" >"$2/$name" ;;
		fuzz_tokenizer) cp "$fixture/tokenizer.json" "$2/$name" ;;
		fuzz_codec) coded "$fixture/model.safetensors" >"$2/$name" ;;
		fuzz_identity) records >"$2/$name" ;;
		esac
	done
	case $1 in
	fuzz_state)
		for kind in 0 1 2 3 4 5 6 7; do printf "\\$kind" >"$2/$kind"; done
		printf '\1\54\0params/top_k%20s\4\0\0\0\0\0\0\0%s\n%32s' '' 123 '' | tr ' ' '\0' >"$2/texts"
		printf '\3\310\0\0\1m' >"$2/changed"
		;;
	fuzz_gguf)
		for version in 2 3; do gguf $version >"$2/$version"; done
		;;
	fuzz_gguf_config)
		for first in 0 1 2 3 4 5 6 7 10 11 12 13 14 15; do gguf_keys $first >"$2/$first"; done
		;;
	fuzz_package) packages "$2" ;;
	fuzz_manifest) manifests "$2" ;;
	fuzz_split) answers "$2" ;;
	fuzz_messages) messages "$2" ;;
	fuzz_request)
		request >"$2/chat"
		message >"$2/message"
		response >"$2/response"
		;;
	fuzz_template)
		printf '{%% for m in messages %%}{{ m.role ~ m.content | trim }}{%% endfor %%}' >"$2/messages"
		printf '{%% macro f(a, b=1) %%}{{ x | tojson(indent=2) }}{%% endmacro %%}{{ f(l[::-1]) }}' >"$2/macro"
		printf '{%%- set ns = namespace(i=0) -%%}{%% if n is defined %%}{%% set ns.i = -n // 2 %%}{%% endif %%}' >"$2/set"
		;;
	fuzz_grammar)
		printf '\0{"properties":{"a":{"type":"string","maxLength":9},"b":{"items":{"$ref":"#"}}},"required":["a"]}\0\0\14' >"$2/object"
		printf '\0{"anyOf":[{"enum":["a",1]},{"pattern":"^a+$"},{"type":"integer","minimum":3,"maximum":12}]}\0\4' >"$2/any"
		printf '\10{"additionalProperties":{"type":["number","null"]},"properties":{"ab":{}}}\0\0\5' >"$2/open"
		printf '\1(a|[^b]{2,5})*\\d+$\0\14\15' >"$2/regex"
		printf '\13^(?:ab|a.)+?\\u00e9{3}\0\14' >"$2/more"
		;;
	fuzz_vocabulary)
		for first in 20 21 42 46; do vocabulary $first >"$2/$first"; done
		;;
	fuzz_merges)
		printf '#version: 0.2\na b\nab a\naba b\nb b\n' >"$2/merges"
		printf 'a b\r\nb a\r\nab ab\r\n' >"$2/lines"
		;;
	# What the first byte says, and no change: each kind of file as it was made.
	fuzz_index)
		for kind in 0 1 2 3 4; do printf "\\$kind" >"$2/$kind"; done
		;;
	fuzz_journal)
		for kind in 0 1 2 5; do printf "\\$kind" >"$2/$kind"; done
		;;
	fuzz_sums) { printf '\3'; head -c 96 /dev/zero; } >"$2/zeros" ;;
	fuzz_heat) { printf '\3'; head -c 100 /dev/zero; } >"$2/zeros" ;;
	esac
}

fuzz() { # FUZZER
	local name runs status
	name=$(basename "$1")
	mkdir "$work/$name"
	seed "$name" "$work/$name"
	timeout --kill-after=10 $((seconds + 60)) "$1" -max_total_time="$seconds" -timeout=10 \
		-print_final_stats=1 -artifact_prefix="$1." "$work/$name" >"$work/$name.log" 2>&1
	status=$?
	if [ $status -eq 0 ]; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")
		echo "ok $name: $runs inputs in $seconds s, no crash"
	else
		echo "not ok $name: status $status"
		tail -n 40 "$work/$name.log" | cut -c1-200 | sed 's/^/    /'
	fi
	return $status
}

passed=0 failed=0 running=0
one_ends() {
	if wait -n; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	running=$((running - 1))
}
for fuzzer; do
	[ $running -lt "${JOBS:-1}" ] || one_ends
	fuzz "$fuzzer" &
	running=$((running + 1))
done
while [ $running -gt 0 ]; do one_ends; done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
