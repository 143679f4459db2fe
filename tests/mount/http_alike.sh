#!/bin/bash
# What chat, responses and messages have in common: each claim is tested with all three. A scripted model answers.
. "$(dirname "$0")/lib.sh"
[ -x "${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}" ] || { echo "not ok $(basename "$0"): moefs-http is missing; run make"; exit 1; }
python3 - >"$work/script.json" <<'PY'
import json, sys
off = "<think>\n\n</think>\n\n" # Anthropic's is told not to think
def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
say = [("Twelve and thirty are", " forty-two."), ("Stop behind the colon:", " here. And on."), ("I say: {", '"a": 1}')]
for answer in ("<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n<|im_start|>assistant\n" + off):
    say += [("Say hello." + answer, "Hello to you."),
            ("Add twice." + answer, "I add.\n" + call("add", a=1, b=2) + "\n" + call("add", a=3, b=4)),
            ("Add what is wide." + answer, call("add", a=10**30, b=-10**25 - 1)),
            ("Half a call." + answer, 'I add.\n<tool_call>\n{"name": "add"'),
            ("3<|im_end|>\n<|im_start|>tool\n7" + answer, "It is three and seven."),
            ("Think about seven." + answer, "<think>\nSeven is odd.\n</think>\n\nIt is prime.")]
json.dump([{"after": a, "say": s} for a, s in say], sys.stdout)
PY
scripted_gateway "$work/script.json"

cat >"$work/claims.py" <<'PY'
import json
import os
import re
import gateway as h

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ALL = (CHAT, RESPONSES, MESSAGES)
PARAMETERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}


def tool(path, name="add", schema=PARAMETERS):
    if path == MESSAGES:
        return {"name": name, "input_schema": schema}
    function = {"name": name, "parameters": schema}
    return {"type": "function", "function": function} if path == CHAT else {"type": "function", **function}


def body(path, *said, model="scripted", **more):
    """said: in turn the user's and the assistant's, or items of the protocol."""
    said = [s if isinstance(s, dict) else {"role": ("user", "assistant")[i % 2], "content": s} for i, s in enumerate(said)]
    if path == MESSAGES:
        more = {"max_tokens": 1000, **more}
    elif path == RESPONSES and "max_tokens" in more:
        more["max_output_tokens"] = more.pop("max_tokens")
    return {"model": model, "input" if path == RESPONSES else "messages": said, **more}


def text_of(path, answer):
    if path == CHAT:
        return answer["choices"][0]["message"]["content"]
    blocks = answer["content"] if path == MESSAGES else [c for i in answer["output"] if i["type"] == "message" for c in i["content"]]
    return "".join(b["text"] for b in blocks if "text" in b)


def streamed_text(path, asked):
    events = [d for _, d in h.streamed(path, asked) if d != "[DONE]"]
    if path == CHAT:
        return "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])
    if path == MESSAGES:
        return "".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta")
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


def calls_of(path, answer):
    """[(id, name, arguments)]"""
    if path == CHAT:
        return [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
                for c in answer["choices"][0]["message"].get("tool_calls") or []]
    if path == MESSAGES:
        return [(b["id"], b["name"], b["input"]) for b in answer["content"] if b["type"] == "tool_use"]
    return [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in answer["output"] if i["type"] == "function_call"]


def finish_of(path, answer):
    """In chat's words."""
    if path == CHAT:
        return answer["choices"][0]["finish_reason"]
    if path == MESSAGES:
        return {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}[answer["stop_reason"]]
    return "length" if answer["status"] == "incomplete" else "tool_calls" if calls_of(path, answer) else "stop"


def refused(path, asked, words, param=None, status=400):
    """In one sentence, and before anything of a stream."""
    for stream in (False, True):
        got, said = h.answered(path, {**asked, "stream": stream})
        h.same(got, status, f"{path}: {said}")
        error = said["error"]
        assert words in error["message"], f"{path}: {error['message']!r}"
        assert "params/" not in error["message"] and ".json" not in error["message"], error
        if param and path != MESSAGES:
            h.same(error["param"], param, path)


def goes_on():
    for path in ALL:
        for given in ("Twelve and thirty are", "Twelve and thirty are "):
            asked = body(path, "Add them.", given)
            h.same(text_of(path, h.good(path, asked)).strip(), "forty-two.", path)
            h.same(streamed_text(path, asked).strip(), "forty-two.", path)
        # max_tokens counts only new text, and stops match only new text.
        cut = h.good(path, body(path, "Add them.", "Twelve and thirty are", max_tokens=1))
        h.same(finish_of(path, cut), "length", path)
        if path != RESPONSES:
            stops = {"stop_sequences" if path == MESSAGES else "stop": [":", " And"]}
            asked = body(path, "Where?", "Stop behind the colon:", **stops)
            h.same(text_of(path, h.good(path, asked)), " here.", path)
        # An empty one counts as none.
        h.same(text_of(path, h.good(path, body(path, "Say hello.", ""))), "Hello to you.", path)
    for say in ("Twelve and thirty are", [{"type": "text", "text": "Twelve and "}, {"type": "text", "text": "thirty are"}]):
        last = {"role": "assistant", "content": say}
        for path in (CHAT, MESSAGES):
            h.same(text_of(path, h.good(path, body(path, "Add them.", last))), " forty-two.", path)


def repeats():
    """An answer that repeats itself ends as one that is too long, long before max_tokens or the context."""
    bias = os.environ["mnt"] + "/fable-moe-15m/sessions/default/params/logit_bias"
    open(bias, "w").write("17 100\n")
    for path in ALL:
        asked = body(path, "Tell me.", model=h.fable, max_tokens=1000)
        said = h.good(path, asked)
        h.same(finish_of(path, said), "length", path)
        used = said["usage"]
        h.same(used["completion_tokens"] if path == CHAT else used["output_tokens"], 256, path)
        h.same(streamed_text(path, asked), text_of(path, said), path)
    open(bias, "w").write("\n")


def full():
    """More than the context holds is refused, however many turns it has, unless the model's default session drops turns."""
    on_full = os.environ["mnt"] + "/fable-moe-15m/sessions/default/params/on_full"
    for path in ALL:
        asked = body(path, "word " * 6000, "So?", "What is 12 x 6?", model=h.fable, temperature=0)
        refused(path, asked, "token")
        open(on_full, "w").write("drop-oldest\n")
        h.same(text_of(path, h.good(path, asked)), "12 x 6 = 72", path)
        open(on_full, "w").write("auto\n")


def goes_on_again():
    """Longer and shorter ones in turn, and long ones, which go another way: nothing of one is in another."""
    for path in ALL:
        first = h.good(path, body(path, "Tell me.", "The capital", model=h.fable, temperature=0, max_tokens=8))
        for n in (400, 1, 13000, 2):
            asked = body(path, "Tell me.", "word " * n + "Twelve and thirty are", model="scripted" if n < 1000 else h.fable)
            status, said = h.answered(path, asked)
            if n < 1000:
                h.same((status, status == 200 and text_of(path, said)), (200, " forty-two."), path)
            else:  # more than the context holds, and more than goes in one write
                h.same(status, 400, said)
                assert "token" in said["error"]["message"], said
        again = h.good(path, body(path, "Tell me.", "The capital", model=h.fable, temperature=0, max_tokens=8))
        h.same(text_of(path, again), text_of(path, first), path)


def cut():
    """A call, or a mark, that max_tokens cuts is left out: no half of it is text."""
    for path in ALL:
        most = 1
        while True:
            asked = body(path, "Add twice.", tools=[tool(path)], max_tokens=most)
            said = h.good(path, asked)
            text, calls = text_of(path, said) or "", [c[1:] for c in calls_of(path, said)]
            assert "I add.".startswith(text.strip()), (path, most, text)
            assert [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})][:len(calls)] == calls, (path, most, calls)
            h.same(streamed_text(path, asked).strip(), text.strip(), path)
            if finish_of(path, said) == "tool_calls":
                break
            h.same(finish_of(path, said), "length", path)
            most += 1
        h.same(len(calls), 2, path)
        thought = h.good(path, body(path, "Think about seven.", tools=[tool(path)], max_tokens=1))
        assert "<" not in (text_of(path, thought) or ""), thought


def half():
    """Ended by the model itself it is what the model said: nothing of an answer is lost."""
    for path in ALL:
        asked = body(path, "Half a call.", tools=[tool(path)])
        said = h.good(path, asked)
        h.same(finish_of(path, said), "stop", path)
        h.same(calls_of(path, said), [], path)
        h.same(text_of(path, said), 'I add.\n<tool_call>\n{"name": "add"', path)
        h.same(streamed_text(path, asked), text_of(path, said), path)


def results_of(path, answer):
    """The answer and its calls' results as the next request has them."""
    ids = [i for i, _, _ in calls_of(path, answer)]
    if path == CHAT:
        return [answer["choices"][0]["message"]] + [{"role": "tool", "tool_call_id": i, "content": c} for i, c in zip(ids, "37")]
    if path == RESPONSES:
        return answer["output"] + [{"type": "function_call_output", "call_id": i, "output": c} for i, c in zip(ids, "37")]
    results = [{"type": "tool_result", "tool_use_id": i, "content": c} for i, c in zip(ids, "37")]
    return [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": results}]


def ids():
    """Each call's id is its own, in its protocol's form, and the tree's in the prompt, which so is the same every time."""
    seen, prompts = set(), []
    for path in ALL:
        form = re.compile("toolu_[0-9A-Za-z]{24}" if path == MESSAGES else "call_[0-9A-Za-z]{24}")
        for _ in range(2):
            said = h.good(path, body(path, "Add twice.", tools=[tool(path)]))
            found = [i for i, _, _ in calls_of(path, said)]
            assert len(found) == 2 and all(map(form.fullmatch, found)), found
            assert not seen & set(found), found
            seen |= set(found)
            again = body(path, {"role": "user", "content": "Add twice."}, *results_of(path, said), tools=[tool(path)])
            h.same(text_of(path, h.good(path, again)), "It is three and seven.", path)
            if path == RESPONSES:
                more = {"previous_response_id": said["id"], "tools": [tool(path)]}
                for _ in range(2):  # which leaves what is kept as it is
                    last = h.good(path, body(path, *results_of(path, said)[-2:], **more))
                    h.same(text_of(path, last), "It is three and seven.", path)
            prompts += [ids for t in h.prefixes("scripted") if "Add twice." in t and (ids := re.findall('"id": "(.*?)"', t))]
            missing = body(path, {"role": "user", "content": "Add twice."}, *results_of(path, said)[:-1], tools=[tool(path)])
            if path != MESSAGES:
                refused(path, missing, found[1])
    assert prompts and all(p == ["c00001000", "c00001001"] for p in prompts), prompts


def streamed_ids():
    said = [d for _, d in h.streamed(CHAT, body(CHAT, "Add twice.", tools=[tool(CHAT)], n=2)) if d != "[DONE]"]
    found = [c["id"] for d in said for choice in d["choices"] for c in choice["delta"].get("tool_calls", []) if c.get("id")]
    assert len(set(found)) == 4, found


def wide():
    """Numbers of any width keep their digits, in an answer, in a stream, and in the request that brings the result."""
    given = {"a": 10**30, "b": -10**25 - 1}
    for path in ALL:
        asked = body(path, "Add what is wide.", tools=[tool(path)])
        said = h.good(path, asked)
        h.same([c[1:] for c in calls_of(path, said)], [("add", given)], path)
        raw = json.dumps([d for _, d in h.streamed(path, asked)])
        assert str(given["a"]) in raw and str(given["b"]) in raw, (path, raw)
        h.good(path, body(path, {"role": "user", "content": "Add what is wide."}, *results_of(path, said), tools=[tool(path)]))
        told = [t for t in h.prefixes("scripted") if "Add what is wide." in t and all(str(n) in t for n in given.values())]
        assert told, (path, h.prefixes("scripted"))


def developer():
    """To the template it is the system's."""
    said = body(CHAT, {"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Say hello."})
    h.same(text_of(CHAT, h.good(CHAT, said)), "Hello to you.")
    said = body(RESPONSES, {"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Say hello."})
    h.same(text_of(RESPONSES, h.good(RESPONSES, said)), "Hello to you.")
    told = [t for t in h.prefixes("scripted") if "Be brief." in t]
    assert told and all(t.startswith("<|im_start|>system\nBe brief.<|im_end|>") and "developer" not in t for t in told), told


def formed():
    """What is wrong with a form is told in the request's own words, not by the tree's params/."""
    for path, field in (CHAT, "response_format"), (RESPONSES, "text.format"), (MESSAGES, "output_config.format"):
        for schema, words in ({"type": "object", "propertys": {}}, "propertys"), ({"type": "string", "pattern": "("}, "pattern"):
            form = {"type": "json_schema", "schema": schema}
            how = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}} if path == CHAT else \
                {"text": {"format": {"name": "x", **form}}} if path == RESPONSES else {"output_config": {"format": form}}
            refused(path, body(path, "Say hello.", **how), words, field)
            status, said = h.answered(path, body(path, "Say hello.", **how))
            assert said["error"]["message"].startswith(field + ": "), said
    form = {"type": "json_schema", "schema": {"propertys": {}}}
    got, said = h.answered(MESSAGES, body(MESSAGES, "Say hello.", output_format=form))
    assert got == 400 and said["error"]["message"].startswith("output_format: "), said
    refused(CHAT, body(CHAT, "Say hello.", logit_bias={"99999999": 1}), "logit_bias: ", "logit_bias")
    # A failure of the turn: no text of this form continues the answer so far.
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    refused(CHAT, body(CHAT, "Add them.", "Twelve and thirty are", response_format=form), "")


h.main(globals())
PY
check() { timeout $limit python3 "$work/claims.py" "$1"; }
claim "an answer that the request begins is continued" check goes_on
claim "an answer that repeats itself ends as one that is too long" check repeats
claim "more than the context holds is refused, unless params/on_full says otherwise" check full
claim "what max_tokens cuts of a call is left out" check cut
claim "half a call that the model itself ends with is text" check half
claim "ids of calls are unique and in the form of each protocol, and in the prompt the same every time" check ids
claim "each of several answers has its own ids" check streamed_ids
claim "wide numbers in a call keep their digits" check wide
claim "a developer's message is the system's to the template" check developer
claim "errors in a format name the request's own field" check formed
claim "such requests in a row, long and short, do not mix" check goes_on_again
gateway_over
finish
