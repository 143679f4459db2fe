// A session's params as fields, each a file. What they are is read in the mount's README, which has a line for each:
// its name, what it does; what it may be [what it is if nobody says].
import * as tree from "./tree.js";
import { element } from "./talk.js";

const first = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "thinking", "system"];
const texts = new Set(["system", "stop", "grammar", "logit_bias", "experts_bias"]);
const choices = {
	thinking: ["default", "on", "off", "low", "medium", "high"],
	chat: ["on", "off"],
	stream: ["on", "off"],
	on_full: ["auto", "error", "drop-oldest"],
	stop_repetition: ["on", "off"],
	priority: ["low", "normal", "high"],
	format: ["text", "json", "choices", "schema", "regex"],
};
let told = null;

async function help() {
	if (told) return told;
	told = {};
	for (const line of (await tree.read("README")).split("\n")) {
		const m = /^ {4}([a-z_]+) +(.*; .* \[.*\])$/.exec(line);
		if (m) told[m[1]] = m[2];
	}
	return told;
}

function field(name, value) {
	if (texts.has(name)) return Object.assign(element("textarea", { rows: 2 }), { value });
	if (!choices[name]) return Object.assign(element("input", { type: "text", inputmode: "text" }), { value });
	const all = choices[name].includes(value) ? choices[name] : [...choices[name], value];
	const box = element("select", {}, ...all.map((c) => element("option", {}, c)));
	box.value = value;
	return box;
}

function row(folder, name, value, what) {
	const box = field(name, value), why = element("output", { class: "why" });
	let was = value;
	box.id = "param-" + name;
	box.title = what ?? "";
	box.autocomplete = "off";
	box.spellcheck = false;
	box.addEventListener("change", async () => {
		try {
			await tree.write(`${folder}/${name}`, box.value + "\n");
			was = box.value = await tree.value(`${folder}/${name}`);
			why.textContent = "";
			box.removeAttribute("aria-invalid");
		} catch (e) {
			why.textContent = e.message.replace(/^.*?params\/[a-z_]+: /, "");
			box.setAttribute("aria-invalid", "true");
			if (box.localName === "select") box.value = was;
		}
	});
	return element("div", { class: "param" + (texts.has(name) ? " wide" : "") }, element("label", { for: box.id, title: what ?? "" }, name), box, why);
}

// Fills the two forms from sessions/NAME/params; is: whether that is still the session that is shown.
export async function show(session, main, more, is) {
	const folder = session + "/params";
	const [files, what] = await Promise.all([tree.list(folder), help()]);
	const names = files.map((f) => f.name);
	const values = await Promise.all(names.map((n) => tree.value(`${folder}/${n}`)));
	if (!is()) return;
	const rows = Object.fromEntries(names.map((n, i) => [n, row(folder, n, values[i], what[n])]));
	main.replaceChildren(...first.filter((n) => rows[n]).map((n) => rows[n]));
	more.replaceChildren(...names.filter((n) => !first.includes(n)).map((n) => rows[n]));
}
