/* Products of formats with blocks with the inputs of items, of one token or of up to 8.
 *
 * The blocks of threads share all tiles of 16 rows evenly, as in cuda_product.cu. A warp multiplies
 * a piece of a tile: eight parts with scales of their own, whose dots are exact; then one thread
 * for each row and token adds the parts of its row in ascending order.
 *
 * Of one token a piece needs no more multiplications than of eight: the columns of
 * cuda_multiply_tile are not tokens, but parts. Each part's input is in its own column and is zero
 * in the others, so the dots of all parts are one sum, and a thread loads the inputs of one part
 * only.
 *
 * A load of a warp is 256 bytes that follow each other, 8 of each thread: that is the order in
 * which cuda_multiply_tile wants the words, so nothing is exchanged.
 *
 * A piece of Q4_K, 16 rows by 256 columns, takes a warp some 250 instructions: 8 loads of weights,
 * 32 for codes, 8 multiplications with 24 for their inputs, 5 loads and some 50 for scales, and
 * addresses. An H200 that has the weights already would compute them in 0.6 of the time in which
 * its memory gives them. The chain of a row of 2,048 columns, 128 operations of four cycles each,
 * takes 0.3 us. */
#include "kernels/cuda/cuda_blocks.h"

/* A launch as a block of threads sees it; the format and tokens are constants. */
struct cuda_block_run {
	const struct cuda_product *p;
	struct cuda_format f;
	uint32_t tokens;
	uint32_t pieces; /* of a row of tiles */
	uint32_t bytes;	 /* of a row of tiles */
	/* The shared memory: */
	struct cuda_tiles tiles;
	struct cuda_token_part *input; /* [parts][tokens] */
	float *scale, *offset;	       /* [parts][16] */
	int32_t *dot;		       /* [parts][tokens][16] */
};

CUDA_THREAD struct cuda_block_run cuda_block_run_of(const struct cuda_product *p,
						    struct cuda_format constants, uint32_t tokens)
{
	const struct cuda_format f = cuda_format_of(constants, &p->kind);
	const uint32_t parts = p->sharing.pieces * CUDA_PARTS;
	struct cuda_block_run r;

	r.p = p;
	r.f = f;
	r.tokens = tokens;
	r.pieces = (p->groups + cuda_piece_blocks(f) - 1) / cuda_piece_blocks(f);
	r.bytes = (p->groups >> f.together) * cuda_tile_bytes(f);
	r.tiles = cuda_tiles_at(cuda_shared(), p, tokens);
	/* Behind the tiles, from a multiple of 16 bytes on. */
	r.scale = cuda_shared() + ((6 + 2 * tokens) * p->sharing.at_once + 3) / 4 * 4;
	r.offset = r.scale + parts * CUDA_ROWS;
	r.input =
		(struct cuda_token_part *)(void *)(r.offset + (f.offsets ? parts * CUDA_ROWS : 0));
	r.dot = (int32_t *)(void *)(r.input + parts * tokens);
	return r;
}

/* ---- pieces ---- */

/* A thread's part of a piece. */
struct cuda_block_piece {
	struct cuda_planes block[CUDA_PARTS];
	struct cuda_scale_bits scales;
	const uint8_t *tiles; /* of its row */
	uint32_t first;	      /* block */
};

/* A block or part that is not there is the last one: nothing is added for it. */
CUDA_THREAD uint32_t cuda_block_there(const struct cuda_block_run *r, uint32_t block)
{
	return cuda_wide_tiles(r->f) || block < r->p->groups ? block : r->p->groups - 1;
}

/* Blocks of a piece follow each other in a tile, or their tiles do; but those of groups. */
CUDA_THREAD const uint8_t *cuda_piece_block(const struct cuda_block_run *r, const uint8_t *tiles,
					    uint32_t first, uint32_t b)
{
	const uint32_t step = cuda_wide_tiles(r->f) ? cuda_block_bytes(r->f) : cuda_tile_bytes(r->f);
	const uint32_t block = cuda_block_there(r, first + b);

	return r->f.groups == CUDA_NO_GROUPS
		       ? cuda_block_of(r->f, tiles, first) + (block - first) * step
		       : cuda_block_of(r->f, tiles, block);
}

/* number: of the row's pieces. Codes of any number of bits are loaded late: a thread has no registers for the
 * planes of all of them. */
CUDA_THREAD void cuda_block_piece_load(struct cuda_block_piece *x, const struct cuda_block_run *r,
				       uint32_t tile, uint32_t number)
{
	const uint32_t blocks = cuda_piece_blocks(r->f), part = cuda_thread() % CUDA_WARP / 4;

	x->tiles = r->tiles.tile[tile].weights;
	x->first = number * blocks;
	CUDA_UNROLL
	for (uint32_t b = 0; b < blocks; b++)
		if (r->f.groups != CUDA_GROUPS_ANY)
			cuda_planes_load(&x->block[b], r->f,
					 cuda_piece_block(r, x->tiles, x->first, b));
	cuda_scales_load(&x->scales, r->f, x->tiles,
			 r->f.by_16 ? number * CUDA_PARTS + part
				    : cuda_block_there(r, number * CUDA_PARTS + part));
}

CUDA_THREAD void cuda_piece_codes(uint32_t code[4], const struct cuda_block_run *r,
				  const struct cuda_block_piece *x, uint32_t b)
{
	struct cuda_planes own = x->block[b];

	if (r->f.groups == CUDA_GROUPS_ANY)
		cuda_planes_load(&own, r->f, cuda_piece_block(r, x->tiles, x->first, b));
	cuda_block_codes(code, r->f, r->p->kind.values, &own);
}

/* A thread's words of the input that begins with that block, in a part of the row. */
CUDA_THREAD void cuda_part_input(uint32_t word[2], const struct cuda_block_run *r, uint32_t block,
				 uint32_t part)
{
	const uint32_t *words = (const uint32_t *)(const void *)r->p->q +
				(size_t)block * CUDA_BLOCK_WORDS + part * cuda_part_words(r->f) +
				cuda_thread() % 4;

	cuda_input_order(word, r->f, words[0], r->f.by_16 ? 0 : words[4]);
}

CUDA_THREAD uint32_t cuda_part_there(const struct cuda_block_run *r, uint32_t part)
{
	return r->f.by_16 ? part : cuda_block_there(r, part);
}

/* Where a piece's dots begin in shared memory. */
CUDA_THREAD int32_t *cuda_piece_dots(const struct cuda_block_run *r, uint32_t piece)
{
	return r->dot + piece * CUDA_PARTS * r->tokens * CUDA_ROWS;
}

/* Two rows' dots of a place of [parts][tokens]. */
CUDA_THREAD void cuda_put_dots(int32_t *dots, uint32_t place, int32_t one, int32_t other)
{
	const uint32_t row = cuda_thread() % CUDA_WARP / 4 * 2;
	const struct cuda_two two = {{(uint32_t)one, (uint32_t)other}};

	*(struct cuda_two *)(void *)(dots + place * CUDA_ROWS + row) = two;
}

/* Of one token. Thread 4 g + c has the inputs of part g, and then the dots of the parts 2 c and
 * 2 c + 1. */
CUDA_THREAD void cuda_multiply_piece_by_one(const struct cuda_block_run *r,
					    const struct cuda_block_piece *x, uint32_t input,
					    uint32_t part, int32_t *dots)
{
	const uint32_t own = cuda_thread() % CUDA_WARP / 4, column = cuda_thread() % 4 * 2;
	const uint32_t each = r->f.by_16 ? 2 : 1;
	uint32_t word[2], code[4];
	int32_t sum[4] = {0, 0, 0, 0};

	cuda_part_input(word, r, input, cuda_part_there(r, part + own));
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_PARTS; i++) {
		const uint32_t in[2] = {i == own ? word[0] : 0, i == own ? word[1] : 0};
		if (i % each == 0)
			cuda_piece_codes(code, r, x, i / each);
		cuda_part_dots(sum, r->f, code, i, in);
	}
	cuda_put_dots(dots, column, sum[0], sum[2]);
	cuda_put_dots(dots, column + 1, sum[1], sum[3]);
}

/* Of eight. Thread 4 g + c has the inputs of token g, and then the dots of the tokens 2 c and 2 c
 * + 1. */
CUDA_THREAD void cuda_multiply_piece_by_eight(const struct cuda_block_run *r,
					      const struct cuda_block_piece *x,
					      const uint32_t *input, uint32_t part, int32_t *dots)
{
	const uint32_t first = input[cuda_thread() % CUDA_WARP / 4], token = cuda_thread() % 4 * 2;
	const uint32_t each = r->f.by_16 ? 2 : 1;
	uint32_t word[CUDA_PARTS][2], code[4];

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_PARTS; i++)
		cuda_part_input(word[i], r, first, cuda_part_there(r, part + i));
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_PARTS; i++) {
		int32_t sum[4] = {0, 0, 0, 0};
		if (i % each == 0)
			cuda_piece_codes(code, r, x, i / each);
		cuda_part_dots(sum, r->f, code, i, word[i]);
		cuda_put_dots(dots, i * r->tokens + token, sum[0], sum[2]);
		cuda_put_dots(dots, i * r->tokens + token + 1, sum[1], sum[3]);
	}
}

/* The scales of a piece's parts, and what its tokens add to them. */
CUDA_THREAD void cuda_put_scales(const struct cuda_block_run *r, const struct cuda_block_piece *x,
				 const uint32_t *input, uint32_t part, uint32_t piece)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const uint32_t at = (piece * CUDA_PARTS + lane / 4) * CUDA_ROWS + lane % 4 * 4;
	struct cuda_four_rows scale, offset;

	cuda_scales_of(&scale, &offset, r->f, &x->scales);
	*(struct cuda_four_rows *)(void *)(r->scale + at) = scale;
	if (r->f.offsets)
		*(struct cuda_four_rows *)(void *)(r->offset + at) = offset;
	CUDA_UNROLL
	for (uint32_t k = 0; k < (CUDA_PARTS * r->tokens + CUDA_WARP - 1) / CUDA_WARP; k++) {
		const uint32_t i = k * CUDA_WARP + lane;
		if (i >= CUDA_PARTS * r->tokens)
			continue;
		r->input[piece * CUDA_PARTS * r->tokens + i] = cuda_token_part_of(
			r->p, r->f, input[i % r->tokens], cuda_part_there(r, part + i / r->tokens));
	}
}

/* Of some tiles the pieces of a pass, from `first` on; x is loaded: this warp's piece at `at`. */
CUDA_THREAD void cuda_find_block_pieces(const struct cuda_block_run *r, struct cuda_block_piece *x,
					struct cuda_piece_place at, uint32_t tiles, uint32_t first,
					uint32_t pieces)
{
	CUDA_ROLLED
	while (at.tile < tiles) {
		const uint32_t *input = r->tiles.input + at.tile * r->tokens;
		const uint32_t part = (first + at.group) * CUDA_PARTS;
		const uint32_t piece = at.tile * pieces + at.group;
		if (r->tokens == 1)
			cuda_multiply_piece_by_one(r, x, *input, part, cuda_piece_dots(r, piece));
		else
			cuda_multiply_piece_by_eight(r, x, input, part, cuda_piece_dots(r, piece));
		cuda_put_scales(r, x, input, part, piece);
		at = cuda_next_place(at, &r->p->sharing, pieces);
		if (at.tile < tiles)
			cuda_block_piece_load(x, r, at.tile, first + at.group);
	}
}

/* ---- sums ---- */

/* Of a row and a token eight parts that follow each other, ready to be added. */
struct cuda_ready {
	float dot[CUDA_PARTS], scale[CUDA_PARTS], offset[CUDA_PARTS], total[CUDA_PARTS];
};

/* From part `from` of the shared memory on. */
CUDA_THREAD void cuda_parts_load(struct cuda_ready *x, const struct cuda_block_run *r,
				 uint32_t from, uint32_t token, uint32_t row)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_PARTS; i++) {
		const struct cuda_token_part t = r->input[(from + i) * r->tokens + token];
		const int32_t dot = r->dot[((from + i) * r->tokens + token) * CUDA_ROWS + row];
		x->dot[i] = (float)cuda_whole_dot(r->f, dot, t);
		x->scale[i] = r->scale[(from + i) * CUDA_ROWS + row] * t.scale;
		x->offset[i] = r->f.offsets ? r->offset[(from + i) * CUDA_ROWS + row] : 0;
		x->total[i] = r->f.offsets ? cuda_token_total(r->f, t) : 0;
	}
}

/* y with the parts of a pass, from piece `first` of the row on. Those of the next piece are loaded
 * and multiplied while those of one are added: the chain never waits. */
CUDA_THREAD float cuda_parts_added(const struct cuda_block_run *r, struct cuda_sum_place at,
				   uint32_t first, uint32_t pieces, float y)
{
	const uint32_t all = r->p->groups * (r->f.by_16 ? 2 : 1) - first * CUDA_PARTS;
	const uint32_t parts = pieces * CUDA_PARTS < all ? pieces * CUDA_PARTS : all;
	const uint32_t from = at.tile * pieces * CUDA_PARTS;
	struct cuda_ready next;

	cuda_parts_load(&next, r, from, at.token, at.row);
	CUDA_ROLLED
	for (uint32_t done = 0; done < parts; done += CUDA_PARTS) {
		const struct cuda_ready x = next;
		if (done + CUDA_PARTS < parts)
			cuda_parts_load(&next, r, from + done + CUDA_PARTS, at.token, at.row);
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_PARTS; i++) {
			const bool there = cuda_wide_tiles(r->f) || done + i < parts;
			y = there ? cuda_fma(x.dot[i], x.scale[i], y) : y;
			if (r->f.offsets)
				y = there ? cuda_fma(x.offset[i], x.total[i], y) : y;
		}
	}
	return y;
}

/* Some tiles, whose pieces are found in one pass; or one tile, in as many as its pieces need. */
CUDA_THREAD void cuda_multiply_block_tiles(const struct cuda_block_run *r, uint32_t tiles)
{
	const uint32_t all = r->pieces, most = r->p->sharing.pieces;
	float y = 0;

	for (uint32_t first = 0; first < all; first += most) {
		const uint32_t pieces = all - first < most ? all - first : most;
		const struct cuda_piece_place at = cuda_first_place(pieces);
		struct cuda_block_piece own = {0};
		if (at.tile < tiles)
			cuda_block_piece_load(&own, r, at.tile, first + at.group);
		cuda_wait_for_ahead(); /* weights are nothing that kernels write */
		cuda_find_block_pieces(r, &own, at, tiles, first, pieces);
		cuda_barrier();
		for (uint32_t i = cuda_thread(); i < tiles * r->tokens * CUDA_ROWS;
		     i += cuda_threads()) {
			const struct cuda_sum_place to = cuda_sum_place_of(i, r->tokens);
			y = cuda_parts_added(r, to, first, pieces, first > 0 ? y : 0);
			if (first + pieces == all)
				cuda_put_sum(r->p, &r->tiles, r->tokens, to, y);
		}
		cuda_barrier();
	}
}

/* Tiles [from, to) of the launch. */
CUDA_THREAD void cuda_multiply_blocks(const struct cuda_block_run *r, uint32_t from, uint32_t to)
{
	const uint32_t most = r->p->sharing.at_once, i = cuda_thread() / r->tokens;

	for (uint32_t done = from; done < to; done += most) {
		const uint32_t tiles = to - done < most ? to - done : most;
		if (i < tiles)
			cuda_tile_find(r->p, &r->tiles, r->tokens, r->bytes, i, done + i,
				       cuda_thread() % r->tokens);
		cuda_barrier();
		cuda_multiply_block_tiles(r, tiles);
	}
}

CUDA_THREAD void cuda_block_product(const struct cuda_product *p, struct cuda_format f,
				    uint32_t tokens)
{
	const struct cuda_block_run r = cuda_block_run_of(p, f, tokens);

	cuda_let_next_begin();
	if (p->items)
		cuda_wait_for_ahead();
	const uint32_t all = cuda_tiles_in_all(p);
	cuda_multiply_blocks(&r, cuda_share(&p->sharing, all, cuda_block_x()),
			     cuda_share(&p->sharing, all, cuda_block_x() + 1));
	cuda_wait_for_ahead();
}

/* One of several products: its part of the pieces [begin, end) of the launch. */
CUDA_THREAD void cuda_multiply_block_share(const struct cuda_product *p, struct cuda_format f,
					   uint32_t tokens, uint32_t begin, uint32_t end)
{
	const struct cuda_block_run r = cuda_block_run_of(p, f, tokens);

	cuda_multiply_blocks(&r, cuda_tile_from(p, r.pieces, begin),
			     cuda_tile_from(p, r.pieces, end));
}

/* The blocks of threads share the pieces of all products. */
CUDA_THREAD void cuda_block_products(const struct cuda_products *p, uint32_t tokens)
{
	const struct cuda_sharing *s = &p->p[0].sharing;
	const uint32_t all = p->p[p->count - 1].sharing.end;
	const uint32_t begin = cuda_share(s, all, cuda_block_x());
	const uint32_t end = cuda_share(s, all, cuda_block_x() + 1);

	cuda_let_next_begin();
	if (p->p[0].items && begin < p->p[0].sharing.end)
		cuda_wait_for_ahead();
	CUDA_ROLLED
	for (uint32_t i = 0; i < p->count; i++) {
		const struct cuda_product *one = &p->p[i];
		if (end <= one->sharing.first || begin >= one->sharing.end)
			continue;
#define CUDA_BLOCK_CASE(name, number, ...)                                \
	if (one->kind.format == number) {                               \
		const struct cuda_format f = {__VA_ARGS__};               \
		cuda_multiply_block_share(one, f, tokens, begin, end);    \
	}
		CUDA_COMMON_FORMATS(CUDA_BLOCK_CASE)
#undef CUDA_BLOCK_CASE
	}
	cuda_wait_for_ahead();
}

/* ---- the kernels: fewer threads have the registers that eight tokens, or tables and groups, need ---- */

#define CUDA_BLOCK_PRODUCT(threads, name, ...)                                     \
	CUDA_KERNEL_OF_TWO(threads) cuda_##name##_product_1(struct cuda_product p) \
	{                                                                          \
		const struct cuda_format f = {__VA_ARGS__};                        \
		cuda_block_product(&p, f, 1);                                      \
	}                                                                          \
	CUDA_KERNEL_OF_TWO(320) cuda_##name##_product_8(struct cuda_product p)     \
	{                                                                          \
		const struct cuda_format f = {__VA_ARGS__};                        \
		cuda_block_product(&p, f, 8);                                      \
	}
#define CUDA_COMMON_PRODUCT(name, number, ...) CUDA_BLOCK_PRODUCT(512, name, __VA_ARGS__)
#define CUDA_OTHER_PRODUCT(name, number, ...) CUDA_BLOCK_PRODUCT(448, name, __VA_ARGS__)
CUDA_COMMON_FORMATS(CUDA_COMMON_PRODUCT)
CUDA_OTHER_FORMATS(CUDA_OTHER_PRODUCT)
CUDA_FEW_FORMATS(CUDA_OTHER_PRODUCT)

CUDA_KERNEL_OF_TWO(512) cuda_block_products_1(struct cuda_products p)
{
	cuda_block_products(&p, 1);
}
CUDA_KERNEL_OF_TWO(320) cuda_block_products_8(struct cuda_products p)
{
	cuda_block_products(&p, 8);
}
