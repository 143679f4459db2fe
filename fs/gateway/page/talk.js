// Messages as elements. Whatever a model or a person wrote becomes text nodes and nothing else.

export function element(name, attributes = {}, ...children) {
	const e = document.createElement(name);
	for (const [k, v] of Object.entries(attributes))
		if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
		else if (v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
	e.append(...children);
	return e;
}

export function copyButton(text) {
	const button = element("button", { type: "button", class: "quiet" }, "Copy");
	button.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(text());
			button.textContent = "Copied";
		} catch {
			button.textContent = "Not allowed";
		}
		setTimeout(() => (button.textContent = "Copy"), 1500);
	});
	return button;
}

// Text with its fenced code set apart.
export function fill(box, text) {
	const parts = [];
	let rest = text;
	for (let m; (m = /^```([^\n`]*)\n([\s\S]*?)(?:\n?^```[ \t]*$\n?|(?![\s\S]))/m.exec(rest)); ) {
		if (m.index) parts.push(element("div", { class: "text" }, rest.slice(0, m.index).trimEnd()));
		const code = m[2];
		const head = element("div", { class: "fence" }, m[1] || "text", copyButton(() => code));
		parts.push(element("div", { class: "block" }, head, element("pre", { tabindex: 0 }, code)));
		rest = rest.slice(m.index + m[0].length);
	}
	if (rest) parts.push(element("div", { class: "text" }, rest));
	box.replaceChildren(...parts);
}

const names = { user: "You", assistant: "Model", system: "System", tool: "Tool" };
const words = (content) =>
	typeof content === "string"
		? content
		: Array.isArray(content)
			? content.map((c) => c.text ?? JSON.stringify(c)).join("")
			: "";

function thoughts(text, open) {
	const box = element("div", { class: "text" }, text);
	return element("details", { class: "thoughts", open }, element("summary", {}, "Thoughts"), box);
}

function calls(list) {
	return list.map((call) => {
		const f = call.function ?? call;
		const args = typeof f.arguments === "string" ? f.arguments : JSON.stringify(f.arguments, null, 1);
		return element("details", { class: "call" }, element("summary", {}, `Calls ${f.name}`), element("pre", {}, args));
	});
}

// One message; does: { edit(), retry(), go() }, those that there are.
export function message(m, does = {}) {
	const text = words(m.content);
	const body = element("div", { class: "body" });
	fill(body, text);
	const button = (name, run) =>
		run ? [element("button", { type: "button", class: "quiet", onclick: run }, name)] : [];
	const tools = element(
		"div",
		{ class: "tools" },
		...(text ? [copyButton(() => text)] : []),
		...button("Edit", does.edit),
		...button("Again", does.retry),
		...button("Continue", does.go),
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

// An answer that comes: think(text) and say(text) add to it, redrawn at most once a frame.
export function coming() {
	let thought = "", said = "", asked = false, folded = null;
	const body = element("div", { class: "body" }), at = element("li", { class: "message assistant coming" });
	at.append(element("span", { class: "who" }, names.assistant), body);
	fill(body, said);
	const redraw = (done) => {
		if (asked) return;
		asked = true;
		requestAnimationFrame(() => {
			asked = false;
			if (thought && !folded) at.insertBefore((folded = thoughts("", false)), body);
			if (folded) folded.lastChild.textContent = thought;
			fill(body, said);
			done?.();
		});
	};
	return {
		at,
		think: (text, done) => ((thought += text), redraw(done)),
		say: (text, done) => ((said += text), redraw(done)),
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
