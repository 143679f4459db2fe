// Messages as elements: what a model wrote is Markdown (tree_view.js), what a person wrote stays as it was typed.
import { number } from "./frame.js";
import { codeText, copyButton, view } from "./tree_view.js";

export function element(name, attributes = {}, ...children) {
	const e = document.createElement(name);
	for (const [k, v] of Object.entries(attributes))
		if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
		else if (v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
	e.append(...children);
	return e;
}

const names = { user: "You", assistant: "Model", system: "System", tool: "Tool" };
const words = (content) =>
	typeof content === "string"
		? content
		: Array.isArray(content)
			? content.map((c) => c.text ?? JSON.stringify(c)).join("")
			: "";

function thoughts(text, open) {
	const box = element("div");
	view(box).set(text);
	return element("details", { class: "thoughts", open }, element("summary", {}, "Thoughts"), box);
}

function calls(list) {
	return list.map((call) => {
		const f = call.function ?? call;
		const args = typeof f.arguments === "string" ? f.arguments : JSON.stringify(f.arguments, null, 1);
		return element("details", { class: "call" }, element("summary", {}, `Calls ${f.name}`), element("pre", {}, args));
	});
}

// Shows a text as it was written, or as Markdown again.
function rawButton(body, text) {
	const button = element("button", { type: "button", class: "quiet", "data-act": "Raw", "aria-pressed": "false" }, "Raw");
	button.addEventListener("click", () => {
		const raw = button.getAttribute("aria-pressed") === "false";
		button.setAttribute("aria-pressed", raw);
		body.replaceChildren();
		body.classList.toggle("markdown", !raw);
		if (raw) body.append(element("div", { class: "text", dir: "auto" }, text));
		else view(body).set(text);
	});
	return button;
}

// Shows an answer token by token, or as Markdown again; show(body) says whether there are tokens.
function tokensButton(body, text, show) {
	const button = element("button", { type: "button", class: "quiet", "data-act": "Tokens", "aria-pressed": "false", title: "How likely each token was" }, "Tokens");
	button.addEventListener("click", async () => {
		const shown = button.getAttribute("aria-pressed") === "true";
		if (!shown) return void button.setAttribute("aria-pressed", !!(await show(body)));
		button.setAttribute("aria-pressed", "false");
		body.replaceChildren();
		view(body).set(text);
	});
	return button;
}

// A question without the files that were sent with it (files.js), and these: [name, text].
export function parts(text) {
	const files = [];
	for (let m; (m = /^(`{3,})(\w{1,12}) ([^\n`]+)\n([\s\S]*?)\n\1\n\n/.exec(text)); text = text.slice(m[0].length)) files.push([m[3], m[4]]);
	return { text, files };
}

// Files are folded.
function question(all) {
	const { text, files } = parts(all);
	const folded = files.map(([name, content]) => {
		const lines = content.split("\n").length, pre = element("pre", { tabindex: 0, dir: "ltr" }, ...codeText(content));
		return element("details", { class: "file" }, element("summary", {}, `${name} (${number(lines)} ${lines === 1 ? "line" : "lines"})`), pre);
	});
	return [...folded, element("div", { class: "text", dir: "auto" }, text)];
}

// One message; does: { edit(), retry(), go(), tokens(body) }, those that there are.
export function message(m, does = {}) {
	const text = words(m.content), marked = m.role === "assistant";
	const body = element("div", { class: "body" });
	if (marked) view(body).set(text);
	else if (m.role === "user") body.append(...question(text));
	else body.append(element("div", { class: "text", dir: "auto" }, text));
	const button = (name, run) =>
		run ? [element("button", { type: "button", class: "quiet", "data-act": name, onclick: run }, name)] : [];
	const tools = element(
		"div",
		{ class: "tools" },
		...(text ? [copyButton(() => text)] : []),
		...(text && marked ? [rawButton(body, text)] : []),
		...button("Edit", does.edit),
		...button("Again", does.retry),
		...button("Continue", does.go),
		...(does.tokens ? [tokensButton(body, text, does.tokens)] : []),
	);
	return element(
		"li",
		{ class: "message " + (names[m.role] ? m.role : "other") },
		element("span", { class: "who" }, names[m.role] ?? String(m.role)),
		...(m.thinking ? [thoughts(m.thinking, false)] : []),
		body,
		...(Array.isArray(m.tool_calls) ? calls(m.tool_calls) : []),
		tools,
	);
}

// Whole sentences, for who listens to the page: what grows character by character cannot be followed.
function aloud(text) {
	const log = document.getElementById("spoken"), p = element("p", { dir: "auto" }, text.replace(/[`*_#|]+/g, " ").trim());
	if (p.textContent) log.append(p);
	while (log.children.length > 20) log.firstElementChild.remove();
	return p;
}

// An answer that comes: think(text) and say(text) add to it.
export function coming() {
	let thought = "", said = "", thoughtView = null;
	const body = element("div", { class: "body" }), at = element("li", { class: "message assistant coming" });
	let drawn = () => {};
	const saidView = view(body, () => drawn());
	at.append(element("span", { class: "who" }, names.assistant), body);
	let spoken = 0;
	const paragraphs = [];
	function speak(all) {
		const rest = said.slice(spoken), end = all ? rest.length : Math.max(rest.lastIndexOf("\n"), ...[...rest.matchAll(/[.!?…。]["')\]]*\s/g)].map((m) => m.index + m[0].length - 1)) + 1;
		if (end < 1) return;
		paragraphs.push(aloud(rest.slice(0, end)));
		spoken += end;
	}
	function foldThoughts() {
		const box = element("div");
		at.insertBefore(element("details", { class: "thoughts" }, element("summary", {}, "Thoughts"), box), body);
		return view(box, () => drawn());
	}
	return {
		at,
		think(text, done) {
			drawn = done ?? drawn;
			(thoughtView ??= foldThoughts()).set((thought += text));
		},
		say(text, done) {
			drawn = done ?? drawn;
			saidView.set((said += text));
			speak(false);
		},
		// Nothing more comes; or it comes again, from its beginning.
		end: () => speak(true),
		cancel() {
			at.remove();
			for (const p of paragraphs) p.remove();
		},
	};
}

// A message that is rewritten in its place.
export function editor(text, done, cancel) {
	const box = element("textarea", { "aria-label": "The question, to be asked again", rows: Math.min(12, text.split("\n").length + 1) });
	box.value = text;
	const form = element(
		"form",
		{ class: "editor" },
		box,
		element("div", { class: "tools" }, element("button", { class: "main" }, "Ask again"), element("button", { type: "button", class: "quiet", onclick: cancel }, "Cancel")),
	);
	form.addEventListener("submit", (e) => (e.preventDefault(), done(box.value)));
	box.addEventListener("keydown", (e) => {
		if (e.key === "Escape") (e.stopPropagation(), cancel());
		if (e.key === "Enter" && !e.shiftKey && !e.isComposing) (e.preventDefault(), done(box.value));
	});
	return { form, box };
}
export { words };
