// A server that stands in for moefs-http where an answer has to be longer than the scripted model's: it passes everything on,
// but for a session `stand-in` of a model, in which an answer grows until it has `count` tokens, `pace` of them in 10 ms.
const http = require("http");

// Text with each kind of block; word N is token N, so that it can be awaited.
function* tokens(count) {
	for (let n = 1; n <= count; n++) {
		yield ` word${n} `;
		if (n % 97 === 0) yield "\n\n";
		else if (n % 499 === 0) yield "\n\n```c\nint x = 1; // one\nreturn x;\n```\n\n";
		else if (n % 701 === 0) yield "\n\n| a | b |\n|--|--|\n| *1* | **2** |\n\n";
		else if (n % 211 === 0) yield "\n\n- one\n- `two`\n\n";
	}
}

exports.standIn = async function (to, model, count, pace = 40) {
	const begins = `/tree/${model}/sessions`, open = { output: 0, most: 0 };
	const files = {
		"messages.json": JSON.stringify([{ role: "user", content: "Go on." }]) + "\n",
		log: "> Go on.\n", status: "generating\n", "stats.json": '{"output_tokens": 1, "context_tokens": 1}', why: "", error: "", "error.json": "{}", thoughts: "",
	};
	// From a byte on, for a second, as moefs-http does.
	function grow(reply, from) {
		const all = tokens(count);
		for (let at = 0; at < from; ) at += all.next().value.length; // parts end between tokens
		let turns = 100, next = all.next();
		if (next.done) return reply.end();
		open.output++;
		open.most = Math.max(open.most, open.output);
		reply.on("close", () => open.output--);
		reply.statusCode = 202;
		(function speak() {
			for (let i = 0; i < pace && !next.done; i++, next = all.next()) reply.write(next.value);
			if (next.done || !--turns) reply.end();
			else if (!reply.destroyed) setTimeout(speak, 10);
		})();
	}
	const server = http.createServer((request, reply) => {
		const own = request.url.startsWith(`${begins}/stand-in`), name = request.url.slice(`${begins}/stand-in/`.length).replace(/(?<!output)\?from=0$/, "");
		if (own && name.startsWith("output?from=")) return grow(reply, +name.split("=")[1]);
		if (own && name in files) return reply.end(files[name]);
		if (own && name) return reply.end("0\n");
		if (own) return reply.end("[]");
		const passed = http.request(to.slice(0, -1) + request.url, { method: request.method, headers: request.headers }, (answer) => {
			if (request.url !== begins) return reply.writeHead(answer.statusCode, answer.headers), answer.pipe(reply);
			let text = "";
			answer.on("data", (piece) => (text += piece)).on("end", () => reply.end(JSON.stringify([...JSON.parse(text), { name: "stand-in", folder: true, size: 0, changed: 0 }])));
		});
		passed.on("error", () => reply.destroy());
		request.pipe(passed);
	});
	await new Promise((done) => server.listen(0, "127.0.0.1", done));
	return {
		url: `http://127.0.0.1:${server.address().port}/`,
		streams: () => open,
		done: () => (server.closeAllConnections(), server.close()),
	};
};
