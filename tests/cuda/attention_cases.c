/* Keys and values into their blocks, and attention to them. */
#include "kernels/attention.h"
#include "kernels/block.h"
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Contexts share the blocks of a pool, each block b of a context at another place. */
enum { LOOK_BLOCKS = 17, LOOK_POSITIONS = LOOK_BLOCKS * KV_BLOCK, LOOK_CONTEXTS = 2 };
enum { LOOK_DIM = 128 }; /* most of cuda_attend_heads */

/* Attention of some tokens, here and where it runs: n of the first context, the first of which has
 * `length` positions, and `others` of the second, each of which has one position. */
struct look_case {
	uint32_t n, others, heads, group, head_dim, length, window;
	enum kv_type type;
	bool sinks, hostile;
};
struct look_run {
	struct look_case c;
	size_t element, key_step, block_bytes;
	uint32_t kv_heads;
	uint8_t *blocks; /* [LOOK_CONTEXTS][LOOK_BLOCKS][block_bytes] */
	float *keys, *values;
	const void *at[LOOK_CONTEXTS][LOOK_BLOCKS];
};

/* The block of a context's positions from 64 b on: contexts alternate. */
static size_t case_look_block(const struct look_run *x, size_t context, size_t b)
{
	return ((LOOK_BLOCKS - 1 - b) * LOOK_CONTEXTS + context) * x->block_bytes;
}

static void case_look_begin(struct look_run *x, const struct look_case *c, struct random *random)
{
	*x = (struct look_run){.c = *c, .element = kv_type_element(c->type)};
	x->kv_heads = c->heads / c->group;
	x->key_step = (size_t)c->head_dim * KV_BLOCK;
	x->block_bytes = 2 * x->kv_heads * x->key_step * x->element;
	const size_t each = (size_t)x->kv_heads * c->head_dim;
	x->blocks = case_alloc(LOOK_CONTEXTS * LOOK_BLOCKS, x->block_bytes);
	x->keys = case_alloc(LOOK_POSITIONS * each, sizeof *x->keys);
	x->values = case_alloc(LOOK_POSITIONS * each, sizeof *x->values);
	random_normal(random, x->keys, LOOK_POSITIONS * each);
	random_normal(random, x->values, LOOK_POSITIONS * each);
	/* NaNs where nothing is put */
	memset(x->blocks, 0xff, LOOK_CONTEXTS * LOOK_BLOCKS * x->block_bytes);
	for (size_t i = 0; i < LOOK_CONTEXTS; i++)
		for (size_t b = 0; b < LOOK_BLOCKS; b++)
			x->at[i][b] = x->blocks + case_look_block(x, i, b);
}

static void case_look_end(struct look_run *x)
{
	free(x->blocks);
	free(x->keys);
	free(x->values);
}

/* Row `from` of the run's keys and values at a position of a context. */
static void case_look_put(struct look_run *x, size_t from, size_t context, size_t position)
{
	const size_t dim = x->c.head_dim;

	for (size_t h = 0; h < x->kv_heads; h++) {
		const size_t i = (from * x->kv_heads + h) * dim;
		kernels_scalar.kv_put(
			x->blocks + case_look_block(x, context, position / KV_BLOCK), x->c.type,
			h * x->key_step, (x->kv_heads + h) * x->key_step, position % KV_BLOCK,
			x->keys + i, x->values + i, (uint32_t)dim, 0);
	}
}

/* The blocks where the kernel runs, and the rows of a step: `lengths` has the positions of each, negative
 * in the second context. */
struct look_device {
	uint8_t *blocks;
	const struct cuda_row *rows;
};
static struct look_device case_look_device(const struct runner *r, const struct look_run *x,
					   const int32_t *lengths, size_t n)
{
	struct look_device d = {.blocks = r->put(r->ctx, x->blocks,
						 LOOK_CONTEXTS * LOOK_BLOCKS * x->block_bytes)};
	struct cuda_row *rows = case_alloc(n, sizeof *rows);
	const void *tables[LOOK_CONTEXTS];

	for (size_t i = 0; i < LOOK_CONTEXTS; i++) {
		const void *at[LOOK_BLOCKS];
		for (size_t b = 0; b < LOOK_BLOCKS; b++)
			at[b] = d.blocks + case_look_block(x, i, b);
		tables[i] = r->put(r->ctx, at, sizeof at);
	}
	for (size_t i = 0; i < n; i++) {
		const uint32_t position = (uint32_t)abs(lengths[i]) - 1;
		const bool follows = i && (lengths[i] < 0) == (lengths[i - 1] < 0) &&
				     position == rows[i - 1].position + 1;
		rows[i] = (struct cuda_row){.blocks = tables[lengths[i] < 0],
					    .position = position,
					    .first = follows ? rows[i - 1].first : position};
	}
	d.rows = r->put(r->ctx, rows, n * sizeof *rows);
	free(rows);
	return d;
}

static bool case_kv_put_of(const struct runner *r, enum kv_type type)
{
	enum { ROWS = 95 };
	const struct look_case c = {.heads = 6, .group = 2, .head_dim = 48, .type = type};
	struct random random = {type + 1};
	struct look_run x;
	int32_t lengths[ROWS];
	case_look_begin(&x, &c, &random);
	const size_t each = (size_t)x.kv_heads * c.head_dim,
		     bytes = LOOK_CONTEXTS * LOOK_BLOCKS * x.block_bytes;
	x.keys[3] = INFINITY; /* and what F16 cannot hold, or only as subnormal numbers */
	x.keys[4] = 1e6F;
	x.values[5] = 3e-6F;
	x.values[6] = -1e-9F;
	for (int32_t i = 0; i < ROWS; i++) /* two contexts, alternating at first */
		lengths[i] = i % 2 == 0 || i > 20 ? 51 + i : -(200 + i);
	uint8_t *got = case_alloc(bytes, 1);
	const struct look_device device = case_look_device(r, &x, lengths, ROWS);
	const struct cuda_keys p = {
		.key = r->put(r->ctx, x.keys, ROWS * each * sizeof(float)),
		.value = r->put(r->ctx, x.values, ROWS * each * sizeof(float)),
		.rows = device.rows,
		.key_step = x.key_step,
		.value_offset = x.kv_heads * x.key_step,
		.value_step = x.key_step,
		.n = ROWS,
		.heads = x.kv_heads,
		.head_dim = c.head_dim,
		.half = type == KV_F16,
	};

	bool right = case_launch(r, cuda_kv_put_number, cuda_items_grid(ROWS * each), &p,
				 sizeof p) &&
		     r->get(r->ctx, got, device.blocks, bytes);
	for (size_t i = 0; i < ROWS; i++)
		case_look_put(&x, i, lengths[i] < 0, (size_t)abs(lengths[i]) - 1);
	right = right && compare_bytes("keys and values", got, x.blocks, x.element,
				       bytes / x.element);
	free(got);
	case_look_end(&x);
	r->forget(r->ctx);
	return right;
}

bool case_kv_put(const struct runner *r)
{
	return case_kv_put_of(r, KV_F16) && case_kv_put_of(r, KV_F32);
}

/* ---- heads ---- */

struct heads_case {
	uint32_t rows, heads, kv, dim, turned;
	bool norms, apart; /* apart: queries come from elsewhere, where something lies between two heads */
};

/* Norms and positions of rows[rows][heads][dim]. */
static void case_heads_expect(float *x, uint32_t heads, const struct heads_case *c, const float *w,
			      const float *cos, const float *sin)
{
	for (size_t i = 0; i < (size_t)c->rows * heads; i++) {
		const size_t row = i / heads;
		float *head = x + i * c->dim;
		if (c->norms)
			kernels_scalar.rmsnorm(head, head, w, c->dim, 1e-6F);
		kernels_scalar.rope(head, cos + row * c->turned, sin + row * c->turned, c->turned);
	}
}

static bool case_heads_of(const struct runner *r, const struct heads_case *c)
{
	enum { ROWS = 8 };
	const struct look_case look = {.heads = c->heads, .group = c->heads / c->kv,
				       .head_dim = c->dim, .type = KV_F16};
	struct random random = {c->dim};
	struct look_run x;
	int32_t lengths[ROWS];
	float w[2][256], turn[2][ROWS * 128];
	case_look_begin(&x, &look, &random);
	const size_t all = (size_t)c->rows * c->heads * c->dim, bytes = all * sizeof(float);
	const size_t each = (size_t)c->rows * c->kv * c->dim;
	const size_t memory = LOOK_CONTEXTS * LOOK_BLOCKS * x.block_bytes;
	const uint32_t q_step = c->apart ? 2 * c->dim : c->dim;
	float *q = case_alloc(4 * all, sizeof *q), *got = q + all, *from = got + all;
	uint8_t *blocks = case_alloc(memory, 1);
	compare_fill_rows(&random, q, c->rows * c->heads, c->dim);
	random_normal(&random, w[0], 2 * 256);
	random_normal(&random, turn[0], 2 * ROWS * 128);
	for (int32_t i = 0; i < ROWS; i++)
		lengths[i] = i % 3 ? 62 + i : -(300 + i);
	for (size_t i = 0; i < all; i++)
		from[i / c->dim * q_step + i % c->dim] = q[i];
	const struct look_device device = case_look_device(r, &x, lengths, c->rows);
	struct cuda_heads p = {
		.keys = {.key = r->put(r->ctx, x.keys, each * sizeof(float)),
			 .value = r->put(r->ctx, x.values, each * sizeof(float)),
			 .rows = device.rows,
			 .key_step = x.key_step,
			 .value_offset = c->kv * x.key_step,
			 .value_step = x.key_step,
			 .n = c->rows,
			 .heads = c->kv,
			 .head_dim = c->dim,
			 .half = 1},
		.q_from = r->put(r->ctx, from, all / c->dim * q_step * sizeof *from),
		.q_step = q_step,
		.q_norm = c->norms ? r->put(r->ctx, w[0], sizeof w[0]) : NULL,
		.key_norm = c->norms ? r->put(r->ctx, w[1], sizeof w[1]) : NULL,
		.cos = r->put(r->ctx, turn[0], sizeof turn[0]),
		.sin = r->put(r->ctx, turn[1], sizeof turn[1]),
		.heads = c->heads,
		.turned = c->turned,
		.eps = 1e-6F,
	};
	p.q = c->apart ? r->put(r->ctx, NULL, bytes) : (float *)(uintptr_t)p.q_from;
	p.key = c->apart ? r->put(r->ctx, NULL, each * sizeof(float)) : (float *)(uintptr_t)p.keys.key;

	bool right = case_launch(r, cuda_place_heads_number, cuda_heads_grid(&p), &p, sizeof p) &&
		     r->get(r->ctx, got, p.q, bytes) &&
		     r->get(r->ctx, blocks, device.blocks, memory);
	case_heads_expect(q, c->heads, c, w[0], turn[0], turn[1]);
	case_heads_expect(x.keys, c->kv, c, w[1], turn[0], turn[1]);
	for (size_t i = 0; i < c->rows; i++)
		case_look_put(&x, i, lengths[i] < 0, (size_t)abs(lengths[i]) - 1);
	right = right && compare_floats("heads of queries", got, q, all) &&
		r->get(r->ctx, got, p.key, each * sizeof(float)) &&
		compare_floats("heads of keys", got, x.keys, each) &&
		compare_bytes("heads of keys and values", blocks, x.blocks, x.element,
			      memory / x.element);
	free(q);
	free(blocks);
	case_look_end(&x);
	r->forget(r->ctx);
	return right;
}

bool case_place_heads(const struct runner *r)
{
	static const struct heads_case cases[] = {{5, 8, 2, 128, 64, true, false},
						  {7, 3, 3, 80, 20, false, false},
						  {3, 4, 2, 128, 64, true, true},
						  {3, 2, 1, 96, 0, true, true}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (!case_heads_of(r, &cases[i]))
			return false;
	return true;
}

/* ---- attention ---- */

/* One row of the case, of a context and with so many positions. */
static void case_attend_expect(const struct look_run *x, float *out, const float *q,
			       const float *sinks, float scale, int32_t length)
{
	const struct look_case *c = &x->c;

	for (size_t h = 0; h < x->kv_heads; h++) {
		const struct attention a = {
			.type = c->type,
			.head_dim = c->head_dim,
			.heads = c->group,
			.length = (uint32_t)abs(length),
			.scale = scale,
			.blocks = x->at[length < 0],
			.key_offset = h * x->key_step,
			.value_offset = (x->kv_heads + h) * x->key_step,
			.window = c->window,
			.sinks = sinks ? sinks + h * c->group : NULL,
		};
		const size_t from = h * c->group * c->head_dim;
		kernels_scalar.attend_tokens(out + from, q + from, (size_t)c->heads * c->head_dim,
					     &a, 1);
	}
}

/* The lengths of all rows; returns the most spans that a row sees. */
static uint32_t case_attend_lengths(const struct look_case *c, int32_t *lengths)
{
	uint32_t most = 0;

	for (uint32_t t = 0; t < c->n + c->others; t++) {
		const uint32_t n = t < c->n ? c->length + t : (t - c->n + 1) * 301 % LOOK_POSITIONS + 1;
		const uint32_t first = c->window && n > c->window ? n - c->window : 0;
		const uint32_t spans = (n - 1) / ATTENTION_SPAN - first / ATTENTION_SPAN + 1;
		lengths[t] = t < c->n ? (int32_t)n : -(int32_t)n;
		most = spans > most ? spans : most;
	}
	return most;
}

/* Fills both contexts. */
static void case_attend_fill(struct look_run *x)
{
	const struct look_case *c = &x->c;
	const uint32_t last = c->length + c->n - 1;

	for (size_t p = 0; p < LOOK_POSITIONS; p++) {
		if (p < last && (!c->window || p + c->window >= c->length))
			case_look_put(x, p, 0, p); /* before all windows there are NaNs */
		case_look_put(x, LOOK_POSITIONS - 1 - p, 1, p);
	}
}

/* The same output as inputs in 8 bits. */
static bool case_attend_inputs(const struct runner *r, const struct cuda_attention *attention,
			       const float *out, bool blocks)
{
	const uint32_t width = attention->heads * attention->head_dim;
	const struct case_inputs in = case_inputs_room(r, attention->n, width, blocks);
	struct cuda_join_inputs p = {
		.attention = *attention, .q = in.q, .scale = in.scale, .sum = in.sum};

	cuda_fill_signs(&p.signs);
	p.attention.out = NULL;
	return case_launch(r, cuda_join_kernel(&p), cuda_join_inputs_grid(&p), &p, sizeof p) &&
	       case_inputs_agree(r, "inputs of attention", &in, out, attention->n, width);
}

/* The same output by the kernel for rows of one context. */
static bool case_attend_rows(const struct runner *r, const struct cuda_attention *p,
			     const float *expected, size_t all)
{
	const size_t parts = (size_t)p->spans * p->n * p->heads * attention_part(p->head_dim);
	struct cuda_attention again = *p;
	float *out = case_alloc(all, sizeof *out);
	again.parts = r->put(r->ctx, NULL, parts * sizeof *out);
	again.out = r->put(r->ctx, NULL, all * sizeof *out);
	const bool right =
		case_launch(r, cuda_attend_rows_number, cuda_rows_grid(&again), &again,
			    sizeof again) &&
		case_launch(r, cuda_attend_join_number, cuda_join_grid(&again), &again,
			    sizeof again) &&
		r->get(r->ctx, out, again.out, all * sizeof *out) &&
		compare_floats("attention of rows together", out, expected, all);
	free(out);
	return right;
}

static bool case_attend_of(const struct runner *r, const struct look_case *c)
{
	struct random random = {c->length};
	struct look_run x;
	int32_t lengths[24];
	case_look_begin(&x, c, &random);
	const uint32_t n = c->n + c->others;
	const size_t each = (size_t)c->heads * c->head_dim, all = n * each;
	float *q = case_alloc(all, sizeof *q), *out = case_alloc(2 * all, sizeof *out), sinks[64];
	char what[96];
	random_normal(&random, q, all);
	random_normal(&random, sinks, c->heads);
	if (c->hostile) { /* the first head's query, and a key of the first key-value head */
		q[1] = NAN;
		x.keys[(size_t)c->head_dim * x.kv_heads * 2] = INFINITY;
	}
	case_attend_fill(&x);
	const uint32_t spans = case_attend_lengths(c, lengths);
	const struct look_device device = case_look_device(r, &x, lengths, n);
	const size_t parts = (size_t)spans * n * c->heads * attention_part(c->head_dim);
	const struct cuda_attention p = {
		.q = r->put(r->ctx, q, all * sizeof *q),
		.sinks = c->sinks ? r->put(r->ctx, sinks, sizeof sinks) : NULL,
		.parts = r->put(r->ctx, NULL, parts * sizeof(float)),
		.out = r->put(r->ctx, NULL, all * sizeof *out),
		.rows = device.rows,
		.key_step = x.key_step,
		.value_offset = x.kv_heads * x.key_step,
		.value_step = x.key_step,
		.n = n,
		.heads = c->heads,
		.group = c->group,
		.head_dim = c->head_dim,
		.window = c->window,
		.spans = spans,
		.half = c->type == KV_F16,
		.copy_keys = c->n % 2 == 1 && r->room.shared >= 163 << 10,
		.scale = 1 / sqrtf((float)c->head_dim),
	};

	bool right = case_launch(r, cuda_attend_spans_number, cuda_spans_grid(&p), &p, sizeof p) &&
		     case_launch(r, cuda_attend_join_number, cuda_join_grid(&p), &p, sizeof p) &&
		     r->get(r->ctx, out, p.out, all * sizeof *out);
	for (size_t t = 0; t < n; t++)
		case_attend_expect(&x, out + all + t * each, q + t * each, c->sinks ? sinks : NULL,
				   p.scale, lengths[t]);
	snprintf(what, sizeof what, "attention, %u tokens from %u on, %u heads of %u, window %u",
		 n, c->length, c->heads, c->head_dim, c->window);
	right = right && compare_floats(what, out, out + all, all) &&
		case_attend_inputs(r, &p, out + all, false) &&
		(p.heads * p.head_dim % BLOCK || case_attend_inputs(r, &p, out + all, true));
	if (c->others == 0)
		right = right && case_attend_rows(r, &p, out + all, all);
	free(q);
	free(out);
	case_look_end(&x);
	r->forget(r->ctx);
	return right;
}

bool case_attend(const struct runner *r)
{
	static const struct look_case cases[] = {
		{1, 0, 4, 2, 128, 1, 0, KV_F16, false, false},
		{3, 3, 4, 2, 64, 63, 0, KV_F16, false, true},
		{2, 0, 2, 1, 80, 256, 0, KV_F32, false, false},
		{1, 4, 4, 4, 128, 700, 0, KV_F16, false, false},
		{2, 5, 2, 2, 64, 770, 300, KV_F16, true, false},
		{4, 0, 2, 1, 48, 510, 130, KV_F32, true, true},
		{1, 0, 2, 2, 300, 1030, 0, KV_F16, true, false},
		/* several queries of a block of threads */
		{7, 2, 16, 8, 128, 900, 0, KV_F16, false, true},
		{12, 4, 8, 4, 72, 790, 500, KV_F32, true, false},
		/* rows together */
		{21, 0, 4, 2, 128, 250, 0, KV_F16, false, true},
		{19, 0, 2, 1, 64, 1, 0, KV_F16, false, false},
		{16, 0, 2, 2, 84, 500, 0, KV_F32, false, true},
		/* with windows: over the ends of blocks and spans, of more spans than one row sees, and of fewer
		 * positions than rows */
		{24, 0, 4, 2, 64, 250, 128, KV_F16, true, false},
		{19, 0, 2, 1, 80, 1, 6, KV_F16, true, true},
		{17, 0, 2, 2, 128, 505, 257, KV_F32, false, true},
		{24, 0, 2, 2, 64, 761, 5, KV_F16, false, false},
		{20, 0, 2, 1, 48, 1000, 700, KV_F16, true, false},
		{18, 0, 2, 2, 64, 300, 0, KV_F16, true, true},
	};
	bool right = true;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		right &= case_attend_of(r, &cases[i]);
	return right;
}

/* ---- heads and attention together ---- */

/* Rows of the first context that follow each other, and perhaps one of the second. */
struct attend_heads_case {
	struct look_case look;
	uint32_t turned;
	bool norms;
	uint32_t unused_spans; /* beyond what rows see */
};

/* What the rows bring, and what becomes of them: queries, keys, values; sums of attention. */
struct attend_heads_run {
	struct look_run x;
	const struct attend_heads_case *c;
	uint32_t n, spans;
	size_t each, kv_each; /* floats of a row's queries, and of its keys */
	int32_t lengths[CUDA_NEAR_ROWS];
	float *q, *keys, *values; /* as they come; then the scalar table's */
	float w[2][LOOK_DIM], turn[2][CUDA_NEAR_ROWS * LOOK_DIM / 2], sinks[64];
};

/* Where the random keys and values of row t lie in the run. */
static size_t case_attend_heads_from(const struct attend_heads_run *z, size_t t)
{
	const size_t position = (size_t)abs(z->lengths[t]) - 1;

	return z->lengths[t] < 0 ? LOOK_POSITIONS - 1 - position : position;
}

static void case_attend_heads_begin(struct attend_heads_run *z, const struct attend_heads_case *c)
{
	const struct look_case *l = &c->look;
	struct random random = {l->length};
	struct look_run *x = &z->x;

	case_look_begin(x, l, &random);
	z->c = c;
	z->n = l->n + l->others;
	z->each = (size_t)l->heads * l->head_dim;
	z->kv_each = (size_t)x->kv_heads * l->head_dim;
	z->spans = case_attend_lengths(l, z->lengths) + c->unused_spans;
	z->q = case_alloc(z->n * (z->each + 2 * z->kv_each), sizeof *z->q);
	z->keys = z->q + z->n * z->each;
	z->values = z->keys + z->n * z->kv_each;
	random_normal(&random, z->q, z->n * z->each);
	random_normal(&random, z->w[0], sizeof z->w / sizeof(float));
	random_normal(&random, z->turn[0], sizeof z->turn / sizeof(float));
	random_normal(&random, z->sinks, sizeof z->sinks / sizeof(float));
	if (l->hostile) {
		z->q[1] = NAN;
		x->keys[(size_t)(l->length - 1) * z->kv_each + 3] = 1e6F; /* not of F16 */
		x->values[(size_t)(l->length - 1) * z->kv_each + 5] = 1e6F;
	}
	for (size_t t = 0; t < z->n; t++) {
		const size_t from = case_attend_heads_from(z, t) * z->kv_each;
		memcpy(z->keys + t * z->kv_each, x->keys + from, z->kv_each * sizeof(float));
		memcpy(z->values + t * z->kv_each, x->values + from, z->kv_each * sizeof(float));
	}
	/* what earlier steps have put */
	for (size_t p = l->window && l->length > l->window ? l->length - l->window : 0; p + 1 < l->length; p++)
		case_look_put(x, p, 0, p);
	for (size_t p = 0; l->others && p + 1 < (size_t)-z->lengths[l->n]; p++)
		case_look_put(x, LOOK_POSITIONS - 1 - p, 1, p);
}

static void case_attend_heads_end(struct attend_heads_run *z)
{
	free(z->q);
	case_look_end(&z->x);
}

/* Norms, positions, the new keys and values in their blocks, and then the outputs. */
static void case_attend_heads_expect(struct attend_heads_run *z, float *out, float scale)
{
	const struct look_case *l = &z->c->look;
	const struct heads_case h = {.rows = z->n, .heads = l->heads, .kv = z->x.kv_heads,
				     .dim = l->head_dim, .turned = z->c->turned, .norms = z->c->norms};

	case_heads_expect(z->q, l->heads, &h, z->w[0], z->turn[0], z->turn[1]);
	case_heads_expect(z->keys, z->x.kv_heads, &h, z->w[1], z->turn[0], z->turn[1]);
	for (size_t t = 0; t < z->n; t++) {
		const size_t from = case_attend_heads_from(z, t);
		memcpy(z->x.keys + from * z->kv_each, z->keys + t * z->kv_each, z->kv_each * sizeof(float));
		case_look_put(&z->x, from, z->lengths[t] < 0, (size_t)abs(z->lengths[t]) - 1);
	}
	for (size_t t = 0; t < z->n; t++)
		case_attend_expect(&z->x, out + t * z->each, z->q + t * z->each, l->sinks ? z->sinks : NULL,
				   scale, z->lengths[t]);
}

static struct cuda_attend_heads case_attend_heads_operands(const struct runner *r,
							   const struct attend_heads_run *z,
							   const struct cuda_row *rows)
{
	const struct look_case *l = &z->c->look;
	const struct look_run *x = &z->x;
	const uint32_t dim = l->head_dim, q_step = z->c->norms ? dim : 2 * dim;
	const size_t kv = z->n * z->kv_each * sizeof(float);
	const size_t parts = (size_t)z->spans * z->n * l->heads * attention_part(dim);
	float *q = case_alloc(2 * z->n * z->each, sizeof *q);
	for (size_t i = 0; i < z->n * z->each; i++)
		q[i / dim * q_step + i % dim] = z->q[i];
	const struct cuda_attend_heads p = {
		.attention = {.sinks = l->sinks ? r->put(r->ctx, z->sinks, sizeof z->sinks) : NULL,
			      .parts = r->put(r->ctx, NULL, parts * sizeof(float)),
			      .out = r->put(r->ctx, NULL, z->n * z->each * sizeof(float)),
			      .rows = rows,
			      .key_step = x->key_step,
			      .value_offset = x->kv_heads * x->key_step,
			      .value_step = x->key_step,
			      .n = z->n,
			      .heads = l->heads,
			      .group = l->group,
			      .head_dim = dim,
			      .window = l->window,
			      .spans = z->spans,
			      .half = 1,
			      .scale = 1 / sqrtf((float)dim)},
		.heads = {.keys = {.key = r->put(r->ctx, z->keys, kv),
				   .value = r->put(r->ctx, z->values, kv),
				   .rows = rows,
				   .key_step = x->key_step,
				   .value_offset = x->kv_heads * x->key_step,
				   .value_step = x->key_step,
				   .n = z->n,
				   .heads = x->kv_heads,
				   .head_dim = dim,
				   .half = 1},
			  .key = r->put(r->ctx, NULL, kv),
			  .q_from = r->put(r->ctx, q, 2 * z->n * z->each * sizeof *q),
			  .q_step = q_step,
			  .q_norm = z->c->norms ? r->put(r->ctx, z->w[0], sizeof z->w[0]) : NULL,
			  .key_norm = z->c->norms ? r->put(r->ctx, z->w[1], sizeof z->w[1]) : NULL,
			  .cos = r->put(r->ctx, z->turn[0], sizeof z->turn[0]),
			  .sin = r->put(r->ctx, z->turn[1], sizeof z->turn[1]),
			  .heads = l->heads,
			  .turned = z->c->turned,
			  .eps = 1e-6F}};
	free(q);
	return p;
}

static bool case_attend_heads_of(const struct runner *r, const struct attend_heads_case *c)
{
	struct attend_heads_run z;
	case_attend_heads_begin(&z, c);
	const struct look_device device = case_look_device(r, &z.x, z.lengths, z.n);
	struct cuda_attend_heads p = case_attend_heads_operands(r, &z, device.rows);
	const size_t all = z.n * z.each, kv = z.n * z.kv_each;
	const size_t memory = LOOK_CONTEXTS * LOOK_BLOCKS * z.x.block_bytes;
	bool right = true;
	if (cuda_attends_heads(&p, &r->room)) {
		float *out = case_alloc(2 * all + kv, sizeof *out), *key = out + 2 * all;
		uint8_t *blocks = case_alloc(memory, 1);
		const struct cuda_grid g = cuda_attend_heads_grid(&p);
		case_attend_heads_expect(&z, out + all, p.attention.scale);
		right = case_launch(r, cuda_attend_heads_number, g, &p, sizeof p) &&
			case_launch(r, cuda_attend_join_number, cuda_join_grid(&p.attention), &p.attention,
				    sizeof p.attention) &&
			r->get(r->ctx, out, p.attention.out, all * sizeof *out) &&
			r->get(r->ctx, key, p.heads.key, kv * sizeof *key) &&
			r->get(r->ctx, blocks, device.blocks, memory) &&
			compare_floats("heads and their attention", out, out + all, all) &&
			compare_floats("keys of the step", key, z.keys, kv) &&
			compare_bytes("keys and values of the step", blocks, z.x.blocks, z.x.element,
				      memory / z.x.element);
		free(out);
		free(blocks);
	}
	case_attend_heads_end(&z);
	r->forget(r->ctx);
	return right;
}

bool case_attend_heads(const struct runner *r)
{
	static const struct attend_heads_case cases[] = {
		{{1, 0, 4, 2, 128, 1, 0, KV_F16, false, false}, 64, true, 0},
		{{1, 0, 4, 4, 128, 256, 0, KV_F16, false, false}, 64, true, 1},
		{{1, 1, 8, 4, 128, 700, 0, KV_F16, false, false}, 64, false, 0},
		{{1, 0, 2, 1, 128, 65, 0, KV_F16, true, true}, 32, true, 0},
		{{1, 1, 2, 2, 64, 300, 128, KV_F16, true, false}, 32, false, 0},
		{{1, 0, 2, 2, 96, 1000, 300, KV_F16, true, false}, 32, true, 1},
		{{1, 0, 3, 3, 32, 20, 6, KV_F16, false, false}, 0, true, 0},
		{{3, 1, 2, 1, 32, 130, 0, KV_F16, false, false}, 16, true, 0},
		{{1, 0, 2, 1, 64, 90, 0, KV_F16, true, false}, 16, false, 0},
		/* several rows of a context: over the end of a block, and of a span */
		{{5, 1, 4, 2, 128, 62, 0, KV_F16, false, false}, 64, true, 0},
		{{7, 0, 4, 4, 128, 253, 0, KV_F16, false, true}, 64, true, 0},
		{{9, 0, 2, 2, 64, 510, 5, KV_F16, true, false}, 32, true, 0},
		{{14, 1, 2, 1, 128, 1, 0, KV_F16, true, false}, 64, true, 0},
		/* two heads of a block of threads, and four */
		{{1, 0, 32, 8, 128, 1080, 0, KV_F16, true, false}, 64, true, 3},
		{{4, 1, 16, 4, 64, 600, 300, KV_F16, true, false}, 32, true, 0},
		{{3, 1, 32, 8, 128, 766, 0, KV_F16, false, true}, 64, true, 0},
		{{6, 1, 16, 8, 128, 900, 257, KV_F16, true, false}, 64, true, 0},
	};
	bool right = true;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		right &= case_attend_heads_of(r, &cases[i]);
	return right;
}
