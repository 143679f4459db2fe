// A session's params as fields, each a file of the session's. What they are is info/params.json: label, help, type, choices,
// bounds and the model's default. What differs from it is marked and can go back.
import * as tree from "./tree.js";
import { $, doing } from "./frame.js";
import { element } from "./talk.js";

let folder = "", rows = new Map(); // of the session that is shown; by name: what info/params.json says, and its elements

function field(p, id) {
	const common = { id, "aria-describedby": id + "-help", autocomplete: "off", spellcheck: "false" };
	if (p.type === "lines") return element("textarea", { ...common, rows: 2 });
	if (p.type === "choice") return element("select", common, ...p.choices.map((c) => element("option", {}, c)));
	const words = p.choices.length ? { list: id + "-words" } : {};
	return element("input", { ...common, ...words, type: "text", inputmode: p.type === "number" && p.least >= 0 ? "decimal" : p.type === "integer" && !p.choices.length ? "numeric" : "text" });
}

function row(p) {
	const id = "param-" + p.name, box = field(p, id);
	const says = p.default === "" ? "empty" : p.default.split("\n")[0];
	const back = element("button", { type: "button", class: "quiet back", title: `Back to the model's own: ${says}`, "aria-label": `${p.label}: back to the model's own, ${says}`, hidden: true }, "↺");
	const why = element("output", { class: "why", for: id });
	const help = element("small", { id: id + "-help", class: "help" }, `${p.help[0].toUpperCase()}${p.help.slice(1)}. Takes ${p.takes}.`);
	const all = { ...p, box, back, why, was: "" };
	box.addEventListener("change", () => write(all, box.value));
	back.addEventListener("click", () => write(all, null).then(() => box.focus()));
	const words = p.choices.length && p.type !== "choice" ? [element("datalist", { id: id + "-words" }, ...p.choices.map((c) => element("option", { value: c })))] : [];
	const label = element("label", { for: id }, p.label, element("code", {}, p.name));
	all.at = element("div", { class: "param" + (p.type === "lines" ? " wide" : "") }, label, box, back, why, help, ...words);
	return all;
}

// Shows what the file has, and whether that is the model's own.
function set(p, value) {
	p.was = value;
	if (p.type === "choice" && !p.choices.includes(value)) p.box.append(element("option", {}, value));
	p.box.value = value;
	p.back.hidden = value === p.default;
	p.at.classList.toggle("changed", value !== p.default);
}

// null: the model's own.
async function write(p, value) {
	const at = `${folder}/${p.name}`;
	try {
		await tree.write(at, value === null ? (p.type === "lines" ? p.default : "auto") + "\n" : value + "\n");
		set(p, await tree.value(at));
		p.why.textContent = "";
		p.box.removeAttribute("aria-invalid");
	} catch (e) {
		p.why.textContent = e.message.replace(/^.*?params\/[a-z_]+: /, "");
		p.box.setAttribute("aria-invalid", "true");
		if (p.type === "choice") p.box.value = p.was;
	}
	count();
}

function count() {
	const n = [...rows.values()].filter((p) => !p.back.hidden).length;
	$("params-changed").textContent = n ? `${n} changed` : "";
	for (const b of $("presets").children) b.setAttribute("aria-pressed", Object.entries(preset(b.dataset.preset)).every(([k, v]) => +rows.get(k)?.was === +(v ?? rows.get(k)?.default)));
}

// ---- presets ----

const thinks = () => /on|low|medium|high/.test(rows.get("thinking")?.was) || !!document.querySelector("#messages .thoughts");

// Values by name; null: the model's own. Balanced is what the model's makers chose. A model that thinks repeats itself at 0.
function preset(name) {
	const own = +(rows.get("temperature")?.default ?? 0), round = (x) => +x.toFixed(2);
	if (name === "precise") return { temperature: own ? round(own / 2) : thinks() ? 0.3 : 0, min_p: null };
	if (name === "creative") return { temperature: round(1.5 * (own || 0.7)), min_p: 0.05 };
	return { temperature: null, min_p: null };
}

const presets = { balanced: "As the model's makers chose", precise: "Half the temperature: likelier words", creative: "1.5 times the temperature, without very unlikely words" };
for (const [name, what] of Object.entries(presets)) {
	const choose = async () => {
		for (const [k, v] of Object.entries(preset(name))) if (rows.has(k)) await write(rows.get(k), v === null ? null : String(v));
	};
	$("presets").append(element("button", { type: "button", title: what, "data-preset": name, "aria-pressed": "false", onclick: doing(choose) }, name));
}

// Fills the panel from a session of a model's; is: whether that is still the session that is shown.
export async function show(model, session, is) {
	const list = JSON.parse(await tree.read(model + "/info/params.json"));
	const values = await Promise.all(list.map((p) => tree.value(`${session}/params/${p.name}`)));
	if (!is()) return;
	folder = session + "/params";
	rows = new Map(list.map((p) => [p.name, row(p)]));
	list.forEach((p, i) => set(rows.get(p.name), values[i]));
	const those = (common) => [...rows.values()].filter((p) => p.common === common).map((p) => p.at);
	$("params").replaceChildren(...those(true));
	$("more").replaceChildren(...those(false));
	$("params-fold").hidden = false;
	count();
}

// One of them was written by another part of the page.
export async function reread(name) {
	if (rows.has(name)) set(rows.get(name), await tree.value(`${folder}/${name}`));
	count();
}

export function clear() {
	rows = new Map();
	$("params-fold").hidden = true;
}
for (const form of [$("params"), $("more")]) form.addEventListener("submit", (e) => e.preventDefault());
