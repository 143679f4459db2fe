// The first screen: what this is, the models, and questions to begin with.
import * as tree from "./tree.js";
import { $, number } from "./frame.js";
import { element } from "./talk.js";
import { speed } from "./answer.js";

const general = ["Explain in three sentences how a mixture of experts works.", "Write a shell command that lists the ten largest files here.", "What should I ask you to see what you can do?"];

// A page may be looked at from another machine.
const here = /^(localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname);
const name = here ? "Ask a model that runs on this machine" : `Ask a model that runs on ${location.hostname}`;
const promise = here ? "Nothing that you write leaves the machine." : "What you write goes to this machine and no other.";

const count = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(1)} billion` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} million` : number(n));

async function facts(model) {
	const names = ["parameters", "context", "state", "progress"];
	const [parameters, context, state, progress] = await Promise.all(names.map((n) => tree.value(`${model}/info/${n}`).catch(() => "")));
	const now = progress && progress !== "idle" ? progress : { ready: "in memory", unloaded: "is loaded by the first question" }[state] ?? state;
	const measured = speed(model);
	return element(
		"tr",
		{},
		element("th", { scope: "row" }, element("a", { href: "#" + encodeURIComponent(model) }, model)),
		element("td", {}, `${count(+parameters)} weights`),
		element("td", {}, `${number(context)} tokens of context`),
		element("td", {}, now),
		element("td", {}, measured ? `${measured} tokens/s` : ""),
	);
}

const help = element("details", { id: "help" }, element("summary", {}, "What the files of this mount are"));
help.addEventListener("toggle", async () => help.children.length > 1 || help.append(element("pre", {}, await tree.read("README").catch((e) => e.message))));

// Whether conversations outlive the mount, and how to make them.
async function tellKept() {
	const folder = await tree.value("kept").catch(() => "off"), option = element("code", {}, "-o sessions=DIR");
	$("kept").replaceChildren(...(folder === "off" ? ["They end with the mount. To keep them, mount with ", option, "."] : ["They are kept in ", element("code", {}, folder), "."]));
}
tellKept();

// Draws the screen into its place; ask(text) begins a conversation.
export async function show(models, model, ask) {
	const rows = await Promise.all(models.map(facts));
	const own = model ? (await tree.read(model + "/info/examples").catch(() => "")).split("\n").filter(Boolean) : [];
	const questions = own.length ? own.slice(0, 3) : general;
	const buttons = questions.map((q) => element("button", { type: "button", dir: "auto", onclick: () => ask(q) }, q));
	$("home").replaceChildren(
		element("h1", {}, name),
		element("p", {}, `${promise} Each conversation is a folder of files that a shell can read, too.`),
		element("table", {}, element("tbody", {}, ...rows)),
		element("div", { class: "questions", "aria-label": "Questions to begin with" }, ...(model ? buttons : [])),
		help,
	);
}
