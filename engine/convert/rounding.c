#include "engine/convert/rounding.h"
#include "kernels/kernels.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Added to the diagonal, as a share of its mean: moments of few tokens know nothing of most
 * directions, and an error there must not be free. */
static const double damping = 0.01;
/* Norms to choose codes by, as shares of the targets' own: what is made up for makes targets wider
 * than the levels are meant for, or narrower. */
static const float shares[] = {0.9F, 1, 1.1F};
/* How often positions are gone through once more, at most; few change anything after the third. */
enum { SWEEPS = 8 };

struct rounding {
	const struct kernels *kernels;
	uint32_t cols, groups;
	size_t width; /* of a block, padded to whole groups */
	float *upper; /* [groups · TQ_GROUP][width]: row i of U, of its block */
	float *cost;  /* [groups · TQ_GROUP]: D */
	float *pairs; /* [groups · TQ_GROUP][TQ_GROUP]: what errors of a group cost in the end */
	float *turned, *scratch; /* [width][width] */
	/* Of the row at hand: */
	float *weight;	/* rotated */
	float *brought; /* what errors of the groups before add to the targets */
};

/* ---- life ---- */

static size_t whole_groups(size_t cols)
{
	return (cols + TQ_GROUP - 1) / TQ_GROUP * TQ_GROUP;
}

int rounding_create(struct rounding **out, const struct kernels *k, uint32_t cols, uint32_t block,
		    struct err *e)
{
	struct rounding *r = calloc(1, sizeof *r);
	size_t all = whole_groups(cols);
	*out = r;
	if (r) {
		r->kernels = k;
		r->cols = cols;
		r->groups = (uint32_t)(all / TQ_GROUP);
		r->width = block < cols ? whole_groups(block) : all;
		r->upper = calloc(all * r->width, sizeof *r->upper);
		r->cost = calloc(all, sizeof *r->cost);
		r->pairs = calloc(all * TQ_GROUP, sizeof *r->pairs);
		r->turned = malloc(r->width * r->width * sizeof *r->turned);
		r->scratch = malloc(r->width * r->width * sizeof *r->scratch);
		r->weight = calloc(all, sizeof *r->weight);
		r->brought = calloc(all, sizeof *r->brought);
		if (r->upper && r->cost && r->pairs && r->turned && r->scratch && r->weight &&
		    r->brought)
			return 0;
	}
	rounding_free(r);
	*out = NULL;
	return err_set(e, ENOMEM, "out of memory for rounding rows of %u weights", cols);
}

void rounding_free(struct rounding *r)
{
	if (!r)
		return;
	free(r->upper);
	free(r->cost);
	free(r->pairs);
	free(r->turned);
	free(r->scratch);
	free(r->weight);
	free(r->brought);
	free(r);
}

uint32_t rounding_block(const struct rounding *r)
{
	return (uint32_t)r->width;
}

/* ---- what errors cost ---- */

static void transpose(float *to, const float *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			to[j * n + i] = from[i * n + j];
}

static void rotate_rows(float *m, size_t n)
{
	for (size_t i = 0; i < n * n; i += TQ_GROUP)
		tq_rotate(m + i);
}

/* h[n][n], padded to m[wide][wide], in the basis of the rotated weights. */
static void turn(struct rounding *r, const float *h, size_t n, size_t wide)
{
	memset(r->scratch, 0, wide * wide * sizeof *r->scratch);
	for (size_t i = 0; i < n; i++)
		memcpy(r->scratch + i * wide, h + i * n, n * sizeof *h);
	rotate_rows(r->scratch, wide);
	transpose(r->turned, r->scratch, wide);
	rotate_rows(r->turned, wide);
}

static void dampen(float *m, size_t n)
{
	double trace = 0;
	for (size_t i = 0; i < n; i++)
		trace += m[i * n + i];
	float least = (float)(trace / (double)n * damping);
	for (size_t i = 0; i < n; i++)
		m[i * n + i] += least > 0 ? least : 1;
}

/* m = U D U', from the last column to the first; row i of U from its diagonal on is left in row i
 * of upper[n][n]. m is used up. */
static void factor(const struct kernels *k, float *restrict upper, float *restrict cost,
		   float *restrict m, size_t n)
{
	for (size_t last = n; last-- > 0;) {
		float d = m[last * n + last];
		cost[last] = d;
		upper[last * n + last] = 1;
		for (size_t i = 0; i < last; i++)
			upper[i * n + last] = m[last * n + i] / d;
		for (size_t i = 0; i < last; i++)
			k->add_scaled(m + i * n, -upper[i * n + last], m + last * n, i + 1);
	}
}

/* U D U' of one group alone: what its errors cost when those after it have made up for them. */
static void pair(struct rounding *r, size_t first, const float *upper, size_t stride,
		 const float *cost)
{
	float *pairs = r->pairs + first * TQ_GROUP;
	for (size_t i = 0; i < TQ_GROUP; i++)
		for (size_t j = i; j < TQ_GROUP; j++) {
			double sum = 0;
			for (size_t k = j; k < TQ_GROUP; k++)
				sum += (double)upper[i * stride + k] * upper[j * stride + k] *
				       cost[k];
			pairs[i * TQ_GROUP + j] = pairs[j * TQ_GROUP + i] = (float)sum;
		}
}

void rounding_weigh(struct rounding *r, uint32_t first, const float *h)
{
	size_t n = r->cols - first < r->width ? r->cols - first : r->width, wide = whole_groups(n);
	turn(r, h, n, wide);
	dampen(r->turned, wide);
	float *upper = r->upper + first * r->width;
	factor(r->kernels, upper, r->cost + first, r->turned, wide);
	for (size_t g = 0; g < wide; g += TQ_GROUP)
		pair(r, first + g, upper + g * wide + g, wide, r->cost + first + g);
}

/* ---- one group ---- */

struct group {
	const struct kernels *kernels;
	const float *upper; /* [TQ_GROUP] rows of U, from the group's first column on */
	size_t stride;
	const float *cost;
	const float *pairs;
	const float *weight, *brought;
	const struct tq_codebook *book;
};

struct coded {
	uint8_t index[TQ_GROUP];
	float norm;
	double cost;
};

static uint8_t nearest_level(const struct tq_codebook *book, float y)
{
	uint32_t index = 0;
	for (uint32_t i = 0; i + 1 < book->levels; i++)
		index += book->boundary[i] < y;
	return (uint8_t)index;
}

/* The weights that would make up for all that was brought: the group's targets as a whole. */
static void aim(const struct group *g, float target[TQ_GROUP])
{
	float left[TQ_GROUP];
	memcpy(left, g->brought, sizeof left);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *u = g->upper + i * g->stride;
		target[i] = g->weight[i] + left[i];
		g->kernels->add_scaled(left + i + 1, -left[i], u + i + 1, TQ_GROUP - 1 - i);
	}
}

/* Codes for that norm, position by position. */
static void choose(const struct group *g, float norm, uint8_t index[TQ_GROUP])
{
	float aimed[TQ_GROUP];
	for (size_t i = 0; i < TQ_GROUP; i++)
		aimed[i] = g->weight[i] + g->brought[i];
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *u = g->upper + i * g->stride;
		index[i] = nearest_level(g->book, aimed[i] / norm);
		float error = g->weight[i] - norm * g->book->level[index[i]];
		g->kernels->add_scaled(aimed + i + 1, error, u + i + 1, TQ_GROUP - 1 - i);
	}
}

/* y = the group's part of U' · x */
static void spread(const struct group *g, float y[TQ_GROUP], const float x[TQ_GROUP])
{
	memset(y, 0, TQ_GROUP * sizeof *y);
	for (size_t i = 0; i < TQ_GROUP; i++)
		g->kernels->add_scaled(y + i, x[i], g->upper + i * g->stride + i, TQ_GROUP - i);
}

/* The norm of least cost for these codes, and that cost. */
static void fit(const struct group *g, const float target[TQ_GROUP], struct coded *c, bool half)
{
	float level[TQ_GROUP], a[TQ_GROUP], b[TQ_GROUP];
	double ab = 0, aa = 0, bb = 0;
	for (size_t i = 0; i < TQ_GROUP; i++)
		level[i] = g->book->level[c->index[i]];
	spread(g, a, level);
	spread(g, b, target);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		ab += (double)g->cost[i] * a[i] * b[i];
		aa += (double)g->cost[i] * a[i] * a[i];
		bb += (double)g->cost[i] * b[i] * b[i];
	}
	c->norm = ab > 0 ? (float)(ab / aa) : 0;
	if (half)
		c->norm = f16_to_f32(f32_to_f16(c->norm));
	c->cost = bb - 2 * c->norm * ab + (double)c->norm * c->norm * aa;
}

/* Each position once more, now that all others have their codes. */
static bool sweep(const struct group *g, const float target[TQ_GROUP], struct coded *c)
{
	float pull[TQ_GROUP] = {0};
	bool changed = false;
	for (size_t i = 0; i < TQ_GROUP; i++)
		g->kernels->add_scaled(pull, target[i] - c->norm * g->book->level[c->index[i]],
				       g->pairs + i * TQ_GROUP, TQ_GROUP);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *row = g->pairs + i * TQ_GROUP;
		float now = g->book->level[c->index[i]];
		uint8_t index = nearest_level(g->book, now + pull[i] / (row[i] * c->norm));
		if (index == c->index[i])
			continue;
		g->kernels->add_scaled(pull, c->norm * (now - g->book->level[index]), row,
				       TQ_GROUP);
		c->index[i] = index;
		changed = true;
	}
	return changed;
}

static float norm_of(const float x[TQ_GROUP])
{
	double sum = 0;
	for (size_t i = 0; i < TQ_GROUP; i++)
		sum += (double)x[i] * x[i];
	return (float)sqrt(sum);
}

static void code_group(const struct group *g, struct coded *best, bool half)
{
	float target[TQ_GROUP];
	aim(g, target);
	float norm = norm_of(target);
	*best = (struct coded){.cost = INFINITY};
	if (norm == 0) {
		memset(best->index, nearest_level(g->book, 0), sizeof best->index);
		return;
	}
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		struct coded c;
		choose(g, norm * shares[i], c.index);
		fit(g, target, &c, half);
		if (c.cost < best->cost)
			*best = c;
	}
	for (int i = 0; i < SWEEPS && best->norm > 0 && sweep(g, target, best); i++)
		fit(g, target, best, half);
}

/* ---- one row ---- */

/* What group g's errors ask of the groups after it in its block. */
static void bring(struct rounding *r, uint32_t g, const struct coded *c,
		  const struct tq_codebook *book)
{
	size_t first = (size_t)g * TQ_GROUP, block = first / r->width * r->width;
	size_t all = (size_t)r->groups * TQ_GROUP;
	size_t end = block + r->width < all ? block + r->width : all, wide = end - block;
	for (size_t i = 0; i < TQ_GROUP; i++) {
		float error = r->weight[first + i] - c->norm * book->level[c->index[i]];
		const float *u = r->upper + block * r->width + (first - block + i) * wide;
		r->kernels->add_scaled(r->brought + first + TQ_GROUP, error,
				       u + (first - block) + TQ_GROUP, end - first - TQ_GROUP);
	}
}

static struct group group_of(const struct rounding *r, uint32_t g, const struct tq_codebook *book)
{
	size_t first = (size_t)g * TQ_GROUP, block = first / r->width * r->width;
	size_t all = (size_t)r->groups * TQ_GROUP;
	size_t wide = all - block < r->width ? all - block : r->width, in = first - block;
	return (struct group){
		.kernels = r->kernels,
		.upper = r->upper + block * r->width + in * wide + in,
		.stride = wide,
		.cost = r->cost + first,
		.pairs = r->pairs + first * TQ_GROUP,
		.weight = r->weight + first,
		.brought = r->brought + first,
		.book = book,
	};
}

bool rounding_row(struct rounding *r, uint8_t *packed, float *norms, const float *row,
		  uint32_t bits, bool half)
{
	const struct tq_codebook *book = tq_codebook(bits);
	size_t all = (size_t)r->groups * TQ_GROUP;
	memset(r->weight, 0, all * sizeof *r->weight);
	memset(r->brought, 0, all * sizeof *r->brought);
	memcpy(r->weight, row, r->cols * sizeof *row);
	for (uint32_t g = 0; g < r->groups; g++) {
		if (!isfinite(norm_of(r->weight + (size_t)g * TQ_GROUP)))
			return false;
		tq_rotate(r->weight + (size_t)g * TQ_GROUP);
	}
	for (uint32_t g = 0; g < r->groups; g++) {
		struct coded c;
		struct group group = group_of(r, g, book);
		code_group(&group, &c, half);
		tq_pack(packed + (size_t)g * TQ_GROUP / 8 * bits, c.index, bits);
		norms[g] = c.norm;
		bring(r, g, &c, book);
	}
	return true;
}
