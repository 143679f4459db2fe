/* Kernels that do the work of several: each against the scalar functions one after the other. */
#include "kernels/attention.h"
#include "kernels/block.h"
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"

#include <stdlib.h>
#include <string.h>

/* Inputs in 8 bits of rows y[rows][k], as kernels_scalar makes them, against those of a kernel. */
static bool case_rotated_agree(const struct runner *r, const char *what, const struct case_inputs *in,
			       const float *y, uint32_t rows, uint32_t k)
{
	const size_t groups = tq_groups(k), codes = rows * groups * TQ_GROUP;
	float *scale = case_alloc(2 * rows * groups, sizeof *scale);
	int8_t *q = case_alloc(3 * codes, 1), *expected = q + codes, *ordered = q + 2 * codes;

	for (size_t t = 0; t < rows; t++)
		kernels_scalar.tq_prepare(expected + t * groups * TQ_GROUP,
					  scale + (rows + t) * groups, y + t * k, k);
	for (size_t i = 0; i < codes; i++)
		ordered[i] = expected[i / TQ_GROUP * TQ_GROUP + tq_input_place(i % TQ_GROUP)];
	const bool right = r->get(r->ctx, q, in->q, codes) &&
			   r->get(r->ctx, scale, in->scale, rows * groups * sizeof *scale) &&
			   compare_bytes(what, q, ordered, 1, codes) &&
			   compare_floats(what, scale, scale + rows * groups, rows * groups);
	free(scale);
	free(q);
	return right;
}

static bool case_blocks_agree(const struct runner *r, const char *what, const struct case_inputs *in,
			      const float *y, uint32_t rows, uint32_t k)
{
	const size_t codes = (size_t)rows * k, scales = codes / BLOCK, sums = codes / HALF_BLOCK;
	float *scale = case_alloc(2 * scales, sizeof *scale);
	int8_t *q = case_alloc(2 * codes, 1);
	int16_t *sum = case_alloc(2 * sums, sizeof *sum);

	for (size_t t = 0; t < rows; t++)
		kernels_scalar.block_prepare(q + codes + t * k, scale + scales + t * k / BLOCK,
					     sum + sums + t * k / HALF_BLOCK, y + t * k, k);
	const bool right = r->get(r->ctx, q, in->q, codes) &&
			   r->get(r->ctx, scale, in->scale, scales * sizeof *scale) &&
			   r->get(r->ctx, sum, in->sum, sums * sizeof *sum) &&
			   compare_bytes(what, q, q + codes, 1, codes) &&
			   compare_floats(what, scale, scale + scales, scales) &&
			   compare_bytes(what, sum, sum + sums, sizeof *sum, sums);
	free(scale);
	free(q);
	free(sum);
	return right;
}

bool case_inputs_agree(const struct runner *r, const char *what, const struct case_inputs *in,
		       const float *y, uint32_t rows, uint32_t k)
{
	return in->sum ? case_blocks_agree(r, what, in, y, rows, k)
		       : case_rotated_agree(r, what, in, y, rows, k);
}

struct case_inputs case_inputs_room(const struct runner *r, uint32_t rows, uint32_t k, bool blocks)
{
	const size_t columns = rows * tq_groups(k) * TQ_GROUP;
	return (struct case_inputs){r->put(r->ctx, NULL, columns),
				    r->put(r->ctx, NULL, columns / BLOCK * sizeof(float)),
				    blocks ? r->put(r->ctx, NULL, columns / HALF_BLOCK * 2) : NULL};
}

/* ---- norms ---- */

struct norm_case {
	uint32_t rows, n, top_k;
	bool added, y, ascending, blocks, shared, gated, few;
};

/* Experts of a row: 3, 0, 1, 2 … times 5. */
static void case_norm_experts(struct random *random, uint32_t *chosen, float *weight,
			      const struct norm_case *c)
{
	for (uint32_t i = 0; i < c->rows * c->top_k; i++)
		chosen[i] = (i % c->top_k + (c->ascending ? 0 : 3 + i / c->top_k)) % c->top_k * 5;
	random_normal(random, weight, (size_t)c->rows * c->top_k);
}

/* A row of the shared expert. */
static void case_norm_shared(const struct norm_case *c, float *sum, const float *shared, float gate)
{
	float weight = 1;

	if (c->gated)
		kernels_scalar.sigmoid_mul(&weight, &gate, 1);
	if (c->shared)
		kernels_scalar.add_scaled(sum, weight, shared, c->n);
}

/* Gates are `added`'s first numbers, outputs of the shared expert follow those of the others. */
static void case_norm_expect(const struct norm_case *c, float *x, const float *added,
			     const float *outputs, const uint32_t *chosen, const float *weight)
{
	const float *shared = outputs + (size_t)c->rows * c->top_k * c->n;
	float *sum = case_alloc(c->n, sizeof *sum);

	for (size_t row = 0; row < c->rows; row++) {
		memset(sum, 0, c->n * sizeof *sum);
		for (uint32_t e = 0; e < 5 * c->top_k; e++)
			for (size_t i = row * c->top_k; i < (row + 1) * c->top_k; i++)
				if (chosen[i] == e)
					kernels_scalar.add_scaled(sum, weight[i], outputs + i * c->n,
								  c->n);
		case_norm_shared(c, sum, shared + row * c->n, added[row]);
		if (c->added)
			kernels_scalar.add(x + row * c->n, added + row * c->n, c->n);
		if (c->top_k)
			kernels_scalar.add(x + row * c->n, sum, c->n);
	}
	free(sum);
}

static bool case_norm_inputs_of(const struct runner *r, const struct norm_case *c)
{
	const size_t all = (size_t)c->rows * c->n, bytes = all * sizeof(float);
	const size_t outputs = (size_t)c->rows * c->top_k;
	struct random random = {c->n};
	float *x = case_alloc(3 * all + c->n, sizeof *x), *got = x + all, *added = x + 2 * all,
	      *w = x + 3 * all, *output = case_alloc((outputs + c->rows) * c->n, sizeof *x), weight[64];
	uint32_t chosen[64];
	compare_fill_rows(&random, x, c->rows, c->n);
	random_normal(&random, added, all);
	random_normal(&random, w, c->n);
	random_normal(&random, output, (outputs + c->rows) * c->n);
	case_norm_experts(&random, chosen, weight, c);
	const struct case_inputs in = case_inputs_room(r, c->rows, c->n, c->blocks);
	float *from = r->put(r->ctx, x, bytes);
	struct cuda_norm_inputs p = {
		.x = from,
		.to = c->few ? r->put(r->ctx, NULL, bytes) : from,
		.added = c->added ? r->put(r->ctx, added, bytes) : NULL,
		.experts = {.outputs = r->put(r->ctx, output, outputs * c->n * sizeof *x),
			    .weight = r->put(r->ctx, weight, sizeof weight),
			    .shared = c->shared ? r->put(r->ctx, output + outputs * c->n, bytes) : NULL,
			    .gate = c->gated ? r->put(r->ctx, added, c->rows * sizeof *x) : NULL,
			    .chosen = c->ascending ? NULL : r->put(r->ctx, chosen, sizeof chosen),
			    .top_k = c->top_k},
		.w = r->put(r->ctx, w, c->n * sizeof *w),
		.y = c->y ? r->put(r->ctx, NULL, bytes) : NULL,
		.q = in.q,
		.scale = in.scale,
		.sum = in.sum,
		.rows = c->rows,
		.n = c->n,
		.eps = 1e-6F,
	};
	cuda_fill_signs(&p.signs);

	bool right = case_launch(r, cuda_norm_kernel(&p), cuda_norm_inputs_grid(&p), &p, sizeof p) &&
		     r->get(r->ctx, got, p.to, bytes);
	case_norm_expect(c, x, added, output, chosen, weight);
	right = right && compare_floats("x before its norm", got, x, all);
	for (size_t row = 0; row < c->rows; row++)
		kernels_scalar.rmsnorm(x + row * c->n, x + row * c->n, w, c->n, p.eps);
	if (c->y)
		right = right && r->get(r->ctx, got, p.y, bytes) &&
			compare_floats("a norm", got, x, all);
	right = right && case_inputs_agree(r, "inputs of a norm", &in, x, c->rows, c->n);
	free(x);
	free(output);
	r->forget(r->ctx);
	return right;
}

bool case_norm_inputs(const struct runner *r)
{
	static const struct norm_case cases[] = {
		{3, 256, 0, .y = true},
		{2, 2048, 8, .ascending = true},
		{7, 300, 3, .y = true},
		{5, 640, 0, .added = true},
		{4, 96, 2, .added = true, .y = true},
		{1, 2400, 10, .added = true, .y = true},
		{3, 2048, 8, .y = true, .ascending = true, .blocks = true},
		{5, 352, 0, .added = true, .blocks = true},
		{3, 300, 4, .y = true, .ascending = true, .shared = true},
		{3, 300, 2, .y = true, .shared = true, .gated = true},
		{2, 352, 2, .y = true, .blocks = true, .shared = true, .gated = true},
		{1, 2048, 0, .few = true},
		{1, 2048, 8, .ascending = true, .few = true},
		{2, 300, 0, .added = true, .y = true, .few = true},
		{8, 2880, 5, .ascending = true, .few = true},
		{3, 640, 0, .added = true, .few = true},
		{1, 4, 3, .y = true, .ascending = true, .few = true},
		{2, 352, 10, .y = true, .ascending = true, .blocks = true, .shared = true, .few = true},
		{1, 2048, 0, .added = true, .blocks = true, .few = true},
		{3, 300, 1, .ascending = true, .shared = true, .gated = true, .few = true},
		{2, 333, 2, .ascending = true, .few = true}, /* no block of threads shares it */
		{2, 300, 2, .few = true},
		{9, 256, 0, .few = true},
	};
	bool right = true;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		right &= case_norm_inputs_of(r, &cases[i]);
	return right;
}

/* ---- gated activations ---- */

static bool case_gate_inputs_of(const struct runner *r, uint32_t rows, uint32_t k, bool blocks)
{
	const size_t all = (size_t)rows * k;
	struct random random = {k};
	float *gate = case_alloc(2 * all, sizeof *gate), *up = gate + all;
	compare_fill_rows(&random, gate, rows, k);
	random_normal(&random, up, all);
	const struct case_inputs in = case_inputs_room(r, rows, k, blocks);
	struct cuda_gate_inputs p = {.gate = r->put(r->ctx, gate, all * sizeof *gate),
				     .up = r->put(r->ctx, up, all * sizeof *up),
				     .q = in.q,
				     .scale = in.scale,
				     .sum = in.sum,
				     .k = k,
				     .n = rows};
	cuda_fill_signs(&p.signs);

	const bool launched = case_launch(r, cuda_gate_kernel(&p), cuda_gate_inputs_grid(&p), &p,
					  sizeof p);
	kernels_scalar.silu_mul(gate, up, all);
	const bool right = launched &&
			   case_inputs_agree(r, "inputs of an activation", &in, gate, rows, k);
	free(gate);
	r->forget(r->ctx);
	return right;
}

bool case_gate_inputs(const struct runner *r)
{
	/* few rows, and many */
	return case_gate_inputs_of(r, 9, 256, false) && case_gate_inputs_of(r, 3, 333, false) &&
	       case_gate_inputs_of(r, 1, 32, true) && case_gate_inputs_of(r, 1, 100, false) &&
	       case_gate_inputs_of(r, 9, 224, true) && case_gate_inputs_of(r, 400, 333, false) &&
	       case_gate_inputs_of(r, 600, 224, true);
}

/* ---- joined spans ---- */

/* Of successive rows, the first of which sees `length` positions, spans whose largest scores differ. gated: as
 * queries are that have their gates behind them. */
static bool case_join_inputs_of(const struct runner *r, uint32_t length, uint32_t rows, uint32_t heads,
				uint32_t dim, bool gated)
{
	const uint32_t spans = (length + rows - 2) / ATTENTION_SPAN + 1, width = heads * dim;
	const size_t part = attention_part(dim), all = (size_t)spans * rows * heads * part;
	float *parts = case_alloc(all, sizeof *parts), *joined = case_alloc(rows * heads * part, sizeof *joined),
	      *out = case_alloc((size_t)rows * width, sizeof *out),
	      *gates = case_alloc((size_t)rows * width * 2, sizeof *gates);
	struct cuda_row *row = case_alloc(rows, sizeof *row);
	struct random random = {length};
	const struct attention a = {.length = length, .heads = heads, .head_dim = dim};
	for (uint32_t i = 0; i < rows; i++)
		row[i] = (struct cuda_row){.position = length - 1 + i};
	random_normal(&random, parts, all);
	for (float *sum = parts + dim + 1; sum < parts + all; sum += part)
		*sum = 1 + *sum * *sum;
	random_normal(&random, gates, (size_t)rows * width * 2);
	const struct case_inputs in = case_inputs_room(r, rows, width, false);
	struct cuda_join_inputs p = {.attention = {.parts = r->put(r->ctx, parts, all * sizeof *parts),
						   .rows = r->put(r->ctx, row, rows * sizeof *row),
						   .n = rows,
						   .heads = heads,
						   .group = 1,
						   .head_dim = dim,
						   .spans = spans},
				     .gate_step = 2 * dim,
				     .q = in.q,
				     .scale = in.scale};
	if (gated)
		p.gate = (const float *)r->put(r->ctx, gates, (size_t)rows * width * 2 * sizeof *gates) + dim;
	cuda_fill_signs(&p.signs);

	const bool launched = case_launch(r, cuda_join_kernel(&p), cuda_join_inputs_grid(&p), &p,
					  sizeof p);
	kernels_scalar.attend_join(out, width, joined, parts, &a, rows, 0, spans);
	for (size_t i = 0; i < (size_t)rows * heads && gated; i++)
		kernels_scalar.sigmoid_mul(out + i * dim, gates + (2 * i + 1) * dim, dim);
	const bool right = launched &&
			   case_inputs_agree(r, "inputs of spans", &in, out, rows, width);
	free(parts);
	free(joined);
	free(row);
	free(out);
	free(gates);
	r->forget(r->ctx);
	return right;
}

bool case_join_inputs(const struct runner *r)
{
	static const struct {
		uint32_t length, rows, heads, dim;
		bool gated;
	} cases[] = {{256, 2, 2, 128, false}, {2304, 2, 1, 256, true},	  {70000, 2, 1, 128, false},
		     {20000, 2, 3, 64, true}, {600, 2, 5, 96, false},	  {600, 2, 5, 96, true},
		     {600, 2, 3, 32, false},  {700, 1030, 1, 128, true}, /* many rows */
		     {300, 1100, 1, 80, false}, {300, 1100, 3, 48, true}};
	bool right = true;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		right &= case_join_inputs_of(r, cases[i].length, cases[i].rows, cases[i].heads,
					     cases[i].dim, cases[i].gated);
	return right;
}
