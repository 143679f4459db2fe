// The page: which model and conversation are shown, and what is done with them. Conversations are sessions of
// the tree, so what a shell does to them appears here, and the other way round.
import * as tree from "./tree.js";
import * as experts from "./experts.js";
import * as params from "./params.js";
import * as branches from "./branches.js";
import * as conversations from "./conversations.js";
import * as draft from "./draft.js";
import * as files from "./files.js";
import * as home from "./home.js";
import * as hood from "./hood.js";
import "./keys.js";
import * as refusal from "./refusal.js";
import * as tokens from "./tokens.js";
import { $, closeDrawers, complain, doing, fit, onOpened } from "./frame.js";
import { element, message, editor, words } from "./talk.js";
import { works, stats, follow } from "./answer.js";

let model = "", name = ""; // what is shown
let shown = ""; // messages.json as it was drawn
let following = null; // an AbortController while an answer comes
let ours = new Set(); // made here and empty as yet

const session = () => `${model}/sessions/${name}`;

// What ends in an answer: nothing else is asked meanwhile.
const answering = (run) =>
	doing(async (...all) => {
		busy(true);
		try {
			await run(...all);
		} finally {
			if (!following) busy(false);
		}
	});

// ---- the conversation ----

const bottom = () => $("talk").scrollHeight - $("talk").scrollTop - $("talk").clientHeight < 80;
function grown() {
	if (atEnd) $("talk").scrollTop = $("talk").scrollHeight;
}
let atEnd = true;
new ResizeObserver(grown).observe($("talk")); // by what stands below it, or a phone's keyboard
$("talk").addEventListener("scroll", () => (atEnd = bottom()), { passive: true });

const isBusy = () => !$("stop").hidden;
function busy(is) {
	$("send").hidden = is;
	$("stop").hidden = !is;
	$("messages").setAttribute("aria-busy", is);
}

function draw(text, log, status) {
	const list = JSON.parse(text), last = list.length - 1, still = !works(status);
	shown = text;
	const items = list.map((m, i) =>
		message(m, {
			edit: m.role === "user" && still ? () => edit(i) : undefined,
			retry: i === last && m.role === "assistant" && still ? retry : undefined,
			tokens: i === last && m.role === "assistant" && still ? (body) => tokens.show(session(), body).catch(complain) : undefined,
			go: i === last && m.role === "assistant" && /^(stopped|length|repetition)$/.test(finish) && still ? proceed : undefined,
		}),
	);
	// A session that is no conversation (params/chat off) has a log alone.
	if (!list.length && log) items.push(element("li", { class: "message other" }, element("pre", {}, log)));
	$("messages").replaceChildren(...items);
	$("home").hidden = items.length > 0;
	if (!items.length) showHome().catch(complain);
	const first = list.find((m) => m.role === "user");
	if (list.length) ours.delete(session());
	conversations.title(name, first ? words(first.content) : log.replace(/^> /, ""));
	if (still && list.length) branches.mark(model, name, conversations.names(), list, items, (s) => link(model, s)).catch(complain);
	grown();
}

let finish = "";
async function load() {
	const at = session();
	const [text, log, status, numbers] = await Promise.all([
		tree.read(at + "/messages.json"),
		tree.read(at + "/log"),
		tree.value(at + "/status"),
		tree.read(at + "/stats.json"),
	]);
	if (at !== session()) return;
	finish = JSON.parse(numbers).finish ?? "";
	draw(text, log, status);
	$("stats").textContent = await stats(at);
	hood.why(at).catch(complain);
	return status;
}

// An answer is on its way: shows it, then all as it is. If the connection is lost, shows it again, whole, when there is one.
async function watch() {
	const at = session();
	following?.abort();
	const mine = (following = new AbortController());
	busy(true);
	try {
		for (;;) {
			try {
				const failed = await follow(at, $("messages"), { signal: mine.signal, grown });
				if (at !== session() || mine !== following) return;
				await load();
				if (failed) await refusal.explain(at, failed, ask);
				return failed;
			} catch (e) {
				if (!tree.isLost(e) || at !== session() || mine !== following) throw e;
				await wait(e);
				if (!works(await load())) return;
			}
		}
	} finally {
		if (mine === following) {
			following = null;
			busy(false);
		}
	}
}

async function wait(e) {
	complain(e);
	await tree.returned();
	complain(null);
}

// Whether this prompt is the session's last one: it arrived, and no one heard that it did.
async function arrived(at, text) {
	if (works(await tree.value(at + "/status"))) return (await tree.read(at + "/prompt")).trim() === text.trim();
	const users = JSON.parse(await tree.read(at + "/messages.json")).filter((m) => m.role === "user");
	return users.length > asked && words(users.at(-1).content).trim() === text.trim();
}
let asked = 0; // prompts of the conversation before the one that is sent

// Sends a prompt once, however often the connection is lost.
async function send(at, text) {
	asked = shown ? JSON.parse(shown).filter((m) => m.role === "user").length : 0;
	for (;;) {
		try {
			return await tree.write(at + "/prompt", text);
		} catch (e) {
			if (!tree.isLost(e)) throw e;
			await wait(e);
			if (await arrived(at, text)) return;
		}
	}
}

const ask = answering(async (typed) => {
	const text = files.compose(typed);
	if (text === null) return;
	draft.set("");
	const taken = files.take();
	let at = session();
	const back = () => (draft.set(typed), files.putBack(taken));
	try {
		if (!name) await begin();
		at = session();
		await send(at, text);
	} catch (e) {
		back();
		return void (await refusal.explain(at, e, ask));
	}
	ours.delete(at);
	atEnd = true;
	$("home").hidden = true;
	$("messages").append(message({ role: "user", content: text }));
	for (const b of $("messages").querySelectorAll(".tools button:not(:first-child)")) b.disabled = true;
	conversations.title(name, conversations.titleOf(name) || typed);
	// A turn that failed, of a prompt too long for the context, say, was never there: the text is in its box again.
	if ((await watch()) && !$("prompt").value) back();
	await refusal.restore(at);
});

const stop = doing(() => tree.write(session() + "/ctl", "stop\n"));

const proceed = answering(async () => {
	const last = $("messages").lastElementChild;
	await tree.write(session() + "/ctl", "continue\n");
	if (last?.classList.contains("assistant")) last.remove();
	await watch();
});

// Continues in a branch, so that this conversation stays as it is.
async function branch() {
	const of = model, made = await branches.make(of, name, conversations.names());
	location.hash = link(of, made);
	await open(of, made);
}

const retry = answering(async () => {
	await branch();
	await tree.write(session() + "/ctl", "retry\n");
	$("messages").lastElementChild?.remove();
	await watch();
});

function edit(i) {
	const list = JSON.parse(shown), at = $("messages").children[i];
	const { form, box } = editor(words(list[i].content), again, () => draw(shown, "", "idle"));
	at.replaceChildren(form);
	box.focus();
	async function again(text) {
		if (!text.trim()) return;
		await answering(async () => {
			const cut = [...list.slice(0, i), { ...list[i], content: text }];
			await branch();
			await tree.write(session() + "/messages.json", JSON.stringify(cut));
			await tree.write(session() + "/ctl", "answer\n");
			draw(JSON.stringify(cut), "", "queued");
			await watch();
		})();
	}
}

// ---- conversations ----

const link = conversations.address;
const go = (to) => (location.hash = link(model, to));

async function begin() {
	const of = model, made = await conversations.make();
	if (made) await enter(of, made);
}
// Shows a conversation that was just made.
async function enter(of, made) {
	ours.add(`${of}/sessions/${made}`);
	location.hash = link(of, made);
	await open(of, made);
}
$("import").addEventListener("click", () => $("import-file").click());
$("import-file").addEventListener("change", doing(async () => {
	const [file] = $("import-file").files;
	$("import-file").value = "";
	if (file) await enter(model, await conversations.load(file));
	ours.delete(session());
}));

const open = doing(async (m, s) => {
	if (m === model && s === name && known.includes(m)) return void (s || (await showHome()));
	const left = session();
	if (ours.delete(left)) tree.remove(left).catch(() => {}); // made here, and nothing was asked
	following?.abort();
	following = null;
	busy(false);
	closeDrawers();
	[model, name, shown, finish, atEnd] = [m, s, "", "", true];
	draft.show(session());
	files.show(m, session()).catch(complain);
	$("model").value = m;
	$("messages").replaceChildren();
	params.clear();
	$("stats").textContent = "";
	hood.why("");
	$("spoken").replaceChildren();
	experts.of(m);
	conversations.of(m, s, go);
	await conversations.list();
	document.title = s ? `${s} · ${m} · moefs` : `${m} · moefs`;
	if (!s) return void (await showHome());
	const status = await load();
	params.show(m, session(), () => m === model && s === name).catch(complain);
	if (works(status)) watch().catch(complain);
});

function route() {
	const [m, s] = location.hash.slice(1).split("/").map(decodeURIComponent);
	if (!known.includes(m)) return void (known[0] && open(known[0], ""));
	return open(m, s ?? "");
}
async function showHome() {
	$("home").hidden = false;
	await home.show(known, model, (text) => isBusy() || ask(text));
}
addEventListener("hashchange", route);

// ---- what goes on meanwhile ----

let known = [];
async function listModels() {
	const list = await tree.models();
	if (list.join("/") === known.join("/")) return;
	known = list;
	$("model").replaceChildren(...known.map((m) => element("option", { value: m }, m)));
	if (model) $("model").value = model;
}

// What others do to this conversation: an answer that begins, messages that are written.
async function news() {
	const at = session();
	if (!name) return;
	if (isBusy()) {
		const now = await stats(at);
		if (following && at === session()) $("stats").textContent = now;
		return;
	}
	if ($("messages").querySelector(".editor")) return;
	const files = await tree.list(at).catch((e) => (e.status === 404 ? null : Promise.reject(e)));
	if (at !== session() || isBusy()) return;
	if (!files) return void (location.hash = link(model, "")); // it was removed
	const status = await tree.value(at + "/status"), text = await tree.read(at + "/messages.json");
	if (at !== session() || isBusy()) return;
	if (text !== shown) await load();
	if (works(status) && !isBusy() && at === session()) await watch();
}

let turn = 0;
async function tick() {
	try {
		if (!document.hidden && model) {
			await Promise.all([experts.look(), following ? news() : null]);
			if (turn % 2 === 0) {
				await conversations.list();
				$("state").textContent = await tree.value(model + "/info/state").then((s) => (s === "ready" ? "" : s));
				if (!following) news().catch(complain);
			}
			if (turn % 10 === 0) await listModels();
		}
		turn++;
		if (away) complain((away = null));
	} catch (e) {
		complain((away = e));
	}
	setTimeout(tick, following ? 500 : 1000);
}
let away = null;

// ---- the frame ----

$("prompt").addEventListener("keydown", (e) => {
	if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
	e.preventDefault();
	$("ask").requestSubmit();
});
$("ask").addEventListener("submit", (e) => {
	e.preventDefault();
	if ($("prompt").value.trim() && !isBusy()) ask($("prompt").value);
});
$("stop").addEventListener("click", () => stop());
$("new").addEventListener("click", doing(async () => (ours.has(session()) ? $("prompt").focus() : await begin().then(() => $("prompt").focus()))));
$("model").addEventListener("change", () => (location.hash = link($("model").value, "")));

addEventListener("keydown", (e) => {
	if (e.key === "Escape" && !document.querySelector("dialog[open]")) isBusy() ? stop() : closeDrawers();
});

onOpened(() => experts.look().catch(complain));

doing(async () => {
	await listModels();
	await route();
	$("prompt").focus();
})().finally(tick);
