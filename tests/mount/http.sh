#!/bin/bash
# moefs-http: the tree over HTTP, for programs that speak OpenAI's protocol. A scripted model calls tools and thinks, the
# demonstration model answers.
. "$(dirname "$0")/lib.sh"
holdable
command -v curl >/dev/null || skip_all "no curl"
command -v python3 >/dev/null || skip_all "no python3"
http=${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}
[ -x "$http" ] || { echo "not ok $(basename "$0"): $http is missing; run make"; exit 1; }

python3 - >"$work/script.json" <<'PY'
import json
answer = "<|im_end|>\n<|im_start|>assistant\n"
def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
say = [
    ("Compare two capitals." + answer, "I look them up.\n" + call("capital", of="Peru") + "\n" + call("capital", of="Chile")),
    ("<|im_start|>tool\nLima<|im_end|>\n<|im_start|>tool\nSantiago" + answer, "Lima is not Santiago."),
    ("Is seven a prime number?" + answer, "<think>\nTwo does not divide it.\n</think>\n\nSeven is a prime."),
    ("Is seven a prime number?" + answer + "<low>\n", "<think>\nSure.\n</think>\n\nIt is, I guess."),
]
json.dump([{"after": a, "say": s} for a, s in say], open(1, "w", closefd=False))
PY
others=("$root/examples/models/fable-moe-15m")
fable=$mnt/fable-moe-15m
scripted "$work/script.json" "" "$here/conversation.jinja"
mounted
echo 24 > "$fable/sessions/default/params/max_tokens"
echo off > "$fable/sessions/default/params/stop_repetition" # for `long`
echo auto > sessions/default/params/max_tokens
export mnt fable PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

begin_http() { # [OPTIONS [LISTEN [FLAG]]]: on a port of its own, which $url then is
	: >"$work/http.err"
	"$http" ${3:+"$3"} -o "listen=${2:-127.0.0.1:0}${1:+,$1}" "$mnt" 2>>"$work/http.err" &
	gateway=$!
	listens $gateway "$work/http.err"
	export url gateway
}
end_http() { # [SIGNAL]: it ends with status 0 unless it is killed; a sanitizer's finding changes the status
	kill "-${1:-TERM}" $gateway
	wait $gateway 2>/dev/null
	local status=$?
	[ $status = 0 ] || [ "${1:-}" = KILL ] || { echo "not ok moefs-http ends: status $status: $(tail -n 3 "$work/http.err")"; failures=$((failures + 1)); }
}
py() { timeout $limit python3 - "$@" || fail "$(tail -n 1 "$work/http.err")"; }
post() { # PATH BODY [curl's options]: the body of the answer, and its status in a line of its own
	local path=$1 body=$2
	shift 2
	curl -sS --max-time $limit -w '\n%{http_code}\n' "$url$path" -d "$body" "$@"
}

# ---- answers ----

begin_http

models() { py <<'PY'; }
import urllib.request
from gateway import *
def get(path): return json.load(urllib.request.urlopen(url + path, timeout=limit))
assert [m["id"] for m in get("/v1/models")["data"]] == [fable, "scripted"]
one = get("/v1/models/" + fable)
assert one["object"] == "model" and one["context_length"] == 4096, one
try: get("/v1/models/nobody")
except urllib.error.HTTPError as e: assert e.code == 404 and fable in json.load(e)["error"]["message"]
else: raise SystemExit("a model that is not there")
assert get("/health")["status"] == "ok"
PY
claim "models: all of them, one, and none" models

whole_and_stream() { py <<'PY'; }
from gateway import *
a = ask("What is the capital of France?")
assert a["object"] == "chat.completion" and content(a) == "The capital of France is Paris.", a
assert a["choices"][0]["finish_reason"] == "stop"
u = a["usage"]
assert u["total_tokens"] == u["prompt_tokens"] + u["completion_tokens"] and u["completion_tokens"] == 10, u
*chunks, usage, done = stream("What is the capital of France?", stream_options={"include_usage": True})
assert done == "[DONE]" and usage["choices"] == [] and usage["usage"]["completion_tokens"] == 10, usage
assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == content(a)
assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"][0]["finish_reason"]] == ["stop"]
assert len(chunks) >= 3 and len({c["id"] for c in chunks}) == 1, "token by token, and one answer"
assert not sessions()
PY
claim "a chat is answered in one piece and as a stream" whole_and_stream

sampling() { py <<'PY'; }
from gateway import *
q = "What is 12 x 6?"
two = ask(q, n=2, logprobs=True, top_logprobs=2)
assert [c["index"] for c in two["choices"]] == [0, 1] and content(two) == "12 x 6 = 72"
lines = two["choices"][0]["logprobs"]["content"]
assert "".join(l["token"] for l in lines) == "12 x 6 = 72", lines
assert all(len(l["top_logprobs"]) == 2 and l["logprob"] <= 0 and bytes(l["bytes"]).decode() == l["token"] for l in lines)
same(two["choices"][0]["message"]["annotations"], [])
assert two["system_fingerprint"].startswith("moefs-") and "completion_tokens_details" in two["usage"], two
# Half a character: its bytes are given, and a text that is cut there ends before it.
half = post("/tokenize", {"model": fable, "prompt": "\u00e9"})["tokens"][0]
drawn = ask(q, logprobs=True, top_logprobs=1, max_tokens=1, logit_bias={str(half): 100})
same(drawn["choices"][0]["logprobs"]["content"][0]["bytes"], [0xc3])
same(content(drawn), "")
chunks = stream(q, logprobs=True)[:-1]
streamed = [l["token"] for c in chunks for l in (c["choices"][0]["logprobs"] or {"content": []})["content"]]
assert streamed == [l["token"] for l in lines], streamed
assert content(ask(q, stop=" =")) == "12 x 6" and content(ask(q, stop=["\n", "6"])) == "12 x "
cut = ask(q, max_completion_tokens=2)
assert cut["choices"][0]["finish_reason"] == "length" and cut["usage"]["completion_tokens"] == 2, cut
warm = dict(temperature=1.5, top_p=.9, seed=11, frequency_penalty=.5, presence_penalty=-.5)
assert content(ask(q, **warm)) == content(ask(q, **warm))
eight = post("/tokenize", {"model": fable, "prompt": "12"})["tokens"][0]
assert not content(ask(q, logit_bias={str(eight): -100})).startswith("12")
form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "additionalProperties": False,
        "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}
assert list(json.loads(content(ask("Give me JSON.", response_format=form)))) == ["a"]
assert isinstance(json.loads(content(ask("Give me JSON.", response_format={"type": "json_object"}, max_tokens=200))), (dict, list))
said = ask("What is the capital of France?", structured_outputs={"choice": ["Rome", "The capital of France is Paris.", "Lima"]}, max_tokens=2)
assert content(said) == "The capital of France is Paris." and said["choices"][0]["finish_reason"] == "stop", said
assert content(ask("What is the capital of France?", guided_choice=["a", "b"], seed=1)) in ("a", "b")
one = post("/v1/embeddings", {"model": fable, "input": "a text"})
two = post("/v1/embeddings", {"model": fable, "input": ["another", "a text"], "encoding_format": "base64"})
import base64, struct
width = len(one["data"][0]["embedding"])
raw = base64.b64decode(two["data"][1]["embedding"])
same([struct.unpack("<f", struct.pack("<f", x))[0] for x in one["data"][0]["embedding"]], list(struct.unpack(f"<{width}f", raw)))
assert two["usage"]["prompt_tokens"] > one["usage"]["prompt_tokens"] > 0 and two["data"][1]["index"] == 1, two["usage"]
ids = post("/tokenize", {"model": fable, "prompt": "a text"})["tokens"]
same(post("/v1/embeddings", {"model": fable, "input": ids})["data"], one["data"])
same(len(post("/v1/embeddings", {"model": fable, "input": "a text", "dimensions": 8})["data"][0]["embedding"]), 8)
assert content(ask([{"role": "developer", "content": "Be brief."}, {"role": "user", "content":
    [{"type": "text", "text": "What is the capital"}, {"type": "text", "text": " of France?"}]}], store=True, user="me"))
PY
claim "how an answer is drawn, ended and held to a form" sampling

tools() { py <<'PY'; }
from gateway import *
tool = {"type": "function", "function": {"name": "capital", "parameters": {"type": "object", "properties": {"of": {"type": "string"}}}}}
q = [{"role": "user", "content": "Compare two capitals."}]
m = ask(q, model="scripted", tools=[tool])["choices"][0]
assert m["finish_reason"] == "tool_calls" and m["message"]["content"].strip() == "I look them up.", m
calls = m["message"]["tool_calls"]
assert [json.loads(c["function"]["arguments"]) for c in calls] == [{"of": "Peru"}, {"of": "Chile"}], calls
chunks = stream(q, model="scripted", tools=[tool])[:-1]
deltas = [t for c in chunks for t in c["choices"][0]["delta"].get("tool_calls", [])]
assert [d["index"] for d in deltas] == [0, 0, 1, 1] and deltas[0]["function"]["name"] == "capital", deltas
assert "".join(d["function"]["arguments"] for d in deltas if d["index"] == 1) == calls[1]["function"]["arguments"]
assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
one = ask(q, model="scripted", tools=[tool], parallel_tool_calls=False, n=2)
assert [len(c["message"]["tool_calls"]) for c in one["choices"]] == [1, 1] and one["choices"][0]["finish_reason"] == "tool_calls", one
chunks = stream(q, model="scripted", tools=[tool], parallel_tool_calls=False)[:-1]
assert [t["index"] for c in chunks for t in c["choices"][0]["delta"].get("tool_calls", [])] == [0, 0], chunks
assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
results = [{"role": "tool", "tool_call_id": c["id"], "content": r} for c, r in zip(calls, ("Lima", "Santiago"))]
last = ask(q + [m["message"]] + results, model="scripted", tools=[tool])
assert content(last) == "Lima is not Santiago." and last["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, last
forced = ask("What is the capital of Peru?", tools=[tool], tool_choice={"type": "function", "function": {"name": "capital"}}, max_tokens=100)
assert forced["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "capital", forced
other = {"type": "function", "function": {"name": "other"}}
allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool]}}
forced = ask("What is the capital of Peru?", tools=[other, tool], tool_choice=allowed, max_tokens=100)
assert forced["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "capital", forced
PY
claim "tools: parallel calls or one alone, whole and as deltas, their results, and one that must be called" tools

thinks() { py <<'PY'; }
from gateway import *
q = "Is seven a prime number?"
m = ask(q, model="scripted")["choices"][0]["message"]
assert (m["reasoning_content"], m["content"]) == ("Two does not divide it.", "Seven is a prime."), m
deltas = [c["choices"][0]["delta"] for c in stream(q, model="scripted")[:-1]]
assert "".join(d.get("reasoning_content", "") for d in deltas) == m["reasoning_content"], deltas
kinds = [k for d in deltas for k in ("reasoning_content", "content") if d.get(k)]
assert kinds == sorted(kinds, reverse=True), "thoughts come before the answer"
assert content(ask(q, model="scripted", reasoning_effort="low")) == "It is, I guess."
assert content(ask("What is 12 x 6?", reasoning_effort="high")) == "12 x 6 = 72", "a model that cannot be told"
PY
claim "thoughts are reasoning_content, and reasoning_effort is passed on if possible" thinks

completions() { py <<'PY'; }
from gateway import *
def complete(prompt, **more): return post("/v1/completions", {"model": fable, "prompt": prompt, "temperature": 0, **more})
text = "The capital of France is"
a = complete(text, max_tokens=4)
assert a["object"] == "text_completion" and a["choices"][0]["text"].startswith(" Paris."), a
b = complete(text, max_tokens=3, echo=True, logprobs=2)["choices"][0]
assert b["text"].startswith(text + " Paris"), b
l = b["logprobs"]
assert "".join(l["tokens"]) == b["text"] and l["token_logprobs"][0] is None and l["token_logprobs"][1] < 0, l
assert [b["text"][o:][:len(t)] for o, t in zip(l["text_offset"], l["tokens"])] == l["tokens"]
scored = complete(text, max_tokens=0, echo=True, logprobs=0)["choices"][0]
assert scored["text"] == text and scored["logprobs"]["token_logprobs"][1:] == l["token_logprobs"][1:6], scored
two = complete([text, "The opposite of hot"], max_tokens=2, n=2)
assert [c["index"] for c in two["choices"]] == [0, 1, 2, 3] and two["choices"][0]["text"] == two["choices"][1]["text"]
ids = post("/tokenize", {"model": fable, "prompt": text + "\n"})
assert complete(text, max_tokens=0, echo=True)["usage"]["prompt_tokens"] == len(scored["logprobs"]["tokens"])
# Tokens that are parts of a character: the stream is valid UTF-8, and offsets count in the text.
parts = complete("h\u00e9\u00e9llo", max_tokens=0, echo=True, logprobs=0)["choices"][0]
assert parts["text"] == "h\u00e9\u00e9llo" and "\ufffd" in parts["logprobs"]["tokens"], parts
assert parts["logprobs"]["text_offset"][-1] <= 5 and parts["logprobs"]["text_offset"] == sorted(parts["logprobs"]["text_offset"]), parts
half = post("/tokenize", {"model": fable, "prompt": "\u00e9"})["tokens"][:1]
assert post("/detokenize", {"model": fable, "tokens": half})["prompt"] == "\ufffd"
assert complete(text, max_tokens=1, n=2, best_of=2)["choices"][1]
assert ids["count"] == len(ids["tokens"]) and post("/detokenize", {"model": fable, "tokens": ids["tokens"]})["prompt"] == text + "\n"
assert complete(ids["tokens"][:-1], max_tokens=4)["choices"][0]["text"] == a["choices"][0]["text"]
*chunks, done = events("/v1/completions", {"model": fable, "prompt": text, "temperature": 0, "max_tokens": 4, "stream": True})
assert done == "[DONE]" and "".join(c["choices"][0]["text"] for c in chunks) == a["choices"][0]["text"]
assert chunks[-1]["choices"][0]["finish_reason"] == "stop" and not sessions()
PY
claim "completions: echo, logprobs, several prompts, ids, a stream; tokens and back" completions

errors() { py <<'PY'; }
from gateway import *
def wrong(status, param, words, body, path="/v1/chat/completions", code=None, kind="invalid_request_error"):
    e = post(path, body, status)["error"]
    assert e["param"] == param and words in e["message"] and e["type"] == kind and e["code"] == code, e
wrong(400, None, "not valid JSON", b'{"model":')
wrong(400, None, "not valid JSON", b"")
wrong(400, None, "zero byte", json.dumps(chat("x")).encode() + b"\0and more")
wrong(400, None, "must be a JSON object", b"[1]")
wrong(400, None, "not valid JSON", b'{"a":' * 500)
wrong(404, "model", fable, chat("x", model="nobody"), code="model_not_found")
wrong(404, "model", fable, chat("x", model="../cache"), code="model_not_found")
wrong(400, "model", "missing", {"messages": []})
wrong(400, "messages", "at least one", chat([]))
wrong(400, "messages", "message 0", chat([{"role": "king", "content": "x"}]))
wrong(400, "messages", "image_url", chat([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]))
wrong(400, "temperature", "from 0 to 2", chat("x") | {"temperature": 3})
wrong(400, "max_tokens", "whole number", chat("x", max_tokens=-1))
wrong(400, "n", "from 1 to 16", chat("x", n=99))
wrong(400, "stop", "none empty", chat("x", stop=[""]))
wrong(400, "logit_bias", "none with the id 999999", chat("x", logit_bias={"999999": 1}))
wrong(400, "response_format", "schema", chat("x", response_format={"type": "json_schema", "json_schema": {"schema": {"type": "king"}}}))
wrong(400, "structured_outputs", "may only be a choice", chat("x", structured_outputs={"regex": "a"}))
wrong(400, "structured_outputs", "the same", chat("x", structured_outputs={"choice": ["a", "a"]}))
wrong(400, "guided_choice", "list of texts", chat("x", guided_choice="a"))
wrong(400, "functions", 'use "tools"', chat("x", functions=[{}]))
wrong(400, "tools", "only functions", chat("x", tools=[{"type": "custom", "custom": {}}]))
named = lambda name: {"type": "function", "function": {"name": name}}
wrong(400, "tool_choice", "no tool on offer: ghost", chat("x", tools=[named("f")], tool_choice=named("ghost")))
wrong(400, "tool_choice", 'needs "tools"', chat("x", tool_choice=named("f")))
wrong(400, "tool_choice", "not on offer: ghost", chat("x", tools=[named("f")], tool_choice={"type": "allowed_tools", "allowed_tools": {"tools": [named("ghost")]}}))
wrong(400, "tools", '"a name!" cannot be the name', chat("x", tools=[named("a name!")]))
wrong(400, "tools", 'invalid schema for "f"', chat("x", tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "strange"}}}]))
call = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
wrong(400, "messages", "did not have response messages: c1", chat([call, {"role": "user", "content": "x"}]))
wrong(400, "messages", "there is no call 'c2'", chat([{"role": "tool", "tool_call_id": "c2", "content": "x"}]))
wrong(400, "audio", "only write text", chat("x", audio={}))
wrong(400, "best_of", "not supported", {"model": fable, "prompt": "x", "best_of": 3}, "/v1/completions")
wrong(400, "prompt", "not whole characters", {"model": fable, "prompt": [post("/tokenize", {"model": fable, "prompt": "\u00e9"})["tokens"][0]]}, "/v1/completions")
wrong(400, "suffix", "is not supported", {"model": fable, "prompt": "x", "suffix": "y"}, "/v1/completions")
wrong(404, None, "nothing at", {}, "/v1/nothing")
wrong(405, None, "GET", {}, "/v1/models", "method_not_allowed")
for path, methods in ("/v1/models", "GET, HEAD"), ("/tree/error", "GET, HEAD, PUT, POST, DELETE, MOVE"):
    same(answered(path, {}, "PATCH")[1]["headers"]["Allow"], methods)
wrong(400, "model", "missing", {}, "/v1/embeddings")
wrong(400, "input", "missing", {"model": fable}, "/v1/embeddings")
wrong(400, "input", "not be empty", {"model": fable, "input": ["a", ""]}, "/v1/embeddings")
wrong(400, "dimensions", "embeddings have", {"model": fable, "input": "a", "dimensions": 9999}, "/v1/embeddings")
wrong(404, None, "no model here makes images", {}, "/v1/images/generations")
wrong(404, None, "no model here makes speech", {}, "/v1/audio/speech")
for how in {}, {"stream": True}:
    e = ask(" hello" * 6000, 400, **how)["error"]
    assert e["code"] == "context_length_exceeded" and "4096 tokens" in e["message"] and "18011 tokens" in e["message"], e
    wrong(400, "prompt", "6002 tokens", {"model": fable, "prompt": "word " * 6000, **how}, "/v1/completions", "context_length_exceeded")
    e = ask("Refuse this.", 400, model="scripted", **how)["error"]
    assert e["param"] == "messages" and e["message"] == "This template refuses.", e
assert not sessions()
PY
claim "errors have OpenAI's shape, before any stream begins" errors

# ---- a request is a session ----

in_the_tree() { py <<'PY'; }
from gateway import *
with standing():
    answer = events("/v1/chat/completions", long(stream=True))
    next(answer), next(answer)
    s, = sessions()
    assert "Tell me a story." in look(s, "messages.json") and look(s, "status") == "generating\n"
    until(lambda: look(s, "log"), "its log is empty")
    with open(f"{mnt}/{fable}/sessions/{s}/ctl", "w") as f: f.write("stop\n")
    *_, last, done = answer
    assert done == "[DONE]" and last["choices"][0]["finish_reason"] == "stop", last
    until(lambda: not sessions(), "it is not removed")
    answer = events("/v1/chat/completions", long(stream=True))
    next(answer), next(answer)
    s, = sessions()
    os.rmdir(f"{mnt}/{fable}/sessions/{s}")
    *_, last = answer
    assert last["error"]["type"] == "server_error", last
PY
claim "ls, log and stop work on a request; one whose session is removed ends with its error event" in_the_tree

dropped() { py <<'PY'; }
from gateway import *
with standing():
    for streams in True, False:
        s = begin(long(f"Tell me a story, {streams}.", stream=streams))
        until(sessions, "it has not begun")
        name, = sessions()
        until(lambda: not sessions() or look(name, "status") == "generating\n", "it does not work")
        s.close()
        until(lambda: not sessions(), "it goes on without its client")
PY
claim "a client that goes away ends its answer" dropped

grows() { py <<'PY'; }
from gateway import *
talk = [{"role": "system", "content": "You know capitals."}]
used = 0
for i, place in enumerate(("France", "Peru", "Chad", "Iran", "Japan")):
    talk.append({"role": "user", "content": f"What is the capital of {place}?"})
    a = ask(talk, max_tokens=24, **({"stop": ["Lima"]} if i == 1 else {}))
    u = a["usage"]
    assert u["prompt_tokens_details"]["cached_tokens"] >= used, (i, u)
    # Everything from before is reused, except what the template writes after it.
    used = u["prompt_tokens"] + u["completion_tokens"] - 4
    talk.append(a["choices"][0]["message"])
    ask(f"What is the capital of {place}?") # others come between
assert "Lima" not in talk[4]["content"] and not sessions()
assert content(ask([{"role": "user", "content": "What is the capital of Peru?"}])) == "The capital of Peru is Lima.", "a stop that stayed"
PY
claim "a conversation that grows computes only what is new" grows
end_http
claim "SIGTERM leaves no session" same "$(ls "$fable/sessions")" default

begin_http 'ignore_line=^(Today|Bill) is [0-9]'
ignored() { py <<'PY'; }
from gateway import *
words = " ".join(f"Rule {i}." for i in range(150))
def talk(day): return [{"role": "system", "content": f"Today is {day}.\n{words}\nBill is {day}0"}, {"role": "user", "content": "What is 9 x 4?"}]
first = ask(talk(1))["usage"]
again = ask(talk(2))["usage"]
assert again["prompt_tokens_details"]["cached_tokens"] == again["prompt_tokens"] - 1 == first["prompt_tokens"] - 1, again
system = prefixes()[-1]
assert "Today" not in system and "Bill" not in system and "Rule 49." in system
other = ask([talk(3)[0], {"role": "user", "content": "What is 3 x 4?"}])["usage"]
assert other["prompt_tokens_details"]["cached_tokens"] > other["prompt_tokens"] - 20, other
PY
claim "lines of a system text that mean nothing are left out, and a common beginning is shared" ignored

# ---- many, and few ----

leave() { [ "$(ls "$fable/sessions")" = default ] || fail "$(ls "$fable/sessions")"; }
end_http KILL 2>/dev/null
begin_http active=1,queue=1
claim "the next gateway removes a killed one's leftovers" leave

busy() { py <<'PY'; }
from gateway import *
import urllib.request
def metric(name):
    text = urllib.request.urlopen(url + "/metrics", timeout=limit).read().decode()
    return int(next(l.split()[1] for l in text.splitlines() if l.startswith(name + " ")))
with standing():
    first = begin(long(stream=True))
    until(lambda: metric("moefs_http_active") == 1 and sessions(), "the first does not begin")
    second = begin(chat("What is the capital of France?"))
    until(lambda: metric("moefs_http_queued") == 1, "the second does not wait")
    e = ask("What is 12 x 6?", 429)
    assert int(e["headers"]["Retry-After"]) > 0 and e["error"]["type"] == "rate_limit_error", e
    first.close()
    said = b""
    while b"Paris." not in said:
        piece = second.recv(65536)
        assert piece, said
        said += piece
    assert not sessions()
    third, fourth = begin(long(stream=True)), begin(long(stream=True))
    until(lambda: metric("moefs_http_queued") == 1, "the fourth does not wait")
    fourth.close()
    until(lambda: metric("moefs_http_queued") == 0, "who has gone away waits still")
    third.close()
    until(lambda: metric("moefs_http_active") == 0, "who has gone away is answered still")
    assert metric("moefs_output_tokens_total") > 0
PY
claim "one answers, one waits, the next is told when to try again, and a client that leaves makes room" busy
end_http

begin_http active=1,queue=1,body=4096,timeout=1
hostile() { py <<'PY'; }
from gateway import *
def status(data): # once it is sent as fast as it has to be here: a test may be paused
    while True:
        got = raw(data)
        if raw.took < .5: return got[9:12]
assert status(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") == b"200"
assert status(b"GET /v1/models HTTP/1.1\r\nHost: rebound.example\r\n\r\n") == b"403"
assert status(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n") == b"403"
assert status(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\nConnection: close\r\n\r\n") == b"413"
chunks = b"".join(b"400\r\n" + b"x" * 1024 + b"\r\n" for _ in range(8)) + b"0\r\n\r\n"
head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
assert status(head + chunks) == b"413"
for nonsense in (b"zz\r\nx\r\n", b"ffffffffffffffffff\r\nx", b"-1\r\n\r\n", b"5\r\nabc"):
    assert status(head + nonsense) in (b"400", b"413", b""), nonsense
assert status(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n") in (b"414", b"431", b"400", b"413", b"")
assert status(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"b" * 200000 + b"\r\n\r\n") in (b"431", b"413", b"400", b"")
assert status(b"".join([b"GET / HTTP/1.1\r\n"] + [b"X-%d: y\r\n" % i for i in range(20000)]) + b"\r\n") in (b"431", b"413", b"400", b"")
for path in (b"/v1/models/../../etc/passwd", b"/v1/models/%2e%2e/cache", b"/v1/models/..%2fcache", b"//v1//models", b"/v1/models/cache", b"/v1/models/.", b"/v1/models/%00", b"/v1/models%00x", b"/v1/models/fable-moe-15m%00?x"):
    assert status(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") in (b"404", b"400"), path
for junk in (b"\x16\x03\x01\x02\x00\x01", b"\r\n" * 1000, b"GET\r\n\r\n", b"\0" * 5000, b"POST / HTTP/9.9\r\n\r\n"):
    raw(junk)
# If the end of a request is unclear, the bytes after it are not read as another request.
behind = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
chunks = b"5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"
for headers, sent in ((b"Content-Length: %d\r\nTransfer-Encoding: chunked" % len(chunks), chunks), (b"Content-Length: 0\r\nContent-Length: %d" % len(behind), b""),
                      (b"Content-Length : %d" % len(behind), b""), (b"Transfer-Encoding : chunked", chunks),
                      (b"Transfer-Encoding: xchunked", chunks), (b"Transfer-Encoding: gzip, chunked", chunks)):
    for method in b"POST", b"OPTIONS":
        got = raw(method + b" /tokenize HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n" + sent + behind)
        assert not got or got.startswith(b"HTTP/1.1 400") and got.count(b"HTTP/1.1 ") == 1, (headers, got)
# Silent clients, and clients whose request never ends, are disconnected.
assert raw(b"GET /v1/models HTTP/1.1\r\nHost: loc") is not None
s = connect()
s.sendall(head)
try:
    while True:
        s.sendall(b"1\r\n ")
        s.sendall(b"\r\n")
        time.sleep(.2)
except OSError: pass
while True:
    try: answer = ask("What is the capital of France?")
    except OSError: continue # not sent as fast as it has to be
    break
assert content(answer) == "The capital of France is Paris."
PY
claim "heads, bodies, times and paths have bounds" hostile
end_http

begin_http active=8
many() { py <<'PY'; }
from gateway import *
import threading
wrong, places = [], ("France", "Peru", "Chad", "Iran")
def answered(i):
    place = places[i % 4]
    try:
        chunks = stream(f"What is the capital of {place}?", max_tokens=24)
        text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1])
        if not text.startswith(f"The capital of {place} is "): wrong.append((i, text))
    except Exception as e: wrong.append((i, repr(e)))
def drops(i):
    s = begin(long(f"Story {i}.", stream=True))
    if i % 4 == 1: s.recv(100) # the others do not even read
    s.close()
threads = [threading.Thread(target=drops if i % 2 else answered, args=(i,)) for i in range(64)]
for t in threads: t.start()
for t in threads: t.join(limit)
assert not wrong, wrong
until(lambda: not sessions(), "sessions are left")
PY
claim "64 clients at once, half of which go away: the others are answered" many
end_http

# ---- access ----

printf '\xef\xbb\xbffirst-key\n# a comment%500stail\n\tsecond-key \r\n' "" >"$work/keys"
open_keys() {
	chmod 644 "$work/keys"
	fails_with "chmod 600" "$http" -o "listen=127.0.0.1:0,key_file=$work/keys" "$mnt"
	chmod 600 "$work/keys"
	fails_with "key_file" "$http" -o listen=0.0.0.0:0 "$mnt"
	fails_with "cannot be read" "$http" "$work/nothing"
	fails_with "has no models" "$http" "$work"
	fails_with "unknown option" "$http" -o nothing=1 "$mnt"
	fails_with "ADDR:PORT" "$http" -o listen=nowhere "$mnt"
}
claim "it does not start for unauthorised clients, and says why" open_keys
begin_http "key_file=$work/keys,cors=http://page.example" 0.0.0.0:0
url=http://127.0.0.1:${url##*:}
keys() { py <<'PY'; }
from gateway import *
import urllib.request
q = [{"role": "system", "content": "You know. " * 20}, {"role": "user", "content": "What is 12 x 6?"}]
e = ask(q, 401)["error"]
assert e["code"] == "invalid_api_key", e
ask(q, 401, {"Authorization": "Bearer first-ke"})
ask(q, 401, {"Authorization": "Bearer first-key2"})
ask(q, 401, {"Authorization": "Bearer # a comment"})
ask(q, 401, {"Authorization": "Bearer tail"})
first, second = {"Authorization": "Bearer first-key"}, {"x-api-key": "second-key"}
cached = lambda a: a["usage"]["prompt_tokens_details"]["cached_tokens"]
assert cached(ask(q, headers=first)) == 0
assert cached(ask(q, headers=second)) == 0, "another key's conversation"
assert cached(ask(q, headers=first)) > 0
assert json.load(urllib.request.urlopen(url + "/health"))["status"] == "ok"
r = urllib.request.urlopen(urllib.request.Request(url + "/v1/models", method="OPTIONS",
    headers={"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}))
assert r.status == 204 and r.headers["Access-Control-Allow-Origin"] == "http://page.example"
PY
claim "keys: none, wrong ones, and each its own conversations; a page that may ask" keys
key_forks() { # forks get names of the key's own
	tree() { curl -sS --max-time $limit -H "Authorization: Bearer $1" -w '%{http_code}' -o "$work/body" "${@:3}" "$url/tree/scripted/sessions/$2"; }
	same "$(tree first-key one -X POST)" 201 && same "$(tree first-key one/ctl -T - <<<"fork two")" 200 "$(cat "$work/body")"
	same "$(tree first-key two/log)" 200 && same "$(tree second-key two/log)" 404
	[ ! -e "$mnt/scripted/sessions/two" ] || fail "it is everybody's"
	same "$(tree first-key one/ctl -T - <<<"fork ../two")" 400
	same "$(tree first-key one/ctl -T - <<<$'fork\nthree')" 200 && same "$(tree first-key three -X DELETE)" 200
	same "$(tree first-key one -X DELETE)" 200 && same "$(tree first-key two -X DELETE)" 200
}
claim "a copy that a key makes of its session stays the key's" key_forks
end_http

begin_http "" "unix:$work/socket"
by_socket() {
	same "$(stat -c %a "$work/socket")" 700
	curl -sS --max-time $limit --unix-socket "$work/socket" http://localhost/v1/models | grep -q '"scripted"' || fail "no models"
}
claim "a socket in the file system, for its user" by_socket
end_http KILL 2>/dev/null
begin_http "" "unix:$work/socket"
claim "one that a killed gateway has left is used again" by_socket
end_http

if command -v openssl >/dev/null; then
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" -subj /CN=localhost -days 2 2>/dev/null
	begin_http "cert=$work/cert.pem,key=$work/key.pem"
fi
by_tls() {
	curl -sS --max-time $limit --cacert "$work/cert.pem" "https://localhost:${url##*:}/v1/models" | grep -q '"scripted"' || fail "no models"
}
needs openssl claim "TLS" by_tls
[ -e "$work/cert.pem" ] && end_http

unpolled() { py <<'PY'; }
from gateway import *
q = "Is seven a prime number?"
deltas = [c["choices"][0]["delta"] for c in stream(q, model="scripted")[:-1]]
assert "".join(d.get("reasoning_content", "") for d in deltas) == "Two does not divide it.", deltas
assert "".join(d.get("content", "") for d in deltas) == "Seven is a prime.", deltas
a = ask("What is 12 x 6?", n=2, logprobs=True)
assert [c["message"]["content"] for c in a["choices"]] == 2 * ["12 x 6 = 72"]
assert "".join(l["token"] for l in a["choices"][1]["logprobs"]["content"]) == "12 x 6 = 72"
with standing():
    s = begin(long(stream=True))
    until(working, "it does not begin")
    s.close()
    until(lambda: not sessions(), "it goes on without its client")
PY
begin_http poll=off
claim "a tree whose files cannot be polled, as across sshfs" unpolled
end_http

secret() { # the log of requests has none of their text
	begin_http "" "" -v
	post /v1/chat/completions '{"model": "fable-moe-15m", "messages": [{"role": "user", "content": "A secret word."}]}' >/dev/null
	end_http
	grep -q 'POST /v1/chat/completions 200' "$work/http.err" || fail "$(cat "$work/http.err")"
	! grep -q secret "$work/http.err" || fail "it tells"
	begin_http log_prompts
	post /v1/chat/completions '{"model": "fable-moe-15m", "messages": [{"role": "user", "content": "A secret word."}]}' >/dev/null
	end_http
	grep -q secret "$work/http.err" || fail "it does not tell where it is asked to"
}
claim "logs have nothing of a prompt unless they shall" secret

told() { # every option and endpoint in the manual page
	local option count=0 page
	page=$(dirname "$MOEFS")/install/moefs-http.1
	for option in $("$http" --help | sed -n 's/^    \([a-z_]*\)=\{0,1\}[A-Zo|,]*.*/\1/p' | grep .); do
		grep -qE "^\.B.*\\\\-o $option|,$option=" "$page" || fail "moefs-http.1 lacks $option"
		count=$((count + 1))
	done
	[ $count -gt 12 ] || fail "--help has only $count options"
	for path in $(grep -oE '"(/v1)?/[a-z/_]+"' "$root/fs/gateway/routes.c" | tr -d '"' | sed 's|/$||'); do
		grep -q "$path" "$page" || fail "moefs-http.1 lacks $path"
	done
}
claim "the manual page has every option and every path" told

# Passed as systemd passes it.
passed() {
	py "$http" "$mnt" <<'PY'
import os, socket, subprocess, sys, urllib.request
s = socket.create_server(("127.0.0.1", 0))
os.dup2(s.fileno(), 3)
child = subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$1"', *sys.argv[1:]], pass_fds=[3], stderr=subprocess.DEVNULL)
assert b"scripted" in urllib.request.urlopen("http://127.0.0.1:%d/v1/models" % s.getsockname()[1]).read()
child.terminate()
assert child.wait() == 0
PY
}
claim "a socket that is passed to it" passed
cd / && unmounted

# The gateway runs as long as the mount does. A reader of moefs' output gets the URL and then the end of the output,
# although the gateway goes on.
tells_its_url() {
	local told log=$work/log
	told=$(timeout $limit "$MOEFS" -o "store=$store,http=127.0.0.1:0,log=$log" "${others[0]}" "$mnt" 2>&1) || fail "$told"
	[[ $told =~ ^http://127\.0\.0\.1:[0-9]+$ ]] || fail "it printed: $told"
	curl -sS --max-time $limit --retry 100 --retry-connrefused "$told/v1/models" | grep -q fable || fail "no models at $told"
	until_true grep -q "listening on ${told#http://}" "$log" || fail "the log: $(cat "$log")"
	child=$(pgrep -f -- "listen=fd:3 $mnt\$")
	user_unmounts "$mnt"
	until_true not alive "$child" || fail "it outlives the mount"
	timeout $limit "$MOEFS" -o "store=$store,http=unix:$work/socket" "${others[0]}" "$mnt" | cat >"$work/told" || fail "through a pipe"
	same "$(cat "$work/told")" "unix:$work/socket"
	child=$(pgrep -f -- "listen=fd:3 $mnt\$")
	user_unmounts "$mnt"
	until_true not alive "$child"
}
with_the_mount() {
	fails_with "clients need keys" "$MOEFS" -o "store=$store,http=0.0.0.0:0" "$MODEL" "$mnt"
	MODEL=${others[0]}
	"$MOEFS" -o "store=$store,http=unix:$work/socket" "$MODEL" "$mnt" 2>"$work/stderr" || fail "$(cat "$work/stderr")"
	curl -sS --max-time $limit --retry 100 --retry-connrefused --unix-socket "$work/socket" http://localhost/v1/models | grep -q fable || fail "no models"
	child=$(pgrep -f -- "listen=fd:3 $mnt\$")
	user_unmounts "$mnt"
	until_true not alive "$child" || fail "it outlives the mount"
}
claim "-o http prints the address as a URL and lets go of the terminal; the gateway's messages go to the log" tells_its_url
claim "-o http begins with the mount and ends with it" with_the_mount
finish
