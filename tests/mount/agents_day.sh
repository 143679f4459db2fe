#!/bin/bash
# An agent's day: one session of many turns with thoughts, tools and their results, and the mount ended and begun
# again in between, from `state`. No turn computes again what an earlier turn has computed, and each turn's answer is
# the same as without a remount. DAY: the number of turns; LEG: how many of them in one mount.
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || skip_all "no jq"
day=${DAY:-40} leg=${LEG:-9}
days=$work/days # what each turn was: of the whole day, and of that in legs
mkdir "$days"

cat >"$work/script.py" <<'PY'
import json
answer = "<|im_end|>\n<|im_start|>assistant\n"
def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
say = [
    ("Good morning." + answer, "Good morning to you. What is there to do today?"),
    ("Please, what is twelve and thirty?" + answer, call("add", a=12, b=30)),
    ("<|im_start|>tool\n42" + answer, "It is 42."),
    ("Think about the bear." + answer, "<think>\nA bear is large, and it sleeps in winter.\n</think>\n\nThe bear sleeps."),
    ("Compare two capitals." + answer, "I look them up.\n" + call("capital", of="Peru") + "\n" + call("capital", of="Chile")),
    ("<|im_start|>tool\nLima<|im_end|>\n<|im_start|>tool\nSantiago" + answer, "Lima is not Santiago."),
    ("Add three times, please." + answer, "<think>\nOne after the other.\n</think>\n\n" + call("add", a=1, b=2)),
    ("<|im_start|>tool\n3" + answer, call("add", a=3, b=3)),
    ("<|im_start|>tool\n6" + answer, call("add", a=6, b=4)),
    ("<|im_start|>tool\n10" + answer, "Ten."),
]
tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object",
          "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}}},
         {"type": "function", "function": {"name": "capital", "parameters": {"type": "object",
          "properties": {"of": {"type": "string"}}}}}]
PY
(cd "$work" && python3 -c '
from script import *
json.dump([{"after": a, "say": s} for a, s in say], open("script.json", "w"))
json.dump(tools, open("tools.json", "w"))') || exit 1
scripted "$work/script.json" "" "$here/conversation.jinja"

# In a session's folder: turns FIRST to LAST of a day, a line each with its cost and its answer.
cat >"$work/day.py" <<'PY'
import json, sys
first, last = int(sys.argv[1]), int(sys.argv[2])
prompts = ["Good morning.", "Please, what is twelve and thirty?", "Think about the bear.",
           "Compare two capitals.", "Good morning.", "Add three times, please."]
capitals = {"Peru": "Lima", "Chile": "Santiago"}
def read(name): return open(name).read()
def say(name, text):
    with open(name, "w") as f: f.write(text)
def result(c):
    a = c["function"]["arguments"]
    value = str(a["a"] + a["b"]) if c["function"]["name"] == "add" else capitals[a["of"]]
    return json.dumps({"tool_call_id": c["id"], "content": value}) + "\n"
for turn in range(first, last):
    calls = json.loads(read("tool_calls.json"))
    if calls:
        say("tool_result", "".join(map(result, calls)))
    else: # the next prompt is the one after those that were asked
        asked = sum(m["role"] == "user" for m in json.loads(read("messages.json")))
        say("prompt", prompts[asked % len(prompts)])
    output, thoughts = read("output"), read("thoughts")
    stats = dict(line.split(None, 1) for line in read("stats").splitlines())
    assert stats["finish"] in ("end", "tool_calls"), stats
    assert output.strip() or thoughts or json.loads(read("tool_calls.json")), "nothing said"
    print(turn, *(stats[k] for k in ("prompt_tokens", "cached_tokens", "recomputed_tokens", "output_tokens",
          "context_tokens", "finish")), json.dumps([output, thoughts, json.loads(read("tool_calls.json"))]))
PY
turns() { timeout $limit python3 "$work/day.py" "$1" "$2" || fail "turns $1 to $2: $(cat error)"; }
new() { mkdir "sessions/$1" && cd "sessions/$1" && echo auto > params/max_tokens && cp "$work/tools.json" tools.json; }

whole() { new whole && turns 0 "$day" >"$days/whole"; }
mounted
loaded
claim "a day of $day turns" whole

# Each turn reuses all that the turn before had read, except perhaps the last token, which may merge with the text
# that follows. After a plain answer it reuses that answer as well.
cat >"$work/once.py" <<'PY'
import json, sys
before = None
for line in open(sys.argv[1]):
    fields = line.split(None, 7)
    turn, prompt, cached, recomputed, output, context = map(int, fields[:6])
    plain = not (json.loads(fields[7])[1] or json.loads(fields[7])[2])
    assert recomputed == 0, line
    if before:
        least = before["context"] if before["plain"] else before["prompt"] - 1
        assert cached >= least, (least, line)
        assert cached < prompt, line
    before = {"prompt": prompt, "context": context, "plain": plain}
print(turn + 1, "turns,", prompt, "tokens at the end")
PY
once() { python3 "$work/once.py" "$days/$1" && same "$(wc -l <"$days/$1")" "$day" turns; }
claim "computes no token twice" once whole

begin() { new legs && cp state "$work/state"; }
go_on() { # FIRST LAST
	mkdir sessions/legs && cp "$work/state" sessions/legs/state && cd sessions/legs || fail "not restored: $(cat "$mnt/error")"
	turns "$1" "$2" >>"$days/legs"
	cp state "$work/state" || fail "not saved"
}
claim "another begins" begin
remounts=0
for first in $(seq 0 "$leg" $((day - 1))); do
	cd "$work" && unmounted
	mounted
	remounts=$((remounts + 1))
	claim "goes on in another mount from turn $first" go_on "$first" $((first + leg < day ? first + leg : day))
done
claim "and computes no token twice either" once legs
claim "turn by turn it is the same day" diff "$days/whole" "$days/legs"
[ -z "${DAY:-}" ] || echo "# $(python3 "$work/once.py" "$days/legs"), $remounts remounts, a state of $(stat -c %s "$work/state") bytes"
finish
