/* Clock, crews of threads, medians, memory to measure with. */
#include "tests/bench/bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

bool own_time;

static double seconds_of(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double seconds_now(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

double seconds_spent(uint64_t threads)
{
	return own_time ? seconds_of(CLOCK_PROCESS_CPUTIME_ID) / (double)threads : seconds_now();
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct summary summarise(const double *values, size_t n)
{
	double sorted[ROUNDS_MOST];
	memcpy(sorted, values, n * sizeof *values);
	qsort(sorted, n, sizeof *sorted, by_value);
	return (struct summary){
		.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2,
		.least = sorted[0],
		.most = sorted[n - 1],
	};
}

/* ---- crews ---- */

enum { WAIT, GO, GIVE_UP };

struct crew {
	piece_fn *work;
	void *ctx;
	double seconds;
	_Atomic int start;
};
struct member {
	struct crew *crew;
	uint32_t number;
	double rate;
	pthread_t thread;
};

/* Each thread divides by its own time, since the last pieces end at different times. */
static void work(struct member *m)
{
	const struct crew *c = m->crew;
	const clockid_t clock = own_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
	double done = 0, begun = seconds_of(clock), passed;
	do {
		done += c->work(c->ctx, m->number);
		passed = seconds_of(clock) - begun;
	} while (passed < c->seconds);
	m->rate = done / passed;
}

static void *member_main(void *arg)
{
	struct member *m = arg;
	int start;
	while ((start = atomic_load(&m->crew->start)) == WAIT)
		; /* thread creation takes microseconds; sleeping would blur the start */
	if (start == GO)
		work(m);
	return NULL;
}

int crew_rate(double *rate, uint32_t threads, double seconds, piece_fn *piece, void *ctx,
	      struct err *e)
{
	struct crew c = {.work = piece, .ctx = ctx, .seconds = seconds};
	struct member *members = calloc(threads, sizeof *members);
	uint32_t started = 1;
	int code = 0;
	if (!members)
		return err_set(e, ENOMEM, "out of memory for %u threads", threads);
	for (uint32_t i = 0; i < threads; i++)
		members[i] = (struct member){.crew = &c, .number = i};
	for (; started < threads && !code; started += !code)
		code = pthread_create(&members[started].thread, NULL, member_main,
				      &members[started]);
	atomic_store(&c.start, code ? GIVE_UP : GO);
	if (!code)
		work(&members[0]);
	*rate = members[0].rate;
	for (uint32_t i = 1; i < started; i++) {
		pthread_join(members[i].thread, NULL);
		*rate += members[i].rate;
	}
	free(members);
	return code ? err_sys(e, code, "cannot start %u threads", threads) : 0;
}

/* ---- memory ---- */

void random_bytes(void *to, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i += sizeof seed) {
		uint64_t word = random_u64(&seed);
		memcpy((char *)to + i, &word, sizeof word);
	}
}

void *buffer_allocate(size_t bytes, struct err *e)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		err_sys(e, errno, "cannot have %zu MB of memory to measure with", bytes >> 20);
		return NULL;
	}
	madvise(memory, bytes, MADV_HUGEPAGE); /* a wish; fewer TLB misses */
	memset(memory, 1, bytes);	       /* untouched pages would all be one page of zeros */
	return memory;
}

void buffer_free(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}
