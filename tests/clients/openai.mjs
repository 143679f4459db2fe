// The official package for OpenAI's interface: node openai.mjs URL MOUNT
import OpenAI from "openai";
import { assert, claim, collect, idle, key, narrow, over, refusal, take_away, url } from "./claims.mjs";

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

await claim("openai: a text goes on behind its prompt, with the likelihoods of both", async () => {
	const c = await client.completions.create({
		...trained, prompt: "The capital of France is", max_tokens: 2, echo: true, logprobs: 2,
	});
	const [{ text, logprobs }] = c.choices;
	assert.ok(text.startsWith("The capital of France is"));
	assert.equal(logprobs.tokens.join(""), text);
	assert.equal(logprobs.token_logprobs.length, logprobs.tokens.length);
	assert.equal(logprobs.token_logprobs[0], null);
	assert.deepEqual(logprobs.text_offset[0], 0);
	const refused = await refusal(() => client.completions.create({ ...trained, prompt: "a", suffix: "b" }));
	assert.ok(refused instanceof OpenAI.BadRequestError && refused.param === "suffix", String(refused));
});

await claim("openai: parallel calls of a chat, whole and as deltas", async () => {
	const tool = { type: "function", function: { name: "add", parameters } };
	const asked = { ...scripted, messages: ask("Two sums, please."), tools: [tool] };
	const whole = (await client.chat.completions.create(asked)).choices[0].message.tool_calls;
	const stream = client.chat.completions.stream(asked);
	const put = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
	for (const calls of [whole, put]) {
		assert.deepEqual(calls.map((c) => JSON.parse(c.function.arguments)), [{ a: 12, b: 30 }, { a: 12, b: 30 }]);
		assert.equal(new Set(calls.map((c) => c.id)).size, 2);
	}
	const one = await client.chat.completions.create({ ...asked, parallel_tool_calls: false });
	assert.equal(one.choices[0].message.tool_calls.length, 1);
});

await claim("openai: reasoning of a chat, stop, and a call that must be", async () => {
	const c = await client.chat.completions.create({
		...scripted, messages: ask("Is seven a prime number?"), reasoning_effort: "low",
	});
	assert.equal(c.choices[0].message.reasoning_content, "Two does not divide it.");
	const cut = await client.chat.completions.create({ ...scripted, messages: ask("Stop at the hash."), stop: ["#"] });
	assert.equal(cut.choices[0].message.content, "One ");
	const tool = { type: "function", function: { name: "add", parameters } };
	const must = await client.chat.completions.create({
		...scripted, messages: ask("Add twelve and thirty."), tools: [tool], tool_choice: { type: "function", function: { name: "add" } },
	});
	assert.deepEqual(JSON.parse(must.choices[0].message.tool_calls[0].function.arguments), { a: 12, b: 30 });
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
	const text = events.filter((e) => e.type.endsWith(".delta"));
	assert.deepEqual(events.map((e) => e.type).filter((type, i, all) => type !== all[i - 1]), [
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done",
		"response.completed",
	]);
	assert.equal(text.map((e) => e.delta).join(""), "Hello to you.");
});

await claim("openai: a stream of thoughts, words and calls is in its order", async () => {
	const tools = [{ type: "function", name: "add", parameters, strict: true }];
	const kinds = async (asked) => {
		const events = await collect(await client.responses.create({ ...scripted, ...asked, stream: true }));
		return events.map((e) => e.type.replace("response.", "")).filter((type, i, all) => type !== all[i - 1]).slice(2);
	};
	assert.deepEqual(await kinds({ input: "Is seven a prime number?", reasoning: { effort: "low" } }), [
		"output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done",
		"output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
		"completed",
	]);
	const call = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"];
	assert.deepEqual(await kinds({ input: "Two sums, please.", tools }), [
		"output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
		...call, ...call, "completed",
	]);
});

await claim("openai: custom and namespaced tools, called, answered, and gone on from", async () => {
	const patch = { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "start: LINE+" } };
	const crm = { type: "namespace", name: "crm", description: "Customers.", tools: [
		{ type: "function", name: "find", parameters: { type: "object", properties: { name: { type: "string" } } } },
	] };
	for (const [input, tool, result, answer, is] of [
		["Patch it.", patch, "Done!", "Patched.", { type: "custom_tool_call", name: "apply_patch", input: "*** Begin" }],
		["Look it up.", crm, "Ann is here.", "She is here.",
			{ type: "function_call", namespace: "crm", name: "find", arguments: '{"name":"Ann"}' }],
	]) {
		const r = await client.responses.stream({ ...scripted, input, tools: [tool] }).finalResponse();
		const call = r.output.at(-1);
		for (const [name, value] of Object.entries(is)) assert.equal(call[name], value);
		const output = { type: `${call.type}_output`, call_id: call.call_id, output: result };
		const next = await client.responses.create({ ...scripted, tools: [tool], input: [output], previous_response_id: r.id });
		assert.equal(next.output_text, answer);
	}
});

await claim("openai: what a service would run is not on offer, and a request's tokens are counted", async () => {
	const tools = [{ type: "web_search" }, { type: "function", name: "add", parameters, strict: true }];
	const r = await client.responses.create({ ...scripted, input: "Add twelve and thirty.", tools });
	assert.deepEqual(r.tools.map((t) => t.name), ["add"]);
	const alone = await refusal(() => client.responses.create({ ...scripted, input: "x", tools: [tools[0]] }));
	assert.ok(alone instanceof OpenAI.BadRequestError && alone.param === "tools", String(alone));
	const { input_tokens } = await client.responses.inputTokens.count({ ...scripted, input: "Add twelve and thirty.", tools });
	assert.equal(input_tokens, r.usage.input_tokens);
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

await claim("openai: a context that is too short, a body that is too large, a key that is wrong", async () => {
	const long = "word ".repeat(6000);
	for (const f of [
		() => client.chat.completions.create({ ...trained, messages: ask(long) }),
		() => client.chat.completions.create({ ...trained, stream: true, messages: ask(long) }),
		() => client.responses.create({ ...trained, input: long }),
		() => client.responses.create({ ...trained, stream: true, input: long }),
		() => client.completions.create({ ...trained, prompt: long }),
	]) {
		const error = await refusal(f);
		assert.ok(error instanceof OpenAI.BadRequestError, String(error));
		assert.equal(error.code, "context_length_exceeded");
		assert.match(error.message, /4096/); // and by how much, in tokens
	}
	const strict = new OpenAI({ baseURL: `${narrow}/v1`, apiKey: key, maxRetries: 0 });
	const large = await refusal(() => strict.chat.completions.create({ ...trained, messages: ask("word ".repeat(20000)) }));
	assert.equal(large.status, 413, String(large));
	const wrong = new OpenAI({ baseURL: `${narrow}/v1`, apiKey: "not-it", maxRetries: 0 });
	const refused = await refusal(() => wrong.models.list());
	assert.ok(refused instanceof OpenAI.AuthenticationError, String(refused));
	assert.equal(refused.code, "invalid_api_key");
});

await claim("openai: where no more can be answered it is a RateLimitError, with when to come again", async () => {
	const strict = new OpenAI({ baseURL: `${narrow}/v1`, apiKey: key, maxRetries: 0 });
	const first = await strict.responses.create({
		...trained, stream: true, input: "Count.", text: { format: { type: "json_schema", ...endless } },
	});
	for await (const _ of first) {
		for (const f of [
			() => strict.chat.completions.create({ ...scripted, messages: ask("x") }),
			() => strict.responses.create({ ...scripted, stream: true, input: "x" }),
		]) {
			const busy = await refusal(f);
			assert.ok(busy instanceof OpenAI.RateLimitError, String(busy));
			assert.ok(Number(busy.headers.get("retry-after")) > 0);
		}
		break;
	}
	await idle("fable-moe-15m");
});

await claim("openai: a failure within a stream is an error, of a chat and of a response", async () => {
	const chat = await client.chat.completions.create({
		...trained, stream: true, messages: ask("Count."), response_format: { type: "json_schema", json_schema: endless },
	});
	const failed = await refusal(async () => {
		for await (const chunk of chat) if (chunk.choices[0]?.delta.content) take_away("fable-moe-15m");
	});
	assert.ok(failed instanceof OpenAI.APIError, String(failed));
	const response = await client.responses.create({
		...trained, stream: true, input: "Count.", text: { format: { type: "json_schema", ...endless } },
	});
	let last;
	for await (last of response) if (last.type === "response.output_text.delta") take_away("fable-moe-15m");
	assert.equal(last.type, "response.failed");
	assert.equal(last.response.status, "failed");
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
