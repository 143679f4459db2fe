"""The official packages: OpenAI's chat, completions and responses, by one table where they are alike; then Anthropic's."""
import json
import openai
from openai import types
from openai.types import chat, responses
from claims import ADD, SCHEMA, SCRIPTED, TRAINED, URL, claim, over, refusal, same
from strict import asked, valid, valid_stream

client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
FORM = {"name": "x", "strict": True, "schema": SCHEMA}


class Chat:
    name, path, text_field = "chat", "/v1/chat/completions", "messages"
    whole, event = chat.ChatCompletion, chat.ChatCompletionChunk
    tool = {"tools": [{"type": "function", "function": {"name": "add", "parameters": ADD}}]}
    form = {"response_format": {"type": "json_schema", "json_schema": FORM}}
    most, logprobs = "max_completion_tokens", {"logprobs": True, "top_logprobs": 2}
    create = staticmethod(client.chat.completions.create)
    body = staticmethod(lambda text, model=SCRIPTED, /, **more: {
        "model": model, "messages": [{"role": "user", "content": text}], **more})
    text = staticmethod(lambda r: r.choices[0].message.content)
    streamed = staticmethod(lambda events: "".join(e.choices[0].delta.content or "" for e in events if e.choices))
    cut = staticmethod(lambda r: r.choices[0].finish_reason == "length")
    call = staticmethod(lambda r: r.choices[0].message.tool_calls[0].function)
    lines = staticmethod(lambda r: r.choices[0].logprobs.content)
    tokens = staticmethod(lambda r: (r.usage.prompt_tokens, r.usage.completion_tokens, r.usage.total_tokens))

    @staticmethod
    def answer(asked_, r, result):
        message = r.choices[0].message
        said = [*asked_["messages"], message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": result}]
        return {**asked_, "messages": said}


class Responses:
    name, path, text_field = "responses", "/v1/responses", "input"
    whole, event = responses.Response, responses.ResponseStreamEvent
    tool = {"tools": [{"type": "function", "name": "add", "parameters": ADD, "strict": False}]}
    form = {"text": {"format": {"type": "json_schema", **FORM}}}
    most, logprobs = "max_output_tokens", {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    create = staticmethod(client.responses.create)
    body = staticmethod(lambda text, model=SCRIPTED, /, **more: {"model": model, "input": text, **more})
    text = staticmethod(lambda r: r.output_text)
    streamed = staticmethod(lambda events: "".join(e.delta for e in events if e.type == "response.output_text.delta"))
    cut = staticmethod(lambda r: r.incomplete_details.reason == "max_output_tokens")
    call = staticmethod(lambda r: r.output[-1])
    lines = staticmethod(lambda r: r.output[-1].content[0].logprobs)
    tokens = staticmethod(lambda r: (r.usage.input_tokens, r.usage.output_tokens, r.usage.total_tokens))

    @staticmethod
    def answer(asked_, r, result):
        output = {"type": "function_call_output", "call_id": r.output[-1].call_id, "output": result}
        return {**asked_, "input": [output], "previous_response_id": r.id}


for P in Chat, Responses:
    @claim(f"openai {P.name}: an answer, whole and as a stream, with usage")
    def _():
        r = P.create(**P.body("Say hello."))
        same(P.text(r), "Hello to you.")
        prompt, output, total = P.tokens(r)
        assert prompt > 3 and output > 3 and total == prompt + output and r._request_id, r
        same(P.streamed(P.create(**P.body("Say hello.", stream=True))), "Hello to you.")

    @claim(f"openai {P.name}: a tool's call and its result")
    def _():
        asked_ = P.body("Add twelve and thirty.", **P.tool)
        r = P.create(**asked_)
        same((P.call(r).name, json.loads(P.call(r).arguments)), ("add", {"a": 12, "b": 30}))
        same(P.text(P.create(**P.answer(asked_, r, "42"))), "It is 42.")

    @claim(f"openai {P.name}: a form, an end at max_tokens, likelihoods with their bytes")
    def _():
        assert isinstance(json.loads(P.text(P.create(**P.body("What is 12 x 6?", TRAINED, temperature=0, **P.form))))["x"], int)
        assert P.cut(P.create(**P.body("Say hello.", **{P.most: 2})))
        lines = P.lines(P.create(**P.body("Say hello.", **P.logprobs)))
        same(b"".join(bytes(l.bytes) for l in lines).decode(), "Hello to you.")
        assert all(l.logprob <= 0 and len(l.top_logprobs) == 2 for l in lines), lines

    @claim(f"openai {P.name}: errors have their class, type, param and code, whole and as a stream")
    def _():
        for stream in False, True:
            for error, param, code, body in [
                (openai.NotFoundError, "model", "model_not_found", P.body("x", "other")),
                (openai.BadRequestError, "temperature", None, P.body("x", temperature=7)),
                (openai.BadRequestError, "tool_choice", None, P.body("x", **P.tool, tool_choice={
                    "type": "function", **({"function": {"name": "ghost"}} if P is Chat else {"name": "ghost"})})),
                (openai.BadRequestError, P.text_field, "context_length_exceeded", P.body("word " * 6000, TRAINED)),
            ]:
                e = refusal(lambda: list(P.create(**body, stream=stream)))
                assert isinstance(e, error), repr(e)
                same((e.type, e.param, e.code), ("invalid_request_error", param, code))

    @claim(f"openai {P.name}: every answer is of the package's models, strictly")
    def _():
        for text, more in ("Say hello.", P.logprobs), ("Add twelve and thirty.", P.tool), ("Say hello.", {P.most: 2}):
            valid(P.whole, asked(P.path, P.body(text, **more)))
            assert valid_stream(P.event, P.path, P.body(text, **more)) > 1


@claim("openai: completions, a text to stop at, embeddings")
def _():
    asked_ = {"model": TRAINED, "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
    same(client.completions.create(**asked_).choices[0].text,
         "".join(c.choices[0].text for c in client.completions.create(**asked_, stream=True) if c.choices))
    same(Chat.text(Chat.create(**Chat.body("Stop at the hash.", stop=["#"]))), "One ")
    one, two = client.embeddings.create(model=TRAINED, input=["a text", "another"]).data
    same(client.embeddings.create(model=TRAINED, input="a text").data[0].embedding, one.embedding)
    assert len(one.embedding) == len(two.embedding) and one.embedding != two.embedding, (one, two)
    valid(types.CreateEmbeddingResponse, asked("/v1/embeddings", {"model": TRAINED, "input": "a text"}))
    e = refusal(lambda: client.embeddings.create(model="none", input="x"))
    assert isinstance(e, openai.NotFoundError), repr(e)
    valid(types.Completion, asked("/v1/completions", asked_))
    for one in json.loads(asked("/v1/models"))["data"]:
        valid(types.Model, json.dumps(one))


@claim("openai responses: what was asked is read again, typed; a response that is gone has its code")
def _():
    r = client.responses.create(model=SCRIPTED, input="Say hello.")
    same(client.responses.retrieve(r.id).output_text, "Hello to you.")
    item, = client.responses.input_items.list(r.id)
    same((item.type, item.role, item.status, item.content[0].text), ("message", "user", "completed", "Say hello."))
    for one in json.loads(asked(f"/v1/responses/{r.id}/input_items"))["data"]:
        valid(responses.ResponseItem, json.dumps(one))
    same(client.responses.create(model=SCRIPTED, input="Once more.", previous_response_id=r.id).output_text, "Hello again.")
    client.responses.delete(r.id)
    e = refusal(lambda: client.responses.create(model=SCRIPTED, input="x", previous_response_id=r.id))
    same((e.code, e.param), ("previous_response_not_found", "previous_response_id"))


import anthropic_only  # whose claims are of this version, too
over()
