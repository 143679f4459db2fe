/* A model's trace of the experts that its tokens use: the reference's routing, a line for each
 * token and layer, a star for each read, and the fate of drafts. */
#include "golden.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void told(void *ctx)
{
	(void)ctx;
}

static struct trace_reader *reader(struct model *m, const uint32_t *owner)
{
	struct trace_reader *t;
	struct err e = {0};
	if (model_trace_open(&t, m, owner, told, NULL, &e))
		fail_msg("%s", e.text);
	return t;
}

/* Reads all lines. A turn's lines are complete when the model is idle. */
static char *take(struct model *m, struct trace_reader *t)
{
	size_t n = 0, got;
	char *text = NULL;
	while (model_working(m))
		;
	do {
		text = realloc(text, n + TRACE_READ_BYTES + 1);
		assert_non_null(text);
		n += got = model_trace_read(t, text + n, TRACE_READ_BYTES);
	} while (got);
	assert_false(model_trace_has_lines(t));
	text[n] = 0;
	return text;
}

/* ---- the reference's routing ---- */

enum { LAYERS = 3, TOP_K = 4 };

static const int32_t *routing(const struct golden *g, unsigned layer)
{
	char name[32];
	(void)snprintf(name, sizeof name, "router.%u.experts", layer);
	return golden_get(g, name, "I32").data;
}

/* The text of the golden ids. */
static char *golden_text(struct model *m, const struct golden *g)
{
	struct golden_tensor ids = golden_get(g, "input_ids", "I32");
	char *numbers = calloc(ids.count + 1, 12);
	size_t n = 0;
	_Atomic bool stop = false;
	struct err e = {0};
	assert_non_null(numbers);
	for (size_t i = 0; i < ids.count; i++)
		n += (size_t)sprintf(numbers + n, "%d\n", ((const int32_t *)ids.data)[i]);
	int code;
	char *text = test_read(model_decode(m, numbers, n, &stop, &e), &code);
	char *again = test_read(model_encode(m, text, strlen(text), &stop, &e), &code);
	test_same_text(again, numbers);
	return text;
}

static void compare(const struct golden *g, char *trace, size_t tokens)
{
	unsigned seen = 0;
	for (char *at, *line = strtok_r(trace, "\n", &at); line;
	     line = strtok_r(NULL, "\n", &at), seen++) {
		unsigned position, layer, x[TOP_K];
		char name[16], kind[16], rest[4];
		for (char *c = line; *c; c++) /* stars are another test's */
			if (*c == '*')
				memmove(c, c + 1, strlen(c));
		int fields = sscanf(line, "%15s %u %15s %u %u %u %u %u %3s", name, &position, kind,
				    &layer, &x[0], &x[1], &x[2], &x[3], rest);
		assert_int_equal(fields, 4 + TOP_K);
		assert_string_equal(name, "golden");
		assert_string_equal(kind, "prompt");
		assert_true(position < tokens && layer < LAYERS);
		for (int i = 0; i < TOP_K; i++)
			assert_int_equal(x[i], routing(g, layer)[position * TOP_K + (size_t)i]);
	}
	assert_int_equal(seen, tokens * LAYERS);
}

static void the_trace_is_the_references_routing(void **state)
{
	(void)state;
	char golden[600];
	struct test_model m;
	struct err e = {0};
	if (!test_fixture("qwen3_moe"))
		skip();
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", test_fixture("qwen3_moe"));
	test_model_ready(&m, test_fixture("qwen3_moe"),
			 &(struct engine_options){.exact = 1, .chunk = 16});
	struct golden *g = golden_open(golden);
	char *text = golden_text(m.model, g);
	struct session *s = test_session(&m);
	session_name(s, 1, "golden");
	struct trace_reader *t = reader(m.model, NULL);
	struct answer *a;
	int code;
	assert_int_equal(session_score(s, text, strlen(text), &a, &e), 0);
	free(test_read(a, &code));
	assert_int_equal(code, 0);
	char *trace = take(m.model, t);
	compare(g, trace, golden_get(g, "input_ids", "I32").count);
	free(trace);
	free(text);
	model_trace_close(t);
	session_end(s);
	golden_close(g);
	test_model_close(&m);
}

/* ---- lines, stars and drafts ---- */

struct counts {
	unsigned kinds[3]; /* prompt, answer, draft */
	unsigned stars, lost;
	unsigned positions[2]; /* the smallest and largest position of the text */
};

static struct counts count(char *trace, const char *name)
{
	static const char *const kinds[] = {"prompt", "answer", "draft"};
	struct counts c = {.positions = {UINT32_MAX, 0}};
	for (char *at, *line = strtok_r(trace, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
		char called[64], kind[16];
		unsigned position, k = 0;
		if (!strncmp(line, "lost ", 5)) {
			c.lost++;
			continue;
		}
		assert_int_equal(sscanf(line, "%63s %u %15s", called, &position, kind), 3);
		assert_string_equal(called, name);
		while (k < 3 && strcmp(kinds[k], kind))
			k++;
		assert_true(k < 3);
		c.kinds[k]++;
		for (const char *p = line; (p = strchr(p, '*')); p++)
			c.stars++;
		if (k == 2)
			continue;
		c.positions[0] = position < c.positions[0] ? position : c.positions[0];
		c.positions[1] = position > c.positions[1] ? position : c.positions[1];
	}
	return c;
}

static void a_turn_has_a_line_for_each_token_and_layer(void **state)
{
	(void)state;
	enum { FABLE_LAYERS = 8 };
	static const char *const ways[] = {"off", "lookup 4"};
	unsigned drafts = 0;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct session *s = test_greedy_session(&fable);
		session_name(s, 1, "a b\\c");
		test_set(s, "draft", ways[i]);
		test_set(s, "chat", "off");
		test_set(s, "max_tokens", "24");
		struct trace_reader *t = reader(fable.model, NULL);
		free(test_ask(s, "ha ha ha ha ha ha ha ha"));
		char *trace = take(fable.model, t);
		struct counts c = count(trace, "a\\040b\\134c");
		struct session_stats st = test_stats(s);
		assert_int_equal(c.lost, 0);
		assert_int_equal(c.kinds[0], st.prompt_tokens * FABLE_LAYERS);
		assert_int_equal(c.kinds[1], (st.output_tokens - 1) * FABLE_LAYERS);
		assert_int_equal(c.positions[0], 0);
		assert_int_equal(c.positions[1], st.prompt_tokens + st.output_tokens - 2);
		assert_int_equal(c.stars, st.expert_misses);
		uint64_t fell = 0;
		for (unsigned k = 0; k < SESSION_DRAFTS; k++)
			fell += st.drafted[k] - st.draft_stood[k];
		assert_int_equal(c.kinds[2], fell * FABLE_LAYERS);
		drafts += st.drafted[0] > 0;
		free(trace);
		model_trace_close(t);
		session_end(s);
	}
	assert_int_equal(drafts, 1);
}

static void an_owner_reads_his_sessions_alone(void **state)
{
	(void)state;
	struct session *mine = test_greedy_session(&fable), *other = test_greedy_session(&fable);
	session_name(mine, 1, "mine");
	session_name(other, 2, "other");
	test_set(mine, "max_tokens", "4");
	test_set(other, "max_tokens", "4");
	struct trace_reader *all = reader(fable.model, NULL),
			    *t = reader(fable.model, &(uint32_t){1});
	free(test_ask(other, "What is 1 plus 1?"));
	char *trace = take(fable.model, t);
	assert_string_equal(trace, "");
	free(trace);
	free(test_ask(mine, "What is 1 plus 1?"));
	trace = take(fable.model, t);
	assert_true(count(trace, "mine").kinds[1] > 0);
	free(trace);
	trace = take(fable.model, all);
	assert_non_null(strstr(trace, "other "));
	assert_non_null(strstr(trace, "mine "));
	free(trace);
	model_trace_close(t);
	model_trace_close(all);
	session_end(mine);
	session_end(other);
}

/* The text is the same while somebody reads the trace. */
static void a_trace_changes_no_text(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *again = test_greedy_session(&fable);
	test_set(s, "max_tokens", "16");
	test_set(again, "max_tokens", "16");
	char *text = test_ask(s, "Tell me a tale of a fox.");
	struct trace_reader *t = reader(fable.model, NULL);
	test_same_text(test_ask(again, "Tell me a tale of a fox."), text);
	model_trace_close(t);
	session_end(s);
	session_end(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_trace_is_the_references_routing, stores_remove),
		cmocka_unit_test_setup_teardown(a_turn_has_a_line_for_each_token_and_layer,
						fable_load, fable_close),
		cmocka_unit_test_setup_teardown(an_owner_reads_his_sessions_alone, fable_load,
						fable_close),
		cmocka_unit_test_setup_teardown(a_trace_changes_no_text, fable_load, fable_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
