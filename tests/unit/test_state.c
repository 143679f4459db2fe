/* A session as a file: a restored session continues like the saved one, without computing it
 * again, in the same mount or another, with the model loaded or not. Other files, and files of
 * another model, are refused with a sentence and change nothing. */
#include "engine/session/state.h"
#include "golden.h"
#include "memory_help.h"
#include "session_help.h"
#include "store_help.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

static struct err e;

/* ---- files ---- */

struct file {
	uint8_t *at;
	size_t n;
};

static struct file save(struct session *s)
{
	struct saved *v;
	uint64_t size = session_state_bytes(s);
	if (session_save(s, &v, &e))
		fail_msg("%s", e.text);
	struct file f = {.n = saved_bytes(v)};
	assert_int_equal(f.n, size);
	f.at = malloc(f.n + 1);
	assert_non_null(f.at);
	assert_int_equal(saved_read(v, 0, f.at, f.n + 1), f.n);
	saved_close(v);
	return f;
}

/* In pieces, as a copy writes them; *e says why not. */
static int restore_pieces(struct test_model *m, struct session *s, const struct file *f,
			  size_t piece)
{
	struct restored *r;
	int failed = restored_begin(m->model, &r, &e);
	for (size_t at = 0, n; at < f->n && !failed; at += n) {
		n = f->n - at < piece ? f->n - at : piece;
		failed = restored_feed(r, at, f->at + at, n, &e);
	}
	if (!failed)
		failed = session_restore(s, r, &e);
	restored_close(r);
	return failed;
}

static void restore(struct test_model *m, struct session *s, const struct file *f)
{
	if (restore_pieces(m, s, f, 128 << 10))
		fail_msg("%s", e.text);
}

/* Another session with this state, by way of a file. */
static struct session *restored_of(struct test_model *m, struct session *s)
{
	struct session *other = test_session(m);
	struct file f = save(s);
	restore(m, other, &f);
	free(f.at);
	return other;
}

/* Makes a session a fork of another, as `fork` in ctl does. */
static int fork_into(struct test_model *m, struct session *fork, struct session *s)
{
	struct saved *v = NULL;
	struct restored *r = NULL;
	int failed = session_save(s, &v, &e);
	if (!failed)
		failed = restored_begin(m->model, &r, &e);
	if (!failed)
		failed = restored_from_saved(r, v, &e);
	saved_close(v);
	if (!failed)
		failed = session_restore(fork, r, &e);
	restored_close(r);
	return failed;
}

static struct session *fork_of(struct test_model *m, struct session *s)
{
	struct session *fork = test_session(m);
	if (fork_into(m, fork, s))
		fail_msg("%s", e.text);
	return fork;
}

/* Updates the checksums of the head and at the end, after a change. */
static void make_sums_right(const struct file *f)
{
	uint64_t sum = XXH3_64bits(f->at, offsetof(struct state_head, sum));
	memcpy(f->at + offsetof(struct state_head, sum), &sum, sizeof sum);
	sum = XXH3_64bits(f->at, f->n - sizeof sum);
	memcpy(f->at + f->n - sizeof sum, &sum, sizeof sum);
}

/* ---- sessions ---- */

static const char first[] = "Who lived in the forest?", then[] = "And what did he eat?";

static struct session *short_session(struct test_model *m)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "max_tokens", "20");
	return s;
}

static struct session *with_a_turn(struct test_model *m)
{
	struct session *s = short_session(m);
	free(test_ask(s, first));
	return s;
}

/* Both answer alike and compute the same number of tokens. */
static void assert_go_on_alike(struct session *one, struct session *other, const char *prompt)
{
	test_same_text(test_ask(one, prompt), test_ask(other, prompt));
	struct session_stats a = test_stats(one), b = test_stats(other);
	assert_true(a.cached_tokens > 10);
	assert_int_equal(a.cached_tokens, b.cached_tokens);
	assert_int_equal(a.recomputed_tokens, b.recomputed_tokens);
	assert_int_equal(a.prompt_tokens, b.prompt_tokens);
}

static void assert_same_params(const struct session *one, const struct session *other)
{
	for (size_t i = 0; i < params_count(); i++)
		if (strcmp(params_name(i), "share_with") != 0) /* each session's own */
			test_same_text(session_param_get(one, i), session_param_get(other, i));
}

/* What a session shows, malloc'ed. */
static char *shown(struct session *s)
{
	char *text = NULL;
	size_t n = 0, length;
	FILE *out = open_memstream(&text, &n);
	assert_non_null(out);
	uint64_t log = session_log_size(s);
	char *bytes = malloc(log + 1);
	assert_non_null(bytes);
	(void)fwrite(bytes, 1, session_log_read(s, 0, bytes, log), out);
	free(bytes);
	bytes = session_prompt(s, &length);
	(void)fprintf(out, "\n%s\n%s\n", session_status_word(session_status(s)), bytes);
	free(bytes);
	for (size_t i = 0; i < params_count(); i++) {
		if (!strcmp(params_name(i), "share_with"))
			continue; /* each session of a test has its own (test_session) */
		bytes = session_param_get(s, i);
		(void)fprintf(out, "%s %s\n", params_name(i), bytes);
		free(bytes);
	}
	(void)fclose(out);
	return text;
}

/* ---- uses ---- */

static void a_restored_session_goes_on_without_computing_anew(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable), *other = test_session(&fable);
	test_set(other, "system", "of the other");
	free(test_ask(other, "Hello."));
	struct file f = save(s);
	restore(&fable, other, &f);
	test_same_text(shown(s), shown(other));
	assert_go_on_alike(s, other, then);
	test_same_text(shown(s), shown(other));
	assert_go_on_alike(s, other, "Why?");
	free(f.at);
	session_end(s);
	session_end(other);
}

static void a_saved_state_is_that_of_its_moment(void **state)
{
	(void)state;
	struct saved *v;
	struct session *s = with_a_turn(&fable);
	struct file before = save(s);
	assert_int_equal(session_save(s, &v, &e), 0);
	free(test_ask(s, then));
	assert_int_equal(session_reset(s, &e), 0);
	session_end(s);
	struct file after = {malloc(before.n), before.n};
	assert_int_equal(saved_read(v, 0, after.at, after.n), after.n);
	saved_close(v);
	assert_memory_equal(before.at, after.at, before.n);
	assert_int_equal(test_context_used(&fable), 0);
	free(before.at);
	free(after.at);
}

static void it_is_read_in_any_order(void **state)
{
	(void)state;
	struct saved *v;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	char piece[5000];
	assert_int_equal(session_save(s, &v, &e), 0);
	for (size_t end = f.n; end; end -= end < 1777 ? end : 1777) {
		size_t n = saved_read(v, end, piece, sizeof piece);
		assert_int_equal(n, f.n - end < sizeof piece ? f.n - end : sizeof piece);
		assert_memory_equal(piece, f.at + end, n);
	}
	assert_int_equal(saved_read(v, f.n + 5, piece, 10), 0);
	assert_int_equal(saved_read(v, UINT64_MAX, piece, 10), 0);
	saved_close(v);
	free(f.at);
	session_end(s);
}

/* Saving the same session again gives the same file: nothing in it is random. */
static void a_state_of_what_was_restored_is_the_same_file(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable), *other = test_session(&fable);
	struct file f = save(s);
	restore(&fable, other, &f);
	struct file again = save(other);
	assert_int_equal(f.n, again.n);
	assert_memory_equal(f.at, again.at, f.n);
	free(f.at);
	free(again.at);
	session_end(s);
	session_end(other);
}

static void params_are_as_they_were_set(void **state)
{
	(void)state;
	static const char *const values[][2] = {
		{"temperature", "0.3"},	  {"top_k", "7"},	  {"top_p", "0.9"},
		{"min_p", "0.01"},	  {"seed", "12"},	  {"max_tokens", "5"},
		{"stop", "\\n\nend\n\n"}, {"system", "Be kind."}, {"stream", "off"},
		{"draft", "lookup 2"},	  {"date", "2026-01-02"}, {"on_full", "drop-oldest"},
		{"drop_missing", "0.2"},  {"substitute", "1,8"}, {"priority", "low"},	  {"stop_repetition", "off"},
	};
	struct session *s = test_session(&fable), *other = test_session(&fable);
	struct file f = save(s); /* unset ones stay unset */
	restore(&fable, other, &f);
	assert_same_params(s, other);
	free(f.at);
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		test_set(s, values[i][0], values[i][1]);
	f = save(s);
	restore(&fable, other, &f);
	assert_same_params(s, other);
	assert_int_equal(session_status(other), SESSION_IDLE);
	free(f.at);
	session_end(s);
	session_end(other);
}

static void set_text(struct session *s, enum session_text what, const char *text)
{
	if (session_text_set(s, what, text, strlen(text), &e))
		fail_msg("%s", e.text);
}

static void messages_tools_and_variables_come_along(void **state)
{
	(void)state;
	static const enum session_text texts[] = {SESSION_MESSAGES, SESSION_TOOLS,
						  SESSION_VARIABLES, SESSION_TOOL_CALLS,
						  SESSION_TOOL_RESULTS};
	struct session *s = with_a_turn(&fable), *other = test_session(&fable);
	set_text(s, SESSION_MESSAGES,
		 "[{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", "
		 "\"content\": "
		 "\"A \\u0000 and \\ud83e\\udd8a\"}]");
	set_text(s, SESSION_TOOLS,
		 "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]");
	set_text(s, SESSION_VARIABLES, "{\"motto\": [1, 2.5, null]}");
	struct file f = save(s);
	restore(&fable, other, &f);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		size_t n, m;
		char *one = session_text_get(s, texts[i], &n, &e),
		     *two = session_text_get(other, texts[i], &m, &e);
		assert_int_equal(n, m);
		test_same_text(one, two);
	}
	test_same_text(shown(s), shown(other));
	assert_true(session_undo(other, &e) == session_undo(s, &e));
	test_same_text(shown(s), shown(other));
	free(f.at);
	session_end(s);
	session_end(other);
}

static void an_empty_session_is_restored_empty(void **state)
{
	(void)state;
	struct session *s = short_session(&fable), *other = with_a_turn(&fable);
	struct file f = save(s);
	restore(&fable, other, &f);
	(void)test_context_used(&fable); /* what the other had computed is not kept */
	assert_int_equal(session_log_size(other), 0);
	assert_null(session_answer(other));
	test_same_text(test_ask(s, first), test_ask(other, first));
	assert_int_equal(test_stats(other).cached_tokens, 0);
	free(f.at);
	session_end(s);
	session_end(other);
}

/* Of a hybrid with a draft layer of its own: copies of the state come along. */
static void a_hybrid_goes_back_to_the_copies_that_came_along(void **state)
{
	(void)state;
	struct test_model m;
	char text[400], longer[500];
	test_model_ready(&m, test_fixture("qwen3_5_moe"), &(struct engine_options){.chunk = 32});
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)('a' + i * i % 17);
	text[sizeof text - 1] = 0;
	struct session *s = short_session(&m), *other = test_session(&m);
	test_set(s, "chat", "off");
	free(test_ask(s, text));
	struct file f = save(s);
	restore(&m, other, &f);
	(void)snprintf(longer, sizeof longer, "%s and more", text);
	assert_go_on_alike(s, other, longer);
	restore(&m, other, &f);
	text[300] = 'Z';
	test_same_text(test_ask(s, text), test_ask(other, text));
	assert_true(test_stats(other).cached_tokens > 10);
	free(f.at);
	session_end(s);
	session_end(other);
	test_model_close(&m);
}

/* Bytes of contexts without kept prefixes, once the last step has ended and ended sessions are
 * freed. */
static uint64_t used_at_rest(void)
{
	while (model_working(fable.model))
		(void)sched_yield();
	return test_context_used(&fable);
}

/* A fork shares all that is computed: it is the same session, and needs no room. */
static void a_fork_takes_no_memory(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable);
	uint64_t used = used_at_rest(), budget = engine_context_budget(fable.engine);
	assert_int_equal(engine_set_context_budget(fable.engine, used, &e), 0);
	struct session *fork = fork_of(&fable, s), *second = fork_of(&fable, fork);
	assert_int_equal(engine_context_used(fable.engine), used);
	struct file one = save(s), other = save(second);
	assert_int_equal(one.n, other.n);
	assert_memory_equal(one.at, other.at, one.n);
	test_same_text(shown(s), shown(second));
	free(one.at);
	free(other.at);
	assert_int_equal(engine_set_context_budget(fable.engine, budget, &e), 0);
	assert_go_on_alike(s, fork, then);
	session_end(s);
	session_end(fork);
	fork = fork_of(&fable, second); /* of what only the second still holds */
	assert_go_on_alike(fork, second, then);
	session_end(fork);
	session_end(second);
	assert_int_equal(used_at_rest(), 0);
}

static void a_fork_without_memory_changes_nothing(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable), *fork = test_session(&fable);
	uint64_t used = used_at_rest();
	long n = 1;
	int failed = -ENOMEM;
	for (; failed; n++) {
		test_memory_fail_at(n);
		failed = fork_into(&fable, fork, s);
		bool reached = test_memory_has_failed();
		test_memory_fail_at(0);
		assert_int_equal(engine_context_used(fable.engine), used);
		assert_int_equal(failed, reached ? -ENOMEM : 0);
		assert_true(!failed || !session_log_size(fork));
	}
	assert_true(n > 20);
	assert_go_on_alike(s, fork, then);
	session_end(s);
	session_end(fork);
}

/* There is room for one of them: the other one's context is given up, and computed again. */
static void a_fork_and_its_original_take_turns_where_room_is_for_one(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable), *roomy = fork_of(&fable, s);
	char *alone = test_ask(roomy, then);
	session_end(roomy);
	uint64_t budget = engine_context_budget(fable.engine);
	uint64_t room = used_at_rest() + TEST_BLOCK_BYTES;
	assert_int_equal(engine_set_context_budget(fable.engine, room, &e), 0);
	struct session *fork = fork_of(&fable, s);
	for (int turn = 0; turn < 2; turn++) {
		test_same_text(test_ask(turn ? s : fork, then), strdup(alone));
		assert_true(engine_context_used(fable.engine) <= room);
	}
	assert_int_equal(engine_set_context_budget(fable.engine, budget, &e), 0);
	free(alone);
	session_end(s);
	session_end(fork);
}

/* It has the messages, and why says what became of the rest. */
static void a_fork_of_a_context_that_was_given_up_computes_it_again(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable), *other = short_session(&fable);
	uint64_t budget = engine_context_budget(fable.engine), used = used_at_rest();
	assert_int_equal(engine_set_context_budget(fable.engine, used, &e), 0);
	free(test_ask(other, first));
	(void)used_at_rest(); /* nothing is kept of s */
	assert_int_equal(engine_set_context_budget(fable.engine, budget, &e), 0);
	struct session *fork = fork_of(&fable, s);
	session_share_like(fork, s, true);
	char *text = test_ask(fork, then);
	assert_int_equal(test_stats(fork).cached_tokens, 0);
	char *why = test_text(fork, SESSION_WHY);
	assert_non_null(strstr(why, "had computed it, but its memory was needed"));
	free(why);
	test_same_text(text, test_ask(s, then));
	session_end(s);
	session_end(fork);
	session_end(other);
}

/* Turn by turn one continues as it is, and the other is copied and ended in between; with an edit
 * now and then, for which both go back to the same mark. */
static void a_day_is_the_same_with_copies_in_between(const char *fixture,
						     struct session *(*copy)(struct test_model *m,
									     struct session *s))
{
	enum { TURNS = 15 };
	struct test_model m;
	test_model_ready(&m, test_fixture(fixture), &(struct engine_options){.chunk = 16});
	struct session *s = test_greedy_session(&m), *other = test_greedy_session(&m);
	test_set(s, "max_tokens", "6");
	test_set(other, "max_tokens", "6");
	for (int turn = 0; turn < TURNS; turn++) {
		char prompt[64];
		(void)snprintf(prompt, sizeof prompt, "turn %d is %d long", turn, turn * turn);
		if (turn % 3 == 2) {
			struct session *before = other;
			other = copy(&m, before);
			session_end(before);
		}
		if (turn % 5 == 4) {
			assert_int_equal(session_undo(s, &e), 0);
			assert_int_equal(session_undo(other, &e), 0);
		}
		test_same_text(test_ask(s, prompt), test_ask(other, prompt));
		struct session_stats a = test_stats(s), b = test_stats(other);
		assert_true(!turn || b.cached_tokens > 0);
		assert_int_equal(a.prompt_tokens, b.prompt_tokens);
		assert_int_equal(a.cached_tokens, b.cached_tokens);
		assert_int_equal(a.recomputed_tokens, b.recomputed_tokens);
		test_same_text(shown(s), shown(other));
	}
	session_end(s);
	session_end(other);
	test_model_close(&m);
}

static void a_hybrids_day_is_the_same_with_its_state_saved_in_between(void **state)
{
	(void)state;
	a_day_is_the_same_with_copies_in_between("qwen3_5_moe", restored_of);
}

static void a_day_behind_windows_is_the_same_with_its_state_saved_in_between(void **state)
{
	static const char *const fixtures[] = {"gemma4_moe", "gemma4_ple", "gpt_oss", "qwen4_exp",
					       "glm5_next", "deepseek_v4"};
	(void)state;
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++)
		if (test_fixture(fixtures[i]))
			a_day_is_the_same_with_copies_in_between(fixtures[i], restored_of);
}

/* Forks go back to the checkpoints of their originals. */
static void a_day_is_the_same_with_forks_in_between(void **state)
{
	static const char *const fixtures[] = {"qwen3_moe", "qwen3_5_moe", "gemma4_moe",
					       "gpt_oss",   "qwen4_exp",   "glm5_next",
					       "deepseek_v4"};
	(void)state;
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++)
		if (test_fixture(fixtures[i]))
			a_day_is_the_same_with_copies_in_between(fixtures[i], fork_of);
}

/* ---- other mounts ---- */

static void it_outlives_the_mount(void **state)
{
	(void)state;
	struct test_model m;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	struct session *other = test_session(&m);
	restore(&m, other, &f);
	test_same_text(shown(s), shown(other));
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	assert_go_on_alike(s, other, then);
	free(f.at);
	session_end(s);
	session_end(other);
	test_model_close(&m);
}

/* The weights are not known yet; they turn out to be the same. */
static void it_is_restored_before_there_is_a_store(void **state)
{
	(void)state;
	char folder[32];
	struct test_model m;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	test_folder_make(folder);
	test_model_open(&m, test_fable(), &(struct engine_options){.store = folder});
	struct session *other = test_session(&m);
	restore(&m, other, &f);
	assert_go_on_alike(s, other, then);
	free(f.at);
	session_end(s);
	session_end(other);
	test_model_close(&m);
	test_folder_remove(folder);
}

/* code 0: whichever. */
static void refused(struct test_model *m, const struct file *f, int code, const char *words)
{
	struct session *s = short_session(m);
	test_set(s, "system", "It stays.");
	uint64_t used = test_context_used(m);
	char *before = shown(s);
	e = (struct err){0};
	int failed = restore_pieces(m, s, f, 4096);
	assert_true(failed && failed == -e.code && (!code || failed == code));
	if (!strstr(e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", e.text, words);
	test_same_text(before, shown(s));
	assert_int_equal(engine_context_used(m->engine), used);
	session_end(s);
}

static void another_recipes_and_models_are_refused_with_the_first_piece(void **state)
{
	(void)state;
	struct test_model m;
	char recipe[64], words[80];
	struct session *s = with_a_turn(&fable);
	struct file f = save(s), piece = {f.at, 4096};
	model_fact(fable.model, FACT_FORMAT, recipe, sizeof recipe);
	(void)snprintf(words, sizeof words, "recipe %.*s,", (int)strcspn(recipe, " "), recipe);
	test_model_open(&m, test_fable(), &(struct engine_options){.quant = "tq4"});
	refused(&m, &piece, -EINVAL, words);
	test_model_close(&m);
	test_model_open(&m, test_fable(), &(struct engine_options){.exact = 1});
	refused(&m, &piece, -EINVAL, "exact");
	test_model_close(&m);
	test_model_open(&m, test_fixture("qwen3_moe"), &(struct engine_options){0});
	refused(&m, &piece, -EINVAL, "by the model fable-moe-15m, but this is qwen3_moe");
	assert_non_null(strstr(e.text, "messages.json"));
	test_model_close(&m);
	free(f.at);
	session_end(s);
}

static void other_weights_are_refused_and_never_gone_on_from(void **state)
{
	(void)state;
	char folder[32];
	struct test_model m;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	struct state_head *h = (void *)f.at;
	h->weights_sum++;
	make_sums_right(&f);
	refused(&fable, &f, -EINVAL, "other weights");
	test_folder_make(folder); /* if the weights are not known, the turn checks them */
	test_model_open(&m, test_fable(), &(struct engine_options){.store = folder});
	struct session *other = test_session(&m);
	restore(&m, other, &f);
	test_same_text(test_ask(s, then), test_ask(other, then));
	assert_int_equal(test_stats(other).cached_tokens, 0);
	assert_int_equal(test_stats(other).prompt_tokens, test_stats(s).prompt_tokens);
	free(f.at);
	session_end(s);
	session_end(other);
	test_model_close(&m);
	test_folder_remove(folder);
}

/* Of format 1, which did not say with which arithmetic, and of an arithmetic to come. Whatever is
 * in the context, it is not looked at. */
static void what_another_arithmetic_computed_is_computed_again(void **state)
{
	(void)state;
	static const uint16_t others[] = {0, KERNELS_ARITHMETIC + 1};
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	struct state_head *h = (void *)f.at;
	assert_int_equal(h->arithmetic, KERNELS_ARITHMETIC);
	memset(f.at + sizeof *h + h->texts_bytes, 0xff, h->context_bytes);
	char *answer = test_ask(s, then);
	for (size_t i = 0; i < 2; i++) {
		struct session *other = test_session(&fable);
		h->version = others[i] ? 2 : 1;
		h->arithmetic = others[i];
		make_sums_right(&f);
		restore(&fable, other, &f);
		assert_int_equal(test_stats(other).context_tokens, 0);
		char *again = test_ask(other, then);
		assert_string_equal(again, answer);
		free(again);
		assert_int_equal(test_stats(other).cached_tokens, 0);
		assert_int_equal(test_stats(other).prompt_tokens, test_stats(s).prompt_tokens);
		session_end(other);
	}
	free(answer);
	free(f.at);
	session_end(s);
}

static void keys_of_another_type_are_computed_again(void **state)
{
	(void)state;
	struct test_model m;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	test_model_open(&m, test_fable(), &(struct engine_options){.kv = "q8"});
	struct session *other = test_session(&m);
	restore(&m, other, &f);
	assert_int_equal(test_stats(other).context_tokens, 0);
	free(test_ask(other, then));
	assert_int_equal(test_stats(other).cached_tokens, 0);
	struct file coded = save(other);
	struct session *same = test_session(&m);
	restore(&m, same, &coded);
	assert_int_equal(test_stats(same).context_tokens, test_stats(other).context_tokens);
	struct session *back = test_session(&fable);
	restore(&fable, back, &coded);
	assert_int_equal(test_stats(back).context_tokens, 0);
	free(f.at);
	free(coded.at);
	session_end(s);
	session_end(other);
	session_end(same);
	session_end(back);
	test_model_close(&m);
}

static void a_longer_context_than_the_sessions_is_refused(void **state)
{
	(void)state;
	struct test_model m;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	test_model_open(&m, test_fable(), &(struct engine_options){.context = 16});
	refused(&m, &f, -EFBIG, "-o context=");
	test_model_close(&m);
	free(f.at);
	session_end(s);
}

/* ---- in a turn ---- */

static void in_a_turn_it_is_busy(void **state)
{
	(void)state;
	struct saved *v;
	struct restored *r;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	assert_int_equal(restored_feed(r, 0, f.at, f.n, &e), 0);
	test_set(s, "chat", "off");
	test_set(s, "max_tokens", "0");
	struct answer *a = test_submit_held(s, "Once upon a time there was a fox who lived", 10);
	assert_int_equal(session_save(s, &v, &e), -EBUSY);
	assert_non_null(strstr(e.text, "stop"));
	assert_int_equal(session_state_bytes(s), 0);
	assert_int_equal(session_restore(s, r, &e), -EBUSY);
	assert_non_null(strstr(e.text, "stop"));
	session_stop(s);
	test_wait(a);
	answer_unref(a);
	assert_int_equal(session_restore(s, r, &e), 0);
	assert_int_equal(session_restore(s, r, &e), 0); /* done is done */
	struct file again = save(s);
	assert_int_equal(again.n, f.n);
	assert_memory_equal(again.at, f.at, f.n);
	restored_close(r);
	free(f.at);
	free(again.at);
	session_end(s);
}

/* ---- hostile and damaged files ---- */

static void no_flipped_bit_is_taken(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	size_t texts = sizeof(struct state_head) + ((struct state_head *)(void *)f.at)->texts_bytes;
	for (size_t at = 0; at < f.n; at += at < texts + 200 || at + 40 > f.n ? 1 : 397) {
		f.at[at] ^= (uint8_t)(1 << at % 8);
		refused(&fable, &f, at < 8 ? -EINVAL : 0, "; the session is unchanged");
		f.at[at] ^= (uint8_t)(1 << at % 8);
	}
	free(f.at);
	session_end(s);
}

static void no_part_of_it_is_taken(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	for (size_t n = 0; n < f.n; n += n < 2000 || n + 20 > f.n ? 1 : 997)
		refused(&fable, &(struct file){f.at, n}, -EINVAL, "it ends after");
	f.at = realloc(f.at, f.n + 1);
	assert_non_null(f.at);
	f.at[f.n] = 0;
	refused(&fable, &(struct file){f.at, f.n + 1}, -EINVAL, "longer than its header says");
	free(f.at);
	session_end(s);
}

static void what_is_no_state_is_refused_at_once(void **state)
{
	(void)state;
	static const char *const texts[] = {"hello\n", "m", "moefs", "\0", "{\"messages\": []}"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct file f = {(uint8_t *)texts[i], *texts[i] ? strlen(texts[i]) : 1};
		refused(&fable, &f, -EINVAL, i == 1 || i == 2 ? "ends after" : "not copied");
	}
}

/* One number changed, with both checksums updated. */
static void forged(const struct file *f, size_t at, uint64_t value, size_t width, int code,
		   const char *words)
{
	struct file copy = {malloc(f->n), f->n};
	assert_non_null(copy.at);
	memcpy(copy.at, f->at, f->n);
	memcpy(copy.at + at, &value, width);
	make_sums_right(&copy);
	refused(&fable, &copy, code, words);
	free(copy.at);
}

#define HEAD(field) offsetof(struct state_head, field)

static void forged_counts_are_refused(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	const struct state_head *h = (const void *)f.at;
	uint64_t texts = h->texts_bytes, context = h->context_bytes;
	forged(&f, HEAD(version), 0, 4, -EINVAL, "version 0");
	forged(&f, HEAD(version), 3, 4, -EINVAL, "version 3");
	forged(&f, HEAD(bytes), f.n - 1, 8, -EINVAL, "header is damaged");
	forged(&f, HEAD(bytes), 0, 8, -EINVAL, "header is damaged");
	forged(&f, HEAD(bytes), UINT64_MAX, 8, -EINVAL, "header is damaged");
	forged(&f, HEAD(texts_bytes), texts + 1, 8, -EINVAL, "header is damaged");
	forged(&f, HEAD(texts_bytes), UINT64_MAX, 8, -EINVAL, "header is damaged");
	forged(&f, HEAD(context_bytes), context - 1, 8, -EINVAL, "header is damaged");
	size_t at = sizeof *h;
	forged(&f, at + 32, UINT64_MAX, 8, -EINVAL, "are cut short");
	forged(&f, at + 32, texts - 39, 8, -EINVAL, "are cut short");
	forged(&f, at + 32, 0, 8, -EINVAL, "messages.json");
	forged(&f, at, 'X', 1, -EINVAL, "does not know");
	forged(&f, at + 31, 'X', 1, -EINVAL, "are cut short");
	forged(&f, sizeof *h + texts + 8, 0, 8, -EINVAL, "contradict");
	free(f.at);
	session_end(s);
}

/* A file that claims to be large takes no memory before there is room for it. */
static void large_counts_are_held_to_the_budget(void **state)
{
	(void)state;
	struct session *s = with_a_turn(&fable);
	struct file f = save(s);
	struct state_head *h = (void *)f.at;
	uint64_t more = 250 << 20;
	h->bytes += more;
	h->texts_bytes += more;
	make_sums_right(&f);
	uint64_t budget = engine_context_budget(fable.engine);
	assert_int_equal(engine_set_context_budget(fable.engine, 10 << 20, &e), 0);
	refused(&fable, &f, -ENOSPC, "context_budget");
	assert_int_equal(engine_set_context_budget(fable.engine, budget, &e), 0);
	h->bytes += more;
	h->texts_bytes += more;
	make_sums_right(&f);
	refused(&fable, &f, -EFBIG, "texts");
	free(f.at);
	session_end(s);
}

static void holes_are_zeros_and_nothing_is_written_twice(void **state)
{
	(void)state;
	enum { HOLE = 512 };
	static const uint8_t zeros[HOLE];
	struct restored *r;
	struct session *s = with_a_turn(&fable), *other = test_session(&fable);
	struct file f = save(s);
	uint32_t skipped = 0;
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	for (size_t at = 0; at < f.n; at += HOLE) {
		size_t n = f.n - at < HOLE ? f.n - at : HOLE;
		if (n == HOLE && !memcmp(f.at + at, zeros, HOLE))
			skipped++;
		else if (restored_feed(r, at, f.at + at, n, &e))
			fail_msg("%s", e.text);
	}
	assert_true(skipped > 10);
	assert_int_equal(session_restore(other, r, &e), 0);
	restored_close(r);
	assert_go_on_alike(s, other, then);
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	assert_int_equal(restored_feed(r, 0, f.at, 5000, &e), 0);
	assert_int_equal(restored_feed(r, 4000, f.at + 4000, 5000, &e), -EINVAL);
	assert_non_null(strstr(e.text, "from beginning to end"));
	assert_int_equal(restored_feed(r, 5000, f.at + 5000, 5000, &e), -EINVAL);
	assert_int_equal(session_restore(other, r, &e), -EINVAL);
	restored_close(r);
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	assert_int_equal(restored_feed(r, 100, f.at + 100, 5000, &e), -EINVAL);
	restored_close(r);
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	assert_int_equal(restored_feed(r, 0, f.at, 5000, &e), 0);
	assert_int_equal(restored_feed(r, f.n + 1, f.at, 5, &e), -EINVAL);
	restored_close(r);
	free(f.at);
	session_end(s);
	session_end(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restored_session_goes_on_without_computing_anew),
		cmocka_unit_test(a_saved_state_is_that_of_its_moment),
		cmocka_unit_test(it_is_read_in_any_order),
		cmocka_unit_test(a_state_of_what_was_restored_is_the_same_file),
		cmocka_unit_test(params_are_as_they_were_set),
		cmocka_unit_test(messages_tools_and_variables_come_along),
		cmocka_unit_test(an_empty_session_is_restored_empty),
		cmocka_unit_test(a_hybrid_goes_back_to_the_copies_that_came_along),
		cmocka_unit_test(a_fork_takes_no_memory),
		cmocka_unit_test(a_fork_without_memory_changes_nothing),
		cmocka_unit_test(a_fork_and_its_original_take_turns_where_room_is_for_one),
		cmocka_unit_test(a_fork_of_a_context_that_was_given_up_computes_it_again),
		cmocka_unit_test(a_hybrids_day_is_the_same_with_its_state_saved_in_between),
		cmocka_unit_test(a_day_behind_windows_is_the_same_with_its_state_saved_in_between),
		cmocka_unit_test(a_day_is_the_same_with_forks_in_between),
		cmocka_unit_test(it_outlives_the_mount),
		cmocka_unit_test(it_is_restored_before_there_is_a_store),
		cmocka_unit_test(another_recipes_and_models_are_refused_with_the_first_piece),
		cmocka_unit_test(other_weights_are_refused_and_never_gone_on_from),
		cmocka_unit_test(what_another_arithmetic_computed_is_computed_again),
		cmocka_unit_test(keys_of_another_type_are_computed_again),
		cmocka_unit_test(a_longer_context_than_the_sessions_is_refused),
		cmocka_unit_test(in_a_turn_it_is_busy),
		cmocka_unit_test(no_flipped_bit_is_taken),
		cmocka_unit_test(no_part_of_it_is_taken),
		cmocka_unit_test(what_is_no_state_is_refused_at_once),
		cmocka_unit_test(forged_counts_are_refused),
		cmocka_unit_test(large_counts_are_held_to_the_budget),
		cmocka_unit_test(holes_are_zeros_and_nothing_is_written_twice),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
