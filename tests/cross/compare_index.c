/* What attention that chooses computes: scores of index keys, and latents whose values lie as rows, too;
 * every table against the scalar one. */
#include "tests/cross/compare.h"
#include "tests/unit/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill_halves(uint16_t *to, const float *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = f16_from_f32(from[i]);
}

/* Scores of each group, whose rows have a guard behind them. */
static bool check_scores(const struct kernels *k, const struct index_keys *keys,
			 const struct index_queries *q)
{
	const size_t stride = keys->count + GUARD, total = stride * q->groups;
	float *results = allocate(total * sizeof *results);
	float *expected = allocate(total * sizeof *expected);

	memset(results, 0x55, total * sizeof *results);
	memset(expected, 0x55, total * sizeof *expected);
	kernels_scalar.index_scores(expected, stride, keys, q);
	k->index_scores(results, stride, keys, q);
	const bool same = memcmp(results, expected, total * sizeof *results) == 0;
	if (!same)
		printf("# type %d: %u keys of %u, %u heads in %u groups\n", (int)keys->type, keys->count,
		       keys->dim, q->heads, q->groups);
	free(results);
	free(expected);
	return same;
}

bool check_index_scores(const struct kernels *k, enum format format)
{
	enum { DIM = 300, HEADS = 18 };
	static const uint32_t dims[] = {3, 64, DIM}, heads[] = {1, 4, 6, 9, HEADS}, groups[] = {1, 2, 3};
	struct random random = {8};
	float *x = allocate((DIM * KV_BLOCK + HEADS * DIM + HEADS) * sizeof *x);
	float *q = x + DIM * KV_BLOCK, *weight = q + HEADS * DIM;
	uint16_t *half = allocate(DIM * KV_BLOCK * sizeof *half);
	bool same = true;

	(void)format;
	random_normal(&random, x, DIM * KV_BLOCK + HEADS * DIM + HEADS);
	fill_halves(half, x, DIM * KV_BLOCK);
	for (size_t i = 0; same && i < COUNT(dims) * COUNT(heads) * COUNT(groups) * 4; i++)
		for (uint32_t count = 1; same && count <= KV_BLOCK; count *= 2) {
			const struct index_queries ask = {q, weight, heads[i / 4 % COUNT(heads)],
							  groups[i / 4 / COUNT(heads) % COUNT(groups)]};
			const struct index_keys keys = {
				.type = i % 2 ? KV_F16 : KV_F32,
				.dim = dims[i / 4 / COUNT(heads) / COUNT(groups)],
				.count = count,
				.keys = i % 2 ? (void *)half : x,
				.next = x,
				.positive = i / 2 % 2,
			};
			if (ask.heads % ask.groups == 0)
				same = check_scores(k, &keys, &ask);
		}
	free(x);
	free(half);
	return same;
}

/* A block of 40 positions, 9 heads. */
static bool check_rows(const struct kernels *k, struct random *random, enum kv_type type, uint32_t dim,
		       uint32_t latent)
{
	enum { HEADS = 9, LENGTH = 40 };
	const size_t elements = (size_t)KV_BLOCK * (dim + latent), results = (size_t)HEADS * latent;
	const size_t element = kv_type_element(type);
	float *x = allocate((elements + HEADS * dim) * sizeof *x), *q = x + elements;
	float *expected = allocate(2 * results * sizeof *expected);
	char *block = allocate(elements * sizeof *x);
	const void *blocks[] = {block};
	struct attention a = {.type = type,
			      .head_dim = dim,
			      .heads = HEADS,
			      .length = LENGTH,
			      .scale = .2F,
			      .blocks = blocks,
			      .value_offset = (size_t)KV_BLOCK * dim,
			      .latent_dim = latent};

	random_normal(random, x, elements + HEADS * dim);
	if (type == KV_F16)
		fill_halves((uint16_t *)(void *)block, x, elements);
	else
		memcpy(block, x, elements * sizeof *x);
	for (size_t j = 0; j < KV_BLOCK; j++)
		for (size_t d = 0; d < latent; d++)
			memcpy(block + (a.value_offset + j * latent + d) * element,
			       block + (d * KV_BLOCK + j) * element, element);
	kernels_scalar.attend(expected, q, &a);
	a.latent_rows = true;
	k->attend(expected + results, q, &a);
	const bool same = memcmp(expected, expected + results, results * sizeof *expected) == 0;
	if (!same)
		printf("# type %d: latents of %u, %u of which are values\n", (int)type, dim, latent);
	free(x);
	free(expected);
	free(block);
	return same;
}

bool check_latent_rows(const struct kernels *k, enum format format)
{
	static const uint32_t latents[] = {1, 24, 64, 100, LATENT_DIM};
	struct random random = {9};
	bool same = true;

	(void)format;
	for (size_t i = 0; same && i < 2 * COUNT(latents); i++)
		same = check_rows(k, &random, i % 2 ? KV_F16 : KV_F32, latents[i / 2] + 8, latents[i / 2]);
	return same;
}
