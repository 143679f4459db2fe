/* Answers: text that grows under its readers, ends in exactly one newline, and outlives whoever
 * wrote it. */
#include "engine/session/answer.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static struct answer *a;

static int setup(void **state)
{
	(void)state;
	a = answer_create(true);
	return a ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	answer_unref(a);
	return 0;
}

static ssize_t append(const char *text)
{
	return answer_append(a, text, strlen(text));
}

/* This text is all that can be read now, complete or not. */
static void assert_text(const char *want, bool want_complete)
{
	char text[4096];
	bool complete;
	ssize_t n = answer_read(a, 0, text, sizeof text - 1, &complete);
	assert_true(n >= 0);
	text[n] = 0;
	assert_string_equal(text, want);
	assert_int_equal(complete, want_complete);
	assert_int_equal(answer_size(a, &complete), strlen(want));
	assert_int_equal(complete, want_complete);
}

static void an_answer_grows_and_then_ends(void **state)
{
	(void)state;
	assert_text("", false);
	assert_int_equal(append("The capital"), 11);
	assert_text("The capital", false);
	assert_int_equal(append(""), 0);
	assert_int_equal(append(" of"), 3);
	assert_text("The capital of", false);
	answer_finish(a, 0);
	assert_text("The capital of\n", true);
}

static void it_ends_in_exactly_one_newline(void **state)
{
	(void)state;
	static const char *const texts[][2] = {
		{"", "\n"},	  {"\n", "\n"},	      {"\n\n\n", "\n"},	      {"a", "a\n"},
		{"a\n", "a\n"},	  {"a\n\n\n", "a\n"}, {"a\n\nb", "a\n\nb\n"}, {"\n\na", "\n\na\n"},
		{"a \n", "a \n"}, {"a\n ", "a\n \n"}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		for (int whole = 0; whole < 2; whole++) {
			answer_unref(a);
			a = answer_create(true);
			if (whole)
				append(texts[i][0]);
			for (const char *c = texts[i][0]; !whole && *c; c++)
				answer_append(a, c, 1);
			answer_finish(a, 0);
			assert_text(texts[i][1], true);
		}
}

static void newlines_at_the_live_end_wait_for_what_follows(void **state)
{
	(void)state;
	assert_int_equal(append("a\n\n"), 1);
	assert_text("a", false);
	assert_int_equal(append("\n"), 0);
	assert_int_equal(append("b\n"), 4);
	assert_text("a\n\n\nb", false);
}

static void reads_are_by_offset(void **state)
{
	(void)state;
	char text[8];
	bool complete;
	append("0123456789");
	assert_int_equal(answer_read(a, 3, text, 4, &complete), 4);
	assert_memory_equal(text, "3456", 4);
	assert_int_equal(answer_read(a, 9, text, 4, &complete), 1);
	assert_int_equal(answer_read(a, 10, text, 4, &complete), 0);
	assert_false(complete);
	assert_int_equal(answer_read(a, UINT64_MAX, text, 4, &complete), 0);
	answer_finish(a, 0);
	assert_int_equal(answer_read(a, 10, text, 4, &complete), 1);
	assert_int_equal(answer_read(a, 11, text, 4, &complete), 0);
	assert_true(complete);
}

static void a_failure_comes_after_the_text(void **state)
{
	(void)state;
	char text[8];
	bool complete;
	append("half\n");
	answer_finish(a, -EIO);
	assert_int_equal(answer_read(a, 0, text, 8, &complete), 4);
	assert_memory_equal(text, "half", 4);
	assert_int_equal(answer_read(a, 4, text, 8, &complete), -EIO);
	assert_true(complete);
	assert_int_equal(answer_size(a, &complete), 4);
}

static void without_streaming_nothing_is_read_before_the_end(void **state)
{
	(void)state;
	for (int code = 0; code >= -EIO; code -= EIO) {
		char text[8];
		bool complete;
		answer_unref(a);
		a = answer_create(false);
		append("one ");
		assert_text("", false);
		assert_int_equal(answer_read(a, 2, text, 8, &complete), 0);
		append("two\n");
		assert_text("", false);
		answer_finish(a, code);
		assert_text(code ? "one two" : "one two\n", true);
		assert_int_equal(answer_read(a, 8 - !!code, text, 8, &complete), code);
	}
}

static void what_is_complete_changes_no_more(void **state)
{
	(void)state;
	append("done");
	answer_finish(a, 0);
	answer_finish(a, -EIO);
	assert_int_equal(append("more"), 0);
	assert_text("done\n", true);
}

static void a_reference_keeps_it_after_its_writer_is_gone(void **state)
{
	(void)state;
	struct answer *mine = answer_ref(a);
	append("kept");
	answer_finish(a, 0);
	answer_unref(a);
	a = mine;
	assert_text("kept\n", true);
	answer_unref(NULL);
}

/* ---- many readers ---- */

enum { READERS = 4, LINES = 2000 };

static void *read_all(void *arg)
{
	struct answer *mine = arg;
	static const char line[] = "0123456789\n";
	uint64_t offset = 0;
	bool complete = false, right = true;
	char piece[64];
	for (;;) {
		ssize_t n = answer_read(mine, offset, piece, sizeof piece, &complete);
		for (ssize_t i = 0; i < n; i++)
			right &= piece[i] == line[(offset + (uint64_t)i) % (sizeof line - 1)];
		if (n > 0)
			offset += (uint64_t)n;
		else if (complete)
			break;
	}
	right &= offset == LINES * (sizeof line - 1);
	answer_unref(mine);
	return right ? arg : NULL;
}

static void every_reader_sees_all_of_it(void **state)
{
	(void)state;
	pthread_t reader[READERS];
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, read_all, answer_ref(a)), 0);
	for (int i = 0; i < LINES; i++) {
		append("01234");
		append("56789\n");
	}
	answer_finish(a, 0);
	answer_unref(a); /* the last of them frees it */
	a = NULL;
	for (int i = 0; i < READERS; i++) {
		void *right;
		pthread_join(reader[i], &right);
		assert_non_null(right);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_grows_and_then_ends),
		TEST(it_ends_in_exactly_one_newline),
		TEST(newlines_at_the_live_end_wait_for_what_follows),
		TEST(reads_are_by_offset),
		TEST(a_failure_comes_after_the_text),
		TEST(without_streaming_nothing_is_read_before_the_end),
		TEST(what_is_complete_changes_no_more),
		TEST(a_reference_keeps_it_after_its_writer_is_gone),
		TEST(every_reader_sees_all_of_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
