// Markdown to a tree, in a Worker: parser.js ends it when a text takes too long. A tree has no HTML: a node is a string, or
// [element, attributes, children], and tree_view.js makes elements of those that it knows. The parsers are libraries, which
// make puts into the program where they are installed; without one its part of a text stays as it was written.
"use strict";

self.Prism = { manual: true, disableWorkerMessageHandler: true };
const trusted = self.trustedTypes?.createPolicy("page", { createScriptURL: (url) => url });
for (const library of ["markdown-it", "prism", "katex"])
	try {
		const url = `/page/${library}.js`;
		importScripts(trusted ? trusted.createScriptURL(url) : url);
	} catch {
		// It was not there when the program was built.
	}

// ---- TeX ----

const MATH_SIZE = 4000; // characters of one formula

// The formula that begins at `from` with one of these marks, or null. `$5 and $10` is none: behind a `$` there is no blank,
// before the one that ends it neither, and no digit follows.
const marks = [["$$", "$$", true], ["\\[", "\\]", true], ["\\(", "\\)", false], ["$", "$", false]];
function formulaAt(text, from) {
	for (const [open, close, display] of marks) {
		if (!text.startsWith(open, from)) continue;
		const begin = from + open.length;
		for (let end = text.indexOf(close, begin); end >= 0 && end - begin <= MATH_SIZE; end = text.indexOf(close, end + 1)) {
			const tex = text.slice(begin, end);
			if (close[0] === "$" && text[end - 1] === "\\") continue; // \$ is a dollar
			if (!tex.trim() || /\n[ \t]*\n/.test(tex)) break;
			if (open === "$" && (/^\s|\s$/.test(tex) || /\d/.test(text[end + 1] ?? ""))) break;
			return { tex, display, end: end + close.length };
		}
		if (open.length === 2) return null;
	}
	return null;
}

function mathRule(state, silent) {
	const found = formulaAt(state.src, state.pos);
	if (!found || found.end > state.posMax) return false;
	if (!silent) {
		const token = state.push("math", "", 0);
		token.content = found.tex;
		token.markup = state.src.slice(state.pos, found.end);
		token.meta = { display: found.display };
	}
	state.pos = found.end;
	return true;
}

// A formula with lines of its own: a list's marks and headings in it are none.
function mathBlockRule(state, first, last, silent) {
	const at = state.bMarks[first] + state.tShift[first], found = formulaAt(state.src, at);
	if (!found?.display || state.sCount[first] - state.blkIndent >= 4) return false;
	let line = first;
	while (line < last && state.eMarks[line] < found.end) line++;
	if (line >= last || state.src.slice(found.end, state.eMarks[line]).trim()) return false;
	if (!silent) {
		const token = state.push("math", "", 0);
		token.block = true;
		token.content = found.tex;
		token.markup = state.src.slice(at, found.end);
		token.map = [first, line + 1];
		token.meta = { display: true };
		state.line = line + 1;
	}
	return true;
}

// KaTeX's own tree, of which MathML alone is taken.
function mathNode(node) {
	if (typeof node.text === "string") return [node.text];
	const children = (node.children ?? []).flatMap(mathNode);
	if (!node.type) return children; // a span around the formula
	return node.type === "annotation" ? [] : [[node.type, { ...node.attributes }, children]];
}

function math(token) {
	try {
		const root = katex.__renderToDomTree(token.content, {
			displayMode: token.meta.display, output: "mathml", throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 200,
		});
		return mathNode(root)[0];
	} catch {
		return ["span", { class: "plain" }, [token.markup]]; // no KaTeX, or no TeX
	}
}

// ---- Markdown ----

const NESTING = 40; // blocks within blocks, counting a list as two
const linked = /^(https?:\/\/|mailto:)/i;
const parser = self.markdownit?.({ html: false, linkify: true, typographer: false, maxNesting: NESTING });
if (parser) {
	parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
	parser.validateLink = (url) => linked.test(url.trim());
	// What is nested deeper it would leave out, with all that follows.
	const tokenize = parser.block.tokenize;
	parser.block.tokenize = function (state, ...lines) {
		if (state.level >= NESTING) throw new Error("nested too deeply");
		return tokenize.call(this, state, ...lines);
	};
	parser.inline.ruler.before("escape", "math", mathRule);
	parser.block.ruler.before("fence", "math", mathBlockRule, { alt: ["paragraph", "blockquote", "list"] });
}

const elements = {
	paragraph: "p", blockquote: "blockquote", bullet_list: "ul", ordered_list: "ol", list_item: "li", table: "table", thead: "thead",
	tbody: "tbody", tr: "tr", th: "th", td: "td", em: "em", strong: "strong", s: "del", link: "a",
};

// h1 and h2 are the page's own.
const heading = (token) => `h${Math.min(6, +token.tag[1] + 2)}`;

function attributes(token) {
	if (token.type === "ordered_list_open") return { start: token.attrGet("start") ?? undefined };
	if (token.type === "link_open") return { href: token.attrGet("href") };
	if (token.type === "th_open" || token.type === "td_open") return { class: /(left|right|center)/.exec(token.attrGet("style") ?? "")?.[1] };
	return {};
}

// A list item that begins with [ ] or [x] is a task.
function task(item) {
	const inside = item[2][0]?.[0] === "p" ? item[2][0][2] : item[2];
	const mark = typeof inside[0] === "string" && /^\[([ xX])\] /.exec(inside[0]);
	if (!mark) return;
	inside[0] = inside[0].slice(4);
	inside.unshift(["input", { type: "checkbox", checked: mark[1] !== " ", disabled: true }, []]);
	item[1].class = "task";
}

const single = {
	inline: (t) => tree(t.children),
	text: (t) => [t.content],
	softbreak: () => ["\n"],
	hardbreak: () => [["br", {}, []]],
	hr: () => [["hr", {}, []]],
	code_inline: (t) => [["code", {}, [t.content]]],
	code_block: (t) => [code(t.content.replace(/\n$/, ""), "")],
	fence: (t) => [code(t.content.replace(/\n$/, ""), t.info.trim().split(/\s/)[0])],
	image: (t) => image(t),
	math: (t) => [math(t)],
};

function image(token) {
	const href = token.attrGet("src") ?? "", name = token.content || href;
	return linked.test(href) ? [["a", { href }, [name]]] : [name];
}

function tree(tokens) {
	const stack = [[null, {}, []]];
	const top = () => stack[stack.length - 1];
	for (const token of tokens) {
		if (token.hidden) continue; // the paragraphs of a list without empty lines
		const kind = token.type.replace(/_(open|close)$/, "");
		if (token.nesting > 0) stack.push([kind === "heading" ? heading(token) : (elements[kind] ?? "span"), attributes(token), []]);
		else if (token.nesting < 0) close();
		else top()[2].push(...(single[kind]?.(token) ?? [token.content]));
	}
	function close() {
		const node = stack.pop();
		if (node[0] === "li") task(node);
		top()[2].push(node);
	}
	return top()[2];
}

// ---- code ----

const languages = {
	sh: "bash", shell: "bash", zsh: "bash", console: "bash", js: "javascript", mjs: "javascript", ts: "typescript", py: "python", rs: "rust",
	"c++": "cpp", h: "c", yml: "yaml", html: "markup", xml: "markup", svg: "markup", md: "markdown", make: "makefile", golang: "go",
	rb: "ruby", kt: "kotlin", dockerfile: "docker", patch: "diff",
};

function coloured(part) {
	if (typeof part === "string") return [part];
	if (Array.isArray(part)) return part.flatMap(coloured);
	return [["span", { class: `t-${part.type}` }, coloured(part.content)]];
}

function code(text, name) {
	const language = name.toLowerCase(), grammar = self.Prism?.languages?.[languages[language] ?? language];
	const known = grammar && typeof grammar === "object";
	return ["pre", { language: name }, known ? Prism.tokenize(text, grammar).flatMap(coloured) : [text]];
}

// ---- blocks ----

// The text's outermost blocks, each with the line that it begins in.
function blocks(text) {
	if (!parser) return [{ line: 0, nodes: [["div", { class: "plain" }, [text]]] }];
	const all = [], tokens = parser.parse(text, {});
	for (let i = 0, from = 0, depth = 0; i < tokens.length; i++) {
		depth += tokens[i].nesting;
		if (depth) continue;
		all.push({ line: tokens[from].map?.[0] ?? 0, nodes: tree(tokens.slice(from, i + 1)) });
		from = i + 1;
	}
	return all;
}

// null: the text stays as it is.
onmessage = ({ data: { id, text } }) => {
	try {
		postMessage({ id, blocks: blocks(text) });
	} catch {
		postMessage({ id, blocks: null });
	}
};
