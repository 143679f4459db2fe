// What the claims have in common: `claim(name, f)` prints a line for each, `over()` ends with 1 if one failed.
import assert from "node:assert/strict";
import fs from "node:fs";

export { assert };
// An open gateway, the mount, and a gateway that wants a key and answers one at a time.
export const [url, mount, narrow, key] = process.argv.slice(2);
let failed = 0;

export async function claim(name, f) {
	try {
		await f();
		console.log(`ok ${name}`);
	} catch (e) {
		failed++;
		console.log(`not ok ${name}: ${String(e.stack ?? e).replaceAll("\n", " ")}`);
	}
}

export function over() {
	process.exit(failed ? 1 : 0);
}

export async function collect(stream) {
	const all = [];
	for await (const one of stream) all.push(one);
	return all;
}

// The error that f ends with.
export async function refusal(f) {
	try {
		await f();
	} catch (e) {
		return e;
	}
	assert.fail("not refused");
}

// Takes away the session that works, so that what comes of it fails in the middle.
export function take_away(model) {
	const sessions = `${mount}/${model}/sessions/`;
	const works = (name) => name.startsWith("http-") && fs.readFileSync(`${sessions}${name}/status`, "utf8") === "generating\n";
	for (const name of fs.readdirSync(sessions).filter(works)) fs.rmdirSync(sessions + name);
}

// Waits until no session of a request works, by the files: who was given up is not answered.
export async function idle(model) {
	const sessions = `${mount}/${model}/sessions`;
	const words = ["queued", "loading", "prompting", "generating"];
	const works = (name) => {
		try {
			return words.includes(fs.readFileSync(`${sessions}/${name}/status`, "utf8").trim());
		} catch {
			return false; // it is gone
		}
	};
	for (let i = 0; i < 1200; i++) {
		if (!fs.readdirSync(sessions).some((name) => name.startsWith("http-") && works(name))) return;
		await new Promise((done) => setTimeout(done, 50));
	}
	assert.fail("it still works");
}
