/* params/experts_bias: the router's choice and weights are those of the changed logits, in all kinds
 * of routers; what is computed with other biases is not shared; bad lines are refused. */
#include "engine/admin/observe.h"
#include "engine/model/model_state.h"
#include "engine/session/answer.h"
#include "engine/session/steer.h"
#include "golden.h"
#include "session_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char capital[] = "What is the capital of France?";

/* ---- what the router does ---- */

enum { ROWS = 24, MOST = 64 };

struct seen { /* of one routed layer, by a tap */
	uint32_t layer, experts, top_k;
	float logits[ROWS * MOST], weights[ROWS * MOST], chosen[ROWS * MOST];
};

static void look(void *ctx, enum tap_point point, uint32_t layer, uint32_t position, uint32_t tokens,
		 uint32_t width, const float *rows)
{
	struct seen *s = ctx;
	float *to = point == TAP_ROUTER_LOGITS	  ? s->logits
		    : point == TAP_ROUTER_WEIGHTS ? s->weights
		    : point == TAP_ROUTER_EXPERTS ? s->chosen
						  : NULL;
	if (!to || layer != s->layer)
		return;
	assert_true(width <= MOST && position + tokens <= ROWS);
	*(to == s->logits ? &s->experts : &s->top_k) = width;
	memcpy(to + (size_t)position * width, rows, (size_t)tokens * width * sizeof *to);
}

struct pass {
	struct test_model m;
	struct model_view view;
	struct steer steer;
};

static bool pass_open(struct pass *p, const char *fixture, const char *lines)
{
	char path[512];
	struct err e;
	const char *folder = test_fixture(fixture);
	if (!folder)
		return false;
	(void)snprintf(path, sizeof path, "%s", folder);
	*p = (struct pass){0};
	test_model_open(&p->m, path, &(struct engine_options){.quant = "bf16"});
	test_model_load_calm(&p->m);
	observe_model(p->m.model, &p->view);
	if (steer_set(&p->steer, lines, p->view.config, &e))
		fail_msg("%s", e.text);
	return true;
}

static void pass_close(struct pass *p)
{
	steer_free(&p->steer);
	test_model_close(&p->m);
}

static void pass_run(struct pass *p, struct seen *s)
{
	struct err e;
	struct forward *f = p->view.forward;
	struct context x;
	struct step_batch b = {0};
	uint32_t tokens[ROWS];
	struct step_account account = {0};
	for (uint32_t i = 0; i < ROWS; i++)
		tokens[i] = (i * i * 7 + 3 * i + 5) % p->view.config->vocabulary;
	context_init(&x, p->view.context_budget, p->view.config, p->view.kv);
	f->env.tap = look;
	f->env.tap_ctx = s;
	const struct step_row row = {
		.context = &x,
		.account = &account,
		.losses = {.steered = p->steer.sum, .steering = &p->steer.table}};
	if (step_batch_add(&b, &row, tokens, ROWS, &e) || forward_run(f, &b, NULL, &e))
		fail_msg("%s", e.text);
	assert_int_equal(account.error.code, 0);
	f->env.tap = NULL;
	step_batch_free(&b);
	context_free(&x);
}

/* The softmax of all changed logits, the top k of it, and its weights divided by their sum. */
static void the_choice_and_the_weights_are_those_of_the_changed_logits(void **state)
{
	(void)state;
	struct pass p;
	static struct seen s = {.layer = 1};
	uint32_t moved = 0;
	assert_true(pass_open(&p, "qwen3_moe", "01/003 2.5\n*/00[4-6] -1\n01/000 off\n"));
	pass_run(&p, &s);
	const float *bias = p.steer.table.bias + (size_t)1 * s.experts;
	for (uint32_t t = 0; t < ROWS; t++) {
		double changed[MOST], sum = 0;
		bool taken[MOST] = {false};
		uint32_t plain = 0;
		for (uint32_t e = 0; e < s.experts; e++) {
			changed[e] = (double)s.logits[t * s.experts + e] + bias[e];
			if (s.logits[t * s.experts + e] > s.logits[t * s.experts + plain])
				plain = e;
		}
		for (uint32_t i = 0; i < s.top_k; i++) {
			uint32_t best = UINT32_MAX, is = (uint32_t)s.chosen[t * s.top_k + i];
			for (uint32_t e = 0; e < s.experts; e++)
				if (!taken[e] &&
				    (best == UINT32_MAX || changed[e] > changed[best]))
					best = e;
			assert_int_equal(is, best);
			taken[best] = true;
			sum += exp(changed[best]);
			moved += !i && best != plain;
		}
		for (uint32_t i = 0; i < s.top_k; i++) {
			double want = exp(changed[(uint32_t)s.chosen[t * s.top_k + i]]) / sum;
			assert_true(fabs(want - s.weights[t * s.top_k + i]) < 1e-5);
		}
	}
	assert_true(moved > 0);
	pass_close(&p);
}

static void check_off(const char *fixture, uint32_t layer, const char *lines, uint32_t expert)
{
	struct pass p;
	static struct seen with, without;
	bool ever = false;
	with = without = (struct seen){.layer = layer};
	if (!pass_open(&p, fixture, ""))
		return;
	pass_run(&p, &without);
	struct err e;
	if (steer_set(&p.steer, lines, p.view.config, &e))
		fail_msg("%s: %s", fixture, e.text);
	pass_run(&p, &with);
	for (uint32_t i = 0; i < ROWS * with.top_k; i++) {
		ever |= (uint32_t)without.chosen[i] == expert && without.weights[i] > 0;
		if ((uint32_t)with.chosen[i] == expert && with.weights[i] > 0)
			fail_msg("%s: expert %u was chosen", fixture, expert);
		assert_true(isfinite(with.weights[i]));
	}
	if (!ever)
		fail_msg("%s: expert %u is never chosen", fixture, expert);
	pass_close(&p);
}

static void an_expert_that_is_off_is_never_chosen(void **state)
{
	(void)state;
	check_off("qwen3_moe", 1, "*/002 off", 2);	/* softmax, then the top */
	check_off("gpt_oss_mxfp4", 1, "*/002 off", 2); /* the top, then softmax */
	check_off("deepseek_v3_fp8", 1, "*/002 off", 2);	/* sigmoids with a correction, in groups */
	check_off("qwen3_5_moe", 1, "*/002 off", 2);
	check_off("deepseek_v4", 0, "*/002 off", 2); /* listed for the token */
	check_off("deepseek_v4", 1, "*/002 off", 2); /* roots of softplus */
}

static void fewer_experts_than_a_token_takes_are_enough(void **state)
{
	(void)state;
	struct pass p;
	static struct seen s = {.layer = 1};
	assert_true(pass_open(&p, "qwen3_moe", "* off\n*/007 0\n*/009 0"));
	pass_run(&p, &s);
	for (uint32_t t = 0; t < ROWS; t++) {
		const float *weight = s.weights + (size_t)t * s.top_k;
		assert_true(fabsf(weight[0] + weight[1] - 1) < 1e-5F);
		for (uint32_t i = 2; i < s.top_k; i++)
			assert_true(weight[i] == 0);
		for (uint32_t i = 0; i < 2; i++)
			assert_true(s.chosen[t * s.top_k + i] == 7 ||
				    s.chosen[t * s.top_k + i] == 9);
	}
	pass_close(&p);
}

/* ---- in a session ---- */

static void a_steered_session_is_labelled_and_computed_again(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_set(s, "max_tokens", "12");
	char *plain = test_ask(s, capital);
	assert_string_equal(test_stats(s).lossy, "");
	assert_int_equal(session_undo(s, NULL), 0);
	test_set(s, "experts_bias", "*/00[0-9] off\n03/010 -4");
	char *steered = test_ask(s, capital);
	assert_string_equal(test_stats(s).lossy, "experts_bias=81");
	assert_int_equal(test_stats(s).cached_tokens, 0);
	assert_string_not_equal(plain, steered);
	assert_int_equal(session_undo(s, NULL), 0);
	test_same_text(steered, test_ask(s, capital));
	assert_true(test_stats(s).cached_tokens > 0); /* the same biases */
	assert_int_equal(session_undo(s, NULL), 0);
	test_set(s, "experts_bias", "");
	test_same_text(plain, test_ask(s, capital));
	assert_string_equal(test_stats(s).lossy, "");
	session_end(s);
}

/* What one has computed is not taken over by the other, nor does company change anything. */
static void sessions_do_not_share_what_other_biases_made(void **state)
{
	(void)state;
	struct session *first = test_greedy_session(&fable), *second = test_greedy_session(&fable);
	int code;
	test_set(first, "share_with", "both");
	test_set(second, "share_with", "both");
	test_set(first, "max_tokens", "12");
	test_set(first, "experts_bias", "*/00[0-9] off");
	struct answer *beside = test_submit(first, capital);
	test_answer(second, capital, "The capital of France is Paris.\n");
	assert_int_equal(test_stats(second).cached_tokens, 0);
	free(test_read(beside, &code));
	session_end(first);
	session_end(second);
}

static void a_state_knows_the_biases_of_its_context(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *other = test_greedy_session(&fable);
	struct saved *saved;
	struct restored *r;
	struct err e;
	char bytes[4096];
	size_t n;
	test_set(s, "max_tokens", "12");
	test_set(s, "experts_bias", "*/00[0-9] off");
	free(test_ask(s, capital));
	test_set(s, "experts_bias", ""); /* the context is of the old ones */
	assert_int_equal(session_save(s, &saved, &e), 0);
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	for (uint64_t at = 0; (n = saved_read(saved, at, bytes, sizeof bytes)); at += n)
		if (restored_feed(r, at, bytes, n, &e))
			fail_msg("%s", e.text);
	if (session_restore(other, r, &e))
		fail_msg("%s", e.text);
	restored_close(r);
	saved_close(saved);
	assert_int_equal(session_undo(other, NULL), 0);
	test_set(other, "max_tokens", "0");
	test_answer(other, capital, "The capital of France is Paris.\n");
	assert_int_equal(test_stats(other).cached_tokens, 0);
	session_end(other);
	session_end(s);
}

/* ---- lines ---- */

static void refused(const char *lines, int code, const char *words)
{
	struct session *s = test_session(&fable);
	struct err e;
	size_t i = params_find("experts_bias");
	test_set(s, "experts_bias", "00/001 1");
	assert_int_equal(session_param_set(s, i, lines, strlen(lines), &e), -code);
	if (!strstr(e.text, words))
		fail_msg("%s: %s", lines, e.text);
	char *is = session_param_get(s, i);
	assert_string_equal(is, "00/001 1");
	free(is);
	session_end(s);
}

static void bad_lines_are_refused(void **state)
{
	(void)state;
	refused("00/001", EINVAL, "is not an expert and a number");
	refused("00/001 nan", EINVAL, "is not an expert and a number");
	refused("00/001 inf", EINVAL, "is not an expert and a number");
	refused("00/001 1 2", EINVAL, "is not an expert and a number");
	refused("00/001 0x1", EINVAL, "is not an expert and a number");
	refused("00/001 1001", ERANGE, "is not from -1000 to 1000");
	refused("00/099 1", EINVAL, "no expert matches \"00/099\"");
	refused("99 off", EINVAL, "no expert matches");
	refused("03 off", EINVAL, "all experts of layer 03 are off");
	refused("* off", EINVAL, "are off");
	struct steer s = {0};
	struct err e;
	const struct config dense = {.layers = 2};
	assert_int_equal(steer_set(&s, "00/000 1", &dense, &e), -ERANGE);
	assert_int_equal(steer_set(&s, " \n", &dense, &e), 0);
}

static void groups_keep_an_expert(void **state)
{
	(void)state;
	struct pass p;
	struct err e;
	char lines[512] = "";
	if (!pass_open(&p, "deepseek_v3_fp8", ""))
		skip();
	uint32_t size = p.view.config->experts / p.view.config->router_groups;
	for (uint32_t i = 0; i < size; i++)
		(void)sprintf(lines + strlen(lines), "*/%03u off\n", i);
	assert_int_equal(steer_set(&p.steer, lines, p.view.config, &e), -EINVAL);
	assert_non_null(strstr(e.text, "all experts of group 0 of layer"));
	pass_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_choice_and_the_weights_are_those_of_the_changed_logits),
		cmocka_unit_test(an_expert_that_is_off_is_never_chosen),
		cmocka_unit_test(fewer_experts_than_a_token_takes_are_enough),
		cmocka_unit_test(a_steered_session_is_labelled_and_computed_again),
		cmocka_unit_test(sessions_do_not_share_what_other_biases_made),
		cmocka_unit_test(a_state_knows_the_biases_of_its_context),
		cmocka_unit_test(bad_lines_are_refused),
		cmocka_unit_test(groups_keep_an_expert),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
