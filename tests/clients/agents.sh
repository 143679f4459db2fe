#!/bin/bash
# Agent programs from npm's registry at work through moefs-http: each sends what it really sends (its system text, its
# tools, as a stream), is told by a model to call two tools, does so in a folder, and what it did and what it said are
# both looked for: in the folder, and among the kept prefixes. See README.md.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/registry.bash"
registry "${agents[@]}"

# What the scripted model tells them. Who asks Anthropic's way says that it shall not think.
python3 - >"$work/script.json" <<'PY'
import json, sys
end, off = "<|im_end|>\n<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
def call(name, /, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
count = "wc -w < note.txt > count.txt && cat count.txt"
say = [(" count its words, by codex." + end, call("exec_command", cmd="echo one two three > note.txt && echo written")),
       ("Output:\nwritten\n" + end, call("exec_command", cmd=count)),
       ("Output:\n3\n" + end, "It has 3 words.")]
for way, rest in ("chat", end), ("responses", end), ("messages", end + off):
    say += [(f" count its words, by {way}." + rest, call("write", filePath="note.txt", content="one two three\n"))]
for rest in end, end + off:
    say += [("Wrote file successfully." + rest, call("bash", command=count, description="Counts")),
            ("<|im_start|>tool\n3\n" + rest, "It has 3 words.")]
json.dump([{"after": a, "say": s} for a, s in say], sys.stdout)
PY
scripted "$work/script.json" "" "$root/tests/mount/conversation.jinja"
# The demonstration model, shown its tools as it was taught to use them.
trained=$root/examples/models/fable-moe-15m
mkdir "$work/taught"
ln -s "$trained"/* "$work/taught"
rm "$work/taught/chat_template.jinja"
cp "$clients/taught.jinja" "$work/taught/chat_template.jinja"
others=("$trained" "$work/taught")
mounted
loaded
for model in scripted taught fable-moe-15m; do
	echo auto > "$mnt/$model/sessions/default/params/max_tokens"
done
gateway

# ---- the agents, who keep what they keep in the test's folder and ask nobody else ----

alone() { # COMMAND…
	env -u OPENAI_API_KEY -u ANTHROPIC_API_KEY -u CODEX_HOME NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 \
		HOME="$work/home" XDG_DATA_HOME="$work/home/data" \
		XDG_CONFIG_HOME="$work/home/config" XDG_CACHE_HOME="$work/home/cache" XDG_STATE_HOME="$work/home/state" \
		timeout $limit "$@"
}
mkdir -p "$work/home/.codex"

opencode() { # CONFIGURATION OPTIONS…: what it is told is its standard input
	local configuration=$1
	shift
	OPENCODE_CONFIG=$configuration OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 \
		OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1 \
		alone "$modules/.bin/opencode" run --format json "$@"
}
# opencode's configuration: a provider of that package, a model with that context, and the rest.
configure() { # PACKAGE MODEL CONTEXT REST
	cat <<-END
		{"autoupdate": false, "share": "disabled", "snapshot": false, $4,
		 "model": "moefs/$2", "small_model": "moefs/$2",
		 "provider": {"moefs": {"npm": "$1", "options": {"baseURL": "$url/v1", "apiKey": "none"}, "models": {
		   "$2": {"name": "$2", "tool_call": true, "limit": {"context": $3, "output": 2000}}}}}}
	END
}

codex() { # MODEL WORDS
	cat >"$work/home/.codex/config.toml" <<-END
		model_provider = "moefs"
		check_for_update_on_startup = false
		analytics.enabled = false
		[model_providers.moefs]
		name = "moefs"
		base_url = "$url/v1"
		wire_api = "responses"
	END
	alone "$modules/.bin/codex" exec -m "$1" --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json "$2" </dev/null
}

# ---- what they did ----

did() { # in the folder: both tools have run, in their order
	same "$(cat note.txt)" "one two three" "what was written"
	same "$(cat count.txt)" 3 "what was counted"
}
# In the tree: the kept prefix of the whole conversation. The agent resends everything with each of its three requests;
# all of them together compute no more tokens than the conversation has.
transcript() { # WORDS TOOL TOOL ANSWER
	python3 - "$mnt/scripted/prefixes" "$work/said" "$@" <<'PY' || exit 1
import glob, json, os, re, sys
prefixes, said, words, first, second, answer = sys.argv[1:]
def conversation(text):
    parts = re.findall(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\n|\Z)", text, re.S)
    asked = [i for i, (role, said) in enumerate(parts) if role == "user" and words in said]
    return [(role, re.findall(r'<tool_call>\n\{"name": "(\w+)"', said) or said.strip() if role == "assistant" else None)
            for role, said in parts[asked[0] + 1:]] if asked else []
def without_thoughts(text): return text.replace("<think>\n\n</think>\n\n", "")
found = {path: conversation(without_thoughts(open(path).read())) for path in glob.glob(prefixes + "/*")}
want = [("assistant", [first]), ("tool", None), ("assistant", [second]), ("tool", None), ("assistant", answer)]
whole = [path for path, parts in found.items() if parts == want]
assert len(whole) == 1, found
tokens = int(os.path.basename(whole[0]).split("-")[0])
computed = 0
for event in (json.loads(line) for line in open(said) if line.startswith("{")):
    if event["type"] == "step_finish": # opencode's: of each request
        computed += event["part"]["tokens"]["input"]
    elif event["type"] == "turn.completed": # codex's: of all
        computed += event["usage"]["input_tokens"] - event["usage"]["cached_input_tokens"]
assert tokens > 5000, f"no agent's own request: {tokens} tokens"
assert 0 < computed <= tokens, f"{computed} tokens computed of a conversation of {tokens}"
PY
}

two_tools() { # opencode: WAY PACKAGE
	mkdir "$work/$1" && cd "$work/$1" || exit
	configure "$2" scripted 32768 '"permission": {"edit": "allow", "bash": "allow"}' >"$work/$1.json"
	printf %s "Write it down and count its words, by $1." | opencode "$work/$1.json" >"$work/said" 2>&1 ||
		fail "$(tail -n 5 "$work/said")"
	grep -q '"text":"It has 3 words."' "$work/said" || fail "$(tail -n 5 "$work/said")"
	did
	transcript "by $1." write bash "It has 3 words."
}
claim "opencode writes a file and counts its words, over OpenAI's chat" two_tools chat @ai-sdk/openai-compatible
claim "opencode does, over OpenAI's responses" two_tools responses @ai-sdk/openai
claim "opencode does, over Anthropic's messages" two_tools messages @ai-sdk/anthropic

codex_at_work() {
	mkdir "$work/codex" && cd "$work/codex" || exit
	codex scripted "Write it down and count its words, by codex." >"$work/said" 2>&1 || fail "$(tail -n 5 "$work/said")"
	grep -q '"text":"It has 3 words."' "$work/said" || fail "$(tail -n 5 "$work/said")"
	did
	transcript "by codex." exec_command exec_command "It has 3 words."
}
claim "codex does, with all its tools and namespaces, over OpenAI's responses" codex_at_work

# ---- the demonstration model ----

# Its context is 4096 tokens, and what an agent says before it says anything is more: it is told so, and says so itself.
too_long() {
	cd "$work" || exit
	codex taught "Use the tool to add 471 and 199." >"$work/said" 2>&1 && fail "it went well: $(tail -n 5 "$work/said")"
	grep -q "ran out of room in the model's context window" "$work/said" || fail "$(tail -n 5 "$work/said")"
}
claim "codex is told that its own words are more than the demonstration model's context, and says so" too_long

# With a short system text and the three tools that it was taught, it does what it was taught, one question at a time.
taught() {
	local tool
	mkdir -p "$work/agent/tool" "$work/taught-at-work" && cd "$work/taught-at-work" || exit
	ln -s "$modules" "$work/agent/node_modules"
	write_tool add "Add two numbers" "a: z.number(), b: z.number()" 'String(asked.a + asked.b)'
	write_tool get_weather "Get the weather of a city" "city: z.string()" '`{"temp": 21, "sky": "sunny"}`'
	write_tool read_file "Read a file" "path: z.string()" 'fs.readFileSync(asked.path, "utf8")'
	configure @ai-sdk/openai-compatible taught 4096 '"agent": {"build": {"prompt": "Answer.", "temperature": 0}},
		"permission": {"*": "deny", "add": "allow", "get_weather": "allow", "read_file": "allow"}' >"$work/taught.json"
	export OPENCODE_CONFIG_DIR=$work/agent
	asks "Use the tool to add 471 and 199." "The sum of 471 and 199 is 670."
	asks "What is the weather in Oslo?" "It is 21 degrees and sunny in Oslo." --continue
	same "$(cat calls.txt)" $'add {"a":471,"b":199}\nget_weather {"city":"Oslo"}' "what was called"
}
write_tool() { # NAME WHAT ARGUMENTS RESULT
	cat >"$work/agent/tool/$1.js" <<-END
		import fs from "node:fs";
		import { z } from "zod";
		export default {
			description: "$2",
			args: { $3 },
			async execute(asked) {
				fs.appendFileSync("calls.txt", "$1 " + JSON.stringify(asked) + "\\n");
				return $4;
			},
		};
	END
}
asks() { # QUESTION ANSWER OPTIONS…
	printf %s "$1" | opencode "$work/taught.json" "${@:3}" >"$work/said" 2>&1 || fail "$(tail -n 5 "$work/said")"
	grep -qF "\"text\":\"$2\"" "$work/said" || fail "$(tail -n 5 "$work/said")"
}
claim "the demonstration model answers two questions of its own with two tools, in opencode" taught
gateway_over
finish
