/* moefs-bench page: the time for rendering a long conversation by a model's template and encoding
 * it, which precedes the first token of a turn. */
#include "engine/template/chat_template.h"
#include "engine/tokenizer/token.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct page {
	struct effort effort;
	uint64_t bytes;
	const char *file;
	struct tokenizer *tokenizer;
	struct chat_template *template;
	struct messages messages;
	struct json *tools;
	size_t rendered, tokens;
};

static const char TOOLS[] = "[{\"type\": \"function\", \"function\": {\"name\": \"run\", "
			    "\"description\": \"Runs a command.\", "
			    "\"parameters\": {\"type\": \"object\", \"properties\": {\"command\": "
			    "{\"type\": \"string\", "
			    "\"description\": \"What to run.\"}}, \"required\": [\"command\"]}}}]";

/* ---- the conversation: an agent's, of random words, numbers, code and marks ---- */

static void say(struct text_out *o, uint64_t *random, size_t bytes)
{
	static const char *const WORDS[] = {"the ",	 "of ",		 "a table ",
					    "file ",	 "reads ",	 "is written ",
					    "därüber ",	 "weights ",	 "\n\nThen ",
					    "0x7fff ",	 "for (i = 0; ", "return -EINVAL;\n\t",
					    "experts ",	 "— not ",	 "unsigned int ",
					    "naïve ",	 "日本語",	 "\t\tif (x) {\n",
					    "router ",	 "and so, ",	 "1024 ",
					    "3.14159 ",	 "\"quoted\" ",	 "moderately ",
					    "layer ",	 "<b>bold</b> ", "checkpoint's ",
					    "of_which_", "streams ",	 "however "};
	size_t from = o->n;
	char number[32];
	while (o->n - from < bytes && !o->failed) {
		uint64_t r = random_u64(random);
		size_t w = r % (sizeof WORDS / sizeof *WORDS + 2);
		if (w < sizeof WORDS / sizeof *WORDS) {
			text_out_string(o, WORDS[w]);
			continue;
		}
		for (size_t i = 0; i < 8; i++) /* a word that nobody has met */
			number[i] = (char)('a' + (r >> (8 + 5 * i) & 31) % 26);
		number[8] = ' ';
		text_out_add(o, number, 9);
	}
}

static int add_turn(struct page *p, uint64_t *random, size_t *bytes, struct err *e)
{
	struct text_out said[4] = {{0}};
	static const size_t LENGTHS[] = {300, 500, 200, 1000};
	char command[] = "{\"command\": \"make -j2 check\"}", name[] = "run";
	struct call call = {.name = name,
			    .name_n = sizeof name - 1,
			    .arguments = command,
			    .arguments_n = sizeof command - 1};
	struct calls calls = {.items = &call, .count = 1};
	int rc = 0;
	for (size_t i = 0; i < 4; i++) {
		say(&said[i], random, LENGTHS[i]);
		*bytes += said[i].n;
		if (said[i].failed)
			rc = err_set(e, ENOMEM, "no memory for a conversation");
	}
	if (rc == 0)
		rc = messages_add(&p->messages, "user", said[0].bytes, said[0].n, e);
	if (rc == 0)
		rc = messages_add_answer(&p->messages, said[1].bytes, said[1].n, said[2].bytes,
					 said[2].n, &calls, 0, e);
	if (rc == 0) {
		char id[CALL_ID + 1];
		message_call_id(id, 0, 0);
		rc = messages_add_result(&p->messages, id, strlen(id), said[3].bytes, said[3].n, e);
	}
	if (rc == 0)
		rc = messages_add_answer(&p->messages, said[2].bytes, said[2].n, "", 0, NULL, 0, e);
	for (size_t i = 0; i < 4; i++)
		text_out_free(&said[i]);
	return rc;
}

static int converse(struct page *p, struct err *e)
{
	uint64_t random = 1;
	size_t bytes = 0;
	int rc = json_parse_text(&p->tools, TOOLS, sizeof TOOLS - 1, "tools", e);
	while (rc == 0 && bytes < p->bytes)
		rc = add_turn(p, &random, &bytes, e);
	if (rc == 0)
		rc = messages_add(&p->messages, "user", "And now?", 8, e);
	return rc;
}

/* ---- measuring ---- */

/* One page: milliseconds of rendering and of encoding it. */
static int measure_once(struct page *p, double *render_ms, double *encode_ms, struct err *e)
{
	static const struct tm CLOCK = {.tm_year = 126, .tm_mday = 1};
	struct chat_input in = {
		.messages = &p->messages, .tools = p->tools, .clock = &CLOCK, .answer = true};
	struct template_text text = {0};
	struct token_list ids = {0};
	double from = seconds_now();
	int rc = chat_render(p->template, &in, NULL, &text, e);
	double between = seconds_now();
	if (rc == 0)
		rc = tokenizer_encode_rights(p->tokenizer, text.bytes, text.from, text.length, NULL,
					     &ids, e);
	*render_ms = (between - from) * 1e3;
	*encode_ms = (seconds_now() - between) * 1e3;
	p->rendered = text.length;
	p->tokens = ids.count;
	template_text_free(&text);
	token_list_free(&ids);
	return rc;
}

static int measure(struct page *p, struct report *r, struct err *e)
{
	static const struct column COLUMNS[] = {{"what", "what", -1}, {"ms", "ms", 2}};
	double times[3][ROUNDS_MOST];
	static const char *const NAMES[] = {"render", "encode", "both"};
	struct table t;
	for (size_t i = 0; i < p->effort.rounds; i++) {
		int rc = measure_once(p, &times[0][i], &times[1][i], e);
		if (rc < 0)
			return rc;
		times[2][i] = times[0][i] + times[1][i];
	}
	report_number(r, "messages", "messages", (double)p->messages.count, 0);
	report_number(r, "bytes", "rendered bytes", (double)p->rendered, 0);
	report_number(r, "tokens", "tokens", (double)p->tokens, 0);
	table_begin(&t, r, "page", "a page", COLUMNS, sizeof COLUMNS / sizeof *COLUMNS);
	for (size_t i = 0; i < 3; i++) {
		struct summary s = summarise(times[i], p->effort.rounds);
		table_text(&t, NAMES[i]);
		table_summary(&t, &s);
	}
	table_end(&t);
	return 0;
}

static int open_template(struct page *p, const char *model, struct err *e)
{
	char *text;
	size_t n;
	if (!p->file)
		return chat_template_open(&p->template, model, p->tokenizer, e);
	int rc = json_read_file(&text, &n, p->file, TEMPLATE_BYTES_MAX, e);
	if (rc < 0)
		return rc;
	rc = chat_template_open_text(&p->template, text, NULL, p->file, p->tokenizer, e);
	free(text);
	return rc;
}

int page_command(int argc, char **argv, struct err *e)
{
	struct page p = {.effort = effort_default(), .bytes = 100 << 10};
	const char *model;
	struct bench_option options[] = {
		EFFORT_OPTIONS(&p.effort),
		{"bytes", OPTION_NUMBER, &p.bytes, 1, 32 << 20, "of what is said"},
		{"template", OPTION_TEXT, &p.file, 0, 0, "a file instead of the model's own"}};
	struct command_line line = {"page MODEL", options, sizeof options / sizeof *options, &model,
				    1};
	struct report r;
	int rc = command_line_parse(&line, argc, argv, e);
	if (rc)
		return rc < 0 ? rc : 0;
	report_begin(&r, "page", p.effort.json);
	rc = tokenizer_open(&p.tokenizer, model, e);
	if (rc == 0)
		rc = open_template(&p, model, e);
	if (rc == 0)
		rc = converse(&p, e);
	if (rc == 0)
		rc = measure(&p, &r, e);
	messages_free(&p.messages);
	json_free(p.tools);
	chat_template_close(p.template);
	tokenizer_close(p.tokenizer);
	int ended = report_end(&r, rc < 0 ? NULL : e);
	return rc < 0 ? rc : ended;
}
