// Files that go with a question: dropped, chosen or pasted. They join it as named fenced blocks, once it is clear that they
// fit; and the meter, which shows how full the context is.
import * as tree from "./tree.js";
import { $, complain, doing, number } from "./frame.js";
import { element } from "./talk.js";

const PASTE = 4000; // characters from which on a pasted text is a file
const PAUSE = 400; // ms after the last key, before a question's tokens are counted

let model = "", place = "", list = []; // { name, text, tokens }, of the conversation that is shown
let context = 0, most = 0, held = 0, typed = 0; // tokens, bytes; tokens of the conversation and of what stands in the box
const key = () => `files ${place}`;
const bytesOf = (text) => new TextEncoder().encode(text).length;
const size = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : n >= 1e3 ? `${(n / 1e3).toFixed(1)} KB` : `${n} bytes`);

// ---- what is attached ----

// What a file says, or why it cannot be read: a sentence.
async function readText(file) {
	const bytes = new Uint8Array(await file.arrayBuffer()), begins = (...b) => b.every((x, i) => bytes[i] === x);
	if (!bytes.length) throw new Error(`${file.name} is empty.`);
	if (begins(0x25, 0x50, 0x44, 0x46)) throw new Error(`${file.name} is a PDF, which models cannot read. Make text of it first: pdftotext "${file.name}"`);
	const form = begins(0xff, 0xfe) ? "utf-16le" : begins(0xfe, 0xff) ? "utf-16be" : "utf-8";
	try {
		const text = new TextDecoder(form, { fatal: true }).decode(bytes);
		if (!text.includes("\0")) return text.replace(/\r\n?/g, "\n");
	} catch {
		// no text
	}
	throw new Error(`${file.name} is not a text file. The model reads text, not pictures, sound or programs.`);
}

async function count(text) {
	const reply = await tree.post("/tokenize", { model, prompt: text });
	return reply.count;
}

async function add(files) {
	const refused = [];
	for (const file of files)
		try {
			if (file.size > most) throw new Error(`${file.name} has ${size(file.size)}; this model takes at most ${size(most)}: ${size(file.size - most)} too many.`);
			await attach(file.name, await readText(file));
		} catch (e) {
			refused.push(e.message);
		}
	if (refused.length) complain(refused.join(" "));
}

async function attach(name, text) {
	const file = { name: name.replace(/[\0-\x1f`]/g, "_").slice(0, 100), text, tokens: null };
	list.push(file);
	draw();
	await measure(file);
}

async function measure(file) {
	const at = place, text = block(file);
	file.tokens = await count(text).catch(() => Math.ceil(text.length / 4));
	if (at === place) draw();
}

function remove(file) {
	list = list.filter((f) => f !== file);
	draw();
	$("prompt").focus();
}

function chip(file) {
	const facts = `${size(bytesOf(file.text))}, ${file.tokens === null ? "counting its tokens …" : `${number(file.tokens)} tokens`}`;
	const drop = element("button", { type: "button", class: "quiet", title: "Leave it out", "aria-label": `Leave out ${file.name}`, onclick: () => remove(file) }, "×");
	return element("li", {}, element("span", { dir: "auto" }, file.name), element("small", {}, facts), drop);
}

function keep() {
	try {
		if (list.length) sessionStorage.setItem(key(), JSON.stringify(list));
		else sessionStorage.removeItem(key());
	} catch {
		// more than the browser keeps: they are gone after a reload
	}
}

// ---- the meter ----

const pending = () => typed + list.reduce((sum, f) => sum + (f.tokens ?? 0), 0);
// By how many tokens the question is too large; 0: it fits.
const over = () => (context ? Math.max(0, held + pending() - context) : 0);

function draw() {
	keep();
	$("files").replaceChildren(...list.map(chip));
	$("files").hidden = !list.length;
	meter();
}

function meter() {
	const all = Math.min(held + pending(), context), left = context - held - pending();
	$("room").hidden = !context || !place.includes("/sessions/");
	Object.assign($("context"), { max: context || 1, value: all, low: 0.7 * context, high: 0.9 * context, optimum: 0 });
	const words = over() ? `${number(over())} tokens too many: with this question the conversation would have ${number(held + pending())} of ${number(context)}`
		: pending() ? `${number(pending())} tokens in this question, room for ${number(left)} more` : `${number(held)} of ${number(context)} tokens`;
	$("room-words").textContent = words;
	$("room").classList.toggle("over", over() > 0);
}

// How much of the context the conversation has, as stats.json says.
export function used(stats) {
	held = stats.context_tokens ?? 0;
	meter();
}

let pause = 0;
export function typing() {
	clearTimeout(pause);
	const text = $("prompt").value, at = place;
	if (text.length < 40 && !list.length) return void ((typed = 0), meter());
	pause = setTimeout(async () => {
		const n = bytesOf(text) > most ? Math.ceil(text.length / 4) : await count(text).catch(() => 0);
		if (at === place && text === $("prompt").value) (typed = text ? n : 0), meter();
	}, PAUSE);
}
$("prompt").addEventListener("input", typing);

// ---- the question ----

// A fence that is longer than any in the text.
function block({ name, text }) {
	const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map((m) => m[0].length)), fence = "`".repeat(longest + 1);
	return `${fence}${/\.(\w{1,12})$/.exec(name)?.[1] ?? "text"} ${name}\n${text.replace(/\n$/, "")}\n${fence}\n\n`;
}

// The whole question; null: it is too large, and that is said.
export function compose(text) {
	if (list.length && over() > 0) return void complain(`This question is too large by ${number(over())} tokens. Leave out a file, or shorten it.`), null;
	return list.map(block).join("") + text;
}

// What is attached, to be put back if the question is refused.
export function take() {
	const taken = list;
	[list, typed] = [[], 0];
	draw();
	return taken;
}
export function putBack(taken) {
	if (!list.length) list = taken;
	draw();
	typing();
}

export async function show(m, session) {
	[model, place, typed, held] = [m, session, 0, 0];
	list = JSON.parse(sessionStorage.getItem(key()) ?? "[]");
	draw();
	const [c, b] = await Promise.all([tree.value(m + "/info/context"), tree.value(m + "/info/max_prompt_bytes")]);
	if (session !== place) return;
	[context, most] = [+c, +b];
	meter();
	typing();
	await Promise.all(list.filter((f) => f.tokens === null).map(measure));
}

// ---- ways in ----

$("attach").addEventListener("click", () => $("attach-files").click());
$("attach-files").addEventListener("change", doing(async () => {
	const files = [...$("attach-files").files];
	$("attach-files").value = "";
	await add(files);
}));
const brings = (e) => e.dataTransfer?.types.includes("Files");
addEventListener("dragover", (e) => brings(e) && (e.preventDefault(), document.body.classList.add("dropping")));
addEventListener("dragleave", (e) => e.relatedTarget || document.body.classList.remove("dropping"));
addEventListener("drop", doing(async (e) => {
	document.body.classList.remove("dropping");
	if (!brings(e)) return;
	e.preventDefault();
	await add([...e.dataTransfer.files]);
}));
$("prompt").addEventListener("paste", doing(async (e) => {
	const files = [...(e.clipboardData?.files ?? [])], text = e.clipboardData?.getData("text/plain") ?? "";
	if (!files.length && text.length < PASTE) return;
	e.preventDefault();
	if (files.length) return add(files);
	if (bytesOf(text) > most) throw new Error(`The pasted text has ${size(bytesOf(text))}; this model takes at most ${size(most)}.`);
	await attach(list.some((f) => f.name === "pasted.txt") ? `pasted-${list.length + 1}.txt` : "pasted.txt", text);
}));
