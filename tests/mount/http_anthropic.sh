#!/bin/bash
# Anthropic's /v1/messages over the tree, with a scripted model: answers in one piece and as a stream, and refusals.
. "$(dirname "$0")/lib.sh"
holdable
[ -x "${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}" ] || { echo "not ok $(basename "$0"): moefs-http is missing; run make"; exit 1; }
python3 - >"$work/script.json" <<'PY'
import json, sys
end, off = "<|im_end|>\n<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
say = [
    ("Be kind.<|im_end|>\n<|im_start|>user\nSay hello." + end + off, "Hello, my dear."),
    ("Say hello." + end + off, "Hello to you."),
    ("Is seven a prime number?" + end + "<low>\n", "<think>\nTwo does not divide it.\n</think>\n\nIt is."),
    ("Is seven a prime number?" + end + off, "Yes."),
    ("Is eight?" + end + off, "No."),
    ("Add twelve and thirty." + end + off, call("add", a=12, b=30)),
    ("<|im_start|>tool\n42" + end + off, "It is 42."),
    ("Two capitals, please." + end + off, "I look.\n" + call("capital", of="Peru") + "\n" + call("capital", of="Chile")),
    ("<|im_start|>tool\nLima<|im_end|>\n<|im_start|>tool\nSantiago" + end + off, "Lima and Santiago."),
    ("<|im_start|>tool\nSantiago<|im_end|>\n<|im_start|>user\nGo on." + end + off, "Both, then."),
    ("Stop me, if you can." + end + off, "I say HALT and go on."),
]
json.dump([{"after": a, "say": s} for a, s in say], sys.stdout)
PY
scripted_gateway "$work/script.json"

cat >"$work/claims.py" <<'PY'
import json, os
import gateway as h
from standing import standing
h.HEADERS["anthropic-version"] = "2023-06-01"
M = "/v1/messages"
ADD = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {
    "a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}
CAPITAL = {"name": "capital", "input_schema": {"type": "object", "properties": {"of": {"type": "string"}}}}


def body(*said, **rest):
    said = [m if isinstance(m, dict) else {"role": "user", "content": m} for m in said]
    return {"model": "scripted", "max_tokens": 1000, "messages": said, **rest}


def text_of(message):
    return "".join(b["text"] for b in message["content"] if b["type"] == "text")


def one_piece():
    m = h.good(M, body("Say hello."))
    h.same(text_of(m), "Hello to you.")
    h.same((m["type"], m["role"], m["model"], m["stop_reason"], m["stop_sequence"]),
           ("message", "assistant", "scripted", "end_turn", None))
    assert m["id"].startswith("msg_"), m["id"]
    u = m["usage"]
    assert u["input_tokens"] > 5 and u["output_tokens"] > 3, u
    assert "cache_read_input_tokens" in u and "cache_creation_input_tokens" in u, u
    m = h.good(M, body("Say hello.", system="Be kind."))
    h.same(text_of(m), "Hello, my dear.")
    m = h.good(M + "?beta=true", body({"role": "user", "content": [
        {"type": "text", "text": "Say hello.", "cache_control": {"type": "ephemeral"}}]},
        system=[{"type": "text", "text": "Be kind."}], metadata={"user_id": "u"}, unknown=1),
        headers={"anthropic-beta": "of-tomorrow", "x-stainless-lang": "js"})
    h.same(text_of(m), "Hello, my dear.")


def in_order(events):
    """The blocks of a stream, whose events are held to the order of the protocol."""
    blocks, open_ = [], None
    events = [(n, d) for n, d in events if n != "ping"]
    h.same([n for n, _ in events][0], "message_start")
    h.same([n for n, _ in events][-2:], ["message_delta", "message_stop"])
    for name, data in events:
        h.same(name, data["type"], "the event's name")
    for name, data in events[1:-2]:
        if name == "content_block_start":
            h.same((open_, data["index"]), (None, len(blocks)))
            open_ = dict(data["content_block"], deltas=[])
        elif name == "content_block_delta":
            h.same(data["index"], len(blocks))
            open_["deltas"].append(data["delta"])
        else:
            h.same((name, data["index"]), ("content_block_stop", len(blocks)))
            blocks.append(open_)
            open_ = None
    h.same(open_, None)
    return events[0][1]["message"], blocks, events[-2][1]


def joined(block, key):
    return "".join(d.get(key, "") for d in block["deltas"])


def streamed():
    events = h.streamed(M, body("Say hello."))
    start, blocks, delta = in_order(events)
    h.same((start["content"], start["stop_reason"]), ([], None))
    assert start["usage"]["input_tokens"] + start["usage"]["cache_read_input_tokens"] > 5, start
    h.same([b["type"] for b in blocks], ["text"])
    h.same(joined(blocks[0], "text"), "Hello to you.")
    h.same((delta["delta"]["stop_reason"], delta["delta"]["stop_sequence"]), ("end_turn", None))
    assert delta["usage"]["output_tokens"] > 3, delta
    assert ("ping", {"type": "ping"}) in events


def thinking():
    asked = body("Is seven a prime number?", max_tokens=4000, thinking={"type": "enabled", "budget_tokens": 2000})
    m = h.good(M, asked)
    h.same([b["type"] for b in m["content"]], ["thinking", "text"])
    h.same(m["content"][0]["thinking"], "Two does not divide it.")
    assert m["content"][0]["signature"], m
    h.same(text_of(m), "It is.")
    _, blocks, _ = in_order(h.streamed(M, asked))
    h.same([b["type"] for b in blocks], ["thinking", "text"])
    h.same(joined(blocks[0], "thinking"), "Two does not divide it.")
    h.same(blocks[0]["deltas"][-1], {"type": "signature_delta", "signature": m["content"][0]["signature"]})
    # Thoughts can be sent back; without `thinking` the model does not think.
    m = h.good(M, body("Is seven a prime number?", {"role": "assistant", "content": m["content"]}, "Is eight?"))
    h.same([b["type"] for b in m["content"]], ["text"])
    h.same(text_of(m), "No.")
    h.same(text_of(h.good(M, body("Is seven a prime number?"))), "Yes.")


def tools():
    asked = body("Add twelve and thirty.", tools=[ADD, CAPITAL])
    m = h.good(M, asked)
    h.same([b["type"] for b in m["content"]], ["tool_use"])
    use = m["content"][0]
    h.same((use["name"], use["input"], m["stop_reason"]), ("add", {"a": 12, "b": 30}, "tool_use"))
    _, blocks, delta = in_order(h.streamed(M, asked))
    h.same([(b["type"], b["name"], b["input"]) for b in blocks], [("tool_use", "add", {})])
    h.same(json.loads(joined(blocks[0], "partial_json")), {"a": 12, "b": 30})
    h.same(delta["delta"]["stop_reason"], "tool_use")
    m = h.good(M, body("Add twelve and thirty.", {"role": "assistant", "content": [use]}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": use["id"], "content": [{"type": "text", "text": "42"}]}]}, tools=[ADD]))
    h.same((text_of(m), m["stop_reason"]), ("It is 42.", "end_turn"))


def parallel_tools():
    asked = body("Two capitals, please.", tools=[CAPITAL])
    m = h.good(M, asked)
    h.same([b["type"] for b in m["content"]], ["text", "tool_use", "tool_use"])
    h.same(m["content"][0]["text"].strip(), "I look.")
    h.same([b["input"]["of"] for b in m["content"][1:]], ["Peru", "Chile"])
    ids = [b["id"] for b in m["content"][1:]]
    assert ids[0] != ids[1], ids
    results = [{"type": "tool_result", "tool_use_id": i, "content": c} for i, c in zip(ids, ["Lima", "Santiago"])]
    said = {"role": "assistant", "content": m["content"]}
    h.same(text_of(h.good(M, body("Two capitals, please.", said, {"role": "user", "content": results}, tools=[CAPITAL]))),
           "Lima and Santiago.")
    alone = {"role": "user", "content": results[:1] + [{"type": "text", "text": "Go on."}]}
    error = h.refused(400, M, body("Two capitals, please.", said, alone, tools=[CAPITAL]))
    assert "without `tool_result` blocks immediately after: " + ids[1] in error["message"], error
    after = {"role": "user", "content": results + [{"type": "text", "text": "Go on."}]}
    h.same(text_of(h.good(M, body("Two capitals, please.", said, after, tools=[CAPITAL]))), "Both, then.")
    one = {"type": "auto", "disable_parallel_tool_use": True}
    for m in [h.good(M, dict(asked, tool_choice=one))]:
        h.same([b["type"] for b in m["content"]], ["text", "tool_use"])
        h.same(m["stop_reason"], "tool_use")
    _, blocks, delta = in_order(h.streamed(M, dict(asked, tool_choice=one)))
    h.same([b["type"] for b in blocks], ["text", "tool_use"])
    h.same(delta["delta"]["stop_reason"], "tool_use")


def tool_choice():
    for choice in ({"type": "any"}, {"type": "tool", "name": "add"}):
        m = h.good(M, body("Say hello.", tools=[ADD], tool_choice=choice, max_tokens=200))
        h.same([b["type"] for b in m["content"]][:1], ["tool_use"], str(choice))
        h.same(m["content"][0]["name"], "add")
    m = h.good(M, body("Say hello.", tools=[ADD], tool_choice={"type": "none"}))
    h.same([b["type"] for b in m["content"]], ["text"])


def ends():
    m = h.good(M, body("Stop me, if you can.", stop_sequences=["WHOA", "HALT"]))
    h.same((text_of(m), m["stop_reason"], m["stop_sequence"]), ("I say ", "stop_sequence", "HALT"))
    m = h.good(M, body("Stop me, if you can.", max_tokens=2))
    h.same((m["stop_reason"], m["usage"]["output_tokens"]), ("max_tokens", 2))
    _, _, delta = in_order(h.streamed(M, body("Stop me, if you can.", stop_sequences=["HALT"])))
    h.same(delta["delta"], {"stop_reason": "stop_sequence", "stop_sequence": "HALT"})


def counting():
    said = body("Say hello.", system="Be kind.", tools=[ADD])
    tokens = h.good(M + "/count_tokens", {k: v for k, v in said.items() if k != "max_tokens"})
    u = h.good(M, said)["usage"]
    h.same(tokens, {"input_tokens": u["input_tokens"] + u["cache_read_input_tokens"]})


def models():
    listed = h.good("/v1/models")
    ids = [m["id"] for m in listed["data"]]
    h.same(sorted(ids), ["fable-moe-15m", "scripted"])
    h.same((listed["has_more"], listed["first_id"], listed["last_id"]), (False, ids[0], ids[-1]))
    one = h.good("/v1/models/scripted")
    h.same((one["type"], one["id"]), ("model", "scripted"))
    assert one["display_name"] and one["created_at"].endswith("Z"), one
    h.same((one["lifecycle"], one["max_input_tokens"]), ("active", one["context_length"]))
    h.same(h.refused(404, "/v1/models/other")["type"], "not_found_error")


def refusals():
    for status, kind, words, asked in [
        (400, "invalid_request_error", "max_tokens", {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}),
        (400, "invalid_request_error", "messages", body()),
        (400, "invalid_request_error", "images", body({"role": "user", "content": [{"type": "image", "source": {}}]})),
        (400, "invalid_request_error", "runs only at Anthropic", body("x", tools=[{"type": "web_search_20250305", "name": "w"}])),
        (404, "not_found_error", "scripted", dict(body("x"), model="claude")),
        (400, "invalid_request_error", "", b"{"),
    ]:
        status_, answer = h.answered(M, asked)
        h.same((status_, answer["type"], answer["error"]["type"]), (status, "error", kind), str(answer))
        assert words in answer["error"]["message"], answer
    c, r = h.request("POST", M, dict(body("x"), model="claude", stream=True))
    h.same(r.status, 404, "a stream's")
    h.same(json.load(r)["request_id"], r.headers["request-id"])
    for stream in False, True:
        long = {**body(" hello" * 6000, stream=stream), "model": "fable-moe-15m"}
        h.same(h.refused(400, M, long)["message"], "prompt is too long: 18011 tokens > 4096 maximum")


def threads():
    """What a package of Anthropic's knows a lost thread by, so that it sends the whole conversation again."""
    h.same(text_of(h.good(M, body("Say hello.", thread={"type": "create"}))), "Hello to you.")
    for stream in False, True:
        more = body("Go on.", stream=stream, thread={"type": "continue", "previous_message_id": "msg_1"})
        error = h.refused(404, M, more)
        h.same((error["type"], error["details"]), ("not_found_error", {"error_code": "thread_not_found"}))
        assert "send all messages" in error["message"], error
    h.refused(404, M + "/count_tokens", more)


def pages():
    def ids(query):
        page = h.good("/v1/models?" + query)
        names = [m["id"] for m in page["data"]]
        h.same((page["first_id"], page["last_id"]), (names[0], names[-1]) if names else (None, None))
        return names, page["has_more"]
    both = ["fable-moe-15m", "scripted"]
    for query, names, more in [
        ("", both, False), ("limit=2", both, False), ("limit=1", both[:1], True),
        ("limit=1&after_id=" + both[0], both[1:], False), ("limit=1&before_id=" + both[1], both[:1], False),
        ("after_id=" + both[1], [], False),
    ]:
        h.same(ids(query), (names, more), query)
    for query in "limit=0", "limit=1001", "limit=x", "after_id=other":
        h.refused(400, "/v1/models?" + query)


def trained():
    m = h.good(M, {**body("What is the capital of France?", temperature=0), "model": "fable-moe-15m"})
    h.same(text_of(m), "The capital of France is Paris.")
    asked = body("What is 12 x 6?", temperature=0, output_config={"format": {"type": "json_schema", "schema": {
        "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}}})
    assert isinstance(json.loads(text_of(h.good(M, {**asked, "model": "fable-moe-15m"})))["x"], int)


def endless():
    """A stream that goes on for thousands of tokens, but stands meanwhile: its lines, and its session."""
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 3000}
    asked = body("Count.", max_tokens=100000, stream=True, output_config={"format": {
        "type": "json_schema", "schema": schema}})
    c, r = h.request("POST", M, {**asked, "model": "fable-moe-15m"})
    h.same(r.status, 200)
    while b"content_block_delta" not in r.readline():
        pass
    sessions = os.environ["mnt"] + "/fable-moe-15m/sessions/"
    working = [s for s in os.listdir(sessions) if s.startswith("http-") and
               open(sessions + s + "/status").read() == "generating\n"]
    h.same(len(working), 1, "sessions that work")
    return c, r, sessions + working[0]


@standing()
def fails_midway():
    c, r, session = endless()
    os.rmdir(session)
    last = [line for line in r.read().decode().split("\n\n") if line][-1]
    name, data = last.split("\n")
    h.same(name, "event: error")
    error = json.loads(data[6:])
    h.same((error["type"], error["error"]["type"]), ("error", "api_error"))
    assert error["error"]["message"], error


@standing()
def busy():
    """Of a gateway that answers one request and lets none wait."""
    c, r, session = endless()
    for path in (M, M + "/count_tokens"):
        c2, r2 = h.request("POST", path, body("Say hello."))
        said = json.loads(r2.read())
        h.same((r2.status, said["error"]["type"]), (429, "rate_limit_error"))
        assert int(r2.headers["Retry-After"]) > 0, r2.headers
        c2.close()
    c.close()
    r.close()


@standing()
def goes_away():
    c, r, session = endless()
    r.close()
    c.close()
    while True:  # the test is bounded by its claim
        try:
            if open(session + "/status").read() not in ("generating\n", "prompting\n"):
                break
        except OSError:
            break


h.main(globals())
PY
check() { timeout $limit python3 "$work/claims.py" "$1"; }
claim "a message in one piece, with system texts and ignored fields" check one_piece
claim "a trained model answers, freely and in a form" check trained
claim "what fails in the middle of a stream is its last event" check fails_midway
claim "a client that goes away ends its generation" check goes_away
claim "a stream has its events in their order" check streamed
claim "thoughts are blocks with a signature, and can be sent back" check thinking
claim "a tool is used, and its result answered" check tools
claim "tools are used in parallel, or one at a time" check parallel_tools
claim "tool_choice makes a model call, or not" check tool_choice
claim "the reason of an answer's end is given, with the stop sequence" check ends
claim "count_tokens is the number that a message then uses" check counting
claim "models have Anthropic's members, and errors its shape" check models
claim "refusals have Anthropic's shape" check refusals
claim "a thread that is continued is not found, so that the conversation comes again" check threads
claim "models come in pages of any size, from either side" check pages
gateway_over
gateway -o active=1,queue=0
claim "where no more can be answered 429 says when to come again" check busy
gateway_over
finish
