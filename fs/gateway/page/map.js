// The map of experts: experts/map on a canvas. A digit is an expert in memory, a letter one on disk, a dot
// one that was never used; 0 to 9 and a to j are how often.

const GAP = 1;
let rows = [], before = [], size = 0, shown = "";

const level = (c) => (c === "." ? -1 : c >= "a" ? c.charCodeAt(0) - 97 : +c);
const resident = (c) => c >= "0" && c <= "9";

// The canvas has them as its own, where the browser has worked out which of dark and light they are.
function colours(canvas) {
	const style = getComputedStyle(canvas);
	return { accent: style.color, miss: style.outlineColor, faint: style.borderTopColor };
}

function cell(paint, colour, c, was, x, y, side) {
	const heat = level(c);
	if (resident(c)) {
		paint.globalAlpha = 0.25 + (0.75 * heat) / 9;
		paint.fillStyle = was !== undefined && !resident(was) ? colour.miss : colour.accent;
		if (was !== undefined && !resident(was)) paint.globalAlpha = 1; // it has just been read
		paint.fillRect(x, y, side, side);
	} else {
		paint.globalAlpha = heat < 0 ? 0.25 : 0.4 + (0.6 * heat) / 9;
		paint.strokeStyle = colour.faint;
		paint.strokeRect(x + 0.5, y + 0.5, Math.max(side - 1, 1), Math.max(side - 1, 1));
	}
}

// How many there are and are in memory; null: none, the model is dense.
export function draw(canvas, text, model) {
	before = model === shown ? rows : [];
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
	const inside = [...all].filter(resident).length;
	canvas.setAttribute("aria-label", `${inside} of ${all.length} experts are in memory`);
	return { inside, all: all.length };
}

// What a point of the canvas shows, in words.
export function at(x, y) {
	const row = rows[Math.floor(y / size)], c = row?.[1]?.[Math.floor(x / size)];
	if (c === undefined) return "";
	const name = `${row[0]}/${String(Math.floor(x / size)).padStart(3, "0")}`;
	if (c === ".") return `${name}: never used`;
	return `${name}: ${resident(c) ? "in memory" : "on disk"}, heat ${level(c)} of 9`;
}
