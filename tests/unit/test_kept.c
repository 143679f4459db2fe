/* Memory that a thread freed but keeps in its cache is returned to the allocator, and unused pages
 * of its stack to the system. */
#include "cache/thread_trim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZES = 64, LEAST = 24, STEP = 16, OF_A_SIZE = 40, SLACK = 1024 };

/* By the allocator's count, memory in threads' caches is in use. */
static size_t in_use(void)
{
	return mallinfo2().uordblks;
}

/* The others stay between them, so that they stay pieces. */
static void free_every_other(void *piece[SIZES][OF_A_SIZE])
{
	for (int size = 0; size < SIZES; size++)
		for (int i = 0; i < OF_A_SIZE; i += 2)
			free(piece[size][i]);
}

/* Each time, whether the thread keeps memory or not: free memory stays free. */
static void a_thread_keeps_nothing_of_what_it_freed(void **state)
{
	(void)state;
	static void *piece[SIZES][OF_A_SIZE];
	if (!in_use()) {
		print_message("under a sanitizer: its own allocator keeps what it keeps\n");
		skip();
	}
	for (int size = 0; size < SIZES; size++)
		for (int i = 0; i < OF_A_SIZE; i++)
			piece[size][i] = malloc((size_t)LEAST + size * STEP);
	thread_trim();
	size_t all = in_use();
	free_every_other(piece);
	size_t freed = 0;
	for (int size = 0; size < SIZES; size++)
		freed += (size_t)OF_A_SIZE / 2 * (LEAST + size * STEP);
	for (int times = 0; times < 3; times++) {
		thread_trim();
		assert_in_range(in_use(), 0, all - freed + SLACK);
		free(malloc(100)); /* which makes it take more free memory */
	}
	for (int size = 0; size < SIZES; size++)
		for (int i = 1; i < OF_A_SIZE; i += 2)
			free(piece[size][i]);
}

enum { DEEP = 1 << 20, PAGES = 64 };

static __attribute__((noinline)) void *go_deep(void)
{
	char deep[DEEP];
	memset(deep, 1, sizeof deep);
	__asm__ volatile("" : : "r"(deep) : "memory");
	return (void *)((uintptr_t)deep & -(uintptr_t)sysconf(_SC_PAGESIZE));
}

static size_t pages_there(void *from)
{
	unsigned char there[PAGES];
	size_t count = 0;
	assert_int_equal(mincore(from, PAGES * (size_t)sysconf(_SC_PAGESIZE), there), 0);
	for (size_t i = 0; i < PAGES; i++)
		count += there[i] & 1;
	return count;
}

static void *work_and_wait(void *ctx)
{
	size_t *there = ctx;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never;
	bool keeps = true;
	void *deep = go_deep();
	thread_cond_init(&never);
	there[0] = pages_there(deep);
	pthread_mutex_lock(&lock);
	while (keeps)
		thread_wait_and_trim(&never, &lock, &keeps);
	pthread_mutex_unlock(&lock);
	there[1] = pages_there(deep);
	pthread_cond_destroy(&never);
	return NULL;
}

static void a_thread_that_waits_gives_up_what_of_its_stack_is_not_in_use(void **state)
{
	(void)state;
	pthread_t thread;
	size_t there[2] = {0};
	assert_int_equal(pthread_create(&thread, NULL, work_and_wait, there), 0);
	pthread_join(thread, NULL);
	assert_int_not_equal(there[0], 0);
	assert_int_equal(there[1], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_keeps_nothing_of_what_it_freed),
		cmocka_unit_test(a_thread_that_waits_gives_up_what_of_its_stack_is_not_in_use),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
