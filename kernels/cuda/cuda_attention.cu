/* Keys and values into their blocks; the spans of attention, each by itself; their joining. */
#include "kernels/cuda/cuda_attention.h"

/* Of the threads of a block, each has an element of a key and of a value. */
CUDA_KERNEL cuda_kv_put(struct cuda_keys p)
{
	const size_t item = (size_t)cuda_block_x() * cuda_threads() + cuda_thread();
	const size_t row = item / ((size_t)p.heads * p.head_dim);
	const size_t position = p.position + row, slot = position % CUDA_KV_BLOCK;
	const size_t head = item / p.head_dim % p.heads, d = item % p.head_dim;

	if (row >= p.rows)
		return;
	uint8_t *block = p.blocks[position / CUDA_KV_BLOCK];
	cuda_put_element(block, p.half, p.key_offset + head * p.key_step + d * CUDA_KV_BLOCK + slot,
			 p.key[item]);
	cuda_put_element(block, p.half, p.value_offset + head * p.value_step + slot * p.head_dim + d,
			 p.value[item]);
}

/* What the threads of a block share: a query, a span's exponentials, and of its blocks the largest
 * scores of both warps, the sums, and what lies before each shrinks by. */
struct cuda_look {
	float *q, *e, *warp_max, *sum, *rescale;
	float *max; /* after each block; max[0] is before the first */
};

CUDA_THREAD struct cuda_look cuda_look_now(void)
{
	struct cuda_look s;

	s.e = cuda_shared();
	s.warp_max = s.e + CUDA_SPAN;
	s.sum = s.warp_max + CUDA_SPAN / CUDA_WARP;
	s.rescale = s.sum + CUDA_SPAN_BLOCKS;
	s.max = s.rescale + CUDA_SPAN_BLOCKS;
	s.q = s.max + CUDA_SPAN_BLOCKS + 1;
	return s;
}

/* By one thread: the maxima after each block, and by what it shrinks all before. */
CUDA_THREAD void cuda_span_maxima(const struct cuda_look *s, float max, uint32_t start,
				  uint32_t first, uint32_t length)
{
	s->max[0] = max;
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		const struct cuda_seen seen =
			cuda_block_seen(start + b * CUDA_KV_BLOCK, first, length);
		max = cuda_larger(cuda_larger(max, s->warp_max[2 * b]), s->warp_max[2 * b + 1]);
		s->max[b + 1] = max;
		s->rescale[b] = seen.from < seen.to ? cuda_exp(s->max[b] - max) : 1;
	}
}

/* A block of 256 threads has a span of one query: a thread has a position, then a column. */
CUDA_KERNEL cuda_attend_spans(struct cuda_attention p)
{
	const uint32_t j = cuda_thread(), b = j / CUDA_KV_BLOCK, slot = j % CUDA_KV_BLOCK;
	const uint32_t t = cuda_block_y() / p.heads, head = cuda_block_y() % p.heads;
	const uint32_t span = p.span + cuda_block_x(), start = span * CUDA_SPAN;
	const uint32_t length = p.length + t, first = cuda_first_seen(length, p.window);
	const struct cuda_seen seen = cuda_block_seen(start + b * CUDA_KV_BLOCK, first, length);
	const size_t kv = head / p.group;
	const struct cuda_look s = cuda_look_now();
	float *part = p.parts + ((size_t)cuda_block_x() * p.n * p.heads + cuda_block_y()) *
					cuda_part(p.head_dim);
	const bool sees = slot >= seen.from && slot < seen.to;
	float score = cuda_minus_infinity();

	if (start >= length || start + CUDA_SPAN <= first)
		return;
	for (uint32_t d = j; d < p.head_dim; d += CUDA_SPAN)
		s.q[d] = p.q[(size_t)cuda_block_y() * p.head_dim + d];
	cuda_barrier();
	if (sees)
		score = cuda_score(s.q, p.blocks[start / CUDA_KV_BLOCK + b], p.half,
				   p.key_offset + kv * p.key_step + slot, p.head_dim, p.scale);
	const float largest = cuda_largest_number(cuda_number(score), j % CUDA_WARP);
	if (j % CUDA_WARP == 0)
		s.warp_max[j / CUDA_WARP] = largest;
	cuda_barrier();
	if (j == 0)
		cuda_span_maxima(&s,
				 p.sinks && start <= first ? p.sinks[head] : cuda_minus_infinity(),
				 start, first, length);
	cuda_barrier();
	s.e[j] = sees ? cuda_exp(score - s.max[b + 1]) : 0;
	cuda_barrier();
	if (j < CUDA_SPAN_BLOCKS * CUDA_LANES) {
		const float *e = s.e + j / CUDA_LANES * CUDA_KV_BLOCK + j % CUDA_LANES;
		float lane = 0;
		for (uint32_t i = 0; i < CUDA_KV_BLOCK; i += CUDA_LANES)
			lane += e[i];
		lane = cuda_sum_lanes(lane);
		if (j % CUDA_LANES == 0)
			s.sum[j / CUDA_LANES] = lane;
	}
	for (uint32_t d = j; d < p.head_dim; d += CUDA_SPAN) {
		float v = 0;
		for (uint32_t i = 0; i < CUDA_SPAN_BLOCKS; i++) {
			const struct cuda_seen some =
				cuda_block_seen(start + i * CUDA_KV_BLOCK, first, length);
			if (some.from < some.to)
				v = cuda_value_added(v * s.rescale[i], s.e + i * CUDA_KV_BLOCK,
						     p.blocks[start / CUDA_KV_BLOCK + i], p.half,
						     p.value_offset + kv * p.value_step + d,
						     p.head_dim, some.from, some.to);
		}
		part[d] = v;
	}
	cuda_barrier();
	if (j == 0) {
		float sum = p.sinks && start <= first ? 1 : 0;
		for (uint32_t i = 0; i < CUDA_SPAN_BLOCKS; i++) {
			const struct cuda_seen some =
				cuda_block_seen(start + i * CUDA_KV_BLOCK, first, length);
			if (some.from < some.to)
				sum = cuda_fma(sum, s.rescale[i], s.sum[i]);
		}
		part[p.head_dim] = s.max[CUDA_SPAN_BLOCKS];
		part[p.head_dim + 1] = sum;
	}
}

/* A block of threads has a query, a thread a column: the spans from p.span on, which is the first
 * that the first token sees. */
CUDA_KERNEL cuda_attend_join(struct cuda_attention p)
{
	const uint32_t t = cuda_block_x() / p.heads, length = p.length + t;
	const uint32_t first = cuda_first_seen(length, p.window) / CUDA_SPAN;
	const uint32_t end = (length - 1) / CUDA_SPAN + 1, dim = p.head_dim;
	const size_t step = (size_t)p.n * p.heads * cuda_part(dim);
	const float *part = p.parts + cuda_block_x() * cuda_part(dim) + (first - p.span) * step;

	for (uint32_t d = cuda_thread(); d < dim; d += cuda_threads()) {
		const float *at = part;
		struct cuda_joined all;
		float o = at[d];
		all.max = at[dim];
		all.sum = at[dim + 1];
		for (uint32_t span = first + 1; span < end; span++) {
			at += step;
			const struct cuda_factors f = cuda_join(&all, at[dim], at[dim + 1]);
			o = cuda_fma(o, f.joined, at[d] * f.span);
		}
		p.out[(size_t)cuda_block_x() * dim + d] = cuda_divide(o, all.sum);
	}
}
