/* Products of formats with blocks with the inputs of items of up to 32 tokens, as of a prompt.
 *
 * A warp has a tile of 16 rows and adds its dots at once, in order: of the sums of
 * cuda_multiply_tile each thread has two rows and two tokens of eight, so it has their chains in
 * registers, and nothing is exchanged. The warps of a block of threads have as many tiles and the
 * same inputs, which they bring to shared memory together, a piece of eight parts ahead.
 *
 * A part of 32 columns and 32 tokens takes a warp some 130 instructions: 4 multiplications, and 16
 * times a conversion, a product and the one or two operations of the chain. The units for matrices
 * could multiply eight times as many columns meanwhile, so the chains are the limit: some 110 T
 * products of bytes in a second on an H200. */
#include "kernels/cuda/cuda_blocks.h"

enum {
	CUDA_MANY = 32, /* tokens */
	CUDA_MANY_SETS = CUDA_MANY / 8,
	CUDA_MANY_WARPS = 8,
};

/* What a block of threads computes: an item, a part, and eight tiles. */
struct cuda_many {
	const struct cuda_product *p;
	struct cuda_format f;
	struct cuda_item item;
	uint32_t part, tile;  /* tile: of this warp */
	const uint8_t *tiles; /* its row of tiles */
	/* The shared memory; of two pieces, each for itself: */
	uint32_t *assignment,
		*first;	 /* [32]: of the tokens, and the first blocks of their inputs */
	uint32_t *words; /* [2][32][stride]: inputs */
	uint32_t stride;
	struct cuda_token_part *token; /* [2][8][32] */
	float *scale, *offset;	       /* [8][16], of this warp */
};

CUDA_THREAD struct cuda_many cuda_many_of(const struct cuda_product *p, struct cuda_format constants)
{
	const struct cuda_format f = cuda_format_of(constants, &p->kind);
	const uint32_t row_bytes = (p->groups >> f.together) * cuda_tile_bytes(f);
	const uint32_t tiles = (p->rows + CUDA_ROWS - 1) / CUDA_ROWS;
	const uint32_t warp = cuda_thread() / CUDA_WARP;
	struct cuda_many m;

	m.p = p;
	m.f = f;
	m.item = cuda_item_of(p, cuda_block_y() / p->parts);
	m.part = cuda_block_y() % p->parts;
	m.tile = cuda_block_x() * CUDA_MANY_WARPS + warp;
	/* A warp without a tile computes the last one, and puts nothing. */
	m.tiles = cuda_matrix_of(p, m.item, m.part) +
		  (size_t)(m.tile < tiles ? m.tile : tiles - 1) * row_bytes;
	m.stride = CUDA_PARTS * cuda_part_words(f) + 4;
	m.scale = cuda_shared() + warp * 2 * CUDA_PARTS * CUDA_ROWS;
	m.offset = m.scale + CUDA_PARTS * CUDA_ROWS;
	m.token = (struct cuda_token_part *)(void *)(cuda_shared() +
						     CUDA_MANY_WARPS * 2 * CUDA_PARTS * CUDA_ROWS);
	m.words = (uint32_t *)(void *)(m.token + 2 * CUDA_PARTS * CUDA_MANY);
	m.first = m.words + 2 * CUDA_MANY * m.stride;
	m.assignment = m.first + CUDA_MANY;
	return m;
}

/* ---- inputs, by all threads ---- */

/* Begins to bring a piece's inputs. Blocks that are not there are the last one. */
CUDA_THREAD void cuda_many_copy(const struct cuda_many *m, uint32_t piece)
{
	const uint32_t quads = CUDA_PARTS * cuda_part_words(m->f) / 4;
	uint32_t *to = m->words + piece % 2 * CUDA_MANY * m->stride;

	CUDA_UNROLL
	for (uint32_t k = 0; k < CUDA_MANY * quads / (CUDA_MANY_WARPS * CUDA_WARP); k++) {
		const uint32_t i = k * CUDA_MANY_WARPS * CUDA_WARP + cuda_thread();
		const uint32_t token = i / quads, quad = i % quads;
		const uint32_t block = piece * cuda_piece_blocks(m->f) + quad / 2;
		const uint32_t there = block < m->p->groups ? block : m->p->groups - 1;
		const struct cuda_quad *from = (const struct cuda_quad *)(const void *)m->p->q +
					       ((size_t)m->first[token] + there) * 2 + quad % 2;
		cuda_copy16(to + token * m->stride + quad * 4, from);
	}
	cuda_copies_end();
}

/* What a thread's token adds to its part. */
CUDA_THREAD struct cuda_token_part cuda_many_token(const struct cuda_many *m, uint32_t piece)
{
	const uint32_t token = cuda_thread() / CUDA_PARTS, part = cuda_thread() % CUDA_PARTS;
	const uint32_t all = m->p->groups * (m->f.by_16 ? 2 : 1), at = piece * CUDA_PARTS + part;

	return cuda_token_part_of(m->p, m->f, m->first[token], at < all ? at : all - 1);
}

CUDA_THREAD void cuda_many_put_token(const struct cuda_many *m, uint32_t piece,
				     struct cuda_token_part t)
{
	const uint32_t token = cuda_thread() / CUDA_PARTS, part = cuda_thread() % CUDA_PARTS;

	m->token[(piece % 2 * CUDA_PARTS + part) * CUDA_MANY + token] = t;
}

/* ---- a piece ---- */

/* The chains of a thread: of each set of eight tokens its two rows, with one token and then the
 * other. */
struct cuda_chains {
	float set[CUDA_MANY_SETS][4];
};

/* Two tokens that follow each other. */
struct cuda_two_tokens {
	struct cuda_token_part of[2];
} __attribute__((aligned(16)));

/* Adds part i of the piece, of eight tokens. */
CUDA_THREAD void cuda_many_add(float y[4], const struct cuda_many *m, const uint32_t code[4],
			       uint32_t i, const uint32_t *words,
			       const struct cuda_two_tokens *tokens, struct cuda_two scale,
			       struct cuda_two offset)
{
	const uint32_t at = i * cuda_part_words(m->f) + cuda_thread() % 4;
	uint32_t input[2];
	int32_t sum[4] = {0, 0, 0, 0};

	cuda_input_order(input, m->f, words[at], m->f.by_16 ? 0 : words[at + 4]);
	cuda_part_dots(sum, m->f, code, i, input);
	CUDA_UNROLL
	for (uint32_t k = 0; k < 4; k++)
		y[k] = cuda_part_added(y[k], m->f, sum[k], cuda_float(scale.row[k / 2]),
				       cuda_float(offset.row[k / 2]), tokens->of[k % 2]);
}

CUDA_THREAD void cuda_many_put_scales(const struct cuda_many *m, const struct cuda_scale_bits *bits)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, at = lane / 4 * CUDA_ROWS + lane % 4 * 4;
	struct cuda_four_rows scale, offset;

	cuda_scales_of(&scale, &offset, m->f, bits);
	*(struct cuda_four_rows *)(void *)(m->scale + at) = scale;
	if (m->f.offsets)
		*(struct cuda_four_rows *)(void *)(m->offset + at) = offset;
	cuda_warp_barrier();
}

/* Adds a piece; its inputs are there. sets: of tokens. */
CUDA_THREAD void cuda_many_piece(struct cuda_chains *y, const struct cuda_many *m,
				 const struct cuda_planes block[CUDA_PARTS], uint32_t piece,
				 uint32_t sets)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, each = m->f.by_16 ? 2 : 1;
	const uint32_t *words = m->words + (piece % 2 * CUDA_MANY + lane / 4) * m->stride;
	const struct cuda_token_part *tokens =
		m->token + piece % 2 * CUDA_PARTS * CUDA_MANY + lane % 4 * 2;
	const uint32_t all = m->p->groups * each - piece * CUDA_PARTS;
	uint32_t code[4];

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_PARTS; i++) {
		const uint32_t at = i * CUDA_ROWS + lane / 4 * 2;
		if (!cuda_wide_tiles(m->f) && i >= all)
			break;
		const struct cuda_two scale = *(const struct cuda_two *)(void *)(m->scale + at);
		const struct cuda_two offset = *(const struct cuda_two *)(void *)(m->offset + at);
		if (i % each == 0)
			cuda_block_codes(code, m->f, m->p->kind.values, &block[i / each]);
		CUDA_UNROLL
		for (uint32_t set = 0; set < CUDA_MANY_SETS; set++)
			if (set < sets)
				cuda_many_add(
					y->set[set], m, code, i, words + set * 8 * m->stride,
					(const struct cuda_two_tokens
						 *)(const void *)(tokens + i * CUDA_MANY + set * 8),
					scale, offset);
	}
}

CUDA_THREAD void cuda_many_load(const struct cuda_many *m, struct cuda_planes block[CUDA_PARTS],
				struct cuda_scale_bits *scales, uint32_t piece)
{
	const uint32_t blocks = cuda_piece_blocks(m->f), part = cuda_thread() % CUDA_WARP / 4;
	const uint32_t last = m->p->groups * (m->f.by_16 ? 2 : 1) - 1,
		       at = piece * CUDA_PARTS + part;

	CUDA_UNROLL
	for (uint32_t b = 0; b < blocks; b++) {
		const uint32_t i = piece * blocks + b;
		const bool there = cuda_wide_tiles(m->f) || i < m->p->groups;
		cuda_planes_load(&block[b], m->f,
				 cuda_block_of(m->f, m->tiles, there ? i : m->p->groups - 1));
	}
	cuda_scales_load(scales, m->f, m->tiles, at < last ? at : last);
}

CUDA_THREAD void cuda_many_put(const struct cuda_many *m, const struct cuda_chains *y)
{
	const struct cuda_product *p = m->p;
	const uint32_t lane = cuda_thread() % CUDA_WARP, row = m->tile * CUDA_ROWS + lane / 4 * 2;

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_MANY_SETS * 4; i++) {
		const uint32_t token = i / 4 * 8 + lane % 4 * 2 + i % 2, r = row + i % 4 / 2;
		if (token < m->item.n && r < p->rows)
			p->y[m->part * p->y_part + m->assignment[token] * p->ldy + r] =
				y->set[i / 4][i % 4];
	}
}

CUDA_THREAD void cuda_many_product(const struct cuda_product *p, struct cuda_format f)
{
	cuda_wait_for_ahead();
	if (!cuda_item_there(p, cuda_block_y() / p->parts))
		return;
	const struct cuda_many m = cuda_many_of(p, f);
	const uint32_t pieces = (p->groups + cuda_piece_blocks(f) - 1) / cuda_piece_blocks(f);
	const uint32_t sets = (m.item.n + 7) / 8;
	struct cuda_chains y = {{{0}}};

	if (cuda_thread() < CUDA_MANY) {
		const uint32_t assignment = cuda_assignment_of(p, m.item, cuda_thread());
		m.assignment[cuda_thread()] = assignment;
		m.first[cuda_thread()] = assignment / p->divide * p->groups;
	}
	cuda_barrier();
	cuda_many_copy(&m, 0);
	cuda_many_put_token(&m, 0, cuda_many_token(&m, 0));
	CUDA_ROLLED
	for (uint32_t piece = 0; piece < pieces; piece++) {
		struct cuda_planes block[CUDA_PARTS];
		struct cuda_scale_bits scales;
		struct cuda_token_part next = {0, 0};
		cuda_many_load(&m, block, &scales, piece);
		cuda_copies_wait();
		cuda_barrier(); /* the piece's inputs are there, and the last piece's are not needed
				   any more */
		if (piece + 1 < pieces) {
			cuda_many_copy(&m, piece + 1);
			next = cuda_many_token(&m, piece + 1);
		}
		cuda_many_put_scales(&m, &scales);
		cuda_many_piece(&y, &m, block, piece, sets);
		if (piece + 1 < pieces)
			cuda_many_put_token(&m, piece + 1, next);
	}
	cuda_many_put(&m, &y);
}

#define CUDA_MANY_PRODUCT(name, number, ...)                                    \
	CUDA_KERNEL_OF_TWO(256) cuda_##name##_product_32(struct cuda_product p) \
	{                                                                       \
		const struct cuda_format f = {__VA_ARGS__};                     \
		cuda_many_product(&p, f);                                       \
	}
CUDA_COMMON_FORMATS(CUDA_MANY_PRODUCT)
CUDA_OTHER_FORMATS(CUDA_MANY_PRODUCT)
