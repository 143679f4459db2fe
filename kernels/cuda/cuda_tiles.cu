/* Products of TC3 and TC4 of so many tiles of 16 rows that there is one for every warp: experts of several
 * sessions, and prompts.
 *
 * A warp has a tile and adds its dots at once, in order: of the sums of cuda_multiply_tile each thread
 * has two rows and two tokens of eight, so it has their chains in registers. No sums are exchanged, and
 * no warp waits for another one: while one looks for its next tile, the others multiply. Where there
 * are few tiles, most warps would have none (cuda_product.cu). */
#include "kernels/cuda/cuda_codes.h"

/* A launch; bits, sets (of eight tokens), copies (of pairs) and, in the kernel for most matrices, norm_bytes are
 * constants. */
struct cuda_tiles_run {
	const struct cuda_product *p;
	uint32_t bits, sets, norm_bytes;
	uint32_t bytes; /* of a group of a tile */
	uint32_t first, room; /* of shared memory: the first byte for groups, and bytes of one */
	struct cuda_pairs pairs;
};

/* A warp's tile, as a thread sees it. */
struct cuda_own_tile {
	const uint8_t *weights; /* the thread's first 16 bytes of a group */
	struct cuda_item item;
	uint32_t row, part;
	const struct cuda_quad *input[CUDA_SETS_MOST]; /* of a group */
	const float *scale[CUDA_SETS_MOST][2];	       /* of the tokens of its sums */
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
	t.weights = cuda_matrix_of(p, t.item, t.part) + (size_t)tile * p->groups * r->bytes + lane * 16;
	CUDA_UNROLL
	for (uint32_t i = 0; i < r->sets; i++) {
		const uint32_t assignment = cuda_assignment_of(p, t.item, i * 8 + lane / 4);
		const uint32_t first = assignment / p->divide * p->groups;
		t.input[i] = (const struct cuda_quad *)(const void *)p->q +
			     (size_t)first * (CUDA_GROUP / 16) + lane % 4 * 2;
		t.scale[i][0] = p->scale + cuda_from_lane(first, lane % 4 * 8);
		t.scale[i][1] = p->scale + cuda_from_lane(first, lane % 4 * 8 + 4);
	}
	return t;
}

/* ---- a group ---- */

/* A thread's part of a group's weights: its slab, and the norms of its two rows. */
struct cuda_tile_group {
	struct cuda_slab slab;
	struct cuda_two norms;
};

/* Bytes of shared memory: where the thread copies weights to, sixteen bytes each, and where its slab and norms are
 * then. Slabs begin in different banks, so that threads with the same rows do not wait for each other. */
enum { CUDA_TILE_CHUNKS = 3 /* of a thread at most */ };
struct cuda_tile_room {
	uint32_t to[CUDA_TILE_CHUNKS], slab, norms;
};

/* Of the first of a warp's groups. */
CUDA_THREAD struct cuda_tile_room cuda_tile_room_of(const struct cuda_tiles_run *r)
{
	const uint32_t warp = cuda_thread() / CUDA_WARP, lane = cuda_thread() % CUDA_WARP;
	const uint32_t at = r->first + warp * CUDA_TILE_GROUPS * r->room;
	const uint32_t slab = r->bits * CUDA_ROWS * 4;
	struct cuda_tile_room room;

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_TILE_CHUNKS; i++) {
		const uint32_t byte = (lane + i * CUDA_WARP) * 16;
		room.to[i] = at + byte + byte / slab * CUDA_TILE_GAP;
	}
	room.slab = at + lane % 4 * (slab + CUDA_TILE_GAP) + lane / 4 * 8;
	room.norms = at + 4 * (slab + CUDA_TILE_GAP) + lane / 4 * 2 * r->norm_bytes;
	return room;
}

/* Begins to copy a group from the thread's first bytes on, to room `at` bytes after the first. */
CUDA_THREAD void cuda_tile_group_copy(const struct cuda_tiles_run *r, const struct cuda_tile_room *room, uint32_t at,
				      const uint8_t *from)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, all = 16 * r->bits + r->norm_bytes;

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_TILE_CHUNKS; i++)
		if ((i + 1) * CUDA_WARP <= 16 * r->bits ||
		    (i * CUDA_WARP < 16 * r->bits + 4 && i * CUDA_WARP + lane < all))
			cuda_copy16_at(room->to[i] + at, from + i * CUDA_WARP * 16);
	cuda_copies_end();
}

CUDA_THREAD void cuda_tile_group_load(struct cuda_tile_group *x, const struct cuda_tiles_run *r,
				      const struct cuda_tile_room *room, uint32_t at)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < r->bits; i++)
		x->slab.plane[i] = cuda_shared_two(room->slab + at + i * CUDA_ROWS * 4);
	x->norms.row[1] = 0;
	if (r->norm_bytes == 4)
		x->norms = cuda_shared_two(room->norms + at);
	else
		x->norms.row[0] = cuda_shared_number(room->norms + at);
}

/* And of its inputs: those of the thread's slab, and the scales of the tokens of its sums. */
struct cuda_tile_inputs {
	struct cuda_slab_inputs slab;
	float scale[CUDA_SETS_MOST][2];
};

/* Those of a group, and moves on to the next one. */
CUDA_THREAD void cuda_tile_inputs_load(struct cuda_tile_inputs *in, const struct cuda_tiles_run *r,
				       struct cuda_own_tile *t)
{
	in->slab.sets = r->sets;
	CUDA_UNROLL
	for (uint32_t i = 0; i < r->sets; i++) {
		in->slab.set[i][0] = t->input[i][0];
		in->slab.set[i][1] = t->input[i][1];
		t->input[i] += CUDA_GROUP / 16;
		in->scale[i][0] = *t->scale[i][0]++;
		in->scale[i][1] = *t->scale[i][1]++;
	}
}

/* Adds a group's dots, which are exact, times norms and scales. */
CUDA_THREAD void cuda_tile_add(struct cuda_tile_chains *y, const struct cuda_tiles_run *r,
			       const struct cuda_tile_group *x, const struct cuda_tile_inputs *in,
			       const struct cuda_dots *dots)
{
	const float gain = r->p->trellis.gain;
	const float norm[2] = {cuda_norm_of_two(x->norms, 0, r->norm_bytes),
			       cuda_norm_of_two(x->norms, 1, r->norm_bytes)};

	CUDA_UNROLL
	for (uint32_t i = 0; i < r->sets; i++) {
		const float scale[2] = {in->scale[i][0] * gain, in->scale[i][1] * gain};
		CUDA_UNROLL
		for (uint32_t k = 0; k < 4; k++)
			y->set[i][k] = cuda_fma((float)dots->set[i][k], norm[k / 2] * scale[k % 2],
						y->set[i][k]);
	}
}

/* ---- a tile ---- */

/* While a group is decoded, the next one is on its way to shared memory. It would do in registers; but so there are
 * enough of them for all else that a group needs. Tiles are not brought closer in whole: all that a GPU's warps
 * have at once are more than its cache holds. */
CUDA_THREAD void cuda_tile_multiply(struct cuda_tile_chains *y, const struct cuda_tiles_run *r,
				    struct cuda_own_tile *t)
{
	const struct cuda_tile_room room = cuda_tile_room_of(r);
	const uint8_t *from = t->weights;
	uint32_t at = 0;

	cuda_tile_group_copy(r, &room, 0, from);
	if (r->p->groups > 1)
		cuda_tile_group_copy(r, &room, r->room, from + r->bytes);
	else
		cuda_copies_end();
	CUDA_ROLLED
	for (uint32_t left = r->p->groups; left > 0; left--, from += r->bytes, at = r->room - at) {
		struct cuda_tile_group x;
		struct cuda_tile_inputs in;
		struct cuda_dots dots = {{{0}}};
		cuda_tile_inputs_load(&in, r, t);
		cuda_copies_wait_but_last();
		cuda_warp_barrier();
		cuda_tile_group_load(&x, r, &room, at);
		cuda_warp_barrier();
		if (left > CUDA_TILE_GROUPS)
			cuda_tile_group_copy(r, &room, at, from + CUDA_TILE_GROUPS * r->bytes);
		else
			cuda_copies_end();
		if (r->bits == 3)
			cuda_tc3_multiply(&dots, &x.slab, &in.slab, &r->pairs);
		else
			cuda_tc4_multiply(&dots, &x.slab, &in.slab, &r->p->trellis);
		cuda_tile_add(y, r, &x, &in, &dots);
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
			       uint32_t copies, uint32_t norm_bytes)
{
	const struct cuda_tiles_run r = {
		p, bits, sets, norm_bytes, CUDA_ROWS * (16 * bits + norm_bytes),
		cuda_shared_byte(cuda_shared()) + copies * CUDA_PAIRS * (uint32_t)sizeof(uint32_t),
		CUDA_ROWS * (16 * bits + norm_bytes) + 4 * CUDA_TILE_GAP, cuda_pairs_of(copies ? copies : 1)};

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
		struct cuda_own_tile t = cuda_own_tile_of(&r, i);
		struct cuda_tile_chains y = {{{0}}};
		cuda_tile_multiply(&y, &r, &t);
		cuda_tile_put(&r, &t, &y);
	}
}

/* threads: of a block. Most norms have two bytes, and most GPUs of data centres room for 32 copies. */
#define CUDA_TC_TILES(tokens, threads)                                        \
	CUDA_KERNEL_OF(threads) cuda_tc3_tiles_##tokens(struct cuda_product p) \
	{                                                                     \
		if (p.sharing.copies == 32 && p.norm_bytes == 2)              \
			cuda_tc_tiles(&p, 3, tokens / 8, 32, 2);              \
		else if (p.sharing.copies == 32)                              \
			cuda_tc_tiles(&p, 3, tokens / 8, 32, p.norm_bytes);   \
		else                                                          \
			cuda_tc_tiles(&p, 3, tokens / 8, 16, p.norm_bytes);   \
	}                                                                     \
	CUDA_KERNEL_OF(512) cuda_tc4_tiles_##tokens(struct cuda_product p)    \
	{                                                                     \
		if (p.norm_bytes == 2)                                        \
			cuda_tc_tiles(&p, 4, tokens / 8, 0, 2);               \
		else                                                          \
			cuda_tc_tiles(&p, 4, tokens / 8, 0, p.norm_bytes);    \
	}
CUDA_TC_TILES(8, 1024)
CUDA_TC_TILES(32, 512)
