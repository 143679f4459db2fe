/* What a card's memory, launches and products of one token take. Times are between two events of the
 * stream, around many launches; matrices of a launch are others than those of the launch before, so
 * that they come from memory. */
#include "kernels/cuda/cuda_tables.h"
#include "kernels/kernels.h"
#include "tests/cuda/card_runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAUNCHES = 200, SLOTS = 512 };

/* Two events around some work. */
struct card_clock {
	struct card *card;
	gpu_event from, to;
};

static bool card_clock_begin(struct card_clock *k, struct card *c)
{
	k->card = c;
	return !c->driver.event_create(&k->from, 0) && !c->driver.event_create(&k->to, 0) &&
	       !c->driver.event_record(k->from, c->stream);
}

/* Microseconds; below 0: not known. */
static double card_clock_end(struct card_clock *k)
{
	const struct gpu_driver *d = &k->card->driver;
	float ms = -1;

	if (d->event_record(k->to, k->card->stream) || d->stream_wait(k->card->stream) ||
	    d->event_elapsed(&ms, k->from, k->to))
		ms = -1;
	(void)d->event_destroy(k->from);
	(void)d->event_destroy(k->to);
	return (double)ms * 1e3;
}

/* ---- memory and launches ---- */

static void card_measure_memory(struct card *c)
{
	const size_t bytes = (size_t)2 << 30;
	gpu_address from = 0, to = 0;
	struct card_clock k;
	struct err e;

	if (card_take(c, bytes, &from, &e) || card_take(c, bytes, &to, &e)) {
		printf("# %s\n", e.text);
		card_give(c, from);
		return;
	}
	(void)card_clear(c, from, bytes, &e);
	(void)c->driver.copy_within(to, from, bytes, c->stream);
	if (card_clock_begin(&k, c)) {
		for (size_t i = 0; i < 10; i++)
			(void)c->driver.copy_within(to, from, bytes, c->stream);
		printf("memory: %.0f GB/s read and written by copies\n",
		       20 * (double)bytes / card_clock_end(&k) * 1e-3);
	}
	card_give(c, from);
	card_give(c, to);
}

static double card_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void card_measure_launches(struct card *c)
{
	/* No rows: the kernel ends at once. */
	const struct cuda_prepare none = {.k = 128, .n = 0};
	const struct cuda_grid g = {1, 1, 128, 0};
	struct card_clock k;
	struct err e;
	double begun, queued;

	for (size_t i = 0; i < LAUNCHES; i++)
		(void)card_launch(c, cuda_tq_prepare_number, &g, &none, &e);
	(void)card_wait(c, &e);
	if (!card_clock_begin(&k, c))
		return;
	begun = card_now();
	for (size_t i = 0; i < 10 * LAUNCHES; i++)
		(void)card_launch(c, cuda_tq_prepare_number, &g, &none, &e);
	queued = card_now() - begun;
	printf("launches: %.2f us of the program, %.2f us on the card, each of many\n",
	       queued / (10 * LAUNCHES), card_clock_end(&k) / (10 * LAUNCHES));
	begun = card_now();
	for (size_t i = 0; i < LAUNCHES; i++) {
		(void)card_launch(c, cuda_tq_prepare_number, &g, &none, &e);
		(void)card_wait(c, &e);
	}
	printf("launches: %.2f us from the launch to the end of waiting\n",
	       (card_now() - begun) / LAUNCHES);
}

/* ---- products of one token ---- */

struct product_place {
	gpu_address weights, slots, chosen, q, scale, sum, y, pairs;
};

static bool card_prepare_products(struct card *c, struct product_place *at, size_t bytes,
				  uint32_t cols, uint32_t rows)
{
	static uint32_t chosen[SLOTS];
	static uint64_t slots[SLOTS];
	uint16_t pairs[CUDA_PAIRS];
	struct err e;
	const struct {
		gpu_address *to;
		size_t bytes;
	} pieces[] = {{&at->weights, SLOTS * bytes}, {&at->slots, sizeof slots},
		      {&at->chosen, sizeof chosen},  {&at->q, (size_t)8 * cols},
		      {&at->scale, (size_t)8 * cols}, {&at->sum, (size_t)8 * cols},
		      {&at->y, (size_t)SLOTS * rows * 8 * sizeof(float)}, {&at->pairs, sizeof pairs}};
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
		if (card_take(c, pieces[i].bytes, pieces[i].to, &e) ||
		    c->driver.fill(*pieces[i].to, 0x35, pieces[i].bytes, c->stream)) {
			printf("# no memory for products\n");
			return false;
		}
	for (uint32_t i = 0; i < SLOTS; i++) {
		slots[i] = at->weights + i * bytes;
		chosen[i] = i * 37 % SLOTS;
	}
	cuda_fill_pairs(pairs);
	return !card_copy_in(c, at->slots, slots, sizeof slots, &e) &&
	       !card_copy_in(c, at->chosen, chosen, sizeof chosen, &e) &&
	       !card_copy_in(c, at->pairs, pairs, sizeof pairs, &e) && !card_wait(c, &e);
}

static void card_give_products(struct card *c, const struct product_place *at)
{
	const gpu_address all[] = {at->weights, at->slots, at->chosen, at->q,
				   at->scale,   at->sum,   at->y,	 at->pairs};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		card_give(c, all[i]);
}

#define CARD_AT(address) ((void *)(uintptr_t)(address))

/* `matrices` of one shape in one launch, n tokens each. */
static void card_measure_product(struct card *c, enum format format, uint32_t rows, uint32_t cols,
				 uint32_t matrices, uint32_t n)
{
	const struct shape s = {format, NORM_F16, rows, cols, 0};
	const size_t bytes = format_arranged_bytes(&s);
	const enum cuda_kernel k = cuda_product_kernel(format, n);
	struct product_place at = {0};
	struct card_clock clock;
	struct err e;

	if (card_prepare_products(c, &at, bytes, cols, rows)) {
		struct cuda_product p = {
			.slots = CARD_AT(at.slots),
			.q = CARD_AT(at.q),
			.scale = CARD_AT(at.scale),
			.sum = CARD_AT(at.sum),
			.y = CARD_AT(at.y),
			.y_step = (uint64_t)8 * rows,
			.ldy = rows,
			.rows = rows,
			.groups = cuda_product_groups(format, cols),
			.norm_bytes = 2,
			.trellis.pairs = CARD_AT(at.pairs),
		};
		if (format_is_tq(format))
			cuda_fill_trellis(&p.trellis, format_tq_bits(format));
		const struct cuda_grid g = cuda_product_grid(k, &p, matrices, c->facts.processors);
		const uint32_t sets = SLOTS / matrices;
		for (int warm = 1; warm >= 0; warm--) {
			if (!card_clock_begin(&clock, c))
				break;
			for (uint32_t i = 0; i < LAUNCHES; i++) {
				p.chosen = CARD_AT(at.chosen +
						   i % sets * matrices * sizeof(uint32_t));
				(void)card_launch(c, k, &g, &p, &e);
			}
			const double us = card_clock_end(&clock) / LAUNCHES;
			if (!warm)
				printf("%s: %3u of %u x %u, %u blocks of %u threads: %.2f us, %.0f "
				       "GB/s\n",
				       cuda_kernel_name(k), matrices, rows, cols, g.x * g.y, g.threads,
				       us, matrices * (double)bytes / us * 1e-3);
		}
	}
	card_give_products(c, &at);
}

/* ---- the other kernels of one token ---- */

enum { STEP_HIDDEN = 2048, STEP_HEADS = 32, STEP_KV = 4, STEP_DIM = 128, STEP_EXPERTS = 128 };
enum { STEP_TOP_K = 8, STEP_SIZE = 768, STEP_POSITIONS = 4096, STEP_BYTES = 64 << 20 };

static void card_measure_kernel(struct card *c, enum cuda_kernel k, const char *what,
				struct cuda_grid g, const void *operands)
{
	struct card_clock clock;
	struct err e;

	for (size_t i = 0; i < LAUNCHES; i++)
		if (card_launch(c, k, &g, operands, &e)) {
			printf("# %s\n", e.text);
			return;
		}
	if (!card_clock_begin(&clock, c))
		return;
	for (size_t i = 0; i < LAUNCHES; i++)
		(void)card_launch(c, k, &g, operands, &e);
	printf("%s, %s: %.2f us\n", cuda_kernel_name(k), what, card_clock_end(&clock) / LAUNCHES);
}

/* Attention to so many positions, in blocks that lie one after the other from `kv` on. */
static void card_measure_attention(struct card *c, gpu_address at, gpu_address blocks,
				   uint32_t positions)
{
	const struct cuda_attention p = {
		.q = CARD_AT(at),
		.parts = CARD_AT(at + (1 << 20)),
		.out = CARD_AT(at + (512 << 10)),
		.blocks = CARD_AT(blocks),
		.key_step = STEP_DIM * 64,
		.value_offset = STEP_KV * STEP_DIM * 64,
		.value_step = STEP_DIM * 64,
		.n = 1,
		.heads = STEP_HEADS,
		.group = STEP_HEADS / STEP_KV,
		.head_dim = STEP_DIM,
		.length = positions,
		.half = 1,
		.scale = 0.088F,
	};
	char what[64];

	snprintf(what, sizeof what, "%u heads, %u positions", STEP_HEADS, positions);
	card_measure_kernel(c, cuda_attend_spans_number, what,
			    cuda_spans_grid(&p, (positions + 255) / 256), &p);
	card_measure_kernel(c, cuda_attend_join_number, what, cuda_join_grid(&p), &p);
}

/* All operands lie in one piece of memory, filled with small numbers; at its end are the addresses of
 * the blocks of keys and values, and experts to sum. */
static bool card_prepare_step(struct card *c, gpu_address at)
{
	enum { BLOCKS = STEP_POSITIONS / 64, BLOCK_BYTES = 2 * STEP_KV * STEP_DIM * 64 * 2 };
	static uint64_t blocks[BLOCKS];
	static uint32_t chosen[STEP_TOP_K];
	struct err e;

	for (uint32_t i = 0; i < BLOCKS; i++)
		blocks[i] = at + (16 << 20) + (uint64_t)i * BLOCK_BYTES;
	for (uint32_t i = 0; i < STEP_TOP_K; i++)
		chosen[i] = i * 37 % STEP_TOP_K;
	return !c->driver.fill(at, 0x35, STEP_BYTES, c->stream) &&
	       !card_copy_in(c, at + STEP_BYTES - 4096, blocks, sizeof blocks, &e) &&
	       !card_copy_in(c, at + STEP_BYTES - 64, chosen, sizeof chosen, &e) &&
	       !card_wait(c, &e);
}

static void card_measure_step(struct card *c)
{
	gpu_address at = 0;
	struct err e;

	if (card_take(c, STEP_BYTES, &at, &e) || !card_prepare_step(c, at)) {
		printf("# no memory for a step\n");
		card_give(c, at);
		return;
	}
	void *x = CARD_AT(at), *y = CARD_AT(at + (1 << 20)), *z = CARD_AT(at + (2 << 20)),
	     *blocks = CARD_AT(at + STEP_BYTES - 4096), *chosen = CARD_AT(at + STEP_BYTES - 64);
	const struct cuda_prepare prepare = {.x = x, .q = y, .scale = z, .sum = z, .k = STEP_HIDDEN,
					     .n = 1};
	const struct cuda_norms hidden = {x, y, z, 1, STEP_HIDDEN, 1e-6F},
				heads = {x, y, z, STEP_HEADS, STEP_DIM, 1e-6F};
	const struct cuda_positions rope = {x, y, z, 1, STEP_HEADS, STEP_DIM, STEP_DIM / 2};
	const struct cuda_vectors gate = {x, y, (uint64_t)STEP_TOP_K * STEP_SIZE},
				  residual = {x, y, STEP_HIDDEN};
	const struct cuda_choice choice = {x, y, z, 1, STEP_EXPERTS, STEP_TOP_K, 1, 0, 1};
	const struct cuda_sums sums = {z, y, x, chosen, 1, STEP_TOP_K, STEP_HIDDEN};
	const struct cuda_keys keys = {.key = x, .value = y, .blocks = blocks,
				       .key_step = STEP_DIM * 64,
				       .value_offset = STEP_KV * STEP_DIM * 64,
				       .value_step = STEP_DIM * 64, .rows = 1, .heads = STEP_KV,
				       .head_dim = STEP_DIM, .half = 1};

	card_measure_kernel(c, cuda_tq_prepare_number, "2048 columns",
			    cuda_prepare_grid(cuda_tq_prepare_number, &prepare), &prepare);
	card_measure_kernel(c, cuda_block_prepare_number, "2048 columns",
			    cuda_prepare_grid(cuda_block_prepare_number, &prepare), &prepare);
	card_measure_kernel(c, cuda_rmsnorm_number, "2048", cuda_norms_grid(&hidden), &hidden);
	card_measure_kernel(c, cuda_rmsnorm_number, "32 heads of 128", cuda_norms_grid(&heads),
			    &heads);
	card_measure_kernel(c, cuda_rope_number, "32 heads",
			    cuda_items_grid(STEP_HEADS * STEP_DIM / 2), &rope);
	card_measure_kernel(c, cuda_silu_mul_number, "8 of 768", cuda_items_grid(gate.n), &gate);
	card_measure_kernel(c, cuda_add_number, "2048", cuda_items_grid(residual.n), &residual);
	card_measure_kernel(c, cuda_choose_number, "8 of 128", cuda_choice_grid(&choice), &choice);
	card_measure_kernel(c, cuda_sum_experts_number, "8 of 2048", cuda_items_grid(STEP_HIDDEN),
			    &sums);
	card_measure_kernel(c, cuda_kv_put_number, "4 heads of 128",
			    cuda_items_grid(STEP_KV * STEP_DIM), &keys);
	card_measure_attention(c, at, (uintptr_t)blocks, 256);
	card_measure_attention(c, at, (uintptr_t)blocks, STEP_POSITIONS);
	card_give(c, at);
}

void card_measure(struct card *c)
{
	static const enum format formats[] = {FORMAT_TC3, FORMAT_TC4, FORMAT_Q4_K};
	/* Of Qwen3-30B-A3B: an expert's gate, its down, a query's projection, and many at once. */
	static const struct {
		uint32_t rows, cols, matrices, n;
	} shapes[] = {{768, 2048, 8, 1},   {768, 2048, 16, 1},	{2048, 768, 8, 1},
		      {4096, 2048, 1, 1},  {2048, 4096, 1, 1},	{768, 2048, 256, 1},
		      {768, 2048, 256, 8}, {4096, 2048, 1, 8}};

	card_measure_memory(c);
	card_measure_launches(c);
	card_measure_step(c);
	for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
			card_measure_product(c, formats[f], shapes[i].rows, shapes[i].cols,
					     shapes[i].matrices, shapes[i].n);
}
