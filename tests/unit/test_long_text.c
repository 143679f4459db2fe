/* A model that turns the keys of long texts otherwise, from the limit on (phi3: 64 positions in the
 * fixture): an answer that passes the limit is computed again, so that each of its tokens follows
 * from the ids before alone; what was computed on one side of the limit is of no use on the other.
 */
#include "engine/admin/observe.h"
#include "engine/compute/context_save.h"
#include "engine/model/model_state.h"
#include "engine/session/session_state.h"
#include "engine/turn/turn.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LIMIT = 64, ANSWER = 70 };
static const char prompt[] = "The small fox wrote a letter";

static struct test_model phi;
static struct model_view view;
static struct err e;

static bool open_phi(const struct engine_options *o)
{
	const char *folder = test_fixture("phi3");
	struct engine_options with = *o;
	with.quant = "bf16";
	if (!folder)
		return false;
	test_model_ready(&phi, folder, &with);
	observe_model(phi.model, &view);
	return true;
}

static struct session *begin(const char *draft)
{
	char most[16];
	struct session *s = test_greedy_session(&phi);
	(void)snprintf(most, sizeof most, "%d", ANSWER);
	test_set(s, "max_tokens", most);
	test_set(s, "stop_repetition", "off");
	test_set(s, "chat", "off");
	test_set(s, "draft", draft);
	return s;
}

/* Asks, and copies the ids that the context has afterwards. */
static uint32_t *ask(struct session *s, const char *text, size_t *count)
{
	free(test_ask(s, text));
	*count = s->context.tokens.count;
	uint32_t *ids = calloc(*count + 1, sizeof *ids);
	assert_non_null(ids);
	memcpy(ids, s->context.tokens.ids, *count * sizeof *ids);
	return ids;
}

/* What follows ids[n], all of them computed at once in a context of their own. */
static uint32_t next_of(const uint32_t *ids, uint32_t n)
{
	struct context x;
	float *all = calloc((size_t)n * view.config->vocabulary, sizeof *all);
	assert_non_null(all);
	context_init(&x, view.context_budget, view.config, view.kv);
	context_suit(&x, n);
	if (test_step(view.forward, &x, ids, n, all, &e))
		fail_msg("%s", e.text);
	uint32_t next = sampler_greedy(all + (size_t)(n - 1) * view.config->vocabulary,
				       view.config->vocabulary);
	context_free(&x);
	free(all);
	return next;
}

static void each_token_of_an_answer_that_passes_the_limit_follows_from_the_ids_before(void **state)
{
	(void)state;
	size_t count;
	if (!open_phi(&(struct engine_options){.threads = 2}))
		skip();
	assert_int_equal(view.config->rope_limit, LIMIT);
	struct session *s = begin("off");
	uint32_t *ids = ask(s, prompt, &count), asked = (uint32_t)test_stats(s).prompt_tokens;
	assert_in_range(asked, 2, LIMIT / 2);
	assert_in_range(count, LIMIT + 8, asked + ANSWER);
	assert_true(s->context.long_text);
	for (uint32_t n = asked; n < count; n++)
		assert_int_equal(next_of(ids, n), ids[n]);
	free(ids);
	session_end(s);
	test_model_close(&phi);
}

/* The same with drafts, in chunks of any size, with one thread, and beside another session. */
static void an_answer_is_the_same_however_it_passes_the_limit(void **state)
{
	(void)state;
	static const struct {
		struct engine_options o;
		const char *draft;
		bool company;
	} ways[] = {{{.threads = 1}, "off", false},
		    {{.threads = 2, .chunk = 7}, "off", false},
		    {{.threads = 2, .chunk = 1}, "lookup", false},
		    {{.threads = 2}, "lookup", false},
		    {{.threads = 2}, "auto", true}};
	size_t count, n;
	uint32_t *ids = NULL;
	for (size_t i = 0; i < sizeof ways / sizeof *ways && test_fixture("phi3"); i++) {
		assert_true(open_phi(&ways[i].o));
		struct session *s = begin(ways[i].draft), *other = begin(ways[i].draft);
		struct answer *beside = ways[i].company ? test_submit(other, "It was") : NULL;
		uint32_t *got = ask(s, prompt, &n);
		if (!ids) {
			ids = got;
			count = n;
		} else {
			assert_int_equal(n, count);
			assert_memory_equal(ids, got, n * sizeof *ids);
			free(got);
		}
		if (beside)
			free(test_read(beside, &(int){0}));
		session_end(s);
		session_end(other);
		test_model_close(&phi);
	}
	free(ids);
}

/* A text that a short one begins is found again only while it is short itself. */
static void a_kept_text_is_not_used_on_the_other_side_of_the_limit(void **state)
{
	(void)state;
	char text[400] = "";
	if (!open_phi(&(struct engine_options){.threads = 2}))
		skip();
	struct session *s = begin("off"), *t = begin("off"), *u = begin("off");
	struct session *all[] = {s, t, u};
	for (int i = 0; i < 3; i++) {
		test_set(all[i], "max_tokens", "2");
		test_set(all[i], "share_with", "us");
	}
	static const char words[] = "The river runs under the old stone bridge. ";
	(void)snprintf(text, sizeof text, "%s", words);
	free(test_ask(s, text));
	assert_in_range(test_stats(s).prompt_tokens, PREFIX_LEAST + 2, LIMIT - 2);
	(void)snprintf(text, sizeof text, "%s and the boats", words);
	free(test_ask(t, text));
	assert_true(test_stats(t).cached_tokens >= PREFIX_LEAST);
	(void)snprintf(text, sizeof text, "%s%s%s%s%s", words, words, words, words, words);
	free(test_ask(u, text));
	assert_in_range(test_stats(u).prompt_tokens, LIMIT + 1, 1000);
	assert_int_equal(test_stats(u).cached_tokens, 0);
	char *why = test_text(u, SESSION_WHY);
	assert_non_null(strstr(why, "rotates keys differently in texts beyond"));
	free(why);
	for (int i = 0; i < 3; i++)
		session_end(all[i]);
	test_model_close(&phi);
}

static void take(struct context *to, struct context *from)
{
	struct context_save save;
	context_init(to, view.context_budget, view.config, view.kv);
	if (context_save_open(&save, from, view.config, &e))
		fail_msg("%s", e.text);
	context_save_become(&save, to);
	context_save_close(&save);
}

/* How keys are turned follows from the number of positions that are saved. */
static void the_beginning_of_a_long_text_is_not_saved(void **state)
{
	(void)state;
	struct context x, copy;
	uint32_t ids[LIMIT + 1] = {0};
	if (!open_phi(&(struct engine_options){.threads = 2}))
		skip();
	context_init(&x, view.context_budget, view.config, view.kv);
	assert_int_equal(test_step(view.forward, &x, ids, LIMIT, NULL, &e), 0);
	assert_int_equal(test_step(view.forward, &x, ids, 1, NULL, &e), -EINVAL);
	take(&copy, &x);
	assert_true(copy.tokens.count == LIMIT && !copy.long_text);
	context_free(&copy);
	context_suit(&x, LIMIT + 1);
	assert_int_equal(x.tokens.count, 0);
	assert_int_equal(test_step(view.forward, &x, ids, LIMIT, NULL, &e), 0);
	take(&copy, &x);
	assert_int_equal(copy.tokens.count, 0);
	context_free(&copy);
	assert_int_equal(test_step(view.forward, &x, ids, 1, NULL, &e), 0);
	take(&copy, &x);
	assert_true(copy.tokens.count == LIMIT + 1 && copy.long_text);
	context_free(&copy);
	context_free(&x);
	test_model_close(&phi);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			each_token_of_an_answer_that_passes_the_limit_follows_from_the_ids_before),
		cmocka_unit_test(an_answer_is_the_same_however_it_passes_the_limit),
		cmocka_unit_test(a_kept_text_is_not_used_on_the_other_side_of_the_limit),
		cmocka_unit_test(the_beginning_of_a_long_text_is_not_saved),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
