#!/bin/bash
# moefs-http under limits and failures: a slow reader, a model that cannot be loaded, contexts without room, several
# answers of which one is continued, sessions that somebody removes, a moefs that is killed.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3"

# A checkpoint that is damaged after it was unloaded.
cp -rL "$MODEL" "$work/broken"
others=("$work/broken")
mounted -o context_budget=2M
loaded
echo off > sessions/default/params/stop_repetition # for `long`
complete "$mnt/broken"
echo "unload broken" >../ctl
truncate -s 4096 "$work/broken"/*.safetensors
export url mnt PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
py() { timeout $limit python3 - "$@" || fail "$(tail -n 1 "$work/http")"; }

gateway
slow() { py <<'PY'; }
from gateway import *
import threading
def events_of(body, small):
    s = socket.socket()
    if small:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(limit)
    s.connect((address[0], int(address[1])))
    data = json.dumps(body).encode()
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    return s
def rest(s):
    got = b""
    while piece := s.recv(65536):
        got += piece
    return got
body = long(stream=True) | {"max_tokens": 800}
s = events_of(body, True)
first = s.recv(200)
# One client stops reading. All later clients are answered before it reads on.
for place in "France", "Peru", "Chad":
    assert content(ask(f"What is the capital of {place}?", max_tokens=24)).startswith(f"The capital of {place} is ")
read = first
while piece := s.recv(512):
    read += piece
quick = rest(events_of(body, False))
def text(raw):
    lines = [l[6:] for l in raw.decode().splitlines() if l.startswith("data: {")]
    return "".join(c["choices"][0]["delta"].get("content", "") for c in map(json.loads, lines) if c["choices"])
assert b"data: [DONE]" in read and text(read) == text(quick) and len(text(read)) > 1000, len(read)
PY
claim "a slow reader gets the whole stream, and delays nobody" slow

failed() { py <<'PY'; }
from gateway import *
def words(e): return e["error"]["message"]
for how in {}, {"stream": True}:
    e = post("/v1/chat/completions", chat("Hello?", model="broken", **how), 503)
    assert e["error"]["type"] == "server_error" and "safetensors" in words(e), e
    e = post("/v1/messages", {"model": "broken", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello?"}], **how}, 529)
    assert e["type"] == "error" and e["error"]["type"] == "overloaded_error" and "safetensors" in words(e), e
    e = post("/v1/responses", {"model": "broken", "input": "Hello?", **how}, 503)
    assert "safetensors" in words(e), e
assert not sessions("broken")
PY
claim "a model that cannot be loaded is reported in each protocol's shape, with the tree's sentence" failed

tight() { py <<'PY'; }
from gateway import *
# A context of 1000 tokens takes all the memory that contexts may have.
def say(i, words): return ask([{"role": "system", "content": f"{i}. " + "Be brief, always. " * words}, {"role": "user", "content": "Well?"}], max_tokens=4)
for i in range(6): # so that it is full
    say(i, 30)
assert len(prefixes()) >= 2
for i in range(3):
    u = say(10 + i, 140)["usage"]
    assert u["prompt_tokens"] > 600, u
PY
claim "kept prefixes give way to requests" tight

no_room() { py <<'PY'; }
from gateway import *
words = "Be brief, always. " * 140
def budget(size=None):
    with open(f"{mnt}/cache/context_budget", "w" if size else "r") as f: return f.write(size) if size else f.read().strip()
before = budget()
budget("100K") # less than one of these prompts takes alone
asked = [{"role": "system", "content": "0. " + words}, {"role": "user", "content": "Well?"}]
def refused(path, body, status=503):
    e = post(path, body, status)
    assert "context budget is used up" in e["error"]["message"] and int(e["headers"]["Retry-After"]) > 0, e
    return e["error"]
for how in {}, {"stream": True}:
    assert refused("/v1/chat/completions", chat(asked, max_tokens=4, **how))["type"] == "server_error"
    assert refused("/v1/completions", {"model": fable, "prompt": "1. " + words, "max_tokens": 4, **how})["type"] == "server_error"
    refused("/v1/responses", {"model": fable, "input": asked, "max_output_tokens": 4, **how})
    e = refused("/v1/messages", {"model": fable, "max_tokens": 4, "system": asked[0]["content"], "messages": asked[1:], **how}, 529)
    assert e["type"] == "overloaded_error", e
budget(before)
assert ask(asked, max_tokens=4)["usage"]["prompt_tokens"] > 600
assert not sessions()
PY
claim "where contexts have no room all protocols say so, and when to come again" no_room

choices() { py <<'PY'; }
from gateway import *
q = [{"role": "system", "content": "You know capitals, and nothing else. " * 4}, {"role": "user", "content": "Tell me of Peru."}]
a = ask(q, n=3, temperature=1.2, seed=5, max_tokens=12)
for c in a["choices"][1:]:
    u = ask(q + [c["message"], {"role": "user", "content": "And of Chad?"}], max_tokens=4)["usage"]
    # The messages up to the question are found in any case.
    assert u["prompt_tokens_details"]["cached_tokens"] >= a["usage"]["prompt_tokens"] - 1, (a["usage"], u)
PY
claim "any of several answers can be continued" choices
gateway_over

# ---- the tree goes away ----

others=()
holdable
cd / && unmounted && mounted
loaded
gateway
export url
cat >"$work/gone.py" <<'PY'
import sys
from gateway import *
words, kill = sys.argv[1], len(sys.argv) > 2
many = {"type": "json_schema", "schema": {"type": "array", "items": {"type": "integer"}, "minItems": 3000}}
anthropic = {"model": fable, "max_tokens": 100000, "stream": True, "output_config": {"format": many},
             "messages": [{"role": "user", "content": "Count."}]}
asked = [begin(long(stream=True)), begin(long()), begin(anthropic, "/v1/messages")]
until(lambda: len(working()) == 3, working)  # the first of them stands, and the others behind it
with open(os.environ["MOEFS_HOLD"], "w") as f:
    f.write("1000\n")
asked[0].recv(1)
asked[2].recv(1)
if kill:
    os.kill(int(sys.argv[2]), 9)
else:
    for s in sessions():
        os.rmdir(f"{mnt}/{fable}/sessions/{s}")
def rest(s):
    got = b""
    while not got.endswith(b"0\r\n\r\n") and b"\r\n\r\n{" not in got and (piece := s.recv(65536)):
        got += piece
    return got
chunks, whole, events_ = map(rest, asked)
assert words.encode() in chunks.split(b"data: ")[-1] and chunks.endswith(b"0\r\n\r\n"), chunks[-300:]
assert whole.startswith(b"HTTP/1.1 503 " if kill else b"HTTP/1.1 500 ") and words.encode() in whole, whole
assert b"event: error" in events_ and words.encode() in events_.split(b"data: ")[-1], events_[-300:]
PY
removed() {
	hold_at 16
	timeout $limit python3 "$work/gone.py" "removed from the tree" &&
		same "$(ls "$m/sessions" | grep http-)" "" && let_go
}
claim "a client whose session is removed is told so, in a stream and in one piece" removed

killed() {
	hold_at 16
	cd / # what lies in the mount is no place to begin a program in
	timeout $limit python3 "$work/gone.py" "the tree is gone" "$daemon" || exit
	py <<'PY'
from gateway import *
for path, status in ("/v1/chat/completions", 503), ("/v1/messages", 529):
    e = post(path, {"max_tokens": 4, **chat("Hello?")}, status)
    assert int(e["headers"]["Retry-After"]) > 0 and "not connected" in e["error"]["message"], e
PY
}
claim "if moefs is killed streams end with their error, and requests are told to try again" killed
let_go
cd / && unmounted && mounted
again() { py <<'PY'; }
from gateway import *
assert content(ask("What is the capital of France?", max_tokens=24)) == "The capital of France is Paris."
PY
claim "and once it is mounted again they are answered" again

# A lazy unmount removes the tree's paths at once; open files continue to their end.
cat >"$work/lazy.py" <<'PY'
from gateway import *
asked = [begin(long(stream=True) | {"max_tokens": 60}), begin(long() | {"max_tokens": 60})]
until(lambda: len(working()) == 2, working)
assert os.system(f"umount -l '{mnt}'") == 0
os.remove(os.environ["MOEFS_HOLD"])
def rest(s):
    got = b""
    while not got.endswith(b"0\r\n\r\n") and b"\r\n\r\n{" not in got and (piece := s.recv(65536)):
        got += piece
    return got
events_, whole = map(rest, asked)
last = json.loads(events_.split(b"data: ")[-1].split(b"\n")[0])
assert "the tree is gone" in last["error"]["message"] and b"[DONE]" not in events_, events_[-300:]
assert whole.startswith(b"HTTP/1.1 503 ") and b"the tree is gone" in whole, whole
for model in fable, "nothing":
    for path, status in ("/v1/chat/completions", 503), ("/v1/responses", 503), ("/v1/messages", 529):
        e = post(path, {"max_tokens": 4, "input": "Hello?", **chat("Hello?", model=model)}, status)
        assert "the tree is gone" in e["error"]["message"], (path, e)
for path in "/v1/models", "/v1/models/" + fable, "/tree", f"/tree/{fable}/info/state", "/health":
    refused(503, path)
PY
lazily() {
	hold_at 16
	cd /
	timeout $limit python3 "$work/lazy.py"
}
needs umount claim "after a lazy unmount streams end with their error, and requests are told to try again" lazily
let_go
cd / && unmounted && mounted
claim "and once it is mounted after that they are answered" again
unknown() { py <<'PY'; }
from gateway import *
assert refused(404, "/v1/models/nothing")["code"] == "model_not_found"
PY
claim "a model that is not there is not found" unknown
gateway_over
finish
