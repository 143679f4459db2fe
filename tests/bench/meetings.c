#include "tests/bench/meetings.h"
#include "engine/compute/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEPS = 20, LINES = 10000, LOOPS = 2000, PIECES = 8, REST_NS = 500000 };

/* A second thread, which answers each change of `asked` by the same value in `answered`. */
struct partner {
	_Alignas(64) _Atomic uint32_t asked;
	_Alignas(64) _Atomic uint32_t answered;
	bool sleeps; /* while it waits */
	double woke;
	pthread_t thread;
};

static void *meetings_answer(void *arg)
{
	struct partner *p = arg;
	uint32_t last = p->sleeps ? SLEEPS : LINES;
	for (uint32_t i = 1; i <= last; i++) {
		while (atomic_load(&p->asked) != i)
			if (p->sleeps)
				syscall(SYS_futex, &p->asked, FUTEX_WAIT_PRIVATE, i - 1, NULL, NULL,
					0);
		p->woke = seconds_now();
		atomic_store(&p->answered, i);
	}
	return NULL;
}

static int meetings_start(struct partner *p, bool sleeps, struct err *e)
{
	*p = (struct partner){.sleeps = sleeps};
	int code = pthread_create(&p->thread, NULL, meetings_answer, p);
	return code ? err_sys(e, code, "cannot start a thread") : 0;
}

static int meetings_measure_lines(double *seconds, struct err *e)
{
	struct partner p;
	int failed = meetings_start(&p, false, e);
	if (failed)
		return failed;
	double begun = seconds_now();
	for (uint32_t i = 1; i <= LINES; i++) {
		atomic_store(&p.asked, i);
		while (atomic_load(&p.answered) != i)
			;
	}
	*seconds = (seconds_now() - begun) / (2 * LINES);
	pthread_join(p.thread, NULL);
	return 0;
}

/* *call: seconds that waking takes the one that wakes; *late: until the other one runs. */
static int meetings_measure_sleeps(double *call, double *late, struct err *e)
{
	static const struct timespec rest = {.tv_nsec = REST_NS};
	struct partner p;
	double calls[SLEEPS], lates[SLEEPS];
	int failed = meetings_start(&p, true, e);
	if (failed)
		return failed;
	for (uint32_t i = 1; i <= SLEEPS; i++) {
		nanosleep(&rest, NULL); /* it falls asleep */
		double begun = seconds_now();
		atomic_store(&p.asked, i);
		syscall(SYS_futex, &p.asked, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
		calls[i - 1] = seconds_now() - begun;
		while (atomic_load(&p.answered) != i)
			;
		lates[i - 1] = p.woke - begun;
	}
	pthread_join(p.thread, NULL);
	*call = summarise(calls, SLEEPS).median;
	*late = summarise(lates, SLEEPS).median;
	return 0;
}

static int meetings_report_pairs(struct report *r, const struct effort *effort, struct err *e)
{
	static const struct column columns[] = {
		{"line_ns", "a line to another core, ns", 0},
		{"wake_us", "futex wake, µs", 1},
		{"woken_us", "until the sleeper runs, µs", 1},
	};
	double line[ROUNDS_MOST], call[ROUNDS_MOST], late[ROUNDS_MOST];
	for (size_t i = 0; i < effort->rounds; i++) {
		int failed = meetings_measure_lines(&line[i], e);
		if (!failed)
			failed = meetings_measure_sleeps(&call[i], &late[i], e);
		if (failed)
			return failed;
		line[i] *= 1e9;
		call[i] *= 1e6;
		late[i] *= 1e6;
	}
	struct summary lines = summarise(line, effort->rounds),
		       calls = summarise(call, effort->rounds),
		       lates = summarise(late, effort->rounds);
	struct table t;
	table_begin(&t, r, "meeting", "what meeting costs two threads", columns, 3);
	table_summary(&t, &lines);
	table_summary(&t, &calls);
	table_summary(&t, &lates);
	table_end(&t);
	return 0;
}

static void meetings_nothing(void *ctx, uint32_t begin, uint32_t end)
{
	(void)ctx;
	(void)begin;
	(void)end;
}

static int meetings_measure_loops(struct table *t, uint32_t count, const struct effort *effort,
				  struct err *e)
{
	struct threads *threads;
	double each[ROUNDS_MOST];
	int failed = threads_create(&threads, count, e);
	if (failed)
		return failed;
	for (size_t round = 0; round < effort->rounds; round++) {
		double begun = seconds_now();
		for (uint32_t i = 0; i < LOOPS; i++)
			threads_run(threads, PIECES * count, 1, meetings_nothing, NULL);
		each[round] = 1e6 * (seconds_now() - begun) / LOOPS;
	}
	threads_destroy(threads);
	struct summary s = summarise(each, effort->rounds);
	table_number(t, count);
	table_summary(t, &s);
	return 0;
}

int meetings_report(struct report *r, const struct effort *effort, struct err *e)
{
	static const struct column columns[] = {{"threads", "threads", 0}, {"loop_us", "µs", 2}};
	struct table t;
	uint32_t most = (uint32_t)effort->threads;
	int failed = meetings_report_pairs(r, effort, e);
	table_begin(&t, r, "loops", "a loop of eight empty pieces for each thread", columns, 2);
	for (uint32_t n = 2; n <= most && !failed; n = n < most && 2 * n > most ? most : 2 * n)
		failed = meetings_measure_loops(&t, n, effort, e);
	table_end(&t);
	return failed;
}
