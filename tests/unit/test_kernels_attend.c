/* Attention over spans of 256 positions and blocks of 64: near double precision, the same bits from
 * every table, and untouched by what lies in slots that are not visible.
 */
#include "kernels/kernels.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POSITIONS = 600, BLOCKS = (POSITIONS + KV_BLOCK - 1) / KV_BLOCK, HEADS_MAX = 17 };

static const uint32_t lengths[] = {1, 2, 63, 64, 65, 200, 256, 257, 600};
static const uint32_t dims[] = {1, 8, 12, 64, 72, 80, 128};

/* Keys and values of all positions, as floats (already rounded to the cache's type) and in blocks
 * whose other slots, and the space before, between and after, hold NaN. */
struct memory {
	enum kv_type type;
	uint32_t dim;
	float *keys, *values; /* [POSITIONS][dim] */
	void *blocks[BLOCKS];
	size_t key_offset, value_offset;
};

static void *allocate(size_t bytes)
{
	void *p = malloc(bytes);
	assert_non_null(p);
	return p;
}

static void fill(struct random *random, struct memory *m, float *to)
{
	random_normal(random, to, (size_t)POSITIONS * m->dim);
	for (size_t i = 0; m->type == KV_F16 && i < (size_t)POSITIONS * m->dim; i++)
		to[i] = f16_to_f32(f16_from_f32(to[i]));
}

static struct memory make_memory(struct random *random, enum kv_type type, uint32_t dim)
{
	struct memory m = {.type = type, .dim = dim, .key_offset = 5};
	const size_t element = type == KV_F16 ? 2 : 4;
	const size_t total = m.key_offset + (size_t)2 * KV_BLOCK * dim + 11;

	m.value_offset = m.key_offset + (size_t)KV_BLOCK * dim + 3;
	m.keys = allocate((size_t)POSITIONS * dim * sizeof(float));
	m.values = allocate((size_t)POSITIONS * dim * sizeof(float));
	fill(random, &m, m.keys);
	fill(random, &m, m.values);
	for (size_t b = 0; b < BLOCKS; b++) {
		m.blocks[b] = allocate(total * element);
		memset(m.blocks[b], 0xff, total * element); /* NaN in both types */
	}
	return m;
}

static void put(const struct kernels *k, const struct memory *m, uint32_t position)
{
	k->kv_put(m->blocks[position / KV_BLOCK], m->type, m->key_offset, m->value_offset,
		  position % KV_BLOCK, m->keys + (size_t)position * m->dim,
		  m->values + (size_t)position * m->dim, m->dim, 0);
}

static void free_memory(struct memory *m)
{
	free(m->keys);
	free(m->values);
	for (size_t b = 0; b < BLOCKS; b++)
		free(m->blocks[b]);
}

static struct attention view(const struct memory *m, uint32_t heads, uint32_t length)
{
	return (struct attention){
		.type = m->type,
		.head_dim = m->dim,
		.heads = heads,
		.length = length,
		.scale = 1 / sqrtf((float)m->dim),
		.blocks = (const void *const *)m->blocks,
		.key_offset = m->key_offset,
		.value_offset = m->value_offset,
	};
}

static void check_against_double(const struct memory *m, const float *q, const float *out,
				 uint32_t length)
{
	double p[POSITIONS], sum = 0, max = -INFINITY;

	for (size_t j = 0; j < length; j++) {
		p[j] = 0;
		for (size_t d = 0; d < m->dim; d++)
			p[j] += (double)q[d] * m->keys[j * m->dim + d];
		p[j] /= sqrt(m->dim);
		max = fmax(max, p[j]);
	}
	for (size_t j = 0; j < length; j++)
		sum += p[j] = exp(p[j] - max);
	for (size_t d = 0; d < m->dim; d++) {
		double expected = 0;
		for (size_t j = 0; j < length; j++)
			expected += p[j] / sum * m->values[j * m->dim + d];
		assert_true(fabs(out[d] - expected) < 3e-6);
	}
}

/* Positions are put one by one, so at each length all later slots still hold NaN. */
static void check_memory(struct random *random, enum kv_type type, uint32_t dim, uint32_t heads)
{
	struct memory m = make_memory(random, type, dim);
	const size_t bytes = (size_t)heads * dim * sizeof(float);
	float *q = allocate(bytes), *expected = allocate(bytes), *out = allocate(bytes);
	uint32_t filled = 0;

	random_normal(random, q, (size_t)heads * dim);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		for (; filled < lengths[i]; filled++)
			put(&kernels_scalar, &m, filled);
		const struct attention a = view(&m, heads, lengths[i]);
		kernels_scalar.attend(expected, q, &a);
		for (uint32_t h = 0; h < heads; h++)
			check_against_double(&m, q + (size_t)h * dim, expected + (size_t)h * dim,
					     lengths[i]);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			memset(out, 0xff, bytes);
			(*k)->attend(out, q, &a);
			if (memcmp(out, expected, bytes) != 0)
				fail_msg("%s: type %d, head_dim %u, %u heads, length %u differs",
					 (*k)->name, (int)type, dim, heads, lengths[i]);
		}
	}
	free(q);
	free(expected);
	free(out);
	free_memory(&m);
}

static void attention_is_exact_enough_and_the_same_from_every_table(void **state)
{
	(void)state;
	static const uint32_t heads[] = {1, 3, HEADS_MAX};
	struct random random = {1};
	for (int type = KV_F32; type <= KV_F16; type++)
		for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
			for (size_t h = 0; h < 3; h++)
				check_memory(&random, (enum kv_type)type, dims[d], heads[h]);
}

/* Chunks that begin and end anywhere, across blocks, with a stride wider than the heads; whatever
 * lies between is not written, and later slots hold NaN. */
static void check_chunk(struct random *random, const struct memory *m, uint32_t heads,
			uint32_t length, uint32_t n)
{
	const size_t width = (size_t)heads * m->dim, stride = width + 5, total = n * stride;
	float *q = allocate(total * sizeof *q), *expected = allocate(total * sizeof *q);
	float *out = allocate(total * sizeof *q);

	random_normal(random, q, total);
	memset(expected, 0xff, total * sizeof *q);
	for (uint32_t t = 0; t < n; t++) {
		const struct attention a = view(m, heads, length + t);
		kernels_scalar.attend(expected + t * stride, q + t * stride, &a);
	}
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		const struct attention a = view(m, heads, length);
		memset(out, 0xff, total * sizeof *q);
		(*k)->attend_tokens(out, q, stride, &a, n);
		if (memcmp(out, expected, total * sizeof *q) != 0)
			fail_msg("%s: type %d, head_dim %u, %u heads, %u tokens from length %u",
				 (*k)->name, (int)m->type, m->dim, heads, n, length);
	}
	free(q);
	free(expected);
	free(out);
}

static void tokens_attend_together_as_they_do_alone(void **state)
{
	(void)state;
	static const uint32_t heads[] = {1, 3, 8, HEADS_MAX}, counts[] = {1, 2, 9, 67};
	static const uint32_t starts[] = {1, 60, 240, 450}, some_dims[] = {8, 12, 72};
	struct random random = {5};
	for (size_t i = 0; i < (size_t)2 * 3 * 4 * 4; i++) {
		struct memory m =
			make_memory(&random, i % 2 ? KV_F16 : KV_F32, some_dims[i / 2 % 3]);
		const uint32_t start = starts[i / 6 % 4], n = counts[i / 24];
		for (uint32_t j = 0; j < start + n - 1; j++)
			put(&kernels_scalar, &m, j);
		for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
			check_chunk(&random, &m, heads[h], start, n);
		free_memory(&m);
	}
}

/* What is put after a position does not change what that position sees. */
static void later_positions_do_not_change_earlier_results(void **state)
{
	(void)state;
	struct random random = {2};
	struct memory m = make_memory(&random, KV_F16, 64);
	float q[64], early[64], late[64];
	random_normal(&random, q, 64);
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t i = 0; i < 70; i++)
			put(*k, &m, i);
		const struct attention a = view(&m, 1, 70);
		(*k)->attend(early, q, &a);
		for (uint32_t i = 70; i < POSITIONS; i++)
			put(*k, &m, i);
		(*k)->attend(late, q, &a);
		assert_memory_equal(early, late, sizeof early);
	}
	free_memory(&m);
}

/* Scores of ±60: the first block's maximum is far below the second's, and the other way round; and
 * so in the first span and the second. */
static void large_scores_neither_overflow_nor_vanish(void **state)
{
	(void)state;
	struct random random = {3};
	for (int i = 0; i < 4; i++) {
		const float low = i % 2 ? 60.0F : -60.0F;
		const uint32_t half = i < 2 ? KV_BLOCK : ATTENTION_SPAN;
		struct memory m = make_memory(&random, KV_F32, 8);
		float q[8] = {1}, expected[8], out[8];
		for (uint32_t j = 0; j < 2 * half; j++) {
			m.keys[(size_t)j * 8] = (j < half ? low : -low) * sqrtf(8);
			put(&kernels_scalar, &m, j);
		}
		const struct attention a = view(&m, 1, 2 * half);
		kernels_scalar.attend(expected, q, &a);
		check_against_double(&m, q, expected, 2 * half);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			(*k)->attend(out, q, &a);
			assert_memory_equal(out, expected, sizeof out);
		}
		free_memory(&m);
	}
}

/* Everything of the block that is not the slot's keeps its bytes. */
static void every_table_puts_the_same_bytes_and_no_others(void **state)
{
	(void)state;
	struct random random = {4};
	for (int type = KV_F32; type <= KV_F16; type++) {
		for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
			const uint32_t dim = dims[d];
			const size_t elements = 9 + (size_t)2 * KV_BLOCK * dim,
				     element = type ? 2 : 4;
			float *key = allocate(dim * sizeof *key),
			      *value = allocate(dim * sizeof *key);
			uint8_t *expected = allocate(elements * element);
			uint8_t *block = allocate(elements * element);
			random_normal(&random, key, dim);
			random_normal(&random, value, dim);
			memset(expected, 0xff, elements * element);
			for (size_t i = 0; i < dim; i++) {
				const size_t key_at = 4 + i * KV_BLOCK + 63;
				const size_t value_at =
					7 + (size_t)KV_BLOCK * dim + (size_t)63 * dim + i;
				const uint16_t k16 = f16_from_f32(key[i]),
					       v16 = f16_from_f32(value[i]);
				memcpy(expected + key_at * element,
				       type ? (const void *)&k16 : &key[i], element);
				memcpy(expected + value_at * element,
				       type ? (const void *)&v16 : &value[i], element);
			}
			for (const struct kernels *const *k = kernels_available(); *k; k++) {
				memset(block, 0xff, elements * element);
				(*k)->kv_put(block, (enum kv_type)type, 4,
					     7 + (size_t)KV_BLOCK * dim, 63, key, value, dim, 0);
				assert_memory_equal(block, expected, elements * element);
			}
			free(key);
			free(value);
			free(expected);
			free(block);
		}
	}
}

/* Of 9 heads, at a length that ends within a block: values that lie as rows, too, give the sums of
 * those that are taken out of the keys. */
static void check_latent_rows(struct random *random, enum kv_type type, uint32_t latent)
{
	enum { HEADS = 9, LENGTH = 300, ROTATED = 8 };
	const uint32_t dim = latent + ROTATED;
	struct memory m = make_memory(random, type, dim);
	float *q = allocate(sizeof *q * HEADS * dim), *expected = allocate(sizeof *q * HEADS * latent),
	      *out = allocate(sizeof *q * HEADS * latent);
	const size_t element = type == KV_F16 ? 2 : 4;
	struct attention a = view(&m, HEADS, LENGTH);

	random_normal(random, q, (size_t)HEADS * dim);
	a.latent_dim = latent;
	for (uint32_t j = 0; j < LENGTH; j++) {
		char *block = m.blocks[j / KV_BLOCK];
		kernels_scalar.kv_put(block, type, m.key_offset, 0, j % KV_BLOCK,
				      m.keys + (size_t)j * dim, NULL, dim, latent);
		for (size_t d = 0; d < latent; d++)
			memcpy(block + (m.value_offset + j % KV_BLOCK * latent + d) * element,
			       block + (m.key_offset + d * KV_BLOCK + j % KV_BLOCK) * element, element);
	}
	kernels_scalar.attend(expected, q, &a);
	a.latent_rows = true;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		memset(out, 0xff, sizeof *out * HEADS * latent);
		(*k)->attend(out, q, &a);
		assert_memory_equal(out, expected, sizeof *out * HEADS * latent);
	}
	free(q);
	free(expected);
	free(out);
	free_memory(&m);
}

static void latents_that_lie_as_rows_too_give_the_same_sums(void **state)
{
	(void)state;
	static const uint32_t latents[] = {8, 24, 64, 100};
	struct random random = {6};
	for (int type = KV_F32; type <= KV_F16; type++)
		for (size_t i = 0; i < sizeof latents / sizeof *latents; i++)
			check_latent_rows(&random, (enum kv_type)type, latents[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attention_is_exact_enough_and_the_same_from_every_table),
		cmocka_unit_test(tokens_attend_together_as_they_do_alone),
		cmocka_unit_test(later_positions_do_not_change_earlier_results),
		cmocka_unit_test(large_scores_neither_overflow_nor_vanish),
		cmocka_unit_test(every_table_puts_the_same_bytes_and_no_others),
		cmocka_unit_test(latents_that_lie_as_rows_too_give_the_same_sums),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
