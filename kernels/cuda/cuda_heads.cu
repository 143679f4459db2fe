/* Heads of queries, keys and values before attention: norms, positions, and keys and values to their
 * blocks. */
#include "kernels/cuda/cuda_attention.h"

enum { HEAD_WARPS = 4 };

/* By a warp: the norm of a head in shared memory, where it has weights. */
CUDA_THREAD void cuda_norm_head(float *x, const float *w, uint32_t dim, float eps)
{
	enum { AHEAD = 4 };
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	float first[AHEAD];

	if (!w)
		return;
	CUDA_UNROLL
	for (uint32_t k = 0; k < AHEAD; k++)
		first[k] = lane + k * CUDA_WARP < dim ? w[lane + k * CUDA_WARP] : 0;
	const float scale = cuda_norm_scale(cuda_squares(x, dim), dim, eps);
	cuda_warp_barrier();
	CUDA_UNROLL
	for (uint32_t k = 0; k < AHEAD; k++)
		if (lane + k * CUDA_WARP < dim)
			x[lane + k * CUDA_WARP] = x[lane + k * CUDA_WARP] * scale * first[k];
	for (uint32_t d = lane + AHEAD * CUDA_WARP; d < dim; d += CUDA_WARP)
		x[d] = x[d] * scale * w[d];
	cuda_warp_barrier();
}

CUDA_THREAD void cuda_turn_head(const struct cuda_heads *p, float *x, size_t row)
{
	CUDA_UNROLL_8
	for (uint32_t i = cuda_thread() % CUDA_WARP; i < p->turned; i += CUDA_WARP)
		cuda_rotate_pair(x + i, x + i + p->turned, p->cos[row * p->turned + i],
				 p->sin[row * p->turned + i]);
	cuda_warp_barrier();
}

/* A head of a row: of queries, of keys or of values. */
struct cuda_head {
	const float *from, *norm; /* from: its first element */
	size_t row, at;		  /* at: where it goes to */
	uint32_t head;
	bool query, key;
};

/* The heads of a row: first those of queries, then of keys, then of values. */
CUDA_THREAD struct cuda_head cuda_head_of(const struct cuda_heads *p, uint32_t item)
{
	const uint32_t kv = p->keys.heads, all = p->heads + 2 * kv, row = item / all, i = item % all;
	struct cuda_head h;

	h.row = row;
	h.query = i < p->heads;
	h.key = !h.query && i < p->heads + kv;
	h.head = h.query ? i : h.key ? i - p->heads : i - p->heads - kv;
	h.norm = h.query ? p->q_norm : h.key ? p->key_norm : NULL;
	h.at = (size_t)(row * (h.query ? p->heads : kv) + h.head) * p->keys.head_dim;
	h.from = h.query ? p->q_from + (size_t)(row * p->heads + h.head) * p->q_step
		 : h.key ? p->keys.key + h.at
			 : p->keys.value + h.at;
	return h;
}

CUDA_THREAD void cuda_put_head(const struct cuda_heads *p, const struct cuda_head *h, uint32_t d, float x)
{
	if (h->query) {
		p->q[h->at + d] = x;
	} else if (h->key) {
		p->key[h->at + d] = x;
		cuda_put_key(&p->keys, h->row, h->head, d, x);
	} else {
		cuda_put_value(&p->keys, h->row, h->head, d, x);
	}
}

/* Any head, in shared memory. */
CUDA_THREAD void cuda_place_any(const struct cuda_heads *p, const struct cuda_head *h, float *x)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, dim = p->keys.head_dim;

	for (uint32_t d = lane; d < dim; d += CUDA_WARP)
		x[d] = h->from[d];
	cuda_warp_barrier();
	cuda_norm_head(x, h->norm, dim, p->eps);
	if (h->query || h->key)
		cuda_turn_head(p, x, h->row);
	for (uint32_t d = lane; d < dim; d += CUDA_WARP)
		cuda_put_head(p, h, d, x[d]);
}

enum { HEAD_PAIRS = CUDA_HEAD_EACH / 2 };

/* A head of 128 elements, all of which are turned, in registers: all is loaded before any is used. */
CUDA_THREAD void cuda_place_usual(const struct cuda_heads *p, const struct cuda_head *h)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	float x[CUDA_HEAD_EACH], w[CUDA_HEAD_EACH], cos[HEAD_PAIRS], sin[HEAD_PAIRS];

	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++) {
		x[e] = h->from[e * CUDA_WARP + lane];
		w[e] = h->norm ? h->norm[e * CUDA_WARP + lane] : 1;
	}
	CUDA_UNROLL
	for (uint32_t e = 0; e < HEAD_PAIRS; e++) {
		cos[e] = p->cos[h->row * p->turned + e * CUDA_WARP + lane];
		sin[e] = p->sin[h->row * p->turned + e * CUDA_WARP + lane];
	}
	if (h->norm) {
		const float scale = cuda_norm_scale(cuda_head_squares(x), CUDA_HEAD, p->eps);
		CUDA_UNROLL
		for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++)
			x[e] = x[e] * scale * w[e];
	}
	CUDA_UNROLL
	for (uint32_t e = 0; e < HEAD_PAIRS && (h->query || h->key); e++)
		cuda_rotate_pair(&x[e], &x[e + HEAD_PAIRS], cos[e], sin[e]);
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++)
		cuda_put_head(p, h, e * CUDA_WARP + lane, x[e]);
}

/* A warp has a head of a row. */
CUDA_KERNEL cuda_place_heads(struct cuda_heads p)
{
	const uint32_t warp = cuda_thread() / CUDA_WARP;
	const struct cuda_head h = cuda_head_of(&p, cuda_block_x() * HEAD_WARPS + warp);

	cuda_wait_for_ahead();
	if (h.row >= p.keys.n)
		return;
	if (p.keys.head_dim == CUDA_HEAD && 2 * p.turned == CUDA_HEAD)
		cuda_place_usual(&p, &h);
	else
		cuda_place_any(&p, &h, cuda_shared() + warp * p.keys.head_dim);
}
