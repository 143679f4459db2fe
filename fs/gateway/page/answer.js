// An answer on its way: what asks for it, what comes of it, and what it took.
import * as tree from "./tree.js";
import * as hood from "./hood.js";
import { used } from "./files.js";
import { coming } from "./talk.js";

const working = new Set(["loading", "queued", "prompting", "generating"]);
export const works = (status) => working.has(status);

const seconds = (x) => (x < 1 ? `${Math.round(1000 * x)} ms` : `${short(x)} s`);
const short = (x) => (x >= 100 ? Math.round(x) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

export function numbers(s) {
	if (!s.output_tokens && !s.prompt_tokens) return "";
	const reads = s.expert_hits + s.expert_misses;
	return [
		`${s.output_tokens} tokens`,
		`${short(s.decode_tokens_per_second ?? 0)} tokens/s`,
		`${s.prompt_tokens} in the prompt${s.cached_tokens ? `, ${s.cached_tokens} known` : ""}`,
		`first after ${seconds(s.first_token_seconds ?? 0)}`,
		...(reads ? [`${s.expert_misses} of ${reads} experts missed`] : []),
		...(s.dropped_turns ? [`without the oldest ${s.dropped_turns === 1 ? "turn" : `${s.dropped_turns} turns`}`] : []),
		...(s.finish && s.finish !== "end" ? [`ended by ${s.finish}`] : []),
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

// Shows in `list` what a session says until it has said all. Ends with why it failed, or nothing; throws if the connection is lost.
export async function follow(session, list, { signal, grown }) {
	const answer = coming();
	list.append(answer.at);
	grown();
	let failed = null;
	const read = (file, take) =>
		tree.follow(`${session}/${file}`, take, signal).catch((e) => {
			if (e.name !== "AbortError") failed = e;
		});
	await Promise.all([
		read("thoughts", (text) => answer.think(text, grown)),
		read("output", (text) => answer.say(text, grown)),
	]);
	if (failed && !signal.aborted) {
		if (tree.isLost(failed)) throw failed;
		const words = await tree.value(session + "/error").catch(() => "");
		return words || failed.message;
	}
	return "";
}
