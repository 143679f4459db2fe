/* The hold of streamed UTF-8: nothing is lost, added or late, and no character is split. */
#include "engine/tokenizer/tokenizer.h"
#include "cache/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t draw(uint32_t *state, uint32_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state % below;
}

/* Bytes that make characters, broken characters and nonsense, in likely orders. */
static size_t random_bytes(uint32_t *seed, char *out, size_t n)
{
	static const uint8_t LIKELY[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
					 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe2, 0xed, 0xef, 0xf0,
					 0xf1, 0xf4, 0xf5, 0xff, 0x80, 0x90, 0xa0, 0xbf};
	for (size_t i = 0; i < n; i++)
		out[i] = (char)LIKELY[draw(seed, sizeof LIKELY)];
	return n;
}

static void every_way_to_cut_a_stream_gives_all_its_bytes(void **state)
{
	(void)state;
	uint32_t seed = 8;
	for (int round = 0; round < 20000; round++) {
		char bytes[40], out[64];
		size_t n = random_bytes(&seed, bytes, draw(&seed, sizeof bytes));
		struct utf8_hold hold = {0};
		size_t written = 0;
		for (size_t i = 0; i < n;) {
			size_t piece = 1 + draw(&seed, 5);
			if (piece > n - i)
				piece = n - i;
			size_t now = utf8_hold_feed(&hold, bytes + i, piece, out + written);
			assert_true(now <= piece + 3);
			written += now;
			i += piece;
		}
		size_t rest = utf8_hold_flush(&hold, out + written);
		assert_true(rest <= 3);
		assert_int_equal(written + rest, n);
		assert_memory_equal(out, bytes, n);
		assert_int_equal(utf8_hold_flush(&hold, out), 0);
	}
}

static void valid_text_is_never_cut_inside_a_character(void **state)
{
	(void)state;
	uint32_t seed = 9;
	for (int round = 0; round < 20000; round++) {
		char text[64], out[8];
		size_t n = 0;
		while (n < 50) {
			static const uint32_t LIMITS[] = {0x80, 0x800, 0x10000, 0x110000};
			uint32_t c = draw(&seed, LIMITS[draw(&seed, 4)]);
			if (c < 0xd800 || c > 0xdfff)
				n += utf8_encode(c, text + n);
		}
		struct utf8_hold hold = {0};
		for (size_t i = 0; i < n; i++) {
			size_t written = utf8_hold_feed(&hold, text + i, 1, out);
			assert_int_equal(utf8_valid_length(out, written), written);
		}
		assert_int_equal(hold.count, 0);
	}
}

static void only_what_may_still_become_a_character_is_held(void **state)
{
	(void)state;
	uint32_t seed = 10;
	for (int round = 0; round < 20000; round++) {
		char bytes[16], out[32];
		size_t n = random_bytes(&seed, bytes, 1 + draw(&seed, 8));
		struct utf8_hold hold = {0};
		size_t written = utf8_hold_feed(&hold, bytes, n, out);
		size_t held = n - written;
		assert_int_equal(held, hold.count);
		if (held == 0)
			continue;
		/* Some continuation completes it. */
		bool completes = false;
		for (unsigned next = 0; next < 256 * 4 && !completes; next++) {
			static const char *const TAILS[] = {"", "\x80", "\x90\x80", "\xa0\x80"};
			char whole[8];
			memcpy(whole, bytes + written, held);
			whole[held] = (char)(next & 255);
			strcpy(whole + held + 1, TAILS[next >> 8]);
			size_t length = held + 1 + strlen(TAILS[next >> 8]);
			size_t bytes_of_one;
			completes = utf8_valid_length(whole, length) == length &&
				    (utf8_decode(whole, &bytes_of_one), bytes_of_one > held);
		}
		assert_true(completes);
	}
}

static void bytes_that_can_never_become_a_character_pass_at_once(void **state)
{
	(void)state;
	static const char *const CASES[] = {"\x80",	"\xc0",	    "\xc1\xbf",	    "\xff",
					    "\xe0\x9f", "\xed\xa0", "\xf0\x8f",	    "\xf4\x90",
					    "\xf5",	"\xe2(",    "\xf0\x9f\x98x"};
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		struct utf8_hold hold = {0};
		char out[16];
		size_t n = strlen(CASES[i]);
		assert_int_equal(utf8_hold_feed(&hold, CASES[i], n, out), n);
		assert_memory_equal(out, CASES[i], n);
	}
}

static void characters_survive_being_decoded_and_encoded(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 0x110000; c++) {
		if (c >= 0xd800 && c <= 0xdfff)
			continue;
		char bytes[4];
		size_t n = utf8_encode(c, bytes), back;
		assert_int_equal(utf8_valid_length(bytes, n), n);
		assert_int_equal(utf8_decode(bytes, &back), c);
		assert_int_equal(back, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_way_to_cut_a_stream_gives_all_its_bytes),
		cmocka_unit_test(valid_text_is_never_cut_inside_a_character),
		cmocka_unit_test(only_what_may_still_become_a_character_is_held),
		cmocka_unit_test(bytes_that_can_never_become_a_character_pass_at_once),
		cmocka_unit_test(characters_survive_being_decoded_and_encoded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
