// An answer token by token, from logprobs.jsonl: coloured by how likely each was, with what else it might have been.
import * as tree from "./tree.js";
import * as params from "./params.js";
import { complain, number } from "./frame.js";
import { element } from "./talk.js";

const MOST = 5000; // tokens that are shown
const ALTERNATIVES = 5;
const percent = (p) => `${(100 * Math.exp(p)).toPrecision(3)} %`;
const level = (p) => [0.9, 0.5, 0.2, 0.05].filter((bound) => Math.exp(p) < bound).length;
const spelled = (t) => JSON.stringify(t);

const parse = (text) => text.split("\n").flatMap((line) => {
	try {
		return line ? [JSON.parse(line)] : [];
	} catch {
		return []; // the last line, while it is written
	}
});

function facts(t) {
	const others = (t.top_logprobs ?? []).filter((o) => o.id !== t.id).slice(0, ALTERNATIVES);
	return [
		element("strong", {}, `${spelled(t.token)}: ${percent(t.logprob)}`),
		others.length ? element("ol", {}, ...others.map((o) => element("li", {}, element("code", {}, spelled(o.token)), ` ${percent(o.logprob)}`))) : element("p", {}, "No alternatives were kept."),
	];
}

// The arrow keys go from token to token; a pointer and a tap choose one.
function view(list) {
	const box = element("div", { class: "tokens", role: "group", "aria-label": "The answer's tokens. The arrow keys go from one to the next." }), says = element("div", { class: "token-facts", role: "status" }, "Choose a token: what else it might have been appears here.");
	const spans = list.slice(0, MOST).map((t, i) => element("span", { class: `token p${level(t.logprob)}`, tabindex: i ? -1 : 0, "data-i": i }, t.token));
	let at = 0;
	function choose(i, focus) {
		if (!spans[i]) return;
		spans[at].tabIndex = -1;
		spans[at].classList.remove("chosen");
		at = i;
		spans[at].tabIndex = 0;
		spans[at].classList.add("chosen");
		if (focus) spans[at].focus();
		says.replaceChildren(...facts(list[at]));
	}
	const of = (e) => +(e.target.closest(".token")?.dataset.i ?? -1);
	box.addEventListener("pointerover", (e) => e.pointerType === "mouse" && choose(of(e)));
	box.addEventListener("click", (e) => choose(of(e), true));
	box.addEventListener("focusin", (e) => choose(of(e)));
	box.addEventListener("keydown", (e) => {
		const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + 10, ArrowUp: at - 10, Home: 0, End: spans.length - 1 }[e.key];
		if (to === undefined) return;
		e.preventDefault();
		choose(Math.min(spans.length - 1, Math.max(0, to)), true);
	});
	box.append(...spans);
	return [box, ...(list.length > MOST ? [element("p", {}, `These are the first ${number(MOST)} of ${number(list.length)} tokens.`)] : []), says];
}

// Shows the tokens of a session's last answer in place of its text. Without log-probabilities, switches them on for the next.
export async function show(session, body) {
	const list = parse(await tree.read(session + "/logprobs.jsonl"));
	if (list.length) {
		body.classList.remove("markdown");
		body.replaceChildren(...view(list));
		return true;
	}
	await tree.write(session + "/params/logprobs", `${ALTERNATIVES + 1}\n`);
	params.reread("logprobs");
	complain("This answer's probabilities were not kept. They are kept from the next answer on.");
	return false;
}
