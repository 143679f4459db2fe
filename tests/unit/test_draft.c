/* Drafts change the number of tokens that a step yields, and nothing that can be read: not the
 * text, not the context, not later turns. */
#include "engine/admin/observe.h"
#include "golden.h"
#include "memory_help.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const depths[] = {"lookup", "lookup 1", "lookup 2", "auto"};
enum { DEPTHS = sizeof depths / sizeof *depths };

static struct session *drafting_with(struct test_model *m, const char *draft)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "draft", draft);
	return s;
}

static struct session *drafting(const char *draft)
{
	return drafting_with(&fable, draft);
}

static uint64_t all(const uint64_t counts[SESSION_DRAFTS])
{
	uint64_t sum = 0;
	for (int i = 0; i < SESSION_DRAFTS; i++)
		sum += counts[i];
	return sum;
}

/* The likeliest continuation of this is more of it. */
static const char repeats[] = "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha "
			      "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha";

static struct session *continuing(const char *draft, const char *temperature, const char *seed)
{
	struct session *s = drafting(draft);
	test_set(s, "chat", "off");
	test_set(s, "max_tokens", "300");
	test_set(s, "temperature", temperature);
	test_set(s, "seed", seed);
	return s;
}

static void the_text_is_the_same_at_any_temperature_and_seed(void **state)
{
	(void)state;
	static const char *const temperatures[] = {"0", "0.7", "1.3"};
	static const char *const prompts[] = {repeats, "Once upon a time", "The capital of France"};
	for (size_t i = 0; i < 9; i++) {
		if (THREADS_WATCHED &&
		    i / 3 != i % 3) /* one draw each: drawing shares nothing between threads */
			continue;
		const char *prompt = prompts[i / 3], *temperature = temperatures[i % 3];
		struct session *off = continuing("off", temperature, "11");
		char *want = test_ask(off, prompt);
		for (size_t d = 0; d < DEPTHS; d++) {
			struct session *on = continuing(depths[d], temperature, "11");
			char *have = test_ask(on, prompt);
			assert_string_equal(have, want);
			free(have);
			assert_int_equal(test_stats(off).output_tokens,
					 test_stats(on).output_tokens);
			assert_int_equal(test_stats(off).context_tokens,
					 test_stats(on).context_tokens);
			session_end(on);
		}
		free(want);
		session_end(off);
	}
}

static void a_text_that_repeats_itself_is_drafted_and_stands(void **state)
{
	(void)state;
	struct session *s = continuing("lookup", "0", "1");
	free(test_ask(s, repeats));
	struct session_stats st = test_stats(s);
	assert_true(all(st.draft_stood) >= st.output_tokens / 2);
	assert_true(st.drafted[0] >= st.drafted[3] && st.drafted[3] > 0);
	assert_true(all(st.draft_stood) <= all(st.drafted));
	session_end(s);
}

static void off_drafts_nothing(void **state)
{
	(void)state;
	struct session *s = continuing("off", "0", "1");
	free(test_ask(s, repeats));
	assert_int_equal(all(test_stats(s).drafted), 0);
	session_end(s);
}

/* At every place where it can match, also in the middle of a draft. */
static void a_turn_that_ends_in_a_draft_leaves_the_context_as_without(void **state)
{
	(void)state;
	for (uint32_t most = 1; most <= 24; most += THREADS_WATCHED ? 4 : 1) {
		char number[16];
		(void)snprintf(number, sizeof number, "%u", most);
		struct session *both[] = {drafting("off"), drafting("lookup")};
		for (int i = 0; i < 2; i++) {
			test_set(both[i], "max_tokens", number);
			free(test_ask(both[i], "Count from 1 to 20: 1 2 3 4 5 6"));
		}
		const struct token_list *off = observe_computed(both[0]),
					*on = observe_computed(both[1]);
		assert_int_equal(off->count, on->count);
		assert_memory_equal(off->ids, on->ids, off->count * sizeof *off->ids);
		test_set(both[0], "max_tokens", "40");
		test_set(both[1], "max_tokens", "40");
		test_same_text(test_ask(both[0], "What is the capital of Chad?"),
			       test_ask(both[1], "What is the capital of Chad?"));
		assert_int_equal(test_stats(both[0]).cached_tokens,
				 test_stats(both[1]).cached_tokens);
		session_end(both[0]);
		session_end(both[1]);
	}
}

static void a_stop_text_in_a_draft_ends_the_answer_there(void **state)
{
	(void)state;
	struct session *both[] = {continuing("off", "0", "1"), continuing("lookup", "0", "1")};
	for (int i = 0; i < 2; i++)
		test_set(both[i], "stop", "ha ha ha ha ha ha ha");
	test_same_text(test_ask(both[0], repeats), test_ask(both[1], repeats));
	assert_string_equal(test_stats(both[0]).finish, test_stats(both[1]).finish);
	assert_int_equal(observe_computed(both[0])->count, observe_computed(both[1])->count);
	session_end(both[0]);
	session_end(both[1]);
}

/* The last position of a context is used, and none beyond it. */
static void a_full_context_is_as_full_as_without(void **state)
{
	(void)state;
	struct test_model narrow;
	test_model_ready(&narrow, test_fable(), &(struct engine_options){.context = 100});
	struct session *both[] = {test_greedy_session(&narrow), test_greedy_session(&narrow)};
	for (int i = 0; i < 2; i++) {
		test_set(both[i], "draft", i ? "lookup" : "off");
		test_set(both[i], "chat", "off");
		test_set(both[i], "max_tokens", "0");
	}
	test_same_text(test_ask(both[0], repeats), test_ask(both[1], repeats));
	assert_int_equal(observe_computed(both[0])->count, 100);
	assert_int_equal(observe_computed(both[1])->count, 100);
	session_end(both[0]);
	session_end(both[1]);
	test_model_close(&narrow);
}

/* Answers that end because they repeat themselves, just before the end of a block: their last drafts would go beyond it. */
static void where_only_drafts_have_no_room_the_text_goes_on(void **state)
{
	(void)state;
	uint32_t tried = 0;
	for (uint32_t more = 0; more < 48 && tried < 3; more++) {
		char prompt[512];
		struct test_model narrow;
		(void)snprintf(prompt, sizeof prompt, "%s%.*s", repeats, (int)(3 * more),
			       " ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha"
			       " ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha");
		struct session *off = continuing("off", "0", "1");
		char *want = test_ask(off, prompt);
		size_t count = observe_computed(off)->count;
		session_end(off);
		if (count % KV_BLOCK < KV_BLOCK - 4) {
			free(want);
			continue;
		}
		test_model_ready(&narrow, test_fable(),
				 &(struct engine_options){.context_budget = (count / KV_BLOCK + 1) *
									    TEST_BLOCK_BYTES});
		struct session *on = drafting_with(&narrow, "lookup");
		test_set(on, "chat", "off");
		test_set(on, "max_tokens", "300");
		test_same_text(test_ask(on, prompt), want);
		session_end(on);
		test_model_close(&narrow);
		tried++;
	}
	assert_true(tried > 0);
}

/* The result of a step without an expert would depend on the draft. */
static void with_drop_missing_nothing_is_drafted(void **state)
{
	(void)state;
	struct session *s = continuing("lookup", "0", "1");
	test_set(s, "drop_missing", "0.1");
	free(test_ask(s, repeats));
	assert_int_equal(all(test_stats(s).drafted), 0);
	session_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_is_the_same_at_any_temperature_and_seed),
		cmocka_unit_test(a_text_that_repeats_itself_is_drafted_and_stands),
		cmocka_unit_test(off_drafts_nothing),
		cmocka_unit_test(a_turn_that_ends_in_a_draft_leaves_the_context_as_without),
		cmocka_unit_test(a_stop_text_in_a_draft_ends_the_answer_there),
		cmocka_unit_test(a_full_context_is_as_full_as_without),
		cmocka_unit_test(where_only_drafts_have_no_room_the_text_goes_on),
		cmocka_unit_test(with_drop_missing_nothing_is_drafted),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
