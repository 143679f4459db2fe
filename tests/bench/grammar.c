/* The cost of constrained answers: a mask of a whole vocabulary for each token. */
#include "tests/bench/bench.h"

#include "engine/grammar/grammar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS_MOST = 1 << 16 };

struct grammar_bench {
	struct tokenizer *tokenizer;
	struct grammar_tokens *tokens;
	uint64_t *mask;
	float *logits, *scratch;
	uint64_t tokens_asked, state;
	double *seconds; /* of each token's mask */
};

static const struct {
	const char *name;
	enum grammar_form form;
	const char *source;
} forms[] = {
	{"json", FORM_JSON, ""},
	{"schema: names, numbers, a list of texts", FORM_SCHEMA,
	 "{\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\"},\"tags\":"
	 "{\"items\":{\"type\":\"string\"}}},\"required\":[\"name\",\"age\",\"tags\"]}"},
	{"schema: texts of at most 500 characters", FORM_SCHEMA,
	 "{\"items\":{\"type\":\"string\",\"maxLength\":500},\"minItems\":50}"},
	{"schema: any of 8 objects that begin alike", FORM_SCHEMA,
	 "{\"items\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/b\"},"
	 "{\"$ref\":\"#/$defs/c\"},{\"$ref\":\"#/$defs/d\"},{\"$ref\":\"#/$defs/e\"},"
	 "{\"$ref\":\"#/$defs/f\"},{\"$ref\":\"#/$defs/g\"},{\"$ref\":\"#/$defs/h\"}]},\"$defs\":{"
	 "\"a\":{\"properties\":{\"t\":{\"type\":\"string\"},\"a\":{}},\"required\":[\"t\",\"a\"]},"
	 "\"b\":{\"properties\":{\"t\":{\"type\":\"string\"},\"b\":{}},\"required\":[\"t\",\"b\"]},"
	 "\"c\":{\"properties\":{\"t\":{\"type\":\"string\"},\"c\":{}},\"required\":[\"t\",\"c\"]},"
	 "\"d\":{\"properties\":{\"t\":{\"type\":\"string\"},\"d\":{}},\"required\":[\"t\",\"d\"]},"
	 "\"e\":{\"properties\":{\"t\":{\"type\":\"string\"},\"e\":{}},\"required\":[\"t\",\"e\"]},"
	 "\"f\":{\"properties\":{\"t\":{\"type\":\"string\"},\"f\":{}},\"required\":[\"t\",\"f\"]},"
	 "\"g\":{\"properties\":{\"t\":{\"type\":\"string\"},\"g\":{}},\"required\":[\"t\",\"g\"]},"
	 "\"h\":{\"properties\":{\"t\":{\"type\":\"string\"},\"h\":{}},\"required\":[\"t\",\"h\"]}}"
	 "}"},
	{"regex: lines of words", FORM_REGEX, "([A-Za-z ]{1,80}\\n){1,200}"},
	{"regex: anything up to a word", FORM_REGEX, "(.|\\n)*END"},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* A random token that may follow; UINT32_MAX: none. */
static uint32_t choose(struct grammar_bench *b)
{
	uint32_t places = grammar_places(b->tokens);
	for (int tries = 0; tries < 64; tries++) {
		uint32_t i = (uint32_t)(random_u64(&b->state) % places);
		if (b->mask[i / 64] >> i % 64 & 1)
			return b->tokens->order[i];
	}
	uint32_t from = (uint32_t)(random_u64(&b->state) % places);
	for (uint32_t k = 0; k < places; k++) {
		uint32_t i = (from + k) % places;
		if (b->mask[i / 64] >> i % 64 & 1)
			return b->tokens->order[i];
	}
	return UINT32_MAX;
}

/* CPU time of this thread, so that other processes do not count. */
static double thread_seconds(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One text, until it ends or has enough tokens. */
static int one_text(struct grammar_bench *b, struct grammar *g, uint64_t *count, struct err *e)
{
	struct spots p;
	grammar_begin(g, &p);
	for (int i = 0; i < 200 && *count < b->tokens_asked; i++) {
		char bytes[GRAMMAR_MAX_TOKEN + 1];
		uint32_t allowed;
		double started = thread_seconds();
		int failed = grammar_mask(g, b->tokens, &p, b->mask, &allowed, e);
		if (!failed)
			grammar_apply(b->tokens, b->mask, allowed, b->logits, b->scratch);
		b->seconds[(*count)++] = thread_seconds() - started;
		if (failed)
			return failed;
		uint32_t id = choose(b);
		if (id == UINT32_MAX)
			return 0;
		size_t n = grammar_token_bytes(b->tokenizer, NULL, id, bytes);
		if (!n || !grammar_read(g, &p, bytes, n))
			return 0;
	}
	return 0;
}

static int ascending(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

static int one_form(struct grammar_bench *b, int i, struct table *t, struct err *e)
{
	struct grammar_request r = {.form = forms[i].form,
				    .source = forms[i].source,
				    .source_n = strlen(forms[i].source),
				    .thinking = THINKING_OFF,
				    .tokenizer = b->tokenizer};
	struct grammar *g;
	uint64_t count = 0;
	double started = thread_seconds();
	int failed = grammar_new(&g, &r, e);
	double compiled = thread_seconds() - started;
	if (failed)
		return failed;
	started = thread_seconds();
	failed = grammar_prepare(g, b->tokens, e);
	double prepared = thread_seconds() - started;
	while (!failed && count < b->tokens_asked)
		failed = one_text(b, g, &count, e);
	qsort(b->seconds, count, sizeof *b->seconds, ascending);
	table_text(t, forms[i].name);
	table_number(t, compiled * 1e3);
	table_number(t, prepared * 1e3);
	table_number(t, b->seconds[count / 2] * 1e6);
	table_number(t, b->seconds[count - 1 - count / 100] * 1e6);
	table_number(t, b->seconds[count - 1] * 1e6);
	table_number(t, (double)grammar_bytes(g) / (1 << 20));
	grammar_free(g);
	return failed;
}

static int all_forms(struct grammar_bench *b, struct report *r, struct err *e)
{
	static const struct column columns[] = {
		{"form", "form", -1},
		{"compile_ms", "compile ms", 2},
		{"prepare_ms", "prepare ms", 1},
		{"median_us", "median us", 1},
		{"most_of_100_us", "99 of 100 us", 1},
		{"worst_us", "worst us", 1},
		{"mib", "MiB", 1},
	};
	struct table t;
	int failed = 0;
	table_begin(&t, r, "forms", "masks", columns, sizeof columns / sizeof *columns);
	for (int i = 0; i < FORMS && !failed; i++)
		failed = one_form(b, i, &t, e);
	table_end(&t);
	return failed;
}

static int measure(struct grammar_bench *b, struct report *r, struct err *e)
{
	uint32_t end = (uint32_t)tokenizer_eos(b->tokenizer);
	double started = seconds_now();
	int failed = grammar_tokens_new(&b->tokens, b->tokenizer, NULL,
					tokenizer_size(b->tokenizer), &end, 1, e);
	if (failed)
		return failed;
	report_number(r, "tokens", "tokens", b->tokens->vocabulary, 0);
	report_number(r, "tree_ms", "the vocabulary's tree, ms", (seconds_now() - started) * 1e3,
		      1);
	report_number(
		r, "tree_mib", "its memory, MiB",
		((double)b->tokens->count * sizeof *b->tokens->nodes + 4. * b->tokens->vocabulary) /
			(1 << 20),
		1);
	b->mask = malloc((b->tokens->vocabulary / 64 + (size_t)1) * sizeof *b->mask);
	b->seconds = malloc(b->tokens_asked * sizeof *b->seconds);
	b->logits = calloc(b->tokens->vocabulary, sizeof *b->logits);
	b->scratch = malloc(b->tokens->vocabulary * sizeof *b->scratch);
	if (!b->mask || !b->seconds || !b->logits || !b->scratch)
		return err_set(e, ENOMEM, "out of memory");
	return all_forms(b, r, e);
}

int grammar_command(int argc, char **argv, struct err *e)
{
	struct grammar_bench b = {.tokens_asked = 2000, .state = 1};
	struct report r;
	const char *directory;
	bool as_json = false;
	const struct bench_option options[] = {
		{"tokens", OPTION_NUMBER, &b.tokens_asked, 1, STEPS_MOST, "masks of each form"},
		{"json", OPTION_FLAG, &as_json, 0, 0, "one JSON object instead of tables"},
	};
	const struct command_line line = {"grammar TOKENIZER", options,
					  sizeof options / sizeof *options, &directory, 1};
	int parsed = command_line_parse(&line, argc, argv, e);
	if (parsed)
		return parsed;
	int failed = tokenizer_open(&b.tokenizer, directory, e);
	if (failed)
		return failed;
	report_begin(&r, "grammar", as_json);
	failed = measure(&b, &r, e);
	int ended = report_end(&r, e);
	free(b.mask);
	free(b.logits);
	free(b.scratch);
	free(b.seconds);
	grammar_tokens_free(b.tokens);
	tokenizer_close(b.tokenizer);
	return failed ? failed : ended;
}
