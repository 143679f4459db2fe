// The tree's files over HTTP, and nothing else of the page.

let key = sessionStorage.getItem("key");
let askForKey = async () => null;

export function onLocked(ask) {
	askForKey = ask;
}

export class Refused extends Error {
	constructor(status, words) {
		super(words);
		this.status = status;
	}
}

// Whether it was the connection that failed: also a stream that breaks off.
export const isLost = (e) => e.status === 0 || e.name === "TypeError";

function address(path) {
	return "/tree" + (path ? "/" + path.split("/").map(encodeURIComponent).join("/") : "");
}

async function words(reply) {
	try {
		return (await reply.json()).error.message;
	} catch {
		return `${reply.status} ${reply.statusText}`;
	}
}

async function call(url, options = {}) {
	for (;;) {
		const used = key;
		const headers = { ...(used && { Authorization: "Bearer " + used }), ...(options.type && { "Content-Type": options.type }) };
		let reply;
		try {
			reply = await fetch(url, { ...options, headers, cache: "no-store" });
		} catch (e) {
			if (e.name === "AbortError") throw e;
			throw new Refused(0, "The connection to moefs-http is lost. Trying again …");
		}
		if (reply.ok) return reply;
		const why = await words(reply);
		if (reply.status !== 401) throw new Refused(reply.status, why);
		if (key !== used) continue; // another call has asked for it meanwhile
		key = await askForKey(why);
		sessionStorage.setItem("key", key);
	}
}

export const post = async (url, body) => (await call(url, { method: "POST", body: JSON.stringify(body), type: "application/json" })).json();
export const models = async () => (await (await call("/v1/models")).json()).data.map((m) => m.id);
export const list = async (path) => (await call(address(path))).json();
export const read = async (path) => (await call(address(path))).text();
export const bytes = async (path) => (await call(address(path))).arrayBuffer();
export const write = (path, body) => call(address(path), { method: "PUT", body });
export const make = (path) => call(address(path), { method: "POST" });
export const move = (path, name) => call(address(path), { method: "MOVE", body: name });
export const remove = (path) => call(address(path), { method: "DELETE" });

// Returns when moefs-http answers again.
export async function returned() {
	for (;;) {
		const answered = await fetch("/page/icon.svg", { cache: "no-store" }).then(() => true, () => false);
		if (answered) return;
		await new Promise((done) => setTimeout(done, 1000));
	}
}

// A value is text and ends in a newline.
export const value = async (path) => (await read(path)).replace(/\n$/, "");

// A file that grows: take(text) with each piece, until its end. Its parts come in requests of a second each, so that more
// pages than a browser has connections take turns; other requests go before them. What breaks off is asked for again from there on.
export async function follow(path, take, signal) {
	const text = new TextDecoder();
	for (let from = 0, more = true; more; ) {
		const begin = from, reply = await call(`${address(path)}?from=${from}`, { signal, priority: "low" });
		const reader = reply.body.getReader();
		more = reply.status === 202; // it is no whole file yet
		try {
			for (let part; !(part = await reader.read()).done; from += part.value.length) take(text.decode(part.value, { stream: true }));
		} catch (e) {
			if (e.name === "AbortError" || from === begin) throw e;
			more = true;
		}
	}
}
