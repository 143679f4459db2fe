/* Products of TC and TQ with the inputs of items, of one token, of up to 8, 16 or 32.
 *
 * The blocks of threads share all tiles of 16 rows evenly, each takes some that follow each other. It has
 * room for what its warps find in so many pieces, a group of a tile each: a warp multiplies a piece, the
 * dots are exact; then one thread for each row and token adds the pieces of its row in ascending
 * order. */
#include "kernels/cuda/cuda_codes.h"

/* The shared memory: the pairs of TC3, then this. */
struct cuda_found {
	struct cuda_tiles tiles;
	float *scale; /* [pieces][tokens]: of an input's group, times the gain */
	float *norm;  /* [pieces][16] */
	float *dot;   /* [pieces][tokens][16]; of one token [pieces][16][2], and the factor with it, which is all */
};

/* A launch as a block of threads sees it; bits of TC, tokens and copies (of pairs) are constants. */
struct cuda_run {
	const struct cuda_product *p;
	bool tq;
	uint32_t bits, tokens;
	uint32_t bytes; /* of a piece's weights */
	struct cuda_found found;
	struct cuda_pairs pairs;
};

/* bits: 0 for TQ, where they are the product's. */
CUDA_THREAD struct cuda_run cuda_run_of(const struct cuda_product *p, uint32_t bits, uint32_t tokens,
					uint32_t copies)
{
	struct cuda_run r;

	r.p = p;
	r.tq = bits == 0;
	r.bits = r.tq ? p->trellis.bits : bits;
	r.tokens = tokens;
	r.bytes = CUDA_ROWS * (16 * r.bits + p->norm_bytes);
	r.pairs = cuda_pairs_of(copies ? copies : 1);
	r.found.tiles = cuda_tiles_at((uint8_t *)cuda_shared() + copies * CUDA_PAIRS * sizeof(uint32_t),
				      p, tokens);
	r.found.scale = (float *)(void *)(r.found.tiles.input + tokens * p->sharing.at_once);
	r.found.norm = r.found.scale + tokens * p->sharing.pieces;
	r.found.dot = tokens == 1 ? r.found.scale : r.found.norm + CUDA_ROWS * p->sharing.pieces;
	return r;
}

/* ---- pieces ---- */

/* A thread's part of a piece. */
struct cuda_piece {
	struct cuda_piece_place at;
	struct cuda_slab slab;
	struct cuda_two norm; /* bits: of one token, of the thread's two rows; else of one row */
};

CUDA_THREAD void cuda_piece_load(const struct cuda_run *r, struct cuda_piece *x, uint32_t first)
{
	const uint32_t row = cuda_thread() % CUDA_ROWS;
	const uint8_t *weights =
		r->found.tiles.tile[x->at.tile].weights + (first + x->at.group) * r->bytes;

	cuda_slab_load(&x->slab, r->bits, weights);
	if (r->tokens == 1)
		x->norm = cuda_two_norms(weights + CUDA_ROWS * 16 * r->bits, r->p->norm_bytes);
	else
		x->norm.row[0] = cuda_norm_bits(weights + CUDA_ROWS * 16 * r->bits, row, r->p->norm_bytes);
}

/* The thread's inputs of a piece, and its tokens' scales. */
struct cuda_piece_inputs {
	struct cuda_slab_inputs slab;
	float scale[CUDA_SETS_MOST];
};

CUDA_THREAD void cuda_piece_inputs_load(struct cuda_piece_inputs *in, const struct cuda_run *r,
					const struct cuda_piece *x, uint32_t first)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, token = r->tokens == 1 ? 0 : lane / 4;
	const uint32_t *input = r->found.tiles.input + x->at.tile * r->tokens + token;

	in->slab.sets = r->tokens <= 8 ? 1 : r->tokens / 8;
	CUDA_UNROLL
	for (uint32_t i = 0; i < in->slab.sets; i++) {
		const uint32_t at = input[i * 8] + first + x->at.group;
		const struct cuda_quad *q = (const struct cuda_quad *)(const void *)r->p->q +
					    (size_t)at * (CUDA_GROUP / 16) + lane % 4 * 2;
		in->slab.set[i][0] = q[0];
		in->slab.set[i][1] = q[1];
		in->scale[i] = r->p->scale[at];
	}
}

/* Of one token: of thread 4 g the dots of the rows 2 g and 2 g + 1, and what each is multiplied by. */
CUDA_THREAD void cuda_piece_put_one(const struct cuda_run *r, const struct cuda_piece *x,
				    const struct cuda_piece_inputs *in, uint32_t groups,
				    const struct cuda_dots *dots)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, row = lane / 4 * 2;
	const uint32_t piece = x->at.tile * groups + x->at.group, bytes = r->p->norm_bytes;
	const float scale = in->scale[0] * r->p->trellis.gain;
	const struct cuda_quad both = {{cuda_bits((float)dots->set[0][0]),
					cuda_bits(cuda_norm_of_two(x->norm, 0, bytes) * scale),
					cuda_bits((float)dots->set[0][2]),
					cuda_bits(cuda_norm_of_two(x->norm, 1, bytes) * scale)}};

	if (lane % 4 == 0)
		*(struct cuda_quad *)(void *)(r->found.dot + (piece * CUDA_ROWS + row) * 2) = both;
}

/* Of thread 4 g + c the dots of the rows 2 g and 2 g + 1 with the tokens 2 c and 2 c + 1 of each set. */
CUDA_THREAD void cuda_piece_put(const struct cuda_run *r, const struct cuda_piece *x,
				const struct cuda_piece_inputs *in, uint32_t groups,
				const struct cuda_dots *dots)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, row = lane / 4 * 2;
	const uint32_t piece = x->at.tile * groups + x->at.group;
	const struct cuda_found *f = &r->found;

	if (lane < CUDA_ROWS)
		f->norm[piece * CUDA_ROWS + lane] = cuda_norm(x->norm.row[0], r->p->norm_bytes);
	CUDA_UNROLL
	for (uint32_t i = 0; i < in->slab.sets; i++) {
		const uint32_t token = i * 8 + lane % 4 * 2;
		float *to = f->dot + (piece * r->tokens + token) * CUDA_ROWS + row;
		if (lane % 4 == 0)
			f->scale[piece * r->tokens + i * 8 + lane / 4] =
				in->scale[i] * r->p->trellis.gain;
		to[0] = (float)dots->set[i][0];
		to[1] = (float)dots->set[i][2];
		to[CUDA_ROWS] = (float)dots->set[i][1];
		to[CUDA_ROWS + 1] = (float)dots->set[i][3];
	}
}

/* The first piece of this warp. */
CUDA_THREAD struct cuda_piece cuda_piece_first(const struct cuda_run *r, uint32_t tiles, uint32_t first,
					       uint32_t groups)
{
	struct cuda_piece x = {0};

	x.at = cuda_first_place(groups);
	if (x.at.tile < tiles)
		cuda_piece_load(r, &x, first);
	return x;
}

/* Of some tiles the groups of a pass, from `first` on; `next` is the first piece of this warp. The next
 * piece is loaded while one is decoded. */
CUDA_THREAD void cuda_find_pieces(const struct cuda_run *r, struct cuda_piece next, uint32_t tiles,
				  uint32_t first, uint32_t groups)
{
	while (next.at.tile < tiles) {
		const struct cuda_piece x = next;
		struct cuda_piece_inputs in;
		struct cuda_dots dots = {{{0}}};
		cuda_piece_inputs_load(&in, r, &x, first);
		next.at = cuda_next_place(next.at, &r->p->sharing, groups);
		if (next.at.tile < tiles)
			cuda_piece_load(r, &next, first);
		if (r->tq)
			cuda_tq_multiply(&dots, &x.slab, &in.slab, &r->p->trellis);
		else if (r->bits == 3)
			cuda_tc3_multiply(&dots, &x.slab, &in.slab, &r->pairs);
		else if (r->bits == 2)
			cuda_tc2_multiply(&dots, &x.slab, &in.slab, &r->p->trellis);
		else
			cuda_tc4_multiply(&dots, &x.slab, &in.slab, &r->p->trellis);
		if (r->tokens == 1)
			cuda_piece_put_one(r, &x, &in, groups, &dots);
		else
			cuda_piece_put(r, &x, &in, groups, &dots);
	}
}

/* ---- sums ---- */

/* y of one token with the groups of a pass. */
CUDA_THREAD float cuda_groups_added_one(const struct cuda_run *r, struct cuda_sum_place at,
					uint32_t groups, float y)
{
	const float *found = r->found.dot + (at.tile * groups * CUDA_ROWS + at.row) * 2;

	CUDA_UNROLL_8
	for (uint32_t g = 0; g < groups; g++)
		y = cuda_fma(found[g * CUDA_ROWS * 2], found[g * CUDA_ROWS * 2 + 1], y);
	return y;
}

/* The same of several. */
CUDA_THREAD float cuda_groups_added(const struct cuda_run *r, struct cuda_sum_place at,
				    uint32_t groups, float y)
{
	const struct cuda_found *f = &r->found;
	const uint32_t piece = at.tile * groups;
	const float *dot = f->dot + (piece * r->tokens + at.token) * CUDA_ROWS + at.row;
	const float *norm = f->norm + piece * CUDA_ROWS + at.row;
	const float *scale = f->scale + piece * r->tokens + at.token;

	CUDA_UNROLL_8
	for (uint32_t g = 0; g < groups; g++)
		y = cuda_fma(dot[g * r->tokens * CUDA_ROWS],
			     norm[g * CUDA_ROWS] * scale[g * r->tokens], y);
	return y;
}

/* Some tiles, whose groups are found in one pass; or one tile, in as many as its groups need. */
CUDA_THREAD void cuda_multiply_tiles(const struct cuda_run *r, uint32_t tiles)
{
	const uint32_t all = r->p->groups, most = r->p->sharing.pieces;
	float y = 0;

	for (uint32_t first = 0; first < all; first += most) {
		const uint32_t groups = all - first < most ? all - first : most;
		const struct cuda_piece own = cuda_piece_first(r, tiles, first, groups);
		cuda_wait_for_ahead(); /* weights are nothing that kernels write */
		cuda_find_pieces(r, own, tiles, first, groups);
		cuda_barrier();
		for (uint32_t i = cuda_thread(); i < tiles * r->tokens * CUDA_ROWS;
		     i += cuda_threads()) {
			const struct cuda_sum_place at = cuda_sum_place_of(i, r->tokens);
			y = first > 0 ? y : 0;
			y = r->tokens == 1 ? cuda_groups_added_one(r, at, groups, y)
					   : cuda_groups_added(r, at, groups, y);
			if (first + groups == all)
				cuda_put_sum(r->p, &r->found.tiles, r->tokens, at, y);
		}
		cuda_barrier();
	}
}

/* `own` tiles from tile `from` on. */
CUDA_THREAD void cuda_multiply_all(const struct cuda_run *r, uint32_t from, uint32_t own)
{
	const uint32_t most = r->p->sharing.at_once;

	for (uint32_t done = 0; done < own; done += most) {
		const uint32_t tiles = own - done < most ? own - done : most;
		if (cuda_thread() < tiles * r->tokens)
			cuda_tile_find(r->p, &r->found.tiles, r->tokens, r->p->groups * r->bytes,
				       cuda_thread() / r->tokens,
				       from + done + cuda_thread() / r->tokens,
				       cuda_thread() % r->tokens);
		cuda_barrier();
		cuda_multiply_tiles(r, tiles);
	}
}

/* ---- whose tiles are whose ---- */

/* bits (as of cuda_run_of), tokens and copies are constants. */
CUDA_THREAD void cuda_tc_product(const struct cuda_product *p, uint32_t bits, uint32_t tokens,
				 uint32_t copies)
{
	const struct cuda_run r = cuda_run_of(p, bits, tokens, copies);

	cuda_let_next_begin();
	if (bits == 3)
		cuda_copy_pairs(p->trellis.pairs, copies);
	if (p->items)
		cuda_wait_for_ahead();
	const uint32_t all = cuda_tiles_in_all(p);
	const uint32_t from = cuda_share(&p->sharing, all, cuda_block_x());
	const uint32_t to = cuda_share(&p->sharing, all, cuda_block_x() + 1);
	cuda_multiply_all(&r, from, to - from);
	cuda_wait_for_ahead();
}

/* The blocks of threads share the pieces of all products. */
CUDA_THREAD void cuda_tc_products(const struct cuda_products *p, uint32_t tokens, uint32_t copies)
{
	const struct cuda_sharing *s = &p->p[0].sharing;
	const uint32_t all = p->p[p->count - 1].sharing.end;
	const uint32_t begin = cuda_share(s, all, cuda_block_x());
	const uint32_t end = cuda_share(s, all, cuda_block_x() + 1);

	cuda_let_next_begin();
	if (p->p[p->with_pairs].trellis.bits == 3)
		cuda_copy_pairs(p->p[p->with_pairs].trellis.pairs, copies);
	if (p->p[0].items && begin < p->p[0].sharing.end)
		cuda_wait_for_ahead();
	CUDA_ROLLED
	for (uint32_t i = 0; i < p->count; i++) {
		const struct cuda_product *one = &p->p[i];
		if (end <= one->sharing.first || begin >= one->sharing.end)
			continue;
		const uint32_t from = cuda_tile_from(one, one->groups, begin),
			       to = cuda_tile_from(one, one->groups, end);
		if (one->trellis.bits == 3) {
			const struct cuda_run r = cuda_run_of(one, 3, tokens, copies);
			cuda_multiply_all(&r, from, to - from);
		} else {
			const struct cuda_run r = cuda_run_of(one, 4, tokens, copies);
			cuda_multiply_all(&r, from, to - from);
		}
	}
	cuda_wait_for_ahead();
}

/* ---- the kernels ---- */

/* few: threads of a block at most; many: of TC3 alone, which needs fewer registers for several tokens. */
#define CUDA_TC_PRODUCTS(tokens, few, many)                                           \
	CUDA_KERNEL_OF(few) cuda_tq_product_##tokens(struct cuda_product p)           \
	{                                                                             \
		cuda_tc_product(&p, 0, tokens, 0);                                    \
	}                                                                             \
	CUDA_KERNEL_OF(few) cuda_tc2_product_##tokens(struct cuda_product p)          \
	{                                                                             \
		cuda_tc_product(&p, 2, tokens, 0);                                    \
	}                                                                             \
	CUDA_KERNEL_OF(many) cuda_tc3_product_##tokens(struct cuda_product p)         \
	{                                                                             \
		if (p.sharing.copies == 32)                                           \
			cuda_tc_product(&p, 3, tokens, 32);                           \
		else                                                                  \
			cuda_tc_product(&p, 3, tokens, 16);                           \
	}                                                                             \
	CUDA_KERNEL_OF(few) cuda_tc4_product_##tokens(struct cuda_product p)          \
	{                                                                             \
		cuda_tc_product(&p, 4, tokens, 0);                                    \
	}                                                                             \
	CUDA_KERNEL_OF(few) cuda_tc_products_##tokens(struct cuda_products p)         \
	{                                                                             \
		if (p.p[0].sharing.copies == 32)                                      \
			cuda_tc_products(&p, tokens, 32);                             \
		else                                                                  \
			cuda_tc_products(&p, tokens, 16);                             \
	}
CUDA_TC_PRODUCTS(1, 1024, 1024)
CUDA_TC_PRODUCTS(8, 512, 1024)
CUDA_TC_PRODUCTS(16, 512, 512)
CUDA_TC_PRODUCTS(32, 512, 512)
