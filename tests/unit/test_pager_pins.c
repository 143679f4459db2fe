/* Users' pins, loads and evictions of experts, each by io_uring and by pread. Pinned experts stay
 * as long as possible; requests that do not fit are refused as a whole. */
#include "cache/pager_inside.h"
#include "pager_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 3, EXPERTS = 12 };

static enum pager_io io; /* which of the two this round of tests uses */

static const uint32_t all[EXPERTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static int setup(void **state, uint32_t slots)
{
	struct test_pager *f = malloc(sizeof *f);
	test_pager_open(f, EXPERTS, slots, io);
	*state = f;
	return 0;
}

static int four_slots(void **state)
{
	return setup(state, 4);
}

static int many_slots(void **state)
{
	return setup(state, LAYERS * EXPERTS);
}

static int teardown(void **state)
{
	test_pager_close(*state);
	free(*state);
	return 0;
}

static void assert_words(const struct test_pager *f, int rc, int code, const char *words)
{
	assert_int_equal(rc, -code);
	if (!strstr(f->e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", f->e.text, words);
}

static struct pager_expert look(const struct pager_source *s, uint32_t layer, uint32_t expert)
{
	struct pager_expert x;
	pager_inspect(s, layer, expert, &x);
	return x;
}

/* Experts first … first + n - 1 of a layer. */
static const struct pager_id *ids(uint32_t layer, uint32_t first, size_t n)
{
	static struct pager_id list[LAYERS * EXPERTS];
	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct pager_id){layer + (first + i) / EXPERTS, (first + i) % EXPERTS};
	return list;
}

static int pin(struct test_pager *f, uint32_t layer, uint32_t first, size_t n)
{
	return pager_pin(f->source, ids(layer, first, n), n, &f->e);
}

static void await(const struct pager_source *s, uint32_t layer, uint32_t expert)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (!look(s, layer, expert).resident)
		nanosleep(&moment, NULL);
}

static void use_all(struct test_pager *f)
{
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		assert_int_equal(test_batch(f, layer, all, EXPERTS), EXPERTS);
}

/* The same pool with a source that reserves a number of slots for a token. */
static void leave_room(struct test_pager *f, uint64_t slots, const bool *pinned)
{
	const struct pager_supply supply = {.store = f->store,
					    .slot_bytes = SLOT,
					    .token_bytes = slots * SLOT,
					    .pinned = pinned,
					    .arrange = test_arrange};
	pager_remove(f->source);
	assert_int_equal(pager_add(f->pager, &f->source, &supply, &f->e), 0);
}

/* ---- pins ---- */

static void what_is_pinned_is_read_and_stays(void **state)
{
	struct test_pager *f = *state;
	assert_false(look(f->source, 1, 5).pinned);
	assert_int_equal(pin(f, 1, 5, 2), 0);
	await(f->source, 1, 5);
	await(f->source, 1, 6);
	assert_true(look(f->source, 1, 5).pinned);
	struct pager_stats s;
	pager_stats(f->pager, &s);
	assert_int_equal(s.pinned, 2 * SLOT);
	assert_int_equal(s.hits + s.misses, 0);
	for (int round = 0; round < 3; round++)
		use_all(f);
	assert_int_equal(look(f->source, 1, 5).misses + look(f->source, 1, 6).misses, 0);
	pager_stats(f->pager, &s);
	assert_true(s.peak <= 4 * SLOT);
}

static void an_unpinned_expert_is_evicted_like_others(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(pin(f, 0, 0, 2), 0);
	await(f->source, 0, 0);
	await(f->source, 0, 1);
	pager_unpin(f->source, ids(0, 0, 1), 1);
	use_all(f);
	assert_false(look(f->source, 0, 0).pinned);
	assert_false(look(f->source, 0, 0).resident);
	assert_true(look(f->source, 0, 1).resident);
}

static void more_than_fits_is_refused_whole(void **state)
{
	struct test_pager *f = *state;
	struct pager_stats s;
	assert_words(f, pin(f, 0, 0, 5), ENOSPC, "unpin some, or raise cache/budget");
	pager_stats(f->pager, &s);
	assert_int_equal(s.pinned, 0);
	assert_false(look(f->source, 0, 0).pinned);
	assert_int_equal(pin(f, 0, 0, 4), 0);
	assert_int_equal(pin(f, 0, 0, 4), 0); /* pinning it again adds nothing */
	assert_words(f, pin(f, 0, 3, 2), ENOSPC, "pinned");
	assert_false(look(f->source, 0, 4).pinned);
}

static void room_for_a_token_is_left(void **state)
{
	struct test_pager *f = *state;
	leave_room(f, 3, NULL);
	assert_words(f, pin(f, 0, 0, 2), ENOSPC, "are reserved");
	assert_int_equal(pin(f, 0, 0, 1), 0);
	assert_int_equal(pager_pins_need(f->pager), 4 * SLOT);
	use_all(f);
	assert_true(look(f->source, 0, 0).resident);
}

static void all_are_pinned_where_all_fit(void **state)
{
	struct test_pager *f = *state;
	leave_room(f, 3, NULL);
	assert_int_equal(pin(f, 0, 0, (size_t)LAYERS * EXPERTS), 0);
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		for (uint32_t i = 0; i < EXPERTS; i++)
			await(f->source, layer, i);
	use_all(f);
	struct pager_stats s;
	pager_stats(f->pager, &s);
	assert_int_equal(s.misses, 0);
	assert_int_equal(s.evictions, 0);
}

static void a_source_may_come_with_pins(void **state)
{
	struct test_pager *f = *state;
	bool pinned[LAYERS * EXPERTS] = {[7] = true, [EXPERTS + 2] = true};
	leave_room(f, 1, pinned);
	await(f->source, 0, 7);
	await(f->source, 1, 2);
	use_all(f);
	assert_true(look(f->source, 0, 7).resident && look(f->source, 1, 2).resident);
}

static void another_policy_keeps_pinned_experts(void **state)
{
	struct test_pager *f = *state;
	static const char *const policies[] = {"scales", "lfu", "lrfu no-shield", "lru"};
	assert_int_equal(pin(f, 2, 0, 1), 0);
	await(f->source, 2, 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(pager_set_policy(f->pager, policies[i], &f->e), 0);
		use_all(f);
		assert_true(look(f->source, 2, 0).resident);
	}
}

/* As with short memory; whoever requests such a budget is refused earlier. */
static void while_the_budget_is_too_low_pins_yield_and_then_come_back(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(pin(f, 0, 0, 3), 0);
	for (uint32_t i = 0; i < 3; i++)
		await(f->source, 0, i);
	assert_int_equal(pager_set_budget(f->pager, SLOT, &f->e), 0);
	struct pager_stats s = test_pager_settle(f);
	assert_int_equal(s.used, SLOT);
	use_all(f); /* though everything left may be pinned */
	assert_true(look(f->source, 0, 0).pinned);
	assert_int_equal(pin(f, 0, 0, 3), 0); /* as they are */
	assert_words(f, pin(f, 0, 0, 4), ENOSPC, "the budget of 8192");
	assert_int_equal(pager_set_budget(f->pager, 5 * SLOT, &f->e), 0);
	for (uint32_t i = 0; i < 3; i++)
		await(f->source, 0, i);
	use_all(f);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(look(f->source, 0, i).resident);
}

/* Regions hold several slots of one size; a region with a pinned expert cannot be given back. */
static void a_model_of_another_size_gets_on_beside_pins_everywhere(void **state)
{
	struct test_pager *f = *state;
	enum { SMALL = 1 << 20, LARGE = 3 << 20, BUDGET = 8 << 20 };
	struct pager *p;
	struct pager_source *small, *large;
	assert_int_equal(pager_create_with(&p, BUDGET, io, &f->e), 0);
	assert_int_equal(test_pager_add(f, p, &small, SMALL, test_arrange, NULL), 0);
	assert_int_equal(test_batch_most(small, &f->t, 0, all, 8, 8, &f->e), 8);
	static const struct pager_id pins[] = {{0, 1}, {0, 3}, {0, 5}, {0, 7}};
	assert_int_equal(pager_pin(small, pins, 4, &f->e), 0);
	assert_int_equal(test_pager_add(f, p, &large, LARGE, test_arrange, NULL), 0);
	for (uint32_t round = 0; round < 5; round++) {
		assert_int_equal(test_batch_most(large, &f->t, 1, all + round, 4, 1, &f->e), 4);
		assert_int_equal(test_batch_most(small, &f->t, 2, all + round, 4, 1, &f->e), 4);
	}
	struct pager_stats s;
	pager_stats(p, &s);
	assert_true(s.peak <= BUDGET);
	pager_remove(large);
	for (size_t i = 0; i < 4; i++)
		await(small, 0, pins[i].expert);
	pager_remove(small);
	pager_destroy(p);
}

/* ---- loading and evicting ---- */

static void what_is_loaded_is_read_and_no_use_is_counted(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	assert_int_equal(pager_load(f->source, ids(1, 3, 2), 2, &f->e), 0);
	await(f->source, 1, 3);
	await(f->source, 1, 4);
	assert_int_equal(look(f->source, 1, 3).hits + look(f->source, 1, 3).misses, 0);
	assert_int_equal(test_batch(f, 2, all, 2), 2); /* for which the least recent go */
	assert_true(look(f->source, 1, 3).resident && look(f->source, 1, 4).resident);
	assert_words(f, pager_load(f->source, ids(0, 0, 5), 5, &f->e), ENOSPC, "do not fit");
}

/* Waits until all that was asked for is being read, or was given up for want of room. */
static void await_nothing_asked(const struct test_pager *f)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	for (uint32_t asked = 1; asked > 0;) {
		pthread_mutex_lock(&f->pager->lock);
		asked = f->pager->asked;
		pthread_mutex_unlock(&f->pager->lock);
		if (asked)
			nanosleep(&moment, NULL);
	}
}

static void what_comes_back_is_read_where_there_is_room(void **state)
{
	struct test_pager *f = *state;
	float before[LAYERS * EXPERTS], after[LAYERS * EXPERTS];
	assert_int_equal(test_batch(f, 0, all, 2), 2);
	pager_heat(f->source, before);
	pager_take_back(f->source, ids(1, 3, 4), 4); /* for two of which there is room */
	await(f->source, 1, 3);
	await(f->source, 1, 4);
	await_nothing_asked(f);
	assert_true(look(f->source, 0, 0).resident && look(f->source, 0, 1).resident);
	pager_heat(f->source, after);
	assert_memory_equal(before, after, sizeof before);
	assert_int_equal(pager_evict(f->source, ids(1, 3, 1), 1, &f->e), 0);
	assert_int_equal(test_batch(f, 2, all, 1), 1); /* the room is for this, not for those that had none */
	assert_true(look(f->source, 2, 0).resident);
	assert_false(look(f->source, 1, 5).resident || look(f->source, 1, 6).resident);
}

static void eviction_spares_experts_in_use_and_pinned_ones(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready;
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	assert_int_equal(pin(f, 0, 3, 1), 0);
	assert_words(f, pager_evict(f->source, ids(0, 0, 4), 4, &f->e), EBUSY, "1 of these");
	assert_true(look(f->source, 0, 0).resident);
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	assert_int_equal(pager_evict(f->source, ids(0, 0, 3), 3, &f->e), 0);
	assert_true(look(f->source, 0, 0).resident);
	assert_true(test_slot_right(&f->t, 0, 0, ready.data));
	assert_false(look(f->source, 0, 1).resident || look(f->source, 0, 2).resident);
	pager_put(&b, &ready);
	pager_end(&b);
	assert_int_equal(pager_evict(f->source, ids(0, 0, 1), 1, &f->e), 0);
	struct pager_stats s;
	pager_stats(f->pager, &s);
	assert_int_equal(s.used, SLOT);
	assert_int_equal(s.evictions, 3);
}

static int make_none(void *ctx, uint32_t layer, uint32_t expert, void *record, void **made,
		     struct err *e)
{
	(void)ctx;
	(void)layer;
	(void)expert;
	(void)record;
	*made = NULL;
	return err_set(e, EIO, "it is in its store");
}

/* The reader looked while the expert was about to be made, and left it to the maker. */
static void
what_came_into_its_store_since_it_was_asked_for_is_read_by_who_would_have_made_it(void **state)
{
	struct test_pager *f = *state;
	struct test_store other;
	struct store_writer *writer;
	struct store *view = NULL;
	struct pager_source *source;
	test_store_init(&other, f->parent, "other");
	if (store_writer_open(&writer, other.folder, &other.plan, &f->e) ||
	    store_writer_view(writer, &view, &f->e))
		fail_msg("%s", f->e.text);
	const struct pager_supply supply = {
		.store = view, .slot_bytes = 5000, .arrange = test_arrange, .make = make_none};
	assert_int_equal(pager_add(f->pager, &source, &supply, &f->e), 0);
	pthread_mutex_lock(&f->pager->lock);
	pins_set(f->pager, &source->entries[0], true);
	assert_int_equal(test_put(&other, writer, 0, &f->e), 0);
	pthread_cond_signal(&f->pager->work);
	pthread_mutex_unlock(&f->pager->lock);
	await(source, 0, 0);
	pager_remove(source);
	store_writer_close(writer, false);
	store_close(view);
}

/* ---- all at once ---- */

struct crew {
	struct test_pager *f;
	_Atomic bool stop;
};

static void *computes(void *arg)
{
	struct crew *c = arg;
	struct err e;
	for (uint32_t round = 0; round < 150; round++)
		if (test_batch_most(c->f->source, &c->f->t, round % LAYERS, all + round % 5, 6, 2,
				    &e) != 6)
			abort();
	return NULL;
}

static void *wishes(void *arg)
{
	struct crew *c = arg;
	struct pager_source *s = c->f->source;
	struct err e;
	for (uint32_t i = 0; !atomic_load(&c->stop); i++) {
		const struct pager_id list[] = {{i % LAYERS, i / 3 % EXPERTS},
						{(i + 1) % LAYERS, i / 5 % EXPERTS}};
		(void)pager_pin(s, list, 2, &e);
		(void)pager_load(s, list, 2, &e);
		(void)pager_evict(s, list, 2, &e);
		if (look(s, list[0].layer, list[0].expert).bytes > SLOT)
			abort();
		(void)pager_set_budget(c->f->pager, (1 + i % 8) * SLOT, &e);
		pager_unpin(s, list, 2);
		(void)pager_evict(s, list + 1, 1, &e);
	}
	return NULL;
}

static void pins_loads_and_evictions_go_on_while_batches_run(void **state)
{
	struct crew c = {.f = *state};
	pthread_t computing[2], wishing;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&computing[i], NULL, computes, &c), 0);
	assert_int_equal(pthread_create(&wishing, NULL, wishes, &c), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(computing[i], NULL);
	atomic_store(&c.stop, true);
	pthread_join(wishing, NULL);
	struct pager_stats s = test_pager_settle(c.f);
	assert_true(s.peak <= 8 * SLOT);
	assert_int_equal(s.pinned, 0);
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_pinned_is_read_and_stays, four_slots),
		TEST(an_unpinned_expert_is_evicted_like_others, four_slots),
		TEST(more_than_fits_is_refused_whole, four_slots),
		TEST(room_for_a_token_is_left, four_slots),
		TEST(all_are_pinned_where_all_fit, many_slots),
		TEST(a_source_may_come_with_pins, four_slots),
		TEST(another_policy_keeps_pinned_experts, four_slots),
		TEST(while_the_budget_is_too_low_pins_yield_and_then_come_back, four_slots),
		TEST(a_model_of_another_size_gets_on_beside_pins_everywhere, four_slots),
		TEST(what_is_loaded_is_read_and_no_use_is_counted, four_slots),
		TEST(what_comes_back_is_read_where_there_is_room, four_slots),
		TEST(eviction_spares_experts_in_use_and_pinned_ones, four_slots),
		TEST(what_came_into_its_store_since_it_was_asked_for_is_read_by_who_would_have_made_it,
		     four_slots),
		TEST(pins_loads_and_evictions_go_on_while_batches_run, four_slots),
	};
	io = PAGER_IO_URING;
	int failed = cmocka_run_group_tests_name("pins by io_uring", tests, NULL, NULL);
	io = PAGER_IO_PREAD;
	return failed + cmocka_run_group_tests_name("pins by pread", tests, NULL, NULL);
}
