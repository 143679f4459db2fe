/* Runs the kernels of cards without a card: they are compiled as C, and the threads of a block are those
 * of crew.h. Blocks follow each other. Shared memory begins as NaNs. */
#include "kernels/cuda/cuda_all.cu"
#include "tests/cuda/crew.h"
#include "tests/cuda/runner.h"

#include <stdlib.h>

enum { SHARED_MOST = 224 << 10, PIECES_MOST = 64 };

/* A launch that is under way: one at a time. */
static struct launch {
	void (*call)(const void *operands);
	const void *operands;
	struct cuda_grid grid;
	uint32_t x, y; /* the block */
	uint32_t swapped[2][CREW_MOST], swaps[CREW_MOST], a[CREW_MOST][4], b[CREW_MOST][2];
	float shared[SHARED_MOST / sizeof(float)] __attribute__((aligned(128)));
} now;

uint32_t cuda_thread(void)
{
	return crew_place();
}
uint32_t cuda_threads(void)
{
	return now.grid.threads;
}
uint32_t cuda_block_x(void)
{
	return now.x;
}
uint32_t cuda_block_y(void)
{
	return now.y;
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
	crew_wait();
}
void cuda_warp_barrier(void)
{
	crew_wait_warp();
}
/* Swaps take turns with two places, so that one may begin while others still read the last one's. */
uint32_t cuda_swap(uint32_t v, uint32_t bits)
{
	const uint32_t i = crew_place();
	uint32_t *swapped = now.swapped[now.swaps[i]++ % 2];

	swapped[i] = v;
	crew_wait_warp();
	return swapped[i ^ bits];
}
uint32_t cuda_from_lane(uint32_t v, uint32_t lane)
{
	return cuda_swap(v, (lane ^ crew_place()) % CUDA_WARP);
}

/* The dots of four bytes of two rows, 16 apart, with a token. */
static int32_t thread_dots(const uint32_t *row, const uint32_t *token)
{
	return cuda_dot4(row[0], token[0], cuda_dot4(row[2], token[1], 0));
}

void cuda_multiply_tile(int32_t sum[4], const uint32_t a[4], const uint32_t b[2])
{
	const uint32_t place = crew_place(), lane = place % CUDA_WARP, first = place - lane;

	memcpy(now.a[place], a, sizeof now.a[0]);
	memcpy(now.b[place], b, sizeof now.b[0]);
	crew_wait_warp();
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t t = 0; t < 4; t++)
			sum[t] += thread_dots(now.a[first + lane / 4 * 4 + i] + t / 2,
					      now.b[first + (lane % 4 * 2 + t % 2) * 4 + i]);
	crew_wait_warp();
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

static void threads_call(void)
{
	now.call(now.operands);
}

static bool threads_launch(void *ctx, enum cuda_kernel k, const struct cuda_grid *g,
			   const void *operands, size_t bytes)
{
	(void)ctx;
	(void)bytes;
	if (g->threads > CREW_MOST || g->threads % CUDA_WARP || g->shared > SHARED_MOST)
		return false;
	now.call = calls[k];
	now.operands = operands;
	now.grid = *g;
	for (now.y = 0; now.y < g->y; now.y++)
		for (now.x = 0; now.x < g->x; now.x++) {
			memset(now.shared, 0xff, g->shared);
			crew_run(g->threads, threads_call);
		}
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
	return (struct runner){NULL, {3, SHARED_MOST}, threads_put, threads_get, threads_launch,
			       threads_forget};
}
