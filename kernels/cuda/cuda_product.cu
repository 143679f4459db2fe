/* Products of TC3, TC4 and Q4_K with the inputs of 1, 2, 4 or 8 tokens.
 *
 * A block of threads computes some tiles of 16 rows at once, then the next ones. Each thread takes one
 * row of one group (TC) or block (Q4_K) and computes its dots, which are exact; then one thread for
 * each row and token adds them in ascending order. What the threads find at once is a pass. */
#include "kernels/cuda/cuda_codes.h"

/* A thread's place: a tile, a row of it, and a group of the pass or, when dots are added, a token. */
struct cuda_place {
	uint32_t tile, row, at, pass;
};

/* The shared memory: what the threads of a tile find in a pass, and the pairs of TC3 for all. */
struct cuda_found {
	float *dot;		       /* [tokens][pass][16] */
	float *norm;		       /* [pass][16] */
	struct cuda_scales *of_blocks; /* the same of Q4_K */
	uint16_t *pairs;
};

CUDA_THREAD struct cuda_place cuda_place_now(uint32_t tiles)
{
	const uint32_t group = cuda_thread() / CUDA_ROWS;
	struct cuda_place at;

	at.pass = cuda_threads() / CUDA_ROWS / tiles;
	at.row = cuda_thread() % CUDA_ROWS;
	at.at = group % at.pass;
	at.tile = group / at.pass;
	return at;
}

CUDA_THREAD struct cuda_found cuda_found_by(uint32_t n, struct cuda_place at, uint32_t tiles)
{
	const uint32_t found = (n + 1) * at.pass * CUDA_ROWS;
	struct cuda_found f;

	f.dot = cuda_shared() + at.tile * found;
	f.norm = f.dot + n * at.pass * CUDA_ROWS;
	f.of_blocks = (struct cuda_scales *)(void *)f.norm; /* twice as large: one tile at once */
	f.pairs = (uint16_t *)(void *)(cuda_shared() + tiles * found);
	return f;
}

/* Copies the pairs for each of 32 banks: thread l of a warp reads only words of bank l. A thread has
 * a word and writes it to one bank after the other, each of a warp beginning at another one. */
CUDA_THREAD void cuda_copy_pairs(uint16_t *to, const uint16_t *pairs)
{
	uint32_t *word = (uint32_t *)(void *)to;

	for (uint32_t i = cuda_thread(); i < CUDA_PAIRS / 2; i += cuda_threads()) {
		const uint32_t both = pairs[i] | (uint32_t)pairs[i + CUDA_PAIRS / 2] << 16;
		for (uint32_t bank = 0; bank < CUDA_COPIES; bank++)
			word[i * CUDA_COPIES + (bank + i) % CUDA_COPIES] = both;
	}
}

/* The tiles of 16 rows from row r on: `bytes` of each. */
CUDA_THREAD const uint8_t *cuda_tiles(const struct cuda_product *p, uint32_t r, size_t bytes)
{
	const uint32_t i = cuda_block_y();
	const uint8_t *matrix = p->slots[p->chosen ? p->chosen[i] : i] + p->offset;

	return matrix + (size_t)r / CUDA_ROWS * p->groups * bytes;
}

/* The first of the inputs that this block of threads multiplies. */
CUDA_THREAD size_t cuda_first_input(const struct cuda_product *p)
{
	return (size_t)cuda_block_y() * p->step;
}

CUDA_THREAD void cuda_put_product(const struct cuda_product *p, struct cuda_place at, uint32_t r,
				  float y)
{
	if (r + at.row < p->rows)
		p->y[cuda_block_y() * p->y_step + at.at * p->ldy + r + at.row] = y;
}

/* ---- TC ---- */

/* The dots of a row's group with n inputs, and the row's norm. */
CUDA_THREAD void cuda_tc_find(const struct cuda_product *p, const struct cuda_found *f,
			      struct cuda_place at, const uint8_t *tile, uint32_t group,
			      uint32_t bits, uint32_t n)
{
	const size_t stride = (size_t)p->groups * CUDA_GROUP_QUADS;
	const struct cuda_quad *q = (const struct cuda_quad *)(const void *)p->q +
				    cuda_first_input(p) * stride + group * CUDA_GROUP_QUADS;
	const uint32_t *words = (const uint32_t *)(const void *)tile + at.row;
	int32_t dot[8];

	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		dot[t] = 0;
	if (bits == 3)
		cuda_tc3_group(dot, n, words, f->pairs + 2 * (cuda_thread() % CUDA_COPIES), q,
			       stride);
	else
		cuda_tc4_group(dot, n, words, &p->trellis, q, stride);
	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		f->dot[(t * at.pass + at.at) * CUDA_ROWS + at.row] = (float)dot[t];
	f->norm[at.at * CUDA_ROWS + at.row] =
		cuda_norm(tile + CUDA_ROWS * 16 * bits, at.row, p->norm_bytes);
}

/* y with the groups of a pass, from `first` on, of one row and token. */
CUDA_THREAD float cuda_tc_add(const struct cuda_product *p, const struct cuda_found *f,
			      struct cuda_place at, uint32_t first, float y)
{
	const float *scale = p->scale + (cuda_first_input(p) + at.at) * p->groups + first;
	const uint32_t left = p->groups - first;

	for (uint32_t g = 0; g < at.pass && g < left; g++)
		y = cuda_group_added(y, f->dot[(at.at * at.pass + g) * CUDA_ROWS + at.row],
				     f->norm[g * CUDA_ROWS + at.row], scale[g], p->trellis.gain);
	return y;
}

/* bits and n are constants. */
CUDA_THREAD void cuda_tc_product(const struct cuda_product *p, uint32_t bits, uint32_t n)
{
	const struct cuda_place at = cuda_place_now(p->tiles);
	const struct cuda_found f = cuda_found_by(n, at, p->tiles);
	const size_t bytes = CUDA_ROWS * (16 * bits + p->norm_bytes);
	const uint32_t step = cuda_blocks_x() * p->tiles * CUDA_ROWS;

	if (bits == 3) {
		cuda_copy_pairs(f.pairs, p->trellis.pairs);
		cuda_barrier();
	}
	for (uint32_t from = cuda_block_x() * p->tiles * CUDA_ROWS; from < p->rows; from += step) {
		const uint32_t r = from + at.tile * CUDA_ROWS;
		const uint8_t *tiles = cuda_tiles(p, r, bytes);
		float y = 0;
		for (uint32_t first = 0; first < p->groups; first += at.pass) {
			const uint32_t group = first + at.at;
			if (group < p->groups && r < p->rows)
				cuda_tc_find(p, &f, at, tiles + group * bytes, group, bits, n);
			cuda_barrier();
			if (at.at < n && r < p->rows)
				y = cuda_tc_add(p, &f, at, first, y);
			cuda_barrier();
		}
		if (at.at < n)
			cuda_put_product(p, at, r, y);
	}
}

/* ---- Q4_K: blocks of 32 columns ---- */

CUDA_THREAD void cuda_q4_k_find(const struct cuda_product *p, const struct cuda_found *f,
				struct cuda_place at, const uint8_t *tiles, uint32_t block,
				uint32_t n)
{
	const size_t stride = (size_t)p->groups * CUDA_K_BLOCKS * CUDA_BLOCK_QUADS;
	const struct cuda_quad *q = (const struct cuda_quad *)(const void *)p->q +
				    cuda_first_input(p) * stride + block * CUDA_BLOCK_QUADS;
	const uint8_t *tile = tiles + (size_t)block / CUDA_K_BLOCKS * CUDA_K_TILE;
	const uint32_t in = block % CUDA_K_BLOCKS;
	const uint32_t *words = (const uint32_t *)(const void *)tile +
				in * CUDA_K_PLANES * CUDA_ROWS + at.row;
	int32_t dot[8];

	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		dot[t] = 0;
	cuda_q4_block(dot, n, words, q, stride);
	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		f->dot[(t * at.pass + at.at) * CUDA_ROWS + at.row] = (float)dot[t];
	f->of_blocks[at.at * CUDA_ROWS + at.row] = cuda_k_scales(tile, at.row, in);
}

CUDA_THREAD float cuda_q4_k_add(const struct cuda_product *p, const struct cuda_found *f,
				struct cuda_place at, uint32_t first, float y)
{
	const uint32_t blocks = p->groups * CUDA_K_BLOCKS;
	const size_t from = (cuda_first_input(p) + at.at) * blocks + first;

	for (uint32_t b = 0; b < at.pass && b < blocks - first; b++) {
		const int16_t *sum = p->sum + 2 * (from + b);
		y = cuda_block_added(y, f->dot[(at.at * at.pass + b) * CUDA_ROWS + at.row],
				     f->of_blocks[b * CUDA_ROWS + at.row], p->scale[from + b],
				     sum[0] + sum[1]);
	}
	return y;
}

CUDA_THREAD void cuda_q4_k_product(const struct cuda_product *p, uint32_t n)
{
	const struct cuda_place at = cuda_place_now(1);
	const struct cuda_found f = cuda_found_by(n, at, 1);
	const uint32_t blocks = p->groups * CUDA_K_BLOCKS;

	for (uint32_t r = cuda_block_x() * CUDA_ROWS; r < p->rows;
	     r += cuda_blocks_x() * CUDA_ROWS) {
		const uint8_t *tiles = cuda_tiles(p, r, CUDA_K_TILE);
		float y = 0;
		for (uint32_t first = 0; first < blocks; first += at.pass) {
			if (first + at.at < blocks)
				cuda_q4_k_find(p, &f, at, tiles, first + at.at, n);
			cuda_barrier();
			if (at.at < n)
				y = cuda_q4_k_add(p, &f, at, first, y);
			cuda_barrier();
		}
		if (at.at < n)
			cuda_put_product(p, at, r, y);
	}
}

/* ---- the kernels ---- */

/* threads: of the largest block, as cuda_product_grid makes them. */
#define CUDA_PRODUCTS(n, threads)                                          \
	CUDA_KERNEL_OF(threads)                                            \
	cuda_tc3_product_##n(struct cuda_product p)                        \
	{                                                                  \
		cuda_tc_product(&p, 3, n);                                 \
	}                                                                  \
	CUDA_KERNEL_OF(threads)                                            \
	cuda_tc4_product_##n(struct cuda_product p)                        \
	{                                                                  \
		cuda_tc_product(&p, 4, n);                                 \
	}                                                                  \
	CUDA_KERNEL_OF(512) cuda_q4_k_product_##n(struct cuda_product p)   \
	{                                                                  \
		cuda_q4_k_product(&p, n);                                  \
	}
CUDA_PRODUCTS(1, 1024)
CUDA_PRODUCTS(2, 1024)
CUDA_PRODUCTS(4, 512)
CUDA_PRODUCTS(8, 256)
