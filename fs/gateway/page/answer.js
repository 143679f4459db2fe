// An answer on its way: what asks for it, what comes of it, and what it took.
import * as tree from "./tree.js";
import * as hood from "./hood.js";
import { used } from "./files.js";
import { coming } from "./talk.js";
import { number } from "./frame.js";

const working = new Set(["loading", "queued", "prompting", "generating"]);
export const works = (status) => working.has(status);

const seconds = (x) => (x < 1 ? `${Math.round(1000 * x)} ms` : `${short(x)} s`);
const short = (x) => (x >= 100 ? number(Math.round(x)) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

// Why an answer ended, where it is not because all was said.
const endings = {
	stopped: "stopped", length: "cut off by max_tokens or a full context", repetition: "ended because it repeated itself",
	stop: "ended at a text of params/stop", tool_calls: "waits for a tool",
};

export function numbers(s) {
	if (!s.output_tokens && !s.prompt_tokens) return "";
	const reads = s.expert_hits + s.expert_misses;
	return [
		`${number(s.output_tokens)} tokens`,
		s.remembered ? "remembered, not computed" : `${short(s.decode_tokens_per_second ?? 0)} tokens/s`,
		`${number(s.prompt_tokens)} in the prompt${s.cached_tokens ? `, ${number(s.cached_tokens)} known` : ""}`,
		`first after ${seconds(s.first_token_seconds ?? 0)}`,
		...(reads ? [`${number(s.expert_misses)} of ${number(reads)} experts missed`] : []),
		...(s.dropped_turns ? [`without the oldest ${s.dropped_turns === 1 ? "turn" : `${s.dropped_turns} turns`}`] : []),
		...(s.finish && s.finish !== "end" ? [endings[s.finish] ?? s.finish] : []),
	].join(" · ");
}

const speeds = new Map(); // tokens/s of each model's last answer
export const speed = (model) => speeds.get(model);

export async function stats(session) {
	const s = JSON.parse(await tree.read(session + "/stats.json"));
	used(s);
	hood.counted(session, s.output_tokens);
	if (s.decode_tokens_per_second) speeds.set(session.split("/")[0], short(s.decode_tokens_per_second));
	return numbers(s);
}

const visible = () => new Promise((done) => document.addEventListener("visibilitychange", () => done(), { once: true }));

// Shows in `list` what a session says until it has said all. Ends with why it failed, or nothing; throws if the connection is
// lost. A browser has six connections for all pages: so this takes one, first for the thoughts and then for the answer, and
// none while the page is hidden; when it is seen again the answer is read anew.
export async function follow(session, list, { signal, grown }) {
	for (;;) {
		while (document.hidden && !signal.aborted) await visible();
		const hidden = new AbortController(), hide = () => document.hidden && hidden.abort();
		document.addEventListener("visibilitychange", hide);
		try {
			const failed = await read(session, list, AbortSignal.any([signal, hidden.signal]), grown);
			if (!hidden.signal.aborted || signal.aborted) return failed;
		} finally {
			document.removeEventListener("visibilitychange", hide);
		}
	}
}

async function read(session, list, signal, grown) {
	const answer = coming();
	list.append(answer.at);
	grown();
	let failed = null;
	const file = (name, take) =>
		tree.follow(`${session}/${name}`, take, signal).catch((e) => {
			if (e.name !== "AbortError") failed = e;
		});
	await file("thoughts", (text) => answer.think(text, grown));
	if (!failed && !signal.aborted) await file("output", (text) => answer.say(text, grown));
	if (signal.aborted || (failed && tree.isLost(failed))) answer.cancel();
	else answer.end();
	if (!failed || signal.aborted) return "";
	if (tree.isLost(failed)) throw failed;
	const words = await tree.value(session + "/error").catch(() => "");
	return words || failed.message;
}
