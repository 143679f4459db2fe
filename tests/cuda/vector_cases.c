/* Norms, positions, activations, and sums. */
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"
#include "tests/unit/random_blocks.h"

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

/* To another place, or in place. */
static bool case_l2norm_shape(const struct runner *r, uint32_t rows, uint32_t n, bool apart)
{
	const size_t all = (size_t)rows * n, bytes = all * sizeof(float);
	struct random random = {n};
	float *x = case_alloc(all, sizeof *x), *got = case_alloc(all, sizeof *got);
	compare_fill_rows(&random, x, rows, n);
	struct cuda_lengths p = {.x = r->put(r->ctx, x, bytes),
				 .rows = rows,
				 .n = n,
				 .eps = 1e-6F,
				 .scale = sqrtf((float)n)};
	p.y = apart ? r->put(r->ctx, NULL, bytes) : (float *)(uintptr_t)p.x;

	bool right = case_launch(r, cuda_l2norm_number, cuda_lengths_grid(&p), &p, sizeof p) &&
		     r->get(r->ctx, got, p.y, bytes);
	for (size_t row = 0; row < rows; row++)
		kernels_scalar.l2norm(x + row * n, x + row * n, n, p.eps, p.scale);
	right = right && compare_floats("l2norm", got, x, all);
	free(x);
	free(got);
	r->forget(r->ctx);
	return right;
}

bool case_rmsnorm(const struct runner *r)
{
	return case_rmsnorm_shape(r, 12, 128) && case_rmsnorm_shape(r, 3, 37) &&
	       case_rmsnorm_shape(r, 2, 2048) && case_l2norm_shape(r, 13, 128, false) &&
	       case_l2norm_shape(r, 3, 37, true) && case_l2norm_shape(r, 5, 512, true);
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

static void case_scale(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] *= x[0];
}

bool case_elements(const struct runner *r)
{
	return case_elements_by(r, cuda_silu_mul_number, kernels_scalar.silu_mul) &&
	       case_elements_by(r, cuda_add_number, kernels_scalar.add) &&
	       case_elements_by(r, cuda_scale_number, case_scale);
}

enum { GLU_NUMBERS = 3000 };

static bool case_activation(const struct runner *r, struct cuda_activation p)
{
	struct random random = {p.kind + 1};
	float gate[GLU_NUMBERS], up[GLU_NUMBERS], got[GLU_NUMBERS];
	compare_fill_rows(&random, gate, 3, GLU_NUMBERS / 3);
	random_normal(&random, up, GLU_NUMBERS);
	p.gate = r->put(r->ctx, gate, sizeof gate);
	p.up = p.kind == CUDA_RELU_SQUARED ? NULL : r->put(r->ctx, up, sizeof up);
	p.n = GLU_NUMBERS;

	for (size_t i = 0; i < GLU_NUMBERS && p.kind == CUDA_LIMITED; i++) {
		gate[i] = gate[i] > p.limit ? p.limit : gate[i];
		up[i] = up[i] > p.limit ? p.limit : up[i] < -p.limit ? -p.limit : up[i];
	}
	if (p.kind == CUDA_GELU)
		kernels_scalar.gelu_mul(gate, up, GLU_NUMBERS);
	else if (p.kind == CUDA_RELU_SQUARED)
		kernels_scalar.relu_squared(gate, GLU_NUMBERS);
	else if (p.kind == CUDA_CLAMPED)
		kernels_scalar.swiglu_clamped(gate, up, GLU_NUMBERS, p.alpha, p.limit);
	else
		kernels_scalar.silu_mul(gate, up, GLU_NUMBERS);
	const bool right = case_launch(r, cuda_activate_number, cuda_items_grid(GLU_NUMBERS), &p,
				       sizeof p) &&
			   r->get(r->ctx, got, p.gate, sizeof got) &&
			   compare_floats("activations", got, gate, GLU_NUMBERS);
	r->forget(r->ctx);
	return right;
}

bool case_activations(const struct runner *r)
{
	static const struct cuda_activation all[] = {{.kind = CUDA_GELU},
						     {.kind = CUDA_CLAMPED, .alpha = 1.702F, .limit = 1},
						     {.kind = CUDA_LIMITED, .limit = 0.7F},
						     {.kind = CUDA_RELU_SQUARED}};
	return case_activation(r, all[0]) && case_activation(r, all[1]) &&
	       case_activation(r, all[2]) && case_activation(r, all[3]);
}

static bool case_scaled(const struct runner *r)
{
	enum { NUMBERS = 700 };
	struct random random = {8};
	float y[NUMBERS], x[NUMBERS], got[NUMBERS];
	random_normal(&random, y, NUMBERS);
	compare_fill_rows(&random, x, 1, NUMBERS);
	const struct cuda_scaled p = {.y = r->put(r->ctx, y, sizeof y),
				      .x = r->put(r->ctx, x, sizeof x),
				      .n = NUMBERS,
				      .a = 0.22F};

	kernels_scalar.add_scaled(y, p.a, x, NUMBERS);
	const bool right = case_launch(r, cuda_add_scaled_number, cuda_items_grid(NUMBERS), &p,
				       sizeof p) &&
			   r->get(r->ctx, got, p.y, sizeof got) &&
			   compare_floats("scaled sums", got, y, NUMBERS);
	r->forget(r->ctx);
	return right;
}

/* Gates lie between other numbers. */
bool case_gates(const struct runner *r)
{
	enum { ROWS = 7, DIM = 90, STEP = 150 };
	struct random random = {6};
	float y[ROWS * DIM], x[ROWS * STEP], got[ROWS * DIM];
	random_normal(&random, y, ROWS * DIM);
	compare_fill_rows(&random, x, ROWS, STEP);
	const struct cuda_gates p = {.y = r->put(r->ctx, y, sizeof y),
				     .gate = r->put(r->ctx, x, sizeof x),
				     .n = ROWS,
				     .dim = DIM,
				     .step = STEP};

	for (size_t i = 0; i < ROWS; i++)
		kernels_scalar.sigmoid_mul(y + i * DIM, x + i * STEP, DIM);
	const bool right = case_launch(r, cuda_open_gates_number, cuda_items_grid(ROWS * DIM), &p,
				       sizeof p) &&
			   r->get(r->ctx, got, p.y, sizeof got) &&
			   compare_floats("gates", got, y, ROWS * DIM);
	r->forget(r->ctx);
	return right;
}

/* The last assignment is no expert's. */
static bool case_expert_bias(const struct runner *r)
{
	enum { EXPERTS = 4, WIDTH = 90, ASSIGNMENTS = 5 };
	static const uint32_t chosen[ASSIGNMENTS] = {3, 0, 3, 1, UINT32_MAX};
	struct random random = {9};
	float y[ASSIGNMENTS * WIDTH], bias[EXPERTS * WIDTH], got[ASSIGNMENTS * WIDTH];
	random_normal(&random, y, ASSIGNMENTS * WIDTH);
	random_normal(&random, bias, EXPERTS * WIDTH);
	const struct cuda_expert_bias p = {.y = r->put(r->ctx, y, sizeof y),
					   .bias = r->put(r->ctx, bias, sizeof bias),
					   .chosen = r->put(r->ctx, chosen, sizeof chosen),
					   .n = ASSIGNMENTS,
					   .width = WIDTH,
					   .experts = EXPERTS};

	for (size_t a = 0; a + 1 < ASSIGNMENTS; a++)
		kernels_scalar.add(y + a * WIDTH, bias + (size_t)chosen[a] * WIDTH, WIDTH);
	const bool right = case_launch(r, cuda_add_expert_bias_number,
				       cuda_items_grid(ASSIGNMENTS * WIDTH), &p, sizeof p) &&
			   r->get(r->ctx, got, p.y, sizeof got) &&
			   compare_floats("biases of experts", got, y, ASSIGNMENTS * WIDTH);
	r->forget(r->ctx);
	return right;
}

static bool case_row_bias(const struct runner *r)
{
	enum { ROWS = 7, WIDTH = 90 };
	struct random random = {7};
	float y[ROWS * WIDTH], bias[WIDTH], got[ROWS * WIDTH];
	random_normal(&random, y, ROWS * WIDTH);
	random_normal(&random, bias, WIDTH);
	const struct cuda_bias p = {.y = r->put(r->ctx, y, sizeof y),
				    .bias = r->put(r->ctx, bias, sizeof bias),
				    .n = ROWS,
				    .width = WIDTH};

	for (size_t i = 0; i < ROWS; i++)
		kernels_scalar.add(y + i * WIDTH, bias, WIDTH);
	const bool right = case_launch(r, cuda_add_bias_number, cuda_items_grid(ROWS * WIDTH), &p,
				       sizeof p) &&
			   r->get(r->ctx, got, p.y, sizeof got) &&
			   compare_floats("biases", got, y, ROWS * WIDTH);
	r->forget(r->ctx);
	return right;
}

bool case_sums_and_biases(const struct runner *r)
{
	return case_row_bias(r) && case_expert_bias(r) && case_scaled(r);
}

bool case_gather(const struct runner *r)
{
	enum { ROWS = 7, GATHERED = 5, WIDTH = 90 };
	static const uint32_t rows[GATHERED] = {6, 0, 3, 3, 5};
	struct random random = {5};
	float x[ROWS * WIDTH], got[GATHERED * WIDTH], expected[GATHERED * WIDTH];
	random_normal(&random, x, ROWS * WIDTH);
	const struct cuda_gather p = {.to = r->put(r->ctx, NULL, sizeof got),
				      .from = r->put(r->ctx, x, sizeof x),
				      .rows = r->put(r->ctx, rows, sizeof rows),
				      .n = GATHERED,
				      .width = WIDTH};

	for (size_t i = 0; i < GATHERED; i++)
		memcpy(expected + i * WIDTH, x + (size_t)rows[i] * WIDTH, WIDTH * sizeof *x);
	const bool right = case_launch(r, cuda_gather_number, cuda_items_grid(GATHERED * WIDTH),
				       &p, sizeof p) &&
			   r->get(r->ctx, got, p.to, sizeof got) &&
			   compare_floats("gathered rows", got, expected, GATHERED * WIDTH);
	r->forget(r->ctx);
	return right;
}

/* A number whose quotient is that of the next larger one; by 1 any number. The divisor is 1, or one such as 3 with which
 * there are some from 24 to 25. */
static float case_merged(struct random *random, float divisor)
{
	float x = 0;
	do
		x = 24 + (float)(random_u32(random) % 65536) * 0x1p-16F;
	while (x / divisor != nextafterf(x, INFINITY) / divisor && divisor != 1);
	return x;
}

/* Rows whose largest numbers are equal, or become so when divided, beside zeros and NaN; and rows without any. */
static void case_search_rows(float *x, uint32_t n, float divisor)
{
	struct random random = {n};
	const float largest = case_merged(&random, divisor), next = nextafterf(largest, INFINITY);
	random_normal(&random, x, n);
	x[n / 3] = x[n - 1] = largest;
	x[n / 2] = divisor == 1 ? largest : next;
	x[n / 4] = NAN;
	for (uint32_t i = 0; i < n; i++) {
		x[n + i] = i % 5 == 3 ? NAN : i > n / 2 ? 0 : -INFINITY;
		x[2 * n + i] = i % 2 ? 0 : -0.0F; /* which are equal */
		x[3 * n + i] = i % 3 ? NAN : -INFINITY;
	}
}

/* What a loop over all of a row finds. */
static struct cuda_peak case_found(const float *x, uint32_t n, float divisor)
{
	struct cuda_peak best = {-INFINITY, 0};
	for (uint32_t i = 0; i < n; i++)
		if (x[i] / divisor > best.number)
			best = (struct cuda_peak){x[i] / divisor, i};
	return best;
}

static bool case_search_of(const struct runner *r, uint32_t n, float divisor)
{
	enum { ROWS = 4 };
	struct cuda_peak got[ROWS * CUDA_LARGEST_PARTS];
	float *x = case_alloc((size_t)ROWS * n, sizeof *x);
	case_search_rows(x, n, divisor);
	const struct cuda_search p = {r->put(r->ctx, x, (size_t)ROWS * n * sizeof *x),
				      r->put(r->ctx, NULL, sizeof got), n, divisor};
	bool right = case_launch(r, cuda_find_largest_number, cuda_search_grid(ROWS), &p, sizeof p) &&
		     r->get(r->ctx, got, p.found, sizeof got);
	for (uint32_t row = 0; row < ROWS && right; row++) {
		const struct cuda_peak want = case_found(x + (size_t)row * n, n, divisor);
		const struct cuda_peak best = cuda_best_part(got + (size_t)row * CUDA_LARGEST_PARTS);
		right = compare_bytes("the largest number, and its place", &best, &want, sizeof best, 1);
	}
	free(x);
	r->forget(r->ctx);
	return right;
}

bool case_search(const struct runner *r)
{
	static const uint32_t sizes[] = {8, 33, 4099, 70001};
	bool right = true;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		right &= case_search_of(r, sizes[i], 1) && case_search_of(r, sizes[i], 3);
	return right;
}

/* Rows of a table of random bytes, whose scales may be anything. */
static bool case_embed_of(const struct runner *r, enum format format, uint32_t width)
{
	enum { ROWS = 9, TOKENS = 5 };
	static const uint32_t tokens[TOKENS] = {8, 0, 3, 3, 5};
	const struct shape s = {format, NORM_F16, ROWS, width, 0};
	const size_t bytes = format_packed_bytes(&s), all = (size_t)TOKENS * width;
	struct random random = {format};
	uint8_t *table = case_alloc(bytes, 1);
	float *got = case_alloc(2 * all, sizeof *got), *expected = got + all;
	for (size_t i = 0; i < bytes; i++)
		table[i] = (uint8_t)random_u32(&random);
	struct cuda_embedding p = {.x = r->put(r->ctx, NULL, all * sizeof *got),
				   .table = r->put(r->ctx, table, bytes),
				   .tokens = r->put(r->ctx, tokens, sizeof tokens),
				   .n = TOKENS,
				   .width = width,
				   .multiplier = width == 256 ? 1 : 1.7F};

	const bool known = cuda_table_type(&p.type, format);
	for (size_t t = 0; t < TOKENS; t++) {
		const struct pieces row = {table + tokens[t] * (bytes / ROWS), NULL, NULL};
		format_dequantise_row(expected + t * width, &s, &row);
	}
	for (size_t i = 0; i < all && p.multiplier != 1; i++)
		expected[i] *= p.multiplier;
	const bool right = known &&
			   case_launch(r, cuda_embed_number, cuda_items_grid(all), &p, sizeof p) &&
			   r->get(r->ctx, got, p.x, all * sizeof *got) &&
			   compare_floats(format_name(format), got, expected, all);
	free(table);
	free(got);
	r->forget(r->ctx);
	return right;
}

/* Of nine rows in chunks of four. */
static bool case_embed_affine(const struct runner *r, enum format format, enum norm_type norms)
{
	enum { ROWS = 9, TOKENS = 5, CHUNK = 4, WIDTH = 192 };
	static const uint32_t tokens[TOKENS] = {8, 0, 3, 4, 5};
	const struct shape all = {format, norms, ROWS, WIDTH, 64}, one = {format, norms, 1, WIDTH, 64};
	const size_t codes = format_packed_bytes(&one), scales = format_norm_bytes(&one);
	struct random random = {format};
	uint8_t *table = case_alloc(ROWS, codes + 2 * scales);
	float got[TOKENS * WIDTH], expected[TOKENS * WIDTH];
	struct pieces row[ROWS];
	for (uint32_t i = 0; i < ROWS; i++) {
		const uint32_t first = i / CHUNK * CHUNK, n = ROWS - first < CHUNK ? ROWS - first : CHUNK;
		uint8_t *chunk = table + first * (codes + 2 * scales), *own = chunk + (i - first) * codes,
			*scale = chunk + n * codes + (i - first) * scales, *bias = scale + n * scales;
		random_blocks(&random, &one, own, scale, bias);
		row[i] = (struct pieces){own, scale, bias};
	}
	struct cuda_embedding p = {.x = r->put(r->ctx, NULL, sizeof got),
				   .table = r->put(r->ctx, table, ROWS * (codes + 2 * scales)),
				   .tokens = r->put(r->ctx, tokens, sizeof tokens),
				   .n = TOKENS,
				   .width = WIDTH,
				   .multiplier = 1,
				   .groups = cuda_table_groups_of(&all, CHUNK)};
	const bool known = cuda_table_type(&p.type, format);
	for (size_t t = 0; t < TOKENS; t++)
		format_dequantise_row(expected + t * WIDTH, &one, &row[tokens[t]]);
	const bool right = known &&
			   case_launch(r, cuda_embed_number, cuda_items_grid(TOKENS * WIDTH), &p, sizeof p) &&
			   r->get(r->ctx, got, p.x, sizeof got) &&
			   compare_floats(format_name(format), got, expected, TOKENS * WIDTH);
	free(table);
	r->forget(r->ctx);
	return right;
}

bool case_embed(const struct runner *r)
{
	static const struct {
		enum format format;
		uint32_t width;
	} tables[] = {{FORMAT_F32, 96},	   {FORMAT_F16, 256},	 {FORMAT_BF16, 90},  {FORMAT_Q8_0, 96},
		      {FORMAT_Q4_0, 256},  {FORMAT_Q4_1, 96},	 {FORMAT_Q5_0, 96},  {FORMAT_Q5_1, 256},
		      {FORMAT_IQ4_NL, 96}, {FORMAT_Q2_K, 512},	 {FORMAT_Q3_K, 256}, {FORMAT_Q4_K, 512},
		      {FORMAT_Q5_K, 256},  {FORMAT_Q6_K, 768}, {FORMAT_IQ4_XS, 512}};
	bool right = true;

	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		right &= case_embed_of(r, tables[i].format, tables[i].width);
	for (enum format f = FORMAT_AFFINE2; f <= FORMAT_AFFINE8; f++)
		right &= case_embed_affine(r, f, f % 3);
	return right;
}

/* ---- experts ---- */

enum { SUM_ROWS = 3, SUM_MOST = 320, SUM_TOP_K = 11, SUM_EXPERTS = 128 };

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
static void case_sum_row(float *y, const float *x, const float *weight, const uint32_t *chosen,
			 size_t width)
{
	memset(y, 0, width * sizeof *y);
	for (uint32_t e = 0; e < SUM_EXPERTS; e++)
		for (uint32_t i = 0; i < SUM_TOP_K; i++)
			if (chosen[i] == e)
				kernels_scalar.add_scaled(y, weight[i], x + i * width,
							  width);
}

/* y += the shared expert's outputs, as engine/cpu/dense.c adds them. gate NULL: as they are. */
static void case_add_shared(float *y, const float *shared, const float *gate, size_t width)
{
	for (size_t row = 0; row < SUM_ROWS; row++) {
		float weight = 1;
		if (gate)
			kernels_scalar.sigmoid_mul(&weight, gate + row, 1);
		kernels_scalar.add_scaled(y + row * width, weight, shared + row * width,
					  width);
	}
}

/* Half of the experts lie elsewhere: their outputs are in `other`. The last entry of a row may be no
 * expert. */
static bool case_sum_experts_to(const struct runner *r, uint32_t width, bool add, float factor, bool shares,
				bool gated)
{
	uint64_t slots[SUM_EXPERTS];
	const size_t outputs = SUM_ROWS * SUM_TOP_K, all = outputs * width, count = SUM_ROWS * width;
	struct random random = {31};
	float *x = case_alloc(3 * all, sizeof *x), *here = x + all, *elsewhere = here + all;
	float weight[SUM_ROWS * SUM_TOP_K];
	float got[SUM_ROWS * SUM_MOST], y[SUM_ROWS * SUM_MOST], before[SUM_ROWS * SUM_MOST];
	uint32_t chosen[SUM_ROWS * SUM_TOP_K];
	compare_fill_rows(&random, x, outputs, width);
	random_normal(&random, weight, outputs);
	for (size_t row = 0; row < SUM_ROWS; row++)
		case_choose_any(&random, chosen + row * SUM_TOP_K, SUM_TOP_K);
	chosen[2 * SUM_TOP_K - 1] = UINT32_MAX;
	for (size_t e = 0; e < SUM_EXPERTS; e++)
		slots[e] = e % 2;
	for (size_t i = 0; i < outputs; i++)
		memcpy((chosen[i] % 2 ? here : elsewhere) + i * width, x + i * width,
		       width * sizeof *x);
	random_normal(&random, before, count);
	float shared[SUM_ROWS * SUM_MOST], gate[SUM_ROWS];
	random_normal(&random, shared, count);
	random_normal(&random, gate, SUM_ROWS);
	const struct cuda_sums p = {.y = r->put(r->ctx, before, count * sizeof *before),
				    .x = r->put(r->ctx, here, all * sizeof *here),
				    .other = r->put(r->ctx, elsewhere, all * sizeof *elsewhere),
				    .slots = r->put(r->ctx, slots, sizeof slots),
				    .experts = SUM_EXPERTS,
				    .weight = r->put(r->ctx, weight, sizeof weight),
				    .chosen = r->put(r->ctx, chosen, sizeof chosen),
				    .shared = shares ? r->put(r->ctx, shared, count * sizeof *shared) : NULL,
				    .gate = gated ? r->put(r->ctx, gate, sizeof gate) : NULL,
				    .rows = SUM_ROWS,
				    .top_k = SUM_TOP_K,
				    .width = width,
				    .add = add,
				    .factor = factor};

	bool right = case_launch(r, cuda_sum_experts_number,
				 cuda_items_grid(count), &p, sizeof p) &&
		     r->get(r->ctx, got, p.y, count * sizeof *got);
	for (size_t row = 0; row < SUM_ROWS; row++)
		case_sum_row(y + row * width, x + row * SUM_TOP_K * width,
			     weight + row * SUM_TOP_K, chosen + row * SUM_TOP_K, width);
	if (shares)
		case_add_shared(y, shared, gated ? gate : NULL, width);
	if (add) {
		kernels_scalar.add_scaled(before, factor, y, count);
		memcpy(y, before, count * sizeof *y);
	}
	right = right && compare_floats("sums of experts", got, y, count);
	free(x);
	r->forget(r->ctx);
	return right;
}

/* Rows of whole warps, and others. */
bool case_sum_experts(const struct runner *r)
{
	bool right = true;
	for (uint32_t width = 300; width <= SUM_MOST && right; width += 20)
		right = case_sum_experts_to(r, width, false, 1, false, false) &&
			case_sum_experts_to(r, width, true, 1, false, true) &&
			case_sum_experts_to(r, width, true, 0.22F, true, false) &&
			case_sum_experts_to(r, width, false, 1, true, true);
	return right;
}
