/* What stays behind on a GPU: nothing of asks that have ended, however many, and nothing of a process that was
 * killed. The second one needs a card: a process's memory is its driver's to give back. */
#include "engine/gpu/card.h"
#include "golden.h"
#include "gpu_help.h"
#include "memory_help.h"
#include "store_help.h"

#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Bytes of the card that are free for who opens it now. */
static uint64_t free_bytes(void)
{
	struct card card;
	struct err e;
	if (card_open(&card, 0, cuda_images, &e))
		fail_msg("%s", e.text);
	uint64_t bytes = card.facts.free;
	card_close(&card);
	return bytes;
}

/* ---- asks ---- */

struct kept {
	uint64_t free, contexts, resident;
	long taken; /* of the driver without a card */
};

static struct kept kept_now(const struct test_gpu *g)
{
	struct engine_gpu_stats stats;
	engine_gpu_stats(g->m.engine, &stats);
	return (struct kept){.free = free_bytes(),
			     .contexts = stats.contexts,
			     .resident = test_memory_used().resident,
			     .taken = test_driver_taken()};
}

enum { OTHERS = 64 << 20 }; /* bytes of a card that other processes may take meanwhile */

static void assert_kept(const struct kept *first, const struct kept *last)
{
	const uint64_t few = 8 << 20; /* of the allocator's own */
	assert_int_equal(last->taken, first->taken);
	if (test_driver_is_real()) /* others may use the card, too */
		assert_in_range(first->free, 0, last->free + OTHERS);
	else
		assert_int_equal(last->free, first->free);
	assert_int_equal(last->contexts, first->contexts);
	if (!SANITIZED)
		assert_in_range(last->resident, 0, first->resident + few);
}

/* A short prompt that goes back, a fork of it, and what was saved of it; then all three in one step, with drafts
 * that fall. Every tenth ask is the same. lasting: of an ask that has not ended; the GPU gives
 * up its copy meanwhile. */
static void ask(struct test_gpu *g, struct context *lasting, uint32_t number)
{
	enum { WAYS = 10 };
	const uint32_t way = number % WAYS;
	struct test_record r = {0};
	struct context x, fork, saved;
	test_context_of(g, &x);
	test_context_of(g, &fork);
	test_context_of(g, &saved);
	test_rows_of(g, &r, &x, way, 2 + way, ROW_PROMPT);
	context_rollback(&x, x.tokens.count - 1);
	test_fork(&fork, &x);
	if (way % 2)
		test_copy_saved(g, &saved, &x);
	test_step_of(g, &r,
		     (struct test_rows[]){{&x, way, 3, ROW_DRAFT, {0}, NULL},
					  {&fork, way + 1, 1, ROW_ANSWER, {0}, NULL},
					  {&saved, way + 2, 4, ROW_PROMPT, {0}, NULL}},
		     3);
	context_rollback(&x, x.tokens.count - 2);
	context_free(&x);
	context_free(&fork);
	context_free(&saved);
	if (number % 100 == 0)
		test_rows_of(g, &r, lasting, 1, KV_BLOCK + 2, ROW_PROMPT);
	if (number % 100 == 99) {
		test_rows_of(g, &r, lasting, 1, 1, ROW_ANSWER);
		context_rollback(lasting, 0);
	}
	test_record_free(&r);
}

/* The first hundred have more contexts than the GPU keeps copies of: it takes no more memory after that. */
static void ask_often(enum test_held held, uint32_t count)
{
	enum { FIRST = 100 };
	struct kept first = {0}, last;
	struct context lasting;
	struct test_gpu g;
	test_gpu_open(&g, held);
	test_context_of(&g, &lasting);
	for (uint32_t i = 0; i < count; i++) {
		if (i == FIRST) { /* the driver may keep what looking takes once */
			(void)kept_now(&g);
			first = kept_now(&g);
		}
		ask(&g, &lasting, i);
	}
	context_free(&lasting);
	last = kept_now(&g);
	if (!test_gpu_computes(&g))
		fail_msg("%s", test_gpu_no_card(&g).text);
	assert_kept(&first, &last);
	test_gpu_close(&g);
}

static void asks_leave_the_gpus_memory_where_it_was(void **state)
{
	(void)state;
	if (!test_cpu.m.engine)
		skip();
	ask_often(HELD_ALL, test_driver_is_real() ? 10000 : 200);
	if (test_driver_is_real()) /* else it takes as long again */
		ask_often(HELD_SOME, 1000);
}

/* ---- processes ---- */

/* Such a process is this program, run again, which then finds its folder in this variable. It tells on standard
 * output what is free before it opens the model, and then that it computes. */
static const char folder_name[] = "MOEFS_TEST_PROCESS_FOLDER", end_name[] = "MOEFS_TEST_PROCESS_ENDS";

static void tell(const void *what, size_t bytes)
{
	if (write(STDOUT_FILENO, what, bytes) != (ssize_t)bytes)
		_exit(1);
}

static void compute(struct test_gpu *g)
{
	struct test_record r = {0};
	struct context x;
	test_context_of(g, &x);
	test_rows_of(g, &r, &x, 1, 100, ROW_PROMPT);
	for (uint32_t i = 0; i < 100; i++)
		test_rows_of(g, &r, &x, 1, 1, ROW_ANSWER);
	context_free(&x);
	test_record_free(&r);
}

static int be_process(const char *folder)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	const uint64_t found = free_bytes();
	struct test_gpu g;
	(void)snprintf(test_folder, sizeof test_folder, "%s", folder);
	tell(&found, sizeof found);
	test_gpu_model_be(test_fixture("qwen3_moe"), "3bit");
	test_gpu_open(&g, HELD_ALL);
	compute(&g);
	tell("", 1);
	while (!getenv(end_name))
		compute(&g);
	test_gpu_close(&g);
	test_model_close(&test_cpu.m);
	return 0;
}

struct process {
	pid_t id;
	int out;
};

static void process_begin(struct process *p, const char *folder, bool ends)
{
	char *const arguments[] = {"unit", "cuda_asks", NULL};
	posix_spawn_file_actions_t files;
	int ends_of[2];
	assert_int_equal(pipe(ends_of), 0);
	assert_int_equal(setenv(folder_name, folder, 1), 0);
	assert_int_equal(ends ? setenv(end_name, "1", 1) : unsetenv(end_name), 0);
	assert_int_equal(posix_spawn_file_actions_init(&files), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&files, ends_of[1], STDOUT_FILENO), 0);
	assert_int_equal(posix_spawn_file_actions_addclose(&files, ends_of[0]), 0);
	assert_int_equal(posix_spawn(&p->id, "/proc/self/exe", &files, NULL, arguments, environ), 0);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)close(ends_of[1]);
	(void)unsetenv(folder_name);
	p->out = ends_of[0];
}

/* Waits until the process computes. Returns what was free before; 0: it ended early. */
static uint64_t process_found(const struct process *p)
{
	uint64_t found = 0;
	char computes;
	bool told = read(p->out, &found, sizeof found) == sizeof found && read(p->out, &computes, 1) == 1;
	return told ? found : 0;
}

static int process_end(const struct process *p)
{
	int status = 0;
	assert_int_equal(waitpid(p->id, &status, 0), p->id);
	(void)close(p->out);
	return status;
}

/* The driver gives a killed process's memory back some time later. Others may use the card, too. */
static void assert_free_again(uint64_t bytes)
{
	enum { TRIES = 50 };
	const struct timespec moment = {0, 200000000};
	uint64_t now = free_bytes();
	for (uint32_t i = 0; i < TRIES && now + OTHERS < bytes; i++) {
		(void)nanosleep(&moment, NULL);
		now = free_bytes();
	}
	if (now + OTHERS < bytes)
		fail_msg("%llu MB of the card are free, not %llu", (unsigned long long)now >> 20,
			 (unsigned long long)bytes >> 20);
}

static void a_killed_process_leaves_nothing_on_the_gpu(void **state)
{
	const struct timespec moment = {0, 1500000};
	struct process ends, killed;
	char folder[32];
	(void)state;
	if (!test_driver_is_real())
		print_message("skipped: only a card has memory of other processes (MOEFS_GPU=real)\n");
	if (!test_driver_is_real() || !test_cpu.m.engine)
		skip();
	test_folder_make(folder);
	process_begin(&ends, folder, true);
	const uint64_t found = process_found(&ends);
	const int ended = process_end(&ends);
	process_begin(&killed, folder, false);
	const bool computed = process_found(&killed) > 0;
	(void)nanosleep(&moment, NULL); /* somewhere in a step */
	(void)kill(killed.id, SIGKILL);
	const int killed_by = process_end(&killed);
	test_folder_remove(folder);
	assert_int_equal(ended, 0);
	assert_true(found > 0 && computed);
	assert_true(WIFSIGNALED(killed_by));
	assert_free_again(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_process_leaves_nothing_on_the_gpu),
		cmocka_unit_test(asks_leave_the_gpus_memory_where_it_was),
	};
	const char *folder = getenv(folder_name);
	test_driver_load();
	if (folder)
		return be_process(folder);
	return cmocka_run_group_tests(tests, test_gpu_setup, test_gpu_teardown);
}
