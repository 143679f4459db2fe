/* Every function of every table that this machine can run, against the scalar table, bit for bit,
 * on shapes at the edges of blocks and registers. It needs nothing but the C library, so that it
 * can be built for another processor and run under an emulator, where the unit tests are out of
 * reach; what results must be near to, those tests check. Prints a line for each function of each
 * table: "ok TABLE FUNCTION", or "not ok" with the first case that differs. An argument names the
 * one table that is compared; of others that there are it says so.
 */
#include "kernels/attention.h"
#include "kernels/block.h"
#include "kernels/block_layout.h"
#include "kernels/block_layout.h"
#include "tests/cross/compare.h"
#include "tests/unit/random.h"
#include "tests/unit/random_blocks.h"
#include "tests/unit/random_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *allocate(size_t bytes)
{
	void *p = aligned_alloc(64, bytes / 64 * 64 + 64);

	if (!p) {
		perror("compare: allocating memory");
		exit(2);
	}
	return p;
}

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* The same bits, or NaN in both: which NaN is nobody's promise. */
static bool same_floats(const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bits_of(a[i]) != bits_of(b[i]) && !(isnan(a[i]) && isnan(b[i])))
			return false;
	return true;
}

/* Large and small magnitudes, and zeros of both signs. */
static void random_floats(struct random *random, float *x, size_t n)
{
	random_normal(random, x, n);
	for (size_t i = 0; i < n; i++)
		x[i] = random_u32(random) % 16 ? ldexpf(x[i], (int)(random_u32(random) % 12) - 6)
					       : copysignf(0, x[i]);
}

/* ---- products ---- */

enum { MANY = 70 }; /* tokens of one call */

static const uint32_t some_rows[] = {1, 15, 16, 17, 33};
static const uint32_t some_cols[] = {1, 64, 127, 128, 129, 300, 768};

struct problem {
	struct matrix w;
	void *arranged;
	bool plain; /* the same as plain C arranges it */
	struct input x;
	float *f, *scale, *block_scale;
	int8_t *q, *block_q;
	int16_t *block_sum;
	uint32_t list[MANY];
};

static void random_bytes(struct random *random, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)random_u32(random);
}

static void store(void *to, size_t i, enum format format, float f)
{
	const uint16_t half = format == FORMAT_BF16 ? bf16_from_f32(f) : f16_from_f32(f);

	if (format == FORMAT_F32)
		memcpy((char *)to + i * sizeof f, &f, sizeof f);
	else
		memcpy((char *)to + i * sizeof half, &half, sizeof half);
}

/* Norms of TQ, or a float matrix. The first row of floats is so small that with token 2 every
 * product is rounded to -0. */
static void store_floats(struct random *random, void *to, size_t bytes, enum format type,
			 size_t small)
{
	const size_t count = bytes / (type == FORMAT_F32 ? sizeof(float) : sizeof(uint16_t));

	for (size_t i = 0; i < count; i++) {
		float f = -0x1p-24F;
		if (i >= small)
			random_floats(random, &f, 1);
		store(to, i, type, f);
	}
}

/* What is arranged is what plain C makes of it. */
static bool arranged_plainly(const void *arranged, const struct shape *s, const struct pieces *from)
{
	const size_t bytes = format_arranged_bytes(s);
	uint8_t *plain = allocate(bytes);

	memcpy(plain, arranged, bytes);
	if (format_is_block(s->format))
		arrange_blocks_by(kernels_scalar.arrange, plain, s, s->rows, from);
	const bool same = memcmp(plain, arranged, bytes) == 0;
	if (!same)
		printf("# [%u, %u], norms %d, arranged\n", s->rows, s->cols, (int)s->norms);
	free(plain);
	return same;
}

/* Any indices or codes will do; the first row has the lowest everywhere and the last the highest,
 * so that with inputs of ±127 (of tokens 0 and 1) the sums are the largest there are. */
static void fill_weights(struct random *random, struct problem *p)
{
	const struct shape *s = &p->w.shape;
	const size_t packed_bytes = format_packed_bytes(s), norm_bytes = format_norm_bytes(s);
	uint8_t *packed = allocate(packed_bytes), *norms = allocate(norm_bytes),
		*biases = allocate(format_bias_bytes(s));

	random_bytes(random, packed, packed_bytes);
	memset(packed, 0, packed_bytes / s->rows);
	if (s->rows > 1)
		memset(packed + packed_bytes / s->rows * (s->rows - 1), 0xff,
		       packed_bytes / s->rows);
	if (format_is_block(s->format))
		random_scales(random, s, packed, norms, biases);
	else if (format_is_tq(s->format))
		store_floats(random, norms, norm_bytes,
			     s->norms == NORM_F16 ? FORMAT_F16 : FORMAT_F32, 0);
	else
		store_floats(random, packed, packed_bytes, s->format, s->cols);
	const struct pieces from = {packed, norms, biases};
	format_arrange(p->arranged, s, 0, s->rows, &from);
	p->plain = arranged_plainly(p->arranged, s, &from);
	free(packed);
	free(norms);
	free(biases);
}

/* The 8-bit form that blocks want; tokens 0 and 1 are the largest there are. */
static void prepare_blocks(struct problem *p)
{
	const uint32_t k = p->w.shape.cols, blocks = k / BLOCK;

	for (size_t t = 0; t < TOKENS; t++)
		kernels_scalar.block_prepare(p->block_q + t * k, p->block_scale + t * blocks,
					     p->block_sum + t * HALVES * blocks, p->f + t * k, k);
	memset(p->block_q, 127, k);
	memset(p->block_q + k, -127, k);
	for (size_t i = 0; i < (size_t)HALVES * blocks; i++) {
		p->block_sum[i] = 127 * HALF_BLOCK;
		p->block_sum[HALVES * blocks + i] = -127 * HALF_BLOCK;
	}
}

static struct problem make_problem(struct random *random, struct shape s)
{
	const size_t groups = tq_groups(s.cols), width = groups * TQ_GROUP, blocks = s.cols / BLOCK;
	struct problem p = {
		.arranged = allocate(format_arranged_bytes(&s)),
		.f = allocate((size_t)TOKENS * s.cols * sizeof(float)),
		.q = allocate(TOKENS * width),
		.scale = allocate(TOKENS * groups * sizeof(float)),
		.block_q = allocate((size_t)TOKENS * s.cols),
		.block_scale = allocate(TOKENS * blocks * sizeof(float)),
		.block_sum = allocate(TOKENS * blocks * HALVES * sizeof(int16_t)),
	};

	p.w = (struct matrix){s, p.arranged};
	fill_weights(random, &p);
	random_floats(random, p.f, (size_t)TOKENS * s.cols);
	for (size_t t = 0; t < TOKENS; t++)
		kernels_scalar.tq_prepare(p.q + t * width, p.scale + t * groups, p.f + t * s.cols,
					  s.cols);
	if (format_is_block(s.format))
		prepare_blocks(&p);
	for (size_t i = 0; i < s.cols; i++)
		p.f[(size_t)2 * s.cols + i] = 1e-40F;
	memset(p.q, 127, width);
	memset(p.q + width, -127, width);
	for (uint32_t i = 0; i < MANY; i++)
		p.list[i] = i * 7 % TOKENS;
	p.x = (struct input){.k = s.cols,
			     .f = p.f,
			     .q = p.q,
			     .scale = p.scale,
			     .block = {p.block_q, p.block_scale, p.block_sum}};
	return p;
}

static void free_problem(struct problem *p)
{
	void *const all[] = {p->arranged, p->f,		  p->q,	       p->scale,
			     p->block_q,  p->block_scale, p->block_sum};
	for (size_t i = 0; i < COUNT(all); i++)
		free(all[i]);
}

static bool check_product(const struct kernels *k, const struct problem *p, uint32_t row0,
			  const uint32_t *tokens, size_t n)
{
	const struct shape *s = &p->w.shape;
	const size_t ldy = s->rows + 3, total = n * ldy;
	float *expected = allocate(total * sizeof(float)), *y = allocate(total * sizeof(float));

	memset(expected, 0x55, total * sizeof(float));
	memset(y, 0x55, total * sizeof(float));
	kernels_scalar.multiply[s->format](expected, ldy, &p->w, row0, s->rows, &p->x, tokens, n);
	k->multiply[s->format](y, ldy, &p->w, row0, s->rows, &p->x, tokens, n);
	const bool same = memcmp(y, expected, total * sizeof(float)) == 0;
	if (!same)
		printf("# [%u, %u] from row %u, norms %d, %zu tokens%s\n", s->rows, s->cols, row0,
		       (int)s->norms, n, tokens ? " of a list" : "");
	free(expected);
	free(y);
	return same;
}

static bool check_shape(const struct kernels *k, struct random *random, struct shape s)
{
	struct problem p = make_problem(random, s);
	bool same = p.plain;

	for (size_t n = 1; same && n <= TOKENS; n++)
		same = check_product(k, &p, 0, n % 2 ? p.list : NULL, n);
	if (same && s.rows > TILE_ROWS)
		same = check_product(k, &p, TILE_ROWS, NULL, 3);
	if (same && s.cols >= 129 && s.cols <= 256)
		same = check_product(k, &p, 0, p.list, MANY);
	free_problem(&p);
	return same;
}

/* As many columns as there are, or of a format with blocks the next whole number of those. */
static struct shape shape_of(enum format format, enum norm_type norms, uint32_t rows, uint32_t cols)
{
	struct shape s = {.format = format, .norms = norms, .rows = rows, .group = 32U << cols % 3};
	const uint32_t block = format_block_cols(&s);

	s.cols = (cols + block - 1) / block * block;
	return s;
}

static bool check_multiply(const struct kernels *k, enum format format)
{
	const enum norm_type last = format_is_tq(format)	 ? NORM_F32
				    : format_affine_bits(format) ? NORM_BF16
								 : NORM_F16;
	struct random random = {1};

	for (int norms = NORM_F16; norms <= (int)last; norms++)
		for (size_t r = 0; r < COUNT(some_rows); r++)
			for (size_t c = 0; c < COUNT(some_cols); c++)
				if (!check_shape(k, &random,
						 shape_of(format, (enum norm_type)norms,
							  some_rows[r], some_cols[c])))
					return false;
	return true;
}

/* ---- TQ groups ---- */

enum { WIDEST = 400, WIDEST_GROUPS = (WIDEST + TQ_GROUP - 1) / TQ_GROUP };

/* Some rows are all zeros, some have one much larger element. */
static void random_row(struct random *random, float *x, uint32_t n)
{
	random_floats(random, x, n);
	if (n % 7 == 0)
		memset(x, 0, n * sizeof *x);
	if (n % 5 == 0)
		x[n / 2] *= 50;
}

static bool check_prepare(const struct kernels *k, enum format format)
{
	static const float bad[] = {1, 0x1p-140F, NAN, INFINITY, -INFINITY, 3e38F};
	struct random random = {2};

	(void)format;
	for (uint32_t n = 1; n <= WIDEST; n += n < 140 ? 1 : 31) {
		for (size_t b = 0; b < COUNT(bad); b++) {
			float x[WIDEST], scale[WIDEST_GROUPS], expected_scale[WIDEST_GROUPS];
			int8_t q[WIDEST_GROUPS * TQ_GROUP], expected[WIDEST_GROUPS * TQ_GROUP];
			const size_t groups = tq_groups(n);
			random_row(&random, x, n);
			if (b > 0)
				x[n / 3] = x[n - 1] = bad[b];
			kernels_scalar.tq_prepare(expected, expected_scale, x, n);
			k->tq_prepare(q, scale, x, n);
			if (memcmp(q, expected, groups * TQ_GROUP) != 0 ||
			    !same_floats(scale, expected_scale, groups)) {
				printf("# %u columns, with %g\n", n, (double)bad[b]);
				return false;
			}
		}
	}
	return true;
}

static bool check_block_prepare(const struct kernels *k, enum format format)
{
	static const float bad[] = {1, 0x1p-140F, NAN, INFINITY, -INFINITY, 3e38F};
	enum { BLOCKS = 5 };
	struct random random = {2};

	(void)format;
	for (uint32_t n = BLOCK; n <= BLOCKS * BLOCK; n += BLOCK) {
		for (size_t repeat = 0; repeat < 100; repeat++) {
			const size_t blocks = n / BLOCK;
			float x[BLOCKS * BLOCK], scale[2][BLOCKS];
			int8_t q[2][BLOCKS * BLOCK];
			int16_t sum[2][BLOCKS * HALVES];
			random_row(&random, x, n);
			if (repeat < 2 * COUNT(bad))
				x[random_u32(&random) % n] = bad[repeat % COUNT(bad)];
			kernels_scalar.block_prepare(q[0], scale[0], sum[0], x, n);
			k->block_prepare(q[1], scale[1], sum[1], x, n);
			if (memcmp(q[0], q[1], n) != 0 ||
			    memcmp(sum[0], sum[1], blocks * HALVES * sizeof(int16_t)) != 0 ||
			    !same_floats(scale[0], scale[1], blocks)) {
				printf("# %u columns, repeat %zu\n", n, repeat);
				return false;
			}
		}
	}
	return true;
}

static bool check_quantise(const struct kernels *k, enum format format)
{
	const uint32_t bits = format_tq_bits(format);
	struct random random = {3};

	for (uint32_t n = 1; n <= WIDEST; n++) {
		const enum tq_gain gain = n % 2 ? TQ_GAIN_NORM : TQ_GAIN_LEAST_SQUARES;
		uint8_t packed[2][WIDEST_GROUPS * 64];
		float x[WIDEST], norms[2][WIDEST_GROUPS];
		memset(packed, 0x55, sizeof packed);
		memset(norms, 0x55, sizeof norms);
		random_row(&random, x, n);
		if (n % 13 == 0)
			x[n / 2] = n % 2 ? NAN : 1e30F;
		const bool possible =
			kernels_scalar.tq_quantise_row(packed[0], norms[0], x, n, bits, gain);
		if (k->tq_quantise_row(packed[1], norms[1], x, n, bits, gain) != possible ||
		    (possible && (memcmp(packed[0], packed[1], sizeof packed[0]) != 0 ||
				  !same_floats(norms[0], norms[1], WIDEST_GROUPS)))) {
			printf("# %u columns, gain %d\n", n, (int)gain);
			return false;
		}
	}
	return true;
}

static bool check_trellis(const struct kernels *k, enum format format)
{
	const uint32_t bits = format_tq_bits(format);
	struct random random = {3};

	for (uint32_t n = 1; n <= WIDEST; n += n < 2 * TQ_GROUP ? 13 : 101) {
		uint8_t packed[2][WIDEST_GROUPS * 64];
		float x[WIDEST], norms[2][WIDEST_GROUPS];
		memset(packed, 0x55, sizeof packed);
		memset(norms, 0x55, sizeof norms);
		random_row(&random, x, n);
		if (n % 3 == 0) /* few values: many paths cost the same */
			for (uint32_t i = 0; i < n; i++)
				x[i] = rintf(x[i]);
		kernels_scalar.tc_quantise_row(packed[0], norms[0], x, n, bits);
		k->tc_quantise_row(packed[1], norms[1], x, n, bits);
		if (memcmp(packed[0], packed[1], sizeof packed[0]) != 0 ||
		    !same_floats(norms[0], norms[1], WIDEST_GROUPS)) {
			printf("# %u columns\n", n);
			return false;
		}
	}
	return true;
}

/* ---- vectors of floats ---- */

enum { LONGEST = 67, REPEATS = 100 };

/* One call on n elements, in place on x; the others are inputs. */
typedef void call_fn(const struct kernels *k, float *x, const float *a, const float *b, uint32_t n);

static bool check_vectors(const struct kernels *k, call_fn *call)
{
	static const float special[] = {INFINITY, -INFINITY, NAN, -200, 200, -104, 89, 1e-40F};
	struct random random = {4};

	for (uint32_t n = 1; n <= LONGEST; n++) {
		for (size_t repeat = 0; repeat < REPEATS; repeat++) {
			float x[LONGEST + GUARD], expected[LONGEST + GUARD], a[LONGEST], b[LONGEST];
			random_floats(&random, x, n + GUARD);
			random_floats(&random, a, n);
			random_floats(&random, b, n);
			if (repeat < COUNT(special))
				x[random_u32(&random) % n] = special[repeat];
			memcpy(expected, x, sizeof x);
			call(&kernels_scalar, expected, a, b, n);
			call(k, x, a, b, n);
			if (!same_floats(x, expected, n + GUARD)) {
				printf("# %u elements, repeat %zu\n", n, repeat);
				return false;
			}
		}
	}
	return true;
}

static void call_rmsnorm(const struct kernels *k, float *x, const float *a, const float *b,
			 uint32_t n)
{
	(void)b;
	k->rmsnorm(x, x, a, n, 1e-5F);
}

static void call_rope(const struct kernels *k, float *x, const float *a, const float *b, uint32_t n)
{
	k->rope(x, a, b, n / 2);
}

static void call_silu_mul(const struct kernels *k, float *x, const float *a, const float *b,
			  uint32_t n)
{
	(void)b;
	k->silu_mul(x, a, n);
}

static void call_gelu_mul(const struct kernels *k, float *x, const float *a, const float *b,
			  uint32_t n)
{
	(void)b;
	k->gelu_mul(x, a, n);
}

static void call_swiglu_clamped(const struct kernels *k, float *x, const float *a, const float *b,
				uint32_t n)
{
	(void)b;
	k->swiglu_clamped(x, a, n, 1.702F, 1.5F);
}

static void call_softcap(const struct kernels *k, float *x, const float *a, const float *b,
			 uint32_t n)
{
	(void)a;
	(void)b;
	k->softcap(x, n, 30);
}

static void call_softmax(const struct kernels *k, float *x, const float *a, const float *b,
			 uint32_t n)
{
	(void)a;
	(void)b;
	k->softmax(x, n);
}

static void call_sigmoid_mul(const struct kernels *k, float *x, const float *a, const float *b,
			     uint32_t n)
{
	(void)b;
	k->sigmoid_mul(x, a, n);
}

static void call_l2norm(const struct kernels *k, float *x, const float *a, const float *b,
			uint32_t n)
{
	(void)a;
	(void)b;
	k->l2norm(x, x, n, 1e-6F, .0884F);
}

/* The first channels are another's. */
static void call_conv_silu(const struct kernels *k, float *x, const float *a, const float *b,
			   uint32_t n)
{
	float y[LONGEST], w[CONV_WIDTH * LONGEST];
	const float *const taps[CONV_WIDTH] = {a, b, x, a, b, a, x, b};
	const uint32_t width = n % CONV_WIDTH + 1;

	for (size_t i = 0; i < (size_t)width * n; i++)
		w[i] = a[i % n] - b[i * 7 % n];
	k->conv_silu(y, w, NULL, taps, width, n, n / 5, n);
	memcpy(x + n / 5, y + n / 5, (n - n / 5) * sizeof *x);
}

static void call_conv(const struct kernels *k, float *x, const float *a, const float *b, uint32_t n)
{
	float y[LONGEST];
	const float *const taps[] = {b};

	k->conv(y, a, x, taps, 1, n, 0, n);
	memcpy(x, y, n * sizeof *x);
}

static void call_relu_squared(const struct kernels *k, float *x, const float *a, const float *b,
			      uint32_t n)
{
	(void)a;
	(void)b;
	k->relu_squared(x, n);
}

static void call_delta_decay(const struct kernels *k, float *x, const float *a, const float *b,
			     uint32_t n)
{
	(void)b;
	k->delta_decay(x, x, a, .7F, n);
}

static void call_add(const struct kernels *k, float *x, const float *a, const float *b, uint32_t n)
{
	(void)b;
	k->add(x, a, n);
}

static void call_add_scaled(const struct kernels *k, float *x, const float *a, const float *b,
			    uint32_t n)
{
	k->add_scaled(x, b[0], a, n);
}

#define CHECK_VECTORS(function)                                                   \
	static bool check_##function(const struct kernels *k, enum format format) \
	{                                                                         \
		(void)format;                                                     \
		return check_vectors(k, call_##function);                         \
	}
CHECK_VECTORS(rmsnorm)
CHECK_VECTORS(rope)
CHECK_VECTORS(silu_mul)
CHECK_VECTORS(gelu_mul)
CHECK_VECTORS(swiglu_clamped)
CHECK_VECTORS(softcap)
CHECK_VECTORS(softmax)
CHECK_VECTORS(sigmoid_mul)
CHECK_VECTORS(l2norm)
CHECK_VECTORS(conv)
CHECK_VECTORS(conv_silu)
CHECK_VECTORS(relu_squared)
CHECK_VECTORS(delta_decay)
CHECK_VECTORS(add)
CHECK_VECTORS(add_scaled)

/* ---- rounding by moments ---- */

static bool check_products(const struct kernels *k, enum format format)
{
	enum { MOST = 61, STEPS = 19 };
	static float a[MOST * STEPS], b[STEPS * MOST], y[MOST * MOST], expected[MOST * MOST];
	struct random random = {44};
	bool same = true;

	(void)format;
	random_floats(&random, a, COUNT(a));
	random_floats(&random, b, COUNT(b));
	for (size_t n = 1; n <= MOST && same; n++) {
		const struct add_products p = {.a = a,
					       .a_row = n % 2 ? STEPS : 1,
					       .a_step = n % 2 ? 1 : MOST,
					       .b = b,
					       .ldb = MOST,
					       .rows = n,
					       .cols = MOST + 1 - n,
					       .n = STEPS};
		memset(y, 0, sizeof y);
		memset(expected, 0, sizeof expected);
		k->add_products(y, MOST, &p);
		kernels_scalar.add_products(expected, MOST, &p);
		same = same_floats(y, expected, COUNT(y));
	}
	return same;
}

static bool check_errors(const struct kernels *k, enum format format)
{
	static struct random_group g;
	struct random random = {45};
	uint8_t symbol[TQ_GROUP], expected[TQ_GROUP];
	float pull[TQ_GROUP], expected_pull[TQ_GROUP];
	const float norm = sqrtf(TQ_GROUP);

	for (size_t i = 0; i < 3; i++) {
		random_group_make(&g, &random, format_tq_bits(format));
		k->tc_choose(symbol, &g.shape, g.weight, g.aimed, g.target, norm);
		tc_choose(expected, &g.shape, g.weight, g.aimed, g.target, norm);
		if (memcmp(symbol, expected, sizeof symbol) != 0)
			return false;
		(void)random_group_pull(pull, &g, symbol, norm);
		memcpy(expected_pull, pull, sizeof pull);
		(void)k->tc_improve(symbol, pull, &g.shape, norm, 0);
		(void)tc_improve(expected, expected_pull, &g.shape, norm, 0);
		if (memcmp(symbol, expected, sizeof symbol) != 0 ||
		    !same_floats(pull, expected_pull, TQ_GROUP))
			return false;
	}
	return true;
}

/* ---- attention ---- */

enum {
	LAST = 300,
	BLOCKS = (LAST + TOKENS + KV_BLOCK - 1) / KV_BLOCK,
	HEADS = 6,
	KEY_OFFSET = 6,
};

static const uint32_t dims[] = {1, 8, 12, 64, 72, 80, 128};
static const uint32_t lengths[] = {1, 63, 65, 256, LAST};
static const uint32_t windows[] = {0, 0, 3, 64, 270};

static size_t value_offset(enum kv_type type, uint32_t dim)
{
	return KEY_OFFSET + kv_key_bytes(type, dim, 0) / kv_type_element(type) + 4;
}

static size_t block_bytes(enum kv_type type, uint32_t dim)
{
	return (value_offset(type, dim) + GUARD) * kv_type_element(type) +
	       kv_value_bytes(type, dim);
}

/* Slots in any order; among the values those that round, overflow and underflow in 16 bits. */
static bool check_kv_put_of(const struct kernels *k, enum kv_type type, uint32_t dim)
{
	static const float special[] = {65519,	    65520,	   -1e9F,      0x1p-25F,
					0x1.8p-24F, -0x1.ffcp-15F, 0x1.002p0F, 0x1.006p0F,
					-INFINITY,  1e-40F};
	const size_t bytes = block_bytes(type, dim);
	void *block = allocate(bytes), *expected = allocate(bytes);
	struct random random = {5};
	bool same = true;

	memset(block, 0x55, bytes);
	memset(expected, 0x55, bytes);
	for (uint32_t i = 0; i < KV_BLOCK; i++) {
		const uint32_t slot = i * 37 % KV_BLOCK;
		float key[128], value[128];
		random_floats(&random, key, dim);
		random_floats(&random, value, dim);
		key[i % dim] = special[i % COUNT(special)];
		value[i * 5 % dim] = -special[i % COUNT(special)];
		kernels_scalar.kv_put(expected, type, KEY_OFFSET, value_offset(type, dim), slot,
				      key, value, dim, 0);
		k->kv_put(block, type, KEY_OFFSET, value_offset(type, dim), slot, key, value, dim,
			  0);
		same = same && memcmp(block, expected, bytes) == 0;
	}
	if (!same)
		printf("# type %d, head_dim %u\n", (int)type, dim);
	free(block);
	free(expected);
	return same;
}

static bool check_kv_put(const struct kernels *k, enum format format)
{
	(void)format;
	for (int type = KV_F32; type < KV_TYPES; type++)
		for (size_t d = 0; d < COUNT(dims); d++)
			if (!check_kv_put_of(k, (enum kv_type)type, dims[d]))
				return false;
	return true;
}

/* Of n tokens from one length on. */
typedef bool attention_check(const struct kernels *k, struct random *random,
			     const struct attention *a, uint32_t n);

/* n tokens from one length on, or one by attend() if n is 0. Results lie `stride` apart. */
static bool check_tokens(const struct kernels *k, struct random *random, const struct attention *a,
			 uint32_t n)
{
	const size_t width = (size_t)a->heads * a->head_dim, stride = width + 5;
	const size_t total = (n ? n : 1) * stride;
	float *q = allocate(total * sizeof *q), *out = allocate(total * sizeof *q);
	float *expected = allocate(total * sizeof *q);

	random_normal(random, q, total);
	memset(out, 0x55, total * sizeof *q);
	memset(expected, 0x55, total * sizeof *q);
	if (n) {
		kernels_scalar.attend_tokens(expected, q, stride, a, n);
		k->attend_tokens(out, q, stride, a, n);
	} else {
		kernels_scalar.attend(expected, q, a);
		k->attend(out, q, a);
	}
	const bool same = memcmp(out, expected, total * sizeof *q) == 0;
	if (!same)
		printf("# type %d, head_dim %u, length %u, %u tokens\n", (int)a->type, a->head_dim,
		       a->length, n);
	free(q);
	free(out);
	free(expected);
	return same;
}

/* What attend_tokens of the scalar table gives, from spans of which each is computed by itself. */
static bool check_spans(const struct kernels *k, struct random *random, const struct attention *a,
			uint32_t n)
{
	const uint32_t dim = a->latent_dim ? a->latent_dim : a->head_dim;
	const uint32_t end = (uint32_t)attention_end_span((size_t)a->length + n - 1);
	const size_t stride = (size_t)a->heads * a->head_dim, total = n * stride;
	const size_t row = n * a->heads * attention_part(dim);
	float *q = allocate(total * sizeof *q), *out = allocate(total * sizeof *q);
	float *expected = allocate(total * sizeof *q);
	float *joined = allocate((end + 1) * row * sizeof *q), *parts = joined + row;

	random_normal(random, q, total);
	memset(out, 0x55, total * sizeof *q);
	memset(expected, 0x55, total * sizeof *q);
	memset(joined, 0xff, (end + 1) * row * sizeof *q);
	kernels_scalar.attend_tokens(expected, q, stride, a, n);
	for (uint32_t s = end; s-- > 0;)
		k->attend_spans(parts + s * row, q, stride, a, n, s, s + 1);
	for (uint32_t s = 0; s < end; s++)
		k->attend_join(out, stride, joined, parts + s * row, a, n, s, s + 1);
	const bool same = memcmp(out, expected, total * sizeof *q) == 0;
	if (!same)
		printf("# type %d, head_dim %u, length %u, %u tokens in spans\n", (int)a->type,
		       a->head_dim, a->length, n);
	free(q);
	free(out);
	free(expected);
	free(joined);
	return same;
}

/* Slots that no token sees hold NaN. latent: elements of a key that are its value, of codes; floats
 * are looked at in both ways. */
static bool check_attention_of(const struct kernels *k, enum kv_type type, uint32_t dim,
			       uint32_t latent, attention_check *check, const uint32_t counts[],
			       size_t n)
{
	struct random random = {6};
	void *blocks[BLOCKS];
	uint32_t filled = 0;
	bool same = true;

	for (size_t b = 0; b < BLOCKS; b++)
		blocks[b] = memset(allocate(block_bytes(type, dim)), 0xff, block_bytes(type, dim));
	for (size_t l = 0; l < COUNT(lengths); l++) {
		static const float sinks[HEADS] = {0, 1, -1, 2, -INFINITY, .5F};
		const struct attention plain = {.type = type,
						.head_dim = dim,
						.heads = HEADS,
						.length = lengths[l],
						.scale = 1 / sqrtf((float)dim),
						.blocks = (const void *const *)blocks,
						.key_offset = KEY_OFFSET,
						.value_offset = value_offset(type, dim)};
		for (size_t i = 0; i < n; i++) {
			const uint32_t seen = lengths[l] + (counts[i] ? counts[i] - 1 : 0);
			for (; filled < seen; filled++) {
				float key[128], value[128];
				random_normal(&random, key, dim);
				random_normal(&random, value, dim);
				kernels_scalar.kv_put(blocks[filled / KV_BLOCK], type, KEY_OFFSET,
						      value_offset(type, dim), filled % KV_BLOCK,
						      key, latent ? NULL : value, dim, latent);
			}
			for (size_t w = 0; w < COUNT(windows); w++) {
				struct attention a = plain;
				a.window = windows[w];
				a.sinks = w % 2 ? sinks : NULL;
				a.latent_dim = latent;
				same = same && check(k, &random, &a, counts[i]);
				a.latent_dim = (dim + 1) / 2;
				if (!kv_type_codes(type))
					same = same && check(k, &random, &a, counts[i]);
			}
		}
	}
	for (size_t b = 0; b < BLOCKS; b++)
		free(blocks[b]);
	return same;
}

static bool check_attention(const struct kernels *k, attention_check *check,
			    const uint32_t counts[], size_t n)
{
	for (int type = KV_F32; type < KV_TYPES; type++)
		for (size_t d = 0; d < COUNT(dims); d++) {
			const uint32_t dim = dims[d], half = dim % 32 ? 0 : dim / 2;
			const bool latent = half && kv_type_codes((enum kv_type)type);
			if (!check_attention_of(k, (enum kv_type)type, dim, 0, check, counts, n) ||
			    (latent && !check_attention_of(k, (enum kv_type)type, dim, half, check,
							   counts, n)))
				return false;
		}
	return true;
}

static bool check_attend(const struct kernels *k, enum format format)
{
	static const uint32_t alone[] = {0};

	(void)format;
	return check_attention(k, check_tokens, alone, COUNT(alone));
}

static bool check_attend_tokens(const struct kernels *k, enum format format)
{
	static const uint32_t counts[] = {1, 2, 5, TOKENS};

	(void)format;
	return check_attention(k, check_tokens, counts, COUNT(counts));
}

static bool check_attend_spans(const struct kernels *k, enum format format)
{
	static const uint32_t counts[] = {1, TOKENS};

	(void)format;
	return check_attention(k, check_spans, counts, COUNT(counts));
}

/* ---- all of them ---- */

static const struct {
	const char *name;
	check_fn *check;
	enum format format; /* where there is a function for each */
} checks[] = {
	{"multiply f32", check_multiply, FORMAT_F32},
	{"multiply f16", check_multiply, FORMAT_F16},
	{"multiply bf16", check_multiply, FORMAT_BF16},
	{"multiply tq2", check_multiply, FORMAT_TQ2},
	{"multiply tq3", check_multiply, FORMAT_TQ3},
	{"multiply tq4", check_multiply, FORMAT_TQ4},
	{"multiply tc2", check_multiply, FORMAT_TC2},
	{"multiply tc3", check_multiply, FORMAT_TC3},
	{"multiply tc4", check_multiply, FORMAT_TC4},
#define CHECK(name, format) {"multiply " #name, check_multiply, format},
	BLOCK_FORMATS(CHECK)
#undef CHECK
		{"block_prepare", check_block_prepare, 0},
	{"tq_prepare", check_prepare, 0},
	{"tq_quantise_row tq2", check_quantise, FORMAT_TQ2},
	{"tq_quantise_row tq3", check_quantise, FORMAT_TQ3},
	{"tq_quantise_row tq4", check_quantise, FORMAT_TQ4},
	{"tc_quantise_row tc2", check_trellis, FORMAT_TC2},
	{"tc_quantise_row tc3", check_trellis, FORMAT_TC3},
	{"tc_quantise_row tc4", check_trellis, FORMAT_TC4},
	{"tc_choose and tc_improve tc2", check_errors, FORMAT_TC2},
	{"tc_choose and tc_improve tc3", check_errors, FORMAT_TC3},
	{"tc_choose and tc_improve tc4", check_errors, FORMAT_TC4},
	{"add_products", check_products, 0},
	{"rmsnorm", check_rmsnorm, 0},
	{"rope", check_rope, 0},
	{"silu_mul", check_silu_mul, 0},
	{"gelu_mul", check_gelu_mul, 0},
	{"swiglu_clamped", check_swiglu_clamped, 0},
	{"softcap", check_softcap, 0},
	{"softmax", check_softmax, 0},
	{"sigmoid_mul", check_sigmoid_mul, 0},
	{"l2norm", check_l2norm, 0},
	{"conv", check_conv, 0},
	{"conv_silu", check_conv_silu, 0},
	{"relu_squared", check_relu_squared, 0},
	{"delta_decay", check_delta_decay, 0},
	{"add", check_add, 0},
	{"add_scaled", check_add_scaled, 0},
	{"kv_put", check_kv_put, 0},
	{"attend", check_attend, 0},
	{"attend_tokens", check_attend_tokens, 0},
	{"attend_spans and attend_join", check_attend_spans, 0},
	{"delta_steps", check_delta_steps, 0},
	{"delta_gates", check_delta_gates, 0},
	{"index_scores", check_index_scores, 0},
	{"attend to latents as rows", check_latent_rows, 0},
};

int main(int argc, char **argv)
{
	bool all = true;

	for (const struct kernels *const *k = kernels_available() + 1; *k; k++) {
		if (argc > 1 && strcmp(argv[1], (*k)->name) != 0) {
			printf("ok %s is there\n", (*k)->name);
			continue;
		}
		for (size_t i = 0; i < COUNT(checks); i++) {
			const bool same = checks[i].check(*k, checks[i].format);
			printf("%s %s %s\n", same ? "ok" : "not ok", (*k)->name, checks[i].name);
			all = all && same;
		}
	}
	return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
