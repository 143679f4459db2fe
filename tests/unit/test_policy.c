/* Replacement policies: their arithmetic, and the order of eviction in small scripted scenes, by
 * io_uring and by pread. */
#include "pager_help.h"

#include "cache/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static enum pager_io io;

enum { EXPERTS = 12, LAYERS = 3 };

static const char *const names[] = {"scales", "lrfu", "lfu", "lru"};
enum { POLICIES = sizeof names / sizeof *names };

static int teardown(void **state)
{
	test_pager_close(*state);
	free(*state);
	return 0;
}

static int setup_slots(void **state, uint32_t slots)
{
	struct test_pager *f = malloc(sizeof *f);
	test_pager_open(f, EXPERTS, slots, io);
	*state = f;
	return 0;
}

static int two_slots(void **state)
{
	return setup_slots(state, 2);
}

static int three_slots(void **state)
{
	return setup_slots(state, 3);
}

static int four_slots(void **state)
{
	return setup_slots(state, 4);
}

static int twenty_slots(void **state)
{
	return setup_slots(state, 20);
}

static void set_policy(struct test_pager *f, const char *words)
{
	if (pager_set_policy(f->pager, words, &f->e))
		fail_msg("%s", f->e.text);
}

static void use(struct test_pager *f, uint32_t layer, uint32_t expert, uint32_t times)
{
	while (times--)
		test_use(f, f->source, layer, expert, 1);
}

/* ---- the table ---- */

static double after_fades(const struct policy *p, struct use_counts u, uint32_t n)
{
	double value = 0;
	while (n--)
		value = policy_fade(p, &u, value);
	return value;
}

static void scales_adds_up_three_exponentials(void **state)
{
	const struct policy *p = policy_find("scales");
	struct use_counts u = {0};
	(void)state;
	assert_ptr_equal(p, policy_default());
	assert_float_equal(policy_use(p, &u, 1, 77), 1.24, 1e-6);
	/* .5 + .2 · 2^(-1/16) + .04 · 2^(-1/256) */
	assert_float_equal(after_fades(p, u, 1), .731412, 1e-6);
	/* 2^-16 + .2 / 2 + .04 · 2^(-1/16) */
	assert_float_equal(after_fades(p, u, 16), .000015 + .1 + .038304, 1e-6);
	/* nothing, .2 · 2^-16, .04 / 2 */
	assert_float_equal(after_fades(p, u, 256), .020003, 1e-6);
	assert_float_equal(policy_use(p, &u, .1F, 78), 1.364, 1e-6); /* as it is credited */
}

static void lrfu_halves_in_eight_visits_and_counts_each_use_as_one(void **state)
{
	const struct policy *p = policy_find("lrfu");
	struct use_counts u = {0};
	(void)state;
	assert_float_equal(policy_use(p, &u, .1F, 5), 1, 1e-6);
	assert_float_equal(after_fades(p, u, 8), .5, 1e-6);
	assert_float_equal(after_fades(p, u, 24), .125, 1e-6);
	assert_float_equal(policy_use(p, &u, 1, 6), 2, 1e-6);
}

static void lfu_forgets_just_enough_to_rank_equals_and_lru_knows_the_last_use_alone(void **state)
{
	const struct policy *lfu = policy_find("lfu"), *lru = policy_find("lru");
	struct use_counts u = {0};
	(void)state;
	(void)policy_use(lfu, &u, .1F, 5);
	assert_float_equal(policy_use(lfu, &u, 1, 6), 2, 0);
	double often_long_ago = after_fades(lfu, u, 1000), once = policy_use(lfu, &u, 0, 7);
	assert_float_equal(often_long_ago, 2, .01);
	assert_true(once == 3 && after_fades(lfu, u, 1) < 3);
	assert_float_equal(policy_use(lru, &u, .1F, 9), 9, 0);
	assert_float_equal(policy_fade(lru, &u, 9), 9, 0);
}

static void a_far_turn_and_idle_passes_discount_where_the_policy_says_so(void **state)
{
	const struct policy *scales = policy_find("scales"), *lrfu = policy_find("lrfu");
	(void)state;
	assert_float_equal(policy_discount(scales, 4, 4, 0), .5, 1e-9);
	assert_float_equal(policy_discount(scales, 1, 4, 0), .840896, 1e-6);
	assert_float_equal(policy_discount(scales, 4, 4, 32), .125, 1e-9);
	assert_float_equal(policy_discount(lrfu, 4, 4, 0), 1, 0);
	assert_float_equal(policy_discount(lrfu, 4, 4, 16), .5, 1e-9);
	assert_float_equal(policy_discount(policy_find("lru"), 4, 4, 99), 1, 0);
}

static void heat_is_the_slowest_count_and_lru_has_none(void **state)
{
	const struct policy *scales = policy_find("scales"), *lru = policy_find("lru");
	struct use_counts u = {{7, 5, 3}}, taken = {{1, 1, 1}};
	(void)state;
	assert_float_equal(policy_heat(scales, &u), 3, 0);
	assert_float_equal(policy_take_heat(scales, &taken, 3), .12, 1e-6);
	assert_float_equal(taken.count[0] + taken.count[1], 0, 0);
	assert_float_equal(policy_heat(lru, &u), 0, 0);
	assert_null(policy_find("mru"));
	assert_null(policy_find(""));
}

/* ---- who is evicted ---- */

/* Six uses long ago against one use each since: at the end 1.27 against .34, .47 and .73 by scales,
 * and 3.5 against .77, .84 and .92 by lrfu. */
static void an_often_used_expert_outlives_one_that_was_used_once(void **state)
{
	struct test_pager *f = *state;
	for (int i = 0; i < POLICIES; i++) {
		bool lru = !strcmp(names[i], "lru");
		pager_remove(f->source);
		assert_int_equal(test_pager_add(f, f->pager, &f->source, 5000, test_arrange, NULL),
				 0);
		set_policy(f, names[i]);
		use(f, 0, 0, 6);
		for (uint32_t x = 1; x <= 4; x++)
			use(f, 0, x, 1);
		assert_int_equal(test_resident(f->source, 0, 0), !lru);
		assert_int_equal(test_resident(f->source, 0, 1), lru);
		for (uint32_t x = 2; x <= 4; x++)
			assert_true(test_resident(f->source, 0, x));
	}
}

/* Five uses, then three rounds of eleven others. */
static void only_lfu_keeps_an_expert_used_often_long_ago(void **state)
{
	struct test_pager *f = *state;
	for (int i = 0; i < POLICIES; i++) {
		pager_remove(f->source);
		assert_int_equal(test_pager_add(f, f->pager, &f->source, 5000, test_arrange, NULL),
				 0);
		set_policy(f, names[i]);
		use(f, 0, 0, 5);
		for (uint32_t k = 0; k < 33; k++)
			use(f, 0, 1 + k % 11, 1);
		assert_int_equal(test_resident(f->source, 0, 0), !strcmp(names[i], "lfu"));
	}
}

static void scales_gives_uses_in_a_prompt_the_credit_they_have_and_lrfu_does_not(void **state)
{
	struct test_pager *f = *state;
	for (int i = 0; i < 2; i++) { /* scales, lrfu */
		pager_remove(f->source);
		assert_int_equal(test_pager_add(f, f->pager, &f->source, 5000, test_arrange, NULL),
				 0);
		set_policy(f, names[i]);
		test_use(f, f->source, 0, 1, 1);
		test_use(f, f->source, 0, 0, .1F);
		test_use(f, f->source, 0, 2, 1);
		assert_int_equal(test_resident(f->source, 0, 1), i == 0);
		assert_int_equal(test_resident(f->source, 0, 0), i == 1);
	}
}

/* One use in each layer; after layer 1 the next is 2, then 0, and 1 itself is last. */
static void a_tie_is_lost_by_the_layer_whose_turn_is_farthest(void **state)
{
	struct test_pager *f = *state;
	set_policy(f, "lfu");
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		use(f, layer, 0, 1);
	use(f, 1, 1, 1);
	assert_true(test_resident(f->source, 0, 0));
	assert_false(test_resident(f->source, 1, 0));
	assert_true(test_resident(f->source, 2, 0));
	use(f, 2, 1, 1); /* now 2 is the farthest */
	assert_false(test_resident(f->source, 2, 0));
}

/* When layer 0 comes again its first expert is worth 1.46, and half of that is less than what 1.24
 * is worth in layer 1 (.98) and in layer 2 (.78). */
static void with_scales_a_far_turn_outweighs_a_little_more_use(void **state)
{
	struct test_pager *f = *state;
	set_policy(f, "scales");
	test_use(f, f->source, 1, 0, 1);
	test_use(f, f->source, 2, 0, 1);
	test_use(f, f->source, 0, 0, 2);
	test_use(f, f->source, 0, 1, 1);
	assert_true(test_resident(f->source, 1, 0));
	assert_true(test_resident(f->source, 2, 0));
	assert_false(test_resident(f->source, 0, 0));
}

/* Eight uses by lfu, against one to four of each of another model's experts: these win when 48
 * passes through that model have made an eighth of the eight. */
static void an_idle_model_gives_way(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *other;
	assert_int_equal(test_pager_add(f, f->pager, &other, 5000, test_arrange, NULL), 0);
	set_policy(f, "lfu");
	use(f, 0, 0, 8);
	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t k = 0; k < EXPERTS * LAYERS; k++)
			test_use(f, other, k % LAYERS, k / LAYERS, 1);
		if (round == 0)
			assert_true(test_resident(f->source, 0, 0));
	}
	assert_false(test_resident(f->source, 0, 0));
	pager_remove(other);
}

/* Thirty-six experts by turns through twenty slots. */
static void a_pass_over_more_than_fits_has_hits_by_all_but_lru(void **state)
{
	struct test_pager *f = *state;
	static const uint32_t all[EXPERTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
	for (int i = 0; i < POLICIES; i++) {
		struct pager_stats before, after;
		set_policy(f, names[i]);
		pager_stats(f->pager, &before);
		for (uint32_t k = 0; k < 10 * LAYERS; k++)
			assert_int_equal(test_batch(f, k % LAYERS, all, EXPERTS), EXPERTS);
		pager_stats(f->pager, &after);
		uint64_t hits = after.hits - before.hits;
		if (i == POLICIES - 1)
			assert_in_range(hits, 0, 20); /* what lfu left */
		else
			assert_true(hits > (uint64_t)EXPERTS * LAYERS); /* of ten times as many */
	}
}

/* ---- choosing one ---- */

static void the_policy_is_printed_as_it_was_set(void **state)
{
	struct test_pager *f = *state;
	static const char *const texts[] = {"scales", "lrfu no-shield", "lfu no-prefetch",
					    "lru no-shield no-prefetch", "scales"};
	char words[PAGER_POLICY_TEXT];
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		set_policy(f, texts[i]);
		pager_policy(f->pager, words);
		assert_string_equal(words, texts[i]);
	}
	set_policy(f, "  lru\n");
	pager_policy(f->pager, words);
	assert_string_equal(words, "lru");
}

static void an_unknown_policy_is_refused_and_changes_nothing(void **state)
{
	struct test_pager *f = *state;
	static const char *const wrong[][2] = {
		{"", "name one of scales"},   {"\n", "name one of scales"},
		{"mru", "\"mru\""},	      {"lru lfu", "\"lfu\""},
		{"lru shield", "\"shield\""}, {"no-shield", "name one of scales"},
		{"LRU", "\"LRU\""},
	};
	char words[PAGER_POLICY_TEXT], longer[100];
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(pager_set_policy(f->pager, wrong[i][0], &f->e), -EINVAL);
		if (!strstr(f->e.text, wrong[i][1]))
			fail_msg("\"%s\" does not say %s", f->e.text, wrong[i][1]);
	}
	memset(longer, ' ', sizeof longer);
	longer[sizeof longer - 1] = 0;
	assert_int_equal(pager_set_policy(f->pager, longer, &f->e), -EINVAL);
	pager_policy(f->pager, words);
	assert_string_equal(words, "lru");
}

static void another_policy_forgets_the_uses_and_the_same_one_does_not(void **state)
{
	struct test_pager *f = *state;
	set_policy(f, "lfu");
	use(f, 0, 0, 5);
	for (uint32_t x = 1; x < 4; x++)
		use(f, 0, x, 1);
	set_policy(f, "lfu no-shield");
	use(f, 0, 4, 1);
	assert_true(test_resident(f->source, 0, 0));
	assert_false(test_resident(f->source, 0, 1));
	set_policy(f, "lrfu");
	for (uint32_t x = 2; x < 5; x++)
		use(f, 0, x, 1);
	use(f, 0, 5, 1);
	assert_false(test_resident(f->source, 0, 0));
}

static void *run_batches(void *ctx)
{
	struct test_pager *f = ctx;
	uint32_t experts[6], wrong = 0;
	for (uint32_t round = 0; round < 200; round++) {
		for (uint32_t i = 0; i < 6; i++)
			experts[i] = (round + i * 5) % EXPERTS; /* 5 and 12: distinct */
		wrong +=
			test_batch_most(f->source, &f->t, round % LAYERS, experts, 6, 4, NULL) != 6;
	}
	return wrong ? f : NULL;
}

static void the_policy_may_change_while_batches_run(void **state)
{
	struct test_pager *f = *state;
	pthread_t thread[2];
	char words[PAGER_POLICY_TEXT];
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run_batches, f), 0);
	for (int i = 0; i < 200; i++) {
		set_policy(f, names[i % POLICIES]);
		pager_policy(f->pager, words);
		assert_string_equal(words, names[i % POLICIES]);
	}
	for (int i = 0; i < 2; i++) {
		void *wrong;
		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest table[] = {
		cmocka_unit_test(scales_adds_up_three_exponentials),
		cmocka_unit_test(lrfu_halves_in_eight_visits_and_counts_each_use_as_one),
		cmocka_unit_test(
			lfu_forgets_just_enough_to_rank_equals_and_lru_knows_the_last_use_alone),
		cmocka_unit_test(a_far_turn_and_idle_passes_discount_where_the_policy_says_so),
		cmocka_unit_test(heat_is_the_slowest_count_and_lru_has_none),
	};
	const struct CMUnitTest scenes[] = {
		TEST(an_often_used_expert_outlives_one_that_was_used_once, four_slots),
		TEST(only_lfu_keeps_an_expert_used_often_long_ago, two_slots),
		TEST(scales_gives_uses_in_a_prompt_the_credit_they_have_and_lrfu_does_not,
		     two_slots),
		TEST(a_tie_is_lost_by_the_layer_whose_turn_is_farthest, three_slots),
		TEST(with_scales_a_far_turn_outweighs_a_little_more_use, three_slots),
		TEST(an_idle_model_gives_way, two_slots),
		TEST(a_pass_over_more_than_fits_has_hits_by_all_but_lru, twenty_slots),
		TEST(the_policy_is_printed_as_it_was_set, two_slots),
		TEST(an_unknown_policy_is_refused_and_changes_nothing, two_slots),
		TEST(another_policy_forgets_the_uses_and_the_same_one_does_not, four_slots),
		TEST(the_policy_may_change_while_batches_run, four_slots),
	};
	int failed = cmocka_run_group_tests(table, NULL, NULL);
	io = PAGER_IO_URING;
	failed += cmocka_run_group_tests_name("policies by io_uring", scenes, NULL, NULL);
	io = PAGER_IO_PREAD;
	return failed + cmocka_run_group_tests_name("policies by pread", scenes, NULL, NULL);
}
