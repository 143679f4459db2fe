// The map of experts: experts/map on a canvas. A digit is an expert in memory, a capital letter one on the GPU, a
// small letter one on disk, a dot one that was never used; 0 to 9, A to J and a to j are how often.

const GAP = 1;
let rows = [], before = [], size = 0, shown = "";
let chosen = null; // { x, y }: an expert and its layer's row

const level = (c) => (c === "." ? -1 : c >= "A" ? parseInt(c, 20) - 10 : +c);
const resident = (c) => c >= "0" && c <= "9";
const onGpu = (c) => c >= "A" && c <= "J";
const there = (c) => resident(c) || onGpu(c);
const placeOf = (c) => (onGpu(c) ? "on the GPU" : resident(c) ? "in memory" : "on disk");

// The canvas has them as its own, where the browser has worked out which of dark and light they are.
function colours(canvas) {
	const style = getComputedStyle(canvas);
	return { accent: style.color, miss: style.outlineColor, faint: style.borderTopColor, gpu: style.textDecorationColor };
}

function cell(paint, colour, c, was, x, y, side) {
	const heat = level(c);
	if (there(c)) {
		const read = was !== undefined && !there(was) && !onGpu(c); // just now
		paint.globalAlpha = read ? 1 : 0.25 + (0.75 * heat) / 9;
		paint.fillStyle = read ? colour.miss : onGpu(c) ? colour.gpu : colour.accent;
		paint.fillRect(x, y, side, side);
	} else {
		paint.globalAlpha = heat < 0 ? 0.25 : 0.4 + (0.6 * heat) / 9;
		paint.strokeStyle = colour.faint;
		paint.strokeRect(x + 0.5, y + 0.5, Math.max(side - 1, 1), Math.max(side - 1, 1));
	}
}

// How many there are, are in memory and on the GPU; null: none, the model is dense.
export function draw(canvas, text, model) {
	before = model === shown ? rows : [];
	if (model !== shown) chosen = null;
	shown = model;
	rows = text.split("\n").filter(Boolean).map((line) => line.split(" "));
	const experts = Math.max(1, ...rows.map((r) => (r[1] ?? "").length));
	const all = rows.map((r) => r[1] ?? "").join("");
	if (!all) return null;
	const width = canvas.parentElement.clientWidth || 1, ratio = devicePixelRatio || 1;
	size = Math.min(14, width / experts);
	const side = size > 3 ? size - GAP : size;
	canvas.style.height = rows.length * size + "px";
	canvas.width = width * ratio;
	canvas.height = rows.length * size * ratio;
	const paint = canvas.getContext("2d"), of = colours(canvas);
	paint.scale(ratio, ratio);
	rows.forEach(([, cells = ""], y) => {
		for (let x = 0; x < cells.length; x++)
			cell(paint, of, cells[x], before[y]?.[1]?.[x], x * size, y * size, side);
	});
	if (chosen) mark(paint, of);
	const inside = [...all].filter(resident).length, gpu = [...all].filter(onGpu).length;
	canvas.setAttribute("aria-label", `${inside} of ${all.length} experts are in memory` + (gpu ? `, ${gpu} on the GPU` : ""));
	return { inside, gpu, all: all.length };
}

function mark(paint, colour) {
	paint.globalAlpha = 1;
	paint.strokeStyle = colour.miss;
	paint.lineWidth = 2;
	paint.strokeRect(chosen.x * size - 1, chosen.y * size - 1, size + 1, size + 1);
	paint.lineWidth = 1;
}

export const place = (x, y) => ({ x: Math.floor(x / size), y: Math.floor(y / size) });
// The place beside the chosen one, that an arrow key leads to; layers without experts are passed over.
export function beside(dx, dy) {
	if (!chosen) return { x: 0, y: rows.findIndex((r) => r[1]) };
	let { x, y } = { x: chosen.x + dx, y: chosen.y + dy };
	while (rows[y] && !rows[y][1]) y += dy || 1;
	return rows[y]?.[1]?.[x] === undefined ? chosen : { x, y };
}

// Marks an expert; what it is, in words. "": there is none.
export function choose(canvas, to) {
	const said = words(to);
	if (!said) return "";
	chosen = to;
	const text = rows.map((r) => r.join(" ")).join("\n");
	draw(canvas, text, shown);
	return said;
}

// What a point of the canvas shows, in words.
export const at = (x, y) => words(place(x, y));

function words({ x, y }) {
	const row = rows[y], c = row?.[1]?.[x];
	if (c === undefined) return "";
	const name = `${row[0]}/${String(x).padStart(3, "0")}`;
	if (c === ".") return `${name}: never used`;
	return `${name}: ${placeOf(c)}, heat ${level(c)} of 9`;
}
