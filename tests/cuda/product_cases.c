/* Inputs in 8 bits, and products with them. */
#include "kernels/block.h"
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs in 8 bits ---- */

static bool case_tq_prepare_shape(const struct runner *r, uint32_t k, uint32_t n)
{
	struct random random = {k};
	float *x = case_alloc((size_t)n * k, sizeof *x);
	compare_fill_rows(&random, x, n, k);
	const struct case_inputs in = case_inputs_room(r, n, k, false);
	struct cuda_prepare p = {.x = r->put(r->ctx, x, (size_t)n * k * sizeof *x),
				 .q = in.q,
				 .scale = in.scale,
				 .k = k,
				 .n = n};
	cuda_fill_signs(&p.signs);

	const bool right = case_launch(r, cuda_tq_prepare_number,
				       cuda_prepare_grid(cuda_tq_prepare_number, &p), &p,
				       sizeof p) &&
			   case_inputs_agree(r, "inputs", &in, x, n, k);
	free(x);
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
	struct random random = {k};
	float *x = case_alloc((size_t)n * k, sizeof *x);
	compare_fill_rows(&random, x, n, k);
	const struct case_inputs in = case_inputs_room(r, n, k, true);
	const struct cuda_prepare p = {.x = r->put(r->ctx, x, (size_t)n * k * sizeof *x),
				       .q = in.q,
				       .scale = in.scale,
				       .sum = in.sum,
				       .k = k,
				       .n = n};

	const bool right = case_launch(r, cuda_block_prepare_number,
				       cuda_prepare_grid(cuda_block_prepare_number, &p), &p,
				       sizeof p) &&
			   case_inputs_agree(r, "inputs in blocks", &in, x, n, k);
	free(x);
	r->forget(r->ctx);
	return right;
}

bool case_block_prepare(const struct runner *r)
{
	return case_block_prepare_shape(r, 64, 12) && case_block_prepare_shape(r, 768, 3);
}

/* ---- products ---- */

/* Matrices of a launch, of two parts each. Matrix 1 is not there. */
enum { MATRICES = 4, PARTS = 2, MISSING = 1 };

struct product_case {
	struct shape shape;
	uint32_t n, most; /* assignments, and how many of them an item has at most */
	uint32_t divide;  /* assignments of one input; 0: no items, all are of matrix 0 */
	bool little;	  /* one processor, and not much shared memory */
};

static const uint16_t hostile[] = {0x7e00, 0xfc00, 0x0001, 0x0000};

/* Scales and offsets of blocks, or numbers of matrices of floats. */
static void case_scales(struct random *random, const struct shape *s, uint8_t *weights)
{
	const bool floats = format_is_float(s->format);
	const size_t bytes = floats ? format_packed_bytes(s) / s->rows / s->cols
				    : format_block_bytes(s->format);
	const uint8_t *at;
	const size_t halves = floats ? 1 : block_halves(s->format, &at);

	if (format_is_tq(s->format))
		return;
	for (size_t i = 0; i < format_packed_bytes(s) / bytes; i++)
		for (size_t h = 0; h < halves; h++) {
			uint8_t *to = weights + i * bytes + (floats ? 0 : at[h]);
			float f;
			random_normal(random, &f, 1);
			const bool odd = i % (floats ? 9973 : 97 - 8 * h) == 96 - 8 * h;
			const uint16_t half = odd ? hostile[i / 97 % 4] : f16_from_f32(f),
				       brain = bf16_from_f32(odd ? f16_to_f32(half) : f);
			f = odd ? f16_to_f32(half) : f;
			if (bytes == sizeof f)
				memcpy(to, &f, sizeof f);
			else
				memcpy(to, s->format == FORMAT_BF16 ? &brain : &half, sizeof half);
		}
}

/* A matrix as in a file; format.h has the pieces. */
struct case_pieces {
	uint8_t *weights, *scales, *biases;
};

/* Powers of two of MXFP4: few differ much, so that sums have bits of many blocks. Those of the first row are
 * subnormal. */
static void case_powers(struct random *random, const struct shape *s, uint8_t *to, size_t step)
{
	static const uint8_t odd[] = {255, 0, 1, 254};
	const size_t row = s->cols / BLOCK;

	for (size_t i = 0; i < row * s->rows; i++)
		to[i * step] = i < row	     ? i % 2
			       : i % 97 == 96 ? odd[i / 97 % 4]
					      : (uint8_t)(120 + random_u32(random) % 12);
}

static void case_norms(struct random *random, enum norm_type type, uint8_t *norms, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float f;
		random_normal(random, &f, 1);
		const uint16_t half = i % 211 == 210 ? hostile[i / 211 % 4] : f16_from_f32(f);
		f = i % 211 == 210 ? f16_to_f32(half) : f;
		const uint16_t brain = bf16_from_f32(f);
		if (type == NORM_F32)
			memcpy(norms + i * sizeof f, &f, sizeof f);
		else
			memcpy(norms + i * sizeof half, type == NORM_F16 ? &half : &brain, sizeof half);
	}
}

/* Weights of random bits; scales and norms of usual size but a few: a NaN, an infinity, a
 * subnormal number and a zero. */
static void case_weights(struct random *random, const struct shape *s, const struct case_pieces *p)
{
	const size_t bytes = format_block_bytes(s->format);

	for (size_t i = 0; i < format_packed_bytes(s); i++)
		p->weights[i] = (uint8_t)random_u32(random);
	if (s->format == FORMAT_MXFP4_GGUF)
		case_powers(random, s, p->weights, bytes);
	else if (s->format == FORMAT_MXFP4)
		case_powers(random, s, p->scales, 1);
	else
		case_norms(random, s->norms, p->scales,
			   format_norm_bytes(s) / format_norm_type_bytes(s->norms));
	case_norms(random, s->norms, p->biases,
		   format_bias_bytes(s) / format_norm_type_bytes(s->norms));
	case_scales(random, s, p->weights);
}

/* Everything of one launch, here and where it runs. */
struct product_run {
	struct product_case c;
	size_t inputs, width; /* codes of an input */
	size_t scales;	      /* of an input */
	size_t part_bytes, results;
	void *data[MATRICES];
	const uint8_t *slots[MATRICES]; /* where they are for kernels */
	uint32_t matrix[64];  /* of each assignment */
	int8_t *q, *placed; /* in the order of columns, and where kernels.h wants them */
	float *scale, *y, *expected;
	float *x; /* of floats */
	int16_t *sum;
	uint32_t item_count;
	struct cuda_product p;
};

static void case_product_inputs(struct random *random, struct product_run *x)
{
	const bool tq = format_is_tq(x->c.shape.format);

	for (size_t i = 0; i < x->inputs * x->width; i++) {
		const size_t at = tq ? i / TQ_GROUP * TQ_GROUP + tq_input_place(i % TQ_GROUP) : i;
		x->q[i] = (int8_t)(random_u32(random) % 255 - 127);
		x->placed[at] = x->q[i];
		x->sum[i / HALF_BLOCK] = (int16_t)(x->sum[i / HALF_BLOCK] + x->q[i]);
	}
	compare_fill_rows(random, x->x, x->inputs, x->c.shape.cols);
	random_normal(random, x->scale, x->inputs * x->scales);
	if (x->inputs > 1)
		x->scale[x->inputs * x->scales - 1] = NAN;
}

/* Matrix of each assignment, and the items and order that result (cuda_group). */
static void case_items(const struct runner *r, struct product_run *x, struct random *random)
{
	struct cuda_item items[64 + MATRICES];
	uint32_t order[64], ordered = 0;

	for (uint32_t a = 0; a < x->c.n; a++)
		x->matrix[a] = random_u32(random) % MATRICES;
	for (uint32_t m = 0; m < MATRICES; m++) {
		uint32_t in_item = x->c.most;
		for (uint32_t a = 0; a < x->c.n && m != MISSING; a++) {
			if (x->matrix[a] != m)
				continue;
			if (in_item == x->c.most) {
				items[x->item_count++] = (struct cuda_item){x->slots[m], ordered, 0};
				in_item = 0;
			}
			order[ordered++] = a;
			items[x->item_count - 1].n = ++in_item;
		}
	}
	x->p.items = r->put(r->ctx, items, sizeof items);
	x->p.order = r->put(r->ctx, order, sizeof order);
	x->p.item_count = r->put(r->ctx, &x->item_count, sizeof x->item_count);
}

static void case_matrices(const struct runner *r, struct product_run *x, struct random *random)
{
	const struct shape *s = &x->c.shape;
	const size_t bytes = 64 + PARTS * x->part_bytes;
	const struct case_pieces from = {case_alloc(format_packed_bytes(s), 1),
					 case_alloc(format_norm_bytes(s), 1),
					 case_alloc(format_bias_bytes(s), 1)};

	for (size_t i = 0; i < MATRICES; i++) {
		x->data[i] = aligned_alloc(64, bytes);
		if (!x->data[i])
			abort();
		for (size_t part = 0; part < PARTS; part++) {
			const struct pieces pieces = {from.weights, from.scales, from.biases};
			case_weights(random, s, &from);
			format_arrange((uint8_t *)x->data[i] + 64 + part * x->part_bytes, s, 0,
				       s->rows, &pieces);
		}
		x->slots[i] = i == MISSING ? NULL : r->put(r->ctx, x->data[i], bytes);
	}
	x->p.slots = r->put(r->ctx, x->slots, sizeof x->slots);
	x->p.next_bytes = 16;
	x->p.offset = 64;
	x->p.part_bytes = x->part_bytes;
	free(from.weights);
	free(from.scales);
	free(from.biases);
}

static void case_product_begin(const struct runner *r, struct product_run *x)
{
	const struct shape *s = &x->c.shape;
	const bool tq = format_is_tq(s->format);
	struct random random = {s->rows * 7919 + s->cols + x->c.n};
	uint16_t pairs[CUDA_PAIRS];

	x->inputs = x->c.divide ? (x->c.n - 1) / x->c.divide + 1 : x->c.n;
	x->width = tq ? tq_groups(s->cols) * TQ_GROUP : s->cols;
	x->scales = tq ? tq_groups(s->cols) : (s->cols + BLOCK - 1) / BLOCK;
	x->part_bytes = (format_arranged_bytes(s) + 63) / 64 * 64;
	x->results = (size_t)PARTS * x->c.n * s->rows;
	x->x = case_alloc(x->inputs * s->cols, sizeof *x->x);
	x->q = case_alloc(x->inputs * x->width, 1);
	x->placed = case_alloc(x->inputs * x->width, 1);
	x->scale = case_alloc(x->inputs * x->scales, sizeof *x->scale);
	x->sum = case_alloc(x->inputs * x->width / HALF_BLOCK + 1, sizeof *x->sum);
	x->y = case_alloc(x->results, sizeof *x->y);
	x->expected = case_alloc(x->results, sizeof *x->y);
	case_matrices(r, x, &random);
	if (x->c.divide)
		case_items(r, x, &random);
	case_product_inputs(&random, x);
	cuda_fill_pairs(pairs);
	x->p.divide = x->c.divide ? x->c.divide : 1;
	x->p.n = x->c.n;
	x->p.most = x->c.most;
	x->p.parts = PARTS;
	x->p.x = r->put(r->ctx, x->x, x->inputs * s->cols * sizeof *x->x);
	x->p.q = r->put(r->ctx, x->q, x->inputs * x->width);
	x->p.scale = r->put(r->ctx, x->scale, x->inputs * x->scales * sizeof *x->scale);
	x->p.sum = r->put(r->ctx, x->sum, x->inputs * x->width / HALF_BLOCK * sizeof *x->sum);
	x->p.y = r->put(r->ctx, NULL, x->results * sizeof *x->y);
	x->p.y_part = (size_t)x->c.n * s->rows;
	x->p.ldy = s->rows;
	x->p.rows = s->rows;
	x->p.groups = cuda_product_groups(s->format, s->cols);
	x->p.norm_bytes = (uint32_t)format_norm_type_bytes(s->norms);
	x->p.kind = cuda_block_kind_of(s);
	if (tq)
		cuda_fill_trellis(&x->p.trellis, s->format);
	x->p.trellis.pairs = r->put(r->ctx, pairs, sizeof pairs);
}

/* The results of assignments whose matrix is not there stay as they were: zeros. */
static void case_product_expect(struct product_run *x)
{
	const struct shape *s = &x->c.shape;

	for (size_t a = 0; a < x->c.n; a++) {
		const size_t i = a / x->p.divide;
		const struct input in = {
			.k = s->cols,
			.f = x->x + i * s->cols,
			.q = x->placed + i * x->width,
			.scale = x->scale + i * x->scales,
			.block = {x->placed + i * x->width, x->scale + i * x->scales,
				  x->sum + i * x->width / HALF_BLOCK},
		};
		for (size_t part = 0; part < PARTS && x->matrix[a] != MISSING; part++) {
			const uint8_t *data = x->data[x->matrix[a]];
			const struct matrix m = {*s, data + 64 + part * x->part_bytes};
			kernels_scalar.multiply[s->format](
				x->expected + (part * x->c.n + a) * s->rows, s->rows, &m, 0,
				s->rows, &in, NULL, 1);
		}
	}
}

static void case_product_end(const struct runner *r, struct product_run *x)
{
	for (size_t i = 0; i < MATRICES; i++)
		free(x->data[i]);
	free(x->x);
	free(x->q);
	free(x->placed);
	free(x->scale);
	free(x->sum);
	free(x->y);
	free(x->expected);
	r->forget(r->ctx);
}

/* Launches the product. items: the most that the host expects. */
static bool case_product_launch(const struct runner *r, struct product_run *x, enum cuda_kernel k, uint32_t items)
{
	const struct product_case *c = &x->c;
	const struct cuda_room little = {1, format_is_float(c->shape.format) ? 65536 : 101376};
	const struct cuda_grid g = cuda_product_grid(k, &x->p, items, c->little ? &little : &r->room);
	char what[96];

	snprintf(what, sizeof what, "%s, %u rows of %u columns, %u assignments",
		 cuda_kernel_name(k), c->shape.rows, c->shape.cols, c->n);
	return case_launch(r, k, g, &x->p, sizeof x->p) &&
	       r->get(r->ctx, x->y, x->p.y, x->results * sizeof *x->y) &&
	       compare_floats(what, x->y, x->expected, x->results);
}

/* The host knows that each assignment is an item. */
static void case_items_known(struct product_run *x)
{
	x->p.n = x->item_count;
	x->p.item_count = NULL;
}

static bool case_product_run(const struct runner *r, const struct product_case *c, enum cuda_kernel k)
{
	struct product_run x = {.c = *c};

	case_product_begin(r, &x);
	case_product_expect(&x);
	bool right = case_product_launch(r, &x, k, c->divide ? x.item_count + 3 : (c->n - 1) / c->most + 1);
	if (right && c->divide && c->most == 1) {
		case_items_known(&x);
		right = case_product_launch(r, &x, k, x.item_count);
	}
	case_product_end(r, &x);
	return right;
}

/* The kernel whose warps have a tile each, if there is one. */
static enum cuda_kernel case_tiles_kernel(const struct product_case *c)
{
	const struct cuda_room room = {1, 101376};
	const enum cuda_kernel k = cuda_kernel_for(c->shape.format, c->most, SIZE_MAX, &room);

	return k == cuda_product_kernel(c->shape.format, c->most) ? CUDA_KERNEL_COUNT : k;
}

struct product_shape {
	uint32_t rows, cols, n, most, divide;
	enum norm_type norms;
	uint32_t group; /* of affine formats */
};

static bool case_products_of(const struct runner *r, enum format format, const struct product_shape *shapes,
			     size_t count)
{
	bool right = true;

	for (size_t i = 0; i < count; i++) {
		const struct product_case c = {
			{format, shapes[i].norms, shapes[i].rows, shapes[i].cols, shapes[i].group},
			shapes[i].n,
			shapes[i].most,
			shapes[i].divide,
			i % 2 == 1};
		if (cuda_product_kernel(format, shapes[i].most) == CUDA_KERNEL_COUNT ||
		    shapes[i].cols % format_block_cols(&c.shape))
			continue;
		right &= case_product_run(r, &c, cuda_product_kernel(format, shapes[i].most));
		if (case_tiles_kernel(&c) != CUDA_KERNEL_COUNT)
			right &= case_product_run(r, &c, case_tiles_kernel(&c));
	}
	return right;
}

/* With items and without; shapes whose rows and groups do not fill tiles and passes. */
static bool case_products(const struct runner *r, enum format format)
{
	static const struct product_shape shapes[] = {
		{16, 256, 1, 1, 0, NORM_F16, 0},	{40, 2304, 3, 1, 0, NORM_F32, 0},
		{48, 768, 2, 8, 0, NORM_F16, 0},	{17, 8448, 9, 8, 0, NORM_F32, 0},
		{32, 768, 24, 8, 4, NORM_F16, 0},	{72, 2048, 8, 1, 8, NORM_F16, 0},
		{96, 512, 8, 1, 1, NORM_F16, 0},	{80, 256, 24, 8, 1, NORM_F32, 0},
		{32, 2048, 31, 8, 2, NORM_F16, 0}, {64, 768, 50, 32, 0, NORM_F16, 0},
		{48, 2304, 64, 32, 8, NORM_F32, 0},	{48, 384, 40, 32, 4, NORM_F16, 0},
		{40, 2304, 16, 16, 0, NORM_F16, 0},	{33, 768, 21, 16, 0, NORM_F32, 0},
		{64, 768, 50, 32, 0, NORM_F16, 0},	{40, 4224, 13, 16, 0, NORM_F16, 0},
		{48, 128, 8, 8, 2, NORM_F16, 0},
	};
	return case_products_of(r, format, shapes, sizeof shapes / sizeof *shapes);
}

/* Fewer: the code is the same for all formats but for codes and scales. Rows that do not fill pieces, and
 * groups of all sizes and floats, too. */
static bool case_block_products(const struct runner *r, enum format format)
{
	static const struct product_shape shapes[] = {
		{40, 2304, 3, 1, 0, NORM_F16, 128}, {24, 288, 2, 1, 0, NORM_F32, 32},
		{72, 1024, 8, 1, 8, NORM_BF16, 64}, {17, 4608, 9, 8, 0, NORM_F16, 64},
		{32, 800, 24, 8, 4, NORM_BF16, 32}, {80, 256, 24, 8, 1, NORM_F32, 128},
		{72, 544, 50, 32, 0, NORM_F16, 32}, {144, 768, 60, 32, 8, NORM_BF16, 128},
	};
	return case_products_of(r, format, shapes, sizeof shapes / sizeof *shapes);
}

/* Formats whose kernels differ in codes and scales alone. Where each thread is one of the system, which takes minutes
 * and looks for missing barriers, the first is like all. */
static bool case_formats(const struct runner *r, const enum format *formats, size_t count)
{
	const size_t some = CREW_OF_SYSTEM_THREADS ? 1 : count;
	bool right = true;

	for (size_t i = 0; i < some; i++)
		right &= case_block_products(r, formats[i]);
	return right;
}

/* Rows that begin at multiples of 16 bytes, and others; many rows, and such that are longer than a block of threads has
 * at once. */
static bool case_float_products_of(const struct runner *r, enum format format)
{
	static const struct product_shape shapes[] = {
		{128, 256, 1, 1, 0, NORM_F16, 0}, {6, 4113, 3, 1, 0, NORM_F16, 0},
		{33, 264, 8, 1, 8, NORM_F16, 0},  {17, 1100, 9, 8, 0, NORM_F16, 0},
		{40, 96, 24, 8, 4, NORM_F16, 0},  {9, 2376, 11, 8, 0, NORM_F16, 0},
		{520, 96, 9, 8, 0, NORM_F16, 0},
	};
	return case_products_of(r, format, shapes, sizeof shapes / sizeof *shapes);
}

bool case_tq_products(const struct runner *r)
{
	return case_products(r, FORMAT_TQ2) && case_products(r, FORMAT_TQ3) &&
	       case_products(r, FORMAT_TQ4);
}
bool case_tc2_products(const struct runner *r)
{
	return case_products(r, FORMAT_TC2);
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
bool case_q5_k_products(const struct runner *r)
{
	return case_block_products(r, FORMAT_Q5_K);
}
bool case_q6_k_products(const struct runner *r)
{
	return case_block_products(r, FORMAT_Q6_K);
}
bool case_q8_0_products(const struct runner *r)
{
	return case_block_products(r, FORMAT_Q8_0);
}
bool case_q5_0_products(const struct runner *r)
{
	return case_block_products(r, FORMAT_Q5_0);
}
/* Codes that are looked up. */
bool case_value_products(const struct runner *r)
{
	static const enum format formats[] = {FORMAT_MXFP4,  FORMAT_MXFP4_GGUF, FORMAT_IQ4_NL,
					      FORMAT_IQ4_XS, FORMAT_Q4_0,	FORMAT_IQ3_S};
	return case_formats(r, formats, sizeof formats / sizeof *formats);
}
bool case_small_products(const struct runner *r)
{
	static const enum format formats[] = {FORMAT_Q2_K, FORMAT_Q3_K};
	return case_formats(r, formats, sizeof formats / sizeof *formats);
}
bool case_group_products(const struct runner *r)
{
	static const enum format formats[] = {FORMAT_AFFINE2, FORMAT_AFFINE3, FORMAT_AFFINE4,
					      FORMAT_AFFINE5, FORMAT_AFFINE6, FORMAT_AFFINE8,
					      FORMAT_Q4_1,    FORMAT_Q5_1};
	return case_formats(r, formats, sizeof formats / sizeof *formats);
}
bool case_float_products(const struct runner *r)
{
	return case_float_products_of(r, FORMAT_F32) && case_float_products_of(r, FORMAT_F16) &&
	       case_float_products_of(r, FORMAT_BF16);
}

/* ---- several in one launch ---- */

/* Products with inputs of the same tokens, as of queries, keys and values; or the first one has items, as of a row's
 * experts beside a shared one. */
static const struct product_together {
	uint32_t rows, cols;
	enum format format;
} of_tc[] = {{208, 512, FORMAT_TC3}, {40, 512, FORMAT_TC3}, {64, 384, FORMAT_TC4}},
  of_tc4[] = {{64, 256, FORMAT_TC4}, {1, 256, FORMAT_TC4}, {72, 256, FORMAT_TC4}},
  of_blocks[] = {{208, 512, FORMAT_Q4_K}, {40, 768, FORMAT_Q6_K}, {64, 800, FORMAT_Q8_0}},
  of_others[] = {{16, 2048, FORMAT_Q5_K}, {72, 256, FORMAT_Q4_K}, {64, 96, FORMAT_Q5_0}};
enum { TOGETHER = 3 };

/* items: of the first, 0 if it has none. */
static bool case_together(const struct runner *r, const struct product_together shapes[TOGETHER],
			  uint32_t items, uint32_t n, uint32_t most, bool little)
{
	const enum format formats[] = {shapes[0].format, shapes[1].format, shapes[2].format};
	const enum cuda_kernel k = cuda_products_kernel(formats, TOGETHER, most);
	const struct cuda_room few = {1, 101376};
	struct product_run x[TOGETHER];
	struct cuda_products p = {.count = TOGETHER};

	for (size_t i = 0; i < TOGETHER; i++) {
		x[i] = (struct product_run){
			.c = {{shapes[i].format, NORM_F16, shapes[i].rows, shapes[i].cols, 0}, n,
			      most, 0, false}};
		if (i == 0 && items)
			x[i].c.n = x[i].c.divide = items;
		case_product_begin(r, &x[i]);
		case_product_expect(&x[i]);
		if (i == 0 && items)
			case_items_known(&x[i]);
		p.p[i] = x[i].p;
	}
	const struct cuda_grid g = cuda_products_grid(k, &p, little ? &few : &r->room);
	bool right = case_launch(r, k, g, &p, sizeof p);
	for (size_t i = 0; i < TOGETHER; i++)
		right = right && r->get(r->ctx, x[i].y, x[i].p.y, x[i].results * sizeof *x[i].y) &&
			compare_floats("products of one launch", x[i].y, x[i].expected,
				       x[i].results);
	for (size_t i = 0; i < TOGETHER; i++)
		case_product_end(r, &x[i]);
	return right;
}

bool case_products_together(const struct runner *r)
{
	return case_together(r, of_tc, 0, 1, 1, false) && case_together(r, of_tc, 0, 11, 8, true) &&
	       case_together(r, of_tc, 0, 40, 32, false) && case_together(r, of_tc, 0, 16, 16, false) &&
	       case_together(r, of_tc4, 0, 13, 16, true) && case_together(r, of_tc, 8, 1, 1, false) &&
	       case_together(r, of_tc, 3, 1, 1, true) && case_together(r, of_tc4, 0, 1, 1, false) &&
	       case_together(r, of_tc4, 0, 5, 8, true) && case_together(r, of_blocks, 0, 1, 1, false) &&
	       case_together(r, of_blocks, 0, 11, 8, true) && case_together(r, of_blocks, 9, 1, 1, false) &&
	       case_together(r, of_others, 0, 3, 1, true) && case_together(r, of_others, 0, 8, 8, false) &&
	       case_together(r, of_others, 2, 1, 1, true);
}
