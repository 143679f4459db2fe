"""Frameworks over the official packages: each asks, streams, uses a tool, and fills a form, by the protocols that it has."""
from pydantic import BaseModel
from claims import HELLO, SCRIPTED, SUM, TRAINED, URL, claim, over, same

V1 = URL + "/v1"


class Form(BaseModel):
    x: int


def add(a: float, b: float) -> int:
    """Adds."""
    return int(a + b)


# ---- LiteLLM ----

import litellm
litellm.suppress_debug_info = True
for kind, base in ("openai", V1), ("anthropic", URL):
    @claim(f"litellm over {kind}: asks, streams, calls, fills a form")
    def _():
        def ask(text, model=SCRIPTED, **more):
            return litellm.completion(model=f"{kind}/{model}", api_base=base, api_key="none", max_tokens=500,
                                      messages=[{"role": "user", "content": text}], **more)
        same(ask("Say hello.").choices[0].message.content, HELLO)
        same("".join(c.choices[0].delta.content or "" for c in ask("Say hello.", stream=True)), HELLO)
        tool = {"type": "function", "function": {"name": "add", "parameters": {
            "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}}}
        same(ask("Add twelve and thirty.", tools=[tool]).choices[0].message.tool_calls[0].function.name, "add")
        if kind == "openai":  # for Anthropic it knows by the model's name alone how a form is asked for
            Form.model_validate_json(ask("What is 12 x 6?", TRAINED, response_format=Form).choices[0].message.content)


# ---- LangChain ----

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool as lc_tool
from langchain_openai import ChatOpenAI
for kind, make in [("chat", lambda model: ChatOpenAI(model=model)),
                   ("responses", lambda model: ChatOpenAI(model=model, use_responses_api=True)),
                   ("messages", lambda model: ChatAnthropic(model=model, max_tokens=500))]:
    @claim(f"langchain by {kind}: asks, streams, calls, fills a form")
    def _():
        model = make(SCRIPTED)
        same(model.invoke("Say hello.").text, HELLO)
        same("".join(c.text for c in model.stream("Say hello.")), HELLO)
        calls = model.bind_tools([lc_tool(add)])
        said = calls.invoke("Add twelve and thirty.")
        call, = said.tool_calls
        same((call["name"], call["args"]), ("add", {"a": 12, "b": 30}))
        same(calls.invoke([("user", "Add twelve and thirty."), said, ToolMessage("42", tool_call_id=call["id"])]).text, SUM)
        assert isinstance(make(TRAINED).with_structured_output(Form, method="json_schema").invoke("What is 12 x 6?"), Form)


# ---- instructor, llm, openai-agents ----

@claim("instructor: fills a form")
def _():
    import instructor, openai
    client = instructor.from_openai(openai.OpenAI(), mode=instructor.Mode.JSON_SCHEMA)
    form = client.chat.completions.create(model=TRAINED, response_model=Form, max_retries=0,
                                          messages=[{"role": "user", "content": "What is 12 x 6?"}])
    assert isinstance(form, Form)


@claim("llm: asks, streams, calls, fills a form")
def _():
    from llm.default_plugins.openai_models import Chat
    def model(name):
        m = Chat(name, model_name=name, api_base=V1, supports_schema=True, supports_tools=True)
        m.key = "none"
        return m
    same(model(SCRIPTED).prompt("Say hello.", stream=False).text(), HELLO)
    same("".join(model(SCRIPTED).prompt("Say hello.")), HELLO)
    same(model(SCRIPTED).chain("Add twelve and thirty.", tools=[add]).text().strip(), SUM)
    Form.model_validate_json(model(TRAINED).prompt("What is 12 x 6?", schema=Form, stream=False).text())


from agents import Agent as OpenAIAgent, OpenAIChatCompletionsModel, OpenAIResponsesModel as AgentsResponses, Runner, function_tool
import openai
for Model in OpenAIChatCompletionsModel, AgentsResponses:
    @claim(f"openai-agents by {Model.__name__}: asks, streams, calls, fills a form")
    async def _():
        model = lambda name: Model(model=name, openai_client=openai.AsyncOpenAI())
        agent = OpenAIAgent(name="A", model=model(SCRIPTED), tools=[function_tool(add)])
        same((await Runner.run(agent, "Say hello.")).final_output, HELLO)
        stream = Runner.run_streamed(agent, "Say hello.")
        async for _ in stream.stream_events():
            pass
        same(stream.final_output, HELLO)
        same((await Runner.run(agent, "Add twelve and thirty.")).final_output, SUM)
        form = OpenAIAgent(name="B", model=model(TRAINED), output_type=Form)
        assert isinstance((await Runner.run(form, "What is 12 x 6?")).final_output, Form)


over()
