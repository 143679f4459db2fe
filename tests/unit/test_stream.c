/* Streaming of text: nothing lost, nothing after a stop text, no half characters. Random texts are
 * compared with a reference that sees the whole text at once. */
#include "engine/answer/stream.h"
#include "engine/session/params.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A stream and its output so far. */
struct fed {
	struct stream s;
	char out[8192];
	size_t size;
	struct err e;
};

static struct fed f;

static void begin(const char *stops)
{
	char empty[1] = "";
	struct params p = {.system = empty, .stop = (char *)stops};
	stream_free(&f.s);
	memset(&f, 0, sizeof f);
	assert_int_equal(stream_init(&f.s, p.stop, &f.e), 0);
}

static int end(void **state)
{
	(void)state;
	stream_free(&f.s);
	return 0;
}

static void take(const char *text, size_t n)
{
	assert_non_null(text);
	assert_true(f.size + n < sizeof f.out);
	memcpy(f.out + f.size, text, n);
	f.size += n;
	f.out[f.size] = 0;
}

static void feed_bytes(const char *bytes, size_t n)
{
	size_t length;
	const char *text = stream_feed(&f.s, bytes, n, &length);
	take(text, length);
}

static void feed(const char *bytes)
{
	feed_bytes(bytes, strlen(bytes));
}

static void flush(void)
{
	size_t length;
	const char *text = stream_flush(&f.s, &length);
	take(text, length);
}

static void assert_out(const char *text)
{
	assert_string_equal(f.out, text);
}

/* ---- without stops ---- */

static void without_stops_text_passes_at_once(void **state)
{
	(void)state;
	begin("");
	feed("Hello");
	assert_out("Hello");
	feed("");
	feed(", world");
	assert_out("Hello, world");
	flush();
	assert_out("Hello, world");
	assert_false(f.s.stopped);
}

static void a_character_comes_out_whole(void **state)
{
	(void)state;
	begin("");
	feed("a\xf0\x9f");
	assert_out("a");
	feed("\x8d");
	assert_out("a");
	feed("\x8e!");
	assert_out("a\xf0\x9f\x8d\x8e!");
}

static void a_character_that_never_ends_comes_out_at_the_end(void **state)
{
	(void)state;
	begin("");
	feed("a\xe2\x82");
	assert_out("a");
	flush();
	assert_out("a\xe2\x82");
	begin("");
	feed("\xe2\x82");
	feed("b"); /* it can no longer end */
	assert_out("\xe2\x82"
		   "b");
}

/* ---- with stops ---- */

static void a_stop_ends_the_text_before_it(void **state)
{
	(void)state;
	begin("STOP");
	feed("one STOP two");
	assert_out("one ");
	assert_true(f.s.stopped);
	feed("three");
	flush();
	assert_out("one ");
}

static void a_stop_is_found_across_tokens(void **state)
{
	(void)state;
	begin("STOP");
	feed("one S");
	assert_out("one ");
	feed("TO");
	assert_out("one ");
	feed("P and more");
	assert_out("one ");
	assert_true(f.s.stopped);
}

static void text_that_only_began_like_a_stop_comes_out(void **state)
{
	(void)state;
	begin("STOP");
	feed("one STO");
	assert_out("one ");
	feed("RM");
	assert_out("one STORM");
	feed(" ST");
	flush();
	assert_out("one STORM ST");
	assert_false(f.s.stopped);
}

static void a_stop_that_repeats_itself_is_found(void **state)
{
	(void)state;
	begin("aab");
	feed("a");
	feed("a");
	feed("a");
	assert_out("a");
	feed("b");
	assert_out("a");
	assert_true(f.s.stopped);
	begin("abab!");
	feed("ababab");
	assert_out("ab");
	feed("!");
	assert_out("ab");
	assert_true(f.s.stopped);
}

static void of_several_stops_the_first_in_the_text_counts(void **state)
{
	(void)state;
	begin("two\none\nthree");
	feed("zero, one, two");
	assert_out("zero, ");
	begin("bcd\nb"); /* one begins like the other */
	feed("abcd");
	assert_out("a");
	begin("abcx\nbc");
	feed("ab");
	assert_out("");
	feed("c");
	assert_out("a");
	assert_true(f.s.stopped);
}

static void a_stop_at_the_very_beginning_leaves_nothing(void **state)
{
	(void)state;
	begin("x");
	feed("xyz");
	flush();
	assert_out("");
	assert_true(f.s.stopped);
}

static void a_stop_may_be_a_newline_or_a_character_of_several_bytes(void **state)
{
	(void)state;
	begin("\\n\\n\n\xe2\x82\xac");
	feed("one\n");
	assert_out("one");
	feed("two\xe2");
	assert_out("one\ntwo");
	feed("\x82");
	feed("\xac");
	assert_out("one\ntwo");
	assert_true(f.s.stopped);
	begin("\\n\\n\n\xe2\x82\xac");
	feed("one\n\ntwo");
	assert_out("one");
}

static void a_broken_character_before_a_stop_comes_out(void **state)
{
	(void)state;
	begin("STOP");
	feed("a\xe2\x82");
	feed("STOP");
	assert_out("a\xe2\x82");
	assert_true(f.s.stopped);
}

/* ---- against a reference ---- */

/* The length of the text before the first stop; n if there is none. */
static size_t reference(const char *text, size_t n, const char *const *stops, size_t count)
{
	size_t first = n;
	for (size_t i = 0; i < count; i++) {
		const char *found = memmem(text, n, stops[i], strlen(stops[i]));
		if (found && (size_t)(found - text) < first)
			first = (size_t)(found - text);
	}
	return first;
}

static void random_texts_lose_nothing_and_stop_where_they_should(void **state)
{
	(void)state;
	static const char *const stops[] = {"abb", "bba", "aaaa", "cab", "bcbcb"};
	struct random r = {7};
	for (int round = 0; round < 3000; round++) {
		char text[64];
		size_t n = 1 + random_u32(&r) % (sizeof text - 1), given = 0, cut = n;
		for (size_t i = 0; i < n; i++)
			text[i] = (char)('a' + random_u32(&r) % 3);
		begin("abb\nbba\naaaa\ncab\nbcbcb");
		while (given < n && cut == n) {
			size_t piece = 1 + random_u32(&r) % 4;
			if (piece > n - given)
				piece = n - given;
			feed_bytes(text + given, piece);
			given += piece;
			/* The stop depends only on the text so far. */
			size_t seen = reference(text, given, stops, 5);
			if (seen < given)
				cut = seen;
			assert_int_equal(f.s.stopped, seen < given);
			assert_true(f.size <= seen);
		}
		flush();
		assert_int_equal(f.size, cut);
		assert_memory_equal(f.out, text, cut);
	}
}

static void random_bytes_come_out_as_they_went_in(void **state)
{
	(void)state;
	static const uint8_t alphabet[] = {'a',	 0xc3, 0xa9, 0xe2, 0x82, 0xac,
					   0xf0, 0x9f, 0x8d, 0xff, 0};
	struct random r = {8};
	for (int round = 0; round < 2000; round++) {
		char bytes[48];
		size_t n = random_u32(&r) % sizeof bytes;
		for (size_t i = 0; i < n; i++)
			bytes[i] = (char)alphabet[random_u32(&r) % sizeof alphabet];
		begin("never");
		for (size_t i = 0, piece; i < n; i += piece) {
			piece = 1 + random_u32(&r) % 5;
			if (piece > n - i)
				piece = n - i;
			feed_bytes(bytes + i, piece);
		}
		flush();
		assert_int_equal(f.size, n);
		assert_memory_equal(f.out, bytes, n);
	}
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_stops_text_passes_at_once),
		TEST(a_character_comes_out_whole),
		TEST(a_character_that_never_ends_comes_out_at_the_end),
		TEST(a_stop_ends_the_text_before_it),
		TEST(a_stop_is_found_across_tokens),
		TEST(text_that_only_began_like_a_stop_comes_out),
		TEST(a_stop_that_repeats_itself_is_found),
		TEST(of_several_stops_the_first_in_the_text_counts),
		TEST(a_stop_at_the_very_beginning_leaves_nothing),
		TEST(a_stop_may_be_a_newline_or_a_character_of_several_bytes),
		TEST(a_broken_character_before_a_stop_comes_out),
		TEST(random_texts_lose_nothing_and_stop_where_they_should),
		TEST(random_bytes_come_out_as_they_went_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
