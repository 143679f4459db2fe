// The official package for Anthropic's interface: node anthropic.mjs URL MOUNT
import Anthropic from "@anthropic-ai/sdk";
import { assert, claim, collect, idle, key, narrow, over, refusal, take_away, url } from "./claims.mjs";

const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
const scripted = { model: "scripted", max_tokens: 500 };
const trained = { model: "fable-moe-15m", max_tokens: 500, temperature: 0 };
const ask = (content) => [{ role: "user", content }];
const add = {
	name: "add",
	description: "Adds.",
	input_schema: {
		type: "object",
		properties: { a: { type: "number" }, b: { type: "number" } },
		required: ["a", "b"],
	},
};
const endless = {
	...trained,
	max_tokens: 100000,
	messages: ask("Count."),
	output_config: {
		format: { type: "json_schema", schema: { type: "array", items: { type: "integer" }, minItems: 3000 } },
	},
};

await claim("anthropic: messages.create", async () => {
	const m = await client.messages.create({ ...trained, messages: ask("What is the capital of France?") });
	assert.equal(m.content[0].text, "The capital of France is Paris.");
	assert.equal(m.stop_reason, "end_turn");
	assert.ok(m.usage.input_tokens + m.usage.cache_read_input_tokens > 0 && m.usage.output_tokens > 0);
});

await claim("anthropic: a stream of events", async () => {
	const events = await collect(await client.messages.create({ ...scripted, stream: true, messages: ask("Say hello.") }));
	assert.equal(events[0].type, "message_start");
	assert.equal(events.at(-1).type, "message_stop");
	const text = events.filter((e) => e.type === "content_block_delta").map((e) => e.delta.text);
	assert.equal(text.join(""), "Hello to you.");
});

await claim("anthropic: messages.stream puts it together", async () => {
	const texts = [];
	const stream = client.messages.stream({ ...scripted, messages: ask("Say hello.") });
	stream.on("text", (text) => texts.push(text));
	const m = await stream.finalMessage();
	assert.equal(m.content[0].text, "Hello to you.");
	assert.equal(texts.join(""), "Hello to you.");
	assert.equal(m.stop_reason, "end_turn");
});

await claim("anthropic: thinking", async () => {
	const asked = {
		...scripted,
		max_tokens: 4000,
		thinking: { type: "enabled", budget_tokens: 2000 },
		messages: ask("Is seven a prime number?"),
	};
	for (const m of [await client.messages.create(asked), await client.messages.stream(asked).finalMessage()]) {
		assert.deepEqual(m.content.map((b) => b.type), ["thinking", "text"]);
		assert.equal(m.content[0].thinking, "Two does not divide it.");
		assert.ok(m.content[0].signature);
	}
});

await claim("anthropic: thinking is sent back, whole, as programs that use tools do", async () => {
	const asked = { ...scripted, max_tokens: 4000, thinking: { type: "enabled", budget_tokens: 2000 } };
	const messages = ask("Is seven a prime number?");
	const m = await client.messages.create({ ...asked, messages });
	messages.push({ role: "assistant", content: m.content }, { role: "user", content: "Now say it." });
	const next = await client.messages.create({ ...scripted, messages });
	assert.equal(next.content[0].text, "As I said.");
	const events = await collect(await client.messages.create({ ...asked, messages: messages.slice(0, 1), stream: true }));
	const deltas = events.filter((e) => e.type === "content_block_delta").map((e) => e.delta.type);
	assert.deepEqual(deltas.filter((type, i) => type !== deltas[i - 1]), ["thinking_delta", "signature_delta", "text_delta"]);
});

await claim("anthropic: system blocks, cache_control, betas, texts to stop at", async () => {
	const m = await client.beta.messages.create({
		...scripted,
		betas: ["prompt-caching-2024-07-31", "of-tomorrow-2099-01-01"],
		system: [{ type: "text", text: "Be kind.", cache_control: { type: "ephemeral" } }, { type: "text", text: "Be short." }],
		messages: ask([{ type: "text", text: "Stop at the hash.", cache_control: { type: "ephemeral" } }]),
		stop_sequences: ["#"],
		metadata: { user_id: "nobody" },
	});
	assert.equal(m.content[0].text, "One ");
	assert.deepEqual([m.stop_reason, m.stop_sequence], ["stop_sequence", "#"]);
	const cut = await client.messages.create({ ...scripted, max_tokens: 2, messages: ask("Say hello.") });
	assert.equal(cut.stop_reason, "max_tokens");
});

await claim("anthropic: parallel calls, and one at a time", async () => {
	const asked = { ...scripted, tools: [add], messages: ask("Two sums, please.") };
	for (const m of [await client.messages.create(asked), await client.messages.stream(asked).finalMessage()]) {
		assert.deepEqual(m.content.map((b) => b.type), ["text", "tool_use", "tool_use"]);
		assert.deepEqual(m.content[2].input, { a: 12, b: 30 });
		assert.notEqual(m.content[1].id, m.content[2].id);
	}
	const one = await client.messages.create({ ...asked, tool_choice: { type: "auto", disable_parallel_tool_use: true } });
	assert.deepEqual(one.content.map((b) => b.type), ["text", "tool_use"]);
	const must = await client.messages.create({ ...asked, messages: ask("Add twelve and thirty."), tool_choice: { type: "tool", name: "add" } });
	assert.equal(must.content[0].name, "add");
});

await claim("anthropic: tools", async () => {
	const messages = ask("Add twelve and thirty.");
	const m = await client.messages.stream({ ...scripted, tools: [add], messages }).finalMessage();
	const use = m.content.find((b) => b.type === "tool_use");
	assert.deepEqual(use.input, { a: 12, b: 30 });
	assert.equal(m.stop_reason, "tool_use");
	messages.push({ role: "assistant", content: m.content });
	messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "42" }] });
	const end = await client.messages.create({ ...scripted, tools: [add], messages });
	assert.equal(end.content[0].text, "It is 42.");
});

await claim("anthropic: the tool runner", async () => {
	const tool = { ...add, type: "custom", run: ({ a, b }) => String(a + b), parse: (input) => input };
	const runner = client.beta.messages.toolRunner({ ...scripted, tools: [tool], messages: ask("Add twelve and thirty.") });
	const m = await runner.runUntilDone();
	assert.equal(m.content[0].text, "It is 42.");
});

// A conversation that the service would hold: whoever continues it is told that it is lost, and the package sends all of it.
await claim("anthropic: a message thread", async () => {
	const states = [];
	const counted = async (...asked) => {
		const answer = await fetch(...asked);
		states.push(answer.status);
		return answer;
	};
	const thread = client.withOptions({ fetch: counted }).beta.messages.thread(scripted);
	const hello = await thread.send(ask("Say hello."));
	assert.equal(hello.content[0].text, "Hello to you.");
	const again = await thread.send(ask("Once more."));
	assert.equal(again.content[0].text, "Hello again.");
	const last = await thread.stream(ask("Stop at the hash.")).finalMessage();
	assert.equal(last.content[0].text, "One # two.");
	assert.equal(thread.messages.length, 6);
	assert.deepEqual(states, [200, 404, 200, 404, 200]);
});

await claim("anthropic: an answer in a form", async () => {
	const schema = { type: "object", properties: { x: { type: "integer" } }, required: ["x"], additionalProperties: false };
	const m = await client.messages.create({
		...trained,
		messages: ask("What is 12 x 6?"),
		output_config: { format: { type: "json_schema", schema } },
	});
	assert.equal(typeof JSON.parse(m.content[0].text).x, "number");
});

await claim("anthropic: countTokens", async () => {
	const { input_tokens } = await client.messages.countTokens({ model: "scripted", messages: ask("Say hello.") });
	const m = await client.messages.create({ ...scripted, messages: ask("Say hello.") });
	assert.equal(input_tokens, m.usage.input_tokens + (m.usage.cache_read_input_tokens ?? 0));
	const more = await client.messages.countTokens({ model: "scripted", messages: ask("Say hello."), system: "Be kind.", tools: [add] });
	assert.ok(more.input_tokens > input_tokens + 20);
});

await claim("anthropic: models", async () => {
	const names = (await collect(client.models.list())).map((m) => m.id);
	assert.deepEqual(names.sort(), ["fable-moe-15m", "scripted"]);
	assert.equal((await client.models.retrieve("scripted")).type, "model");
});

await claim("anthropic: refusals are of its classes", async () => {
	const unknown = await refusal(() => client.messages.create({ ...scripted, model: "other", messages: ask("x") }));
	assert.ok(unknown instanceof Anthropic.NotFoundError, String(unknown));
	assert.match(unknown.message, /scripted/);
	const bad = await refusal(() => client.messages.create({ ...scripted, temperature: 7, messages: ask("x") }));
	assert.ok(bad instanceof Anthropic.BadRequestError, String(bad));
	assert.equal(bad.error.error.type, "invalid_request_error");
	const late = await refusal(() => client.messages.stream({ ...scripted, model: "other", messages: ask("x") }).finalMessage());
	assert.ok(late instanceof Anthropic.NotFoundError, String(late));
});

await claim("anthropic: a context that is too short, a body that is too large, a key that is wrong", async () => {
	const long = ask("word ".repeat(6000));
	for (const f of [() => client.messages.create({ ...trained, messages: long }),
		() => client.messages.stream({ ...trained, messages: long }).finalMessage()]) {
		const error = await refusal(f);
		assert.ok(error instanceof Anthropic.BadRequestError, String(error));
		assert.match(error.message, /4096/);
	}
	const strict = new Anthropic({ baseURL: narrow, apiKey: key, maxRetries: 0 });
	const large = await refusal(() => strict.messages.create({ ...trained, messages: ask("word ".repeat(20000)) }));
	assert.equal(large.status, 413, String(large));
	assert.equal(large.error.error.type, "request_too_large");
	const wrong = await refusal(() => new Anthropic({ baseURL: narrow, apiKey: "not-it", maxRetries: 0 }).models.list());
	assert.ok(wrong instanceof Anthropic.AuthenticationError, String(wrong));
	assert.equal(wrong.error.error.type, "authentication_error");
});

await claim("anthropic: where no more can be answered it is a RateLimitError, with when to come again", async () => {
	const strict = new Anthropic({ baseURL: narrow, apiKey: key, maxRetries: 0 });
	const first = await strict.messages.create({ ...endless, stream: true });
	for await (const event of first) {
		if (event.type !== "content_block_delta") continue;
		const busy = await refusal(() => strict.messages.create({ ...scripted, messages: ask("x") }));
		assert.ok(busy instanceof Anthropic.RateLimitError, String(busy));
		assert.ok(Number(busy.headers.get("retry-after")) > 0);
		break;
	}
	await idle("fable-moe-15m");
});

await claim("anthropic: what a service would run is refused in words", async () => {
	const search = { type: "web_search_20250305", name: "web_search" };
	const error = await refusal(() => client.messages.create({ ...scripted, tools: [search], messages: ask("x") }));
	assert.ok(error instanceof Anthropic.BadRequestError, String(error));
	assert.match(error.message, /web_search_20250305/);
});

await claim("anthropic: a failure within a stream is an error", async () => {
	const stream = await client.messages.create({ ...endless, stream: true });
	const failed = await refusal(async () => {
		for await (const event of stream) if (event.type === "content_block_delta") take_away("fable-moe-15m");
	});
	assert.ok(failed instanceof Anthropic.APIError, String(failed));
});

await claim("anthropic: given up", async () => {
	const stream = client.messages.stream(endless);
	stream.once("text", () => stream.abort());
	const error = await refusal(() => stream.finalMessage());
	assert.ok(error instanceof Anthropic.APIUserAbortError, String(error));
	await idle("fable-moe-15m");
});

over();
