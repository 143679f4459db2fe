/* The repetition penalty: what a slow reading of its definition gives, and that a session's answers
 * have it. */
#include "engine/compute/repetition.h"
#include "engine/serve/observe.h"
#include "random.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
		assert_int_equal(repetition_init(&repetition, PENALTIES[k], VOCABULARY), 0);
		for (size_t n = 0; n < STEPS; n++) {
			float want[VOCABULARY], got[VOCABULARY];
			random_normal(&r, want, VOCABULARY);
			want[3] = 0;
			memcpy(got, want, sizeof got);
			slow_penalty(want, ids, n, PENALTIES[k]);
			repetition_apply(&repetition, got);
			assert_memory_equal(got, want, sizeof got);
			ids[n] =
				random_u32(&r) % (n % 2 ? VOCABULARY : 20); /* many of them again */
			assert_int_equal(repetition_add(&repetition, &ids[n], 1), 0);
		}
		repetition_free(&repetition);
	}
}

static void a_penalty_of_one_changes_and_keeps_nothing(void **state)
{
	(void)state;
	struct repetition r, zero = {0};
	float logits[] = {1, -1, 2}, same[] = {1, -1, 2};
	static const uint32_t ids[] = {0, 1, 2};
	assert_int_equal(repetition_init(&r, 1, 3), 0);
	assert_int_equal(repetition_add(&r, ids, 3), 0);
	repetition_apply(&r, logits);
	assert_memory_equal(logits, same, sizeof same);
	assert_null(r.seen);
	assert_null(r.ids);
	repetition_free(&r);
	repetition_apply(&zero, logits);
	assert_memory_equal(logits, same, sizeof same);
	repetition_free(&zero);
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
	const struct token_list *t = session_computed(s);
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

/* One that leaves next to nothing of the logits of what was said. */
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

/* The second turn's context holds the first: what was said there is penalised, too. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_token_of_the_context_is_penalised_once),
		cmocka_unit_test(a_penalty_of_one_changes_and_keeps_nothing),
		cmocka_unit_test(a_heavy_penalty_lets_no_token_come_twice),
		cmocka_unit_test(a_penalty_goes_with_sampling_and_is_reproducible),
		cmocka_unit_test(the_turns_before_count),
	};
	return cmocka_run_group_tests(tests, load, fable_close);
}
