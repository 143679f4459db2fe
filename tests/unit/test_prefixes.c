/* Kept prefixes: a conversation that begins like another computes only the rest, its text is that
 * which it has alone, and nobody else's sessions have any of it. */
#include "session_help.h"

#include "golden.h"

#include "engine/model/engine_state.h"
#include "engine/prefixes/evicted.h"
#include "engine/session.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct err e;

/* More than a block of tokens, and for a fixture's bytes as tokens much more. */
static const char system_text[] =
	"You are a careful clerk. You answer in one short line, in plain words, and you never ask "
	"anything back. If a question has a number in it, you say the number first. If it has "
	"none, you begin with the noun. You know the capitals of all countries, the tables up to "
	"twelve, and the names of the months. You do not know anything else, and you say so.";

/* A session that shares with all others that have the word; NULL: with those that have none. */
static struct session *sharing(struct test_model *m, const char *word)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "share_with", word ? word : "auto");
	test_set(s, "max_tokens", "12");
	return s;
}

static struct session *clerk(struct test_model *m, const char *word)
{
	struct session *s = sharing(m, word);
	test_set(s, "system", system_text);
	return s;
}

/* The text of a session that shares nothing. */
static char *alone(struct test_model *m, const char *prompt)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "max_tokens", "12");
	test_set(s, "system", system_text);
	char *text = test_ask(s, prompt);
	assert_int_equal(test_stats(s).cached_tokens, 0);
	session_end(s);
	return text;
}

static char *why(struct session *s)
{
	size_t n;
	char *text = session_text_get(s, SESSION_WHY, &n, &e);
	assert_non_null(text);
	return text;
}

static void assert_why(struct session *s, const char *words)
{
	char *text = why(s);
	if (!strstr(text, words))
		fail_msg("why does not say \"%s\":\n%s", words, text);
	free(text);
}

static uint32_t kept(struct test_model *m)
{
	struct model_prefix p;
	uint32_t n = 0;
	for (uint64_t id = 0; model_prefix_next(m->model, id, &p); id = p.id + 1)
		n++;
	return n;
}

static struct model_prefix newest(struct test_model *m)
{
	struct model_prefix p = {0}, last = {0};
	for (uint64_t id = 0; model_prefix_next(m->model, id, &p); id = p.id + 1)
		last = p;
	assert_true(last.id > 0);
	return last;
}

/* ---- the same beginning ---- */

/* The second question finds all but what follows the system message, whether the first
 * conversation has ended or not. */
static void the_second_finds_the_first(struct test_model *m, bool ended)
{
	static const char *const questions[] = {"What is the capital of Chad?", "What is 7 x 8?"};
	struct session *first = clerk(m, ended ? "ended" : "open"),
		       *second = clerk(m, ended ? "ended" : "open");
	test_same_text(test_ask(first, questions[0]), alone(m, questions[0]));
	assert_int_equal(test_stats(first).cached_tokens, 0);
	if (ended)
		session_end(first);
	test_same_text(test_ask(second, questions[1]), alone(m, questions[1]));
	struct session_stats st = test_stats(second);
	if (st.prompt_tokens - st.cached_tokens > 60)
		fail_msg("%u of %u tokens were found", (unsigned)st.cached_tokens,
			 (unsigned)st.prompt_tokens);
	assert_why(second, "found_in prefixes\n");
	session_end(second);
	if (!ended)
		session_end(first);
}

static void in_each_kind_of_model(struct test_model *m)
{
	the_second_finds_the_first(m, true);
	the_second_finds_the_first(m, false);
}

static void a_system_message_is_computed_once(void **state)
{
	/* attention; recurrent states; windows; index keys; entries */
	static const char *const fixtures[] = {"qwen3_5_moe", "gpt_oss",     "gemma4_moe",
					       "kimi_linear", "qwen4_exp",   "glm_moe_dsa",
					       "minimax_m3",  "glm5_next", "deepseek_v4"};
	struct test_model m;
	(void)state;
	in_each_kind_of_model(&fable);
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		if (!test_fixture(fixtures[i]))
			continue; /* its line said which is missing */
		test_model_ready(&m, test_fixture(fixtures[i]),
				 &(struct engine_options){.chunk = 32});
		in_each_kind_of_model(&m);
		test_model_close(&m);
	}
}

/* A program that writes its whole conversation into a new session each turn. */
static void a_conversation_that_is_written_again_is_found(void **state)
{
	(void)state;
	struct session *s = clerk(&fable, "again");
	free(test_ask(s, "What is the capital of Chad?"));
	char *messages = test_text(s, SESSION_MESSAGES);
	uint64_t held = test_stats(s).context_tokens;
	session_end(s);
	s = sharing(&fable, "again");
	assert_int_equal(session_text_set(s, SESSION_MESSAGES, messages, strlen(messages), &e), 0);
	free(messages);
	free(test_ask(s, "And of Peru?"));
	assert_true(test_stats(s).cached_tokens + 8 >= held);
	session_end(s);
}

static void what_differs_is_shown(void **state)
{
	(void)state;
	struct session *first = clerk(&fable, "differs"), *second = sharing(&fable, "differs");
	char other[sizeof system_text];
	free(test_ask(first, "What is the capital of Chad?"));
	memcpy(other, system_text, sizeof other);
	memcpy(strstr(other, "twelve"), "twenty", 6);
	test_set(second, "system", other);
	free(test_ask(second, "What is the capital of Chad?"));
	assert_true(test_stats(second).cached_tokens > 40);
	assert_why(second, "reason the texts differ");
	assert_why(second, "twelve");
	assert_why(second, "twenty");
	session_end(first);
	session_end(second);
	second = sharing(&fable, "nobody");
	test_set(second, "system", system_text);
	free(test_ask(second, "What is 7 x 8?"));
	assert_why(second, "found_tokens 0\nfound_in nothing\nreason no kept text");
	session_end(second);
}

/* ---- whose it is ---- */

static uint64_t found_by(struct test_model *m, const char *word, uint32_t owner,
			 const char *param, const char *value)
{
	struct session *s = clerk(m, word);
	session_name(s, owner, "reader");
	if (param)
		test_set(s, param, value);
	free(test_ask(s, "What is the capital of Chad?"));
	uint64_t found = test_stats(s).cached_tokens;
	session_end(s);
	return found;
}

static void nobody_else_finds_any_of_it(void **state)
{
	(void)state;
	assert_int_equal(found_by(&fable, "mine", 1, NULL, NULL), 0);
	assert_int_equal(found_by(&fable, "mine", 2, NULL, NULL), 0);   /* another user */
	assert_int_equal(found_by(&fable, "yours", 1, NULL, NULL), 0);  /* another API key */
	assert_int_equal(found_by(&fable, NULL, 1, NULL, NULL), 0);     /* or none */
	assert_int_equal(found_by(&fable, "mine", 1, "experts_per_token", "2"), 0);
	assert_int_equal(found_by(&fable, "mine", 1, "drop_missing", "0.01"), 0);
	assert_true(found_by(&fable, "mine", 1, NULL, NULL) > 0);
	assert_true(found_by(&fable, "mine", 1, "experts_per_token", "2") > 0);
	assert_int_equal(found_by(&fable, "mine", 1, "drop_missing", "0.01"), 0); /* kept by none */
}

static void users_share_only_if_the_mount_says_so(void **state)
{
	(void)state;
	struct test_model m;
	test_model_ready(&m, test_fable(), &(struct engine_options){.share_all = 1});
	assert_int_equal(found_by(&m, "all", 1, NULL, NULL), 0);
	assert_true(found_by(&m, "all", 2, NULL, NULL) > 0);
	assert_int_equal(found_by(&m, "key", 2, NULL, NULL), 0);
	test_model_close(&m);
}

/* Whatever a state says that it has computed, only its own session believes it. */
static void a_restored_state_is_nobody_elses(void **state)
{
	(void)state;
	struct saved *v;
	struct session *s = clerk(&fable, "poison"), *other = sharing(&fable, "poison");
	free(test_ask(s, "What is the capital of Chad?"));
	assert_int_equal(session_save(s, &v, &e), 0);
	size_t n = saved_bytes(v);
	char *bytes = malloc(n);
	assert_non_null(bytes);
	assert_int_equal(saved_read(v, 0, bytes, n), n);
	saved_close(v);
	session_end(s);
	(void)test_context_used(&fable); /* nothing is kept any more */
	struct restored *r;
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	assert_int_equal(restored_feed(r, 0, bytes, n, &e), 0);
	assert_int_equal(session_restore(other, r, &e), 0);
	restored_close(r);
	free(bytes);
	test_set(other, "share_with", "poison");
	free(test_ask(other, "And of Peru?"));
	assert_true(test_stats(other).cached_tokens > 40);
	assert_int_equal(kept(&fable), 0);
	assert_int_equal(session_reset(other, &e), 0); /* from here on it computes itself */
	test_set(other, "system", system_text);
	free(test_ask(other, "And of Peru?"));
	assert_true(kept(&fable) > 0);
	session_end(other);
}

/* ---- what its owner may do ---- */

static void a_prefix_can_be_read_removed_and_pinned(void **state)
{
	(void)state;
	(void)test_context_used(&fable);
	struct session *s = clerk(&fable, "owner");
	session_name(s, 17, "owner");
	free(test_ask(s, "What is the capital of Chad?"));
	struct model_prefix p = newest(&fable), again;
	assert_int_equal(p.owner, 17);
	assert_int_equal(p.sessions, 1);
	assert_int_equal(p.own_bytes, 0); /* the session has all of it */
	session_end(s);
	while (model_working(fable.model))
		(void)sched_yield(); /* the session is freed after its last step */
	assert_true(model_prefix_named(fable.model, p.name, &again));
	assert_int_equal(again.sessions, 0);
	assert_int_equal(again.own_bytes, engine_context_used(fable.engine));
	char *text;
	size_t n;
	assert_int_equal(model_prefix_text(fable.model, p.id, &text, &n, &e), 0);
	assert_int_equal(n, p.text_bytes);
	assert_non_null(strstr(text, "You are a careful clerk."));
	free(text);
	assert_int_equal(model_prefix_pin(fable.model, p.id, true, &e), 0);
	assert_int_equal(model_prefix_remove(fable.model, p.id, &e), -EBUSY);
	assert_int_equal(model_prefix_pin(fable.model, p.id, false, &e), 0);
	assert_int_equal(model_prefix_remove(fable.model, p.id, &e), 0);
	assert_int_equal(model_prefix_remove(fable.model, p.id, &e), -ENOENT);
	assert_int_equal(engine_context_used(fable.engine), 0);
}

/* Entries give way to what a session needs, the one that was used longest ago first. */
static void what_was_used_last_is_kept_longest(void **state)
{
	(void)state;
	struct test_model m;
	enum { BLOCKS = 12 };
	test_model_ready(&m, test_fable(),
			 &(struct engine_options){.context_budget = BLOCKS * TEST_BLOCK_BYTES});
	assert_int_equal(found_by(&m, "pinned", 0, NULL, NULL), 0);
	assert_int_equal(model_prefix_pin(m.model, newest(&m).id, true, &e), 0);
	assert_int_equal(found_by(&m, "touched", 0, NULL, NULL), 0);
	uint64_t touched = newest(&m).id;
	for (int i = 0; i < 8; i++) {
		char word[24];
		(void)snprintf(word, sizeof word, "other-%d", i);
		assert_int_equal(found_by(&m, word, 0, NULL, NULL), 0);
		assert_true(engine_context_used(m.engine) <= BLOCKS * TEST_BLOCK_BYTES);
		assert_int_equal(model_prefix_touch(m.model, touched, &e), 0);
	}
	assert_true(found_by(&m, "pinned", 0, NULL, NULL) > 0);
	assert_true(found_by(&m, "touched", 0, NULL, NULL) > 0);
	assert_true(found_by(&m, "other-7", 0, NULL, NULL) > 0);
	assert_int_equal(found_by(&m, "other-0", 0, NULL, NULL), 0);
	uint64_t pinned = 0;
	struct model_prefix p;
	int failed = 0;
	for (uint64_t id = 0; !failed && model_prefix_next(m.model, id, &p); id = p.id + 1) {
		pinned += p.own_bytes;
		failed = model_prefix_pin(m.model, p.id, true, &e);
	}
	assert_int_equal(failed, -ENOSPC);
	assert_true(pinned > BLOCKS * TEST_BLOCK_BYTES / 2);
	test_model_close(&m);
}

static void assert_evicted(const struct evicted *v, uint64_t key, size_t count, size_t least,
			   size_t want)
{
	static uint32_t text[2000];
	for (uint32_t i = 0; i < 2000; i++)
		text[i] = i * i;
	const struct token_list ids = {text, count, count};
	assert_int_equal(evicted_find(v, key, &ids, least), want);
}

static void texts_that_were_given_up_are_known_by_hashes(void **state)
{
	enum { MINE = 5, YOURS = 6 };
	static struct evicted v;
	uint32_t text[1000];
	struct token_list ids = {text, 1000, 1000};
	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		text[i] = i * i;
	text[900] = 7; /* the text of assert_evicted is the same up to here */
	assert_evicted(&v, MINE, 2000, 0, 0);
	evicted_note(&v, MINE, &ids, false);
	assert_evicted(&v, MINE, 2000, 0, 0);
	ids.count = 700;
	evicted_note(&v, MINE, &ids, false);
	assert_evicted(&v, MINE, 2000, 0, 700);
	assert_evicted(&v, MINE, 700, 0, 700);
	assert_evicted(&v, MINE, 699, 0, 0);
	assert_evicted(&v, MINE, 2000, 700, 0);
	assert_evicted(&v, YOURS, 2000, 0, 0);
	ids.count = 1000;
	evicted_note(&v, YOURS, &ids, true);
	assert_evicted(&v, YOURS, 2000, 0, 512);
	assert_evicted(&v, YOURS, 511, 0, 256);
	for (uint64_t i = 0; i < EVICTED_MOST; i++)
		evicted_note(&v, i, &ids, false);
	assert_evicted(&v, YOURS, 2000, 0, 0);
}

static void assert_clerk_says(struct test_model *m, const char *word, uint32_t owner,
			      const char *words)
{
	struct session *s = clerk(m, word);
	session_name(s, owner, "reader");
	free(test_ask(s, "What is the capital of Chad?"));
	assert_why(s, words);
	session_end(s);
}

static void why_tells_what_was_evicted_from_what_is_new(void **state)
{
	static const char evicted[] = "found_tokens 0\nfound_in nothing\nreason the same text was "
				      "kept, but its memory was needed\nevicted_tokens ",
			  new[] = "reason no kept text has the same beginning";
	(void)state;
	struct test_model m;
	test_model_ready(&m, test_fable(),
			 &(struct engine_options){.context_budget = 6 * TEST_BLOCK_BYTES});
	assert_clerk_says(&m, "first", 1, new);
	for (const char *word = "a\0b\0c\0d\0"; *word; word += 2)
		assert_int_equal(found_by(&m, word, 1, NULL, NULL), 0);
	assert_clerk_says(&m, "first", 2, new); /* nobody else is told */
	assert_clerk_says(&m, "second", 1, new);
	assert_clerk_says(&m, "first", 1, evicted);
	assert_clerk_says(&m, "first", 1, "found_in prefixes\n");
	(void)test_context_used(&m); /* what is removed was not evicted */
	assert_clerk_says(&m, "second", 1, new);
	test_model_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_system_message_is_computed_once),
		cmocka_unit_test(a_conversation_that_is_written_again_is_found),
		cmocka_unit_test(what_differs_is_shown),
		cmocka_unit_test(nobody_else_finds_any_of_it),
		cmocka_unit_test(users_share_only_if_the_mount_says_so),
		cmocka_unit_test(a_restored_state_is_nobody_elses),
		cmocka_unit_test(a_prefix_can_be_read_removed_and_pinned),
		cmocka_unit_test(what_was_used_last_is_kept_longest),
		cmocka_unit_test(texts_that_were_given_up_are_known_by_hashes),
		cmocka_unit_test(why_tells_what_was_evicted_from_what_is_new),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
