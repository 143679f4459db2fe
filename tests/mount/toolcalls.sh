#!/bin/bash
# Tools: functions on offer, an answer's calls, their results and their files; a tool loop in sh with jq and one in
# Python, with a scripted model.
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || skip_all "no jq"

cat >"$work/tools.json" <<'JSON'
[{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object",
   "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}},
 {"type": "function", "function": {"name": "capital", "parameters": {"type": "object",
   "properties": {"of": {"type": "string"}}}}}]
JSON
python3 - >"$work/script.json" <<'PY'
import json
answer = "<|im_end|>\n<|im_start|>assistant\n"
def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
def said(*calls):
    return "\n".join(calls)
def result(text):
    return "<|im_start|>tool\n" + text
say = [
    ("Please, what is twelve and thirty?" + answer, call("add", a=12, b=30)),
    ("<|im_start|>tool\n42" + answer, "It is 42."),
    ("Compare two capitals." + answer, "I look them up." + "\n" + said(call("capital", of="Peru"), call("capital", of="Chile"))),
    ("<|im_start|>tool\nLima<|im_end|>\n<|im_start|>tool\nSantiago" + answer, "Lima is not Santiago."),
    ("Add three times, please." + answer, call("add", a=1, b=2)),
    ("<|im_start|>tool\n3" + answer, call("add", a=3, b=3)),
    ("<|im_start|>tool\n6" + answer, call("add", a=6, b=4)),
    ("<|im_start|>tool\n10" + answer, "Ten."),
    ("<|im_start|>tool\nLima<|im_end|>\n<|im_start|>user\nNever mind the other one." + answer, "Only Lima, then."),
    ("No call for this one, please." + answer, "No call at all."),
]
json.dump([{"after": a, "say": s} for a, s in say], open(1, "w", closefd=False))
PY
scripted "$work/script.json" "" "$here/conversation.jinja"
mounted
loaded
same "$(cat tool_calls.json)" "[]"
id() { jq -r ".[$1].id" tool_calls.json; }
finish_is() { same "$(awk '$1 == "finish" { print $2 }' stats)" "$1" finish; }
result() { jq -cn --arg id "$1" --arg content "$2" '{tool_call_id: $id, content: $content}'; }
in_session() { # COMMAND: in a session of its own, with the tools on offer
	mkdir "sessions/$1" && cd "sessions/$1" && echo auto > params/max_tokens && cp "$work/tools.json" tools.json || exit
	"$@"
	cd ../.. && rmdir "sessions/$1"
}

one_call() {
	same "$(ask "Please, what is twelve and thirty?")" "" "the text beside the call"
	finish_is tool_calls
	same "$(jq -c '.[].function' tool_calls.json)" '{"name":"add","arguments":{"a":12,"b":30}}'
	id 0 | grep -qxE '[A-Za-z0-9]{9}' || fail "the id is $(id 0)"
	same "$(cat tool_result)" "[]"
	result "$(id 0)" 42 > tool_result || fail "the result is refused: $(cat error)"
	same "$(timeout $limit cat output)" "It is 42."
	finish_is end
	same "$(cat tool_calls.json)" "[]" "the calls of an answer without any"
	same "$(jq -c '[.[] | .role]' messages.json)" '["user","assistant","tool","assistant"]'
	same "$(jq -r '.[2].tool_call_id' messages.json)" "$(jq -r '.[1].tool_calls[0].id' messages.json)"
}
claim "a call, its result, and the answer to that" in_session one_call

parallel_calls() {
	same "$(ask "Compare two capitals.")" "I look them up."
	same "$(jq -r '.[].function.arguments.of' tool_calls.json | tr '\n' ' ')" "Peru Chile "
	result "$(id 1)" Santiago > tool_result || fail "refused: $(cat error)"
	same "$(cat status)" done "one of two results submits nothing"
	same "$(jq -r '.[].content' tool_result)" Santiago "what is not submitted reads back"
	shell_fails_with "Invalid argument" "echo '$(result nobody 1)' > tool_result"
	grep -q "nobody" error || fail "error says: $(cat error)"
	shell_fails_with "Invalid argument" "echo '$(result "$(id 1)" again)' > tool_result"
	grep -q "has its result already" error || fail "error says: $(cat error)"
	shell_fails_with "Invalid argument" "echo 'Lima' > tool_result"
	same "$(jq -r '.[].content' tool_result)" Santiago "after what was refused"
	shell_fails_with "Invalid argument" "echo '$(result "$(id 0)" Lima) $(result nobody 1)' > tool_result"
	same "$(jq -r '.[].content' tool_result)" Santiago "after a write of two, of which the second was refused"
	printf '{"tool_call_id": "%s", "content": "Li' "$(id 0)" >"$work/a" && printf 'ma"}\n' >"$work/b"
	{ cat "$work/a"; same "$(cat status)" done; cat "$work/b"; } > tool_result || fail "in pieces: $(cat error)"
	# In the order of the calls or of the results: the script has the second order.
	timeout $limit cat output >"$work/answer"
	same "$(cat tool_result)" "[]"
	jq -c '[.[] | select(.role == "tool").content]' messages.json
}
order_of_calls() {
	parallel_calls
	result=$(jq -r '[.[] | select(.role == "tool").content] | join(" ")' messages.json)
	case $result in
	"Lima Santiago") same "$(cat "$work/answer")" "Lima is not Santiago." ;;
	*) fail "the results stand as $result" ;;
	esac
}
claim "two calls, results in any order and in pieces; unknown and repeated ids are EINVAL" in_session order_of_calls

both_in_one_write() {
	ask "Compare two capitals." >/dev/null
	jq -c '.[] | {tool_call_id: .id, content: (if .function.arguments.of == "Peru" then "Lima" else "Santiago" end)}' \
		tool_calls.json > tool_result || fail "refused: $(cat error)"
	same "$(timeout $limit cat output)" "Lima is not Santiago."
}
claim "several results in one write" in_session both_in_one_write

never_whole() {
	ask "Please, what is twelve and thirty?" >/dev/null
	python3 - <<'PY' || fail python
import errno, os
f = os.open("tool_result", os.O_WRONLY)
os.write(f, b'{"content": "4')
try:
    os.close(f)
    raise SystemExit("not refused")
except OSError as e:
    assert e.errno == errno.EINVAL, e
PY
	fails_with "Input/output error" cat output
	same "$(cat status)" done
	echo '{"content": 42}' > tool_result || fail "one without an id, where only one waits: $(cat error)"
	same "$(timeout $limit cat output)" "It is 42."
}
claim "a result that never becomes whole is refused at its close" in_session never_whole

prompt_submits() {
	ask "Compare two capitals." >/dev/null
	result "$(id 0)" Lima > tool_result
	same "$(ask "Never mind the other one.")" "Only Lima, then."
	same "$(cat tool_result)" "[]"
}
claim "a prompt submits the results that there are" in_session prompt_submits

not_called() {
	same "$(ask "No call for this one, please.")" "No call at all."
	shell_fails_with "No data available" "echo '{\"content\": \"42\"}' > tool_result"
	grep -q "called no tool" error || fail "error says: $(cat error)"
}
claim "a result that nobody asked for is refused" in_session not_called

too_long() { # refused while it is written, not after 64 MB that were parsed again and again
	local most=$(cat "$m/info/max_prompt_bytes")
	python3 - "$most" <<'PY' || fail "$(cat error)"
import errno, os, sys
f = os.open("tool_result", os.O_WRONLY)
written = os.write(f, b'{"tool_call_id": "c00001000", "content": "')
try:
    while written < 8 * int(sys.argv[1]) + (1 << 20):
        written += os.write(f, b"x" * 65536)
    sys.exit(f"{written} bytes are no result of at most {sys.argv[1]}")
except OSError as e:
    if e.errno != errno.EFBIG:
        raise
PY
	grep -q "info/max_prompt_bytes" error || fail "$(cat error)"
}
claim "a result that is longer than any is refused while it is written" in_session too_long

shell_loop() {
	cat >"$work/loop.sh" <<'SH'
echo "$1" > prompt
answer=$(cat output)
while [ "$(jq length tool_calls.json)" -gt 0 ]; do
	jq -c '.[] | .id as $id | .function.arguments | {tool_call_id: $id, content: (.a + .b | tostring)}' \
		tool_calls.json > tool_result || exit
	answer=$(cat output)
done
echo "$answer"
SH
	for shell in bash dash; do
		same "$(timeout $limit $shell "$work/loop.sh" "Add three times, please.")" "Ten." $shell
		echo reset > ctl
	done
}
claim "a tool loop in sh with jq" in_session shell_loop

python_loop() {
	same "$(timeout $limit python3 - "Add three times, please." <<'PY'
import json, sys
def say(name, text):
    with open(name, "w") as f: f.write(text)
def read(name): return open(name).read()
tools = {"add": lambda a, b: a + b}
say("prompt", sys.argv[1])
answer = read("output")
while calls := json.loads(read("tool_calls.json")):
    for c in calls:
        value = tools[c["function"]["name"]](**c["function"]["arguments"])
        say("tool_result", json.dumps({"tool_call_id": c["id"], "content": str(value)}))
    answer = read("output")
print(answer, end="")
PY
)" "Ten."
	same "$(jq -c '[.[] | select(.role == "tool").content]' messages.json)" '["3","6","10"]'
}
claim "and one in Python" in_session python_loop

example() {
	mkdir "$work/tools" && cp tools.json "$work/tools" || fail "no tools"
	printf '#!/bin/sh\njq ".a + .b"\n' >"$work/tools/add"
	printf '#!/bin/sh\nread -r arguments\ncase $arguments in *Peru*) echo Lima ;; *) exit 3 ;; esac\n' >"$work/tools/capital"
	chmod +x "$work"/tools/[ac]*
	same "$(timeout $limit "$root/examples/tools.sh" . "$work/tools" "Add three times, please.")" "


Ten."
	timeout $limit "$root/examples/tools.sh" . "$work/tools" "Compare two capitals." >/dev/null || fail "status $?"
	same "$(jq -r '[.[] | select(.role == "tool").content][3:] | join(", ")' messages.json)" "Lima, it failed with status 3"
	jq '.[:1]' "$work/tools/tools.json" >"$work/t" && mv "$work/t" "$work/tools/tools.json"
	timeout $limit "$root/examples/tools.sh" . "$work/tools" "Compare two capitals." >/dev/null || fail "status $?"
	same "$(jq -r '.[-2].content' messages.json)" "there is no such tool"
}
claim "examples/tools.sh, with programs for tools" in_session example

polls() {
	timeout $limit python3 - <<'PY' || fail python
import json, os, select
calls = os.open("tool_calls.json", os.O_RDONLY)
poll = select.poll()
poll.register(calls, select.POLLIN)
with open("prompt", "w") as f: f.write("Compare two capitals.")
seen = 0
while True: # woken call by call, or once with both, and at the end
    poll.poll()
    now = json.loads(os.pread(calls, 1 << 16, 0))
    assert len(now) >= seen, now
    seen = len(now)
    if open("status").read() == "done\n" and len(json.loads(os.pread(calls, 1 << 16, 0))) == 2: break
assert seen, "never woken for a call"
PY
}
claim "poll on tool_calls.json wakes for each call and at the end" in_session polls

dirty() {
	ask "Please, what is twelve and thirty?" >/dev/null
	before=$(cat messages.json)
	: > tool_result && same "$(cat messages.json)" "$before" "truncation alone"
	{ result "$(id 0)" 42; same "$(timeout $limit cat output)" "" "while its writer holds it open"; } > tool_result
	same "$(timeout $limit cat output)" "It is 42."
	same "$(stat -c %a tool_result tool_calls.json tools.json | sort -u)" 600
}
claim "it is the release that submits" in_session dirty

refused_tools() {
	before=$(cat tools.json)
	fails_with "Invalid argument" cp <(echo '[{"type": "function"}]') tools.json
	grep -q "tools.json" error || fail "error says: $(cat error)"
	same "$(cat tools.json)" "$before"
	echo '[]' > tools.json && same "$(jq -c . tools.json)" "[]"
}
claim "tools.json that is not a list of functions is refused with a reason" in_session refused_tools
cd / && unmounted

# A published tokenizer and template: thinking and a call in one answer, and the result as that template writes it.
published() {
	local answer='<|im_end|>\n<|im_start|>assistant\n'
	cat >"$work/script.json" <<-JSON
		[{"after": "Please, what is twelve and thirty?$answer", "say":
		  "<think>\nThat is for the tool.\n</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 12, \"b\": 30}}\n</tool_call>"},
		 {"after": "<tool_response>\n42\n</tool_response>$answer", "say": "<think>\nThere it is.\n</think>\n\nIt is **42**."}]
	JSON
	scripted "$work/script.json" "$work/qwen" "$shared/templates/Qwen3.jinja"
	mounted
	loaded
	echo auto > sessions/default/params/max_tokens
	cp "$work/tools.json" tools.json || fail "$(cat error)"
	same "$(ask "Please, what is twelve and thirty?")" ""
	same "$(cat thoughts)" "That is for the tool."
	same "$(jq -c '.[].function' tool_calls.json)" '{"name":"add","arguments":{"a":12,"b":30}}'
	echo '{"content": "42"}' > tool_result || fail "$(cat error)"
	same "$(timeout $limit cat output)" "It is **42**."
	same "$(cat thoughts)" "There it is."
	grep -qF "That is for the tool." rendered || fail "its thoughts are not kept while it works on one question"
	cd / && unmounted
}
shared=${MOEFS_TESTDATA:-$root/../shared} words="so it is with a published tokenizer and template"
if [ -e "$shared/templates/Qwen3.jinja" ] && [ -d "$shared/tokenizers/qwen3" ] && command -v zstd >/dev/null; then
	mkdir "$work/qwen" && cp "$shared/tokenizers/qwen3"/*.json "$work/qwen" && for f in vocab.json merges.txt; do
		zstd -dqc "$shared/tokenizers/qwen3/$f.zst" >"$work/qwen/$f"
	done
	claim "$words" published
else
	echo "ok $words # skip: no zstd, or no templates and tokenizers in $shared"
fi
finish
