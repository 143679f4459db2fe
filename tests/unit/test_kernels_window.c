/* Attention that sees a window, has sinks, or takes its values from its keys: near double
 * precision, the same bits from every table, alone and together, whole and in spans that are
 * joined, and untouched by what lies in slots and blocks that are not visible. */
#include "kernels/attention.h"
#include "tests/unit/memory_help.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POSITIONS = 600, BLOCKS = (POSITIONS + KV_BLOCK - 1) / KV_BLOCK, HEADS_MAX = 17, ROWS = 40 };

/* How a layer looks back. */
struct look {
	uint32_t dim, latent, window;
	bool sinks;
};
static const struct look looks[] = {
	{8, 0, 1, false},     {8, 0, 5, false},	    {12, 0, 64, false}, {72, 0, 65, false},
	{64, 0, 100, true},   {64, 0, 128, false},  {8, 0, 0, true},	{12, 0, 1000, true},
	{24, 16, 0, false},   {20, 12, 0, true},    {8, 0, 300, true},	{72, 64, 33, true},
	{48, 40, 0, false},   {576, 512, 0, false}, {192, 0, 0, true},	{80, 0, 70, false},
	{160, 96, 300, true},
};

/* Keys and values of all positions, as floats, already rounded to the cache's type, and in blocks
 * whose other slots hold NaN. A latent's values are the beginnings of its keys. */
struct memory {
	struct look look;
	enum kv_type type;
	float *keys, *values; /* [POSITIONS][dim] */
	float sinks[HEADS_MAX];
	void *blocks[BLOCKS];
	const void *visible[BLOCKS]; /* NULL where no row sees anything */
};

enum { KEY_OFFSET = 6 }; /* scales of codes are at even offsets */

static size_t value_offset(const struct memory *m)
{
	const struct look *l = &m->look;
	size_t element = kv_type_element(m->type);
	return l->latent ? SIZE_MAX / 4 & ~(size_t)63
			 : KEY_OFFSET + kv_key_bytes(m->type, l->dim, 0) / element;
}

static float scale_of(const struct look *l)
{
	return 1 / sqrtf((float)l->dim);
}

static float *draw(struct random *random, const struct memory *m)
{
	size_t count = (size_t)POSITIONS * m->look.dim;
	float *to = malloc(count * sizeof *to);
	assert_non_null(to);
	random_normal(random, to, count);
	for (size_t i = 0; m->type == KV_F16 && i < count; i++)
		to[i] = f16_to_f32(f16_from_f32(to[i]));
	return to;
}

static void make(struct memory *m, struct random *random, const struct look *l, enum kv_type type)
{
	*m = (struct memory){.look = *l, .type = type};
	m->keys = draw(random, m);
	m->values = draw(random, m);
	random_normal(random, m->sinks, HEADS_MAX);
	size_t bytes = KEY_OFFSET * kv_type_element(type) + kv_key_bytes(type, l->dim, l->latent) +
		       (l->latent ? 0 : kv_value_bytes(type, l->dim));
	for (size_t b = 0; b < BLOCKS; b++) {
		m->blocks[b] = malloc(bytes);
		assert_non_null(m->blocks[b]);
		memset(m->blocks[b], 0xff, bytes);
	}
}

static void put(const struct memory *m, uint32_t from, uint32_t to)
{
	const struct look *l = &m->look;
	for (size_t j = from; j < to; j++)
		kernels_scalar.kv_put(m->blocks[j / KV_BLOCK], m->type, KEY_OFFSET, value_offset(m),
				      j % KV_BLOCK, m->keys + j * l->dim,
				      l->latent ? NULL : m->values + j * l->dim, l->dim, l->latent);
}

static void free_memory(struct memory *m)
{
	free(m->keys);
	free(m->values);
	for (size_t b = 0; b < BLOCKS; b++)
		free(m->blocks[b]);
}

static uint32_t first_seen(const struct look *l, uint32_t length)
{
	return l->window && length > l->window ? length - l->window : 0;
}

/* What rows of `length` and longer see. */
static struct attention attention_of(struct memory *m, uint32_t heads, uint32_t length)
{
	uint32_t first = first_seen(&m->look, length);
	for (uint32_t b = 0; b < BLOCKS; b++)
		m->visible[b] = b < first / KV_BLOCK ? NULL : m->blocks[b];
	return (struct attention){
		.type = m->type,
		.head_dim = m->look.dim,
		.heads = heads,
		.length = length,
		.scale = scale_of(&m->look),
		.blocks = m->visible,
		.key_offset = KEY_OFFSET,
		.value_offset = value_offset(m),
		.window = m->look.window,
		.latent_dim = m->look.latent,
		.sinks = m->look.sinks ? m->sinks : NULL,
	};
}

/* How far an element of an output, of values of deviation 1, may be from double precision. */
static const double bounds[KV_TYPES] = {
	[KV_F32] = 6e-6, [KV_F16] = 6e-6, [KV_Q8] = .06, [KV_Q4] = 1, [KV_Q8Q4] = .5};

static void assert_near_double(const struct memory *m, uint32_t head, const float *q,
			       const float *out, uint32_t length)
{
	const struct look *l = &m->look;
	const float *values = l->latent ? m->keys : m->values;
	double p[POSITIONS], sum = 0, max = l->sinks ? m->sinks[head] : -INFINITY;
	uint32_t first = first_seen(l, length), dim = l->latent ? l->latent : l->dim;
	for (size_t j = first; j < length; j++) {
		p[j] = 0;
		for (size_t d = 0; d < l->dim; d++)
			p[j] += (double)scale_of(l) * q[d] * m->keys[j * l->dim + d];
		max = fmax(max, p[j]);
	}
	for (size_t j = first; j < length; j++)
		sum += p[j] = exp(p[j] - max);
	if (l->sinks)
		sum += exp(m->sinks[head] - max);
	for (size_t d = 0; d < dim; d++) {
		double expected = 0;
		for (size_t j = first; j < length; j++)
			expected += p[j] / sum * values[j * l->dim + d];
		if (!(fabs(out[d] - expected) < bounds[m->type]))
			fail_msg("type %d, dim %u, latent %u, window %u, length %u: %g, not %g",
				 (int)m->type, l->dim, l->latent, l->window, length, (double)out[d],
				 expected);
	}
}

/* The same rows in spans, `wave` of them at a time, each computed by itself, the last first. What
 * nobody sees is a NaN. */
static void attend_in_spans(const struct kernels *k, float *out, const float *q, size_t q_row,
			    const struct attention *a, uint32_t n, uint32_t wave)
{
	uint32_t first = (uint32_t)attention_first_span(a, a->length);
	uint32_t end = (uint32_t)attention_end_span((size_t)a->length + n - 1);
	size_t row = n * a->heads * attention_part(a->latent_dim ? a->latent_dim : a->head_dim);
	float *joined = malloc((wave + 1) * row * sizeof *joined), *parts = joined + row;
	assert_non_null(joined);
	memset(joined, 0xff, row * sizeof *joined);
	for (uint32_t s0 = first; s0 < end; s0 += wave) {
		uint32_t s1 = s0 + wave < end ? s0 + wave : end;
		memset(parts, 0xff, wave * row * sizeof *parts);
		for (uint32_t s = s1; s-- > s0;)
			k->attend_spans(parts + (s - s0) * row, q, q_row, a, n, s, s + 1);
		k->attend_join(out, q_row, joined, parts, a, n, s0, s1);
	}
	free(joined);
}

/* n rows from `length` on, each by itself in the scalar table, and all at once in every table. */
static void check_rows(struct memory *m, struct random *random, uint32_t heads, uint32_t length,
		       uint32_t n)
{
	const struct look *l = &m->look;
	size_t dim = l->latent ? l->latent : l->dim, q_row = (size_t)heads * l->dim,
	       row = heads * dim, bytes = n * row * sizeof(float);
	float *q = malloc(n * q_row * sizeof *q), *expected = malloc(bytes), *out = malloc(bytes);
	assert_true(q && expected && out);
	random_normal(random, q, n * q_row);
	for (uint32_t t = 0; t < n; t++) {
		struct attention a = attention_of(m, heads, length + t);
		kernels_scalar.attend(expected + t * row, q + t * q_row, &a);
		for (uint32_t h = 0; h < heads; h++)
			assert_near_double(m, h, q + t * q_row + h * l->dim,
					   expected + t * row + h * dim, length + t);
	}
	struct attention a = attention_of(m, heads, length);
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		memset(out, 0xff, bytes);
		(*k)->attend_tokens(out, q, q_row, &a, n);
		if (memcmp(out, expected, bytes) != 0)
			fail_msg("%s: type %d, dim %u, latent %u, window %u, %u heads, %u rows "
				 "from length %u differ",
				 (*k)->name, (int)m->type, l->dim, l->latent, l->window, heads, n,
				 length);
		for (uint32_t wave = 1; wave < 4; wave += 2) {
			memset(out, 0xff, bytes);
			attend_in_spans(*k, out, q, q_row, &a, n, wave);
			if (memcmp(out, expected, bytes) != 0)
				fail_msg("%s: type %d, dim %u, latent %u, window %u, %u heads, %u "
					 "rows from length %u differ in %u spans at a time",
					 (*k)->name, (int)m->type, l->dim, l->latent, l->window,
					 heads, n, length, wave);
		}
	}
	free(q);
	free(expected);
	free(out);
}

static void check_look(struct random *random, const struct look *l, enum kv_type type)
{
	static const uint32_t heads[] = {1, 3, 8, HEADS_MAX}, counts[] = {1, 2, 9, ROWS};
	static const uint32_t lengths[] = {1, 64, 65, 130, 192, 240, 520};
	/* A sanitizer makes each number ten times as dear, and the reference is slow with codes:
	 * one count of rows for each length. */
	const bool one = SANITIZED || kv_type_codes(type);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t c = one ? i % 4 : 0; c < 4; c += one ? 4 : 1) {
			struct memory m;
			make(&m, random, l, type);
			/* Before the first row's window all slots still hold NaN. */
			put(&m, first_seen(l, lengths[i]), lengths[i] + counts[c] - 1);
			check_rows(&m, random, heads[(i + c) % 4], lengths[i], counts[c]);
			free_memory(&m);
		}
}

static void each_way_to_look_back_is_exact_enough_and_the_same_from_every_table(void **state)
{
	(void)state;
	struct random random = {7};
	for (int type = KV_F32; type < KV_TYPES; type++)
		for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
			bool whole = looks[i].latent % 16 == 0; /* codes pad no latent */
			if (whole || !kv_type_codes((enum kv_type)type))
				check_look(&random, &looks[i], (enum kv_type)type);
		}
}

/* A window as long as what there is to see, and a sink too far down to count. */
static void what_does_not_matter_changes_no_bit(void **state)
{
	(void)state;
	struct random random = {8};
	struct memory m;
	float q[64], plain[64], out[64];
	make(&m, &random, &(struct look){64, 0, 0, false}, KV_F16);
	put(&m, 0, 150);
	random_normal(&random, q, 64);
	struct attention a = attention_of(&m, 1, 150);
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		(*k)->attend(plain, q, &a);
		a.window = 150;
		(*k)->attend(out, q, &a);
		a.window = 0;
		assert_memory_equal(out, plain, sizeof out);
		a.sinks = &(const float){-200};
		(*k)->attend(out, q, &a);
		a.sinks = NULL;
		assert_memory_equal(out, plain, sizeof out);
	}
	free_memory(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			each_way_to_look_back_is_exact_enough_and_the_same_from_every_table),
		cmocka_unit_test(what_does_not_matter_changes_no_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
