// A text as elements, made from the trees of markdown.js: only elements and attributes that are named here, text as text
// nodes. A text that grows is parsed from its last block on, and of that only what differs is changed in the page.
import { parse } from "./parser.js";

const html = new Set("p h3 h4 h5 h6 blockquote ul ol li table thead tbody tr th td em strong del a br hr code pre span div input".split(" "));
const mathml = new Set(
	("math semantics mrow mi mo mn mtext ms mspace msub msup msubsup mfrac msqrt mroot munder mover munderover mtable mtr mtd mpadded " +
		"mphantom mstyle menclose merror").split(" "),
);
const mathAttributes = new Set(
	("mathvariant stretchy fence separator lspace rspace minsize maxsize accent accentunder linethickness displaystyle scriptlevel " +
		"columnalign columnspacing rowspacing columnlines rowlines width height depth voffset notation mathcolor display movablelimits " +
		"symmetric").split(" "),
);
const classes = /^(plain|task|left|right|center|t-[a-z-]+)$/;
const MATH = "http://www.w3.org/1998/Math/MathML";

// ---- elements ----

// Marks that turn the direction of writing: in code they are shown, since they can make code look like other code.
const turns = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
export function codeText(text) {
	return text.split(new RegExp(`(${turns.source})`)).map((part) => {
		if (!turns.test(part)) return part;
		const mark = document.createElement("span");
		mark.className = "turn";
		mark.textContent = `U+${part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
		return mark;
	});
}

// The direction of the first letter, for what has no text but in elements with a direction of their own (auto passes them over).
const direction = (node) => (/[\u0591-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(/\p{L}/u.exec(letters(node))?.[0] ?? "") ? "rtl" : "ltr");

const letters = (node) => (typeof node === "string" ? node : node[2].map(letters).join(""));

// In a direction of its own, whatever the text beside it does.
function host(url) {
	const e = document.createElement("bdi");
	e.textContent = `(${url.host})`;
	return e;
}

function link(node) {
	let url = null;
	try {
		url = new URL(node[1].href);
	} catch {
		// no address
	}
	if (!url || !/^(https?|mailto):$/.test(url.protocol)) return children("span", node, false);
	const a = children("a", node, false);
	a.href = url.href;
	a.target = "_blank";
	a.rel = "noopener noreferrer";
	const named = /(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}/u.exec(letters(node).replace(/\p{Cf}/gu, ""))?.[0].toLowerCase();
	if (named && url.host && named !== url.host && `www.${named}` !== url.host) a.append(" ", host(url));
	return a;
}

function children(name, node, inCode) {
	const e = document.createElement(name);
	e.append(...node[2].flatMap((child) => build(child, inCode)));
	return e;
}

function formula(node) {
	const e = document.createElementNS(MATH, node[0]);
	for (const [name, value] of Object.entries(node[1] ?? {})) if (mathAttributes.has(name)) e.setAttribute(name, value);
	e.append(...node[2].flatMap((child) => (typeof child === "string" ? child : mathml.has(child[0]) ? formula(child) : [])));
	return e;
}

// Copies a text, also where the page has no right to navigator.clipboard (plain http from another machine).
export async function copy(text) {
	if (navigator.clipboard) return navigator.clipboard.writeText(text);
	const box = document.createElement("textarea");
	box.value = text;
	box.className = "away";
	document.body.append(box);
	box.select();
	const copied = document.execCommand("copy");
	box.remove();
	if (!copied) throw new Error("the browser does not allow it");
}

export function copyButton(text) {
	const button = document.createElement("button");
	button.type = "button";
	button.className = "quiet";
	button.textContent = "Copy";
	button.dataset.act = "Copy";
	button.addEventListener("click", async () => {
		button.textContent = await copy(text()).then(() => "Copied", () => "Not allowed");
		setTimeout(() => (button.textContent = "Copy"), 1500);
	});
	return button;
}

function block(node) {
	const box = document.createElement("div"), head = document.createElement("div"), pre = children("pre", node, true);
	box.className = "block";
	head.className = "fence";
	pre.tabIndex = 0;
	pre.dir = "ltr";
	head.append(node[1].language || "text", copyButton(() => letters(box.source)));
	box.source = node;
	box.append(head, pre);
	return box;
}

function build(node, inCode = false) {
	if (typeof node === "string") return inCode ? codeText(node) : [node];
	const [name, attributes = {}] = node;
	if (mathml.has(name)) return [formula(node)];
	if (!html.has(name)) return [letters(node)];
	if (name === "a") return [link(node)];
	if (name === "pre") return [block(node)];
	const e = children(name, node, inCode || name === "code");
	if (classes.test(attributes.class ?? "")) e.className = attributes.class;
	if (name === "ol" && /^\d{1,9}$/.test(attributes.start ?? "")) e.start = +attributes.start;
	if (name === "input") Object.assign(e, { type: "checkbox", disabled: true, checked: !!attributes.checked });
	if (/^(p|h\d|li|td|th|div)$/.test(name)) e.dir = "auto";
	if (/^(ul|ol|blockquote|table)$/.test(name)) e.dir = direction(node);
	return [e];
}

// ---- what differs ----

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const patched = new Set("p ul ol li blockquote table thead tbody tr th td em strong del code span div h3 h4 h5 h6".split(" "));

// The children of `e` from the `first` on show `old`, a node each; makes them show `now`.
function patch(e, first, old, now, inCode) {
	for (let i = 0; i < now.length; i++) {
		const at = e.childNodes[first + i];
		if (at && old[i] !== undefined && update(at, old[i], now[i], inCode)) continue;
		const made = build(now[i], inCode);
		if (made.length !== 1) {
			// A text with marks that are shown is several nodes: all is made again.
			while (e.childNodes.length > first) e.lastChild.remove();
			return e.append(...now.flatMap((node) => build(node, inCode)));
		}
		at ? at.replaceWith(made[0]) : e.append(made[0]);
	}
	while (e.childNodes.length > first + now.length) e.lastChild.remove();
}

// True if the element or text node shows `now` afterwards; else it has to be made again.
function update(at, was, now, inCode) {
	if (typeof now === "string") {
		if (typeof was !== "string" || at.nodeType !== Node.TEXT_NODE || (inCode && turns.test(now))) return false;
		if (now.startsWith(at.data)) at.appendData(now.slice(at.data.length));
		else at.data = now;
		return true;
	}
	if (typeof was === "string" || was[0] !== now[0] || !same(was[1], now[1])) return false;
	if (now[0] === "pre") {
		at.source = now;
		patch(at.lastChild, 0, was[2], now[2], true);
		return true;
	}
	if (same(was[2], now[2])) return true;
	if (!patched.has(now[0]) || at.nodeType !== Node.ELEMENT_NODE) return false;
	patch(at, 0, was[2], now[2], inCode || now[0] === "code");
	return true;
}

// ---- a text ----

const plain = (text) => [["div", { class: "plain" }, [text]]];

// Shows a text in `box`. set(text) may be called as often as the text grows; drawn() is called after each change.
export function view(box, drawn = () => {}) {
	let text = "", shown = "", running = false;
	let from = 0, kept = 0, tail = []; // the last block's place in the text and among the children, and its nodes
	let slow = false; // the last block took too long: it stays plain
	box.classList.add("markdown");

	function draw(nodes) {
		patch(box, kept, tail, nodes, false);
		tail = nodes;
	}
	function advance(bytes, nodes) {
		from += bytes;
		kept += nodes;
		tail = tail.slice(nodes);
	}
	function drawBlocks(blocks, part) {
		const last = blocks.at(-1);
		draw(blocks.flatMap((block) => block.nodes));
		if (blocks.length > 1) advance(offset(part, last.line), tail.length - last.nodes.length);
	}
	// What is before the last empty line is done, and the rest is another block.
	function drawPlain(part) {
		const end = part.lastIndexOf("\n\n") + 2;
		slow = end < 2;
		draw(plain(slow ? part : part.slice(0, end)));
		if (!slow) advance(end, 1);
	}
	async function follow() {
		running = true;
		while (shown !== text) {
			const now = text, part = now.slice(from);
			const blocks = slow ? null : await parse(part);
			blocks ? drawBlocks(blocks, part) : drawPlain(part);
			if (blocks || slow) shown = now;
			drawn();
		}
		running = false;
	}
	return {
		set(now) {
			text = now;
			if (!running) follow();
		},
	};
}

function offset(text, line) {
	let at = 0;
	for (; line > 0; line--) at = text.indexOf("\n", at) + 1;
	return at;
}
