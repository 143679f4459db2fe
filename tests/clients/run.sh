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
            ("<|im_start|>tool\n42" + rest, "It is 42."),
            ("Two sums, please." + rest, "I add.\n" + add + "\n" + add),
            ("Stop at the hash." + rest, "One # two.")]
def call(name, /, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
say += [("Patch it." + end, call("apply_patch", input="*** Begin")), ("<|im_start|>tool\nDone!" + end, "Patched."),
        ("Look it up." + end, call("crm__find", name="Ann")), ("<|im_start|>tool\nAnn is here." + end, "She is here."),
        ("Now say it." + end + off, "As I said.")]
json.dump([{"after": a, "say": s} for a, s in say], sys.stdout)
PY
scripted "$work/script.json" "" "$root/tests/mount/conversation.jinja"
others=("$root/examples/models/fable-moe-15m")
mounted
loaded
echo auto > sessions/default/params/max_tokens
gateway
open=$url
# Another that wants a key, answers one at a time, and lets nobody wait.
(umask 077 && echo a-key-of-mine >"$work/keys")
gateway -o "key_file=$work/keys,active=1,queue=0,body=65536"
cd "$work/clients" || exit
for client in openai anthropic; do
	timeout $limit node $client.mjs "$open" "$mnt" "$url" "$(cat "$work/keys")" || failures=$((failures + 1))
done
finish
