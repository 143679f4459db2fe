/* Runs the kernels of cards without a card: they are compiled as C, and each thread of a block is a
 * thread of the system. Blocks follow each other. Shared memory begins as NaNs; ThreadSanitizer sees
 * what two threads of a block do without a barrier. */
#include "kernels/cuda/cuda_all.cu"
#include "tests/cuda/runner.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MOST = 1024, SHARED_MOST = 128 << 10, PIECES_MOST = 64, STACK = 256 << 10 };

/* A launch that is under way: one at a time. */
static struct launch {
	void (*call)(const void *operands);
	const void *operands;
	struct cuda_grid grid;
	pthread_barrier_t block, warps[THREADS_MOST / CUDA_WARP];
	uint32_t swapped[THREADS_MOST];
	float shared[SHARED_MOST / sizeof(float)] __attribute__((aligned(128)));
} now;

static _Thread_local struct place {
	uint32_t thread, x, y;
} place;

uint32_t cuda_thread(void)
{
	return place.thread;
}
uint32_t cuda_threads(void)
{
	return now.grid.threads;
}
uint32_t cuda_block_x(void)
{
	return place.x;
}
uint32_t cuda_block_y(void)
{
	return place.y;
}
uint32_t cuda_blocks_x(void)
{
	return now.grid.x;
}
float *cuda_shared(void)
{
	return now.shared;
}
void cuda_barrier(void)
{
	pthread_barrier_wait(&now.block);
}
uint32_t cuda_swap(uint32_t v, uint32_t bits)
{
	pthread_barrier_t *warp = &now.warps[place.thread / CUDA_WARP];

	now.swapped[place.thread] = v;
	pthread_barrier_wait(warp);
	const uint32_t other = now.swapped[place.thread ^ bits];
	pthread_barrier_wait(warp);
	return other;
}

/* ---- a launch ---- */

#define CALL_KERNEL(name, operands)                     \
	static void call_##name(const void *p)          \
	{                                               \
		name(*(const operands *)p);             \
	}
CUDA_KERNELS(CALL_KERNEL)
#define KERNEL_CALL(name, operands) call_##name,
static void (*const calls[])(const void *) = {CUDA_KERNELS(KERNEL_CALL)};

static void *run_thread(void *ctx)
{
	place.thread = *(const uint32_t *)ctx;
	for (place.y = 0; place.y < now.grid.y; place.y++)
		for (place.x = 0; place.x < now.grid.x; place.x++) {
			pthread_barrier_wait(&now.block);
			if (place.thread == 0)
				memset(now.shared, 0xff, now.grid.shared);
			pthread_barrier_wait(&now.block);
			now.call(now.operands);
		}
	return NULL;
}

static bool threads_launch(void *ctx, enum cuda_kernel k, const struct cuda_grid *g,
			   const void *operands, size_t bytes)
{
	static uint32_t number[THREADS_MOST];
	static pthread_t thread[THREADS_MOST];
	pthread_attr_t small;
	uint32_t begun = 0;

	(void)ctx;
	(void)bytes;
	if (g->threads > THREADS_MOST || g->shared > SHARED_MOST ||
	    pthread_attr_init(&small) != 0)
		return false;
	pthread_attr_setstacksize(&small, STACK);
	now.call = calls[k];
	now.operands = operands;
	now.grid = *g;
	pthread_barrier_init(&now.block, NULL, g->threads);
	for (uint32_t w = 0; w * CUDA_WARP < g->threads; w++)
		pthread_barrier_init(&now.warps[w], NULL, CUDA_WARP);
	for (; begun < g->threads; begun++) {
		number[begun] = begun;
		if (pthread_create(&thread[begun], &small, run_thread, &number[begun]) != 0)
			abort(); /* those begun wait for all */
	}
	for (uint32_t i = 0; i < begun; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t w = 0; w * CUDA_WARP < g->threads; w++)
		pthread_barrier_destroy(&now.warps[w]);
	pthread_barrier_destroy(&now.block);
	pthread_attr_destroy(&small);
	return true;
}

/* ---- memory ---- */

static void *pieces[PIECES_MOST];
static size_t piece_count;

static void *threads_put(void *ctx, const void *data, size_t bytes)
{
	void *p = NULL;

	(void)ctx;
	if (piece_count == PIECES_MOST || posix_memalign(&p, 256, bytes ? bytes : 1) != 0)
		return NULL;
	if (data)
		memcpy(p, data, bytes);
	else
		memset(p, 0, bytes);
	pieces[piece_count++] = p;
	return p;
}

static bool threads_get(void *ctx, void *to, const void *from, size_t bytes)
{
	(void)ctx;
	memcpy(to, from, bytes);
	return true;
}

static void threads_forget(void *ctx)
{
	(void)ctx;
	while (piece_count > 0)
		free(pieces[--piece_count]);
}

struct runner threads_runner(void)
{
	return (struct runner){NULL, 1, threads_put, threads_get, threads_launch, threads_forget};
}
