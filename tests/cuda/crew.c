/* See crew.h. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */
#include "tests/cuda/crew.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* A kernel that waits so would hang a card. */
static void crew_refuse(const char *what)
{
	(void)fprintf(stderr, "threads of a block of the GPU: %s\n", what);
	abort();
}

#if CREW_OF_SYSTEM_THREADS

/* ---- each a thread of the system ---- */

#include <pthread.h>
#include <semaphore.h>

static struct crew {
	void (*work)(void); /* NULL: the end */
	uint32_t begun;	    /* threads there are */
	pthread_t thread[CREW_MOST];
	sem_t begin[CREW_MOST], done;
	pthread_barrier_t all, warps[CREW_MOST / CREW_WARP];
} crew;

static _Thread_local uint32_t place;

static void *crew_live(void *ctx)
{
	sem_t *begin = ctx;

	place = (uint32_t)(begin - crew.begin);
	for (;;) {
		while (sem_wait(begin) != 0)
			;
		if (!crew.work)
			return NULL;
		crew.work();
		(void)sem_post(&crew.done);
	}
}

static void crew_begin(void)
{
	const uint32_t i = crew.begun;

	if (i == 0)
		(void)sem_init(&crew.done, 0, 0);
	if (i % CREW_WARP == 0)
		(void)pthread_barrier_init(&crew.warps[i / CREW_WARP], NULL, CREW_WARP);
	(void)sem_init(&crew.begin[i], 0, 0);
	if (pthread_create(&crew.thread[i], NULL, crew_live, &crew.begin[i]) != 0)
		crew_refuse("no thread of the system is left");
	crew.begun++;
}

/* The library may be unloaded. */
__attribute__((destructor)) static void crew_end(void)
{
	crew.work = NULL;
	for (uint32_t i = 0; i < crew.begun; i++)
		(void)sem_post(&crew.begin[i]);
	for (uint32_t i = 0; i < crew.begun; i++)
		(void)pthread_join(crew.thread[i], NULL);
	crew.begun = 0;
}

void crew_run(uint32_t threads, void (*work)(void))
{
	while (crew.begun < threads)
		crew_begin();
	crew.work = work;
	(void)pthread_barrier_init(&crew.all, NULL, threads);
	for (uint32_t i = 0; i < threads; i++)
		(void)sem_post(&crew.begin[i]);
	for (uint32_t i = 0; i < threads; i++)
		while (sem_wait(&crew.done) != 0)
			;
	(void)pthread_barrier_destroy(&crew.all);
}

uint32_t crew_place(void)
{
	return place;
}

void crew_wait(void)
{
	(void)pthread_barrier_wait(&crew.all);
}

void crew_wait_warp(void)
{
	(void)pthread_barrier_wait(&crew.warps[place / CREW_WARP]);
}

#else

/* ---- taking turns ---- */

#include <sys/mman.h>
#include <ucontext.h>

/* Not a multiple of a large power of two: then all stacks would be in the same few lines of the caches. */
enum { CREW_STACK = (64 << 10) + 17 * 64 };
enum crew_state { CREW_NEW, CREW_DONE, CREW_WAITS, CREW_WAITS_WARP };

static struct crew {
	void (*work)(void);
	char *stacks; /* [CREW_MOST][CREW_STACK] */
	uint32_t now; /* the thread whose turn it is */
	bool back;    /* turns go from the last to the first */
	jmp_buf outside;
	struct crew_thread {
		enum crew_state state;
		jmp_buf at;
	} thread[CREW_MOST];
} crew;

#if defined(__SANITIZE_ADDRESS__) || CREW_HAS(address_sanitizer)

#include <sanitizer/common_interface_defs.h>

/* AddressSanitizer is told which stack is in use. */
static struct crew_outside {
	void *fake;
	const void *stack;
	size_t bytes;
} outside;
static void *crew_fakes[CREW_MOST];

static void crew_leaves_outside(uint32_t i)
{
	__sanitizer_start_switch_fiber(&outside.fake, crew.stacks + (size_t)i * CREW_STACK,
				       CREW_STACK);
}
static void crew_is_inside(uint32_t i)
{
	__sanitizer_finish_switch_fiber(crew_fakes[i], &outside.stack, &outside.bytes);
}
static void crew_leaves_inside(uint32_t i)
{
	__sanitizer_start_switch_fiber(&crew_fakes[i], outside.stack, outside.bytes);
}
static void crew_is_outside(void)
{
	__sanitizer_finish_switch_fiber(outside.fake, NULL, NULL);
}

#else

static void crew_leaves_outside(uint32_t i)
{
	(void)i;
}
static void crew_is_inside(uint32_t i)
{
	(void)i;
}
static void crew_leaves_inside(uint32_t i)
{
	(void)i;
}
static void crew_is_outside(void)
{
}

#endif

/* Ends the turn of the thread that calls; returns when it has the next one. */
static void crew_pause(enum crew_state state)
{
	struct crew_thread *t = &crew.thread[crew.now];

	t->state = state;
	if (_setjmp(t->at) == 0) {
		crew_leaves_inside(crew.now);
		_longjmp(crew.outside, 1);
	}
	crew_is_inside(crew.now);
}

/* What a thread does for ever. */
static void crew_live(void)
{
	crew_is_inside(crew.now);
	for (;;) {
		crew.work();
		crew_pause(CREW_DONE);
	}
}

/* A thread's first turn. */
static void crew_enter(uint32_t i)
{
	static ucontext_t first; /* AddressSanitizer would guard it on a stack that is left for good */

	if (getcontext(&first) != 0)
		crew_refuse("no context");
	first.uc_stack.ss_sp = crew.stacks + (size_t)i * CREW_STACK;
	first.uc_stack.ss_size = CREW_STACK;
	makecontext(&first, crew_live, 0);
	(void)setcontext(&first);
}

static void crew_turn(uint32_t i)
{
	crew.now = i;
	if (_setjmp(crew.outside) == 0) {
		crew_leaves_outside(i);
		if (crew.thread[i].state == CREW_NEW)
			crew_enter(i);
		_longjmp(crew.thread[i].at, 1);
	}
	crew_is_outside();
}

/* Turns of a warp, until its threads wait for others or are done. */
static enum crew_state crew_turn_warp(uint32_t first)
{
	enum crew_state state;

	do {
		for (uint32_t i = 0; i < CREW_WARP; i++)
			crew_turn(first + (crew.back ? CREW_WARP - 1 - i : i));
		crew.back = !crew.back;
		state = crew.thread[first].state;
		for (uint32_t i = 0; i < CREW_WARP; i++)
			if (crew.thread[first + i].state != state)
				crew_refuse("a warp's threads wait in different places");
	} while (state == CREW_WAITS_WARP);
	return state;
}

__attribute__((destructor)) static void crew_end(void)
{
	if (crew.stacks)
		(void)munmap(crew.stacks, (size_t)CREW_MOST * CREW_STACK);
}

static void crew_begin(void)
{
	void *stacks = mmap(NULL, (size_t)CREW_MOST * CREW_STACK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (stacks == MAP_FAILED)
		crew_refuse("no memory for stacks");
	crew.stacks = stacks;
}

void crew_run(uint32_t threads, void (*work)(void))
{
	const uint32_t warps = threads / CREW_WARP;
	enum crew_state state = CREW_DONE;

	if (!crew.stacks)
		crew_begin();
	crew.work = work;
	do {
		const bool back = crew.back;
		for (uint32_t w = 0; w < warps; w++) {
			const uint32_t warp = back ? warps - 1 - w : w;
			const enum crew_state now = crew_turn_warp(warp * CREW_WARP);
			if (w && now != state)
				crew_refuse("some threads have ended, others wait for them");
			state = now;
		}
		crew.back = !back;
	} while (state == CREW_WAITS);
}

uint32_t crew_place(void)
{
	return crew.now;
}

void crew_wait(void)
{
	crew_pause(CREW_WAITS);
}

void crew_wait_warp(void)
{
	crew_pause(CREW_WAITS_WARP);
}

#endif
