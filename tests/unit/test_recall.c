/* Remembered answers without the weights: they are given again by a model that is not loaded, and
 * foreseen by plans. test_remember.c has what is remembered. */
#include "checkpoint_help.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char QUESTION[] = "What is the capital of France?", OTHER[] = "What is 3 x 4?",
		  ANSWER[] = "The capital of France is Paris.\n";
static struct err e;
static char folder[32];

static struct session *user(struct test_model *m, uint32_t owner)
{
	struct session *s = test_greedy_session(m);
	session_name(s, owner, "test");
	test_set(s, "share_with", "test");
	test_set(s, "max_tokens", "12");
	return s;
}

static void ready(struct test_model *m, const char *directory)
{
	test_model_ready(m, directory, &(struct engine_options){.remember = folder});
}

/* A mount that knows the answer to QUESTION and has not loaded the model. */
static void open_knowing(struct test_model *m, const char *directory)
{
	ready(m, directory);
	test_wait_converted(m->model);
	struct session *s = user(m, 1);
	free(test_ask(s, QUESTION));
	assert_false(test_stats(s).remembered);
	session_end(s);
	test_model_close(m);
	test_model_open(m, directory, &(struct engine_options){.remember = folder});
	assert_int_equal(model_state(m->model), MODEL_UNLOADED);
}

static void unload(const struct test_model *m)
{
	if (model_unload(m->model, &e))
		fail_msg("%s", e.text);
}

/* ---- turns ---- */

static void an_answer_is_given_again_without_loading(void **state)
{
	(void)state;
	struct test_model m;
	open_knowing(&m, test_fable());
	struct session *s = user(&m, 1);
	test_answer(s, QUESTION, ANSWER);
	assert_true(test_stats(s).remembered);
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	char *said = test_ask(s, OTHER); /* what is missing of the context is computed */
	assert_false(test_stats(s).remembered);
	assert_int_equal(model_state(m.model), MODEL_READY);
	unload(&m);
	assert_int_equal(session_reset(s, NULL), 0);
	test_answer(s, QUESTION, ANSWER);
	test_same_text(said, test_ask(s, OTHER));
	assert_true(test_stats(s).remembered);
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	session_end(s);
	test_model_close(&m);
}

static void turns_that_are_not_known_load_beside_those_that_are(void **state)
{
	(void)state;
	struct test_model m;
	open_knowing(&m, test_fable());
	struct session *all[] = {user(&m, 1), user(&m, 1), user(&m, 1), user(&m, 2)};
	struct answer *answers[4];
	for (int i = 0; i < 4; i++)
		answers[i] = test_submit(all[i], i == 1 ? OTHER : QUESTION);
	session_stop(all[2]);
	for (int i = 0; i < 4; i++) {
		test_wait(answers[i]);
		answer_unref(answers[i]);
	}
	assert_true(test_stats(all[0]).remembered);
	assert_false(test_stats(all[1]).remembered || test_stats(all[3]).remembered);
	assert_string_equal(test_stats(all[1]).finish, "end");
	assert_string_equal(test_stats(all[3]).finish, "end");
	for (int i = 0; i < 4; i++)
		session_end(all[i]);
	test_model_close(&m);
}

static void what_is_never_remembered_loads_at_once(void **state)
{
	(void)state;
	static const struct {
		const char *name, *value;
	} params[] = {{"temperature", "1"}, {"drop_missing", "0.1"}, {"substitute", "1,8"}};
	struct test_model m;
	for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
		test_model_open(&m, test_fable(), &(struct engine_options){.remember = folder});
		struct session *s = user(&m, 1);
		test_set(s, params[i].name, params[i].value);
		free(test_ask(s, QUESTION));
		assert_false(test_stats(s).remembered);
		assert_int_equal(model_state(m.model), MODEL_READY);
		session_end(s);
		test_model_close(&m);
	}
}

static void a_turn_that_is_refused_needs_no_weights(void **state)
{
	(void)state;
	struct test_model m;
	open_knowing(&m, test_fable());
	struct session *s = user(&m, 1);
	test_set(s, "format", "choices");
	test_ask_refused(s, QUESTION, "write the candidates to choices");
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	test_set(s, "format", "text");
	test_answer(s, QUESTION, ANSWER);
	session_end(s);
	test_model_close(&m);
}

static void a_session_may_end_while_its_answer_is_looked_for(void **state)
{
	(void)state;
	struct test_model m;
	open_knowing(&m, test_fable());
	for (int i = 0; i < 20; i++) {
		struct session *s = user(&m, 1);
		answer_unref(test_submit(s, i % 2 ? OTHER : QUESTION));
		session_end(s);
	}
	struct session *s = user(&m, 1);
	test_answer(s, QUESTION, ANSWER);
	session_end(s);
	test_model_close(&m);
}

/* ---- another checkpoint ---- */

static void write_byte(const char *directory, const char *name)
{
	char path[96];
	size_t n;
	(void)snprintf(path, sizeof path, "%s/%s", directory, name);
	uint8_t *bytes = test_file_read(path, &n);
	assert_true(n > 0 && bytes[n - 1]);
	bytes[n - 1] ^= 1;
	test_file_write(path, bytes, n);
	free(bytes);
}

static void another_checkpoint_gives_no_answer_from_before(void **state)
{
	(void)state;
	static const char *const changed[] = {"tokenizer.json", "model.safetensors"};
	struct test_checkpoint c;
	struct test_model m;
	char path[64];
	test_checkpoint_read(&c, "qwen3_moe");
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof path, "%s/model%zu", folder, i);
		test_checkpoint_make(&c, "qwen3_moe", path);
		open_knowing(&m, path);
		struct session *s = user(&m, 1);
		free(test_ask(s, QUESTION));
		assert_true(test_stats(s).remembered);
		write_byte(path, changed[i]);
		struct answer *a = test_submit(s, QUESTION);
		test_wait(a);
		answer_unref(a);
		assert_false(test_stats(s).remembered);
		session_end(s);
		test_model_close(&m);
	}
	test_checkpoint_free(&c);
}

/* ---- plans ---- */

static struct session_plan plan(struct session *s, const char *text)
{
	struct session_plan p;
	if (session_plan(s, text, strlen(text), &p, &e))
		fail_msg("%s", e.text);
	return p;
}

static void expect_foreseen(const struct session_plan *p, const struct session_stats *is)
{
	assert_int_equal(p->prompt_tokens, is->prompt_tokens);
	assert_int_equal(p->kept_tokens, is->cached_tokens);
	assert_true(p->timed && !p->new_tokens && !p->expert_bytes);
	assert_false(p->first_token_seconds > 0 || p->token_seconds > 0);
}

static void plan_in(struct test_model *m, const char *format, const char *chat)
{
	struct session *const s[] = {user(m, 1), user(m, 1), user(m, 2)};
	bool foreseen = strcmp(format, "choices") != 0;
	for (int i = 0; i < 3; i++) {
		test_set(s[i], "format", format);
		test_set(s[i], "chat", chat);
		test_write_text(s[i], SESSION_CHOICES, "Paris\nLima\n");
	}
	assert_false(plan(s[0], QUESTION).remembered);
	free(test_ask(s[0], QUESTION));
	struct session_plan p = plan(s[1], QUESTION);
	assert_int_equal(p.remembered, foreseen);
	assert_false(plan(s[1], OTHER).remembered || plan(s[2], QUESTION).remembered);
	free(test_ask(s[1], QUESTION));
	struct session_stats is = test_stats(s[1]);
	assert_true(is.remembered);
	if (foreseen)
		expect_foreseen(&p, &is);
	test_set(s[2], "temperature", "1");
	session_name(s[2], 1, "test");
	assert_false(plan(s[2], QUESTION).remembered);
	for (int i = 0; i < 3; i++)
		session_end(s[i]);
}

static void a_plan_foresees_what_is_remembered(void **state)
{
	(void)state;
	static const char *const formats[] = {"text", "json", "choices"};
	struct test_model m;
	ready(&m, test_fable());
	for (size_t i = 0; i < 3; i++) {
		plan_in(&m, formats[i], "on");
		plan_in(&m, formats[i], "off");
	}
	test_model_close(&m);
	open_knowing(&m, test_fable());
	struct session *s = user(&m, 1);
	assert_true(plan(s, QUESTION).remembered);
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	session_end(s);
	test_model_close(&m);
}

static int make_folder(void **state)
{
	(void)state;
	test_folder_make(folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	test_folder_remove(folder);
	return 0;
}

static int remove_stores(void **state)
{
	(void)state;
	test_stores_remove();
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_given_again_without_loading),
		TEST(turns_that_are_not_known_load_beside_those_that_are),
		TEST(what_is_never_remembered_loads_at_once),
		TEST(a_turn_that_is_refused_needs_no_weights),
		TEST(a_session_may_end_while_its_answer_is_looked_for),
		TEST(another_checkpoint_gives_no_answer_from_before),
		TEST(a_plan_foresees_what_is_remembered),
	};
	return cmocka_run_group_tests(tests, NULL, remove_stores);
}
