/* Inputs in 8 bits, and products with them. */
#include "kernels/block.h"
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs in 8 bits ---- */

static bool case_tq_prepare_shape(const struct runner *r, uint32_t k, uint32_t n)
{
	const size_t groups = tq_groups(k), codes = n * groups * TQ_GROUP;
	struct random random = {k};
	float *x = case_alloc((size_t)n * k, sizeof *x);
	float *scale = case_alloc(2 * n * groups, sizeof *scale);
	int8_t *q = case_alloc(3 * codes, 1), *expected = q + codes, *ordered = q + 2 * codes;
	compare_fill_rows(&random, x, n, k);
	struct cuda_prepare p = {.x = r->put(r->ctx, x, (size_t)n * k * sizeof *x),
				 .q = r->put(r->ctx, NULL, codes),
				 .scale = r->put(r->ctx, NULL, n * groups * sizeof *scale),
				 .k = k,
				 .n = n};
	cuda_fill_signs(&p.signs);

	bool right = case_launch(r, cuda_tq_prepare_number,
				 cuda_prepare_grid(cuda_tq_prepare_number, &p), &p, sizeof p) &&
		     r->get(r->ctx, q, p.q, codes) &&
		     r->get(r->ctx, scale, p.scale, n * groups * sizeof *scale);
	for (size_t t = 0; t < n; t++)
		kernels_scalar.tq_prepare(expected + t * groups * TQ_GROUP,
					  scale + (n + t) * groups, x + t * k, k);
	for (size_t i = 0; i < codes; i++)
		ordered[i] = expected[i / TQ_GROUP * TQ_GROUP + tq_input_place(i % TQ_GROUP)];
	right = right && compare_bytes("codes", q, ordered, 1, codes) &&
		compare_floats("scales", scale, scale + n * groups, n * groups);
	free(x);
	free(scale);
	free(q);
	r->forget(r->ctx);
	return right;
}

bool case_tq_prepare(const struct runner *r)
{
	return case_tq_prepare_shape(r, 128, 12) && case_tq_prepare_shape(r, 293, 5) &&
	       case_tq_prepare_shape(r, 2048, 1);
}

static bool case_block_prepare_shape(const struct runner *r, uint32_t k, uint32_t n)
{
	const size_t codes = (size_t)n * k, scales = codes / BLOCK, sums = codes / HALF_BLOCK;
	struct random random = {k};
	float *x = case_alloc(codes, sizeof *x), *scale = case_alloc(2 * scales, sizeof *scale);
	int8_t *q = case_alloc(2 * codes, 1);
	int16_t *sum = case_alloc(2 * sums, sizeof *sum);
	compare_fill_rows(&random, x, n, k);
	const struct cuda_prepare p = {.x = r->put(r->ctx, x, codes * sizeof *x),
				       .q = r->put(r->ctx, NULL, codes),
				       .scale = r->put(r->ctx, NULL, scales * sizeof *scale),
				       .sum = r->put(r->ctx, NULL, sums * sizeof *sum),
				       .k = k,
				       .n = n};

	bool right = case_launch(r, cuda_block_prepare_number,
				 cuda_prepare_grid(cuda_block_prepare_number, &p), &p, sizeof p) &&
		     r->get(r->ctx, q, p.q, codes) &&
		     r->get(r->ctx, scale, p.scale, scales * sizeof *scale) &&
		     r->get(r->ctx, sum, p.sum, sums * sizeof *sum);
	for (size_t t = 0; t < n; t++)
		kernels_scalar.block_prepare(q + codes + t * k, scale + scales + t * k / BLOCK,
					     sum + sums + t * k / HALF_BLOCK, x + t * k, k);
	right = right && compare_bytes("codes", q, q + codes, 1, codes) &&
		compare_floats("scales", scale, scale + scales, scales) &&
		compare_bytes("sums", sum, sum + sums, sizeof *sum, sums);
	free(x);
	free(scale);
	free(q);
	free(sum);
	r->forget(r->ctx);
	return right;
}

bool case_block_prepare(const struct runner *r)
{
	return case_block_prepare_shape(r, 64, 12) && case_block_prepare_shape(r, 768, 3);
}

/* ---- products ---- */

enum { MATRICES = 2 }; /* of a launch, chosen of three */

struct product_case {
	struct shape shape;
	uint32_t n;	 /* tokens */
	bool own_inputs; /* each matrix has inputs of its own */
};

/* Weights of random bits; scales and norms of usual size but a few: a NaN, an infinity, a
 * subnormal number and a zero. */
static void case_weights(struct random *random, const struct shape *s, uint8_t *weights,
			 uint8_t *norms)
{
	static const uint16_t hostile[] = {0x7e00, 0xfc00, 0x0001, 0x0000};
	const size_t n = format_norm_bytes(s) / format_norm_type_bytes(s->norms);

	for (size_t i = 0; i < format_packed_bytes(s); i++)
		weights[i] = (uint8_t)random_u32(random);
	for (size_t i = 0; i < n; i++) {
		float f;
		random_normal(random, &f, 1);
		const uint16_t half = i % 211 == 210 ? hostile[i / 211 % 4] : f16_from_f32(f);
		f = i % 211 == 210 ? f16_to_f32(half) : f;
		if (s->norms == NORM_F32)
			memcpy(norms + i * sizeof f, &f, sizeof f);
		else
			memcpy(norms + i * sizeof half, &half, sizeof half);
	}
	for (size_t i = 0; format_is_block(s->format) && i < format_packed_bytes(s);
	     i += format_block_bytes(s->format)) {
		float f[2];
		random_normal(random, f, 2);
		const uint16_t d = f16_from_f32(f[0]), m = f16_from_f32(f[1]);
		memcpy(weights + i, i / 144 % 97 == 96 ? &hostile[i / 144 % 4] : &d, sizeof d);
		memcpy(weights + i + 2, i / 144 % 89 == 88 ? &hostile[i / 144 % 4] : &m, sizeof m);
	}
}

/* Everything of one launch, here and where it runs. */
struct product_run {
	struct product_case c;
	size_t inputs, width; /* codes of an input */
	size_t scales;	      /* of an input */
	void *data[MATRICES + 1];
	int8_t *q, *placed; /* in the order of columns, and where kernels.h wants them */
	float *scale, *y, *expected;
	int16_t *sum;
	struct cuda_product p;
};

static void case_inputs(struct random *random, struct product_run *x)
{
	const bool tq = format_is_tq(x->c.shape.format);

	for (size_t i = 0; i < x->inputs * x->width; i++) {
		const size_t at = tq ? i / TQ_GROUP * TQ_GROUP + tq_input_place(i % TQ_GROUP) : i;
		x->q[i] = (int8_t)(random_u32(random) % 255 - 127);
		x->placed[at] = x->q[i];
		x->sum[i / HALF_BLOCK] = (int16_t)(x->sum[i / HALF_BLOCK] + x->q[i]);
	}
	random_normal(random, x->scale, x->inputs * x->scales);
	if (x->inputs > 1)
		x->scale[x->inputs * x->scales - 1] = NAN;
}

static void case_product_begin(const struct runner *r, struct product_run *x)
{
	const struct shape *s = &x->c.shape;
	const bool tq = format_is_tq(s->format);
	struct random random = {s->rows * 7919 + s->cols + x->c.n};
	const void *slots[MATRICES + 1];
	const uint32_t chosen[MATRICES] = {2, 0};
	uint8_t *weights = case_alloc(format_packed_bytes(s), 1),
		*norms = case_alloc(format_norm_bytes(s), 1);
	uint16_t pairs[CUDA_PAIRS];

	x->inputs = x->c.n * (x->c.own_inputs ? MATRICES : 1);
	x->width = tq ? tq_groups(s->cols) * TQ_GROUP : s->cols;
	x->scales = tq ? tq_groups(s->cols) : s->cols / BLOCK;
	x->q = case_alloc(x->inputs * x->width, 1);
	x->placed = case_alloc(x->inputs * x->width, 1);
	x->scale = case_alloc(x->inputs * x->scales, sizeof *x->scale);
	x->sum = case_alloc(x->inputs * x->width / HALF_BLOCK, sizeof *x->sum);
	x->y = case_alloc((size_t)MATRICES * x->c.n * s->rows, sizeof *x->y);
	x->expected = case_alloc((size_t)MATRICES * x->c.n * s->rows, sizeof *x->y);
	for (size_t i = 0; i <= MATRICES; i++) {
		const struct pieces pieces = {weights, norms, NULL};
		case_weights(&random, s, weights, norms);
		x->data[i] = aligned_alloc(64, format_arranged_bytes(s));
		if (!x->data[i])
			abort();
		format_arrange(x->data[i], s, 0, s->rows, &pieces);
		slots[i] = r->put(r->ctx, x->data[i], format_arranged_bytes(s));
	}
	case_inputs(&random, x);
	cuda_fill_pairs(pairs);
	x->p = (struct cuda_product){
		.slots = r->put(r->ctx, slots, sizeof slots),
		.chosen = r->put(r->ctx, chosen, sizeof chosen),
		.q = r->put(r->ctx, x->q, x->inputs * x->width),
		.scale = r->put(r->ctx, x->scale, x->inputs * x->scales * sizeof *x->scale),
		.sum = r->put(r->ctx, x->sum, x->inputs * x->width / HALF_BLOCK * sizeof *x->sum),
		.step = x->c.own_inputs ? x->c.n : 0,
		.y = r->put(r->ctx, NULL, (size_t)MATRICES * x->c.n * s->rows * sizeof *x->y),
		.y_step = (size_t)x->c.n * s->rows,
		.ldy = s->rows,
		.rows = s->rows,
		.groups = cuda_product_groups(s->format, s->cols),
		.norm_bytes = (uint32_t)format_norm_type_bytes(s->norms),
		.trellis.pairs = r->put(r->ctx, pairs, sizeof pairs),
	};
	if (tq)
		cuda_fill_trellis(&x->p.trellis, format_tq_bits(s->format));
	free(weights);
	free(norms);
}

static void case_product_expect(struct product_run *x)
{
	static const uint32_t chosen[MATRICES] = {2, 0};
	const struct shape *s = &x->c.shape;

	for (size_t i = 0; i < MATRICES; i++) {
		const struct matrix m = {*s, x->data[chosen[i]]};
		const size_t from = x->c.own_inputs ? i * x->c.n : 0;
		const struct input in = {
			.k = s->cols,
			.q = x->placed + from * x->width,
			.scale = x->scale + from * x->scales,
			.block = {x->placed + from * x->width, x->scale + from * x->scales,
				  x->sum + from * x->width / HALF_BLOCK},
		};
		kernels_scalar.multiply[s->format](x->expected + i * x->c.n * s->rows, s->rows, &m,
						   0, s->rows, &in, NULL, x->c.n);
	}
}

static bool case_product_run(const struct runner *r, const struct product_case *c)
{
	struct product_run x = {.c = *c};
	const enum cuda_kernel k = cuda_product_kernel(c->shape.format, c->n);
	char what[96];

	case_product_begin(r, &x);
	case_product_expect(&x);
	snprintf(what, sizeof what, "%s, %u rows of %u columns, %u tokens", cuda_kernel_name(k),
		 c->shape.rows, c->shape.cols, c->n);
	const size_t all = (size_t)MATRICES * c->n * c->shape.rows;
	/* As if it had one processor: several tiles at once, and one after the other. */
	const uint32_t processors = c->own_inputs ? 1 : r->processors;
	const struct cuda_grid g = cuda_product_grid(k, &x.p, MATRICES, processors);
	const bool right = case_launch(r, k, g, &x.p, sizeof x.p) &&
			   r->get(r->ctx, x.y, x.p.y, all * sizeof *x.y) &&
			   compare_floats(what, x.y, x.expected, all);
	for (size_t i = 0; i <= MATRICES; i++)
		free(x.data[i]);
	free(x.q);
	free(x.placed);
	free(x.scale);
	free(x.sum);
	free(x.y);
	free(x.expected);
	r->forget(r->ctx);
	return right;
}

/* Every number of tokens; shapes whose rows and groups do not fill tiles and passes. */
static bool case_products(const struct runner *r, enum format format)
{
	static const struct {
		uint32_t rows, cols, n;
		enum norm_type norms;
	} shapes[] = {
		{16, 256, 1, NORM_F16},	 {40, 2304, 1, NORM_F32}, {48, 768, 2, NORM_F16},
		{17, 4352, 4, NORM_F32}, {32, 768, 8, NORM_F16},  {200, 2048, 1, NORM_F16},
		{96, 512, 1, NORM_F16},	 {80, 256, 2, NORM_F32},  {48, 2048, 8, NORM_F16},
	};
	bool right = true;

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const struct product_case c = {
			{format, shapes[i].norms, shapes[i].rows, shapes[i].cols, 0},
			shapes[i].n,
			i % 2 == 1};
		right &= case_product_run(r, &c);
	}
	return right;
}

bool case_tc3_products(const struct runner *r)
{
	return case_products(r, FORMAT_TC3);
}
bool case_tc4_products(const struct runner *r)
{
	return case_products(r, FORMAT_TC4);
}
bool case_q4_k_products(const struct runner *r)
{
	return case_products(r, FORMAT_Q4_K);
}
