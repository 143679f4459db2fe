// What stands around a conversation: what failed, the drawers, the colours, the question for a key.
import * as tree from "./tree.js";

export const $ = (id) => document.getElementById(id);
// Numbers look alike on all of the page: 4,096.
export const number = new Intl.NumberFormat("en").format;

export function complain(e) {
	if (e?.name === "AbortError") return;
	$("error").textContent = e ? (e.message ?? e) : "";
	$("error").hidden = !e;
}
// What a person does: a failure is said, not lost.
export const doing = (run) => async (...all) => {
	complain(null);
	try {
		return await run(...all);
	} catch (e) {
		complain(e);
	}
};

// The question grows with its lines.
export function fit() {
	$("prompt").style.height = "auto";
	$("prompt").style.height = Math.min($("prompt").scrollHeight + 2, innerHeight / 3) + "px";
}
$("prompt").addEventListener("input", fit);

// ---- drawers ----

const narrow = matchMedia("(max-width: 60rem)"), small = matchMedia("(max-width: 45rem)");
const opened = [];
export const onOpened = (f) => opened.push(f);
const drawers = [["menu", "side"], ["facts", "panel"]];
function drawer(button, box, is) {
	document.body.classList.toggle(box + "-open", is);
	$(button).setAttribute("aria-expanded", is);
	$("shade").hidden = !drawers.some(([, b]) => hides(b) && document.body.classList.contains(b + "-open"));
}
const hides = (box) => (box === "side" ? small : narrow).matches;
export function closeDrawers() {
	for (const [button, box] of drawers) if (hides(box)) drawer(button, box, false);
}
for (const [button, box] of drawers) {
	$(button).addEventListener("click", () => {
		drawer(button, box, !document.body.classList.contains(box + "-open"));
		for (const f of opened) f();
	});
	const fits = () => drawer(button, box, !hides(box));
	(box === "side" ? small : narrow).addEventListener("change", fits);
	fits();
}
$("shade").addEventListener("click", closeDrawers);

// ---- colours ----

const themed = [];
export const onTheme = (f) => themed.push(f);
const themes = ["auto", "dark", "light"];
function theme(is) {
	localStorage.setItem("theme", is);
	document.documentElement.dataset.theme = is;
	$("theme").title = `Colours: ${is}`;
	for (const f of themed) f();
}
$("theme").addEventListener("click", () => theme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
theme(themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");

// ---- the key ----

let asking = null; // one question for a key, however many calls need it
tree.onLocked(
	(why) =>
		(asking ??= new Promise((done) => {
			$("locked-why").textContent = why;
			$("key").value = "";
			$("locked").addEventListener("cancel", (e) => e.preventDefault());
			$("locked").addEventListener("close", () => ((asking = null), done($("key").value)), { once: true });
			$("locked").showModal();
		})),
);
