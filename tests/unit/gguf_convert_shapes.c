#include "gguf_convert_shapes.h"
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the config ---- */

struct json_object *maker_member(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	return json_object_object_get_ex(o, key, &v) ? v : NULL;
}

uint32_t maker_number(const struct maker *m, const char *key)
{
	struct json_object *v = maker_member(m->config, key);
	return v ? (uint32_t)json_object_get_int64(v) : 0;
}

bool maker_is(const struct maker *m, const char *architecture)
{
	return !strcmp(m->c->architecture, architecture);
}

uint32_t maker_head_dim(const struct maker *m)
{
	uint32_t dim = maker_number(m, "head_dim");
	return dim ? dim : maker_number(m, "hidden_size") / maker_number(m, "num_attention_heads");
}

/* ---- tensors ---- */

struct out *maker_add(struct maker *m, const char *name)
{
	assert_true(m->count < TENSORS_MOST);
	struct out *o = &m->out[m->count++];
	*o = (struct out){0};
	(void)snprintf(o->name, sizeof o->name, "%s", name);
	return o;
}

struct out *maker_add_copy(struct maker *m, const char *name, const struct test_tensor *t)
{
	struct out *o = maker_add(m, name);
	o->dims = t->dims;
	o->count = test_tensor_elements(t);
	memcpy(o->shape, t->shape, t->dims * sizeof *t->shape);
	o->x = malloc(o->count * sizeof *o->x);
	assert_non_null(o->x);
	for (size_t i = 0; i < o->count; i++)
		o->x[i] = test_tensor_get(t, i);
	return o;
}

/* Rows in groups of `width` numbers: group i becomes the one that order says. */
static void reorder(float *x, size_t groups, size_t width,
		    size_t (*order)(const struct maker *, size_t), const struct maker *m)
{
	float *copy = malloc(groups * width * sizeof *copy);
	assert_non_null(copy);
	memcpy(copy, x, groups * width * sizeof *copy);
	for (size_t i = 0; i < groups; i++)
		memcpy(x + i * width, copy + order(m, i) * width, width * sizeof *x);
	free(copy);
}

/* Row i of a head's pairs: even ones are the first half's. */
static size_t paired(const struct maker *m, size_t i)
{
	size_t dim = maker_head_dim(m), at = i % dim;
	return i - at + at % 2 * (dim / 2) + at / 2;
}

void maker_pair(struct maker *m, struct out *o)
{
	reorder(o->x, o->shape[0], o->shape[1], paired, m);
}

/* Value head i: the i / keys-th of key head i % keys. */
static size_t tiled(const struct maker *m, size_t i)
{
	size_t keys = maker_number(m, "linear_num_key_heads"),
	       each = maker_number(m, "linear_num_value_heads") / keys;
	return i % keys * each + i / keys;
}

bool maker_ends(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n >= k && !strcmp(name + n - k, ending);
}

void maker_tile(struct maker *m, const char *part, struct out *o)
{
	size_t heads = maker_number(m, "linear_num_value_heads"),
	       dim = maker_number(m, "linear_value_head_dim"),
	       keys = 2 * (size_t)maker_number(m, "linear_num_key_heads") *
		      maker_number(m, "linear_key_head_dim"),
	       cols = o->dims > 1 ? o->shape[o->dims - 1] : 1;
	if (maker_ends(part, "in_proj_qkv.weight") || maker_ends(part, "conv1d.weight"))
		reorder(o->x + keys * cols, heads, dim * cols, tiled, m);
	else if (maker_ends(part, "in_proj_z.weight"))
		reorder(o->x, heads, dim * cols, tiled, m);
	else if (maker_ends(part, "in_proj_a.weight") || maker_ends(part, "in_proj_b.weight") ||
		 maker_ends(part, "A_log") || maker_ends(part, "dt_bias"))
		reorder(o->x, heads, cols, tiled, m);
	else if (maker_ends(part, "out_proj.weight"))
		for (size_t r = 0; r < o->shape[0]; r++)
			reorder(o->x + r * cols, heads, dim, tiled, m);
}

void maker_unfuse(struct maker *m, const char *layer, const struct test_tensor *t)
{
	size_t keys = maker_number(m, "linear_num_key_heads"),
	       key = maker_number(m, "linear_key_head_dim"),
	       value = maker_number(m, "linear_num_value_heads") / keys *
		       maker_number(m, "linear_value_head_dim"),
	       cols = t->shape[1], each = 2 * key + 2 * value;
	const size_t begin[] = {0, key, 2 * key, 2 * key + value},
		     size[] = {key, key, value, value};
	char name[NAME];
	struct out *o = NULL;
	for (int part = 0; part < 4; part++) {
		if (part == 0 || part == 3) {
			(void)snprintf(name, sizeof name, "%s%s", layer,
				       part ? "attn_gate.weight" : "attn_qkv.weight");
			o = maker_add(m, name);
			o->dims = 2;
			o->shape[0] = keys * (part ? value : 2 * key + value);
			o->shape[1] = cols;
			o->x = malloc(o->shape[0] * cols * sizeof *o->x);
			assert_non_null(o->x);
		}
		for (size_t h = 0; h < keys; h++)
			for (size_t i = 0; i < size[part] * cols; i++)
				o->x[o->count++] =
					test_tensor_get(t, (h * each + begin[part]) * cols + i);
	}
}

void maker_halve(struct maker *m, const char *name, const struct test_tensor *t, size_t half)
{
	struct out *o = maker_add(m, name);
	size_t experts = t->shape[0], rows = t->shape[1] / 2, cols = t->shape[2];
	*o = (struct out){.dims = 3, .shape = {experts, rows, cols}, .x = NULL};
	(void)snprintf(o->name, sizeof o->name, "%s", name);
	o->x = malloc(experts * rows * cols * sizeof *o->x);
	assert_non_null(o->x);
	for (size_t e = 0; e < experts; e++)
		for (size_t i = 0; i < rows * cols; i++)
			o->x[o->count++] = test_tensor_get(t, (2 * e + half) * rows * cols + i);
}

void maker_stack(struct maker *m, const char *layer, const char *as, uint32_t expert,
		 uint32_t experts, const struct test_tensor *t)
{
	char name[NAME];
	if (m->c->apart) {
		(void)snprintf(name, sizeof name, "%sffn_%s.%u.weight", layer, as, expert);
		(void)maker_add_copy(m, name, t);
		return;
	}
	(void)snprintf(name, sizeof name, "%sffn_%s_exps.weight", layer, as);
	struct out *o = NULL;
	for (size_t i = 0; i < m->count && !o; i++)
		o = strcmp(m->out[i].name, name) ? NULL : &m->out[i];
	size_t each = test_tensor_elements(t);
	if (!o) {
		o = maker_add(m, name);
		o->dims = 3;
		o->shape[0] = experts;
		memcpy(o->shape + 1, t->shape, 2 * sizeof *t->shape);
		o->count = experts * each;
		o->x = calloc(o->count, sizeof *o->x);
		assert_non_null(o->x);
	}
	for (size_t i = 0; i < each; i++)
		o->x[expert * each + i] = test_tensor_get(t, i);
}

/* ---- gpt-oss ---- */

static struct out *add_room(struct maker *m, const char *name, size_t dims, const uint64_t *shape)
{
	struct out *o = maker_add(m, name);
	o->dims = dims;
	o->count = 1;
	for (size_t i = 0; i < dims; i++)
		o->count *= o->shape[i] = shape[i];
	o->x = malloc(o->count * sizeof *o->x);
	assert_non_null(o->x);
	return o;
}

void maker_turn(struct maker *m, const char *name, const struct test_tensor *t, size_t first,
		size_t step)
{
	size_t in = t->shape[1], wide = t->shape[2], out = wide / step, at = 0;
	struct out *o = add_room(m, name, 3, (const uint64_t[]){t->shape[0], out, in});
	for (size_t e = 0; e < t->shape[0]; e++)
		for (size_t r = 0; r < out; r++)
			for (size_t k = 0; k < in; k++)
				o->x[at++] =
					test_tensor_get(t, (e * in + k) * wide + first + r * step);
}

void maker_pick(struct maker *m, const char *name, const struct test_tensor *t, size_t first,
		size_t step)
{
	size_t wide = t->shape[1], out = wide / step;
	struct out *o = add_room(m, name, 2, (const uint64_t[]){t->shape[0], out});
	for (size_t i = 0; i < o->count; i++)
		o->x[i] = test_tensor_get(t, i / out * wide + first + i % out * step);
}

/* A block of the file is its scale and then 16 bytes: number i in the low half of byte i, number
 * 16 + i in the high half. As published, the halves of byte i are numbers 2 i and 2 i + 1. */
static void turn_block(uint8_t to[17], const uint8_t from[16], uint8_t scale)
{
	to[0] = scale;
	for (size_t i = 0; i < 16; i++) {
		unsigned low = from[i / 2] >> i % 2 * 4 & 15U,
			 high = from[8 + i / 2] >> i % 2 * 4 & 15U;
		to[1 + i] = (uint8_t)(low | high << 4);
	}
}

void maker_blocks(struct maker *m, const char *name, const struct test_tensor *t, size_t first,
		  size_t step)
{
	char of_scales[NAME];
	size_t rows = t->shape[1] / step, groups = t->shape[2], at = 0;
	(void)snprintf(of_scales, sizeof of_scales, "%.*sscales",
		       (int)(strlen(t->name) - strlen("blocks")), t->name);
	const struct test_tensor *scales = test_tensor_find(&m->from, of_scales);
	assert_non_null(scales);
	struct out *o = maker_add(m, name);
	o->dims = 3;
	memcpy(o->shape, ((const uint64_t[]){t->shape[0], rows, groups * 32}),
	       3 * sizeof *o->shape);
	o->count = t->shape[0] * rows * groups * 17;
	o->blocks = malloc(o->count);
	assert_non_null(o->blocks);
	for (size_t e = 0; e < t->shape[0]; e++)
		for (size_t r = 0; r < rows; r++)
			for (size_t g = 0; g < groups; g++, at += 17) {
				size_t from = (e * t->shape[1] + first + r * step) * groups + g;
				turn_block(o->blocks + at, t->data + 16 * from, scales->data[from]);
			}
}

/* ---- latent attention ---- */

void maker_split_latent(struct maker *m, const char *layer, const struct test_tensor *t)
{
	uint64_t heads = maker_number(m, "num_attention_heads"), rank = t->shape[1],
		 nope = maker_number(m, "qk_nope_head_dim"), value = maker_number(m, "v_head_dim"),
		 each = nope + value;
	char name[NAME];
	(void)snprintf(name, sizeof name, "%sattn_k_b.weight", layer);
	struct out *k = add_room(m, name, 3, (const uint64_t[]){heads, rank, nope});
	for (size_t i = 0; i < k->count; i++)
		k->x[i] = test_tensor_get(t, (i / (rank * nope) * each + i % nope) * rank +
						     i / nope % rank);
	(void)snprintf(name, sizeof name, "%sattn_v_b.weight", layer);
	struct out *v = add_room(m, name, 3, (const uint64_t[]){heads, value, rank});
	for (size_t i = 0; i < v->count; i++)
		v->x[i] = test_tensor_get(t, (i / (value * rank) * each + nope) * rank +
						     i % (value * rank));
}
