#!/bin/bash
# The official packages of OpenAI and Anthropic for Python against moefs-http, and the frameworks on top of them: see
# README.md.
. "$(dirname "$0")/../mount/lib.sh"
clients=$root/tests/clients
official=(openai==2.54.0 anthropic==2.12.0)
older=(anthropic==0.125.0 openai==2.54.0 "pydantic-ai-slim[openai,anthropic]==2.31.1")
frameworks=(litellm==1.110.2 langchain==1.5.2 langchain-openai==1.7.4
	langchain-anthropic==1.7.10 instructor==1.17.0 llm==0.32.1 openai-agents==0.20.0)

# registry PACKAGE==VERSION…: $python is then the one that has them, installed once below build/clients.
registry() {
	local set part
	set=$root/build/clients/python-$(printf '%s ' "$@" | cksum | cut -d ' ' -f 1)
	python=$set/bin/python
	[ ! -e "$set/done" ] || return 0
	part=$(mktemp -d "$root/build/clients/part.XXXXXX") || exit 1
	# Installed where it stays, since programs in it have its path.
	if ! { python3 -m venv --clear "$set" && timeout 900 "$python" -m pip install --quiet "$@"; } >"$part/said" 2>&1; then
		local why
		why=$(tail -n 1 "$part/said")
		rm -rf "$part" "$set"
		skip_all "these packages cannot be had from Python's registry: $*: $why"
	fi
	rm -r "$part"
	: >"$set/done"
}
command -v python3 >/dev/null || skip_all "python3 is missing"
mkdir -p "$root/build/clients"
registry "${older[@]}"
old=$python
registry "${official[@]}" "${frameworks[@]}"

python3 - >"$work/script.json" <<'PY'
import json, sys
end, off = "<|im_end|>\n<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
add = '<tool_call>\n{"name": "add", "arguments": {"a": 12, "b": 30}}\n</tool_call>'
say = [("Is seven a prime number?" + end + "<low>\n", "<think>\nTwo does not divide it.\n</think>\n\nIt is.")]
for rest in end, end + off:  # Anthropic's is told not to think
    say += [("Say hello." + rest, "Hello to you."), ("Once more." + rest, "Hello again."),
            ("Add twelve and thirty." + rest, add), ("<|im_start|>tool\n42" + rest, "It is 42."),
            ("Stop at the hash." + rest, "One # two.")]
json.dump([{"after": a, "say": s} for a, s in say], sys.stdout)
PY
scripted "$work/script.json" "" "$root/tests/mount/conversation.jinja"
others=("$root/examples/models/fable-moe-15m")
mounted
loaded
echo auto > sessions/default/params/max_tokens
gateway
export url PYTHONDONTWRITEBYTECODE=1 HOME=$work NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
export OPENAI_API_KEY=none OPENAI_BASE_URL=$url/v1 ANTHROPIC_API_KEY=none ANTHROPIC_BASE_URL=$url
export LITELLM_LOCAL_MODEL_COST_MAP=True OPENAI_AGENTS_DISABLE_TRACING=1 # nobody else is asked
cd "$work" || exit
for checks in "$python official.py" "$old anthropic_only.py" "$old pydantic_ai_only.py" "$python frameworks.py"; do
	timeout 300 ${checks% *} "$clients/${checks#* }" 2>"$work/said" || { failures=$((failures + 1)); tail -n 5 "$work/said" | sed 's/^/# /'; }
done
finish
