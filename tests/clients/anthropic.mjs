// The official package for Anthropic's interface: node anthropic.mjs URL MOUNT
import Anthropic from "@anthropic-ai/sdk";
import { assert, claim, collect, idle, mount, over, refusal, url } from "./claims.mjs";

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
	assert.ok(input_tokens > 3);
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

await claim("anthropic: a failure within a stream is an error", async () => {
	const fs = await import("node:fs");
	const stream = await client.messages.create({ ...endless, stream: true });
	const failed = await refusal(async () => {
		for await (const event of stream) {
			const sessions = `${mount}/fable-moe-15m/sessions/`;
			const works = (s) => s.startsWith("http-") && fs.readFileSync(`${sessions}${s}/status`, "utf8") === "generating\n";
			if (event.type === "content_block_delta")
				for (const s of fs.readdirSync(sessions).filter(works)) fs.rmdirSync(sessions + s);
		}
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
