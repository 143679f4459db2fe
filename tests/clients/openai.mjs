// The official package for OpenAI's interface: node openai.mjs URL MOUNT
import OpenAI from "openai";
import { assert, claim, collect, idle, over, refusal, url } from "./claims.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const scripted = { model: "scripted" };
const trained = { model: "fable-moe-15m", temperature: 0 };
const ask = (content) => [{ role: "user", content }];
const parameters = {
	type: "object",
	properties: { a: { type: "number" }, b: { type: "number" } },
	required: ["a", "b"],
	additionalProperties: false,
};
const form = {
	name: "x",
	strict: true,
	schema: { type: "object", properties: { x: { type: "integer" } }, required: ["x"], additionalProperties: false },
};
const endless = { name: "n", schema: { type: "array", items: { type: "integer" }, minItems: 3000 } };
const paris = "The capital of France is Paris.";

// ---- chat ----

await claim("openai: chat.completions.create", async () => {
	const c = await client.chat.completions.create({ ...trained, messages: ask("What is the capital of France?") });
	assert.equal(c.choices[0].message.content, paris);
	assert.equal(c.choices[0].finish_reason, "stop");
	assert.equal(c.usage.total_tokens, c.usage.prompt_tokens + c.usage.completion_tokens);
});

await claim("openai: a chat's stream, with usage", async () => {
	const chunks = await collect(await client.chat.completions.create({
		...scripted, stream: true, stream_options: { include_usage: true }, messages: ask("Say hello."),
	}));
	assert.equal(chunks.map((c) => c.choices[0]?.delta.content ?? "").join(""), "Hello to you.");
	assert.ok(chunks.at(-1).usage.completion_tokens > 0);
});

await claim("openai: chat.completions.stream puts it together", async () => {
	const stream = client.chat.completions.stream({ ...scripted, messages: ask("Say hello.") });
	assert.equal(await stream.finalContent(), "Hello to you.");
});

await claim("openai: chat.completions.runTools", async () => {
	const tool = {
		type: "function",
		function: { name: "add", description: "Adds.", parameters, parse: JSON.parse, function: ({ a, b }) => String(a + b) },
	};
	for (const stream of [false, true]) {
		const runner = client.chat.completions.runTools({ ...scripted, stream, messages: ask("Add twelve and thirty."), tools: [tool] });
		assert.equal(await runner.finalContent(), "It is 42.");
	}
});

await claim("openai: a chat's answer in a form", async () => {
	const c = await client.chat.completions.parse({
		...trained, messages: ask("What is 12 x 6?"), response_format: { type: "json_schema", json_schema: form },
	});
	assert.equal(typeof JSON.parse(c.choices[0].message.content).x, "number");
});

await claim("openai: logprobs, and several answers", async () => {
	const c = await client.chat.completions.create({
		...trained, n: 2, logprobs: true, top_logprobs: 2, messages: ask("What is the capital of France?"),
	});
	assert.deepEqual(c.choices.map((one) => one.message.content), [paris, paris]);
	assert.equal(c.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

await claim("openai: completions", async () => {
	const c = await client.completions.create({ ...trained, prompt: "The capital of France is", max_tokens: 3 });
	assert.ok(c.choices[0].text.length > 0);
	const chunks = await collect(await client.completions.create({
		...trained, prompt: "The capital of France is", max_tokens: 3, stream: true,
	}));
	assert.equal(chunks.map((one) => one.choices[0]?.text ?? "").join(""), c.choices[0].text);
});

// ---- responses ----

await claim("openai: responses.create, and what goes on from it", async () => {
	const r = await client.responses.create({ ...scripted, input: "Say hello." });
	assert.equal(r.output_text, "Hello to you.");
	const next = await client.responses.create({ ...scripted, input: "Once more.", previous_response_id: r.id });
	assert.equal(next.output_text, "Hello again.");
	assert.equal((await client.responses.retrieve(r.id)).id, r.id);
	assert.equal((await collect(client.responses.inputItems.list(r.id))).length, 1);
	await client.responses.delete(r.id);
	assert.ok((await refusal(() => client.responses.retrieve(r.id))) instanceof OpenAI.NotFoundError);
});

await claim("openai: a response's stream", async () => {
	const events = await collect(await client.responses.create({ ...scripted, input: "Say hello.", stream: true }));
	assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
	assert.equal(events.at(-1).type, "response.completed");
});

await claim("openai: responses.stream puts it together", async () => {
	const stream = client.responses.stream({ ...scripted, input: "Say hello." });
	let text = "";
	stream.on("response.output_text.delta", (e) => (text += e.delta));
	const r = await stream.finalResponse();
	assert.equal(r.output_text, "Hello to you.");
	assert.equal(text, "Hello to you.");
});

await claim("openai: reasoning", async () => {
	const r = await client.responses.create({ ...scripted, input: "Is seven a prime number?", reasoning: { effort: "low" } });
	assert.deepEqual(r.output.map((i) => i.type), ["reasoning", "message"]);
	assert.equal(r.output[0].content[0].text, "Two does not divide it.");
});

await claim("openai: functions of responses", async () => {
	const tools = [{ type: "function", name: "add", parameters, strict: true }];
	const input = ask("Add twelve and thirty.");
	const r = await client.responses.stream({ ...scripted, input, tools }).finalResponse();
	const call = r.output.find((i) => i.type === "function_call");
	assert.deepEqual(JSON.parse(call.arguments), { a: 12, b: 30 });
	const output = { type: "function_call_output", call_id: call.call_id, output: "42" };
	const resent = await client.responses.create({ ...scripted, tools, input: [...input, ...r.output, output] });
	assert.equal(resent.output_text, "It is 42.");
	const gone = await client.responses.create({ ...scripted, tools, input: [output], previous_response_id: r.id });
	assert.equal(gone.output_text, "It is 42.");
});

await claim("openai: a response in a form", async () => {
	const r = await client.responses.parse({
		...trained, input: "What is 12 x 6?", text: { format: { type: "json_schema", ...form } },
	});
	assert.equal(typeof JSON.parse(r.output_text).x, "number");
});

await claim("openai: a response that is cut", async () => {
	const r = await client.responses.create({ ...scripted, input: "Say hello.", max_output_tokens: 2 });
	assert.equal(r.status, "incomplete");
	assert.equal(r.incomplete_details.reason, "max_output_tokens");
});

// ---- all ----

await claim("openai: models", async () => {
	const names = (await collect(client.models.list())).map((m) => m.id);
	assert.deepEqual(names.sort(), ["fable-moe-15m", "scripted"]);
	assert.equal((await client.models.retrieve("scripted")).object, "model");
});

await claim("openai: refusals are of its classes", async () => {
	for (const f of [
		(model, rest) => client.chat.completions.create({ model, messages: ask("x"), ...rest }),
		(model, rest) => client.responses.create({ model, input: "x", ...rest }),
		(model, rest) => client.responses.create({ model, input: "x", stream: true, ...rest }),
	]) {
		const unknown = await refusal(() => f("other", {}));
		assert.ok(unknown instanceof OpenAI.NotFoundError, String(unknown));
		assert.equal(unknown.code, "model_not_found");
		const bad = await refusal(() => f("scripted", { temperature: 7 }));
		assert.ok(bad instanceof OpenAI.BadRequestError, String(bad));
		assert.equal(bad.param, "temperature");
	}
});

await claim("openai: given up", async () => {
	for (const begin of [
		() => client.chat.completions.create({
			...trained, stream: true, messages: ask("Count."), response_format: { type: "json_schema", json_schema: endless },
		}),
		() => client.responses.create({
			...trained, stream: true, input: "Count.", text: { format: { type: "json_schema", ...endless } },
		}),
	]) {
		const stream = await begin();
		for await (const _ of stream) break; // which gives it up
		await idle("fable-moe-15m");
	}
	const control = new AbortController();
	const asked = client.responses.create({
		...trained, input: "Count.", text: { format: { type: "json_schema", ...endless } },
	}, { signal: control.signal });
	setTimeout(() => control.abort(), 100);
	assert.ok((await refusal(() => asked)) instanceof OpenAI.APIUserAbortError);
	await idle("fable-moe-15m");
});

over();
