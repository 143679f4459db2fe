// The model's experts in the panel: their map, and what their cache came to.
import * as tree from "./tree.js";
import * as hood from "./hood.js";
import * as map from "./map.js";
import { $, complain, number, onTheme } from "./frame.js";
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
	const pool = Object.fromEntries((await tree.read("cache/stats")).split("\n").map((l) => l.split(" ")));
	hood.look(pool);
	if (!n) return;
	const tries = +pool.hits + +pool.misses, size = (x) => (x >= 1e9 ? (x / 1e9).toFixed(1) + " GB" : (x / 1e6).toFixed(1) + " MB");
	const facts = [
		["In memory", `${number(n.inside)} of ${number(n.all)}`],
		...(n.gpu ? [["On the GPU", `${number(n.gpu)} of ${number(n.all)}`]] : []),
		["Cache", `${size(pool.used)} of ${size(pool.budget)}`],
		["Hits", tries ? `${((100 * pool.hits) / tries).toFixed(1)} %` : "none yet"],
		["Misses", number(pool.misses)],
	];
	$("cache").replaceChildren(...facts.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v)]));
}

const again = () => lastMap && map.draw($("map"), lastMap, model);
onTheme(again);
addEventListener("resize", again);
$("map").addEventListener("pointermove", (e) => ($("map").title = map.at(e.offsetX, e.offsetY)));

// An expert by tap, or by the arrow keys: what there is to know of it.
async function choose(place) {
	const said = map.choose($("map"), place);
	$("expert").textContent = said;
	if (!said) return;
	const mine = model, [layer, expert] = said.split(":")[0].split("/");
	const all = (await tree.read(mine + "/experts/stats")).split("\n").map((l) => l.split(" "));
	const row = all.find((r) => r[0] === layer && r[1] === expert);
	if (mine !== model || !row || !$("expert").textContent.startsWith(`${layer}/${expert}:`)) return;
	const s = Object.fromEntries(all[0].map((k, i) => [k, row[i]]));
	$("expert").textContent = `${said}; found ${number(s.hits)} times, missed ${number(s.misses)} times${+s.pinned ? "; pinned" : ""}.`;
}
$("map").addEventListener("click", (e) => choose(map.place(e.offsetX, e.offsetY)).catch(complain));
$("map").addEventListener("keydown", (e) => {
	const to = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
	if (!to) return;
	e.preventDefault();
	choose(map.beside(...to)).catch(complain);
});
