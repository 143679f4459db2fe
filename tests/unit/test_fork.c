/* Forks of a context: both continue bit for bit like a freshly computed one, shared memory is
 * counted once, and neither sees what the other writes or gives up. */
#include "context_help.h"
#include "forward_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const fixtures[] = {"qwen3_moe", "qwen3_5_moe", "gpt_oss", "gemma4_ple",
				       "qwen4_exp", "glm_moe_dsa", "minimax_m3", "glm5_next",
				       "deepseek_v4"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static struct err e;

static void fork_of(struct context *to, struct context *from)
{
	context_begin(to);
	pthread_mutex_lock(&to->budget->lock);
	int failed = context_fork(to, from, &e);
	pthread_mutex_unlock(&to->budget->lock);
	if (failed)
		fail_msg("%s", e.text);
	assert_int_equal(to->tokens.count, from->tokens.count);
}

static void begin_head(struct context *x)
{
	uint32_t text[HEAD + TAIL];
	context_text(0, text);
	context_begin(x);
	free(context_go_on(x, text, HEAD));
}

static void both_go_on_as_if_computed_afresh(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct context x, y, z;
		if (!contexts_load(fixtures[i], NULL))
			continue; /* its line said which is missing */
		begin_head(&x);
		fork_of(&y, &x);
		assert_goes_to(&x, 11, HEAD + TAIL / 2);
		assert_goes_on(&y, 12);
		assert_goes_on(&x, 11); /* over what it wrote before the other did */
		fork_of(&z, &x);
		context_free(&x); /* the fork outlives its original */
		context_rollback(&z, HEAD);
		assert_goes_on(&z, 13);
		context_rollback(&y, HEAD - 2); /* in a block that is shared */
		assert_goes_on(&y, 14);
		context_free(&y);
		context_free(&z);
		contexts_unload();
	}
}

static void what_is_shared_is_counted_once(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct context x, y;
		if (!contexts_load(fixtures[i], NULL))
			continue; /* its line said which is missing */
		begin_head(&x);
		uint64_t before = engine_context_used(model.engine);
		fork_of(&y, &x);
		assert_int_equal(engine_context_used(model.engine), before);
		assert_goes_on(&y, 5); /* in a state and a last block of its own */
		assert_int_equal(engine_context_used(model.engine),
				 before + y.recurrent.bytes + y.kv[KV_WHOLE].bytes +
					 y.kv[KV_WINDOWED].bytes + y.kv[KV_INDEX].bytes);
		context_free(&y);
		assert_int_equal(engine_context_used(model.engine), before);
		assert_goes_on(&x, 6);
		context_free(&x);
		contexts_unload();
	}
}

static void without_room_a_fork_fails_and_both_stay_as_they_were(void **state)
{
	(void)state;
	struct context x, y;
	uint32_t text[HEAD + TAIL];
	context_text(7, text);
	assert_true(contexts_load("qwen3_moe", NULL));
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
	contexts_unload();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_go_on_as_if_computed_afresh),
		cmocka_unit_test(what_is_shared_is_counted_once),
		cmocka_unit_test(without_room_a_fork_fails_and_both_stay_as_they_were),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
