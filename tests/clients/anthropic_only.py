"""The official package for Anthropic's interface, of any version: its claims, and its models."""
import json
import anthropic
from anthropic import types
from claims import ADD, HELLO, SCHEMA, SCRIPTED, SUM, TRAINED, URL, claim, over, refusal, same
from strict import asked, valid, valid_stream

client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
name = f"anthropic {anthropic.__version__}:"
HEADERS = {"anthropic-version": "2023-06-01"}
TOOL = {"name": "add", "description": "Adds.", "input_schema": ADD}


def body(text, model=SCRIPTED, **more):
    return {"model": model, "max_tokens": 500, "messages": [{"role": "user", "content": text}], **more}


@claim(f"{name} an answer, whole and as a stream, with usage")
def _():
    m = client.messages.create(**body("Say hello."))
    same((m.content[0].text, m.stop_reason, m.stop_sequence), ("Hello to you.", "end_turn", None))
    assert m.usage.output_tokens > 3 and m._request_id, m
    with client.messages.stream(**body("Say hello.")) as stream:
        same("".join(stream.text_stream), "Hello to you.")
        same(stream.get_final_message().usage.output_tokens, m.usage.output_tokens)


@claim(f"{name} a tool's call and its result")
def _():
    asked_ = body("Add twelve and thirty.", tools=[TOOL])
    with client.messages.stream(**asked_) as stream:
        streamed = stream.get_final_message()
    for m in client.messages.create(**asked_), streamed:
        use = m.content[-1]
        same((m.stop_reason, use.name, use.input), ("tool_use", "add", {"a": 12, "b": 30}))
    said = [*asked_["messages"], {"role": "assistant", "content": streamed.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "42"}]}]
    same(client.messages.create(**{**asked_, "messages": said}).content[0].text, "It is 42.")


@claim(f"{name} the tool runner, whole and as a stream")
def _():
    @anthropic.beta_tool
    def add(a: float, b: float) -> str:
        """Adds."""
        return f"{a + b:g}"
    asked_ = body("Add twelve and thirty.", tools=[add])
    same(client.beta.messages.tool_runner(**asked_).until_done().content[0].text, SUM)
    last = [stream.get_final_message() for stream in client.beta.messages.tool_runner(**asked_, stream=True)][-1]
    same(last.content[0].text, SUM)


if hasattr(client.beta.messages, "thread"):
    # A conversation that the service would hold: whoever continues it is told that it is lost, and the package sends it all.
    @claim(f"{name} a message thread")
    def _():
        thread = client.beta.messages.thread(model=SCRIPTED, max_tokens=500)
        for text, said in ("Say hello.", HELLO), ("Once more.", "Hello again."):
            same(thread.send(*body(text)["messages"]).content[0].text, said)
        with thread.stream(*body("Stop at the hash.")["messages"]) as stream:
            same(stream.get_final_message().content[0].text, "One # two.")
        same(len(thread.messages), 6)


@claim(f"{name} a form, a text to stop at, thinking")
def _():
    m = client.messages.create(**body("What is 12 x 6?", TRAINED), extra_body={
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}})
    assert isinstance(json.loads(m.content[0].text)["x"], int)
    m = client.messages.create(**body("Stop at the hash.", stop_sequences=["#"]))
    same((m.content[0].text, m.stop_reason, m.stop_sequence), ("One ", "stop_sequence", "#"))
    m = client.messages.create(**body("Is seven a prime number?", max_tokens=4000, thinking={"type": "enabled", "budget_tokens": 2000}))
    same([b.type for b in m.content], ["thinking", "text"])


@claim(f"{name} errors have their class, type, words and request id")
def _():
    for error, kind, words, f in [
        (anthropic.NotFoundError, "not_found_error", "scripted", lambda: client.messages.create(**body("x", "other"))),
        (anthropic.BadRequestError, "invalid_request_error", "temperature", lambda: client.messages.create(**body("x"), extra_body={"temperature": 7})),
        (anthropic.BadRequestError, "invalid_request_error", "prompt is too long: ",
         lambda: client.messages.create(**body("word " * 6000, TRAINED))),
    ]:
        e = refusal(f)
        assert isinstance(e, error) and words in e.message, repr(e)
        same(e.body["error"]["type"], kind)
        same(e.body["request_id"], e.request_id)


@claim(f"{name} models in pages, and tokens")
def _():
    for limit in 1, 2, 20:
        same([m.id for m in client.models.list(limit=limit)], [TRAINED, SCRIPTED])
    same(client.models.retrieve(TRAINED).max_input_tokens, 4096)
    counted = client.messages.count_tokens(model=SCRIPTED, messages=body("Say hello.")["messages"]).input_tokens
    u = client.messages.create(**body("Say hello.")).usage
    same(counted, u.input_tokens + (u.cache_read_input_tokens or 0))


@claim(f"{name} every answer is of its models, strictly")
def _():
    tool = {"tools": [TOOL]}
    for text, more in ("Say hello.", {}), ("Add twelve and thirty.", tool), ("Is seven a prime number?", {
            "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}}):
        raw = asked("/v1/messages", body(text, **more), HEADERS)
        valid(types.Message, raw)
        assert "citations" not in raw  # a list in other clients' schemas, and never null
        assert valid_stream(types.RawMessageStreamEvent, "/v1/messages", body(text, **more), HEADERS, ("ping",)) > 4
    count = {k: v for k, v in body("x").items() if k != "max_tokens"}
    valid(types.MessageTokensCount, asked("/v1/messages/count_tokens", count, HEADERS))
    for one in json.loads(asked("/v1/models", headers=HEADERS))["data"]:
        valid(types.ModelInfo, json.dumps(one))
    for wrong in body("x", "other"), body("x", temperature=7):
        valid(types.ErrorResponse, asked("/v1/messages", wrong, HEADERS))


if __name__ == "__main__":
    over()
