/* Keys and values into their blocks, and attention to them. */
#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_BLOCKS = 17, LOOK_POSITIONS = LOOK_BLOCKS * KV_BLOCK };

/* Attention of some tokens, here and where it runs. */
struct look_case {
	uint32_t n, heads, group, head_dim, length, window;
	enum kv_type type;
	bool sinks, hostile;
};
struct look_run {
	struct look_case c;
	size_t element, key_step, block_bytes;
	uint32_t kv_heads;
	uint8_t *blocks; /* [LOOK_BLOCKS][block_bytes] */
	float *keys, *values;
	const void *at[LOOK_BLOCKS], *device[LOOK_BLOCKS];
};

static void case_look_begin(struct look_run *x, const struct look_case *c, struct random *random)
{
	*x = (struct look_run){.c = *c, .element = kv_type_element(c->type)};
	x->kv_heads = c->heads / c->group;
	x->key_step = (size_t)c->head_dim * KV_BLOCK;
	x->block_bytes = 2 * x->kv_heads * x->key_step * x->element;
	const size_t each = (size_t)x->kv_heads * c->head_dim;
	x->blocks = case_alloc(LOOK_BLOCKS, x->block_bytes);
	x->keys = case_alloc(LOOK_POSITIONS * each, sizeof *x->keys);
	x->values = case_alloc(LOOK_POSITIONS * each, sizeof *x->values);
	random_normal(random, x->keys, LOOK_POSITIONS * each);
	random_normal(random, x->values, LOOK_POSITIONS * each);
	memset(x->blocks, 0xff, LOOK_BLOCKS * x->block_bytes); /* NaNs where nothing is put */
	for (size_t b = 0; b < LOOK_BLOCKS; b++)
		x->at[b] = x->blocks + b * x->block_bytes;
}

static void case_look_end(struct look_run *x)
{
	free(x->blocks);
	free(x->keys);
	free(x->values);
}

/* The first positions of the run's keys and values. */
static void case_look_put(struct look_run *x, size_t positions)
{
	const size_t dim = x->c.head_dim;

	for (size_t i = 0; i < positions * x->kv_heads; i++) {
		const size_t p = i / x->kv_heads, h = i % x->kv_heads;
		kernels_scalar.kv_put(x->blocks + p / KV_BLOCK * x->block_bytes, x->c.type,
				      h * x->key_step, (x->kv_heads + h) * x->key_step,
				      p % KV_BLOCK, x->keys + i * dim, x->values + i * dim,
				      (uint32_t)dim, 0);
	}
}

static bool case_kv_put_of(const struct runner *r, enum kv_type type)
{
	const struct look_case c = {.heads = 6, .group = 2, .head_dim = 48, .type = type};
	struct random random = {type + 1};
	struct look_run x;
	case_look_begin(&x, &c, &random);
	const uint32_t from = 50, rows = 90;
	const size_t each = (size_t)x.kv_heads * c.head_dim, bytes = LOOK_BLOCKS * x.block_bytes;
	x.keys[3] = INFINITY; /* and what F16 cannot hold, or only as subnormal numbers */
	x.keys[4] = 1e6F;
	x.values[5] = 3e-6F;
	x.values[6] = -1e-9F;
	uint8_t *got = case_alloc(bytes, 1), *expected = case_alloc(bytes, 1);
	uint8_t *device = r->put(r->ctx, x.blocks, bytes);
	for (size_t b = 0; b < LOOK_BLOCKS; b++)
		x.device[b] = device + b * x.block_bytes;
	const struct cuda_keys p = {
		.key = r->put(r->ctx, x.keys, rows * each * sizeof(float)),
		.value = r->put(r->ctx, x.values, rows * each * sizeof(float)),
		.blocks = r->put(r->ctx, x.device, sizeof x.device),
		.key_step = x.key_step,
		.value_offset = x.kv_heads * x.key_step,
		.value_step = x.key_step,
		.position = from,
		.rows = rows,
		.heads = x.kv_heads,
		.head_dim = c.head_dim,
		.half = type == KV_F16,
	};

	bool right = case_launch(r, cuda_kv_put_number, cuda_items_grid(rows * each), &p,
				 sizeof p) &&
		     r->get(r->ctx, got, device, bytes);
	for (size_t i = 0; i < rows * x.kv_heads; i++) {
		const size_t at = from + i / x.kv_heads, h = i % x.kv_heads;
		kernels_scalar.kv_put(x.blocks + at / KV_BLOCK * x.block_bytes, type,
				      h * x.key_step, (x.kv_heads + h) * x.key_step, at % KV_BLOCK,
				      x.keys + i * c.head_dim, x.values + i * c.head_dim,
				      c.head_dim, 0);
	}
	right = right && compare_bytes("keys and values", got, x.blocks, x.element,
				       bytes / x.element);
	free(got);
	free(expected);
	case_look_end(&x);
	r->forget(r->ctx);
	return right;
}

bool case_kv_put(const struct runner *r)
{
	return case_kv_put_of(r, KV_F16) && case_kv_put_of(r, KV_F32);
}

/* ---- attention ---- */

static void case_attend_expect(const struct look_run *x, float *out, const float *q,
			       const float *sinks, float scale)
{
	const struct look_case *c = &x->c;

	for (size_t h = 0; h < x->kv_heads; h++) {
		const struct attention a = {
			.type = c->type,
			.head_dim = c->head_dim,
			.heads = c->group,
			.length = c->length,
			.scale = scale,
			.blocks = x->at,
			.key_offset = h * x->key_step,
			.value_offset = (x->kv_heads + h) * x->key_step,
			.window = c->window,
			.sinks = sinks ? sinks + h * c->group : NULL,
		};
		const size_t from = h * c->group * c->head_dim;
		kernels_scalar.attend_tokens(out + from, q + from, (size_t)c->heads * c->head_dim,
					     &a, c->n);
	}
}

static bool case_attend_of(const struct runner *r, const struct look_case *c)
{
	struct random random = {c->length};
	struct look_run x;
	case_look_begin(&x, c, &random);
	const size_t all = (size_t)c->n * c->heads * c->head_dim, last = c->length + c->n - 1;
	const uint32_t span = c->window && c->length > c->window
				      ? (c->length - c->window) / ATTENTION_SPAN
				      : 0,
		       spans = (uint32_t)((last - 1) / ATTENTION_SPAN) + 1 - span;
	const size_t parts = (size_t)spans * c->n * c->heads * attention_part(c->head_dim);
	float *q = case_alloc(all, sizeof *q), *out = case_alloc(2 * all, sizeof *out), sinks[64];
	char what[96];
	random_normal(&random, q, all);
	random_normal(&random, sinks, c->heads);
	if (c->hostile) { /* the first head's query, and a key of the first key-value head */
		q[1] = NAN;
		x.keys[(size_t)c->head_dim * x.kv_heads * 2] = INFINITY;
	}
	case_look_put(&x, last);
	uint8_t *device = r->put(r->ctx, x.blocks, LOOK_BLOCKS * x.block_bytes);
	for (size_t b = 0; b < LOOK_BLOCKS; b++)
		x.device[b] = device + b * x.block_bytes;
	const struct cuda_attention p = {
		.q = r->put(r->ctx, q, all * sizeof *q),
		.sinks = c->sinks ? r->put(r->ctx, sinks, sizeof sinks) : NULL,
		.parts = r->put(r->ctx, NULL, parts * sizeof(float)),
		.out = r->put(r->ctx, NULL, all * sizeof *out),
		.blocks = r->put(r->ctx, x.device, sizeof x.device),
		.key_step = x.key_step,
		.value_offset = x.kv_heads * x.key_step,
		.value_step = x.key_step,
		.n = c->n,
		.heads = c->heads,
		.group = c->group,
		.head_dim = c->head_dim,
		.length = c->length,
		.window = c->window,
		.span = span,
		.half = c->type == KV_F16,
		.scale = 1 / sqrtf((float)c->head_dim),
	};

	bool right = case_launch(r, cuda_attend_spans_number, cuda_spans_grid(&p, spans), &p,
				 sizeof p) &&
		     case_launch(r, cuda_attend_join_number, cuda_join_grid(&p), &p, sizeof p) &&
		     r->get(r->ctx, out, p.out, all * sizeof *out);
	case_attend_expect(&x, out + all, q, c->sinks ? sinks : NULL, p.scale);
	snprintf(what, sizeof what, "attention, %u tokens from %u on, %u heads of %u, window %u",
		 c->n, c->length, c->heads, c->head_dim, c->window);
	right = right && compare_floats(what, out, out + all, all);
	free(q);
	free(out);
	case_look_end(&x);
	r->forget(r->ctx);
	return right;
}

bool case_attend(const struct runner *r)
{
	static const struct look_case cases[] = {
		{1, 4, 2, 128, 1, 0, KV_F16, false, false},
		{3, 4, 2, 64, 63, 0, KV_F16, false, true},
		{2, 2, 1, 80, 256, 0, KV_F32, false, false},
		{1, 4, 4, 128, 700, 0, KV_F16, false, false},
		{2, 2, 2, 64, 770, 300, KV_F16, true, false},
		{4, 2, 1, 48, 510, 130, KV_F32, true, true},
		{1, 2, 2, 300, 1030, 0, KV_F16, true, false},
	};
	bool right = true;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		right &= case_attend_of(r, &cases[i]);
	return right;
}
