/* Products of TC3 and TC4 of so many tiles of 16 rows that there is one for every warp: experts of several
 * sessions, and prompts.
 *
 * A warp has a tile and adds its dots at once, in order: of the sums of cuda_multiply_tile each thread
 * has two rows and two tokens of eight, so it has their chains in registers. Nothing is exchanged, and
 * no warp waits for another one: while one looks for its next tile, the others multiply. Where there
 * are few tiles, most warps would have none (cuda_product.cu). */
#include "kernels/cuda/cuda_codes.h"

/* A launch; bits, sets (of eight tokens) and copies (of pairs) are constants. */
struct cuda_tiles_run {
	const struct cuda_product *p;
	uint32_t bits, sets;
	uint32_t bytes; /* of a group of a tile */
	struct cuda_pairs pairs;
};

/* A warp's tile, as a thread sees it. */
struct cuda_own_tile {
	const uint8_t *weights;
	struct cuda_item item;
	uint32_t row, part;
	uint32_t input[CUDA_SETS_MOST];	   /* the first groups of the thread's inputs */
	uint32_t scale[CUDA_SETS_MOST][2]; /* and of the tokens of its sums */
};

/* Of each set of eight tokens: row 2 g with token 2 c and then 2 c + 1, row 2 g + 1 likewise. */
struct cuda_tile_chains {
	float set[CUDA_SETS_MOST][4];
};

/* The tile of that number among all of the launch. */
CUDA_THREAD struct cuda_own_tile cuda_own_tile_of(const struct cuda_tiles_run *r, uint32_t number)
{
	const struct cuda_product *p = r->p;
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const uint32_t matrix = number / p->sharing.tiles, tile = number % p->sharing.tiles;
	struct cuda_own_tile t;

	t.item = cuda_item_of(p, matrix / p->parts);
	t.part = matrix % p->parts;
	t.row = tile * CUDA_ROWS;
	t.weights = cuda_matrix_of(p, t.item, t.part) + (size_t)tile * p->groups * r->bytes;
	if (lane == 0)
		cuda_prefetch(t.weights, p->groups * r->bytes);
	CUDA_UNROLL
	for (uint32_t i = 0; i < r->sets; i++) {
		const uint32_t assignment = cuda_assignment_of(p, t.item, i * 8 + lane / 4);
		t.input[i] = assignment / p->divide * p->groups;
		t.scale[i][0] = cuda_from_lane(t.input[i], lane % 4 * 8);
		t.scale[i][1] = cuda_from_lane(t.input[i], lane % 4 * 8 + 4);
	}
	return t;
}

/* ---- a group ---- */

/* What a thread loads of a group's weights: its slab, and the norms of its two rows. */
struct cuda_tile_group {
	struct cuda_slab slab;
	struct cuda_two norms;
};

CUDA_THREAD void cuda_tile_group_load(struct cuda_tile_group *to, const struct cuda_tiles_run *r,
				      const struct cuda_own_tile *t, uint32_t group)
{
	const uint8_t *weights = t->weights + (size_t)group * r->bytes;

	cuda_slab_load(&to->slab, r->bits, weights);
	to->norms = cuda_two_norms(weights + CUDA_ROWS * 16 * r->bits, r->p->norm_bytes);
}

CUDA_THREAD void cuda_tile_inputs_load(struct cuda_slab_inputs *in, const struct cuda_tiles_run *r,
				       const struct cuda_own_tile *t, uint32_t group)
{
	in->sets = r->sets;
	CUDA_UNROLL
	for (uint32_t i = 0; i < r->sets; i++) {
		const struct cuda_quad *q = (const struct cuda_quad *)(const void *)r->p->q +
					    (size_t)(t->input[i] + group) * (CUDA_GROUP / 16) +
					    cuda_thread() % 4 * 2;
		in->set[i][0] = q[0];
		in->set[i][1] = q[1];
	}
}

/* Adds a group's dots, which are exact, times norms and scales. */
CUDA_THREAD void cuda_tile_add(struct cuda_tile_chains *y, const struct cuda_tiles_run *r,
			       const struct cuda_own_tile *t, const struct cuda_tile_group *x,
			       const struct cuda_dots *dots, uint32_t group)
{
	const struct cuda_product *p = r->p;
	const float norm[2] = {cuda_norm_of_two(x->norms, 0, p->norm_bytes),
			       cuda_norm_of_two(x->norms, 1, p->norm_bytes)};

	CUDA_UNROLL
	for (uint32_t i = 0; i < r->sets; i++) {
		const float scale[2] = {p->scale[t->scale[i][0] + group] * p->trellis.gain,
					p->scale[t->scale[i][1] + group] * p->trellis.gain};
		CUDA_UNROLL
		for (uint32_t k = 0; k < 4; k++)
			y->set[i][k] = cuda_fma((float)dots->set[i][k], norm[k / 2] * scale[k % 2],
						y->set[i][k]);
	}
}

/* ---- a tile ---- */

/* The next group's weights are loaded while one is decoded. */
CUDA_THREAD void cuda_tile_multiply(struct cuda_tile_chains *y, const struct cuda_tiles_run *r,
				    const struct cuda_own_tile *t)
{
	struct cuda_tile_group next;

	cuda_tile_group_load(&next, r, t, 0);
	CUDA_ROLLED
	for (uint32_t group = 0; group < r->p->groups; group++) {
		const struct cuda_tile_group x = next;
		struct cuda_slab_inputs in;
		struct cuda_dots dots = {{{0}}};
		cuda_tile_inputs_load(&in, r, t, group);
		if (group + 1 < r->p->groups)
			cuda_tile_group_load(&next, r, t, group + 1);
		if (r->bits == 3)
			cuda_tc3_multiply(&dots, &x.slab, &in, &r->pairs);
		else
			cuda_tc4_multiply(&dots, &x.slab, &in, &r->p->trellis);
		cuda_tile_add(y, r, t, &x, &dots, group);
	}
}

CUDA_THREAD void cuda_tile_put(const struct cuda_tiles_run *r, const struct cuda_own_tile *t,
			       const struct cuda_tile_chains *y)
{
	const struct cuda_product *p = r->p;
	const uint32_t lane = cuda_thread() % CUDA_WARP, row = t->row + lane / 4 * 2;

	CUDA_UNROLL
	for (uint32_t i = 0; i < r->sets * 2; i++) {
		const uint32_t token = i / 2 * 8 + lane % 4 * 2 + i % 2;
		if (token >= t->item.n)
			continue;
		float *to = p->y + t->part * p->y_part +
			    cuda_assignment_of(p, t->item, token) * p->ldy + row;
		if (row < p->rows)
			to[0] = y->set[i / 2][i % 2];
		if (row + 1 < p->rows)
			to[1] = y->set[i / 2][i % 2 + 2];
	}
}

CUDA_THREAD void cuda_tc_tiles(const struct cuda_product *p, uint32_t bits, uint32_t sets,
			       uint32_t copies)
{
	const struct cuda_tiles_run r = {p, bits, sets, CUDA_ROWS * (16 * bits + p->norm_bytes),
					 cuda_pairs_of(copies ? copies : 1)};

	cuda_let_next_begin();
	if (bits == 3)
		cuda_copy_pairs(p->trellis.pairs, copies);
	cuda_wait_for_ahead();
	cuda_barrier();
	const uint32_t all = cuda_tiles_in_all(p);
	const uint32_t to = cuda_share(&p->sharing, all, cuda_block_x() + 1);
	CUDA_ROLLED
	for (uint32_t i = cuda_share(&p->sharing, all, cuda_block_x()) + cuda_thread() / CUDA_WARP;
	     i < to; i += cuda_threads() / CUDA_WARP) {
		const struct cuda_own_tile t = cuda_own_tile_of(&r, i);
		struct cuda_tile_chains y = {{{0}}};
		cuda_tile_multiply(&y, &r, &t);
		cuda_tile_put(&r, &t, &y);
	}
}

/* threads: of a block. */
#define CUDA_TC_TILES(tokens, threads)                                        \
	CUDA_KERNEL_OF(threads) cuda_tc3_tiles_##tokens(struct cuda_product p) \
	{                                                                     \
		if (p.sharing.copies == 32)                                   \
			cuda_tc_tiles(&p, 3, tokens / 8, 32);                 \
		else                                                          \
			cuda_tc_tiles(&p, 3, tokens / 8, 16);                 \
	}                                                                     \
	CUDA_KERNEL_OF(512) cuda_tc4_tiles_##tokens(struct cuda_product p)    \
	{                                                                     \
		cuda_tc_tiles(&p, 4, tokens / 8, 0);                          \
	}
CUDA_TC_TILES(8, 1024)
CUDA_TC_TILES(32, 512)
