#!/bin/bash
# The official packages of OpenAI and Anthropic for Node against moefs-http: see README.md.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/registry.bash"
registry "${official[@]}"
mkdir "$work/clients"
cp "$clients"/*.mjs "$work/clients"
ln -s "$modules" "$work/clients/node_modules"

python3 - >"$work/script.json" <<'PY'
import json, sys
end, off = "<|im_end|>\n<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
add = '<tool_call>\n{"name": "add", "arguments": {"a": 12, "b": 30}}\n</tool_call>'
say = [("Is seven a prime number?" + end + "<low>\n", "<think>\nTwo does not divide it.\n</think>\n\nIt is.")]
for rest in (end, end + off): # Anthropic's is told not to think
    say += [("Say hello." + rest, "Hello to you."),
            ("Hello to you.<|im_end|>\n<|im_start|>user\nOnce more." + rest, "Hello again."),
            ("Add twelve and thirty." + rest, add),
            ("<|im_start|>tool\n42" + rest, "It is 42.")]
json.dump([{"after": a, "say": s} for a, s in say], sys.stdout)
PY
scripted "$work/script.json" "" "$root/tests/mount/conversation.jinja"
others=("$root/examples/models/fable-moe-15m")
mounted
loaded
echo auto > sessions/default/params/max_tokens
gateway
cd "$work/clients" || exit
for client in openai anthropic; do
	timeout $limit node $client.mjs "$url" "$mnt" || failures=$((failures + 1))
done
finish
