/* Repetition penalties and logit_bias: compared with a slow reading of their definitions, and
 * their effect on a session's answers. */
#include "engine/compute/sampler.h"
#include "engine/admin/observe.h"
#include "random.h"
#include "session_help.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCABULARY = 1000 };

/* transformers' RepetitionPenaltyLogitsProcessor: gather the scores of the context's tokens, change
 * each, scatter them back. A token that is there twice is written twice with the same value. */
static void slow_penalty(float *logits, const uint32_t *ids, size_t n, float penalty)
{
	static float before[VOCABULARY];
	memcpy(before, logits, sizeof before);
	for (size_t i = 0; i < n; i++) {
		float score = before[ids[i]];
		logits[ids[i]] = score < 0 ? score * penalty : score / penalty;
	}
}

static void each_token_of_the_context_is_penalised_once(void **state)
{
	(void)state;
	static const float PENALTIES[] = {1.1f, 2, .5f, 100, .01f};
	enum { STEPS = 400 };
	struct random r = {7};
	for (size_t k = 0; k < sizeof PENALTIES / sizeof *PENALTIES; k++) {
		struct repetition repetition;
		uint32_t ids[STEPS];
		assert_int_equal(
			sampler_repetition_init(&repetition,
						(struct penalties){.repetition = PENALTIES[k]},
						VOCABULARY),
			0);
		for (size_t n = 0; n < STEPS; n++) {
			float want[VOCABULARY], got[VOCABULARY];
			random_normal(&r, want, VOCABULARY);
			want[3] = 0;
			memcpy(got, want, sizeof got);
			slow_penalty(want, ids, n, PENALTIES[k]);
			sampler_repetition_apply(&repetition, got);
			assert_memory_equal(got, want, sizeof got);
			ids[n] =
				random_u32(&r) % (n % 2 ? VOCABULARY : 20); /* many of them again */
			assert_int_equal(sampler_repetition_add_prompt(&repetition, &ids[n], 1), 0);
		}
		sampler_repetition_free(&repetition);
	}
}

static void a_penalty_of_one_changes_and_keeps_nothing(void **state)
{
	(void)state;
	struct repetition r, zero = {0};
	float logits[] = {1, -1, 2}, same[] = {1, -1, 2};
	static const uint32_t ids[] = {0, 1, 2};
	assert_int_equal(sampler_repetition_init(&r, (struct penalties){.repetition = 1}, 3), 0);
	assert_int_equal(sampler_repetition_add_prompt(&r, ids, 3), 0);
	sampler_repetition_apply(&r, logits);
	assert_memory_equal(logits, same, sizeof same);
	assert_null(r.seen);
	assert_null(r.said);
	assert_null(r.stand.ids);
	assert_null(r.answer.ids);
	sampler_repetition_free(&r);
	sampler_repetition_apply(&zero, logits);
	assert_memory_equal(logits, same, sizeof same);
	sampler_repetition_free(&zero);
}

/* The OpenAI interface's formula, over the tokens sampled so far: mu[j] - c[j] · frequency -
 * (c[j] > 0) · presence; the prompt's do not count. Then all three together, in this order. */
static void slow_penalties(float *logits, const uint32_t *ids, size_t prompt, size_t n,
			   struct penalties by)
{
	slow_penalty(logits, ids, n, by.repetition);
	for (uint32_t j = 0; j < VOCABULARY; j++) {
		size_t c = 0;
		for (size_t i = prompt; i < n; i++)
			c += ids[i] == j;
		float count = (float)c, some = c > 0;
		logits[j] = logits[j] - count * by.frequency - some * by.presence;
	}
}

static void each_token_of_the_answer_is_penalised_by_its_count(void **state)
{
	(void)state;
	static const struct penalties ALL[] = {
		{1, .5f, 0}, {1, 0, .75f}, {1, -1.1f, 2}, {1.2f, .3f, .4f}, {.7f, -2, -2}};
	enum { STEPS = 300, PROMPT = 40 };
	struct random r = {11};
	for (size_t k = 0; k < sizeof ALL / sizeof *ALL; k++) {
		struct repetition repetition;
		uint32_t ids[STEPS];
		assert_int_equal(sampler_repetition_init(&repetition, ALL[k], VOCABULARY), 0);
		for (size_t n = 0; n < STEPS; n++) {
			float want[VOCABULARY], got[VOCABULARY];
			random_normal(&r, want, VOCABULARY);
			memcpy(got, want, sizeof got);
			slow_penalties(want, ids, n < PROMPT ? n : PROMPT, n, ALL[k]);
			sampler_repetition_apply(&repetition, got);
			for (size_t i = 0; i < VOCABULARY; i++)
				assert_true(got[i] == want[i]); /* -0 is 0 */
			ids[n] = random_u32(&r) % (n % 2 ? VOCABULARY : 20);
			assert_int_equal(
				n < PROMPT ? sampler_repetition_add_prompt(&repetition, &ids[n], 1)
					   : sampler_repetition_add_answer(&repetition, ids[n]),
				0);
		}
		sampler_repetition_free(&repetition);
	}
}

static void a_bias_is_added_and_a_ban_is_never_drawn(void **state)
{
	(void)state;
	static const struct token_bias BIAS[] = {{3, 1.5}, {0, -INFINITY}, {7, -100}};
	struct sampler s;
	float logits[8] = {9, 1, 1, 1, 1, 1, 1, 1};
	assert_int_equal(sampler_init(&s, kernels_best(), 8), 0);
	sampler_bias(BIAS, 3, logits);
	static const float want[] = {-INFINITY, 1, 1, 2.5f, 1, 1, 1, -99};
	assert_memory_equal(logits, want, sizeof want);
	for (uint64_t position = 0; position < 4000; position++) {
		struct sampling hot = {.temperature = 100, .top_p = 1, .seed = 3};
		assert_int_not_equal(sampler_draw(&s, logits, &hot, position), 0);
	}
	sampler_free(&s);
}

/* ---- in a session ---- */

static int load(void **state)
{
	(void)state;
	test_model_open(&fable, test_fable(), &(struct engine_options){.quant = "bf16"});
	return 0;
}

static const char PROMPT[] = "ha ha ha ha ha ha ha ha ha ha";

static struct session *session_with(const char *penalty, const char *temperature)
{
	struct session *s = test_session(&fable);
	test_set(s, "repetition_penalty", penalty);
	test_set(s, "temperature", temperature);
	test_set(s, "seed", "5");
	test_set(s, "chat", "off");
	test_set(s, "max_tokens", "32");
	return s;
}

static char *answer_with(const char *penalty, const char *temperature)
{
	struct session *s = session_with(penalty, temperature);
	char *text = test_ask(s, PROMPT);
	session_end(s);
	return text;
}

/* How many tokens of the answer to PROMPT stood in the context before. */
static size_t repeats(const char *penalty)
{
	struct session *s = session_with(penalty, "0");
	free(test_ask(s, PROMPT));
	const struct token_list *t = observe_computed(s);
	size_t count = 0, prompt = test_stats(s).prompt_tokens;
	assert_true(t->count > prompt + 8);
	for (size_t i = prompt; i < t->count; i++)
		for (size_t k = 0; k < i; k++)
			if (t->ids[i] == t->ids[k]) {
				count++;
				break;
			}
	session_end(s);
	return count;
}

/* A penalty that leaves almost nothing of the logits of earlier tokens. */
static void a_heavy_penalty_lets_no_token_come_twice(void **state)
{
	(void)state;
	assert_true(repeats("1") > 8);
	assert_int_equal(repeats("100"), 0);
}

static void a_penalty_goes_with_sampling_and_is_reproducible(void **state)
{
	(void)state;
	char *plain = answer_with("1", "0.8"), *some = answer_with("1.5", "0.8");
	assert_string_not_equal(plain, some);
	test_same_text(some, answer_with("1.5", "0.8"));
	free(plain);
}

/* The second turn's context holds the first: tokens of the first are penalised, too. */
static void the_turns_before_count(void **state)
{
	(void)state;
	static const char question[] = "What is the capital of France?";
	struct session *s = test_greedy_session(&fable);
	test_answer(s, question, "The capital of France is Paris.\n");
	test_set(s, "repetition_penalty", "100");
	char *again = test_ask(s, question);
	assert_null(strstr(again, "The capital of France is Paris."));
	free(again);
	session_end(s);
}

/* Each position of a draft is drawn with the counts of the tokens before it. */
static void what_was_said_counts_in_drafts_as_without(void **state)
{
	(void)state;
	static const char *const sets[][4] = {{"1", "0.4", "0.3", "33 2"},
					      {"1", "-0.2", "-0.1", ""},
					      {"1.1", "0.05", "0", "0 -100\n300 -3"},
					      {"1", "0", "0.9", ""}};
	static const char *const temperatures[] = {"0", "0.7"};
	uint64_t stood = 0;
	for (size_t i = 0; i < 2 * sizeof sets / sizeof *sets; i++) {
		char *texts[2];
		for (int drafted = 0; drafted < 2; drafted++) {
			const char *const *p = sets[i / 2];
			struct session *s = session_with(p[0], temperatures[i % 2]);
			test_set(s, "frequency_penalty", p[1]);
			test_set(s, "presence_penalty", p[2]);
			test_set(s, "logit_bias", p[3]);
			test_set(s, "max_tokens", "100");
			test_set(s, "draft", drafted ? "lookup" : "off");
			texts[drafted] = test_ask(s, PROMPT);
			stood += drafted ? test_stats(s).draft_stood_by[DRAFT_LOOKUP] : 0;
			session_end(s);
		}
		test_same_text(texts[0], texts[1]);
	}
	assert_true(stood > 20);
}

/* The text before the cut of an answer is part of the answer. */
static void an_answer_that_is_gone_on_with_has_said_what_it_has(void **state)
{
	(void)state;
	enum { WHOLE, CUT };
	struct session *s[2];
	char *texts[2];
	struct answer *rest;
	struct err e;
	int code;
	for (int i = WHOLE; i <= CUT; i++) {
		s[i] = test_greedy_session(&fable);
		test_set(s[i], "presence_penalty", "0.9");
		test_set(s[i], "frequency_penalty", "0.5");
		test_set(s[i], "max_tokens", i == CUT ? "12" : "36");
		texts[i] = test_ask(s[i], "Tell me a tale of a fox.");
		assert_string_equal(test_stats(s[i]).finish, "length");
	}
	free(texts[CUT]);
	test_set(s[CUT], "max_tokens", "24");
	assert_int_equal(session_again(s[CUT], SESSION_AGAIN_CONTINUE, &rest, &e), 0);
	texts[CUT] = test_read(rest, &code);
	test_same_text(texts[WHOLE], texts[CUT]);
	session_end(s[WHOLE]);
	session_end(s[CUT]);
}

static void a_presence_penalty_changes_the_text(void **state)
{
	(void)state;
	struct session *plain = session_with("1", "0"), *other = session_with("1", "0");
	test_set(other, "presence_penalty", "2");
	test_set(other, "frequency_penalty", "2");
	char *more = test_ask(plain, PROMPT), *less = test_ask(other, PROMPT);
	assert_string_not_equal(more, less);
	free(more);
	free(less);
	/* The prompt's words are not penalised, as often as the prompt has them. */
	uint32_t first = observe_computed(plain)->ids[test_stats(plain).prompt_tokens];
	assert_int_equal(observe_computed(other)->ids[test_stats(other).prompt_tokens], first);
	session_end(plain);
	session_end(other);
}

static void a_banned_token_is_not_said(void **state)
{
	(void)state;
	char bias[32];
	struct session *s = session_with("1", "0");
	free(test_ask(s, PROMPT));
	uint32_t first = observe_computed(s)->ids[test_stats(s).prompt_tokens];
	(void)snprintf(bias, sizeof bias, "%u -100", first);
	test_set(s, "logit_bias", bias);
	free(test_ask(s, PROMPT));
	const struct token_list *t = observe_computed(s);
	for (size_t i = test_stats(s).prompt_tokens; i < t->count; i++)
		assert_int_not_equal(t->ids[i], first);
	(void)snprintf(bias, sizeof bias, "%u 100", first);
	test_set(s, "logit_bias", bias);
	free(test_ask(s, "Tell me a tale."));
	t = observe_computed(s);
	for (size_t i = test_stats(s).prompt_tokens; i < t->count; i++)
		assert_int_equal(t->ids[i], first);
	session_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_token_of_the_context_is_penalised_once),
		cmocka_unit_test(each_token_of_the_answer_is_penalised_by_its_count),
		cmocka_unit_test(a_bias_is_added_and_a_ban_is_never_drawn),
		cmocka_unit_test(a_penalty_of_one_changes_and_keeps_nothing),
		cmocka_unit_test(a_heavy_penalty_lets_no_token_come_twice),
		cmocka_unit_test(a_penalty_goes_with_sampling_and_is_reproducible),
		cmocka_unit_test(the_turns_before_count),
		cmocka_unit_test(what_was_said_counts_in_drafts_as_without),
		cmocka_unit_test(an_answer_that_is_gone_on_with_has_said_what_it_has),
		cmocka_unit_test(a_presence_penalty_changes_the_text),
		cmocka_unit_test(a_banned_token_is_not_said),
	};
	return cmocka_run_group_tests(tests, load, fable_close);
}
