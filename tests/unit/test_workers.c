/* fs/base/workers.h: jobs that must not run beside any job that was given before them. */
#include "fs/base/workers.h"

#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 8 };

struct trial {
	struct posts *posts;
	struct workers *workers;
	sem_t go;
	unsigned finished;    /* jobs */
	char order[MOST + 1]; /* their names, as they were finished */
};

struct named {
	struct job job;
	struct trial *trial;
	char name;
	bool stalls;   /* until the trial says go */
	unsigned seen; /* how many were finished when it began; read after it is */
};

static void work(struct job *job)
{
	struct named *n = LINK_OWNER(job, struct named, job);
	if (n->stalls)
		sem_wait(&n->trial->go);
	else
		n->seen = n->trial->finished;
}

static void finish(struct job *job)
{
	struct named *n = LINK_OWNER(job, struct named, job);
	n->trial->order[n->trial->finished++] = n->name;
}

static void begin(struct trial *t)
{
	struct err e;
	*t = (struct trial){0};
	assert_int_equal(sem_init(&t->go, 0, 0), 0);
	assert_int_equal(posts_create(&t->posts, &e), 0);
	assert_int_equal(workers_create(&t->workers, t->posts, &e), 0);
}

static void end(struct trial *t)
{
	workers_destroy(t->workers);
	posts_destroy(t->posts);
	sem_destroy(&t->go);
}

/* Runs the loop until this many jobs are finished. */
static void loop(struct trial *t, unsigned count)
{
	struct pollfd fd = {.fd = posts_fd(t->posts), .events = POLLIN};
	while (t->finished < count) {
		poll(&fd, 1, -1);
		posts_run(t->posts);
	}
}

static struct named job(struct trial *t, char name, bool stalls)
{
	return (struct named){.job = {.work = work, .finish = finish},
			      .trial = t,
			      .name = name,
			      .stalls = stalls};
}

static void what_waits_begins_after_all_before_it(void **state)
{
	(void)state;
	struct trial t;
	begin(&t);
	struct named a = job(&t, 'a', true), b = job(&t, 'b', true), last = job(&t, 'l', false);
	workers_run(t.workers, &a.job);
	workers_run(t.workers, &b.job);
	workers_run_after(t.workers, &last.job);
	sem_post(&t.go);
	loop(&t, 1);
	assert_int_not_equal(t.order[0], 'l');
	sem_post(&t.go);
	loop(&t, 3);
	assert_int_equal(t.order[2], 'l');
	assert_int_equal(last.seen, 2);
	end(&t);
}

static void what_comes_after_it_does_not_wait(void **state)
{
	(void)state;
	struct trial t;
	begin(&t);
	struct named a = job(&t, 'a', true), last = job(&t, 'l', false), c = job(&t, 'c', false);
	workers_run(t.workers, &a.job);
	workers_run_after(t.workers, &last.job);
	workers_run(t.workers, &c.job);
	loop(&t, 1);
	assert_int_equal(t.order[0], 'c');
	sem_post(&t.go);
	end(&t);
	assert_string_equal(t.order, "cal");
}

static void two_that_wait_and_nothing_before_them(void **state)
{
	(void)state;
	struct trial t;
	begin(&t);
	struct named a = job(&t, 'a', false), b = job(&t, 'b', false);
	workers_run_after(t.workers, &a.job);
	workers_run_after(t.workers, &b.job);
	loop(&t, 2);
	assert_string_equal(t.order, "ab");
	assert_int_equal(b.seen, 1);
	end(&t);
}

static void the_end_finishes_what_waits(void **state)
{
	(void)state;
	struct trial t;
	begin(&t);
	struct named a = job(&t, 'a', true), b = job(&t, 'b', false), c = job(&t, 'c', false);
	workers_run(t.workers, &a.job);
	workers_run_after(t.workers, &b.job);
	workers_run_after(t.workers, &c.job);
	sem_post(&t.go);
	end(&t);
	assert_string_equal(t.order, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_waits_begins_after_all_before_it),
		cmocka_unit_test(what_comes_after_it_does_not_wait),
		cmocka_unit_test(two_that_wait_and_nothing_before_them),
		cmocka_unit_test(the_end_finishes_what_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
