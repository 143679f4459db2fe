/* Opt-in losses: results with fewer experts per token and with dropped experts; losses are counted
 * and named, and nothing is lost unless requested. */
#include "checkpoint_help.h"
#include "engine/admin/observe.h"
#include "engine/compute/substitute.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of tests/data/fixtures/qwen3_moe. */
enum { OWN = 4, EXPERTS = 16, LAYERS = 3, VOCABULARY = 384, TOKENS = 48 };
static const char capital[] = "What is the capital of France?";

/* ---- a forward pass laid open ---- */

struct pass {
	struct test_model m;
	struct model_view view;
	struct context context;
	struct step_account account;
	struct forward *forward;
};

static void pass_open(struct pass *p, const char *directory, const struct engine_options *options)
{
	test_model_open(&p->m, directory, options);
	test_model_load_calm(&p->m);
	observe_model(p->m.model, &p->view);
	context_init(&p->context, p->view.context_budget, p->view.config, p->view.kv);
	p->account = (struct step_account){0};
	p->forward = p->view.forward;
}

static void pass_open_fixture(struct pass *p, const struct engine_options *options)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s", test_fixture("qwen3_moe"));
	pass_open(p, path, options);
}

static void pass_close(struct pass *p)
{
	context_free(&p->context);
	test_model_close(&p->m);
}

/* The logits of TOKENS tokens in the engine's chunks, from an empty context: malloc'ed. */
static float *compute(struct pass *p, struct losses losses)
{
	struct err e = {0};
	uint32_t tokens[TOKENS];
	float *logits = calloc((size_t)TOKENS * VOCABULARY, sizeof *logits);
	assert_non_null(logits);
	for (uint32_t i = 0; i < TOKENS; i++)
		tokens[i] = (i * i * 7 + 3 * i + 5) % VOCABULARY;
	context_rollback(&p->context, 0);
	struct step_batch b = {0};
	struct step_row row = {
		.context = &p->context, .logits = true, .losses = losses, .account = &p->account};
	for (uint32_t done = 0, n; done < TOKENS; done += n) {
		n = TOKENS - done < p->forward->chunk ? TOKENS - done : p->forward->chunk;
		step_batch_clear(&b);
		if (step_batch_add(&b, &row, tokens + done, n, &e) ||
		    forward_run(p->forward, &b, logits + (size_t)done * VOCABULARY, &e))
			fail_msg("%s", e.text);
		assert_int_equal(p->account.error.code, 0);
	}
	step_batch_free(&b);
	return logits;
}

/* The second is freed. */
static void assert_same_logits(const float *want, float *got)
{
	assert_memory_equal(got, want, (size_t)TOKENS * VOCABULARY * sizeof *want);
	free(got);
}

/* Room for a number of the fixture's experts. */
static uint64_t budget_for(const struct pass *p, uint64_t experts)
{
	return experts * ((p->view.plan->slot_bytes + 4095) / 4096 * 4096);
}

/* ---- fewer experts per token ---- */

/* The fixture's config.json with one value in place of another. */
static void edit_config(const char *folder, const char *from, const char *to)
{
	char path[512], edited[4096];
	size_t n;
	(void)snprintf(path, sizeof path, "%s/config.json", folder);
	char *text = (char *)test_file_read(path, &n), *whole = strndup(text, n);
	char *at = strstr(whole, from);
	assert_non_null(at);
	int length = snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - whole), whole, to,
			      at + strlen(from));
	assert_in_range(length, 1, sizeof edited - 1);
	test_file_write(path, edited, (size_t)length);
	free(text);
	free(whole);
}

/* Opens a copy of the fixture that is configured for another number of experts per token. */
static void pass_open_copy(struct pass *p, uint32_t experts, bool normalised, const char *quant)
{
	char folder[32], count[40];
	struct test_checkpoint c;
	test_folder_make(folder);
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", folder);
	test_checkpoint_free(&c);
	(void)snprintf(count, sizeof count, "\"num_experts_per_tok\": %u", experts);
	edit_config(folder, "\"num_experts_per_tok\": 4", count);
	if (!normalised)
		edit_config(folder, "\"norm_topk_prob\": true", "\"norm_topk_prob\": false");
	pass_open(p, folder, &(struct engine_options){.quant = quant});
	test_folder_remove(folder);
}

static void fewer_experts_compute_what_a_model_made_for_that_number_computes(void **state)
{
	(void)state;
	static const struct {
		bool normalised;
		const char *quant;
	} kinds[] = {{true, "bf16"}, {false, "bf16"}, {true, NULL}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct pass whole;
		pass_open_copy(&whole, OWN, kinds[i].normalised, kinds[i].quant);
		for (uint32_t k = 1; k <= OWN; k++) {
			struct pass made;
			pass_open_copy(&made, k, kinds[i].normalised, kinds[i].quant);
			float *want = compute(&made, (struct losses){0});
			assert_same_logits(
				want, compute(&whole, (struct losses){.experts_per_token = k}));
			free(want);
			pass_close(&made);
		}
		pass_close(&whole);
	}
}

static void fewer_experts_are_the_same_for_any_chunk_threads_and_cache(void **state)
{
	(void)state;
	static const struct losses two = {.experts_per_token = 2};
	struct pass p;
	/* The default recipe depends on the budget. */
	pass_open_fixture(
		&p, &(struct engine_options){.quant = "3bit", .chunk = TOKENS, .threads = 1});
	float *want = compute(&p, two);
	uint64_t small = budget_for(&p, 3);
	pass_close(&p);
	const struct engine_options ways[] = {
		{.quant = "3bit", .chunk = 1, .threads = 2},
		{.quant = "3bit", .chunk = 7, .threads = 3, .budget = small},
		{.quant = "3bit", .chunk = 1, .threads = 1, .budget = small},
	};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		pass_open_fixture(&p, &ways[i]);
		assert_same_logits(want, compute(&p, two));
		pass_close(&p);
	}
	free(want);
}

/* ---- nothing lost ---- */

static void nothing_changes_where_nothing_is_lost(void **state)
{
	(void)state;
	struct pass p;
	pass_open_fixture(&p, &(struct engine_options){.chunk = 1});
	float *want = compute(&p, (struct losses){0});
	/* As many as the model's own number; then dropping, with all picked experts in memory. */
	assert_same_logits(want, compute(&p, (struct losses){.experts_per_token = OWN}));
	assert_same_logits(want, compute(&p, (struct losses){.drop_missing = 1}));
	assert_int_equal(p.account.dropped, 0);
	/* And after dropping in earnest, nothing of it stays. */
	struct err e;
	assert_int_equal(engine_set_budget(p.m.engine, budget_for(&p, 3), &e), 0);
	free(compute(&p, (struct losses){.drop_missing = 1}));
	assert_true(p.account.dropped > 0);
	assert_same_logits(want, compute(&p, (struct losses){0}));
	free(want);
	pass_close(&p);
}

/* ---- dropping ---- */

/* Decides for every layer of every step, when the router chooses, which experts must be dropped. */
struct prediction {
	const struct pass *pass;
	float threshold;
	uint32_t tokens;
	float weight[TOKENS * OWN];
	uint64_t dropped, used;
};

static void predict(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
		    uint32_t tokens, uint32_t width, const float *rows)
{
	(void)position;
	struct prediction *p = ctx;
	if (point == TAP_ROUTER_WEIGHTS)
		memcpy(p->weight, rows, (size_t)tokens * width * sizeof *rows);
	if (point != TAP_ROUTER_EXPERTS)
		return;
	for (uint32_t e = 0; e < EXPERTS; e++) {
		bool picked = false, needed = false;
		for (uint32_t i = 0; i < tokens * width; i++)
			if (rows[i] == (float)e) {
				picked = true;
				needed |= i % width == 0 || p->weight[i] >= p->threshold;
			}
		struct pager_expert now;
		pager_inspect(p->pass->view.experts, layer, e, &now);
		p->dropped += picked && !needed && !now.resident;
		p->used += picked && (needed || now.resident);
	}
}

static void the_missing_that_no_token_of_a_step_needs_are_dropped_and_no_others(void **state)
{
	(void)state;
	static const uint32_t chunks[] = {1, 3, TOKENS};
	static const float thresholds[] = {.2F, .3F, 1};
	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < 3; k++) {
			struct pass p;
			struct err e;
			pass_open_fixture(&p, &(struct engine_options){.chunk = chunks[i]});
			assert_int_equal(engine_set_budget(p.m.engine, budget_for(&p, EXPERTS), &e),
					 0);
			struct prediction want = {.pass = &p, .threshold = thresholds[k]};
			p.forward->env.tap = predict;
			p.forward->env.tap_ctx = &want;
			free(compute(&p, (struct losses){.drop_missing = thresholds[k]}));
			struct pager_stats st;
			model_cache_stats(p.m.model, &st);
			assert_int_equal(p.account.dropped, want.dropped);
			assert_int_equal(st.hits + st.misses, want.used);
			assert_int_equal(p.account.hits, st.hits);
			assert_int_equal(p.account.misses, st.misses);
			assert_int_equal(p.account.reads, st.misses);
			/* A chunk has a token for every expert that needs it, or nearly. */
			if (chunks[i] == 1)
				assert_true(want.dropped > 0);
			pass_close(&p);
		}
}

static void a_token_s_heaviest_expert_is_read_and_has_all_the_weight(void **state)
{
	(void)state;
	struct pass p;
	struct err e;
	pass_open_fixture(&p, &(struct engine_options){.quant = "bf16", .chunk = 1});
	/* One slot: nothing that a token picks is in memory but what it has just read. */
	assert_int_equal(engine_set_budget(p.m.engine, budget_for(&p, 1), &e), 0);
	float *want = compute(&p, (struct losses){.experts_per_token = 1}),
	      *got = compute(&p, (struct losses){.drop_missing = 1});
	assert_int_equal(p.account.dropped, (uint64_t)TOKENS * LAYERS * (OWN - 1));
	for (size_t i = 0; i < (size_t)TOKENS * VOCABULARY; i++)
		if (!(fabsf(got[i] - want[i]) < 1e-4F))
			fail_msg("logit %zu is %g, not %g", i, (double)got[i], (double)want[i]);
	free(want);
	free(got);
	pass_close(&p);
}

/* ---- substituting ---- */

static bool even_are_present(void *ctx, uint32_t expert)
{
	(void)ctx;
	return expert % 2 == 0;
}

static void substitutes_are_the_best_ranks_that_are_present(void **state)
{
	(void)state;
	static const float values[] = {.1F, .9F, .3F, .8F, .5F, .7F, .6F, -INFINITY};
	/* Ranks: 1 3 5 6 4 2 0; 7 has none. */
	static const struct {
		uint32_t keep, window, want[3], given;
	} cases[] = {
		{0, 8, {6, 4, 2}, 3}, {1, 8, {1, 6, 4}, 2}, {3, 8, {1, 3, 5}, 0},
		{0, 3, {1, 3, 5}, 0}, {0, 4, {6, 3, 5}, 1}, {2, 5, {1, 3, 6}, 1},
		{9, 8, {1, 3, 5}, 0},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint32_t chosen[] = {1, 3, 5};
		const struct substitute how = {cases[i].keep, cases[i].window, even_are_present,
					       NULL};
		assert_int_equal(substitute_choose(&how, values, 8, chosen, 3), cases[i].given);
		assert_memory_equal(chosen, cases[i].want, sizeof chosen);
	}
}

/* Says for each layer of steps of one token which experts it must have, by the router's logits and
 * what is in memory then. */
struct exchange {
	const struct pass *pass;
	uint32_t keep, window;
	float weight[EXPERTS];
	bool resident[EXPERTS];
	uint64_t given;
};

static void exchange_expect(struct exchange *x, const float *logits, uint32_t want[OWN])
{
	bool taken[EXPERTS] = {false};
	uint32_t ranks[EXPERTS], next = OWN;
	for (uint32_t r = 0; r < EXPERTS; r++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t e = 0; e < EXPERTS; e++)
			if (!taken[e] && (best == UINT32_MAX || logits[e] > logits[best]))
				best = e;
		taken[ranks[r] = best] = true;
	}
	for (uint32_t i = 0; i < OWN; i++) {
		want[i] = ranks[i];
		if (i < x->keep || x->resident[ranks[i]])
			continue;
		while (next < x->window && !x->resident[ranks[next]])
			next++;
		if (next >= x->window)
			continue;
		want[i] = ranks[next++];
		x->given++;
	}
}

static void exchange_look(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			  uint32_t tokens, uint32_t width, const float *rows)
{
	static uint32_t want[OWN];
	static float odds[OWN];
	struct exchange *x = ctx;
	float sum = 0;
	(void)position;
	if (point == TAP_ROUTER_LOGITS) {
		assert_int_equal(tokens, 1);
		for (uint32_t e = 0; e < EXPERTS; e++) {
			struct pager_expert now;
			pager_inspect(x->pass->view.experts, layer, e, &now);
			x->resident[e] = now.resident;
		}
		exchange_expect(x, rows, want);
		for (uint32_t i = 0; i < OWN; i++)
			odds[i] = expf(rows[want[i]]);
	}
	if (point == TAP_ROUTER_WEIGHTS)
		memcpy(x->weight, rows, width * sizeof *rows);
	for (uint32_t i = 0; i < OWN; i++)
		sum += odds[i];
	for (uint32_t i = 0; point == TAP_ROUTER_EXPERTS && i < OWN; i++) {
		uint32_t k = 0;
		while (k < OWN && (float)want[k] != rows[i])
			k++;
		assert_in_range(k, 0, OWN - 1);
		assert_true(fabsf(x->weight[i] - odds[k] / sum) < 1e-4F); /* they sum to 1 */
	}
}

static void missing_experts_give_their_places_to_present_ones_of_the_window(void **state)
{
	(void)state;
	static const uint32_t rules[][2] = {{0, EXPERTS}, {1, EXPERTS}, {2, 6}, {1, 4}, {4, EXPERTS}};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		struct pass p;
		struct err e;
		pass_open_fixture(&p, &(struct engine_options){.quant = "bf16", .chunk = 1});
		assert_int_equal(engine_set_budget(p.m.engine, budget_for(&p, EXPERTS), &e), 0);
		struct exchange x = {.pass = &p, .keep = rules[i][0], .window = rules[i][1]};
		p.forward->env.tap = exchange_look;
		p.forward->env.tap_ctx = &x;
		free(compute(&p, (struct losses){.substitute_keep = x.keep,
						 .substitute_window = x.window}));
		assert_int_equal(p.account.substituted, x.given);
		assert_int_equal(p.account.hits + p.account.misses,
				 (uint64_t)TOKENS * LAYERS * OWN);
		if (x.keep < OWN && x.window > OWN)
			assert_true(x.given > 0);
		else
			assert_int_equal(x.given, 0);
		pass_close(&p);
	}
}

static void nothing_is_substituted_where_all_is_in_memory_or_needed(void **state)
{
	(void)state;
	static const struct losses by = {.substitute_keep = 1, .substitute_window = EXPERTS};
	struct pass p;
	struct err e;
	pass_open_fixture(&p, &(struct engine_options){.chunk = 1});
	float *want = compute(&p, (struct losses){0});
	assert_same_logits(want, compute(&p, by));
	assert_int_equal(p.account.substituted, 0);
	/* And after substituting in earnest, nothing of it stays. */
	assert_int_equal(engine_set_budget(p.m.engine, budget_for(&p, 6), &e), 0);
	free(compute(&p, by));
	assert_true(p.account.substituted > 0);
	assert_same_logits(want, compute(&p, (struct losses){0}));
	free(want);
	pass_close(&p);
}

static void substitution_is_named_and_is_nobody_elses(void **state)
{
	(void)state;
	struct err e;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){.budget = 1 << 20});
	struct session *s = test_greedy_session(&m), *whole = test_greedy_session(&m);
	test_set(s, "share_with", "both");
	test_set(whole, "share_with", "both");
	test_set(s, "max_tokens", "20");
	test_set(s, "substitute", "1,16");
	free(test_ask(s, capital));
	assert_string_equal(test_stats(s).lossy, "substitute=1,16");
	assert_true(test_stats(s).experts_substituted > 0);
	test_answer(whole, capital, "The capital of France is Paris.\n");
	assert_int_equal(test_stats(whole).cached_tokens, 0);
	assert_int_equal(test_stats(whole).experts_substituted, 0);
	test_set(s, "substitute", "off"); /* what was computed with it is computed again */
	assert_int_equal(session_undo(s, &e), 0);
	test_answer(s, capital, "The capital of France is Paris.\n");
	assert_string_equal(test_stats(s).lossy, "");
	session_end(s);
	session_end(whole);
	test_model_close(&m);
}

/* ---- sessions ---- */

static void the_losses_of_a_turn_are_named_and_counted(void **state)
{
	(void)state;
	struct err e;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){.budget = 1 << 20});
	struct session *s = test_greedy_session(&m);
	test_set(s, "max_tokens", "20");
	test_set(s, "experts_per_token", "4"); /* the model's own */
	free(test_ask(s, capital));
	assert_string_equal(test_stats(s).lossy, "");
	assert_int_equal(test_stats(s).experts_dropped, 0);
	test_set(s, "experts_per_token", "3");
	free(test_ask(s, capital));
	assert_string_equal(test_stats(s).lossy, "experts_per_token=3");
	assert_int_equal(test_stats(s).experts_dropped, 0);
	test_set(s, "drop_missing", ".350");
	assert_string_equal(test_stats(s).lossy, "experts_per_token=3"); /* of the last turn */
	free(test_ask(s, capital));
	assert_string_equal(test_stats(s).lossy, "experts_per_token=3 drop_missing=0.35");
	assert_true(test_stats(s).experts_dropped > 0);
	test_set(s, "experts_per_token", "0");
	test_set(s, "drop_missing", "0");
	assert_int_equal(session_reset(s, &e), 0);
	test_answer(s, capital, "The capital of France is Paris.\n");
	assert_string_equal(test_stats(s).lossy, "");
	assert_int_equal(test_stats(s).experts_dropped, 0);
	session_end(s);
	test_model_close(&m);
}

static void sessions_lose_only_what_their_own_params_say(void **state)
{
	(void)state;
	int code;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){.budget = 1 << 20});
	struct session *lossy = test_greedy_session(&m), *whole = test_greedy_session(&m);
	test_set(lossy, "experts_per_token", "1");
	test_set(lossy, "drop_missing", "1");
	test_set(lossy, "max_tokens", "40");
	struct answer *beside = test_submit(lossy, capital);
	test_answer(whole, capital, "The capital of France is Paris.\n");
	assert_int_equal(test_stats(whole).experts_dropped, 0);
	free(test_read(beside, &code));
	session_end(lossy);
	session_end(whole);
	test_model_close(&m);
}

/* The first turn with one value of experts_per_token, the second with another: the second turn's
 * answer is as if the whole conversation had been computed with the second value. */
static void assert_recomputed(struct test_model *m, const char *first, const char *second)
{
	struct session *s = test_greedy_session(m), *whole = test_greedy_session(m);
	char text[1024];
	test_set(s, "max_tokens", "20");
	test_set(whole, "max_tokens", "20");
	test_set(s, "stop", "\\n"); /* the first answer is one line */
	test_set(s, "experts_per_token", first);
	test_set(whole, "experts_per_token", second);
	test_set(whole, "chat", "off");
	char *answer = test_ask(s, capital);
	answer[strlen(answer) - 1] = 0;
	test_set(s, "experts_per_token", second);
	char *got = test_ask(s, "What is 12 x 6?");
	assert_int_equal(test_stats(s).cached_tokens, 0);
	(void)snprintf(text, sizeof text,
		       "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n%s<|im_end|>\n"
		       "<|im_start|>user\nWhat is 12 x 6?<|im_end|>\n<|im_start|>assistant\n\n",
		       capital, answer);
	test_set(whole, "stop", "\\n");
	test_same_text(test_ask(whole, text), got);
	assert_int_equal(test_stats(whole).prompt_tokens, test_stats(s).prompt_tokens);
	free(test_ask(s, capital)); /* nothing changed: the context is used again */
	assert_true(test_stats(s).cached_tokens > 0);
	free(answer);
	session_end(s);
	session_end(whole);
}

static void a_context_computed_with_other_losses_is_computed_again(void **state)
{
	(void)state;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	assert_recomputed(&m, "2", "0");
	assert_recomputed(&m, "0", "2");
	assert_recomputed(&m, "3", "2");
	struct session *s = test_greedy_session(&m);
	test_set(s, "drop_missing", "0.1");
	free(test_ask(s, capital));
	test_set(s, "drop_missing", "0.2");
	free(test_ask(s, capital));
	assert_int_equal(test_stats(s).cached_tokens, 0);
	test_set(s, "experts_per_token", "4"); /* another word for the same */
	free(test_ask(s, capital));
	assert_true(test_stats(s).cached_tokens > 0);
	session_end(s);
	test_model_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fewer_experts_compute_what_a_model_made_for_that_number_computes),
		cmocka_unit_test(fewer_experts_are_the_same_for_any_chunk_threads_and_cache),
		cmocka_unit_test(nothing_changes_where_nothing_is_lost),
		cmocka_unit_test(
			the_missing_that_no_token_of_a_step_needs_are_dropped_and_no_others),
		cmocka_unit_test(a_token_s_heaviest_expert_is_read_and_has_all_the_weight),
		cmocka_unit_test(substitutes_are_the_best_ranks_that_are_present),
		cmocka_unit_test(missing_experts_give_their_places_to_present_ones_of_the_window),
		cmocka_unit_test(nothing_is_substituted_where_all_is_in_memory_or_needed),
		cmocka_unit_test(substitution_is_named_and_is_nobody_elses),
		cmocka_unit_test(the_losses_of_a_turn_are_named_and_counted),
		cmocka_unit_test(sessions_lose_only_what_their_own_params_say),
		cmocka_unit_test(a_context_computed_with_other_losses_is_computed_again),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
