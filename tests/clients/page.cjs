// What a person does with the page, and what then is to be seen. Run by page.sh, which says where all is.
const fs = require("fs");
const { chromium } = require("playwright-core");
const { standIn } = require("./stand_in.cjs");
const { TREE, OPEN, KEYED, KEY, SHOTS } = process.env;
const COUNT = 50000; // tokens of a very long answer
const limit = 1000 * Math.min(+process.env.LIMIT, 120);

let page, failures = 0;
const foreign = [], complaints = [];
const scripted = "scripted", fable = "fable-moe-15m";

async function claim(name, run) {
	try {
		await run();
		console.log(`ok ${name}`);
	} catch (e) {
		failures = 1;
		console.log(`not ok ${name}: ${String(e.stack).split("\n").slice(0, 4).join(" ")}`);
		if (SHOTS) await page.screenshot({ path: `${SHOTS}/failed.png` });
	}
}
function same(is, wanted, what) {
	if (is !== wanted) throw new Error(`${what ?? "differ"}: '${is}' is not '${wanted}'`);
}
const shot = async (name) => SHOTS && (await page.screenshot({ path: `${SHOTS}/${name}.png` }));
const messages = () => page.locator("#messages > li");
const texts = () => page.locator("#messages > li .body").allInnerTexts();
// In the page, until it is so.
const until = (test, value) => page.waitForFunction(test, value, { timeout: limit, polling: 50 });
const bodies = (wanted) =>
	until((w) => {
		const all = [...document.querySelectorAll("#messages > li:not(.coming) .body")].map((b) => b.innerText);
		return JSON.stringify(all) === JSON.stringify(w);
	}, wanted).catch(async () => same(JSON.stringify(await texts()), JSON.stringify(wanted), "messages"));
const idle = () => page.waitForSelector("#send:not([hidden])", { timeout: limit });
const type = async (text) => {
	await idle();
	await page.focus("#prompt");
	await page.keyboard.type(text);
	await page.keyboard.press("Enter");
};
const sessions = (model) => fs.readdirSync(`${TREE}/${model}/sessions`).sort();
const link = (name) => page.locator(`#sessions a[data-session="${name}"]`);

async function open(url, options = {}) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
	page = await context.newPage();
	page.setDefaultTimeout(limit);
	page.on("request", (r) => r.url().startsWith(url) || foreign.push(r.url()));
	page.on("pageerror", (e) => complaints.push(e.message));
	page.on("console", (m) => /Content Security|Refused to/.test(m.text()) && complaints.push(m.text()));
	page.on("dialog", (d) => d.accept(answerDialog));
	await page.goto(url);
}

// The first screen names the models and has questions to begin with; nothing is made before one is asked.
async function first() {
	await page.selectOption("#model", scripted);
	await until((m) => location.hash.startsWith("#" + m), scripted);
	await page.waitForSelector("#home:not([hidden]) .questions button:nth-child(3)");
	same(await page.locator("#home h1").innerText(), "Ask a model that runs on this machine");
	const table = await page.locator("#home table").innerText();
	for (const part of [scripted, fable, "15.0 million weights", "4,096 tokens of context"]) if (!table.includes(part)) throw new Error(table);
	same(sessions(scripted).join(" "), "default");
	await until(() => /They end with the mount. To keep them, mount with -o sessions=DIR\./.test(document.getElementById("kept").textContent));
	const offered = () => page.locator("#home .questions button").allInnerTexts();
	same((await offered())[2], "What should I ask you to see what you can do?");
	await page.selectOption("#model", fable);
	await until(() => /Lithuania/.test(document.querySelector("#home .questions")?.innerText ?? ""));
	same((await offered()).join("\n") + "\n", fs.readFileSync(`${TREE}/${fable}/info/examples`, "utf8").split("\n").slice(0, 3).join("\n") + "\n");
	await page.selectOption("#model", scripted);
	await until(() => !/Lithuania/.test(document.querySelector("#home .questions")?.innerText ?? "Lithuania"));
	await page.locator("#help summary").click();
	await until(() => /sessions\/NAME/.test(document.querySelector("#help pre")?.textContent ?? ""));
	await page.locator("#help summary").click();
	await shot("first");
}

async function talk() {
	await page.click("#new");
	await until(() => location.hash.endsWith("chat-1"));
	await type("Say hello.");
	await bodies(["Say hello.", "Hello there."]);
	await until(() => /tokens\/s/.test(document.getElementById("stats").textContent));
	same(sessions(scripted).join(" "), "chat-1 default");
	await type("Think first.");
	await bodies(["Say hello.", "Hello there.", "Think first.", "It is done."]);
	const folded = page.locator("details.thoughts");
	same(await folded.getAttribute("open"), null, "thoughts are open");
	await folded.locator("summary").click();
	same((await folded.locator(".markdown").innerText()).trim(), "This is easy.");
}

// Editing a question, and asking again, keep the old: as branches, between which arrows lead.
async function again() {
	const both = ["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now."];
	await page.locator(".message.user").nth(1).getByRole("button", { name: "Edit" }).click();
	await page.locator(".editor textarea").fill("Say goodbye.");
	await page.keyboard.press("Enter");
	await bodies(both);
	await until(() => location.hash.endsWith("chat-1.2"));
	await page.getByRole("button", { name: "Again" }).click();
	await until(() => location.hash.endsWith("chat-1.3"));
	await idle();
	await bodies(both);
	same(sessions(scripted).join(" "), "chat-1 chat-1.2 chat-1.3 default");
	same(await page.locator("#sessions a").count(), 1, "conversations in the list");
	await page.getByRole("link", { name: "The version before" }).click();
	await bodies(["Say hello.", "Hello there.", "Think first.", "It is done."]);
	await until(() => /1 of 2/.test(document.querySelectorAll(".message.user")[1].querySelector(".versions")?.innerText ?? ""));
	fs.rmdirSync(`${TREE}/${scripted}/sessions/chat-1.2`);
	fs.renameSync(`${TREE}/${scripted}/sessions/chat-1`, `${TREE}/${scripted}/sessions/old`);
	fs.rmdirSync(`${TREE}/${scripted}/sessions/old`);
	fs.renameSync(`${TREE}/${scripted}/sessions/chat-1.3`, `${TREE}/${scripted}/sessions/chat-1`);
	await link("chat-1").click();
	await bodies(both);
	await page.locator(".message.user").nth(0).getByRole("button", { name: "Edit" }).click();
	await page.keyboard.press("Escape");
	same(JSON.parse(fs.readFileSync(`${TREE}/${scripted}/sessions/chat-1/messages.json`, "utf8")).length, 4, "messages in the tree");
}

async function markup() {
	await page.keyboard.press("Alt+n");
	await until(() => location.hash.endsWith("chat-2"));
	await type("Write a page.");
	await until(() => /That is all\.\s*$/.test(document.querySelector("#messages > li:last-child:not(.coming) .body")?.innerText ?? ""));
	const said = await messages().last().locator(".body").innerText();
	if (!said.includes('<script>window.owned = 1</script> <img src=x onerror="window.owned = 2"> & <b>bold</b>')) throw new Error(said);
	same(await page.locator(".block pre").innerText(), '<a href="javascript:owned=3">x</a>');
	same(await page.locator("#messages script, #messages img, #messages b, #messages a").count(), 0, "elements that a model made");
	same(await page.evaluate(() => typeof window.owned), "undefined", "what it wrote was run");
	await shot("markup");
}

// Markdown of a model's becomes elements of the page's own making.
async function markdown() {
	await page.keyboard.press("Alt+n");
	await until(() => !document.querySelector("#messages > li"));
	await type("Write Markdown.");
	await until(() => /raw<\/em>/.test(document.querySelector("#messages > li:last-child:not(.coming) .body")?.innerText ?? ""));
	const body = messages().last().locator(".body"), count = (what) => body.locator(what).count();
	for (const [what, n] of [["h3", 1], ["em", 1], ["strong", 1], ["del", 1], ["blockquote > p", 1], ["td.right", 1], ["li.task > input[disabled]", 2],
		["li.task > input:checked", 1], ["ol[start='3']", 1], ["math", 3], ["math[display='block'] mfrac", 1], [".block .t-keyword", 1], [".turn", 1],
		["img", 0], ["[id]", 0], ["script", 0], ["a", 3]])
		same(await count(what), n, what);
	const links = await body.locator("a").evaluateAll((all) => all.map((a) => [a.href, a.target, a.rel, a.textContent].join(" ")).join("|"));
	const how = "_blank noopener noreferrer";
	same(links, `https://example.org/ ${how} a name|https://other.example/x ${how} evil.example (other.example)|https://example.org/p.png ${how} picture`);
	const text = await body.innerText();
	for (const part of ["$5 and $10", "$\\nomacro$", "[no](javascript:1)", '<em id="ask">raw</em>', "U+202E"])
		if (!text.includes(part)) throw new Error(`no ${part} in ${text}`);
	await messages().last().getByRole("button", { name: "Raw" }).click();
	if (!(await body.innerText()).startsWith("# Title\n\nSome *soft*")) throw new Error(await body.innerText());
	await messages().last().getByRole("button", { name: "Raw" }).click();
	await until(() => document.querySelector("#messages > li:last-child .body h3"));
	await shot("markdown");
}

// Files are counted before they are sent, and go with the question as named blocks; what is no text gets a sentence.
async function attached() {
	await page.keyboard.press("Alt+n");
	await until(() => !document.querySelector("#messages > li") && !document.getElementById("room").hidden);
	const choose = (...all) => page.setInputFiles("#attach-files", all.map(([name, text]) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) })));
	const chips = () => page.locator("#files li").allInnerTexts();
	const complained = (what) => until((w) => document.getElementById("error").textContent.includes(w), what);
	const main = "int main(void)\n{\n\treturn 0;\n}\n", notes = "One\n```\ncode\n```\n";
	await choose(["main.c", main], ["notes.md", notes]);
	await until(() => document.querySelectorAll("#files li").length === 2 && /room for [\d,]+ more/.test(document.getElementById("room-words").textContent));
	const counted = await page.evaluate(async ([model, prompt]) => (await (await fetch("/tokenize", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ model, prompt }) })).json()).count, [scripted, "```c main.c\n" + main + "```\n\n"]);
	if (!new RegExp(`^main.c\\s+${main.length} bytes, ${counted} tokens`).test((await chips())[0])) throw new Error(`${await chips()} has not ${counted}`);
	await choose(["paper.pdf", "%PDF-1.7 ..."]);
	await complained("paper.pdf is a PDF, which models cannot read");
	await choose(["picture.png", "\x89PNG\0\0"], ["none.txt", ""]);
	await complained("picture.png is not a text file. The model reads text, not pictures, sound or programs. none.txt is empty.");
	await choose(["huge.txt", "x".repeat(600000)]);
	await complained("huge.txt has 600.0 KB; this model takes at most 524.3 KB: 75.7 KB too many");
	await choose(["long.txt", "q 1 ".repeat(60000)]);
	await until(() => /^[\d,]+ tokens too many/.test(document.getElementById("room-words").textContent));
	same(await page.evaluate(() => (({ value, high, low, optimum }) => value > high && optimum < low)(document.getElementById("context"))), true, "the meter warns");
	await page.fill("#prompt", "Say hello.");
	await page.press("#prompt", "Enter");
	await complained("This question is too large by ");
	same(await messages().count(), 0, "messages of a question that is too large");
	await page.getByRole("button", { name: "Leave out long.txt" }).click();
	await page.evaluate(() => {
		const data = new DataTransfer();
		data.items.add(new File(["dropped"], "dropped.txt"));
		window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
		const text = new DataTransfer();
		text.setData("text/plain", "pasted ".repeat(600));
		document.getElementById("prompt").dispatchEvent(new ClipboardEvent("paste", { clipboardData: text, bubbles: true, cancelable: true }));
	});
	await until(() => [...document.querySelectorAll("#files li span")].map((s) => s.textContent).sort().join() === "dropped.txt,main.c,notes.md,pasted.txt");
	await page.reload();
	await until(() => document.querySelectorAll("#files li").length === 4 && /tokens in this question/.test(document.getElementById("room-words").textContent));
	await shot("files");
	await page.getByRole("button", { name: "Leave out pasted.txt" }).click();
	await page.getByRole("button", { name: "Leave out dropped.txt" }).click();
	await page.press("#prompt", "Enter");
	await until(() => document.querySelector("#messages > li:last-child:not(.coming) .body")?.innerText === "Hello there.");
	const session = await page.evaluate(() => location.hash.split("/")[1]), sent = JSON.parse(fs.readFileSync(`${TREE}/${scripted}/sessions/${session}/messages.json`, "utf8"))[0].content;
	same(sent, "```c main.c\n" + main + "```\n\n````md notes.md\n" + notes + "````\n\nSay hello.", "what was sent");
	same((await page.locator("details.file summary").allInnerTexts()).join(), "main.c (4 lines),notes.md (4 lines)");
	same(await page.locator("#files li").count(), 0, "files that are still attached");
	same(await link(session).locator("span").innerText(), "Say hello.", "the conversation's title");
	const room = await page.evaluate(() => [document.getElementById("context").value, document.getElementById("room-words").textContent]);
	const held = JSON.parse(fs.readFileSync(`${TREE}/${scripted}/sessions/${session}/stats.json`, "utf8")).context_tokens;
	same(room.join(), `${held},${held} of 32,768 tokens`);
	fs.rmdirSync(`${TREE}/${scripted}/sessions/${session}`);
	await until(() => !location.hash.includes("chat-"));
}

// What a parser cannot do in time stays as it is, and what follows is marked up.
async function looping() {
	await page.click("#new");
	await until(() => !document.querySelector("#messages > li") && location.hash.includes("chat-"));
	const folder = `${TREE}/${scripted}/sessions/${await page.evaluate(() => location.hash.split("/")[1])}`;
	const said = `Before.\n\n${"*_".repeat(50000)}\n\nAfter *that*.`;
	fs.writeFileSync(`${folder}/messages.json`, JSON.stringify([{ role: "user", content: "Loop." }, { role: "assistant", content: said }]));
	await until(() => document.querySelector("#messages > li:last-child:not(.coming) .body em")?.innerText === "that");
	same(await page.locator("#messages .body .plain").count() > 0, true, "a plain block");
}

// Texts that are made to break a parser, or to look like something else: all that is said is there, and what follows is marked up.
async function hostile() {
	const texts = {
		quotes: ">".repeat(20000), lists: Array.from({ length: 500 }, (_, i) => " ".repeat(2 * i) + "- a").join("\n"), brackets: "[".repeat(50000), pictures: "![a](".repeat(5000),
		links: "[a](".repeat(20000), stars: "**a ".repeat(20000), ticks: "a " + "`".repeat(50001) + " a", table: "| a ".repeat(3000) + "|\n" + "|--".repeat(3000) + "|", braces: `$${"{".repeat(1900)}x${"}".repeat(1900)}$`,
		fractions: `$${"\\frac{1}{".repeat(300)}x${"}".repeat(300)}$`, macros: "$\\def\\a{\\a\\a}\\a$", dollars: "$a ".repeat(20000), code: "```js\n" + "`${".repeat(3000) + "\n```", url: "http://" + "a.".repeat(100),
		entities: "&#x202e;&lt;script&gt;", html: "<svg/onload=owned=1><iframe srcdoc=x><style>*{display:none}</style><base href=//evil.example>", rtl: "[\u202egood.example](https://other.example/)",
		disguised: "[go\u200bod.example](https://other.example/) [b\u00fccher.example](https://other.example/)", data: "[a](data:text/html,x) [b](vbscript:x) [c](//other.example) [d](JaVaScRiPt:x)",
	};
	const folder = `${TREE}/${scripted}/sessions/hostile`;
	fs.mkdirSync(folder);
	for (const [name, text] of Object.entries(texts)) {
		fs.writeFileSync(`${folder}/messages.json`, JSON.stringify([{ role: "user", content: name }, { role: "assistant", content: `${text}\n\nAfter *${name}*.` }]));
		if (!(await page.evaluate(() => location.hash.endsWith("hostile")))) await page.evaluate((m) => (location.hash = `#${m}/hostile`), scripted);
		await until((n) => [...document.querySelectorAll("#messages > li:last-child .body em, #messages > li:last-child .body .plain")].some((e) => e.textContent.includes(n)), name);
		same(await page.locator("#messages .body").locator("script, svg, iframe, style, base, img, [id], [style]").count(), 0, `elements of ${name}`);
		const links = await page.locator("#messages .body a").evaluateAll((all) => all.filter((a) => !/^https?:$/.test(a.protocol)).length);
		same(links, 0, `links of ${name}`);
		if (name === "rtl") same(await page.locator("#messages .body a bdi").innerText(), "(other.example)");
		if (name === "disguised") same((await page.locator("#messages .body a bdi").allInnerTexts()).join(), "(other.example),(other.example)");
	}
	same(await page.evaluate(() => typeof window.owned), "undefined", "what it wrote was run");
	fs.rmdirSync(folder);
	await until(() => !location.hash.includes("hostile"));
}

// A draft is its conversation's, also after a reload.
async function drafts() {
	await link("chat-1").click();
	await until(() => document.title.startsWith("chat-1 ·"));
	await page.fill("#prompt", "half a question");
	await link("chat-2").click();
	await until(() => document.getElementById("prompt").value === "");
	await page.goBack();
	await until(() => document.getElementById("prompt").value === "half a question");
	await page.reload();
	await until(() => document.getElementById("prompt").value === "half a question");
	await page.fill("#prompt", "");
	await until(() => document.querySelectorAll("#messages > li").length === 4);
}

// The connection is lost when a prompt has arrived, and again while its answer comes: it is asked once, and answered once.
async function lost() {
	let cut = 0;
	await page.route(/\/(prompt|output)(\?|$)/, async (route) => {
		if (cut++ > 1) return route.continue();
		if (route.request().method() === "PUT") await route.fetch();
		await route.abort();
	});
	await type("Say goodbye.");
	await bodies(["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now.", "Say goodbye.", "Goodbye for now."]);
	await page.unroute(/\/(prompt|output)(\?|$)/);
	same(cut > 1, true, "nothing was cut");
	const session = `${TREE}/${scripted}/sessions/chat-1`;
	same(JSON.parse(fs.readFileSync(`${session}/messages.json`, "utf8")).length, 6, "messages in the tree");
	fs.writeFileSync(`${session}/ctl`, "undo\n");
	await bodies(["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now."]);
	await page.keyboard.press("Alt+n");
}

async function two() {
	await page.click("#new");
	await until(() => location.hash.endsWith("chat-3"));
	await type("Which one is this?");
	await bodies(["Which one is this?", "The second conversation."]);
	await link("chat-1").click();
	await bodies(["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now."]);
	await page.goBack();
	await bodies(["Which one is this?", "The second conversation."]);
	await act("chat-3", "Remove");
	await until(() => !location.hash.endsWith("chat-3"));
	same(await link("chat-3").count(), 0, "a removed conversation in the list");
	same(sessions(scripted).join(" "), "chat-1 chat-2 chat-3 default");
	same(await page.locator("#undo p").innerText(), "Removed: Which one is this? Undo");
	await page.getByRole("button", { name: "Undo" }).click();
	await act("chat-3", "Remove");
	await until(() => !document.querySelector('#sessions a[data-session="chat-3"]'));
	await waitFor(() => !sessions(scripted).includes("chat-3"));
	same(sessions(scripted).join(" "), "chat-1 chat-2 default");
}

const act = async (name, what) => {
	const line = page.locator("#sessions li", { has: page.locator(`a[data-session="${name}"]`) });
	await line.locator("summary").click();
	await line.getByRole("button", { name: what, exact: true }).click();
};
const waitFor = async (test) => {
	for (const end = Date.now() + limit; !test(); ) {
		if (Date.now() > end) throw new Error(`never: ${test}`);
		await new Promise((done) => setTimeout(done, 50));
	}
};

// A conversation is renamed, found by any of its words, saved, and read again.
async function manage() {
	answerDialog = "greetings";
	await act("chat-1", "Rename");
	await link("greetings").waitFor();
	same(sessions(scripted).join(" "), "chat-2 default greetings");
	await page.fill("#search", "hello THERE");
	await until(() => [...document.querySelectorAll("#sessions a")].map((a) => a.dataset.session).join() === "greetings");
	await page.fill("#search", "");
	await until(() => document.querySelectorAll("#sessions a").length === 2);
	const [markdown] = await Promise.all([page.waitForEvent("download"), act("greetings", "Save as Markdown")]);
	same(fs.readFileSync(await markdown.path(), "utf8").split("\n").slice(0, 6).join("|"), "## You||Say hello.||## Model|");
	const [saved] = await Promise.all([page.waitForEvent("download"), act("greetings", "Save as JSON")]);
	await page.setInputFiles("#import-file", await saved.path());
	await bodies(["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now."]);
	await until(() => location.hash.endsWith("chat-1"));
	const [state] = await Promise.all([page.waitForEvent("download"), act("greetings", "Save its state")]);
	same(fs.readFileSync(await state.path()).equals(fs.readFileSync(`${TREE}/${scripted}/sessions/greetings/state`)), true, "the state");
	await page.setInputFiles("#import-file", { name: "greetings.state", mimeType: "application/octet-stream", buffer: fs.readFileSync(await state.path()) });
	await bodies(["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now."]);
	await until(() => location.hash.endsWith("chat-3"));
	await waitFor(() => sessions(scripted).includes("chat-3"));
	fs.rmdirSync(`${TREE}/${scripted}/sessions/chat-3`);
	await until(() => !location.hash.includes("chat-3"));
	await link("chat-1").click();
	await bodies(["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now."]);
	fs.rmdirSync(`${TREE}/${scripted}/sessions/greetings`);
	await link("greetings").waitFor({ state: "detached" });
}
let answerDialog;

// A turn that fails was never there: what was asked is in its box again, to be made shorter.
async function refused() {
	const context = +fs.readFileSync(`${TREE}/${scripted}/info/context`, "utf8"), long = "a ".repeat(context) + "?";
	await page.click("#new");
	await until(() => !document.querySelector("#messages > li"));
	await page.fill("#prompt", long);
	await page.press("#prompt", "Enter");
	await until((text) => document.querySelector("#prompt").value === text && !document.querySelector("#send").hidden, long);
	await until(() => /context has 32,768\. Shorten it by about [\d,]+ tokens/.test(document.getElementById("error").innerText));
	await page.fill("#prompt", "Say hello.");
	await page.getByRole("button", { name: "Drop the oldest turns" }).click();
	await bodies(["Say hello.", "Hello there."]);
	const session = await page.evaluate(() => location.hash.split("/")[1]);
	await until(() => document.getElementById("error").hidden);
	await waitFor(() => fs.readFileSync(`${TREE}/${scripted}/sessions/${session}/params/on_full`, "utf8") === "auto\n");
}

async function shell() {
	const at = `${TREE}/${scripted}/sessions/of a shell`;
	fs.mkdirSync(at);
	await until(() => document.querySelector('#sessions a[data-session="of a shell"] span')?.textContent === "Empty");
	fs.writeFileSync(at + "/prompt", "Say hello.");
	await until(() => document.querySelector('#sessions a[data-session="of a shell"] span').textContent === "Say hello.");
	await link("of a shell").click();
	await bodies(["Say hello.", "Hello there."]);
	fs.writeFileSync(at + "/prompt", "Say goodbye.");
	await bodies(["Say hello.", "Hello there.", "Say goodbye.", "Goodbye for now."]);
	fs.rmdirSync(at);
	await link("of a shell").waitFor({ state: "detached" });
	await until(() => !location.hash.includes("shell"));
}

// A turn that goes on until the context is full, beside others that go on as long: tests/mount/lib.sh, begin_long.
const ha = "ha ".repeat(30).trim();
function beside(count) {
	for (let i = 0; i < count; i++) {
		const at = `${TREE}/${fable}/sessions/beside-${i}`;
		fs.mkdirSync(at);
		for (const [k, v] of [["max_tokens", "0"], ["temperature", "0"], ["chat", "off"], ["stop_repetition", "off"]]) fs.writeFileSync(`${at}/params/${k}`, v);
		fs.writeFileSync(at + "/prompt", ha);
	}
	return () => {
		for (let i = 0; i < count; i++) fs.rmdirSync(`${TREE}/${fable}/sessions/beside-${i}`);
	};
}
async function param(name, value) {
	const box = page.locator("#param-" + name);
	await page.waitForSelector("#params-fold:not([hidden])");
	for (const fold of ["#params-fold", "#params-fold > details"])
		if (!(await page.locator(fold).evaluate((d) => d.open))) await page.locator(fold + " > summary").click();
	if ((await box.evaluate((b) => b.localName)) === "select") await box.selectOption(value);
	else await box.fill(value), await box.press("Tab");
}
async function stop() {
	await page.selectOption("#model", fable);
	await until((m) => location.hash.startsWith("#" + m), fable);
	await page.click("#new");
	await until(() => location.hash.endsWith("chat-1"));
	await param("temperature", "hot");
	await until(() => /"hot" is not a number/.test(document.getElementById("params").textContent));
	await param("temperature", "0");
	await param("max_tokens", "0");
	await param("stop_repetition", "off");
	await param("chat", "off");
	const params = `${TREE}/${fable}/sessions/chat-1/params`;
	for (let i = 0; i < limit / 50 && fs.readFileSync(params + "/chat", "utf8") !== "off\n"; i++) await page.waitForTimeout(50);
	same(fs.readFileSync(params + "/temperature", "utf8") + fs.readFileSync(params + "/chat", "utf8"), "0\noff\n", "params");
	const over = beside(8);
	try {
		await type(ha);
		await until(() => (document.querySelector(".coming .body")?.innerText ?? "").length > 20);
		same(fs.readFileSync(`${TREE}/${fable}/sessions/chat-1/status`, "utf8"), "generating\n", "what streams");
		await shot("stream");
		await page.keyboard.press("Escape");
		await idle();
		same(fs.readFileSync(`${TREE}/${fable}/sessions/chat-1/status`, "utf8"), "stopped\n");
		await until(() => / · stopped$/.test(document.getElementById("stats").textContent));
	} finally {
		over();
	}
}

// The panel of params is made from info/params.json; what differs is marked, and goes back.
async function panel() {
	const at = `${TREE}/${fable}/sessions/chat-2/params/`, file = (name) => fs.readFileSync(at + name, "utf8");
	await page.click("#new");
	await until(() => location.hash.endsWith("chat-2"));
	await page.waitForSelector("#params-fold:not([hidden])");
	const changed = (text) => until((t) => document.getElementById("params-changed").textContent === t, text);
	const preset = async (name, temperature, min) => {
		await page.getByRole("button", { name, exact: true }).click();
		await until((n) => document.querySelector(`#presets [data-preset=${n}]`).getAttribute("aria-pressed") === "true", name);
		same(file("temperature") + file("min_p"), `${temperature}\n${min}\n`, name);
	};
	if (!(await page.locator("#presets").isVisible())) await page.locator("#params-fold > summary").click();
	await preset("precise", "0.35", "0");
	await changed("1 changed");
	await preset("creative", "1.05", "0.05");
	await changed("2 changed");
	await preset("balanced", "0.7", "0");
	await changed("");
	await param("seed", "17");
	await param("priority", "low");
	await param("system", "Be brief.");
	await changed("3 changed");
	same(file("seed") + file("priority") + file("system"), "17\nlow\nBe brief.\n");
	for (const label of ["Seed", "Priority", "System message"]) await page.getByRole("button", { name: `${label}: back to` }).click();
	await changed("");
	same(file("seed") + file("priority") + file("system"), "random\nnormal\n\n");
	const list = JSON.parse(fs.readFileSync(`${TREE}/${fable}/info/params.json`, "utf8"));
	same(await page.locator(".param label code").evaluateAll((all) => all.map((c) => c.textContent).sort().join()), list.map((p) => p.name).sort().join());
	await page.locator("#param-top_k").focus();
	same(await page.locator("#param-top_k-help").isVisible(), true, "help of a field");
	await shot("params");
	same(await page.locator('#messages [data-act="Tokens"]').count(), 0, "tokens of a text that is no answer");
	await link("chat-1").click();
	await until(() => location.hash.endsWith("chat-1"));
}

async function repeats() {
	const params = `${TREE}/${fable}/sessions/chat-1/params`;
	for (const [k, v] of [["chat", "on"], ["stop_repetition", "on"], ["logit_bias", "17 100"]]) fs.writeFileSync(`${params}/${k}`, v + "\n");
	await type("Tell me a tale.");
	await until(() => /^256 tokens.*ended because it repeated itself$/.test(document.getElementById("stats").textContent));
	await page.getByRole("button", { name: "Continue" }).waitFor();
}

// Under the hood: an expert by keys and by tap, the last minute, what was known of the prompt, and an answer's tokens.
async function hood() {
	await page.click("#new");
	await until(() => !document.querySelector("#messages > li") && !location.hash.endsWith("chat-1"));
	const session = `${TREE}/${await page.evaluate(() => location.hash.slice(1).replace("/", "/sessions/"))}`;
	await type("What is the capital of Peru?");
	await until(() => /Lima/.test(document.querySelector("#messages > li:last-child:not(.coming)")?.innerText ?? ""));
	await page.getByRole("button", { name: "Tokens" }).click();
	await until(() => /kept from the next answer on/.test(document.getElementById("error").textContent));
	same(fs.readFileSync(session + "/params/logprobs", "utf8"), "6\n", "logprobs");
	await type("What is the capital of Chad?");
	await until(() => document.querySelectorAll("#messages > li:not(.coming)").length === 4 && !document.getElementById("send").hidden);
	await page.getByRole("button", { name: "Tokens" }).click();
	const lines = fs.readFileSync(session + "/logprobs.jsonl", "utf8").trim().split("\n").map((l) => JSON.parse(l));
	await until((n) => document.querySelectorAll(".token").length === n, lines.length);
	const facts = (i) => lines[i].top_logprobs.filter((o) => o.id !== lines[i].id).map((o) => JSON.stringify(o.token));
	await page.locator(".token").nth(1).click();
	await page.keyboard.press("ArrowRight");
	same((await page.locator(".token-facts li code").allInnerTexts()).join(), facts(2).map((t) => t.replace(/ +/g, " ")).join(), "alternatives of the third token");
	if (!(await page.locator(".token-facts strong").innerText()).startsWith(JSON.stringify(lines[2].token))) throw new Error("another token");
	await page.locator(".token").nth(0).hover();
	same((await page.locator(".token-facts li code").allInnerTexts()).join(), facts(0).join(), "by pointer");
	await shot("tokens");
	await page.getByRole("button", { name: "Tokens" }).click();
	same(await page.locator(".token").count(), 0, "tokens");
	const expert = (text) => until((t) => document.getElementById("expert").textContent.startsWith(t), text);
	await page.locator("#map").focus();
	for (const key of ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowLeft"]) await page.keyboard.press(key);
	await expert("01/001: in memory");
	await until(() => /; found \d+ times, missed \d+ times/.test(document.getElementById("expert").textContent));
	const b = await page.locator("#map").boundingBox(), side = b.width / 32;
	await page.mouse.click(b.x + 5.5 * side, b.y + 3.5 * side);
	await expert("03/005: ");
	await until(() => /^Of its \d+ tokens \d+ were computed already in this conversation/.test(document.getElementById("why").textContent));
	await until(() => document.querySelectorAll("#graph polyline").length === 4 && /Tokens/.test(document.getElementById("graph").textContent));
	fs.rmdirSync(session);
	await until(() => !location.hash.includes("chat-"));
	await link("chat-1").click();
}

async function look() {
	await until(() => /^\d+ of 256 experts are in memory$/.test(document.getElementById("map").getAttribute("aria-label")));
	const drawn = await page.evaluate(() => {
		const c = document.getElementById("map"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		const colours = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3]) colours.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
		return colours.size;
	});
	if (drawn < 3) throw new Error(`the map has ${drawn} colours`);
	await shot("desktop");
	const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	const light = await back();
	await page.emulateMedia({ colorScheme: "dark" });
	const dark = await back();
	if (light === dark) throw new Error("dark is light");
	await page.waitForTimeout(SHOTS ? 1500 : 0);
	await shot("dark");
	await page.click("#theme");
	await page.click("#theme"); // light, whatever the system has
	same(await back(), light);
	await page.click("#theme");
}

async function phone() {
	await page.setViewportSize({ width: 360, height: 640 });
	for (const box of ["#prompt", "#send", "#menu", "#facts", "#model"]) {
		const b = await page.locator(box).boundingBox();
		if (b.x < 0 || b.x + b.width > 360 || b.y < 0 || b.y + b.height > 640) throw new Error(`${box} is beyond the edge`);
	}
	same(await page.evaluate(() => document.documentElement.scrollWidth), 360, "width");
	same(await link("chat-1").isVisible(), false, "conversations lie over the talk");
	await page.click("#menu");
	await page.click("#new");
	await until(() => !document.querySelector("#messages > li"));
	await page.keyboard.press("Escape");
	await link("chat-1").waitFor({ state: "hidden" });
	await type("What is the capital of France?");
	await until(() => /Paris/.test(document.querySelector("#messages > li:last-child:not(.coming)")?.innerText ?? ""));
	await until(() => document.getElementById("stats").textContent);
	await shot("phone");
	// What stands below grows, as with a phone's keyboard: the end stays in sight.
	await page.fill("#prompt", "one\ntwo\nthree\nfour\nfive");
	const end = () => {
		const talk = document.getElementById("talk");
		return talk.scrollHeight > talk.clientHeight && talk.scrollHeight - talk.scrollTop - talk.clientHeight < 2;
	};
	await page.setViewportSize({ width: 360, height: 330 });
	await until(end);
	await page.fill("#prompt", "");
	await page.setViewportSize({ width: 360, height: 640 });
	await page.evaluate(() => document.getElementById("undo").append("Removed."));
	const toast = await page.locator("#undo").boundingBox(), box = await page.locator("#ask").boundingBox();
	same(toast.y > 0 && toast.y + toast.height < box.y, true, "a removal is told beside the question");
	await page.evaluate(() => document.getElementById("undo").replaceChildren());
	await page.click("#facts");
	await page.locator("#map").waitFor({ state: "visible" });
	await shot("phone-panel");
	await page.keyboard.press("Escape");
	same(await page.locator("#map").isVisible(), false, "the panel stays open");
}

// Every action has a key; ? lists them.
async function keys() {
	const on = async (key) => (await page.evaluate(() => document.activeElement?.blur()), page.keyboard.press(key));
	await page.selectOption("#model", scripted);
	await until(() => !document.getElementById("home").hidden);
	await on("?");
	await page.locator("#keys[open]").waitFor();
	same((await page.locator("#keys-list tr").count()) > 20, true, "keys");
	await shot("keys");
	await page.keyboard.press("Escape");
	await page.locator("#keys").waitFor({ state: "hidden" });
	await on("Alt+n");
	await until(() => location.hash.includes("chat-"));
	await on("/");
	await page.keyboard.type("Say hello.");
	await page.keyboard.press("Enter");
	await until(() => document.querySelectorAll("#messages > li:not(.coming)").length === 2 && !document.getElementById("send").hidden);
	same(await page.locator("#spoken").innerText(), "Hello there.", "what is said aloud");
	await on("Alt+r");
	await page.waitForSelector('#messages [data-act="Raw"][aria-pressed="true"]');
	await on("Alt+t");
	await until(() => /kept from the next answer on/.test(document.getElementById("error").textContent));
	await on("Alt+a");
	await until(() => /\.2$/.test(location.hash));
	const branch = `${TREE}/${await page.evaluate(() => location.hash.slice(1).replace("/", "/sessions/"))}`;
	await waitFor(() => fs.readFileSync(branch + "/status", "utf8") === "done\n" && fs.readFileSync(branch + "/logprobs.jsonl", "utf8"));
	await idle();
	await page.waitForSelector('#messages > li:last-child:not(.coming) [data-act="Tokens"]');
	await on("Alt+t");
	await page.waitForSelector(".token");
	await on("Alt+e");
	await page.waitForSelector(".editor textarea");
	await page.keyboard.press("Escape");
	answerDialog = "by key";
	await on("Alt+j");
	await until(() => decodeURIComponent(location.hash).endsWith("/by key"));
	await on("Alt+x");
	await until(() => !location.hash.includes("key"));
	await on("Alt+z");
	await link("by key").waitFor();
	await on("Alt+ArrowDown");
	await until(() => location.hash.includes("/"));
	await on("Alt+m");
	same(await page.evaluate(() => document.activeElement.id), "model");
	await on("Alt+s");
	same(await page.evaluate(() => document.activeElement.id), "search");
	const panel = () => page.locator("#panel").isVisible();
	const before = await panel();
	await on("Alt+p");
	same(await panel(), !before, "panel");
	await on("Alt+p");
	fs.rmdirSync(`${TREE}/${scripted}/sessions/by key`);
}

// Each block has its own direction, code none but its own; at 200 % nothing is beyond the edge.
async function everywhere() {
	await page.keyboard.press("Alt+n");
	await until(() => !document.querySelector("#messages > li") && location.hash.includes("chat-"));
	const folder = `${TREE}/${await page.evaluate(() => location.hash.slice(1).replace("/", "/sessions/"))}`;
	await type("Say hello.");
	await bodies(["Say hello.", "Hello there."]);
	const hebrew = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd";
	const said = `${hebrew}.\n\nEnglish.\n\n- ${hebrew}\n\n\`\`\`c\nint a; /* \u202e ${hebrew} */\n\`\`\`\n\n| ${hebrew} | b |\n|--|--|\n| 1 | 2 |`;
	const list = JSON.parse(fs.readFileSync(`${folder}/messages.json`, "utf8"));
	[list[0].content, list[1].content] = [hebrew, said];
	fs.writeFileSync(`${folder}/messages.json`, JSON.stringify(list));
	await page.waitForSelector("#messages table");
	const direction = (what) => page.locator(what).first().evaluate((e) => getComputedStyle(e).direction);
	const body = "#messages > li:last-child .body ", found = [];
	for (const what of ["p", "p + p", "ul", "li", "pre", "table"]) found.push(await direction(body + what));
	same(found.join(), "rtl,ltr,rtl,rtl,ltr,rtl");
	same(await direction("#messages > li:first-child .text"), "rtl", "the question");
	same(await page.locator(body + "pre .turn").innerText(), "U+202E");
	await page.setViewportSize({ width: 640, height: 400 });
	for (const box of ["#prompt", "#send", "#menu", "#help-keys", "#facts"]) {
		const b = await page.locator(box).boundingBox();
		if (b.x < 0 || b.x + b.width > 640 || b.y + b.height > 400) throw new Error(`${box} is beyond the edge`);
	}
	same(await page.evaluate(() => document.documentElement.scrollWidth), 640, "width");
	await shot("double");
	await page.setViewportSize({ width: 1280, height: 800 });
	fs.rmdirSync(folder);
	await until(() => !location.hash.includes("chat-"));
}

// A long answer of a stand-in server: what changes in the page for a token is the same at its end as at its beginning.
async function long() {
	const { url, done } = await standIn(OPEN, fable, COUNT);
	await open(url);
	await page.evaluate(() => {
		Object.assign(window, { changed: 0, longest: 0, marks: [] }); // marks[n]: changes until word n was there
		new MutationObserver((all) => {
			for (const m of all) window.changed += m.type === "childList" ? m.addedNodes.length + m.removedNodes.length : 1;
			const word = /word(\d+) [^]{0,200}$/.exec([...(document.querySelector(".coming .body")?.children ?? [])].slice(-2).map((e) => e.textContent).join(" ") + " ");
			if (word) window.marks[Math.floor(word[1] / 1000)] ??= window.changed;
		}).observe(document.getElementById("messages"), { childList: true, characterData: true, subtree: true });
		new PerformanceObserver((all) => all.getEntries().forEach((t) => (window.longest = Math.max(window.longest, t.duration)))).observe({ type: "longtask" });
	});
	await page.evaluate((m) => (location.hash = `#${m}/stand-in`), fable);
	await page.waitForFunction((n) => window.marks[n], COUNT / 1000 - 1, { timeout: 20 * limit, polling: 500 });
	const marks = await page.evaluate(() => window.marks), end = COUNT / 1000 - 1, first = marks[6] - marks[1], last = marks[end] - marks[end - 5];
	console.log(`# ${COUNT} tokens: ${first} changes of nodes for 5,000 tokens from the 1,000th on, ${last} for the last 5,000; the longest task took ${Math.round(await page.evaluate(() => window.longest))} ms`);
	if (!(last <= 1.2 * first)) throw new Error(`${last} changes at the end, ${first} at the beginning`);
	await page.context().close();
	done();
}

// Seven pages of a browser, in which an answer grows in each, have one connection each, and hidden ones have none.
async function tabs() {
	const { url, done, streams } = await standIn(OPEN, fable, Infinity);
	await open(url);
	const context = page.context(), pages = [page];
	while (pages.length < 7) pages.push(await context.newPage());
	for (const p of pages) {
		for (const other of pages) if (other !== p) await hide(other, true);
		await hide(p, false);
		await p.goto(`${url}#${fable}/stand-in`);
		await p.waitForFunction(() => document.querySelector(".coming .body")?.innerText.length > 20, null, { timeout: limit });
	}
	await waitFor(() => streams().output === 1);
	same(streams().most <= 2, true, `${streams().most} streams at once`);
	await hide(pages[6], true);
	await waitFor(() => streams().output === 0);
	await hide(pages[0], false);
	await waitFor(() => streams().output === 1);
	await pages[0].waitForFunction(() => document.querySelector(".coming .body")?.innerText.length > 20, null, { timeout: limit });
	await context.close();
	done();
}
// So do seven windows, all of which are seen: they take turns, and other requests are answered between.
async function windows() {
	const { url, done } = await standIn(OPEN, fable, Infinity, 1);
	await open(url);
	const context = page.context(), pages = [page];
	while (pages.length < 7) pages.push(await context.newPage());
	await Promise.all(pages.map((p) => p.goto(`${url}#${fable}/stand-in`)));
	const length = () => document.querySelector(".coming .body")?.innerText.length ?? 0;
	for (const p of pages) {
		await p.waitForFunction(length, null, { timeout: limit });
		const was = await p.evaluate(length);
		await p.waitForFunction((n) => document.querySelector(".coming .body")?.innerText.length > n, was, { timeout: limit });
		same(await p.evaluate(async () => (await fetch("/tree/kept")).status), 200);
	}
	await context.close();
	done();
}
// As if another tab were in front, or this one.
const hide = (p, is) =>
	p.evaluate((hidden) => {
		Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
		document.dispatchEvent(new Event("visibilitychange"));
	}, is);

async function locked() {
	await open(KEYED);
	await page.waitForSelector("#locked[open]");
	await page.fill("#key", "another");
	await page.keyboard.press("Enter");
	await until(() => /unknown/.test(document.getElementById("locked-why").textContent));
	await page.fill("#key", KEY);
	await page.keyboard.press("Enter");
	await page.waitForSelector("#home:not([hidden]) h1");
	same(await page.locator("#sessions a").count(), 0, "sessions of the shell");
	const model = await page.inputValue("#model");
	await type("What is the capital of France?");
	await until(() => document.querySelectorAll("#messages > li:not(.coming)").length === 2);
	await idle();
	same(sessions(model).some((s) => /^key-[0-9a-f]{16}-chat-1$/.test(s)), true, "its session in the tree");
}

let browser;
(async () => {
	browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: process.getuid() ? [] : ["--no-sandbox"] });
	try {
		await open(OPEN);
		await claim("the first screen names the models, and questions to begin with", first);
		await claim("a question is answered, with its thoughts folded", talk);
		await claim("a question is edited, and an answer made again", again);
		await claim("what a model writes stays text", markup);
		await claim("a draft belongs to its conversation, and survives a reload", drafts);
		await claim("where the connection is lost, a question is asked once and answered once", lost);
		await claim("several conversations are sessions of the tree", two);
		await claim("a conversation is renamed, found, saved and read again", manage);
		await claim("a question that is too long for the context is in its box again", refused);
		await claim("Markdown, code and formulas become elements, and nothing else does", markdown);
		await claim("files go with a question, once it is clear that they fit", attached);
		await claim("what a parser cannot do in time stays as it is", looping);
		await claim("what is made to break a parser breaks nothing", hostile);
		await claim("what a shell does appears", shell);
		await claim("params are set, an answer streams, and Escape stops it", stop);
		await claim("params are as info/params.json has them, and what differs goes back", panel);
		await claim("an answer that repeats itself says so, and can be continued", repeats);
		await claim("experts, the last minute, what was known of a prompt, and an answer's tokens", hood);
		await claim("the map of experts, dark and light", look);
		await claim("all of it on a phone", phone);
		await page.setViewportSize({ width: 1280, height: 800 });
		await claim("every action has a key", keys);
		await claim("each block has its own direction, and at 200 % all is there", everywhere);
		await claim("a very long answer costs no more at its end", long);
		await claim("seven pages answer at once, with one connection each", tabs);
		await claim("seven windows that are all seen take turns", windows);
		await claim("where a key is needed it is asked for", locked);
		await claim("nothing comes from elsewhere, and the browser complains of nothing", () => same([...foreign, ...complaints].join(" "), ""));
	} finally {
		await browser.close();
	}
	process.exit(failures);
})();
