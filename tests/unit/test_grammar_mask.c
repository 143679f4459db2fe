/* Masks of a vocabulary: each must equal the result of reading every token by itself. */
#include "tests/unit/tokenizer_help.h"

#include "engine/grammar/grammar.h"
#include "random.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct vocabulary_under_test {
	struct tokenizer *t;
	struct grammar_tokens *tokens;
	uint32_t size, end;
	uint64_t *mask;
	bool *may, *want; /* by id */
	float *logits, *scratch;
};

static void open_vocabulary(struct vocabulary_under_test *v, const char *directory)
{
	struct err e = {0};
	must(tokenizer_open(&v->t, directory, &e), &e);
	v->size = tokenizer_size(v->t);
	v->end = (uint32_t)tokenizer_find(v->t, "<|im_end|>");
	must(grammar_tokens_new(&v->tokens, v->t, split_form_named(NULL), v->size, &v->end, 1, &e),
	     &e);
	v->mask = calloc(v->size / 64 + 1, 8);
	v->may = calloc(v->size, 1);
	v->want = calloc(v->size, 1);
	v->logits = calloc(v->size, sizeof *v->logits);
	v->scratch = calloc(v->size, sizeof *v->scratch);
}

static void close_vocabulary(struct vocabulary_under_test *v)
{
	free(v->mask);
	free(v->may);
	free(v->want);
	free(v->logits);
	free(v->scratch);
	grammar_tokens_free(v->tokens);
	tokenizer_close(v->t);
}

/* The tokens that may follow, as a mask of logits. */
static uint32_t ask(struct vocabulary_under_test *v, struct grammar *g, const struct spots *p)
{
	struct err e = {0};
	uint32_t allowed, left = 0;
	must(grammar_mask(g, v->tokens, p, v->mask, &allowed, &e), &e);
	for (uint32_t id = 0; id < v->size; id++)
		v->logits[id] = (float)id;
	grammar_apply(v->tokens, v->mask, allowed, v->logits, v->scratch);
	for (uint32_t id = 0; id < v->size; id++) {
		v->may[id] = v->logits[id] == (float)id;
		assert_true(v->may[id] || (isinf(v->logits[id]) && v->logits[id] < 0));
		left += v->may[id];
	}
	assert_int_equal(left, allowed);
	return allowed;
}

static void try_all(const struct vocabulary_under_test *v, struct grammar *g, const struct spots *p)
{
	char bytes[GRAMMAR_MAX_TOKEN + 1];
	for (uint32_t id = 0; id < v->size; id++) {
		struct spots to = *p;
		size_t n = grammar_token_bytes(v->t, split_form_named(NULL), id, bytes);
		v->want[id] =
			id == v->end ? grammar_may_end(g, p) : n && grammar_read(g, &to, bytes, n);
	}
}

static uint32_t some_token(const struct vocabulary_under_test *v, struct random *r)
{
	uint32_t from = random_u32(r) % v->size;
	for (uint32_t i = 0; i < v->size; i++) /* mostly short ones, which reach more states */
		if (v->may[(from + i) % v->size])
			return (from + i) % v->size;
	return UINT32_MAX;
}

/* At each token of a random path. */
static void check_way(struct vocabulary_under_test *v, const struct grammar_request *q,
		      struct random *r, int steps)
{
	struct err e = {0};
	struct grammar *g;
	struct spots p;
	must(grammar_new(&g, q, &e), &e);
	if (random_u32(r) & 1) /* which changes nothing */
		must(grammar_prepare(g, v->tokens, &e), &e);
	grammar_begin(g, &p);
	for (int i = 0; i < steps; i++) {
		char bytes[GRAMMAR_MAX_TOKEN + 1];
		ask(v, g, &p);
		try_all(v, g, &p);
		for (uint32_t id = 0; id < v->size; id++)
			if (v->may[id] != v->want[id])
				fail_msg("%.60s: step %d: token %u may%s follow", q->source, i, id,
					 v->want[id] ? "" : " not");
		uint32_t id = some_token(v, r);
		if (id == UINT32_MAX || id == v->end)
			break;
		assert_true(
			grammar_read(g, &p, bytes,
				     grammar_token_bytes(v->t, split_form_named(NULL), id, bytes)));
	}
	grammar_free(g);
}

static const struct {
	enum grammar_form form;
	const char *source;
} forms[] = {
	{FORM_JSON, ""},
	{FORM_REGEX, "(.|\\n)*"},
	{FORM_REGEX, "[a-z ]{0,300}[.!]"},
	{FORM_REGEX, "(yes|no|yesterday)( and [^ ]+)*"},
	{FORM_REGEX, "[\\u0400-\\u04ff ]*|\\d{3,7}"},
	{FORM_SCHEMA,
	 "{\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\"},"
	 "\"tags\":{\"items\":{\"type\":\"string\"}}},\"required\":[\"name\"]}"},
	{FORM_SCHEMA, "{\"items\":{\"maxLength\":40}}"},
	{FORM_SCHEMA,
	 "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{}}},"
	 "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"c\":{}}}]}"},
	{FORM_SCHEMA, "{\"properties\":{\"k\":{}},\"additionalProperties\":{\"type\":\"number\"}}"},
};
enum { FORMS = sizeof forms / sizeof *forms };

static struct grammar_request request_of(const struct vocabulary_under_test *v, int i)
{
	return (struct grammar_request){.form = forms[i].form,
					.source = forms[i].source,
					.source_n = strlen(forms[i].source),
					.thinking = THINKING_OFF,
					.tokenizer = v->t};
}

static void masks_are_what_each_token_gives(void **state)
{
	(void)state;
	struct random r = {3};
	struct vocabulary_under_test v;
	open_vocabulary(&v, "examples/models/fable-moe-15m");
	for (int i = 0; i < FORMS; i++) {
		struct grammar_request q = request_of(&v, i);
		for (int k = 0; k < 6; k++)
			check_way(&v, &q, &r, 25);
	}
	close_vocabulary(&v);
}

static void masks_of_a_real_vocabulary(void **state)
{
	(void)state;
	struct random r = {4};
	struct vocabulary_under_test v;
	char *directory = temporary_directory();
	bool there = copy_foreign(directory, "tokenizers/qwen3", "vocab.json.zst", "merges.txt.zst",
				  "added_tokens.json", "tokenizer_config.json", NULL);
	if (there) {
		open_vocabulary(&v, directory);
		assert_true(v.size > 151000);
		for (int i = 0; i < FORMS; i++) {
			struct grammar_request q = request_of(&v, i);
			check_way(&v, &q, &r, 8);
		}
		close_vocabulary(&v);
	}
	remove_directory(directory);
	if (!there)
		skip();
}

static const char tools_text[] =
	"[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":"
	"\"object\","
	"\"properties\":{\"a\":{\"type\":\"integer\"},\"note\":{\"type\":\"string\"}},"
	"\"required\":[\"a\"]}}},{\"name\":\"now\"}]";

/* Thoughts, marks that are tokens, calls in both forms. */
static void masks_of_calls_and_thoughts(void **state)
{
	(void)state;
	struct random r = {5};
	struct err e = {0};
	struct vocabulary_under_test v;
	struct json *tools;
	open_vocabulary(&v, FIXTURE);
	must(json_parse_text(&tools, tools_text, strlen(tools_text), "tools", &e), &e);
	for (int i = 0; i < 16; i++) {
		struct grammar_request q = {.form = i & 1 ? FORM_JSON : FORM_TEXT,
					    .source = "calls",
					    .tools = tools,
					    .tool = "add",
					    .tags = i & 2,
					    .choice = (enum grammar_choice)(i >> 2),
					    .thinking = (enum split_thinking)(i % 3),
					    .tokenizer = v.t};
		check_way(&v, &q, &r, 30);
	}
	json_free(tools);
	close_vocabulary(&v);
}

/* ---- several threads ---- */

enum { WALKERS = 4, WALKS = 5, WALK_STEPS = 20 };

/* Walks through a grammar that others walk through as well, and through one of its own. */
struct walker {
	struct vocabulary_under_test *v;
	struct grammar *shared, *own;
	uint64_t *mask, *own_mask; /* [size / 64 + 1] */
	struct random random;
	bool differs;
};

/* A token that the mask allows and that continues the text; -1: none. */
static int64_t walker_choose(struct walker *w)
{
	const struct grammar_tokens *t = w->v->tokens;
	uint32_t from = random_u32(&w->random) % t->text_count;
	for (uint32_t i = 0; i < t->text_count; i++) {
		uint32_t place = (from + i) % t->text_count;
		if (w->mask[place >> 6] >> (place & 63) & 1)
			return t->order[place];
	}
	return -1;
}

static void walker_walk(struct walker *w)
{
	struct spots at, own_at;
	struct err e;
	uint32_t allowed, own_allowed;
	const size_t bytes = (grammar_places(w->v->tokens) + 63) / 64 * sizeof *w->mask;
	grammar_begin(w->shared, &at);
	grammar_begin(w->own, &own_at);
	for (int i = 0; i < WALK_STEPS && !w->differs; i++) {
		char text[GRAMMAR_MAX_TOKEN + 1];
		w->differs = grammar_mask(w->shared, w->v->tokens, &at, w->mask, &allowed, &e) ||
			     grammar_mask(w->own, w->v->tokens, &own_at, w->own_mask, &own_allowed,
					  &e) ||
			     allowed != own_allowed || memcmp(w->mask, w->own_mask, bytes) != 0;
		int64_t id = w->differs ? -1 : walker_choose(w);
		if (id < 0)
			return;
		size_t n = grammar_token_bytes(w->v->t, split_form_named(NULL), (uint32_t)id, text);
		w->differs = !grammar_read(w->shared, &at, text, n) ||
			     !grammar_read(w->own, &own_at, text, n);
	}
}

static void *walker_main(void *arg)
{
	struct walker *w = arg;
	for (int i = 0; i < WALKS; i++)
		walker_walk(w);
	return NULL;
}

static void walkers_share(struct vocabulary_under_test *v, const struct grammar_request *q)
{
	struct walker w[WALKERS];
	pthread_t thread[WALKERS];
	struct grammar *shared;
	struct err e = {0};
	must(grammar_new(&shared, q, &e), &e);
	for (size_t i = 0; i < WALKERS; i++) {
		w[i] = (struct walker){.v = v, .shared = shared, .random = {i + 1}};
		must(grammar_new(&w[i].own, q, &e), &e);
		w[i].mask = calloc(v->size / 64 + 1, sizeof *w[i].mask);
		w[i].own_mask = calloc(v->size / 64 + 1, sizeof *w[i].own_mask);
		assert_true(w[i].mask && w[i].own_mask);
	}
	for (size_t i = 0; i < WALKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, walker_main, &w[i]), 0);
	for (size_t i = 0; i < WALKERS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_false(w[i].differs);
		grammar_free(w[i].own);
		free(w[i].mask);
		free(w[i].own_mask);
	}
	grammar_free(shared);
}

static void threads_that_share_a_grammar_see_the_masks_of_one_alone(void **state)
{
	(void)state;
	struct vocabulary_under_test v;
	open_vocabulary(&v, "examples/models/fable-moe-15m");
	for (int i = 0; i < FORMS; i++) {
		struct grammar_request q = request_of(&v, i);
		walkers_share(&v, &q);
	}
	close_vocabulary(&v);
}

/* With the text after it such a token would look like the mark of a call. */
static void a_token_with_the_byte_of_marks_is_in_no_text(void **state)
{
	(void)state;
	struct vocabulary_under_test v;
	char bytes[GRAMMAR_MAX_TOKEN + 1];
	uint32_t with_it = 0;
	open_vocabulary(&v, "examples/models/fable-moe-15m");
	for (uint32_t id = 0; id < v.size; id++) {
		size_t n;
		const char *text = tokenizer_bytes(v.t, id, false, &n);
		bool never = false;
		if (!n || !memchr(text, GRAMMAR_MARK, n))
			continue;
		with_it++;
		assert_int_equal(grammar_token_bytes(v.t, split_form_named(NULL), id, bytes), 0);
		for (uint32_t i = 0; i < v.tokens->never_count; i++)
			never |= v.tokens->never[i] == id;
		assert_true(never);
	}
	assert_true(with_it > 0); /* it is a vocabulary of bytes */
	close_vocabulary(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masks_are_what_each_token_gives),
		cmocka_unit_test(masks_of_a_real_vocabulary),
		cmocka_unit_test(masks_of_calls_and_thoughts),
		cmocka_unit_test(threads_that_share_a_grammar_see_the_masks_of_one_alone),
		cmocka_unit_test(a_token_with_the_byte_of_marks_is_in_no_text),
	};
	return cmocka_run_group_tests_name("masks of grammars", tests, NULL, NULL);
}
