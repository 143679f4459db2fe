// The list of a model's conversations. They are sessions of the tree: renaming one is mv, removing one is rmdir.
import * as tree from "./tree.js";
import { $, complain, doing } from "./frame.js";
import { element, parts, words } from "./talk.js";
import { copy } from "./tree_view.js";
import * as branches from "./branches.js";

const UNDO = 10000; // ms in which a removal can be taken back
const STATE = 256 << 20; // bytes of a state that a browser saves
const READ = 200, AGAIN = 10; // conversations whose titles are read; of those without one, how many are looked at again

let model = "", name = "", go = () => {};
let all = [], found = null; // names; those that have what is searched for
const titles = new Map(), leaving = new Map(); // by path: the first question; the timer of a removal
const path = (s) => `${model}/sessions/${s}`;

export const names = () => all;
export const titleOf = (s) => titles.get(path(s)) ?? "";
export const address = (m, s) => "#" + [m, s].map(encodeURIComponent).join("/");

// From now on those of this model; go(name) shows another, "" the first screen.
export function of(m, s, show) {
	if (m !== model) [all, found, $("search").value] = [[], null, ""];
	[model, name, go] = [m, s, show];
	draw();
}

export function title(s, text) {
	const line = parts(text ?? "").text.trim().split("\n")[0].slice(0, 80);
	if (titles.get(path(s)) === line) return;
	titles.set(path(s), line);
	draw();
}

// ---- one line ----

async function messages(s) {
	return JSON.parse(await tree.read(path(s) + "/messages.json"));
}

function save(file, type, text) {
	const url = URL.createObjectURL(new Blob([text], { type }));
	const a = element("a", { href: url, download: file });
	a.click();
	setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// All of a session, with what was computed of it: a browser holds a file in memory before it saves it.
async function saveState(s) {
	const { size } = (await tree.list(path(s))).find((f) => f.name === "state");
	if (size > STATE) throw new Error(`The state has ${Math.round(size / 1e6)} MB, which is too much for a browser. In a shell: cp ${path(s)}/state ${s}.state`);
	save(s + ".state", "application/octet-stream", await tree.bytes(path(s) + "/state"));
}

const spoken = { user: "You", assistant: "Model", system: "System", tool: "Tool" };
const acts = {
	async Rename(s) {
		const to = prompt("The conversation's name, which is its folder's, too:", s)?.trim();
		if (!to || to === s) return;
		await tree.move(path(s), to);
		titles.set(path(to), titles.get(path(s)));
		await list();
		if (s === name) go(to);
	},
	async "Save as Markdown"(s) {
		save(s + ".md", "text/markdown", (await messages(s)).map((m) => `## ${spoken[m.role] ?? m.role}\n\n${words(m.content)}\n`).join("\n"));
	},
	"Save as JSON": async (s) => save(s + ".json", "application/json", JSON.stringify(await messages(s), null, 1)),
	"Save its state": (s) => saveState(s),
	"Copy its path": (s) => copy(path(s)),
	Remove: (s) => remove(s),
};

// A conversation leaves the list at once, and the tree when nothing took it back: a page that is closed before removes nothing.
function remove(s) {
	const at = path(s), box = element("p", { role: "status" }, `Removed: ${titleOf(s) || s} `);
	const done = () => (clearTimeout(leaving.get(at)), leaving.delete(at), box.remove(), draw());
	const gone = async () => {
		done();
		await tree.remove(at);
		titles.delete(at);
		await list();
	};
	leaving.set(at, setTimeout(() => gone().catch(complain), UNDO));
	box.append(element("button", { type: "button", onclick: done }, "Undo"));
	$("undo").append(box);
	draw();
	if (s === name) go("");
}

function line(s) {
	const current = branches.root(s) === branches.root(name), versions = branches.group(all, s).length;
	const shown = current && all.includes(name) ? name : s;
	const open = element(
		"a",
		{ href: address(model, shown), "aria-current": current ? "page" : undefined, "data-session": shown },
		element("span", { dir: "auto" }, titleOf(shown) || "Empty"),
		element("small", {}, versions > 1 ? `${shown}, ${versions} versions` : shown),
	);
	if (s === "default") return element("li", {}, open);
	const buttons = Object.entries(acts).map(([act, run]) => element("button", { type: "button", onclick: doing(() => run(shown)) }, act));
	const menu = element("details", { class: "menu" }, element("summary", { title: `What can be done with ${s}`, "aria-label": `What can be done with ${s}` }, "⋯"), element("div", {}, ...buttons));
	return element("li", {}, open, menu);
}

// The session that every model has is shown once it has been used.
const isListed = (s) =>
	!leaving.has(path(s)) && (!found || found.has(s)) && (s !== "default" || s === name || !!titleOf(s)) && branches.group(all, s)[0] === s;

function draw() {
	const focus = document.activeElement?.dataset?.session;
	if ($("sessions").querySelector(".menu[open]")) return; // it would close under the pointer
	$("sessions").replaceChildren(...all.filter(isListed).map(line));
	if (focus) [...$("sessions").querySelectorAll("a")].find((a) => a.dataset.session === focus)?.focus();
}
addEventListener("click", (e) => {
	for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(e.target) || e.target.closest("button")) menu.open = false;
});

// ---- the list ----

// Reads the folder anew. Sessions of the protocols' requests come and go by themselves.
export async function list() {
	const m = model, files = (await tree.list(m + "/sessions")).map((s) => s.name).filter((s) => !s.startsWith("http-"));
	if (m !== model) return;
	const number = (s) => +(/^chat-(\d+)(\.|$)/.exec(s)?.[1] ?? 0);
	files.sort((a, b) => (a === "default") - (b === "default") || number(b) - number(a) || (a < b ? -1 : 1));
	const news = files.filter((s) => !titles.has(path(s))).slice(0, READ);
	// A shell may ask the first question long after it has made the session.
	const silent = files.filter((s) => titles.get(path(s)) === "").slice(0, AGAIN);
	if (files.join("/") !== all.join("/")) {
		all = files;
		draw();
	}
	for (const s of [...news, ...silent]) title(s, words((await messages(s).catch(() => [])).find((x) => x.role === "user")?.content));
}

// Those in which all of the text is, in any message.
async function search() {
	const text = $("search").value.trim().toLowerCase(), m = model;
	if (!text) return void ([found] = [null], draw());
	const has = async (s) => [s, (await messages(s).catch(() => [])).some((x) => words(x.content).toLowerCase().includes(text))];
	const result = await Promise.all(all.map(has));
	if (m !== model || $("search").value.trim().toLowerCase() !== text) return;
	found = new Set(result.filter(([s, is]) => is || s.toLowerCase().includes(text)).map(([s]) => s));
	for (const s of [...found]) for (const other of branches.group(all, s)) found.add(other);
	draw();
}
let pause = 0;
$("search").addEventListener("input", () => (clearTimeout(pause), (pause = setTimeout(() => search().catch(complain), 200))));

// A new, empty one; its name. null: another model is shown meanwhile.
export async function make() {
	const m = model;
	for (let n = 1; ; n++) {
		const made = `chat-${n}`;
		if (all.some((s) => branches.root(s) === made)) continue;
		try {
			await tree.make(path(made));
		} catch (e) {
			if (e.status === 400 && n < 1000) continue; // another page has made it meanwhile
			throw e;
		}
		if (m === model) return made;
		await tree.remove(`${m}/sessions/${made}`);
		return null;
	}
}

// A file that "Save as JSON" or "Save its state" wrote, as a new conversation; its name.
export async function load(file) {
	const isState = (await file.slice(0, 6).text()) === "moefs\n", made = await make();
	try {
		await tree.write(`${path(made)}/${isState ? "state" : "messages.json"}`, file);
	} catch (e) {
		await tree.remove(path(made));
		throw e;
	}
	return made;
}
