// Asks the Worker of markdown.js for a text's blocks, one text at a time. What takes longer than LIMIT is given up, with its
// Worker: a model that repeats itself writes texts that take a parser seconds.

const LIMIT = 250; // ms
const START = 5000; // ms that a new Worker may take to load its libraries
const trusted = window.trustedTypes?.createPolicy("page", { createScriptURL: (url) => url });

let worker = null, ready = false, current = null, number = 0;
const queue = [];

function start() {
	const url = "/page/markdown.js";
	worker = new Worker(trusted ? trusted.createScriptURL(url) : url);
	ready = false;
	worker.onmessage = ({ data }) => {
		if (data.id !== current?.id) return;
		ready = true;
		finish(data.blocks);
	};
	worker.onerror = () => finish(null);
}

function finish(blocks) {
	const { done, timer } = current ?? {};
	clearTimeout(timer);
	current = null;
	if (!blocks) {
		worker?.terminate();
		worker = null;
	}
	done?.(blocks);
	next();
}

function next() {
	if (current || !queue.length) return;
	if (!worker) start();
	current = queue.shift();
	current.timer = setTimeout(() => finish(null), ready ? LIMIT : START);
	worker.postMessage({ id: current.id, text: current.text });
}

// The blocks of a text, or null if they took too long.
export const parse = (text) =>
	new Promise((done) => {
		queue.push({ id: ++number, text, done });
		next();
	});
