/* What a card's memory, launches, products and the other kernels of one token take: microseconds of a
 * kernel in a chain, in which each waits for the one ahead (card_chain.h); in parentheses where it may begin
 * before. Matrices of a launch are others than those of the launch before, so that they come from
 * memory. */
#include "kernels/cuda/cuda_tables.h"
#include "kernels/kernels.h"
#include "tests/cuda/card_chain.h"
#include "tests/cuda/card_runner.h"
#include "tests/unit/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAUNCHES = 200, CHAIN = 100, SLOTS = 512 };

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

#define CARD_AT(address) ((void *)(uintptr_t)(address))

/* ---- products of one token ---- */

struct product_place {
	gpu_address weights, items, count, order, x, q, scale, sum, y, pairs;
};

/* Matrices that launches take by turns: fewer where they are large. */
static uint32_t card_slots(size_t bytes)
{
	const size_t most = ((size_t)8 << 30) / bytes;
	return most < SLOTS ? (uint32_t)most : SLOTS;
}

/* Items for launches of `matrices` items of n tokens: those of a launch begin at a multiple of
 * `matrices`. */
static bool card_prepare_products(struct card *c, struct product_place *at, size_t bytes,
				  uint32_t cols, uint32_t rows, uint32_t matrices, uint32_t n)
{
	static struct cuda_item items[SLOTS];
	static uint32_t order[SLOTS * 32];
	const uint32_t turns = card_slots(bytes);
	uint16_t pairs[CUDA_PAIRS];
	struct err e;
	const struct {
		gpu_address *to;
		size_t bytes;
	} pieces[] = {{&at->weights, turns * bytes},
		      {&at->items, sizeof items},    {&at->count, sizeof matrices},
		      {&at->order, sizeof order},    {&at->x, (size_t)32 * cols * sizeof(float)},
		      {&at->q, (size_t)32 * cols},
		      {&at->scale, (size_t)32 * cols}, {&at->sum, (size_t)32 * cols},
		      {&at->y, (size_t)matrices * rows * n * sizeof(float)}, {&at->pairs, sizeof pairs}};
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
		if (card_take(c, pieces[i].bytes, pieces[i].to, &e) ||
		    c->driver.fill(*pieces[i].to, 0x35, pieces[i].bytes, c->stream)) {
			printf("# no memory for products\n");
			return false;
		}
	for (uint32_t i = 0; i < SLOTS; i++) {
		items[i] = (struct cuda_item){CARD_AT(at->weights + i * 37 % turns * bytes),
					      i % matrices * n, n};
	}
	for (uint32_t i = 0; i < SLOTS * 32; i++)
		order[i] = i;
	cuda_fill_pairs(pairs);
	return !card_copy_in(c, at->items, items, sizeof items, &e) &&
	       !card_copy_in(c, at->count, &matrices, sizeof matrices, &e) &&
	       !card_copy_in(c, at->order, order, sizeof order, &e) &&
	       !card_copy_in(c, at->pairs, pairs, sizeof pairs, &e) && !card_wait(c, &e);
}

static void card_give_products(struct card *c, const struct product_place *at)
{
	const gpu_address all[] = {at->weights, at->items, at->count, at->order, at->x,
				   at->q,	at->scale, at->sum,   at->y,	 at->pairs};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		card_give(c, all[i]);
}

/* `matrices` of one shape in one launch of a kernel, n tokens each. */
static void card_measure_product(struct card *c, enum cuda_kernel k, enum format format, uint32_t rows,
				 uint32_t cols, uint32_t matrices, uint32_t n)
{
	const struct shape s = {format, NORM_F16, rows, cols, 0};
	const size_t bytes = format_arranged_bytes(&s);
	struct product_place at = {0};
	struct card_chain chain;

	if (card_prepare_products(c, &at, bytes, cols, rows, matrices, n)) {
		struct cuda_product p = {
			.item_count = CARD_AT(at.count),
			.order = CARD_AT(at.order),
			.divide = matrices,
			.n = matrices * n,
			.most = n,
			.parts = 1,
			.x = CARD_AT(at.x),
			.q = CARD_AT(at.q),
			.scale = CARD_AT(at.scale),
			.sum = CARD_AT(at.sum),
			.y = CARD_AT(at.y),
			.ldy = rows,
			.rows = rows,
			.groups = cuda_product_groups(format, cols),
			.norm_bytes = 2,
			.kind = cuda_block_kind_of(&s),
			.trellis.pairs = CARD_AT(at.pairs),
		};
		if (format_is_tq(format))
			cuda_fill_trellis(&p.trellis, format);
		const struct cuda_room room = {c->facts.processors, c->facts.shared};
		const struct cuda_grid g = cuda_product_grid(k, &p, matrices, &room);
		const uint32_t sets = SLOTS / matrices;
		double us[2];
		for (int early = 0; early < 2; early++) {
			card_chain_begin(&chain, c, early);
			for (uint32_t i = 0; i < CHAIN; i++) {
				p.items = CARD_AT(at.items + i % sets * matrices *
								     sizeof(struct cuda_item));
				card_chain_add(&chain, k, g, &p);
			}
			us[early] = card_chain_end(&chain) / CHAIN;
		}
		printf("%s: %3u of %u x %u, %u blocks of %u threads: %.2f (%.2f) us, %.0f (%.0f) "
		       "GB/s\n",
		       cuda_kernel_name(k), matrices, rows, cols, g.x * g.y, g.threads, us[0], us[1],
		       matrices * (double)bytes / us[0] * 1e-3,
		       matrices * (double)bytes / us[1] * 1e-3);
	}
	card_give_products(c, &at);
}

/* ---- the other kernels of one token ---- */

enum { STEP_HIDDEN = 2048, STEP_HEADS = 32, STEP_KV = 4, STEP_DIM = 128, STEP_EXPERTS = 128 };
enum { STEP_TOP_K = 8, STEP_SIZE = 768, STEP_POSITIONS = 4096, STEP_SESSIONS = 16, STEP_BYTES = 160 << 20 };

static void card_measure_kernel(struct card *c, enum cuda_kernel k, const char *what,
				struct cuda_grid g, const void *operands)
{
	struct card_chain chain;
	double us[2];

	for (int early = 0; early < 2; early++) {
		card_chain_begin(&chain, c, early);
		for (size_t i = 0; i < CHAIN; i++)
			card_chain_add(&chain, k, g, operands);
		us[early] = card_chain_end(&chain) / CHAIN;
	}
	printf("%s, %s: %.2f (%.2f) us\n", cuda_kernel_name(k), what, us[0], us[1]);
}

/* Attention of n rows, each of which sees that many positions. */
static void card_measure_attention(struct card *c, gpu_address at, gpu_address rows, uint32_t n,
				   uint32_t positions)
{
	const struct cuda_attention p = {
		.q = CARD_AT(at),
		.parts = CARD_AT(at + (5 << 20)),
		.out = CARD_AT(at + (4 << 20)),
		.rows = CARD_AT(rows),
		.key_step = STEP_DIM * 64,
		.value_offset = STEP_KV * STEP_DIM * 64,
		.value_step = STEP_DIM * 64,
		.n = n,
		.heads = STEP_HEADS,
		.group = STEP_HEADS / STEP_KV,
		.head_dim = STEP_DIM,
		.spans = (positions + 255) / 256,
		.half = 1,
		.scale = 0.088F,
		.copy_keys = n == 1,
	};
	char what[64];

	snprintf(what, sizeof what, "%u rows of %u heads, %u positions", n, STEP_HEADS, positions);
	card_measure_kernel(c, cuda_attend_spans_number, what,
			    cuda_spans_grid(&p), &p);
	card_measure_kernel(c, cuda_attend_join_number, what, cuda_join_grid(&p), &p);
	const struct cuda_join_inputs join = {.attention = p, .q = CARD_AT(at + (4 << 20)),
					      .scale = CARD_AT(at + (9 << 19))};
	card_measure_kernel(c, cuda_join_kernel(&join), what, cuda_join_inputs_grid(&join), &join);
	struct cuda_attend_heads together = {
		.attention = p,
		.heads = {.keys = {.key = p.q, .value = p.q, .rows = p.rows, .key_step = p.key_step,
				   .value_offset = p.value_offset, .value_step = p.value_step, .n = n,
				   .heads = STEP_KV, .head_dim = STEP_DIM, .half = 1},
			  .key = CARD_AT(at + (4 << 20)), .q_from = p.q, .q_step = STEP_DIM, .q_norm = p.q,
			  .key_norm = p.q, .cos = p.q, .sin = p.q, .heads = STEP_HEADS,
			  .turned = STEP_DIM / 2}};
	const struct cuda_room room = {c->facts.processors, c->facts.shared};
	const struct cuda_grid g = cuda_attend_heads_grid(&together);
	if (cuda_attends_heads(&together, &room))
		card_measure_kernel(c, cuda_attend_heads_number, what, g, &together);
}

/* What a step's piece of memory has at its end. */
struct step_end {
	uint64_t blocks[STEP_SESSIONS][STEP_POSITIONS / 64];
	struct cuda_row few[STEP_SESSIONS], many[STEP_SESSIONS]; /* the last of 256 positions, and of all */
	uint32_t chosen[STEP_TOP_K];
	uint64_t slots[STEP_EXPERTS];
};

/* All operands lie in one piece of memory: 4 MiB of usual numbers, and of what is written. */
static bool card_prepare_step(struct card *c, gpu_address at)
{
	enum { BLOCK_BYTES = 2 * STEP_KV * STEP_DIM * 64 * 2 };
	static struct step_end end;
	static float numbers[1 << 20];
	struct random random = {1};
	const gpu_address end_at = at + STEP_BYTES - sizeof end;
	struct err e;

	for (uint32_t i = 0; i < STEP_SESSIONS; i++) {
		const struct cuda_row row = {.blocks = CARD_AT(end_at + i * sizeof *end.blocks), .context = i};
		end.few[i] = end.many[i] = row;
		end.few[i].position = end.few[i].first = 255;
		end.many[i].position = end.many[i].first = STEP_POSITIONS - 1;
	}
	for (uint32_t i = 0; i < STEP_SESSIONS * STEP_POSITIONS / 64; i++)
		end.blocks[i / (STEP_POSITIONS / 64)][i % (STEP_POSITIONS / 64)] =
			at + (16 << 20) + (uint64_t)i * BLOCK_BYTES;
	for (uint32_t i = 0; i < STEP_TOP_K; i++)
		end.chosen[i] = i * 37 % STEP_TOP_K;
	for (uint32_t i = 0; i < STEP_EXPERTS; i++)
		end.slots[i] = at;
	random_normal(&random, numbers, sizeof numbers / sizeof *numbers);
	return !c->driver.fill(at, 0x35, STEP_BYTES, c->stream) &&
	       !card_copy_in(c, at, numbers, sizeof numbers, &e) &&
	       !card_copy_in(c, end_at, &end, sizeof end, &e) && !card_wait(c, &e);
}

/* A plain router, and one as of DeepSeek-V3. */
static void card_measure_routers(struct card *c, const struct cuda_route *plain, const float *correction)
{
	struct cuda_route grouped = *plain;

	grouped.choice.order = CUDA_SIGMOIDS;
	grouped.choice.correction = correction;
	grouped.choice.groups = 8;
	grouped.choice.top_groups = 4;
	card_measure_kernel(c, cuda_route_number, "8 of 128", cuda_choice_grid(&plain->choice), plain);
	card_measure_kernel(c, cuda_route_any_number, "8 of 128 in 8 groups",
			    cuda_choice_grid(&grouped.choice), &grouped);
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
	     *q = CARD_AT(at + (4 << 20)), *to = CARD_AT(at + (5 << 20)), *to_rows = CARD_AT(at + (6 << 20)),
	     *chosen, *slots;
	const gpu_address end = at + STEP_BYTES - sizeof(struct step_end);
	const gpu_address few = end + offsetof(struct step_end, few),
			  many = end + offsetof(struct step_end, many);
	chosen = CARD_AT(end + offsetof(struct step_end, chosen));
	slots = CARD_AT(end + offsetof(struct step_end, slots));
	const struct cuda_prepare prepare = {.x = x, .q = q, .scale = to, .sum = to, .k = STEP_HIDDEN,
					     .n = 1};
	const struct cuda_norms hidden = {x, y, to, 1, STEP_HIDDEN, 1e-6F},
				heads = {x, y, to, STEP_HEADS, STEP_DIM, 1e-6F};
	const struct cuda_positions rope = {x, y, z, 1, STEP_HEADS, STEP_DIM, STEP_DIM / 2};
	const struct cuda_vectors gate = {x, y, (uint64_t)STEP_TOP_K * STEP_SIZE},
				  residual = {x, y, STEP_HIDDEN};
	const struct cuda_choice choice = {.logits = x, .chosen = q, .weight = to,
					   .rank = (uint32_t *)q + 8192, .rows = 1,
					   .experts = STEP_EXPERTS, .top_k = STEP_TOP_K,
					   .normalise = 1, .multiplier = 1, .scaling = 1};
	const struct cuda_sums sums = {.factor = 1, .y = to, .x = y, .weight = x, .chosen = chosen, .rows = 1,
				      .top_k = STEP_TOP_K, .width = STEP_HIDDEN,
				      .experts = STEP_EXPERTS};
	struct cuda_groups groups = {.chosen = chosen, .slots = slots, .rows = 1,
				     .top_k = STEP_TOP_K, .experts = STEP_EXPERTS, .most = 1,
				     .order = to, .items = q, .item_count = (uint32_t *)q + 4096};
	const struct cuda_keys keys = {.key = x, .value = y, .rows = CARD_AT(few),
				       .key_step = STEP_DIM * 64,
				       .value_offset = STEP_KV * STEP_DIM * 64,
				       .value_step = STEP_DIM * 64, .n = 1, .heads = STEP_KV,
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
	const struct cuda_norm_inputs norm = {.x = x, .to = to_rows, .added = y, .w = z, .q = q, .scale = to, .rows = 1,
					      .n = STEP_HIDDEN, .eps = 1e-6F},
				      sum = {.x = x, .to = to_rows,
					     .experts = {.outputs = y, .weight = z, .top_k = STEP_TOP_K},
					     .w = z, .q = q, .scale = to, .rows = 1, .n = STEP_HIDDEN};
	const struct cuda_gate_inputs gates = {.gate = x, .up = z, .q = q, .scale = to, .k = STEP_SIZE,
					       .n = STEP_TOP_K},
				      prompt = {.gate = x, .up = CARD_AT(at + (8 << 20)), .q = q,
						.scale = to, .k = STEP_SIZE, .n = 1024};
	const struct cuda_prepare rows = {.x = x, .q = q, .scale = to, .k = STEP_SIZE, .n = 1024};
	const struct cuda_heads place = {.keys = keys, .q = x, .key = x, .q_from = x, .q_step = STEP_DIM, .q_norm = z, .key_norm = z, .cos = z,
					 .sin = z, .heads = STEP_HEADS, .turned = STEP_DIM / 2};
	const struct cuda_route route = {.choice = choice, .groups = groups};
	card_measure_kernel(c, cuda_norm_kernel(&norm), "2048, added", cuda_norm_inputs_grid(&norm), &norm);
	card_measure_kernel(c, cuda_norm_kernel(&sum), "2048, 8 experts", cuda_norm_inputs_grid(&sum), &sum);
	card_measure_kernel(c, cuda_gate_kernel(&gates), "8 of 768", cuda_gate_inputs_grid(&gates),
			    &gates);
	card_measure_kernel(c, cuda_gate_kernel(&prompt), "1024 of 768", cuda_gate_inputs_grid(&prompt),
			    &prompt);
	card_measure_kernel(c, cuda_tq_prepare_number, "1024 of 768",
			    cuda_prepare_grid(cuda_tq_prepare_number, &rows), &rows);
	card_measure_kernel(c, cuda_place_heads_number, "32, 4 and 4", cuda_heads_grid(&place), &place);
	card_measure_routers(c, &route, z);
	card_measure_kernel(c, cuda_group_number, "8 of 128", cuda_groups_grid(&groups), &groups);
	for (uint32_t n = 1; n <= STEP_SESSIONS; n *= STEP_SESSIONS) {
		card_measure_attention(c, at, few, n, 256);
		card_measure_attention(c, at, many, n, STEP_POSITIONS);
	}
	card_give(c, at);
}

/* Matrices of one launch, n tokens each. */
struct card_shape {
	uint32_t rows, cols, matrices, n;
};

static void card_measure_products(struct card *c, const enum format *formats, size_t format_count,
				  const struct card_shape *shapes, size_t count)
{
	const struct cuda_room room = {c->facts.processors, c->facts.shared};

	for (size_t i = 0; i < format_count * count; i++) {
		const enum format f = formats[i / count];
		const struct card_shape *s = &shapes[i % count];
		/* The kernel for few tiles, and the one for many. */
		const enum cuda_kernel kernels[] = {cuda_product_kernel(f, s->n),
						    cuda_kernel_for(f, s->n, SIZE_MAX, &room)};
		for (size_t k = 0; k < 2; k++)
			if (kernels[k] != CUDA_KERNEL_COUNT && (k == 0 || kernels[1] != kernels[0]))
				card_measure_product(c, kernels[k], f, s->rows, s->cols, s->matrices,
						     s->n);
	}
}

void card_measure(struct card *c)
{
	static const enum format matrices[] = {FORMAT_TC3,  FORMAT_TC4,	       FORMAT_Q4_K,  FORMAT_Q6_K,
					       FORMAT_Q8_0, FORMAT_MXFP4_GGUF, FORMAT_IQ4_XS},
				 heads[] = {FORMAT_TC3, FORMAT_Q6_K}, routers[] = {FORMAT_F32};
	/* An expert's gate, its down, a query's projection, and many at once. */
	static const struct card_shape shapes[] = {
		{768, 2048, 8, 1},   {768, 2048, 16, 1},  {2048, 768, 8, 1},   {4096, 2048, 1, 1},
		{2048, 4096, 1, 1},  {128, 2048, 1, 1},	  {768, 2048, 256, 1}, {768, 2048, 256, 8},
		{2048, 768, 64, 8},  {768, 2048, 64, 8},  {4096, 2048, 1, 8},
		{768, 2048, 256, 32}, {4096, 2048, 8, 32}};
	static const struct card_shape head[] = {{151936, 2048, 1, 1}},
				       router[] = {{128, 2048, 1, 1}, {128, 2048, 1, 8}};

	card_measure_memory(c);
	card_measure_launches(c);
	card_measure_step(c);
	card_measure_products(c, matrices, sizeof matrices / sizeof *matrices, shapes,
			      sizeof shapes / sizeof *shapes);
	card_measure_products(c, heads, sizeof heads / sizeof *heads, head, 1);
	card_measure_products(c, routers, 1, router, sizeof router / sizeof *router);
}
