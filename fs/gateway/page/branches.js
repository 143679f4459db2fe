// Branches of a conversation: editing a question, or asking again, keeps the old. A branch is a session NAME.2, NAME.3 …,
// made by `fork`, so it shares what both have computed. Where branches part, arrows lead from one to the next.
import * as tree from "./tree.js";
import { element, words } from "./talk.js";

export const root = (name) => name.replace(/\.\d+$/, "");
export const group = (sessions, name) => sessions.filter((s) => root(s) === root(name));

// Makes a branch of a session, and gives its name.
export async function make(model, name, sessions) {
	for (let n = 2; ; n++) {
		const made = `${root(name)}.${n}`;
		if (sessions.includes(made)) continue;
		await tree.write(`${model}/sessions/${name}/ctl`, `fork ${made}\n`);
		return made;
	}
}

const alike = (a, b) => a && b && a.role === b.role && words(a.content) === words(b.content);

// Adds arrows to the elements of `list`, this session's messages, where others of its group part from it. href(name): its address.
export async function mark(model, name, sessions, list, items, href) {
	const others = group(sessions, name).filter((s) => s !== name);
	const read = (s) => tree.read(`${model}/sessions/${s}/messages.json`).then(JSON.parse, () => []);
	const all = await Promise.all(others.map(read));
	list.forEach((message, i) => {
		const here = [name];
		all.forEach((messages, k) => {
			const parts = messages[i] && !alike(messages[i], message) && list.slice(0, i).every((m, j) => alike(m, messages[j]));
			if (parts && !here.some((s) => s !== name && alike(all[others.indexOf(s)][i], messages[i]))) here.push(others[k]);
		});
		if (here.length < 2 || !items[i]?.isConnected) return;
		here.sort((a, b) => sessions.indexOf(a) - sessions.indexOf(b));
		items[i].querySelector(".versions")?.remove();
		items[i].querySelector(".tools")?.append(arrows(here, name, href));
	});
}

function arrows(names, name, href) {
	const at = names.indexOf(name), to = (i, text, title) => names[i] ? element("a", { href: href(names[i]), title, "aria-label": title }, text) : element("span", { "aria-hidden": true }, text);
	return element("span", { class: "versions" }, to(at - 1, "‹", "The version before"), ` ${at + 1} of ${names.length} `, to(at + 1, "›", "The next version"));
}
