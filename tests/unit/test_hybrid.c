/* A context with a recurrent state, of each kind: after going back to any position it computes the same as a
 * context that was never elsewhere, and recomputes only the tokens after a copy. */
#include "engine/admin/observe.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

enum { TOKENS = 96 };

static const char *fixture; /* of the tests that run */
static struct test_model hybrid;
static struct model_view view;
static uint32_t tokens[TOKENS];
static struct err e;

static int load(void **state)
{
	(void)state;
	test_model_ready(&hybrid, test_fixture(fixture),
			 &(struct engine_options){.quant = "bf16", .codec = "none"});
	observe_model(hybrid.model, &view);
	for (uint32_t i = 0; i < TOKENS; i++)
		tokens[i] = (i * 37 + 11) % 380;
	return 0;
}

static int unload(void **state)
{
	(void)state;
	test_model_close(&hybrid);
	test_stores_remove();
	return 0;
}

/* ---- contexts ---- */

static void begin(struct context *x)
{
	context_init(x, view.context_budget, view.config, KV_F32);
}

/* Computes ids[n] in steps of `chunk`, marking after each; leaves the last row's logits. */
static void compute(struct context *x, const uint32_t *ids, uint32_t n, uint32_t chunk)
{
	for (uint32_t done = 0; done < n; done += chunk) {
		uint32_t count = n - done < chunk ? n - done : chunk;
		if (test_step(view.forward, x, ids + done, count, NULL, &e))
			fail_msg("%s", e.text);
		recurrent_checkpoint(&x->recurrent, x->tokens.count);
	}
}

/* The logits after ids[n], and then after other[m], in a context of its own; malloc'ed. */
static float *fresh_logits(const uint32_t *ids, uint32_t n, const uint32_t *other, uint32_t m)
{
	struct context x;
	size_t bytes = view.config->vocabulary * sizeof(float);
	float *copy = malloc(bytes);
	assert_non_null(copy);
	begin(&x);
	compute(&x, ids, n, 7);
	compute(&x, other, m, 5);
	memcpy(copy, view.forward->logits, bytes);
	context_free(&x);
	return copy;
}

static void assert_logits(float *want)
{
	assert_memory_equal(view.forward->logits, want, view.config->vocabulary * sizeof(float));
	free(want);
}

static void after_a_rollback_it_computes_what_a_fresh_context_does(void **state)
{
	(void)state;
	static const uint32_t other[] = {5, 4, 3, 2, 1};
	struct context x;
	begin(&x);
	for (size_t to = TOKENS; to-- > 0;) {
		compute(&x, tokens + x.tokens.count, (uint32_t)(TOKENS - x.tokens.count), 16);
		size_t left = context_rollback(&x, to);
		assert_true(left <= to);
		assert_true(left + 16 > to || left == 0);
		assert_int_equal(left, x.tokens.count);
		compute(&x, tokens + left, (uint32_t)(to - left), 9);
		compute(&x, other, 5, 5);
		assert_logits(fresh_logits(tokens, (uint32_t)to, other, 5));
		context_rollback(&x, to);
	}
	context_free(&x);
	assert_int_equal(test_context_used(&hybrid), 0);
}

/* Stopped at any layer. */
static void a_step_that_was_stopped_leaves_no_trace(void **state)
{
	(void)state;
	struct forward *f = view.forward;
	for (uint32_t layer = 1; layer <= f->env.config->layers; layer++) {
		struct context x;
		begin(&x);
		compute(&x, tokens, 20, 20);
		f->env.tap = test_stop_at_state;
		test_states_left = layer;
		assert_int_equal(test_step(f, &x, tokens + 20, 9, NULL, &e), -ECANCELED);
		f->env.tap = NULL;
		atomic_store(&test_stopped, false);
		assert_int_equal(x.tokens.count, 20);
		compute(&x, tokens + 20, 9, 4);
		assert_logits(fresh_logits(tokens, 29, NULL, 0));
		context_free(&x);
	}
}

static void a_step_that_was_stopped_before_any_copy_begins_anew(void **state)
{
	(void)state;
	struct context x;
	begin(&x);
	atomic_store(&test_stopped, true);
	assert_int_equal(test_step(view.forward, &x, tokens, 9, NULL, &e), -ECANCELED);
	atomic_store(&test_stopped, false);
	assert_int_equal(x.tokens.count, 0);
	compute(&x, tokens, 29, 29);
	assert_logits(fresh_logits(tokens, 29, NULL, 0));
	context_free(&x);
}

static void its_memory_is_that_of_attention_layers_states_and_copies(void **state)
{
	(void)state;
	const struct config *c = view.config;
	struct context x;
	/* A session that ended during the last step of its turn gives its context back after it. */
	while (test_context_used(&hybrid))
		(void)nanosleep(&(const struct timespec){.tv_nsec = 1000000}, NULL);
	begin(&x);
	compute(&x, tokens, TOKENS, 64);
	/* One layer of attention in four, three of delta nets; two blocks of 64 positions. */
	size_t keys =
		context_pages((size_t)c->kv_heads * 2 * c->head_dim * KV_BLOCK * sizeof(float));
	const struct delta_net *n = &c->delta_net;
	size_t channels = 2 * n->key_heads * n->key_dim + n->value_heads * n->value_dim;
	size_t layer = (size_t)n->value_heads * n->key_dim * n->value_dim;
	layer += (n->width - 1) * channels;	      /* seen again by the convolution */
	layer += 4 * 2 * (channels + n->value_heads); /* for later drafts */
	size_t noted = c->hidden_size + 1;	      /* of the last position, for drafts */
	size_t recurrent = context_pages((3 * layer + noted) * sizeof(float));
	assert_int_equal(engine_context_used(hybrid.engine), 2 * keys + 3 * recurrent);
	assert_int_equal(context_full_bytes(c, KV_F32, 2 * KV_BLOCK, 64),
			 2 * keys + (1 + RECURRENT_CHECKPOINTS) * recurrent);
	context_free(&x);
}

/* A draft layer's weights are in the store, but are not counted as the model's parameters. */
static void bits_per_weight_are_those_of_the_weights_that_are_stored(void **state)
{
	(void)state;
	char text[32] = "";
	assert_true(view.plan->recipe.draft);
	test_wait_converted(hybrid.model);
	assert_int_equal(model_fact(hybrid.model, FACT_BITS_PER_WEIGHT, text, sizeof text), 0);
	double bits = strtod(text, NULL);
	if (bits < 16 || bits > 16.1) /* some vectors have 32 */
		fail_msg("%s", text);
}

/* ---- drafts ---- */

/* The logits of every position of `tokens`: [TOKENS][vocabulary], malloc'ed. */
static float *all_logits(void)
{
	struct context x;
	float *all = malloc((size_t)TOKENS * view.config->vocabulary * sizeof *all);
	assert_non_null(all);
	begin(&x);
	if (test_step(view.forward, &x, tokens, TOKENS, all, &e))
		fail_msg("%s", e.text);
	context_free(&x);
	return all;
}

/* A step that verifies `drafted` tokens after the next one; `stand` of them are accepted. */
static void verify(struct context *x, uint32_t drafted, uint32_t stand, const float *all)
{
	struct forward *f = view.forward;
	size_t before = x->tokens.count, row = view.config->vocabulary;
	uint32_t rows[ANSWER_ROWS];
	for (uint32_t i = 0; i <= drafted; i++) /* rejected tokens differ from the text */
		rows[i] = tokens[before + i] + (i > stand);
	if (test_verify(f, x, rows, drafted + 1, f->logits, &e))
		fail_msg("%s", e.text);
	assert_memory_equal(f->logits, all + before * row, (stand + 1) * row * sizeof *all);
	assert_int_equal(context_rollback(x, before + 1 + stand), before + 1 + stand);
}

/* Every row of every step, with any accepted tokens before it, and copies in between. */
static void only_accepted_drafts_change_the_state(void **state)
{
	(void)state;
	uint32_t random = 1;
	float *all = all_logits();
	for (int round = 0; round < 20; round++) {
		struct context x;
		begin(&x);
		compute(&x, tokens, 5, 5);
		while (x.tokens.count + ANSWER_ROWS <= TOKENS) {
			random = random * 1103515245 + 12345;
			uint32_t drafted = (random >> 16) % ANSWER_ROWS;
			verify(&x, drafted, (random >> 20) % (drafted + 1), all);
			if ((random >> 24) % 4 == 0)
				recurrent_checkpoint(&x.recurrent, x.tokens.count);
			if ((random >> 26) % 8 == 0)
				context_rollback(&x, x.tokens.count - 4);
		}
		size_t row = view.config->vocabulary, last = TOKENS - 1,
		       n = context_rollback(&x, x.tokens.count < last ? x.tokens.count : last);
		compute(&x, tokens + n, (uint32_t)(TOKENS - n), 3);
		assert_memory_equal(view.forward->logits, all + (TOKENS - 1) * row,
				    row * sizeof *all);
		context_free(&x);
	}
	free(all);
}

/* ---- sessions ---- */

static struct session *session(void)
{
	struct session *s = test_greedy_session(&hybrid);
	test_set(s, "max_tokens", "8");
	return s;
}

static void an_undone_turn_goes_back_to_where_it_began(void **state)
{
	(void)state;
	struct session *s = session(), *other = session();
	char *first = test_ask(s, "one and a half");
	size_t said = strlen(first);
	free(first);
	free(test_ask(s, "two"));
	assert_int_equal(test_stats(s).recomputed_tokens, 0);
	/* The second turn's beginning: a random model's text is not always encoded to the drawn
	 * tokens, so that may be where the first answer began. */
	uint64_t began = test_stats(s).cached_tokens;
	assert_int_equal(session_undo(s, &e), 0);
	char *with = test_ask(s, "three");
	assert_true(test_stats(s).cached_tokens >= began);
	/* What the two turns have in common at their beginning, and nothing before it. */
	assert_in_range(test_stats(s).recomputed_tokens, 1,
			said + strlen("<|im_end|>\n<|im_start|>user\nt"));
	free(test_ask(other, "one and a half"));
	test_same_text(with, test_ask(other, "three"));
	session_end(s);
	session_end(other);
}

static void another_system_text_begins_anew(void **state)
{
	(void)state;
	struct session *s = session(), *other = session();
	free(test_ask(s, "one"));
	test_set(s, "system", "be brief");
	test_set(other, "system", "be brief");
	assert_int_equal(session_undo(s, &e), 0);
	test_same_text(test_ask(s, "two"), test_ask(other, "two"));
	session_end(s);
	session_end(other);
}

static void a_turn_that_was_stopped_in_its_prompt_is_computed_right_afterwards(void **state)
{
	(void)state;
	struct session *s = session(), *other = session();
	free(test_ask(s, "one"));
	free(test_ask(other, "one"));
	struct answer *a =
		test_submit(s, "a prompt that is stopped, at whatever place it is at then");
	session_stop(s);
	test_wait(a);
	answer_unref(a);
	assert_int_equal(session_undo(s, &e), 0);
	test_same_text(test_ask(s, "two"), test_ask(other, "two"));
	session_end(s);
	session_end(other);
}

static void drafted_or_not_the_text_is_the_same(void **state)
{
	(void)state;
	static const char prompt[] = "abc abc abc abc abc abc";
	struct session *off = session(), *on = session();
	uint64_t stood = 0;
	test_set(off, "draft", "off");
	test_set(on, "draft", "lookup");
	for (int turn = 0; turn < 4; turn++) {
		test_set(off, "max_tokens", turn % 2 ? "61" : "40");
		test_set(on, "max_tokens", turn % 2 ? "61" : "40");
		test_same_text(test_ask(off, prompt), test_ask(on, prompt));
		assert_int_equal(test_stats(off).context_tokens, test_stats(on).context_tokens);
		stood += test_stats(on).draft_stood[0];
	}
	if (!strcmp(fixture, "qwen3_5_moe")) /* others may never guess right */
		assert_true(stood > 0);
	session_end(off);
	session_end(on);
}

int main(void)
{
	static const char *const others[] = {
		"lfm2_moe", "granitemoehybrid", "nemotron_h", "kimi_linear",
		/* several streams, chosen positions, windows and entries: */
		"qwen4_exp", "glm_moe_dsa", "minimax_m3", "glm5_next", "deepseek_v4"};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_rollback_it_computes_what_a_fresh_context_does),
		cmocka_unit_test(a_step_that_was_stopped_leaves_no_trace),
		cmocka_unit_test(a_step_that_was_stopped_before_any_copy_begins_anew),
		cmocka_unit_test(only_accepted_drafts_change_the_state),
		cmocka_unit_test(drafted_or_not_the_text_is_the_same),
		cmocka_unit_test(another_system_text_begins_anew),
		cmocka_unit_test(
			a_turn_that_was_stopped_in_its_prompt_is_computed_right_afterwards),
	};
	const struct CMUnitTest of_one[] = {
		cmocka_unit_test(bits_per_weight_are_those_of_the_weights_that_are_stored),
		cmocka_unit_test(its_memory_is_that_of_attention_layers_states_and_copies),
		cmocka_unit_test(an_undone_turn_goes_back_to_where_it_began),
	};
	fixture = "qwen3_5_moe";
	int failed = cmocka_run_group_tests(of_one, load, unload);
	failed += cmocka_run_group_tests(tests, load, unload);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		fixture = others[i];
		failed += cmocka_run_group_tests(tests, load, unload);
	}
	return failed;
}
