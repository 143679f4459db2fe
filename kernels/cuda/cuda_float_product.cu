/* Products of matrices of floats with the inputs of items, of one token or of up to 8.
 *
 * A sum in dot order has 16 lanes, each a chain over every 16th column, so 16 threads have a row.
 * All threads of the block bring rows and inputs to shared memory: a thread that loaded its own
 * lane would wait for memory again and again. */
#include "kernels/cuda/cuda_floats.h"
#include "kernels/cuda/cuda_items.h"

enum { CUDA_FLOAT_TOKENS = 4 }; /* of a thread, at most */

/* A launch as a block of threads sees it; type and tokens are constants. */
struct cuda_float_run {
	const struct cuda_product *p;
	enum cuda_number type;
	uint32_t tokens, rows, stride;
	struct cuda_item item;
	uint32_t part, row; /* row: the block's first one */
	uint8_t *weights;   /* in shared memory: [rows][stride] */
	float *x;	    /* [tokens][stride] */
	bool whole_quads;   /* rows begin at multiples of 16 bytes */
};

CUDA_THREAD struct cuda_float_run cuda_float_run_of(const struct cuda_product *p,
						    enum cuda_number type, uint32_t tokens)
{
	struct cuda_float_run r;

	r.p = p;
	r.type = type;
	r.tokens = tokens;
	r.item = cuda_item_of(p, cuda_block_y() / p->parts);
	r.part = cuda_block_y() % p->parts;
	r.rows = tokens == 1 ? CUDA_FLOAT_FEW
			     : cuda_threads() / CUDA_LANES * cuda_float_tokens(tokens) / tokens;
	r.stride = cuda_float_stride(r.rows);
	r.row = cuda_block_x() * r.rows;
	r.x = cuda_shared();
	r.weights = (uint8_t *)(void *)(r.x + tokens * r.stride);
	r.whole_quads = p->groups * cuda_float_bytes(type) % 16 == 0;
	return r;
}

/* Begins to copy bytes, an even number, by all threads. */
CUDA_THREAD void cuda_copy_floats(void *to, const void *from, uint32_t bytes, bool whole_quads)
{
	if (whole_quads) {
		CUDA_ROLLED
		for (uint32_t i = cuda_thread() * 16; i < bytes; i += cuda_threads() * 16)
			cuda_copy16((uint8_t *)to + i, (const uint8_t *)from + i);
		return;
	}
	CUDA_ROLLED
	for (uint32_t i = cuda_thread(); i < bytes / 2; i += cuda_threads())
		((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
}

/* Columns [first, first + n) of the block's rows. A row that is not there is the last one. */
CUDA_THREAD void cuda_copy_rows(const struct cuda_float_run *r, uint32_t first, uint32_t n)
{
	const uint32_t each = cuda_float_bytes(r->type);
	const uint8_t *matrix = cuda_matrix_of(r->p, r->item, r->part);

	CUDA_ROLLED
	for (uint32_t i = 0; i < r->rows; i++) {
		const uint32_t row = r->row + i < r->p->rows ? r->row + i : r->p->rows - 1;
		cuda_copy_floats(r->weights + i * r->stride * each,
				 matrix + ((size_t)row * r->p->groups + first) * each, n * each,
				 r->whole_quads);
	}
}

CUDA_THREAD void cuda_copy_inputs(const struct cuda_float_run *r, uint32_t first, uint32_t n)
{
	CUDA_ROLLED
	for (uint32_t t = 0; t < r->tokens; t++) {
		const uint32_t input = cuda_assignment_of(r->p, r->item, t) / r->p->divide;
		cuda_copy_floats(r->x + t * r->stride,
				 r->p->x + (size_t)input * r->p->groups + first, n * 4,
				 r->p->groups % 4 == 0);
	}
}

/* A thread's row, and its first token: 16 threads have the lanes of a row with some tokens. */
CUDA_THREAD uint32_t cuda_own_row(const struct cuda_float_run *r)
{
	return cuda_thread() / CUDA_LANES % r->rows;
}
CUDA_THREAD uint32_t cuda_own_token(const struct cuda_float_run *r)
{
	return cuda_thread() / (CUDA_LANES * r->rows) * cuda_float_tokens(r->tokens);
}

/* Adds n columns to the thread's lane of its row, for each of its tokens. */
CUDA_THREAD void cuda_add_columns(float lane[CUDA_FLOAT_TOKENS], const struct cuda_float_run *r,
				  uint32_t n)
{
	const uint8_t *row =
		r->weights + cuda_own_row(r) * r->stride * cuda_float_bytes(r->type);
	const float *x = r->x + cuda_own_token(r) * r->stride;

	CUDA_UNROLL_8
	for (uint32_t i = cuda_thread() % CUDA_LANES; i < n; i += CUDA_LANES) {
		const float w = cuda_number_at(row, r->type, i);
		CUDA_UNROLL
		for (uint32_t t = 0; t < cuda_float_tokens(r->tokens); t++)
			lane[t] = cuda_fma(w, x[t * r->stride + i], lane[t]);
	}
}

CUDA_THREAD void cuda_put_lanes(const struct cuda_float_run *r, const float lane[CUDA_FLOAT_TOKENS])
{
	const struct cuda_product *p = r->p;
	const uint32_t row = r->row + cuda_own_row(r);

	CUDA_UNROLL
	for (uint32_t i = 0; i < cuda_float_tokens(r->tokens); i++) {
		const uint32_t t = cuda_own_token(r) + i;
		const float y = cuda_sum_lanes(lane[i]);
		if (cuda_thread() % CUDA_LANES == 0 && t < r->item.n && row < p->rows)
			p->y[r->part * p->y_part + cuda_assignment_of(p, r->item, t) * p->ldy +
			     row] = y;
	}
}

CUDA_THREAD void cuda_float_product(const struct cuda_product *p, enum cuda_number type,
				    uint32_t tokens)
{
	const uint32_t all = p->groups;
	float lane[CUDA_FLOAT_TOKENS] = {0};

	cuda_let_next_begin();
	if (p->items)
		cuda_wait_for_ahead();
	if (!cuda_item_there(p, cuda_block_y() / p->parts))
		return;
	const struct cuda_float_run r = cuda_float_run_of(p, type, tokens);
	const uint32_t most = cuda_float_columns(r.rows);
	const bool adds = cuda_own_token(&r) < tokens;
	CUDA_ROLLED
	for (uint32_t first = 0; first < all; first += most) {
		const uint32_t n = all - first < most ? all - first : most;
		cuda_copy_rows(&r, first, n);
		cuda_wait_for_ahead(); /* weights are nothing that kernels write */
		cuda_copy_inputs(&r, first, n);
		cuda_copies_end();
		cuda_copies_wait();
		cuda_barrier();
		if (adds)
			cuda_add_columns(lane, &r, n);
		cuda_barrier();
	}
	if (adds)
		cuda_put_lanes(&r, lane);
}

#define CUDA_FLOAT_PRODUCTS(name, type)                                    \
	CUDA_KERNEL_OF(256) cuda_##name##_product_1(struct cuda_product p) \
	{                                                                  \
		cuda_float_product(&p, type, 1);                           \
	}                                                                  \
	CUDA_KERNEL_OF(512) cuda_##name##_product_8(struct cuda_product p) \
	{                                                                  \
		cuda_float_product(&p, type, 8);                           \
	}
CUDA_FLOAT_PRODUCTS(f32, CUDA_F32)
CUDA_FLOAT_PRODUCTS(f16, CUDA_F16)
CUDA_FLOAT_PRODUCTS(bf16, CUDA_BF16)
