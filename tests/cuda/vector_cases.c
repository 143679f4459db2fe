/* Norms, positions, activations, sums, and the router's choice. */
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- norms and positions ---- */

static bool case_rmsnorm_shape(const struct runner *r, uint32_t rows, uint32_t n)
{
	const size_t all = (size_t)rows * n, bytes = all * sizeof(float);
	struct random random = {n};
	float *x = case_alloc(all, sizeof *x), *w = case_alloc(n, sizeof *w);
	float *got = case_alloc(all, sizeof *got);
	compare_fill_rows(&random, x, rows, n);
	random_normal(&random, w, n);
	struct cuda_norms p = {.x = r->put(r->ctx, x, bytes),
			       .w = r->put(r->ctx, w, n * sizeof *w),
			       .rows = rows,
			       .n = n,
			       .eps = 1e-6F};
	p.y = (float *)(uintptr_t)p.x; /* in place */

	bool right = case_launch(r, cuda_rmsnorm_number, cuda_norms_grid(&p), &p, sizeof p) &&
		     r->get(r->ctx, got, p.y, bytes);
	for (size_t row = 0; row < rows; row++)
		kernels_scalar.rmsnorm(x + row * n, x + row * n, w, n, p.eps);
	right = right && compare_floats("rmsnorm", got, x, all);
	free(x);
	free(w);
	free(got);
	r->forget(r->ctx);
	return right;
}

bool case_rmsnorm(const struct runner *r)
{
	return case_rmsnorm_shape(r, 12, 128) && case_rmsnorm_shape(r, 3, 37) &&
	       case_rmsnorm_shape(r, 2, 2048);
}

static bool case_rope_shape(const struct runner *r, struct cuda_positions p)
{
	const size_t rows = p.rows, each = (size_t)p.heads * p.head_dim, all = rows * each;
	struct random random = {all};
	float *x = case_alloc(all, sizeof *x), *got = case_alloc(all, sizeof *got);
	float *cos = case_alloc(rows * p.half, sizeof *cos),
	      *sin = case_alloc(rows * p.half, sizeof *sin);
	compare_fill_rows(&random, x, rows, each);
	random_normal(&random, cos, rows * p.half);
	random_normal(&random, sin, rows * p.half);
	p.x = r->put(r->ctx, x, all * sizeof *x);
	p.cos = r->put(r->ctx, cos, rows * p.half * sizeof *cos);
	p.sin = r->put(r->ctx, sin, rows * p.half * sizeof *sin);

	bool right = case_launch(r, cuda_rope_number, cuda_items_grid(rows * p.heads * p.half), &p,
				 sizeof p) &&
		     r->get(r->ctx, got, p.x, all * sizeof *got);
	for (size_t head = 0; head < rows * p.heads; head++)
		kernels_scalar.rope(x + head * p.head_dim, cos + head / p.heads * p.half,
				    sin + head / p.heads * p.half, p.half);
	right = right && compare_floats("rope", got, x, all);
	free(x);
	free(got);
	free(cos);
	free(sin);
	r->forget(r->ctx);
	return right;
}

bool case_rope(const struct runner *r)
{
	const struct cuda_positions whole = {.rows = 5, .heads = 3, .head_dim = 128, .half = 64},
				    partial = {.rows = 2, .heads = 4, .head_dim = 96, .half = 24};
	return case_rope_shape(r, whole) && case_rope_shape(r, partial);
}

/* ---- elements ---- */

enum { ELEMENTS = 12000 };

/* Also the exponential's limits: where it rounds to 0, is subnormal and overflows. */
static bool case_elements_by(const struct runner *r, enum cuda_kernel k,
			     void (*scalar)(float *y, const float *x, size_t n))
{
	struct random random = {k};
	float *x = case_alloc(2 * ELEMENTS, sizeof *x), *y = x + ELEMENTS,
	      *got = case_alloc(ELEMENTS, sizeof *got);
	compare_fill_rows(&random, x, 12, 2 * ELEMENTS / 12);
	for (size_t i = 0; i < ELEMENTS / 2; i++)
		y[i] = (float)i * 0.035F - 105;
	const struct cuda_vectors p = {.y = r->put(r->ctx, y, ELEMENTS * sizeof *y),
				       .x = r->put(r->ctx, x, ELEMENTS * sizeof *x),
				       .n = ELEMENTS};

	bool right = case_launch(r, k, cuda_items_grid(p.n), &p, sizeof p) &&
		     r->get(r->ctx, got, p.y, ELEMENTS * sizeof *got);
	scalar(y, x, ELEMENTS);
	right = right && compare_floats(cuda_kernel_name(k), got, y, ELEMENTS);
	free(x);
	free(got);
	r->forget(r->ctx);
	return right;
}

bool case_elements(const struct runner *r)
{
	return case_elements_by(r, cuda_silu_mul_number, kernels_scalar.silu_mul) &&
	       case_elements_by(r, cuda_add_number, kernels_scalar.add);
}

/* ---- experts ---- */

enum { SUM_ROWS = 3, SUM_WIDTH = 300, SUM_TOP_K = 8, SUM_EXPERTS = 128 };

/* Different experts in any order. */
static void case_choose_any(struct random *random, uint32_t *chosen, uint32_t top_k)
{
	bool taken[SUM_EXPERTS] = {false};
	for (uint32_t i = 0; i < top_k; i++) {
		do
			chosen[i] = random_u32(random) % SUM_EXPERTS;
		while (taken[chosen[i]]);
		taken[chosen[i]] = true;
	}
}

/* y = what engine/cpu/moe.c makes of one row. */
static void case_sum_row(float *y, const float *x, const float *weight, const uint32_t *chosen)
{
	memset(y, 0, SUM_WIDTH * sizeof *y);
	for (uint32_t e = 0; e < SUM_EXPERTS; e++)
		for (uint32_t i = 0; i < SUM_TOP_K; i++)
			if (chosen[i] == e)
				kernels_scalar.add_scaled(y, weight[i], x + i * SUM_WIDTH,
							  SUM_WIDTH);
}

bool case_sum_experts(const struct runner *r)
{
	const size_t outputs = SUM_ROWS * SUM_TOP_K, all = outputs * SUM_WIDTH;
	struct random random = {31};
	float *x = case_alloc(all, sizeof *x), weight[SUM_ROWS * SUM_TOP_K];
	float got[SUM_ROWS * SUM_WIDTH], y[SUM_ROWS * SUM_WIDTH];
	uint32_t chosen[SUM_ROWS * SUM_TOP_K];
	compare_fill_rows(&random, x, outputs, SUM_WIDTH);
	random_normal(&random, weight, outputs);
	for (size_t row = 0; row < SUM_ROWS; row++)
		case_choose_any(&random, chosen + row * SUM_TOP_K, SUM_TOP_K);
	const struct cuda_sums p = {.y = r->put(r->ctx, NULL, sizeof y),
				    .x = r->put(r->ctx, x, all * sizeof *x),
				    .weight = r->put(r->ctx, weight, sizeof weight),
				    .chosen = r->put(r->ctx, chosen, sizeof chosen),
				    .rows = SUM_ROWS,
				    .top_k = SUM_TOP_K,
				    .width = SUM_WIDTH};

	bool right = case_launch(r, cuda_sum_experts_number,
				 cuda_items_grid(SUM_ROWS * SUM_WIDTH), &p, sizeof p) &&
		     r->get(r->ctx, got, p.y, sizeof got);
	for (size_t row = 0; row < SUM_ROWS; row++)
		case_sum_row(y + row * SUM_WIDTH, x + row * SUM_TOP_K * SUM_WIDTH,
			     weight + row * SUM_TOP_K, chosen + row * SUM_TOP_K);
	right = right && compare_floats("sums of experts", got, y, SUM_ROWS * SUM_WIDTH);
	free(x);
	r->forget(r->ctx);
	return right;
}

/* ---- the router ---- */

enum { CHOICE_ROWS = 8, CHOICE_TOP_K = 8, CHOICE_EXPERTS = 160 };

/* As routing_top_k: NaN comes after all numbers. */
static bool case_above(float a, float b)
{
	return !isnan(a) && !(a <= b);
}

/* One row as engine/cpu/router.c chooses where the softmax comes first. */
static void case_choose_row(float *logit, const struct cuda_choice *p, uint32_t *chosen,
			    float *weight)
{
	bool taken[CHOICE_EXPERTS] = {false};
	float sum = 0;

	for (uint32_t rank = 0; rank < p->top_k; rank++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < p->experts; i++)
			if (!taken[i] && (best == UINT32_MAX || case_above(logit[i], logit[best])))
				best = i;
		chosen[rank] = best;
		taken[best] = true;
	}
	kernels_scalar.softmax(logit, p->experts);
	for (uint32_t i = 0; i < p->top_k; i++)
		sum += weight[i] = logit[chosen[i]];
	sum += p->eps;
	for (uint32_t i = 0; i < p->top_k && p->normalise; i++)
		weight[i] /= sum;
	for (uint32_t i = 0; i < p->top_k && p->scaling != 1; i++)
		weight[i] *= p->scaling;
}

/* Rows with many ties, with infinities and with NaNs. */
static void case_fill_logits(struct random *random, float *logits, uint32_t experts)
{
	random_normal(random, logits, (size_t)CHOICE_ROWS * experts);
	for (size_t i = 0; i < 2 * experts; i++)
		logits[experts + i] = rintf(logits[experts + i] * (i < experts ? 1 : 3));
	logits[3 * experts + 5] = -INFINITY;
	logits[4 * experts + 7] = INFINITY;
	logits[5 * experts] = NAN;
	logits[6 * experts + 9] = NAN;
	for (size_t i = 0; i < experts; i++)
		logits[7 * experts + i] = i % 2 ? 0.0F : -0.0F;
}

static bool case_choose_shape(const struct runner *r, struct cuda_choice p)
{
	const size_t all = (size_t)CHOICE_ROWS * p.experts, chosen_all = CHOICE_ROWS * CHOICE_TOP_K;
	struct random random = {p.experts};
	float *logits = case_alloc(all, sizeof *logits);
	float got[CHOICE_ROWS * CHOICE_TOP_K], weight[CHOICE_ROWS * CHOICE_TOP_K];
	uint32_t found[CHOICE_ROWS * CHOICE_TOP_K], chosen[CHOICE_ROWS * CHOICE_TOP_K];
	case_fill_logits(&random, logits, p.experts);
	p.logits = r->put(r->ctx, logits, all * sizeof *logits);
	p.chosen = r->put(r->ctx, NULL, sizeof found);
	p.weight = r->put(r->ctx, NULL, sizeof got);
	p.rows = CHOICE_ROWS;
	p.top_k = CHOICE_TOP_K;

	bool right = case_launch(r, cuda_choose_number, cuda_choice_grid(&p), &p, sizeof p) &&
		     r->get(r->ctx, found, p.chosen, sizeof found) &&
		     r->get(r->ctx, got, p.weight, sizeof got);
	for (size_t row = 0; row < CHOICE_ROWS; row++)
		case_choose_row(logits + row * p.experts, &p, chosen + row * CHOICE_TOP_K,
				weight + row * CHOICE_TOP_K);
	right = right && compare_bytes("chosen", found, chosen, sizeof *found, chosen_all) &&
		compare_floats("weights", got, weight, chosen_all);
	free(logits);
	r->forget(r->ctx);
	return right;
}

bool case_choose(const struct runner *r)
{
	const struct cuda_choice plain = {.experts = 128, .scaling = 1},
				 scaled = {.experts = CHOICE_EXPERTS,
					   .normalise = 1,
					   .eps = 1e-20F,
					   .scaling = 2.5F},
				 few = {.experts = 9, .normalise = 1, .scaling = 1};
	return case_choose_shape(r, plain) && case_choose_shape(r, scaled) &&
	       case_choose_shape(r, few);
}
