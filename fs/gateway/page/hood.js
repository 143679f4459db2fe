// Under the hood, in the panel: a graph of the last minute, and what was known of the last prompt.
import * as tree from "./tree.js";
import { $, number } from "./frame.js";
import { element } from "./talk.js";

const SECONDS = 60;
const SVG = "http://www.w3.org/2000/svg";
const rounded = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 }).format;

// Rows of the graph: what they show, and how it is made of two looks at the same counters.
const rows = [
	{ name: "Tokens", unit: "a second", of: (a, b, s) => (b.tokens - a.tokens) / s },
	{ name: "Experts found", unit: "a second", of: (a, b, s) => (b.hits - a.hits) / s },
	{ name: "Experts missed", unit: "a second", of: (a, b, s) => (b.misses - a.misses) / s },
	{ name: "Waiting for the disk", unit: "% of the time", of: (a, b, s) => (100 * (b.wait - a.wait)) / s },
];
let looks = []; // { at, hits, misses, wait, tokens }, the oldest first
let tokens = 0; // of the answers that were looked at
const seen = new Map(); // tokens of each session's answer, when it was last looked at

// A session's answer has n tokens now. What it had before it was first looked at is not of this minute.
export function counted(session, n) {
	const was = seen.get(session) ?? n;
	tokens += n >= was ? n - was : n;
	seen.set(session, n);
}

function line(values) {
	const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "polyline"), most = Math.max(1e-9, ...values.map((v) => v.y));
	svg.setAttribute("viewBox", `0 0 ${SECONDS} 20`);
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("aria-hidden", "true");
	path.setAttribute("points", values.map((v) => `${v.x.toFixed(1)},${(19 - (18 * v.y) / most).toFixed(1)}`).join(" "));
	svg.append(path);
	return svg;
}

// cache/stats as it is now.
export function look(pool) {
	const at = performance.now() / 1000, last = looks.at(-1);
	if (last && at - last.at < 0.4) return;
	if (last && at - last.at > 5) looks = []; // the page was hidden
	looks.push({ at, hits: +pool.hits, misses: +pool.misses, wait: +pool.wait_seconds, tokens });
	while (looks.length > 2 && at - looks[0].at > SECONDS) looks.shift();
	if (looks.length < 2) return;
	$("graph").replaceChildren(
		...rows.map(({ name, unit, of }) => {
			const values = looks.slice(1).map((b, i) => ({ x: SECONDS - (at - b.at), y: Math.max(0, of(looks[i], b, b.at - looks[i].at)) }));
			return element("div", {}, element("dt", {}, name), element("dd", {}, `${rounded(values.at(-1).y)} ${unit}`), line(values));
		}),
	);
}

let asked = ""; // the session that is shown
const places = { nothing: "", session: " in this conversation", prefix: " in what other conversations had computed" };

// What of the last prompt was computed already, and why not more.
export async function why(session) {
	asked = session;
	const text = session.includes("/sessions/") ? await tree.read(session + "/why").catch(() => "") : "";
	if (asked !== session) return;
	const w = Object.fromEntries(text.split("\n").map((l) => [l.split(" ")[0], l.slice(l.indexOf(" ") + 1)]));
	$("why").textContent = w.prompt_tokens ? `Of its ${number(w.prompt_tokens)} tokens ${+w.found_tokens ? number(w.found_tokens) : "none"} were computed already${places[w.found_in] ?? ` (${w.found_in})`}. ${w.reason ? w.reason[0].toUpperCase() + w.reason.slice(1) + "." : ""}` : "Nothing was asked here yet.";
}
