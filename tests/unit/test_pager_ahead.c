/* Reads before they are requested: predictions and warm starts; by io_uring and by pread. */
#include "pager_help.h"

#include "cache/pager_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static enum pager_io io;

enum { EXPERTS = 12, LAYERS = 3, ALL = EXPERTS * LAYERS };

static const uint32_t all[EXPERTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

/* While it is shut, gated_arrange waits. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool shut;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

static void set_gate(bool shut)
{
	pthread_mutex_lock(&gate.lock);
	gate.shut = shut;
	pthread_cond_broadcast(&gate.opened);
	pthread_mutex_unlock(&gate.lock);
}

static void gated_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	pthread_mutex_lock(&gate.lock);
	while (gate.shut)
		pthread_cond_wait(&gate.opened, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	test_arrange(ctx, layer, slot, record);
}

static int teardown(void **state)
{
	set_gate(false);
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

static int one_slot(void **state)
{
	return setup_slots(state, 1);
}

static int four_slots(void **state)
{
	return setup_slots(state, 4);
}

static int many_slots(void **state)
{
	return setup_slots(state, ALL);
}

static struct pager_stats stats_of(const struct test_pager *f)
{
	struct pager_stats s;
	pager_stats(f->pager, &s);
	return s;
}

static struct pager_source *add(struct test_pager *f, pager_arrange_fn *arrange)
{
	struct pager_source *s;
	if (test_pager_add(f, f->pager, &s, 5000, arrange, NULL))
		fail_msg("%s", f->e.text);
	return s;
}

/* Waits for a thread of the pager. */
static void await(bool (*done)(const struct test_pager *f), const struct test_pager *f)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (!done(f))
		nanosleep(&moment, NULL);
}

static bool nothing_predicted(const struct test_pager *f)
{
	pthread_mutex_lock(&f->pager->lock);
	bool none = f->pager->prefetches.first == NULL;
	pthread_mutex_unlock(&f->pager->lock);
	return none;
}

static bool somebody_in_line(const struct test_pager *f)
{
	pthread_mutex_lock(&f->pager->lock);
	bool waits = f->pager->first_in_line != NULL;
	pthread_mutex_unlock(&f->pager->lock);
	return waits;
}

/* Waits until all predicted experts were read or failed. */
static void settle(const struct test_pager *f)
{
	await(nothing_predicted, f);
	test_pager_settle(f);
}

/* ---- predictions ---- */

static void what_is_predicted_is_read_unasked_and_then_hit(void **state)
{
	struct test_pager *f = *state;
	static const uint32_t predicted[] = {5, 6, 9};
	pager_predict(f->source, 1, predicted, NULL, 3);
	settle(f);
	for (int i = 0; i < 3; i++)
		assert_true(test_resident(f->source, 1, predicted[i]));
	struct pager_stats s = stats_of(f), own;
	assert_int_equal(s.prefetched, 3);
	assert_int_equal(s.hits + s.misses + s.prefetch_hits, 0);
	assert_int_equal(test_batch(f, 1, (const uint32_t[]){4, 5, 6}, 3), 3);
	s = stats_of(f);
	assert_int_equal(s.hits, 2);
	assert_int_equal(s.misses, 1);
	assert_int_equal(s.prefetch_hits, 2);
	pager_source_stats(f->source, &own);
	assert_memory_equal(&own, &s, sizeof s);
	assert_int_equal(test_batch(f, 1, (const uint32_t[]){5, 6}, 2), 2);
	assert_int_equal(stats_of(f).prefetch_hits, 2); /* once each */
}

/* By LRU expert 0 would go first. */
static void a_shielded_expert_goes_last(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *other = add(f, test_arrange);
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	pager_predict(f->source, 0, all, NULL, 1);
	for (uint32_t i = 0; i < 3; i++) {
		test_use(f, other, 0, i, 1);
		assert_true(test_resident(f->source, 0, 0));
		assert_false(test_resident(f->source, 0, i + 1));
	}
	assert_int_equal(test_batch_most(other, &f->t, 0, all, 4, 4, &f->e), 4);
	assert_false(test_resident(f->source, 0, 0));
	pager_remove(other);
}

static void a_prediction_shields_until_a_batch_of_its_model_begins(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *other = add(f, test_arrange);
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	pager_predict(f->source, 0, all, NULL, 1);
	assert_int_equal(test_batch(f, 2, NULL, 0), 0);
	test_use(f, other, 0, 0, 1);
	assert_false(test_resident(f->source, 0, 0));
	pager_remove(other);
}

static void a_prediction_takes_no_slot_that_is_held_or_wanted(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready;
	assert_int_equal(test_batch(f, 0, all, 1), 1);
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	pager_predict(f->source, 1, all, NULL, EXPERTS);
	settle(f);
	assert_true(test_resident(f->source, 0, 0)); /* wanted */
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	pager_predict(f->source, 1, all, NULL, EXPERTS);
	settle(f);
	assert_true(test_slot_right(&f->t, 0, 0, ready.data)); /* held */
	assert_int_equal(stats_of(f).prefetched, 0);
	pager_put(&b, &ready);
	pager_end(&b);
	pager_predict(f->source, 1, all, NULL, 1);
	settle(f);
	assert_true(test_resident(f->source, 1, 0)); /* free to go */
}

static void a_prediction_does_not_evict_what_is_predicted_with_it(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	pager_predict(f->source, 0, all, NULL, 6); /* 4 are there and shielded, 2 find no room */
	settle(f);
	assert_int_equal(stats_of(f).prefetched, 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(test_resident(f->source, 0, i));
}

struct waiter { /* a batch of layer 0 in a thread of its own */
	struct test_pager *f;
	struct pager_source *source;
	uint32_t count;
	int got;
	pthread_t thread;
};

static void *run_waiter(void *ctx)
{
	struct waiter *w = ctx;
	w->got = test_batch_most(w->source, &w->f->t, 0, all, w->count, EXPERTS, NULL);
	return NULL;
}

/* The only slot is held by b, and w waits for it. */
static void begin_waiting(struct test_pager *f, struct pager_batch *b, struct pager_ready *held,
			  struct waiter *w)
{
	static const uint32_t expert = 11;
	assert_int_equal(pager_begin(b, f->source, 2, &expert, NULL, 1, 1, &f->e), 0);
	assert_int_equal(pager_next(b, held, 1, &f->e), 1);
	assert_int_equal(pthread_create(&w->thread, NULL, run_waiter, w), 0);
	await(somebody_in_line, f);
}

static void stop_waiting(struct pager_batch *b, struct pager_ready *held, struct waiter *w)
{
	pager_put(b, held);
	pthread_join(w->thread, NULL);
	assert_int_equal(w->got, w->count);
	pager_end(b);
}

static bool layer_1_is_there(const struct test_pager *f)
{
	return test_resident(f->source, 1, 7);
}

static void a_prediction_waits_behind_batches_that_need_room_and_then_runs(void **state)
{
	struct test_pager *f = *state;
	struct waiter w = {.f = f, .source = add(f, test_arrange), .count = 1};
	struct pager_batch b;
	struct pager_ready held;
	begin_waiting(f, &b, &held, &w);
	pager_predict(f->source, 1, (const uint32_t[]){7}, NULL, 1);
	assert_false(nothing_predicted(f));
	assert_int_equal(pager_set_budget(f->pager, 3 * SLOT, &f->e), 0);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.got, 1);
	await(layer_1_is_there, f);
	assert_true(test_resident(w.source, 0, 0));
	pager_put(&b, &held);
	pager_end(&b);
	pager_remove(w.source);
}

/* The queue in order, as layer * 100 + expert. */
static uint32_t queue_of(const struct test_pager *f, uint32_t *out, uint32_t most)
{
	uint32_t n = 0;
	pthread_mutex_lock(&f->pager->lock);
	for (const struct pager_entry *x = f->pager->prefetches.first; x && n < most; x = x->next) {
		uint32_t i = (uint32_t)(x - x->source->entries);
		out[n++] = i / EXPERTS * 100 + i % EXPERTS;
	}
	pthread_mutex_unlock(&f->pager->lock);
	return n;
}

static void two_layers_are_predicted_in_the_order_of_their_turns(void **state)
{
	struct test_pager *f = *state;
	struct waiter w = {.f = f, .source = add(f, test_arrange), .count = 1};
	struct pager_batch b;
	struct pager_ready held;
	uint32_t queue[8];
	begin_waiting(f, &b, &held, &w);
	pager_predict(f->source, 1, (const uint32_t[]){7, 5}, NULL, 2);
	pager_predict(f->source, 2, (const uint32_t[]){6, 3}, NULL, 2);
	assert_int_equal(queue_of(f, queue, 8), 4);
	assert_memory_equal(queue, ((uint32_t[]){107, 105, 206, 203}), sizeof(uint32_t[4]));
	pager_predict(f->source, 2, (const uint32_t[]){4}, NULL, 1); /* told again */
	assert_int_equal(queue_of(f, queue, 8), 3);
	assert_memory_equal(queue, ((uint32_t[]){107, 105, 204}), sizeof(uint32_t[3]));
	pager_predict(f->source, 1, all, NULL, EXPERTS); /* one whole layer, and one expert more */
	assert_int_equal(queue_of(f, queue, 8), 8);
	stop_waiting(&b, &held, &w);
	settle(f);
	pager_remove(w.source);
}

static void a_prediction_that_was_not_read_is_forgotten_when_a_batch_begins(void **state)
{
	struct test_pager *f = *state;
	struct waiter w = {.f = f, .source = add(f, test_arrange), .count = 1};
	struct pager_batch b, later;
	struct pager_ready held;
	begin_waiting(f, &b, &held, &w);
	pager_predict(f->source, 1, all, NULL, EXPERTS);
	assert_false(nothing_predicted(f));
	assert_int_equal(pager_begin(&later, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	assert_true(nothing_predicted(f));
	pager_end(&later);
	stop_waiting(&b, &held, &w);
	test_pager_settle(f);
	assert_int_equal(stats_of(f).prefetched, 0);
	pager_remove(w.source);
}

static bool layer_0_is_there(const struct test_pager *f)
{
	return test_resident(f->source, 0, 0) && test_resident(f->source, 0, 1) &&
	       test_resident(f->source, 0, 2);
}

/* The batch waits when its experts are predicted, too; they are asked for once. */
static void a_prediction_that_a_waiting_batch_takes_up_leaves_the_others_in_order(void **state)
{
	struct test_pager *f = *state;
	struct waiter w = {.f = f, .source = f->source, .count = 3};
	struct pager_batch b;
	struct pager_ready held;
	begin_waiting(f, &b, &held, &w);
	pager_predict(f->source, 0, all, NULL, 3);
	stop_waiting(&b, &held, &w);
	settle(f);
	assert_int_equal(pager_set_budget(f->pager, ALL * SLOT, &f->e), 0);
	pager_predict(f->source, 0, all, NULL, 3);
	await(layer_0_is_there, f);
}

static void a_model_may_be_removed_with_predictions_under_way(void **state)
{
	struct test_pager *f = *state;
	for (int i = 0; i < 50; i++) {
		struct pager_source *other = add(f, test_arrange);
		pager_predict(other, (uint32_t)i % LAYERS, all, NULL, EXPERTS);
		pager_remove(other);
	}
	assert_int_equal(stats_of(f).used, 0);
}

static void words_of_the_policy_switch_off_what_predictions_do(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *other = add(f, test_arrange);
	assert_true(pager_predicts(f->source));
	assert_int_equal(pager_set_policy(f->pager, "lru no-prefetch", &f->e), 0);
	assert_true(pager_predicts(f->source));
	pager_predict(f->source, 1, all, NULL, EXPERTS);
	assert_true(nothing_predicted(f));

	assert_int_equal(pager_set_policy(f->pager, "lru no-shield", &f->e), 0);
	assert_true(pager_predicts(f->source));
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	pager_predict(f->source, 0, all, NULL, 1);
	test_use(f, other, 0, 0, 1);
	assert_false(test_resident(f->source, 0, 0));

	assert_int_equal(pager_set_policy(f->pager, "lru no-shield no-prefetch", &f->e), 0);
	assert_false(pager_predicts(f->source));
	pager_remove(other);
}

static void with_all_in_memory_there_is_nothing_to_predict(void **state)
{
	struct test_pager *f = *state;
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		assert_true(pager_predicts(f->source));
		assert_int_equal(test_batch(f, layer, all, EXPERTS), EXPERTS);
	}
	assert_false(pager_predicts(f->source));
}

static void predictions_of_missing_experts_are_ignored(void **state)
{
	struct test_pager *f = *state;
	static const uint32_t wrong[] = {EXPERTS, 0}, twice[] = {3, 3};
	pager_predict(f->source, LAYERS, all, NULL, 1);
	pager_predict(f->source, 0, all, NULL, EXPERTS + 1);
	pager_predict(f->source, 0, wrong, NULL, 1);
	pager_predict(f->source, 0, NULL, NULL, 0);
	settle(f);
	assert_int_equal(stats_of(f).prefetched, 0);
	pager_predict(f->source, 0, twice, NULL, 2);
	settle(f);
	assert_int_equal(stats_of(f).prefetched, 1);
}

/* As an engine does: the next layer is predicted while this one is computed, half of it wrongly. */
static void *run_model(void *ctx)
{
	struct waiter *w = ctx;
	for (uint32_t step = 0; step < 150; step++) {
		uint32_t layer = step % LAYERS, experts[4], predicted[4];
		struct pager_batch b;
		struct pager_ready ready[4];
		int got;
		for (uint32_t i = 0; i < 4; i++) {
			experts[i] = (step + i * 5) % EXPERTS;
			predicted[i] = (step + 1 + i * (i < 2 ? 5 : 7)) % EXPERTS;
		}
		if (pager_begin(&b, w->source, layer, experts, NULL, 4, step, NULL))
			return NULL;
		pager_predict(w->source, (layer + 1) % LAYERS, predicted, NULL, 4);
		while ((got = pager_next(&b, ready, 4, NULL)) > 0)
			for (int i = 0; i < got; i++) {
				w->got += test_slot_right(&w->f->t, layer, experts[ready[i].index],
							  ready[i].data);
				pager_put(&b, &ready[i]);
			}
		pager_end(&b);
	}
	return NULL;
}

static void models_that_predict_share_a_small_pool_while_its_budget_changes(void **state)
{
	struct test_pager *f = *state;
	struct waiter w[3];
	for (int i = 0; i < 3; i++) {
		w[i] = (struct waiter){.f = f, .source = i ? add(f, test_arrange) : f->source};
		assert_int_equal(pthread_create(&w[i].thread, NULL, run_model, &w[i]), 0);
	}
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(pager_set_budget(f->pager, (1 + i % 4) * SLOT, &f->e), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(w[i].thread, NULL);
		assert_int_equal(w[i].got, 150 * 4);
	}
	assert_true(stats_of(f).peak <= 4 * SLOT);
	pager_remove(w[1].source);
	pager_remove(w[2].source);
}

/* ---- warm starts ---- */

static void remount(struct test_pager *f, pager_arrange_fn *arrange)
{
	pager_remove(f->source);
	f->source = add(f, arrange);
}

static void heat_path(const struct test_pager *f, char path[128])
{
	(void)snprintf(path, 128, "%s/heat", f->t.folder);
}

static bool not_warming(const struct test_pager *f)
{
	uint32_t done, total;
	pager_warming(f->source, &done, &total);
	return total == 0;
}

/* Uses that make (0, 3), (1, 2), (2, 7) and (0, 1) hot, in this order; then saves the heat. */
static void keep_some_heat(struct test_pager *f)
{
	assert_int_equal(pager_set_policy(f->pager, "scales", &f->e), 0);
	for (int i = 0; i < 6; i++)
		test_use(f, f->source, 0, 3, 1);
	for (int i = 0; i < 4; i++)
		test_use(f, f->source, 1, 2, 1);
	for (int i = 0; i < 3; i++)
		test_use(f, f->source, 2, 7, 1);
	test_use(f, f->source, 0, 1, 1);
	if (pager_keep_heat(f->source, &f->e))
		fail_msg("%s", f->e.text);
}

static void warm(struct test_pager *f)
{
	if (pager_warm(f->source, &f->e))
		fail_msg("%s", f->e.text);
	await(not_warming, f);
	test_pager_settle(f);
}

static void a_remount_begins_with_the_hottest(void **state)
{
	struct test_pager *f = *state;
	keep_some_heat(f);
	remount(f, test_arrange);
	assert_int_equal(pager_set_budget(f->pager, 3 * SLOT, &f->e), 0);
	warm(f);
	assert_true(test_resident(f->source, 0, 3));
	assert_true(test_resident(f->source, 1, 2));
	assert_true(test_resident(f->source, 2, 7));
	struct pager_stats s = stats_of(f);
	assert_int_equal(s.experts_resident, 3);
	assert_int_equal(s.prefetched + s.evictions, 0);
	test_use(f, f->source, 0, 3, 1);
	struct pager_expert x;
	pager_inspect(f->source, 0, 3, &x);
	assert_int_equal(x.hits, 1);
}

static void what_was_never_used_is_not_warmed(void **state)
{
	struct test_pager *f = *state;
	keep_some_heat(f);
	remount(f, test_arrange);
	warm(f);
	assert_int_equal(stats_of(f).experts_resident, 4);
}

static void heat_that_was_kept_outlives_a_mount_that_used_nothing(void **state)
{
	struct test_pager *f = *state;
	keep_some_heat(f);
	for (int i = 0; i < 2; i++) {
		remount(f, test_arrange);
		warm(f);
		assert_int_equal(pager_keep_heat(f->source, &f->e), 0);
	}
	remount(f, test_arrange);
	assert_int_equal(pager_set_budget(f->pager, SLOT, &f->e), 0);
	warm(f);
	assert_true(test_resident(f->source, 0, 3));
}

static void warming_takes_free_room_alone(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *other = add(f, test_arrange);
	keep_some_heat(f);
	remount(f, test_arrange);
	assert_int_equal(pager_set_budget(f->pager, 3 * SLOT, &f->e), 0);
	assert_int_equal(test_batch_most(other, &f->t, 0, all, 2, 2, &f->e), 2);
	uint64_t evictions = stats_of(f).evictions;
	warm(f);
	assert_true(test_resident(other, 0, 0));
	assert_true(test_resident(other, 0, 1));
	assert_true(test_resident(f->source, 0, 3));
	assert_int_equal(stats_of(f).evictions, evictions);
	pager_remove(other);
}

static bool some_warmed(const struct test_pager *f)
{
	uint32_t done, total;
	pager_warming(f->source, &done, &total);
	return done > 0;
}

/* All experts are hot, and a warm start reads some of them, which wait at the gate. */
static void warm_behind_gate(struct test_pager *f)
{
	assert_int_equal(pager_set_policy(f->pager, "lfu", &f->e), 0);
	for (uint32_t i = 0; i < ALL; i++)
		test_use(f, f->source, i / EXPERTS, i % EXPERTS, 1);
	assert_int_equal(pager_keep_heat(f->source, &f->e), 0);
	remount(f, gated_arrange);
	set_gate(true);
	assert_int_equal(pager_warm(f->source, &f->e), 0);
}

static void warming_is_reported_and_ends_when_a_batch_begins(void **state)
{
	struct test_pager *f = *state;
	uint32_t done, total;
	warm_behind_gate(f);
	await(some_warmed, f);
	pager_warming(f->source, &done, &total); /* threads and places are fewer than experts */
	assert_int_equal(total, ALL);
	assert_in_range(done, 1, ALL - 1);

	struct pager_batch b;
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	assert_true(not_warming(f));
	set_gate(false);
	pager_end(&b);
	assert_in_range(test_pager_settle(f).experts_resident, 1, ALL - 1);
	assert_int_equal(test_batch(f, 2, all, EXPERTS), EXPERTS);
}

/* What goes elsewhere is not read; here all of it. */
static void a_warm_start_leaves_out_what_goes_elsewhere(void **state)
{
	struct test_pager *f = *state;
	uint32_t done, total;
	warm_behind_gate(f);
	pager_warm_without(f->source, ALL + 1);
	pthread_mutex_lock(&f->pager->lock); /* a thread that finds nothing left resets both */
	pager_warming(f->source, &done, &total);
	pthread_mutex_unlock(&f->pager->lock);
	assert_int_equal(done, total);
	set_gate(false);
	await(not_warming, f);
	assert_in_range(test_pager_settle(f).experts_resident, 0, ALL - 1);
}

/* As if a batch had used them. */
static void uses_elsewhere_make_experts_hot(void **state)
{
	struct test_pager *f = *state;
	float batches[ALL], elsewhere[ALL];
	struct pager_batch b;
	assert_int_equal(pager_set_policy(f->pager, "scales", &f->e), 0);
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	assert_int_equal(test_batch(f, 1, all, 5), 5);
	assert_int_equal(test_batch(f, 0, all + 2, 4), 4);
	pager_heat(f->source, batches);
	remount(f, test_arrange);
	pager_use_elsewhere(f->source, 0, all, NULL, 4, false);
	assert_int_equal(pager_begin(&b, f->source, 1, all, NULL, 2, 1, &f->e), 0);
	pager_use_elsewhere(f->source, 1, all + 2, NULL, 3, true);
	pager_end(&b);
	pager_use_elsewhere(f->source, 0, all + 2, NULL, 4, false);
	pager_heat(f->source, elsewhere);
	assert_memory_equal(elsewhere, batches, sizeof batches);
	assert_true(batches[2] > batches[0] && batches[EXPERTS] > 0);
}

static void a_model_may_be_removed_while_it_warms(void **state)
{
	struct test_pager *f = *state;
	keep_some_heat(f);
	for (int i = 0; i < 30; i++) {
		remount(f, test_arrange);
		assert_int_equal(pager_warm(f->source, &f->e), 0);
	}
}

static void assert_cold(struct test_pager *f, int code)
{
	assert_int_equal(pager_warm(f->source, &f->e), -code);
	assert_non_null(strstr(f->e.text, "heat"));
	assert_true(not_warming(f));
	assert_int_equal(stats_of(f).experts_resident, 0);
}

static void without_heat_or_under_another_policy_a_start_is_cold(void **state)
{
	struct test_pager *f = *state;
	assert_cold(f, ENOENT);
	keep_some_heat(f);
	remount(f, test_arrange);
	assert_int_equal(pager_set_policy(f->pager, "lfu", &f->e), 0);
	assert_cold(f, ENOENT);
	assert_int_equal(pager_set_policy(f->pager, "scales", &f->e), 0);
	warm(f);
	assert_int_equal(stats_of(f).experts_resident, 4);
}

static void lru_keeps_nothing_and_says_nothing(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(test_batch(f, 0, all, 4), 4);
	assert_int_equal(pager_keep_heat(f->source, &f->e), 0);
	remount(f, test_arrange);
	assert_int_equal(pager_warm(f->source, &f->e), 0);
	assert_true(not_warming(f));
	assert_int_equal(stats_of(f).used, 0);
}

enum { HEAD = 40, HEAT_BYTES = HEAD + ALL * 4 };

/* Every byte changed once: of the name, the policy and the shape, of the sum, and of the numbers.
 */
static void a_damaged_heat_file_is_a_cold_start(void **state)
{
	struct test_pager *f = *state;
	char path[128];
	uint8_t byte = 0;
	keep_some_heat(f);
	remount(f, test_arrange);
	heat_path(f, path);
	int fd = open(path, O_RDWR);
	for (off_t at = 0; at < HEAT_BYTES; at++) {
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		assert_cold(f, at < HEAD - 8 ? ENOENT : EIO);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
	warm(f); /* it is whole again */
	assert_int_equal(stats_of(f).experts_resident, 4);
}

static void
a_heat_file_cut_short_is_a_cold_start_and_one_too_long_is_read_as_far_as_it_counts(void **state)
{
	struct test_pager *f = *state;
	static const off_t sizes[] = {0, 1, HEAD - 1, HEAD, HEAT_BYTES - 1};
	char path[128];
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		keep_some_heat(f);
		remount(f, test_arrange);
		heat_path(f, path);
		assert_int_equal(truncate(path, sizes[i]), 0);
		assert_cold(f, EIO);
	}
	keep_some_heat(f);
	remount(f, test_arrange);
	assert_int_equal(truncate(path, (off_t)1 << 40), 0);
	warm(f);
	assert_int_equal(stats_of(f).experts_resident, 4);
}

static void what_is_not_our_own_plain_file_is_not_read_as_heat(void **state)
{
	struct test_pager *f = *state;
	char path[128], other[128];
	keep_some_heat(f);
	remount(f, test_arrange);
	heat_path(f, path);
	(void)snprintf(other, sizeof other, "%s/elsewhere", f->parent);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_cold(f, ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_cold(f, EINVAL);
	keep_some_heat(f); /* replaces it */
	remount(f, test_arrange);
	warm(f);
	assert_int_equal(stats_of(f).experts_resident, 4);
}

/* A well-formed file with impossible numbers. */
static void heat_that_is_no_number_does_no_harm(void **state)
{
	struct test_pager *f = *state;
	static const float odd[] = {NAN, INFINITY, -INFINITY, -1, 3.4e38F, 1e-45F};
	uint8_t file[HEAT_BYTES];
	char path[128];
	keep_some_heat(f);
	remount(f, test_arrange);
	heat_path(f, path);
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, file, sizeof file, 0), sizeof file);
	for (int i = 0; i < ALL; i++)
		memcpy(file + HEAD + (size_t)i * 4, &odd[i % 6], 4);
	uint64_t sum = XXH3_64bits(file + HEAD, sizeof file - HEAD);
	memcpy(file + HEAD - 8, &sum, 8);
	assert_int_equal(pwrite(fd, file, sizeof file, 0), sizeof file);
	close(fd);
	assert_int_equal(pager_set_budget(f->pager, 5 * SLOT, &f->e), 0);
	warm(f);
	assert_int_equal(stats_of(f).experts_resident, 5);
	for (uint32_t i = 0; i < 4 * LAYERS; i++)
		assert_int_equal(test_batch(f, i % LAYERS, all, EXPERTS), EXPERTS);
}

static void heat_that_cannot_be_saved_is_reported_and_the_old_stays(void **state)
{
	struct test_pager *f = *state;
	char path[128];
	keep_some_heat(f);
	(void)snprintf(path, sizeof path, "%s/heat.partial", f->t.folder);
	assert_int_equal(mkdir(path, 0700), 0);
	test_use(f, f->source, 1, 1, 1);
	assert_int_equal(pager_keep_heat(f->source, &f->e), -EISDIR);
	assert_non_null(strstr(f->e.text, "heat.partial"));
	remount(f, test_arrange);
	warm(f);
	assert_int_equal(stats_of(f).experts_resident, 4);
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_predicted_is_read_unasked_and_then_hit, many_slots),
		TEST(a_shielded_expert_goes_last, four_slots),
		TEST(a_prediction_shields_until_a_batch_of_its_model_begins, four_slots),
		TEST(a_prediction_takes_no_slot_that_is_held_or_wanted, one_slot),
		TEST(a_prediction_does_not_evict_what_is_predicted_with_it, four_slots),
		TEST(a_prediction_waits_behind_batches_that_need_room_and_then_runs, one_slot),
		TEST(two_layers_are_predicted_in_the_order_of_their_turns, one_slot),
		TEST(a_prediction_that_was_not_read_is_forgotten_when_a_batch_begins, one_slot),
		TEST(a_prediction_that_a_waiting_batch_takes_up_leaves_the_others_in_order,
		     one_slot),
		TEST(a_model_may_be_removed_with_predictions_under_way, four_slots),
		TEST(words_of_the_policy_switch_off_what_predictions_do, four_slots),
		TEST(with_all_in_memory_there_is_nothing_to_predict, many_slots),
		TEST(predictions_of_missing_experts_are_ignored, many_slots),
		TEST(models_that_predict_share_a_small_pool_while_its_budget_changes, four_slots),
		TEST(a_remount_begins_with_the_hottest, many_slots),
		TEST(what_was_never_used_is_not_warmed, many_slots),
		TEST(heat_that_was_kept_outlives_a_mount_that_used_nothing, many_slots),
		TEST(warming_takes_free_room_alone, many_slots),
		TEST(warming_is_reported_and_ends_when_a_batch_begins, many_slots),
		TEST(a_warm_start_leaves_out_what_goes_elsewhere, many_slots),
		TEST(uses_elsewhere_make_experts_hot, many_slots),
		TEST(a_model_may_be_removed_while_it_warms, many_slots),
		TEST(without_heat_or_under_another_policy_a_start_is_cold, many_slots),
		TEST(lru_keeps_nothing_and_says_nothing, many_slots),
		TEST(a_damaged_heat_file_is_a_cold_start, many_slots),
		TEST(a_heat_file_cut_short_is_a_cold_start_and_one_too_long_is_read_as_far_as_it_counts,
		     many_slots),
		TEST(what_is_not_our_own_plain_file_is_not_read_as_heat, many_slots),
		TEST(heat_that_is_no_number_does_no_harm, many_slots),
		TEST(heat_that_cannot_be_saved_is_reported_and_the_old_stays, many_slots),
	};
	io = PAGER_IO_URING;
	int failed = cmocka_run_group_tests_name("ahead by io_uring", tests, NULL, NULL);
	io = PAGER_IO_PREAD;
	return failed + cmocka_run_group_tests_name("ahead by pread", tests, NULL, NULL);
}
