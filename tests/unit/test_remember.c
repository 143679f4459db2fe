/* Answers that are remembered: given again without computing, with all that came with them, and
 * only where the answer would have been the same. Whatever is wrong with the folder, a turn is
 * computed as without it. */
#include "checkpoint_help.h"
#include "fault_io.h"
#include "script_help.h"
#include "session_help.h"
#include "store_help.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

static const char QUESTION[] = "What is the capital of France?",
		  ANSWER[] = "The capital of France is Paris.\n";
static struct err e;
static char folder[32];

/* ---- help ---- */

static void open_model(struct test_model *m, const char *directory, uint64_t size)
{
	test_model_ready(m, directory,
			 &(struct engine_options){.remember = folder, .remember_size = size});
}

/* A session of a user. */
static struct session *user(struct test_model *m, uint32_t owner)
{
	struct session *s = test_greedy_session(m);
	session_name(s, owner, "test");
	test_set(s, "share_with", "test");
	test_set(s, "max_tokens", "12");
	return s;
}

/* Asks in a conversation of its own, and says whether the answer was remembered. */
static bool knows(struct session *s, const char *question)
{
	free(test_ask(s, question));
	bool is = test_stats(s).remembered;
	assert_int_equal(session_reset(s, NULL), 0);
	return is;
}

/* Both give the same answer, the second one without computing it. */
static void ask_twice(struct session *s, struct session *other, const char *question)
{
	char *said = test_ask(s, question);
	assert_false(test_stats(s).remembered);
	test_same_text(said, test_ask(other, question));
	assert_true(test_stats(other).remembered);
}

/* The paths of all files below the folder, the last one in `path`; returns how many. */
static size_t files(char path[128])
{
	size_t count = 0;
	DIR *top = opendir(folder);
	for (const struct dirent *d; top && (d = readdir(top));) {
		char name[320];
		(void)snprintf(name, sizeof name, "%s/%s", folder, d->d_name);
		DIR *in = *d->d_name == '.' ? NULL : opendir(name);
		for (const struct dirent *f; in && (f = readdir(in));)
			if (*f->d_name != '.') {
				(void)snprintf(path, 128, "%.60s/%.60s", name, f->d_name);
				count++;
			}
		if (in)
			closedir(in);
	}
	closedir(top);
	return count;
}

/* Closing the model writes what waits. */
static size_t files_after(struct test_model *m, char path[128])
{
	test_model_close(m);
	return files(path);
}

/* ---- what comes back ---- */

static void the_same_question_computes_nothing(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1), *other = user(&m, 1);
	struct pager_stats before, after;
	test_answer(s, QUESTION, ANSWER);
	assert_false(test_stats(s).remembered);
	model_cache_stats(m.model, &before);
	test_answer(other, QUESTION, ANSWER);
	model_cache_stats(m.model, &after);
	assert_true(test_stats(other).remembered);
	assert_int_equal(after.hits + after.misses, before.hits + before.misses);
	const struct session_stats is = test_stats(other), was = test_stats(s);
	assert_int_equal(is.prompt_tokens, was.prompt_tokens);
	assert_int_equal(is.cached_tokens, was.prompt_tokens);
	assert_int_equal(is.output_tokens, was.output_tokens);
	assert_string_equal(is.finish, was.finish);
	test_same_text(test_text(s, SESSION_MESSAGES), test_text(other, SESSION_MESSAGES));
	char *why = test_text(other, SESSION_WHY);
	assert_non_null(strstr(why, "found_in remembered\n"));
	free(why);
	/* The next turn computes what is missing of the context. */
	test_set(other, "stop_repetition", "off"); /* another key */
	test_same_text(test_ask(other, "And of Chad?"), test_ask(s, "And of Chad?"));
	assert_false(test_stats(other).remembered);
	assert_true(test_stats(other).cached_tokens < test_stats(other).prompt_tokens);
	session_end(s);
	session_end(other);
	test_model_close(&m);
}

static void another_mount_remembers_and_other_weights_do_not(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	assert_false(knows(s, QUESTION));
	session_end(s);
	test_model_close(&m);
	open_model(&m, test_fable(), 0);
	s = user(&m, 1);
	assert_true(knows(s, QUESTION));
	session_end(s);
	test_model_close(&m);
	test_model_ready(&m, test_fable(),
			 &(struct engine_options){.remember = folder, .quant = "bf16"});
	s = user(&m, 1);
	assert_false(knows(s, QUESTION));
	session_end(s);
	test_model_close(&m);
	test_model_ready(&m, test_fable(),
			 &(struct engine_options){.remember = folder, .kv = "q8"});
	s = user(&m, 1);
	assert_false(knows(s, QUESTION));
	session_end(s);
	test_model_close(&m);
}

static void log_probabilities_come_back(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1), *other = user(&m, 1);
	int code;
	test_set(s, "logprobs", "2");
	test_set(other, "logprobs", "2");
	test_answer(s, QUESTION, ANSWER);
	test_answer(other, QUESTION, ANSWER);
	assert_true(test_stats(other).remembered);
	char *lines = test_read(session_logprobs(s), &code);
	assert_non_null(strstr(lines, "top_logprobs"));
	test_same_text(lines, test_read(session_logprobs(other), &code));
	session_end(s);
	session_end(other);
	test_model_close(&m);
}

static void choices_come_back(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fable(), 0);
	static const char *const chats[] = {"on", "off"};
	for (size_t i = 0; i < 2; i++) {
		struct session *s = user(&m, 1), *other = user(&m, 1);
		struct session *both[] = {s, other};
		for (size_t k = 0; k < 2; k++) {
			test_set(both[k], "format", "choices");
			test_set(both[k], "chat", chats[i]);
			test_write_text(both[k], SESSION_CHOICES, "is Paris.\nis Rome.\n");
		}
		ask_twice(s, other, QUESTION);
		test_same_text(test_text(s, SESSION_CHOSEN), test_text(other, SESSION_CHOSEN));
		test_same_text(test_text(s, SESSION_MESSAGES), test_text(other, SESSION_MESSAGES));
		assert_int_equal(session_reset(other, NULL), 0);
		test_write_text(other, SESSION_CHOICES, "is Paris.\nis Rome.\nis Oslo.\n");
		assert_false(knows(other, QUESTION));
		session_end(s);
		session_end(other);
	}
	test_model_close(&m);
}

#define SCRIPT                                                                                   \
	"{\"template\": \"{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}"     \
	"<|im_end|>\\n{% endfor %}{% for c in tools or [] %}<tool_call>{% endfor %}"             \
	"{% if add_generation_prompt %}<|answer_1|>{% endif %}\", "      \
	"\"answers\": [[\"<|answer_1|>\", \"<think>\", \"Let me\", \" see.\", \"</think>\", "    \
	"\"I \", \"look.\", \"<tool_call>\", "                                                   \
	"\"{\\\"name\\\": \\\"get\\\", \\\"arguments\\\": {\\\"a\\\": 1}}\", \"</tool_call>\"]]}"

static void thoughts_and_calls_come_back(void **state)
{
	(void)state;
	static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"get\"}}]";
	struct test_model m;
	char scripted[32], path[64];
	int code;
	test_folder_make(scripted);
	(void)snprintf(path, sizeof path, "%s/model", scripted);
	test_script_make(SCRIPT, path);
	test_model_ready(&m, path,
			 &(struct engine_options){.remember = folder, .quant = "bf16"});
	struct session *s = user(&m, 1), *other = user(&m, 1);
	struct session *both[] = {s, other};
	for (size_t i = 0; i < 2; i++) {
		test_write_text(both[i], SESSION_TOOLS, tools);
		test_answer(both[i], "How many?", "I look.\n");
		assert_string_equal(test_stats(both[i]).finish, "tool_calls");
		assert_int_equal(test_stats(both[i]).remembered, i);
	}
	char *thoughts = test_read(session_thoughts(other), &code);
	assert_string_equal(thoughts, "Let me see.\n");
	free(thoughts);
	test_same_text(test_text(s, SESSION_TOOL_CALLS), test_text(other, SESSION_TOOL_CALLS));
	test_same_text(test_text(s, SESSION_MESSAGES), test_text(other, SESSION_MESSAGES));
	session_end(s);
	session_end(other);
	test_model_close(&m);
	test_folder_remove(scripted);
}

static void an_answer_that_was_cut_short_is_continued(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1), *other = user(&m, 1);
	struct answer *a;
	int code;
	test_set(s, "max_tokens", "4");
	test_set(other, "max_tokens", "4");
	ask_twice(s, other, QUESTION);
	assert_string_equal(test_stats(other).finish, "length");
	test_set(other, "max_tokens", "0");
	assert_int_equal(session_again(other, SESSION_AGAIN_CONTINUE, &a, &e), 0);
	test_same_text(test_read(a, &code), strdup(ANSWER));
	assert_false(test_stats(other).remembered);
	test_set(s, "max_tokens", "0"); /* and the continuation is remembered, too */
	assert_int_equal(session_again(s, SESSION_AGAIN_CONTINUE, &a, &e), 0);
	test_same_text(test_read(a, &code), strdup(ANSWER));
	assert_true(test_stats(s).remembered);
	test_same_text(test_text(s, SESSION_MESSAGES), test_text(other, SESSION_MESSAGES));
	session_end(s);
	session_end(other);
	test_model_close(&m);
}

static void an_answer_ends_as_it_did(void **state)
{
	(void)state;
	static const char *const params[][2] = {{"stop", "Paris\nof"}, {"max_tokens", "3"},
						{"format", "json"}, {"temperature", "2"}};
	struct test_model m;
	open_model(&m, test_fable(), 0);
	for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
		struct session *s = user(&m, 1), *other = user(&m, 1);
		test_set(s, "seed", "3");
		test_set(other, "seed", "3");
		test_set(s, params[i][0], params[i][1]);
		test_set(other, params[i][0], params[i][1]);
		ask_twice(s, other, QUESTION);
		assert_string_equal(test_stats(s).finish, test_stats(other).finish);
		assert_int_equal(test_stats(s).stop, test_stats(other).stop);
		test_same_text(test_text(s, SESSION_MESSAGES), test_text(other, SESSION_MESSAGES));
		session_end(s);
		session_end(other);
	}
	test_model_close(&m);
}

/* ---- the key ---- */

/* Another value for each param than `user` has: one that changes the key, or one that does not. The
 * demonstration model takes no other thinking. */
static const struct {
	const char *name, *value, *same;
} others[] = {
	{"temperature", "0.5", NULL},	  {"top_k", "3", NULL},
	{"top_p", "0.5", NULL},		  {"min_p", "0.1", NULL},
	{"repetition_penalty", "2", NULL}, {"frequency_penalty", "1", NULL},
	{"presence_penalty", "1", NULL},  {"logit_bias", "400 1", NULL},
	{"logprobs", "1", NULL},	  {"max_tokens", "11", NULL},
	{"seed", NULL, "7"},		  {"format", "json", NULL},
	{"grammar", "a|b", NULL},	  {"tool_choice", "none", NULL},
	{"stop", "France", NULL},	  {"stop_repetition", "off", NULL},
	{"system", "Be brief.", NULL},	  {"chat", "off", NULL},
	{"thinking", NULL, NULL},	  {"date", NULL, "2026-01-02"},
	{"on_full", NULL, "error"},	  {"priority", NULL, "high"},
	{"stream", NULL, "off"},	  {"draft", NULL, "lookup"},
	{"share_with", "another", NULL},  {"experts_per_token", "1", NULL},
	{"drop_missing", "0.1", NULL},	  {"substitute", "1,8", NULL},
	{"experts_bias", "*/003 -1", NULL},
};

static void each_param_that_can_change_the_text_is_in_the_key(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	assert_false(knows(s, QUESTION));
	session_end(s);
	for (size_t i = 0; i < params_count(); i++) {
		size_t k = 0, n = sizeof others / sizeof *others;
		while (k < n && strcmp(others[k].name, params_name(i)) != 0)
			k++;
		if (k == n)
			fail_msg("params/%s: give this test another value", params_name(i));
		if (!others[k].value && !others[k].same)
			continue;
		s = user(&m, 1);
		if (!strcmp(others[k].name, "temperature"))
			test_set(s, "seed", "7");
		test_set(s, others[k].name, others[k].same ? others[k].same : others[k].value);
		if (knows(s, QUESTION) != (others[k].same != NULL))
			fail_msg("params/%s: remembered: %d", params_name(i), !others[k].same);
		session_end(s);
	}
	test_model_close(&m);
}

static void other_words_before_are_another_question(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	free(test_ask(s, "What is 7 x 8?"));
	free(test_ask(s, QUESTION));
	assert_int_equal(session_reset(s, NULL), 0);
	assert_false(knows(s, QUESTION));
	free(test_ask(s, "What is 7 x 8?"));
	assert_true(test_stats(s).remembered);
	free(test_ask(s, QUESTION));
	assert_true(test_stats(s).remembered);
	session_end(s);
	test_model_close(&m);
}

static void a_random_seed_is_never_kept(void **state)
{
	(void)state;
	struct test_model m;
	char path[128];
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	test_set(s, "temperature", "0.1");
	assert_false(knows(s, QUESTION));
	assert_false(knows(s, QUESTION));
	test_set(s, "seed", "5");
	assert_false(knows(s, QUESTION));
	assert_true(knows(s, QUESTION));
	session_end(s);
	assert_int_equal(files_after(&m, path), 1);
}

/* ---- what is not kept ---- */

static void stopped_failed_and_lossy_turns_are_never_kept(void **state)
{
	(void)state;
	struct test_model m;
	char path[128];
	int code;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	test_set(s, "max_tokens", "0");
	struct answer *a = test_submit_held(s, "Tell me a story.", 8);
	session_stop(s);
	test_let_go();
	free(test_read(a, &code));
	assert_string_equal(test_stats(s).finish, "stopped");
	assert_int_equal(session_reset(s, NULL), 0);
	test_ask_refused(s, "\xff", "UTF-8");
	assert_int_equal(session_reset(s, NULL), 0);
	test_set(s, "max_tokens", "4");
	test_set(s, "drop_missing", "0.1");
	free(test_ask(s, QUESTION));
	/* What a lossy context has is not what the key says. */
	test_set(s, "drop_missing", "0");
	session_end(s);
	assert_int_equal(files_after(&m, path), 0);
}

static void scores_and_vectors_are_not_kept(void **state)
{
	(void)state;
	struct test_model m;
	char path[128];
	int code;
	struct answer *a;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	assert_int_equal(session_score(s, QUESTION, strlen(QUESTION), &a, &e), 0);
	free(test_read(a, &code));
	assert_int_equal(session_embed(s, QUESTION, strlen(QUESTION), false, &a, &e), 0);
	free(test_read(a, &code));
	session_end(s);
	assert_int_equal(files_after(&m, path), 0);
}

static void a_context_from_a_file_is_believed_by_nobody_else(void **state)
{
	(void)state;
	struct test_model m;
	char path[128], bytes[4096];
	struct saved *saved;
	struct restored *r;
	size_t n;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1), *copy = user(&m, 1);
	free(test_ask(s, QUESTION));
	assert_int_equal(session_save(s, &saved, &e), 0);
	assert_int_equal(restored_begin(m.model, &r, &e), 0);
	for (uint64_t at = 0; (n = saved_read(saved, at, bytes, sizeof bytes)); at += n)
		assert_int_equal(restored_feed(r, at, bytes, n, &e), 0);
	assert_int_equal(session_restore(copy, r, &e), 0);
	restored_close(r);
	saved_close(saved);
	test_set(copy, "share_with", "test");
	free(test_ask(copy, "And of Chad?"));
	session_end(s);
	session_end(copy);
	assert_int_equal(files_after(&m, path), 1);
}

/* ---- users ---- */

static void users_remember_their_own_unless_the_mount_shares(void **state)
{
	(void)state;
	struct test_model m;
	for (uint32_t all = 0; all < 2; all++) {
		test_model_ready(&m, test_fable(),
				 &(struct engine_options){.remember = folder, .share_all = all});
		struct session *one = user(&m, 1), *two = user(&m, 2);
		assert_false(knows(one, QUESTION));
		assert_int_equal(knows(two, QUESTION), all);
		assert_true(knows(one, QUESTION));
		session_end(one);
		session_end(two);
		test_model_close(&m);
	}
}

/* ---- the folder ---- */

static void remember_one(char path[128])
{
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	(void)knows(s, QUESTION);
	session_end(s);
	assert_int_equal(files_after(&m, path), 1);
}

static void expect_unknown(const char *what)
{
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	test_answer(s, QUESTION, ANSWER);
	if (test_stats(s).remembered)
		fail_msg("%s is believed", what);
	session_end(s);
	test_model_close(&m);
}

static void replace(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void damaged_files_are_ignored_and_made_again(void **state)
{
	(void)state;
	char path[128], bytes[8192];
	remember_one(path);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(bytes, 1, sizeof bytes, f);
	assert_int_equal(fclose(f), 0);
	for (size_t at = 0; at < n; at += n / 7) {
		bytes[at] ^= 1;
		replace(path, bytes, n);
		bytes[at] ^= 1;
		expect_unknown("a changed byte");
	}
	for (size_t cut = 0; cut < n; cut += n / 3) {
		replace(path, bytes, cut);
		expect_unknown("a file that was cut");
	}
	struct test_model m;
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	assert_true(knows(s, QUESTION)); /* the last of these wrote it again */
	session_end(s);
	test_model_close(&m);
}

/* Whoever may write the folder can make the checksum right, too. */
static void forged_files_break_nothing(void **state)
{
	(void)state;
	enum { FORGED = 80, HEAD = sizeof "moefs: a remembered answer\nsum 0123456789abcdef\n" - 1 };
	char path[128], bytes[8192], head[HEAD + 1];
	struct test_model m;
	uint32_t random = 1;
	remember_one(path);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(bytes, 1, sizeof bytes, f);
	assert_int_equal(fclose(f), 0);
	open_model(&m, test_fable(), 0);
	struct session *s = user(&m, 1);
	for (int i = 0; i < FORGED; i++) {
		random = random * 1664525 + 1013904223;
		size_t at = HEAD + random % (n - HEAD);
		char was = bytes[at];
		bytes[at] = i % 3 ? (char)('0' + i % 10) : (char)(random >> 16);
		(void)snprintf(head, sizeof head, "moefs: a remembered answer\nsum %016llx\n",
			       (unsigned long long)XXH3_64bits(bytes + HEAD, n - HEAD));
		memcpy(bytes, head, HEAD);
		replace(path, bytes, n);
		(void)knows(s, QUESTION); /* succeeds, whatever it says */
		bytes[at] = was;
	}
	session_end(s);
	test_model_close(&m);
}

static void links_pipes_and_foreign_files_are_ignored(void **state)
{
	(void)state;
	char path[128], aside[140];
	remember_one(path);
	(void)snprintf(aside, sizeof aside, "%s.aside", folder);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(aside, path), 0);
	expect_unknown("a link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_unknown("a pipe");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(aside, path), 0);
	if (!geteuid()) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		expect_unknown("another user's file");
	}
	assert_int_equal(unlink(path), 0);
	/* A user's folder that is another user's, or a link. */
	*strrchr(path, '/') = 0;
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(aside, path), 0);
	expect_unknown("a linked folder");
	assert_int_equal(unlink(path), 0);
	test_folder_remove(aside);
}

static void a_disk_that_fails_never_fails_a_turn(void **state)
{
	(void)state;
	static const enum fault_op ops[] = {OP_WRITE, OP_FOLDER};
	struct test_model m;
	struct engine_remember r;
	char path[128];
	open_model(&m, test_fable(), 0);
	test_wait_converted(m.model);
	struct session *s = user(&m, 1), *other = user(&m, 1);
	test_set(other, "temperature", "1"); /* its seed is random */
	for (size_t i = 0; i < 2; i++) {
		faults.fail_code = ENOSPC;
		faults.fail_on = ops[i];
		assert_false(knows(s, QUESTION));
		assert_false(knows(s, QUESTION));
		assert_false(knows(other, QUESTION)); /* what waits is written before its turn */
		faults.fail_on = 0;
		engine_remember(m.engine, &r);
		assert_int_equal(r.failure.code, ENOSPC);
		if (ops[i] == OP_WRITE)
			assert_int_equal(files(path), 0);
	}
	assert_false(knows(s, "What is 7 x 8?"));
	assert_true(knows(s, "What is 7 x 8?"));
	engine_remember(m.engine, &r);
	assert_int_equal(r.failure.code, 0);
	assert_true(r.used > 0);
	session_end(s);
	session_end(other);
	test_model_close(&m);
}

static void the_oldest_answers_give_way(void **state)
{
	(void)state;
	struct test_model m;
	char path[128], question[32];
	struct stat st;
	remember_one(path);
	assert_int_equal(stat(path, &st), 0);
	const uint64_t size = 4 * (uint64_t)st.st_size;
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	open_model(&m, test_fable(), size);
	struct session *s = user(&m, 1);
	for (int i = 0; i < 8; i++) {
		struct engine_remember r;
		(void)snprintf(question, sizeof question, "What is %d x 8?", i);
		assert_false(knows(s, question));
		engine_remember(m.engine, &r);
		assert_true(r.used <= size);
	}
	assert_true(knows(s, question));
	session_end(s);
	test_model_close(&m);
	assert_int_not_equal(access(path, F_OK), 0);
	open_model(&m, test_fable(), 100); /* nothing fits */
	s = user(&m, 1);
	assert_false(knows(s, QUESTION));
	assert_false(knows(s, QUESTION));
	session_end(s);
	assert_int_equal(files_after(&m, path), 0);
}

static void refused(const char *path, int code, const char *words)
{
	struct engine *g;
	const struct engine_options o = {.remember = path, .threads = 1};
	int failed = engine_create(&g, &o, &e);
	if (failed != -code || !strstr(e.text, words))
		fail_msg("%s: %d %s", path, failed, failed ? e.text : "");
}

static void a_folder_that_cannot_be_used_is_refused_in_words(void **state)
{
	(void)state;
	char path[64];
	(void)snprintf(path, sizeof path, "%s/file", folder);
	replace(path, "x", 1);
	refused(path, ENOTDIR, "is not a folder");
	(void)snprintf(path, sizeof path, "%s/not/there", folder);
	refused(path, ENOENT, "cannot be made");
	if (geteuid())
		refused("/", EPERM, "belongs to another user");
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
	faults.fail_on = 0;
	test_let_go();
	test_folder_remove(folder);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(the_same_question_computes_nothing),
		TEST(another_mount_remembers_and_other_weights_do_not),
		TEST(log_probabilities_come_back),
		TEST(choices_come_back),
		TEST(thoughts_and_calls_come_back),
		TEST(an_answer_that_was_cut_short_is_continued),
		TEST(an_answer_ends_as_it_did),
		TEST(each_param_that_can_change_the_text_is_in_the_key),
		TEST(other_words_before_are_another_question),
		TEST(a_random_seed_is_never_kept),
		TEST(stopped_failed_and_lossy_turns_are_never_kept),
		TEST(scores_and_vectors_are_not_kept),
		TEST(a_context_from_a_file_is_believed_by_nobody_else),
		TEST(users_remember_their_own_unless_the_mount_shares),
		TEST(damaged_files_are_ignored_and_made_again),
		TEST(forged_files_break_nothing),
		TEST(links_pipes_and_foreign_files_are_ignored),
		TEST(a_disk_that_fails_never_fails_a_turn),
		TEST(the_oldest_answers_give_way),
		TEST(a_folder_that_cannot_be_used_is_refused_in_words),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
