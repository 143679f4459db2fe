#!/bin/bash
# Public suites that hold a server to OpenAI's protocols, against moefs-http: see README.md.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/registry.bash"
registry "${suites[@]}"
python3 - >"$work/script.json" <<'PY'
import json, sys
end = "<|im_end|>\n<|im_start|>assistant\n"
call = '<tool_call>\n{"name": "compatcanary_echo", "arguments": {"value": "CANARY_OK"}}\n</tool_call>'
say = [(" briefly with CANARY_OK.", "CANARY_OK"), (" tool with value CANARY_OK.", call),
       (" requested compatibility status.", '{"status": "ok"}')]
json.dump([{"after": a + end, "say": s} for a, s in say], sys.stdout)
PY
scripted "$work/script.json" "" "$root/tests/mount/conversation.jinja"
mounted
loaded
echo auto > sessions/default/params/max_tokens
gateway

compatcanary() {
	timeout $limit node "$modules/compatcanary/src/cli.js" scan --base-url "$url/v1" --model scripted \
		--timeout $limit --fail-on never --format json --output "$work/report" || fail "$(cat "$work/report")"
	python3 - "$work/report" <<'PY' || exit 1
import json, sys
results = json.load(open(sys.argv[1]))["results"]
bad = [(r["id"], r["summary"]) for r in results if r["status"] != "pass"]
assert len(results) == 7 and not bad, bad or results
PY
}
claim "compatcanary's probes of models, chat, tools, forms and responses all pass" compatcanary
gateway_over
finish
