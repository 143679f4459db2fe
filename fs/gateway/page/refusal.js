// Why a question was refused, in the page's words, and what can be done about it.
import * as tree from "./tree.js";
import { $, complain, number } from "./frame.js";
import { element } from "./talk.js";

const words = {
	prompt_too_long: ({ tokens, maximum, bytes, maximum_bytes }) =>
		tokens ? `With this question the conversation would have ${number(tokens)} tokens; this model's context has ${number(maximum)}. Shorten it by about ${number(tokens - maximum)} tokens, or:`
			: `This question is too long: ${number(bytes)} bytes of at most ${number(maximum_bytes)}. Shorten it, or:`,
	context_memory: () => "There is no memory for this conversation now. Try again when other conversations have ended, or:",
	busy: () => "The model is still answering here.",
	no_memory: () => "The machine has no memory left.",
	no_space: () => "The disk has no space left.",
};
const long = new Set(["prompt_too_long", "context_memory"]);

// The last failure of a session: { code, message, numbers }, or null.
async function reason(session) {
	const said = await tree.read(session + "/error.json").then(JSON.parse, () => ({}));
	const why = said.code ? said : (said.refused ?? said);
	return why.code ? why : null;
}

// Says why, below the messages. again(text) asks once more what stands in the box.
export async function explain(session, failure, again) {
	const why = await reason(session);
	if (!why || !words[why.code]) return complain(failure);
	complain(words[why.code](why.numbers ?? {}));
	if (!long.has(why.code)) return;
	const act = (name, what, run) => element("button", { type: "button", title: what, onclick: () => run().then(() => again($("prompt").value), complain) }, name);
	$("error").append(
		element(
			"span",
			{ class: "actions" },
			act("Start over", "Forgets this conversation, and asks again", () => tree.write(session + "/ctl", "reset\n")),
			act("Drop the oldest turns", "Forgets as many of the oldest turns as needed, this once, and asks again", () => dropOldest(session)),
		),
	);
}

const before = new Map(); // params/on_full of sessions that drop their oldest turns this once

async function dropOldest(session) {
	before.set(session, await tree.value(session + "/params/on_full"));
	await tree.write(session + "/params/on_full", "drop-oldest\n");
}

// After a turn: a param that was changed for it is as it was.
export async function restore(session) {
	const was = before.get(session);
	if (was !== undefined && before.delete(session)) await tree.write(session + "/params/on_full", was + "\n");
}
