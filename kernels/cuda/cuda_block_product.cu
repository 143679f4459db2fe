/* Products of Q4_K with the inputs of an item, of one token or of up to 8.
 *
 * A block of threads computes a tile of 16 rows, then others. Each thread takes one row of one block of
 * 32 columns and computes its dots, which are exact; then one thread for each row and token adds them
 * in ascending order. What the threads find at once is a pass. */
#include "kernels/cuda/cuda_items.h"

/* A thread's place: a row of a tile, and a block of the pass or, when dots are added, a token. */
struct cuda_place {
	uint32_t row, at, pass;
};

/* The shared memory: what the threads find in a pass. */
struct cuda_pass {
	float *dot;		   /* [tokens][pass][16] */
	struct cuda_scales *scales; /* [pass][16] */
};

CUDA_THREAD struct cuda_place cuda_place_now(void)
{
	struct cuda_place at;

	at.pass = cuda_threads() / CUDA_ROWS;
	at.row = cuda_thread() % CUDA_ROWS;
	at.at = cuda_thread() / CUDA_ROWS;
	return at;
}

CUDA_THREAD struct cuda_pass cuda_pass_of(uint32_t n, struct cuda_place at)
{
	struct cuda_pass f;

	f.dot = cuda_shared();
	f.scales = (struct cuda_scales *)(void *)(f.dot + n * at.pass * CUDA_ROWS);
	return f;
}

/* What a block of threads computes: an item's assignments, and one part of its matrix. Where the item
 * has fewer tokens than its kernel, the last one stands in the others' places. */
struct cuda_work {
	uint32_t n, part; /* n: 0, nothing */
	uint32_t assignment[8];
	const uint8_t *matrix;
};

/* n: the kernel's tokens. */
CUDA_THREAD struct cuda_work cuda_work_now(const struct cuda_product *p, uint32_t n)
{
	const uint32_t i = cuda_block_y() / p->parts;
	struct cuda_work w;

	w.n = 0;
	if (!cuda_item_there(p, i))
		return w;
	const struct cuda_item item = cuda_item_of(p, i);
	w.n = item.n;
	w.part = cuda_block_y() % p->parts;
	w.matrix = p->slots[item.matrix] + p->offset + w.part * p->part_bytes;
	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++) {
		const uint32_t at = item.first + (t < item.n ? t : item.n - 1);
		w.assignment[t] = p->items ? p->order[at] : at;
	}
	return w;
}

/* The inputs from a block on, of `quads`; a row has `all` of those. */
CUDA_THREAD struct cuda_inputs cuda_inputs_of(const struct cuda_product *p,
					      const struct cuda_work *w, uint32_t n, uint32_t all,
					      uint32_t quads, uint32_t group)
{
	const struct cuda_quad *q = (const struct cuda_quad *)(const void *)p->q;
	struct cuda_inputs in;

	in.n = n;
	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		in.at[t] = q + ((size_t)(w->assignment[t] / p->divide) * all + group) * quads;
	return in;
}

/* The number of thread `at`'s token, of the n of the kernel: a constant index for each. */
CUDA_THREAD uint32_t cuda_own_assignment(const struct cuda_work *w, uint32_t n, uint32_t at)
{
	uint32_t a = 0;

	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		a = t == at ? w->assignment[t] : a;
	return a;
}

CUDA_THREAD void cuda_put_product(const struct cuda_product *p, const struct cuda_work *w,
				  uint32_t assignment, uint32_t r, float y)
{
	if (r < p->rows)
		p->y[w->part * p->y_part + assignment * p->ldy + r] = y;
}

CUDA_THREAD void cuda_q4_k_find(const struct cuda_product *p, const struct cuda_pass *f,
				const struct cuda_work *w, struct cuda_place at,
				const uint8_t *tiles, uint32_t block, uint32_t n)
{
	const struct cuda_inputs q = cuda_inputs_of(p, w, n, p->groups * CUDA_K_BLOCKS,
						    CUDA_BLOCK_QUADS, block);
	const uint8_t *tile = tiles + (size_t)block / CUDA_K_BLOCKS * CUDA_K_TILE;
	const uint32_t in = block % CUDA_K_BLOCKS;
	const uint32_t *words = (const uint32_t *)(const void *)tile +
				in * CUDA_K_PLANES * CUDA_ROWS + at.row;
	int32_t dot[8];

	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		dot[t] = 0;
	cuda_q4_block(dot, words, &q);
	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++)
		f->dot[(t * at.pass + at.at) * CUDA_ROWS + at.row] = (float)dot[t];
	f->scales[at.at * CUDA_ROWS + at.row] = cuda_k_scales(tile, at.row, in);
}

CUDA_THREAD float cuda_q4_k_add(const struct cuda_product *p, const struct cuda_pass *f,
				struct cuda_place at, uint32_t input, uint32_t first, float y)
{
	const uint32_t blocks = p->groups * CUDA_K_BLOCKS;
	const size_t from = (size_t)input * blocks + first;

	for (uint32_t b = 0; b < at.pass && b < blocks - first; b++) {
		const int16_t *sum = p->sum + 2 * (from + b);
		y = cuda_block_added(y, f->dot[(at.at * at.pass + b) * CUDA_ROWS + at.row],
				     f->scales[b * CUDA_ROWS + at.row], p->scale[from + b],
				     sum[0] + sum[1]);
	}
	return y;
}

CUDA_THREAD void cuda_q4_k_product(const struct cuda_product *p, uint32_t n)
{
	const struct cuda_place at = cuda_place_now();
	const struct cuda_pass f = cuda_pass_of(n, at);
	cuda_wait_for_ahead();
	const struct cuda_work w = cuda_work_now(p, n);
	const uint32_t blocks = p->groups * CUDA_K_BLOCKS;

	if (w.n == 0)
		return;
	const uint32_t own = cuda_own_assignment(&w, n, at.at);
	for (uint32_t r = cuda_block_x() * CUDA_ROWS; r < p->rows;
	     r += cuda_blocks_x() * CUDA_ROWS) {
		const uint8_t *tiles = w.matrix + (size_t)r / CUDA_ROWS * p->groups * CUDA_K_TILE;
		float y = 0;
		for (uint32_t first = 0; first < blocks; first += at.pass) {
			if (first + at.at < blocks)
				cuda_q4_k_find(p, &f, &w, at, tiles, first + at.at, n);
			cuda_barrier();
			if (at.at < w.n)
				y = cuda_q4_k_add(p, &f, at, own / p->divide, first, y);
			cuda_barrier();
		}
		if (at.at < w.n)
			cuda_put_product(p, &w, own, r + at.row, y);
	}
}

CUDA_KERNEL_OF(512) cuda_q4_k_product_1(struct cuda_product p)
{
	cuda_q4_k_product(&p, 1);
}
CUDA_KERNEL_OF(512) cuda_q4_k_product_8(struct cuda_product p)
{
	cuda_q4_k_product(&p, 8);
}
