"""pydantic-ai over the three protocols. Its newest that takes OpenAI's package of these tests takes Anthropic's older one."""
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from claims import HELLO, SCRIPTED, SUM, TRAINED, claim, over, same


class Form(BaseModel):
    x: int


def add(a: float, b: float) -> int:
    """Adds."""
    return int(a + b)


for Model in OpenAIChatModel, OpenAIResponsesModel, AnthropicModel:
    @claim(f"pydantic-ai by {Model.__name__}: asks, streams, calls")
    async def _():
        agent = Agent(Model(SCRIPTED), tools=[add])
        same((await agent.run("Say hello.")).output, HELLO)
        async with agent.run_stream("Say hello.") as stream:
            same(await stream.get_output(), HELLO)
        same((await agent.run("Add twelve and thirty.")).output, SUM)
    if Model is not AnthropicModel:
        @claim(f"pydantic-ai by {Model.__name__}: fills a form")
        async def _():
            r = await Agent(Model(TRAINED), output_type=NativeOutput(Form)).run("What is 12 x 6?")
            assert isinstance(r.output, Form)

over()
