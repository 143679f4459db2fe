#!/bin/bash
# OpenAI's /v1/responses over the tree, with a scripted model: answers in one piece and as a stream, continued responses,
# and refusals.
. "$(dirname "$0")/lib.sh"
holdable
[ -x "${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}" ] || { echo "not ok $(basename "$0"): moefs-http is missing; run make"; exit 1; }
python3 - >"$work/script.json" <<'PY'
import json, sys
end = "<|im_end|>\n<|im_start|>assistant\n"
def call(name, /, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
say = [
    ("Be kind.<|im_end|>\n<|im_start|>user\nSay hello." + end, "Hello, my dear."),
    ("Be kind.\n\nBe short.<|im_end|>\n<|im_start|>user\nSay hello." + end, "Hi, dear."),
    ("Say hello." + end, "Hello to you."),
    ("Say a smile." + end, "A \U0001f642."),
    ("Hello to you.<|im_end|>\n<|im_start|>user\nOnce more." + end, "Hello again."),
    ("Hello to you.<|im_end|>\n<|im_start|>user\nFrom now on in French.\nOnce more." + end, "Bonjour."),
    ("Is seven a prime number?" + end + "<low>\n", "<think>\nTwo does not divide it.\n</think>\n\nIt is."),
    ("Add twelve and thirty." + end, call("add", a=12, b=30)),
    ("<|im_start|>tool\n42" + end, "It is 42."),
    ("Two capitals, please." + end, "I look.\n" + call("capital", of="Peru") + "\n" + call("capital", of="Chile")),
    ("Patch it." + end, call("apply_patch", input="*** Begin")),
    ("<|im_start|>tool\nDone!" + end, "Patched."),
    ("Look it up." + end, call("crm__find", name="Ann")),
    ("<|im_start|>tool\nAnn is here." + end, "She is here."),
]
json.dump([{"after": a, "say": s} for a, s in say], sys.stdout)
PY
scripted_gateway "$work/script.json"

cat >"$work/claims.py" <<'PY'
import json, os
import gateway as h
from standing import standing
R = "/v1/responses"
ADD = {"type": "function", "name": "add", "description": "Adds.", "strict": True, "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}
CAPITAL = {"type": "function", "name": "capital", "parameters": {"type": "object", "properties": {"of": {"type": "string"}}}}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Patches.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: LINE+"}}
CRM = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [
    {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}}]}


def body(input, **rest):
    return {"model": "scripted", "input": input, **rest}


def user(text):
    return {"role": "user", "content": text}


def text_of(response):
    return "".join(p["text"] for i in response["output"] if i["type"] == "message" for p in i["content"])


def one_piece():
    r = h.good(R, body("Say hello."))
    h.same((r["object"], r["status"], r["model"], r["error"], r["incomplete_details"]),
           ("response", "completed", "scripted", None, None))
    assert r["id"].startswith("resp_"), r["id"]
    h.same([(i["type"], i["role"], i["status"]) for i in r["output"]], [("message", "assistant", "completed")])
    h.same(r["output"][0]["content"], [{"type": "output_text", "text": "Hello to you.", "annotations": [], "logprobs": []}])
    u = r["usage"]
    h.same(u["total_tokens"], u["input_tokens"] + u["output_tokens"])
    assert u["input_tokens"] > 5 and u["output_tokens"] > 3, u
    h.same((r["tools"], r["tool_choice"], r["parallel_tool_calls"], r["text"], r["truncation"], r["store"]),
           ([], "auto", True, {"format": {"type": "text"}}, "disabled", True))
    h.same(text_of(h.good(R, body("Say hello.", instructions="Be kind."))), "Hello, my dear.")
    # A field that the request gives in part is repeated in full.
    r = h.good(R, body("Say hello.", text={"verbosity": "low"}))
    h.same(r["text"], {"verbosity": "low", "format": {"type": "text"}})


def items():
    said = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be short."}]},
            user([{"type": "input_text", "text": "Say hello."}])]
    h.same(text_of(h.good(R, body(said, instructions="Be kind."))), "Hi, dear.")
    said = [user("Say hello."), {"role": "assistant", "content": [{"type": "output_text", "text": "Hello to you."}]}]
    h.same(text_of(h.good(R, body(said + [user("Once more.")]))), "Hello again.")
    later = [{"role": "developer", "content": "From now on in French."}, user("Once more.")]
    h.same(text_of(h.good(R, body(said + later))), "Bonjour.")


def in_order(events):
    """The response that a stream ends with; its events are held to the order of the protocol."""
    h.same([d["sequence_number"] for _, d in events], list(range(len(events))))
    for name, data in events:
        h.same(name, data["type"], "the event's name")
    h.same([n for n, _ in events[:2]], ["response.created", "response.in_progress"])
    for _, data in events[:2]:
        h.same((data["response"]["status"], data["response"]["output"]), ("in_progress", []))
    last = events[-1][1]["response"]
    item, part, text, index = None, None, "", 0
    for name, data in events[2:-1]:
        kind = name[len("response."):]
        h.same(data["output_index"], index, name)
        if kind == "output_item.added":
            h.same((item, data["item"]["status"]), (None, "in_progress"))
            item, text = data["item"], ""
            continue
        if kind == "output_item.done":
            h.same((part, data["item"]), (None, last["output"][index]))
            h.same(data["item"]["id"], item["id"])
            item, index = None, index + 1
            continue
        h.same(data["item_id"], item["id"])
        if kind == "content_part.added":
            h.same((part, data["part"]["text"], data["content_index"]), (None, "", 0))
            part = data["part"]
        elif kind == "content_part.done":
            h.same(data["part"]["text"], text)
            part = None
        elif kind.endswith(".delta"):
            text += data["delta"]
        else:
            assert kind.endswith(".done"), kind
            h.same(data.get("text", data.get("arguments", data.get("input"))), text, kind)
    h.same((item, index), (None, len(last["output"])))
    return last


def streamed():
    events = h.streamed(R, body("Say hello."))
    r = in_order(events)
    h.same((events[-1][0], text_of(r)), ("response.completed", "Hello to you."))
    assert r["usage"]["output_tokens"] > 3, r


def reasoning():
    asked = body("Is seven a prime number?", reasoning={"effort": "low"})
    for r in [h.good(R, asked), in_order(h.streamed(R, asked))]:
        h.same([i["type"] for i in r["output"]], ["reasoning", "message"])
        h.same(r["output"][0]["content"], [{"type": "reasoning_text", "text": "Two does not divide it."}])
        h.same(r["reasoning"], {"effort": "low", "summary": None})
    # It can be sent back, in each form that clients keep.
    h.good(R, body([user("Is seven a prime number?")] + r["output"] + [user("Say hello.")]))


def uses(question, tool, result, answer, expect):
    """A question that a tool's result answers, the whole resent, and gone on from by name."""
    for stream in (False, True):
        asked = body(question, tools=[tool])
        r = in_order(h.streamed(R, asked)) if stream else h.good(R, asked)
        call = r["output"][-1]
        for key, value in expect.items():
            h.same(call.get(key), value, key)
        kind = call["type"] + "_output"
        output = {"type": kind, "call_id": call["call_id"], "output": result}
        h.same(text_of(h.good(R, body([user(question)] + r["output"] + [output], tools=[tool]))), answer)
        h.same(text_of(h.good(R, body([output], tools=[tool], previous_response_id=r["id"]))), answer)


def tools():
    uses("Add twelve and thirty.", ADD, "42", "It is 42.",
         {"type": "function_call", "name": "add", "arguments": '{"a":12,"b":30}', "status": "completed"})


def custom_tools():
    uses("Patch it.", PATCH, "Done!", "Patched.", {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin"})


def namespaces():
    uses("Look it up.", CRM, "Ann is here.", "She is here.",
         {"type": "function_call", "namespace": "crm", "name": "find", "arguments": '{"name":"Ann"}'})


def parallel():
    asked = body("Two capitals, please.", tools=[CAPITAL])
    h.same([i["type"] for i in h.good(R, asked)["output"]], ["message", "function_call", "function_call"])
    for r in [h.good(R, dict(asked, parallel_tool_calls=False)),
              in_order(h.streamed(R, dict(asked, parallel_tool_calls=False)))]:
        h.same([i["type"] for i in r["output"]], ["message", "function_call"])
        h.same((r["status"], r["parallel_tool_calls"]), ("completed", False))


def tool_choice():
    for choice in ("required", {"type": "function", "name": "add"},
                   {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}):
        r = h.good(R, body("Add twelve and thirty.", tools=[CAPITAL, ADD] if choice != "required" else [ADD], tool_choice=choice,
                           max_output_tokens=200))
        h.same([(i["type"], i["name"]) for i in r["output"]][:1], [("function_call", "add")], str(choice))
    h.same(text_of(h.good(R, body("Say hello.", tools=[ADD], tool_choice="none"))), "Hello to you.")


def services():
    """What only OpenAI's services run: agents send it beside their functions, and must still work."""
    search = {"type": "web_search", "external_web_access": True}
    r = h.good(R, body("Add twelve and thirty.", tools=[search, ADD]))
    h.same(r["output"][-1]["name"], "add")
    h.same([t["name"] for t in r["tools"]], ["add"], "on offer")
    r = h.good(R, body("Say hello.", tools=[{"type": "function", "name": "f"}]))
    h.same(r["tools"], [{"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}])
    for asked in (body("x", tools=[search]), body("x", tools=[ADD], tool_choice={"type": "web_search"})):
        assert '"web_search" runs only at OpenAI' in h.refused(400, R, asked)["message"]


def counts():
    asked = body("Say hello.", instructions="Be kind.")
    h.same(h.good(R + "/input_tokens", asked), {"object": "response.input_tokens",
                                               "input_tokens": h.good(R, asked)["usage"]["input_tokens"]})
    assert "model" in h.refused(404, R + "/input_tokens", dict(asked, model="gpt"))["message"]
    assert "truncation" in h.refused(404, R + "/compact", asked)["message"]


def goes_on():
    first = h.good(R, body("Say hello.", metadata={"a": "b"}))
    h.same(text_of(h.good(R, body("Once more.", previous_response_id=first["id"]))), "Hello again.")
    h.same(h.good(R + "/" + first["id"]), first)
    said = [user("Say hello."), {"type": "item_reference", "id": first["output"][0]["id"]}, user("Once more.")]
    h.same(text_of(h.good(R, body(said))), "Hello again.")
    # Instructions hold for one request only; a new conversation starts without them.
    kind = h.good(R, body("Say hello.", instructions="Be kind."))
    h.same(text_of(h.good(R, body("Say hello.", previous_response_id=kind["id"]))), "Hello to you.")
    h.same(h.good(R + "/" + first["id"], method="DELETE"), {"id": first["id"], "object": "response", "deleted": True})
    h.refused(404, R + "/" + first["id"])
    h.refused(404, R + "/" + first["id"], method="DELETE")
    error = h.refused(400, R, body("Once more.", previous_response_id=first["id"]))
    h.same((error["param"], error["code"]), ("previous_response_id", "previous_response_not_found"))
    unkept = h.good(R, body("Say hello.", store=False))
    h.refused(404, R + "/" + unkept["id"])


def input_items():
    first = h.good(R, body("Say hello."))
    of = lambda r, query="": h.good(R + "/" + r["id"] + "/input_items" + query)
    item, = of(first)["data"]
    h.same((item["type"], item["role"], item["status"], item["content"]),
           ("message", "user", "completed", [{"type": "input_text", "text": "Say hello."}]))
    assert item["id"].startswith("msg_"), item
    said = [user("Say hello."), {"type": "item_reference", "id": first["output"][0]["id"]}, user("Once more.")]
    r = h.good(R, body(said))
    texts = lambda page: [i["content"][0]["text"] for i in page["data"]]
    h.same(texts(of(r, "?order=asc")), ["Say hello.", "Hello to you.", "Once more."])
    page = of(r, "?limit=2")
    h.same((texts(page), page["has_more"]), (["Once more.", "Hello to you."], True))
    page = of(r, "?after=" + page["last_id"])
    h.same((texts(page), page["has_more"]), (["Say hello."], False))


def logprobs():
    asked = body("Say hello.", include=["message.output_text.logprobs"], top_logprobs=2)
    whole = h.good(R, asked)["output"][0]["content"][0]
    lines = whole["logprobs"]
    h.same("".join(l["token"] for l in lines), "Hello to you.")
    assert all(l["logprob"] <= 0 and len(l["top_logprobs"]) == 2 for l in lines), lines
    events = h.streamed(R, asked)
    deltas = [l for name, e in events if name == "response.output_text.delta" for l in e["logprobs"]]
    done, = [e["logprobs"] for name, e in events if name == "response.output_text.done"]
    h.same(done, lines)
    h.same(deltas, lines[:len(deltas)])
    assert deltas
    h.same(h.good(R, body("Say hello."))["output"][0]["content"][0]["logprobs"], [])
    # Tokens that are parts of a character: their bytes are given, and joined they are the text.
    part = h.good(R, {**asked, "input": "Say a smile."})["output"][0]["content"][0]
    h.same(part["text"], "A \U0001f642.")
    h.same(bytes(b for l in part["logprobs"] for b in l["bytes"]).decode(), part["text"])
    assert any("\ufffd" in l["token"] for l in part["logprobs"]), part


def echoes():
    params = os.environ["mnt"] + "/fable-moe-15m/sessions/default/params/"
    r = h.good(R, {**body("Hello?", max_output_tokens=4), "model": "fable-moe-15m"})
    h.same([r[p] for p in ("temperature", "top_p")], [float(open(params + p).read()) for p in ("temperature", "top_p")])
    r = h.good(R, body("Say hello.", temperature=.5, top_p=.25))
    h.same([r["temperature"], r["top_p"]], [.5, .25])


def ends():
    for r in [h.good(R, body("Say hello.", max_output_tokens=2)), in_order(h.streamed(R, body("Say hello.", max_output_tokens=2)))]:
        h.same((r["status"], r["incomplete_details"], r["usage"]["output_tokens"]),
               ("incomplete", {"reason": "max_output_tokens"}, 2))
    h.same(h.streamed(R, body("Say hello.", max_output_tokens=2))[-1][0], "response.incomplete")


def forms():
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
    for form in ({"type": "json_schema", "name": "n", "strict": True, "schema": schema}, {"type": "json_object"}):
        r = h.good(R, {**body("What is 12 x 6?", temperature=0, max_output_tokens=300, text={"format": form}),
                       "model": "fable-moe-15m"})
        if r["status"] == "completed":
            assert isinstance(json.loads(text_of(r)), dict), r
        whole = {"description": None} if form["type"] == "json_schema" else {}
        h.same(r["text"], {"format": {**form, **whole}})
    r = h.good(R, {**body("What is the capital of France?", temperature=0), "model": "fable-moe-15m"})
    h.same(text_of(r), "The capital of France is Paris.")


@standing()
def fails_midway():
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 3000}
    asked = body("Count.", stream=True, text={"format": {"type": "json_schema", "name": "n", "schema": schema}})
    c, r = h.request("POST", R, {**asked, "model": "fable-moe-15m"})
    h.same(r.status, 200)
    while b"output_text.delta" not in r.readline():
        pass
    sessions = os.environ["mnt"] + "/fable-moe-15m/sessions/"
    working = [s for s in os.listdir(sessions) if s.startswith("http-") and
               open(sessions + s + "/status").read() == "generating\n"]
    h.same(len(working), 1, "sessions that work")
    os.rmdir(sessions + working[0])
    last = [line for line in r.read().decode().split("\n\n") if line][-1]
    name, data = last.split("\n")
    h.same(name, "event: response.failed")
    failed = json.loads(data[6:])["response"]
    h.same((failed["status"], failed["error"]["code"]), ("failed", "server_error"))
    h.same(failed["output"][0]["status"], "incomplete")


def refusals():
    for words, param, asked in [
        ("input", "input", {"model": "scripted"}),
        ("model", "model", {"input": "x"}),
        ("input_image", "input", body([user([{"type": "input_image", "image_url": "x"}])])),
        ("computer_call", "input", body([{"type": "computer_call"}])),
        ("conversation", "conversation", body("x", conversation="c")),
        ("background", "background", body("x", background=True)),
        ("temperature", "temperature", body("x", temperature=9)),
        ("cannot be the name of a tool", "tools", body("x", tools=[{"type": "function", "name": "a name!"}])),
        ('invalid schema for "f"', "tools", body("x", tools=[{"type": "function", "name": "f", "parameters": {"type": "strange"}}])),
        ("c1", "input", body([{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}, user("x")])),
        ("c2", "input", body([{"type": "function_call_output", "call_id": "c2", "output": "x"}])),
    ]:
        error = h.refused(400, R, asked)
        h.same((error["type"], error["param"]), ("invalid_request_error", param), str(error))
        assert words in error["message"], error
    error = h.refused(404, R, dict(body("x"), model="gpt"))
    h.same(error["code"], "model_not_found")
    assert "scripted" in error["message"], error
    c, r = h.request("POST", R, dict(body("x"), model="gpt", stream=True))
    h.same(r.status, 404, "a stream's")


h.main(globals())
PY
check() { timeout $limit python3 "$work/claims.py" "$1"; }
claim "a response in one piece, with instructions" check one_piece
claim "items are a conversation, with developers' messages anywhere" check items
claim "a stream has its events in their order" check streamed
claim "reasoning is an item, and can be sent back" check reasoning
claim "a function is called, and its output answered" check tools
claim "custom tools have a text as their input" check custom_tools
claim "tools of a namespace carry its name" check namespaces
claim "tools are called in parallel, or one at a time" check parallel
claim "tool_choice makes a model call, or not" check tool_choice
claim "built-in tools are left out of the list, and refused if there are no others" check services
claim "the tokens of a request are counted; unsupported requests are refused with a reason" check counts
claim "a response can be continued, read and deleted" check goes_on
claim "the input is read again as typed items, in pages" check input_items
claim "a text comes with its tokens' likelihoods where they are asked for" check logprobs
claim "a response says the temperature and top_p that were used" check echoes
claim "an answer that is cut is incomplete" check ends
claim "answers are held to a form" check forms
claim "what fails in the middle of a stream is its last event" check fails_midway
claim "refusals have OpenAI's shape" check refusals
gateway_over

(umask 077 && printf '%s\n' first-key second-key >"$work/keys")
gateway -o "key_file=$work/keys"
as() { # KEY PATH [CURL'S OPTIONS]
	curl -s --max-time $limit -H "Authorization: Bearer $1" "$url/v1/responses$2" "${@:3}"
}
keys() {
	local id words='"input": "Once more.", "model": "scripted", "previous_response_id"'
	id=$(as first-key "" -d '{"model": "scripted", "input": "Say hello."}' | jq -r .id)
	same "$(as first-key "/$id" | jq -r .id)" "$id"
	same "$(as second-key "/$id" | jq -r .error.type)" invalid_request_error "another's is read"
	same "$(as second-key "" -d "{$words: \"$id\"}" | jq -r .error.param)" previous_response_id "another's is gone on from"
	same "$(as second-key "/$id" -X DELETE | jq -r .deleted)" null "another's is forgotten"
	same "$(as first-key "" -d "{$words: \"$id\"}" | jq -r '.output[0].content[0].text')" "Hello again."
}
needs curl needs jq claim "a response is its key's alone" keys
gateway_over
finish
