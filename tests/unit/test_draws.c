/* Which answers need all of a step's logits. A backend that can find the largest ones itself is asked for those alone by
 * greedy answers, unless something changes their logits or tells them; and every answer is what it is without that
 * backend. */
#include "session_help.h"

#include "engine/compute/sampler.h"
#include "engine/compute/step.h"
#include "engine/cpu/cpu.h"
#include "engine/model/engine_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct test_model finding; /* its backend is this one: */
static struct backend finds;
static _Atomic uint32_t wholes, alone; /* rows whose logits were made for a reader, and whose largest was */

static void whole(struct step *s, uint32_t n, float *logits)
{
	wholes += n;
	cpu_backend.head(s, n, logits);
}

static bool largest(struct step *s, uint32_t n, struct candidate *out)
{
	const uint32_t vocabulary = s->env->config->vocabulary;
	float *logits = calloc(n, vocabulary * sizeof *logits);
	if (!logits)
		return false;
	cpu_backend.head(s, n, logits);
	for (uint32_t i = 0; i < n; i++) {
		const float *row = logits + (size_t)i * vocabulary;
		out[i].id = sampler_greedy(row, vocabulary);
		out[i].p = row[out[i].id];
	}
	alone += n;
	free(logits);
	return true;
}

static int load_both(void **state)
{
	finds = cpu_backend;
	finds.head = whole;
	finds.largest = largest;
	test_model_open(&finding, test_fable(), &(struct engine_options){0});
	finding.engine->backend = &finds;
	test_wait_converted(finding.model);
	/* No answer goes on between the layers of a prompt: on a slow machine it could be over before another has begun. */
	finding.engine->options.step_ms = UINT32_MAX;
	return fable_load(state);
}

static int close_both(void **state)
{
	test_model_close(&finding);
	return fable_close(state);
}

static const char QUESTION[] = "What is the capital of France?";

struct setting {
	const char *param, *value;
};

static char *answer_with(struct test_model *m, const struct setting *with)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "max_tokens", "12");
	test_set(s, "seed", "3");
	if (with->param)
		test_set(s, with->param, with->value);
	if (with->param && !strcmp(with->value, "choices"))
		test_write_text(s, SESSION_CHOICES, "Paris\nRome\nLima\n");
	wholes = alone = 0;
	char *text = test_ask(s, QUESTION);
	session_end(s);
	return text;
}

/* The same answer of both models. */
static void both_answer(const struct setting *with)
{
	char *want = answer_with(&fable, with);
	test_same_text(answer_with(&finding, with), want);
}

/* Whether each of these settings by itself needs all logits, or the largest alone. */
static void each_needs(const struct setting *settings, size_t count, bool all)
{
	for (size_t i = 0; i < count; i++) {
		both_answer(&settings[i]);
		assert_true((all ? wholes : alone) > 0);
		assert_int_equal(all ? alone : wholes, 0);
	}
}

static void greedy_answers_need_the_largest_logits_alone(void **state)
{
	static const struct setting plain[] = {
		{NULL, NULL},	     {"chat", "off"},	  {"draft", "off"},	   {"top_k", "5"},
		{"top_p", "0.5"},    {"min_p", "0.1"},	  {"repetition_penalty", "1"}, {"stop", "Rome"},
		{"experts_per_token", "1"}};
	(void)state;
	each_needs(plain, sizeof plain / sizeof *plain, false);
}

static void what_changes_or_tells_logits_needs_all_of_them(void **state)
{
	static const struct setting changing[] = {
		{"temperature", "0.7"},	      {"logit_bias", "7 2.5"},	  {"repetition_penalty", "1.3"},
		{"frequency_penalty", "0.5"}, {"presence_penalty", "0.5"}, {"logprobs", "2"},
		{"format", "json"},	      {"format", "choices"}};
	(void)state;
	each_needs(changing, sizeof changing / sizeof *changing, true);
}

static void scores_need_all_logits(void **state)
{
	struct answer *a;
	struct err e;
	int code;
	char *text[2];
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct session *s = test_greedy_session(i ? &finding : &fable);
		wholes = alone = 0;
		if (session_score(s, QUESTION, strlen(QUESTION), &a, &e))
			fail_msg("%s", e.text);
		text[i] = test_read(a, &code);
		assert_int_equal(code, 0);
		session_end(s);
	}
	assert_true(wholes > 0);
	assert_int_equal(alone, 0);
	test_same_text(text[0], text[1]);
}

/* Two answers of one step, of which one needs all logits. */
static void answers_together_are_what_they_are_alone(void **state)
{
	static const struct setting ways[] = {{NULL, NULL}, {"logprobs", "2"}};
	struct session *s[2];
	struct answer *a[2];
	int code;
	(void)state;
	char *want = answer_with(&fable, &ways[0]);
	for (int i = 0; i < 2; i++) {
		s[i] = test_greedy_session(&finding);
		test_set(s[i], "max_tokens", "12");
	}
	test_set(s[1], ways[1].param, ways[1].value);
	(void)test_most_together();
	test_hold(s[0], 0);
	for (int i = 0; i < 2; i++)
		a[i] = test_submit(s[i], QUESTION);
	test_wait_held();
	test_let_go();
	for (int i = 0; i < 2; i++) {
		test_same_text(test_read(a[i], &code), strdup(want));
		session_end(s[i]);
	}
	assert_int_equal(test_most_together(), 2);
	free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(greedy_answers_need_the_largest_logits_alone),
		cmocka_unit_test(what_changes_or_tells_logits_needs_all_of_them),
		cmocka_unit_test(scores_need_all_logits),
		cmocka_unit_test_teardown(answers_together_are_what_they_are_alone, test_end_watch),
	};
	return cmocka_run_group_tests(tests, load_both, close_both);
}
