/* Routing traces: from lines to visits; the only effect of a wrong file is a sentence. */
#include "tests/bench/trace.h"

#include "golden.h"
#include "random.h"
#include "store_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

struct fixture {
	char folder[32], path[64];
	struct trace trace;
	struct err e;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	assert_non_null(f);
	test_folder_make(f->folder);
	(void)snprintf(f->path, sizeof f->path, "%s/trace", f->folder);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	trace_free(&f->trace);
	test_folder_remove(f->folder);
	free(f);
	return 0;
}

static int read_bytes(struct fixture *f, const void *bytes, size_t n)
{
	FILE *file = fopen(f->path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
	trace_free(&f->trace);
	f->e = (struct err){0};
	return trace_read(&f->trace, f->path, &f->e);
}

static int read_text(struct fixture *f, const char *text)
{
	return read_bytes(f, text, strlen(text));
}

#define HEAD "turn,phase,step,layer,slot,expert,weight\n"

/* Two prompt tokens in two layers, of which the last leaves out the first token, and two tokens of
 * an answer. */
static const char small[] = "# a remark\n" HEAD "0,0,0,0,0,5,.6\n0,0,0,0,1,2,.4\n0,0,1,0,0,2,.9\n"
			    "0,0,1,0,1,9,.1\n0,0,1,1,0,7,.5\n0,0,1,1,1,0,.5\n"
			    "0,1,2,0,0,4,.7\n0,1,2,0,1,3,.3\n0,1,2,1,0,1,.5\n"
			    "0,1,3,0,0,4,.7\n0,1,3,0,1,8,.3\n0,1,3,1,0,1,.5\n";

static void assert_visit(const struct trace *t, size_t i, enum trace_phase phase, uint32_t layer,
			 uint32_t count, const uint32_t *experts)
{
	const struct trace_visit *v = &t->visits[i];
	assert_int_equal(v->phase, phase);
	assert_int_equal(v->layer, layer);
	assert_int_equal(v->count, count);
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(t->expert[v->first + k], experts[k]);
}

static void assert_small(const struct trace *t)
{
	assert_int_equal(t->layers, 2);
	assert_int_equal(t->experts, 10);
	assert_int_equal(t->turns, 1);
	assert_int_equal(t->tokens[TRACE_PROMPT], 2);
	assert_int_equal(t->tokens[TRACE_ANSWER], 2);
	assert_int_equal(t->visit_count, 6);
	assert_visit(t, 0, TRACE_PROMPT, 0, 3, (uint32_t[]){2, 5, 9});
	assert_visit(t, 1, TRACE_PROMPT, 1, 2, (uint32_t[]){0, 7});
	assert_visit(t, 2, TRACE_ANSWER, 0, 2, (uint32_t[]){3, 4});
	assert_visit(t, 3, TRACE_ANSWER, 1, 1, (uint32_t[]){1});
	assert_visit(t, 4, TRACE_ANSWER, 0, 2, (uint32_t[]){4, 8});
	const size_t first = t->visits[2].first; /* 4, then 3 */
	assert_int_equal(t->rank[first], 1);
	assert_int_equal(t->rank[first + 1], 0);
}

static void a_chunk_is_one_visit_per_layer_and_so_is_each_token_of_the_answer(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, small), 0);
	assert_small(&f->trace);
}

static void columns_are_found_by_their_names(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, "expert,x,layer,step,phase,turn\r\n4,,0,7,1,0\r\n"
				      "3,,0,7,1,0\r\n"),
			 0);
	assert_int_equal(f->trace.visit_count, 1);
	assert_visit(&f->trace, 0, TRACE_ANSWER, 0, 2, (uint32_t[]){3, 4});
}

static void an_expert_counts_once_in_a_visit_and_again_in_the_next(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, HEAD "0,1,0,0,0,4,1\n0,1,0,0,1,4,1\n0,1,1,0,0,4,1\n"), 0);
	assert_int_equal(f->trace.visit_count, 2);
	assert_visit(&f->trace, 0, TRACE_ANSWER, 0, 1, (uint32_t[]){4});
	assert_visit(&f->trace, 1, TRACE_ANSWER, 0, 1, (uint32_t[]){4});
}

static void layers_without_experts_are_not_counted(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, HEAD "0,1,0,3,0,1,1\n0,1,0,7,0,1,1\n"), 0);
	assert_int_equal(f->trace.layers, 2);
	assert_int_equal(f->trace.visits[0].layer, 0);
	assert_int_equal(f->trace.visits[1].layer, 1);
}

static void each_chunk_of_a_prompt_is_visited_by_itself(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, HEAD "0,0,0,0,0,1,1\n0,0,0,1,0,1,1\n0,0,1,0,0,1,1\n"
					   "0,0,1,1,0,1,1\n1,0,0,0,0,1,1\n1,0,0,1,0,1,1\n"),
			 0);
	assert_int_equal(f->trace.visit_count, 6);
	assert_int_equal(f->trace.turns, 2);
	assert_int_equal(f->trace.tokens[TRACE_PROMPT], 3);
	assert_int_equal(f->trace.tokens[TRACE_ANSWER], 0);
}

/* ---- credit ---- */

static void assert_credit(const struct trace *t, size_t visit, const double *credit)
{
	const struct trace_visit *v = &t->visits[visit];
	for (uint32_t k = 0; k < v->count; k++)
		assert_float_equal(t->credit[v->first + k], credit[k], 1e-7);
}

static void each_use_in_an_answer_counts_one(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, small), 0);
	assert_credit(&f->trace, 2, (double[]){1, 1});
	assert_credit(&f->trace, 3, (double[]){1});
	assert_credit(&f->trace, 4, (double[]){1, 1});
}

/* A tenth for a use by the chunk's last token, half of that 16 tokens before, a quarter 32 before.
 */
static void uses_in_a_prompt_count_less_the_longer_before_its_end(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, HEAD "0,0,8,0,0,3,1\n0,0,8,0,1,7,1\n0,0,24,0,0,3,1\n"
					   "0,0,24,0,1,5,1\n0,0,40,0,0,3,1\n0,0,40,0,1,9,1\n"
					   "0,0,40,1,0,2,1\n"),
			 0);
	assert_visit(&f->trace, 0, TRACE_PROMPT, 0, 4, (uint32_t[]){3, 5, 7, 9});
	assert_credit(&f->trace, 0, (double[]){0.175, 0.05, 0.025, 0.1});
	assert_credit(&f->trace, 1, (double[]){0.1});
}

static void credit_does_not_depend_on_the_order_of_a_chunks_lines(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, HEAD "0,0,24,0,1,5,1\n0,0,40,0,1,9,1\n0,0,24,0,0,3,1\n"
					   "0,0,40,0,0,3,1\n0,0,8,0,1,7,1\n0,0,8,0,0,3,1\n"),
			 0);
	assert_credit(&f->trace, 0, (double[]){0.175, 0.05, 0.025, 0.1});
}

static void each_chunk_of_a_prompt_credits_to_its_own_end(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_text(f, HEAD "0,0,0,0,0,1,1\n0,0,16,0,0,2,1\n0,0,16,1,0,1,1\n"
					   "0,0,17,0,0,1,1\n0,0,33,0,0,1,1\n"),
			 0);
	assert_credit(&f->trace, 0, (double[]){0.05, 0.1});
	assert_credit(&f->trace, 2, (double[]){0.15});
}

/* ---- compressed ---- */

static uint8_t packed[4096];

static size_t pack(const char *text)
{
	size_t n = ZSTD_compress(packed, sizeof packed, text, strlen(text), 3);
	assert_false(ZSTD_isError(n));
	return n;
}

static void a_compressed_trace_is_the_same_trace(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(read_bytes(f, packed, pack(small)), 0);
	assert_small(&f->trace);
}

static void a_compressed_trace_that_is_cut_short_is_refused(void **state)
{
	struct fixture *f = *state;
	size_t n = pack(small);
	for (size_t cut = 4; cut < n; cut++)
		assert_int_equal(read_bytes(f, packed, cut), -EINVAL);
	assert_non_null(strstr(f->e.text, "middle"));
}

static void lines_go_on_from_one_piece_of_a_file_to_the_next(void **state)
{
	struct fixture *f = *state;
	enum { ROWS = 20000, ROW_MOST = 32 };
	char *text = calloc(ROWS, ROW_MOST);
	assert_non_null(text);
	size_t n = (size_t)sprintf(text, HEAD);
	for (int i = 0; i < ROWS; i++)
		n += (size_t)sprintf(text + n, "0,1,%d,0,0,%d,0.5\n", i, i % 1000);
	uint8_t *small_text = malloc(n);
	assert_non_null(small_text);
	size_t bytes = ZSTD_compress(small_text, n, text, n, 3);
	assert_false(ZSTD_isError(bytes));
	for (int plain = 0; plain < 2; plain++) {
		int failed = plain ? read_bytes(f, text, n) : read_bytes(f, small_text, bytes);
		assert_int_equal(failed, 0);
		assert_int_equal(f->trace.tokens[TRACE_ANSWER], ROWS);
		for (uint32_t i = 0; i < ROWS; i++)
			assert_visit(&f->trace, i, TRACE_ANSWER, 0, 1, (uint32_t[]){i % 1000});
	}
	free(small_text);
	free(text);
}

/* ---- refused ---- */

static void what_cannot_be_understood_is_refused_by_its_line(void **state)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
		{"", "no routing"},
		{"# only a remark\n" HEAD, "no routing"},
		{"hello\n", ":1:"},
		{"turn,phase,step,layer\n", "expert"},
		{"turn,turn,phase,step,layer,expert\n", "two columns"},
		{HEAD "0,2,0,0,0,1,1\n", "phase \"2\" must be a number below 2"},
		{HEAD "0,1,0,4096,0,1,1\n", "layer"},
		{HEAD "0,1,0,0,0,65536,1\n", "expert"},
		{HEAD "0,1,0,0,0,-1,1\n", "expert"},
		{HEAD "0,1,0,0,0,1e3,1\n", "expert"},
		{HEAD "0,1,0,0,0,,1\n", "expert"},
		{HEAD "0,1,99999999999999999999999,0,0,1,1\n", "step"},
		{HEAD "0,1,0,0,0,1,1\n0,1,0,0\n", ":3: 4 columns"},
		{HEAD "0,1,0,0,0,1,1,1\n", "too many"},
	};
	struct fixture *f = *state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(read_text(f, bad[i].text), -EINVAL);
		assert_non_null(strstr(f->e.text, f->path));
		if (!strstr(f->e.text, bad[i].words))
			fail_msg("\"%s\" does not say \"%s\"", f->e.text, bad[i].words);
	}
}

static void what_is_no_text_is_refused(void **state)
{
	struct fixture *f = *state;
	char long_line[TRACE_LINE_MOST + 2];
	memset(long_line, 'x', sizeof long_line);
	assert_int_equal(read_bytes(f, long_line, sizeof long_line), -EINVAL);
	assert_non_null(strstr(f->e.text, "too long"));
	assert_int_equal(read_bytes(f, HEAD "0,1,0\0,0", sizeof HEAD + 8), -EINVAL);
	assert_non_null(strstr(f->e.text, ":2: this is no text"));
	assert_int_equal(trace_read(&f->trace, f->folder, &f->e), -EISDIR);
	assert_int_equal(trace_read(&f->trace, "/nonexistent/trace", &f->e), -ENOENT);
}

/* After any change: a trace within its limits, or a sentence. */
static void damaged_traces_end_in_words_or_in_a_trace(void **state)
{
	struct fixture *f = *state;
	struct random random = {4};
	uint8_t bytes[sizeof small + sizeof packed];
	for (int round = 0; round < 2000; round++) {
		size_t n = round % 2 ? pack(small) : strlen(small);
		memcpy(bytes, round % 2 ? packed : (const uint8_t *)small, n);
		for (uint64_t i = 0; i < 1 + (uint64_t)round % 3; i++)
			bytes[random_u32(&random) % n] = (uint8_t)random_u32(&random);
		int failed = read_bytes(f, bytes, n);
		assert_true(failed ? *f->e.text != '\0' : f->trace.visit_count > 0);
		for (size_t i = 0; i < f->trace.expert_count; i++)
			assert_true(f->trace.expert[i] < f->trace.experts &&
				    isfinite(f->trace.credit[i]));
		for (size_t i = 0; i < f->trace.visit_count; i++)
			assert_true(f->trace.visits[i].layer < f->trace.layers);
	}
}

/* ---- real ---- */

static void a_real_trace_has_the_visits_of_its_model(void **state)
{
	struct fixture *f = *state;
	const char *path = shared_data("traces/qwen.route.csv.zst");
	if (!path)
		skip();
	const struct trace *t = &f->trace;
	if (trace_read(&f->trace, path, &f->e))
		fail_msg("%s", f->e.text);
	assert_int_equal(t->layers, 48);
	assert_int_equal(t->experts, 128);
	assert_int_equal(t->tokens[TRACE_PROMPT], 28);
	assert_int_equal(t->tokens[TRACE_ANSWER], 128);
	assert_int_equal(t->visit_count, 48 * (1 + 128));
	for (size_t i = 48; i < t->visit_count; i++) {
		assert_int_equal(t->visits[i].layer, i % 48);
		assert_int_equal(t->visits[i].count, 6);
	}
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FOLDER(a_chunk_is_one_visit_per_layer_and_so_is_each_token_of_the_answer),
		WITH_FOLDER(columns_are_found_by_their_names),
		WITH_FOLDER(an_expert_counts_once_in_a_visit_and_again_in_the_next),
		WITH_FOLDER(layers_without_experts_are_not_counted),
		WITH_FOLDER(each_chunk_of_a_prompt_is_visited_by_itself),
		WITH_FOLDER(each_use_in_an_answer_counts_one),
		WITH_FOLDER(uses_in_a_prompt_count_less_the_longer_before_its_end),
		WITH_FOLDER(credit_does_not_depend_on_the_order_of_a_chunks_lines),
		WITH_FOLDER(each_chunk_of_a_prompt_credits_to_its_own_end),
		WITH_FOLDER(a_compressed_trace_is_the_same_trace),
		WITH_FOLDER(a_compressed_trace_that_is_cut_short_is_refused),
		WITH_FOLDER(lines_go_on_from_one_piece_of_a_file_to_the_next),
		WITH_FOLDER(what_cannot_be_understood_is_refused_by_its_line),
		WITH_FOLDER(what_is_no_text_is_refused),
		WITH_FOLDER(damaged_traces_end_in_words_or_in_a_trace),
		WITH_FOLDER(a_real_trace_has_the_visits_of_its_model),
	};
	return cmocka_run_group_tests_name("traces", tests, NULL, NULL);
}
