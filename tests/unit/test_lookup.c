/* Prompt lookup finds what followed the same tokens before, and nothing where nothing did. */
#include "engine/compute/drafter.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 4 };

static uint32_t draft[MOST], matched;

#define TOKENS(...) \
	(const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static void what_followed_the_same_tokens_is_the_draft(void **state)
{
	(void)state;
	assert_int_equal(drafter_lookup(TOKENS(1, 2, 3, 4, 5, 6, 7, 1, 2), draft, MOST, &matched),
			 4);
	assert_int_equal(matched, 2);
	for (uint32_t i = 0; i < MOST; i++)
		assert_int_equal(draft[i], 3 + i);
}

static void the_longest_agreement_wins_and_then_the_newest(void **state)
{
	(void)state;
	assert_int_equal(
		drafter_lookup(TOKENS(9, 1, 2, 10, 8, 1, 2, 20, 9, 1, 2), draft, 1, &matched), 1);
	assert_int_equal(matched, 3);
	assert_int_equal(draft[0], 10);
	assert_int_equal(
		drafter_lookup(TOKENS(7, 1, 2, 10, 8, 1, 2, 20, 9, 1, 2), draft, 1, &matched), 1);
	assert_int_equal(matched, 2);
	assert_int_equal(draft[0], 20);
}

static void a_text_of_one_token_drafts_it(void **state)
{
	(void)state;
	assert_int_equal(drafter_lookup(TOKENS(5, 5, 5), draft, MOST, &matched), MOST);
	for (uint32_t i = 0; i < MOST; i++)
		assert_int_equal(draft[i], 5);
}

static void a_text_that_repeats_itself_drafts_beyond_its_end(void **state)
{
	(void)state;
	assert_int_equal(drafter_lookup(TOKENS(1, 2, 3, 1, 2), draft, MOST, &matched), MOST);
	assert_int_equal(matched, 2);
	assert_memory_equal(draft, ((uint32_t[]){3, 1, 2, 3}), sizeof draft);
}

static void there_is_none_where_nothing_agrees(void **state)
{
	(void)state;
	assert_int_equal(drafter_lookup(NULL, 0, draft, MOST, &matched), 0);
	assert_int_equal(drafter_lookup(TOKENS(1), draft, MOST, &matched), 0);
	assert_int_equal(drafter_lookup(TOKENS(1, 1), draft, MOST, &matched), 0);
	assert_int_equal(drafter_lookup(TOKENS(1, 2, 3, 4, 2), draft, MOST, &matched), 0);
}

/* The definition, place by place. */
static uint32_t plain(const uint32_t *tokens, size_t count, size_t *best_place)
{
	uint32_t best = 0;
	for (size_t place = 1; place < count; place++) {
		uint32_t n = 0;
		while (n < LOOKUP_MOST && n < place &&
		       tokens[place - 1 - n] == tokens[count - 1 - n])
			n++;
		if (n >= LOOKUP_LEAST && n >= best) {
			best = n;
			*best_place = place;
		}
	}
	return best;
}

static void random_texts_agree_with_the_definition(void **state)
{
	(void)state;
	struct random r = {7};
	uint32_t tokens[200];
	for (int round = 0; round < 2000; round++) {
		size_t count = random_u32(&r) % 200, place = 0;
		for (size_t i = 0; i < count; i++)
			tokens[i] = random_u32(&r) % 3;
		uint32_t n = drafter_lookup(tokens, count, draft, MOST, &matched);
		assert_int_equal(matched, plain(tokens, count, &place));
		assert_int_equal(n, matched ? MOST : 0);
		for (uint32_t i = 0; i < n; i++) {
			size_t from = place + i;
			assert_int_equal(draft[i],
					 from < count ? tokens[from] : draft[from - count]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_followed_the_same_tokens_is_the_draft),
		cmocka_unit_test(the_longest_agreement_wins_and_then_the_newest),
		cmocka_unit_test(a_text_of_one_token_drafts_it),
		cmocka_unit_test(a_text_that_repeats_itself_drafts_beyond_its_end),
		cmocka_unit_test(there_is_none_where_nothing_agrees),
		cmocka_unit_test(random_texts_agree_with_the_definition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
