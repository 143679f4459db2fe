/* The tuner of the number of reads in flight, on simulated devices: the smallest number that gives
 * the bandwidth is found, kept, and found again when the device changes. */
#include "cache/depth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

enum { RECORD = 1 << 20 };

/* A device that answers a read after latency_ns and delivers one after the other, each in
 * transfer_ns. */
struct device {
	uint64_t latency_ns, transfer_ns;
	uint64_t time_ns;	   /* now */
	uint64_t idle_at;	   /* when the last transfer ends */
	uint64_t ends[DEPTH_MOST]; /* of the reads in flight, in order */
	uint32_t flying;
};

static void begin_read(struct device *d)
{
	uint64_t ready = d->time_ns + d->latency_ns;
	d->idle_at = (ready > d->idle_at ? ready : d->idle_at) + d->transfer_ns;
	d->ends[d->flying++] = d->idle_at;
}

static void end_read(struct device *d)
{
	d->time_ns = d->ends[0];
	d->flying--;
	for (uint32_t i = 0; i < d->flying; i++)
		d->ends[i] = d->ends[i + 1];
}

/* Runs a number of reads with as many in flight as the tuner says, like pager_loader.c. Returns
 * the number of reads at a base other than `expected`. */
static uint32_t keep_busy(struct device *d, struct depth_tuner *t, uint32_t reads,
			  uint32_t expected)
{
	uint32_t others = 0;
	for (uint32_t i = 0; i < reads; i++) {
		while (d->flying < t->depth)
			begin_read(d);
		end_read(d);
		if (d->flying + 1 < t->depth)
			depth_restart(t);
		else
			depth_note(t, RECORD, d->time_ns);
		assert_in_range(t->depth, 1, DEPTH_MOST);
		assert_in_range(t->base, 1, DEPTH_MOST);
		others += t->base != expected;
	}
	return others;
}

/* With transfers of 1 ms, n reads in flight hide a latency of n - 1 ms. Only trials, one in 256
 * reads, correct the estimate of a depth, so adapting to a new device takes some thousands of
 * reads. */
static void assert_settles(struct depth_tuner *t, struct device *d, uint64_t latency_ms,
			   uint32_t expected)
{
	d->latency_ns = latency_ms * 1000000;
	keep_busy(d, t, 20000, expected);
	assert_int_equal(t->base, expected);
	assert_int_equal(keep_busy(d, t, 1000, expected), 0); /* and stays */
}

static void the_smallest_depth_that_gives_the_bandwidth_is_found(void **state)
{
	(void)state;
	for (uint32_t latency = 0; latency < DEPTH_MOST; latency++) {
		struct depth_tuner t;
		struct device d = {.transfer_ns = 1000000};
		depth_init(&t);
		assert_settles(&t, &d, latency, latency + 1);
	}
}

static void a_device_that_changes_is_followed(void **state)
{
	static const uint64_t latencies[] = {0, 5, 2, 7, 0};
	struct depth_tuner t;
	struct device d = {.transfer_ns = 1000000};
	(void)state;
	depth_init(&t);
	for (size_t i = 0; i < sizeof latencies / sizeof *latencies; i++)
		assert_settles(&t, &d, latencies[i], (uint32_t)latencies[i] + 1);
}

static void a_device_that_slows_down_in_all_leaves_the_depth_where_it_was(void **state)
{
	struct depth_tuner t;
	struct device d = {.transfer_ns = 1000000};
	(void)state;
	depth_init(&t);
	assert_settles(&t, &d, 2, 3);
	d.transfer_ns = 4000000; /* another user takes most of it */
	assert_settles(&t, &d, 8, 3);
}

static void a_device_that_no_depth_satisfies_gets_the_largest(void **state)
{
	struct depth_tuner t;
	struct device d = {.transfer_ns = 1000000};
	(void)state;
	depth_init(&t);
	assert_settles(&t, &d, 100, DEPTH_MOST);
}

static void any_order_of_calls_and_times_keeps_the_depth_in_its_range(void **state)
{
	struct depth_tuner t;
	uint64_t x = 88172645463325252, now = 0;
	(void)state;
	depth_init(&t);
	for (int i = 0; i < 200000; i++) {
		x ^= x << 13; /* Marsaglia's xorshift */
		x ^= x >> 7;
		x ^= x << 17;
		now += x % 3 ? x >> 40 : 0; /* the clock may stand still */
		if (x % 61 == 0)
			depth_restart(&t);
		else
			depth_note(&t, x >> 20, now);
		assert_in_range(t.depth, 1, DEPTH_MOST);
		assert_in_range(t.base, 1, DEPTH_MOST);
		assert_true(t.depth + 1 >= t.base && t.depth <= t.base + 1);
	}
}

static void without_a_stretch_of_full_queues_nothing_changes(void **state)
{
	struct depth_tuner t;
	(void)state;
	depth_init(&t);
	for (uint64_t i = 0; i < 1000; i++) {
		depth_note(&t, RECORD, i * 1000000);
		if (i % 15 == 14)
			depth_restart(&t);
	}
	assert_int_equal(t.depth, DEPTH_START);
	assert_int_equal(t.stretches, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_smallest_depth_that_gives_the_bandwidth_is_found),
		cmocka_unit_test(a_device_that_changes_is_followed),
		cmocka_unit_test(a_device_that_slows_down_in_all_leaves_the_depth_where_it_was),
		cmocka_unit_test(a_device_that_no_depth_satisfies_gets_the_largest),
		cmocka_unit_test(any_order_of_calls_and_times_keeps_the_depth_in_its_range),
		cmocka_unit_test(without_a_stretch_of_full_queues_nothing_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
