// The model's experts in the panel: their map, and what their cache came to.
import * as tree from "./tree.js";
import * as map from "./map.js";
import { $, onTheme } from "./frame.js";
import { element } from "./talk.js";

let model = "", lastMap = "";

// From now on those of this model.
export function of(m) {
	if (m !== model) [model, lastMap] = [m, ""];
}

// Draws them as they are, where they are seen.
export async function look() {
	if (!model || !$("panel").checkVisibility({ visibilityProperty: true })) return;
	const mine = model, text = await tree.read(mine + "/experts/map");
	if (mine !== model) return;
	lastMap = text;
	$("experts").hidden = !/ ./.test(text); // a dense model has none
	const n = map.draw($("map"), text, mine);
	if (!n) return;
	const pool = Object.fromEntries((await tree.read("cache/stats")).split("\n").map((l) => l.split(" ")));
	const tries = +pool.hits + +pool.misses, size = (x) => (x >= 1e9 ? (x / 1e9).toFixed(1) + " GB" : (x / 1e6).toFixed(1) + " MB");
	const facts = [
		["In memory", `${n.inside} of ${n.all}`],
		["Cache", `${size(pool.used)} of ${size(pool.budget)}`],
		["Hits", tries ? `${((100 * pool.hits) / tries).toFixed(1)} %` : "none yet"],
		["Misses", pool.misses],
	];
	$("cache").replaceChildren(...facts.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v)]));
}

const again = () => lastMap && map.draw($("map"), lastMap, model);
onTheme(again);
addEventListener("resize", again);
$("map").addEventListener("pointermove", (e) => ($("map").title = map.at(e.offsetX, e.offsetY)));
