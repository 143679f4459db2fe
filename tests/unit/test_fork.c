/* Forks of a context: both go on to the bit as one that was computed afresh, what they share is
 * counted once, and what one of them writes or gives up the other does not see. */
#include "engine/serve/observe.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEAD = KV_BLOCK + 6, TAIL = 20 }; /* a full block, and one that both go on in */

static const char *const fixtures[] = {"qwen3_moe", "qwen3_5_moe"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static struct test_model model;
static struct model_view view;
static struct err e;

static void load(const char *fixture)
{
	test_model_open(&model, test_fixture(fixture), &(struct engine_options){.threads = 2});
	test_wait_converted(model.model);
	model_observe(model.model, &view);
}

static int remove_stores(void **state)
{
	(void)state;
	test_stores_remove();
	return 0;
}

static void begin(struct context *x)
{
	context_init(x, view.context_budget, view.config, view.kv);
}

/* HEAD tokens that all texts have, and then TAIL of the seed's own. */
static void text_of(uint32_t seed, uint32_t text[HEAD + TAIL])
{
	for (uint32_t i = 0; i < HEAD + TAIL; i++)
		text[i] = (i * i * 7 + i * (i < HEAD ? 3 : seed) + seed * (i >= HEAD)) % 380;
}

static size_t row_bytes(void)
{
	return view.config->vocabulary * sizeof(float);
}

static float *go_on(struct context *x, const uint32_t *tokens, uint32_t n)
{
	float *logits = malloc(n * row_bytes());
	assert_non_null(logits);
	if (test_step(view.forward, x, tokens, n, logits, &e))
		fail_msg("%s", e.text);
	return logits;
}

/* The context, which holds less than the seed's text, computes it up to `end` as a new one does. */
static void assert_goes_to(struct context *x, uint32_t seed, uint32_t end)
{
	uint32_t text[HEAD + TAIL], held = (uint32_t)x->tokens.count;
	struct context afresh;
	text_of(seed, text);
	begin(&afresh);
	float *want = go_on(&afresh, text, end), *got = go_on(x, text + held, end - held);
	assert_memory_equal(got, (char *)want + held * row_bytes(), (end - held) * row_bytes());
	free(want);
	free(got);
	context_free(&afresh);
}

static void assert_goes_on(struct context *x, uint32_t seed)
{
	assert_goes_to(x, seed, HEAD + TAIL);
}

static void fork_of(struct context *to, const struct context *from)
{
	begin(to);
	if (context_fork(to, from, &e))
		fail_msg("%s", e.text);
	assert_int_equal(to->tokens.count, from->tokens.count);
}

static void begin_head(struct context *x)
{
	uint32_t text[HEAD + TAIL];
	text_of(0, text);
	begin(x);
	free(go_on(x, text, HEAD));
}

static void both_go_on_as_if_computed_afresh(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct context x, y, z;
		load(fixtures[i]);
		begin_head(&x);
		fork_of(&y, &x);
		assert_goes_to(&x, 11, HEAD + TAIL / 2);
		assert_goes_on(&y, 12);
		assert_goes_on(&x, 11); /* over what it wrote before the other did */
		fork_of(&z, &x);
		context_free(&x); /* the fork outlives what it was made of */
		context_rollback(&z, HEAD);
		assert_goes_on(&z, 13);
		context_rollback(&y, HEAD - 2); /* in a block that is shared */
		assert_goes_on(&y, 14);
		context_free(&y);
		context_free(&z);
		assert_int_equal(engine_context_used(model.engine), 0);
		test_model_close(&model);
	}
}

static void what_is_shared_is_counted_once(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct context x, y;
		load(fixtures[i]);
		begin_head(&x);
		uint64_t before = engine_context_used(model.engine);
		fork_of(&y, &x);
		assert_int_equal(engine_context_used(model.engine),
				 before + 2 * y.recurrent.bytes); /* the state, and a copy */
		assert_goes_on(&y, 5);
		assert_int_equal(engine_context_used(model.engine),
				 before + 2 * y.recurrent.bytes + y.block_bytes);
		context_free(&y);
		assert_int_equal(engine_context_used(model.engine), before);
		assert_goes_on(&x, 6);
		context_free(&x);
		test_model_close(&model);
	}
}

static void without_room_a_fork_fails_and_both_stay_as_they_were(void **state)
{
	(void)state;
	struct context x, y;
	uint32_t text[HEAD + TAIL];
	text_of(7, text);
	load("qwen3_moe");
	begin_head(&x);
	fork_of(&y, &x);
	uint64_t used = engine_context_used(model.engine);
	assert_int_equal(engine_set_context_budget(model.engine, used, &e), 0);
	assert_int_equal(test_step(view.forward, &y, text + HEAD, TAIL, NULL, &e), -ENOSPC);
	assert_int_equal(y.tokens.count, HEAD);
	assert_int_equal(engine_context_used(model.engine), used);
	assert_int_equal(engine_set_context_budget(model.engine, 4 * used, &e), 0);
	assert_goes_on(&y, 7);
	assert_goes_on(&x, 8);
	context_free(&x);
	context_free(&y);
	test_model_close(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_go_on_as_if_computed_afresh),
		cmocka_unit_test(what_is_shared_is_counted_once),
		cmocka_unit_test(without_room_a_fork_fails_and_both_stay_as_they_were),
	};
	return cmocka_run_group_tests(tests, NULL, remove_stores);
}
