#include "engine/convert/rounding.h"
#include "engine/convert/rounding_codes.h"
#include "kernels/tc.h"

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
	const _Atomic bool *stop;
	uint32_t cols, groups, bits;
	uint8_t column[TQ_GROUP]; /* of a group, at each position of the order of rounding */
	rounding_choose_fn *choose;
	rounding_sweep_fn *sweep;
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

static void set_codes(struct rounding *r, enum format format)
{
	bool trellis = format_is_trellis(format);
	r->bits = format_tq_bits(format);
	r->choose = trellis ? rounding_tc_choose : rounding_tq_choose;
	r->sweep = trellis ? rounding_tc_sweep : rounding_tq_sweep;
	for (size_t i = 0; i < TQ_GROUP; i++)
		r->column[i] = (uint8_t)(trellis ? tc_column(i) : i);
}

int rounding_create(struct rounding **out, const struct kernels *k, enum format format,
		    uint32_t cols, uint32_t block, struct err *e)
{
	struct rounding *r = calloc(1, sizeof *r);
	size_t all = whole_groups(cols);
	*out = r;
	if (r) {
		r->kernels = k;
		set_codes(r, format);
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

void rounding_heed(struct rounding *r, const _Atomic bool *stop)
{
	r->stop = stop;
}

static bool is_stopped(const struct rounding *r)
{
	return r->stop && atomic_load(r->stop);
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

/* From the order of columns to that of rounding. */
static void reorder_rows(const struct rounding *r, float *m, size_t n)
{
	for (size_t at = 0; at < n * n; at += TQ_GROUP) {
		float y[TQ_GROUP];
		memcpy(y, m + at, sizeof y);
		for (size_t i = 0; i < TQ_GROUP; i++)
			m[at + i] = y[r->column[i]];
	}
}

/* h[n][n], padded to m[wide][wide], in the basis of the rotated weights. */
static void turn(struct rounding *r, const float *h, size_t n, size_t wide)
{
	memset(r->scratch, 0, wide * wide * sizeof *r->scratch);
	for (size_t i = 0; i < n; i++)
		memcpy(r->scratch + i * wide, h + i * n, n * sizeof *h);
	rotate_rows(r->scratch, wide);
	reorder_rows(r, r->scratch, wide);
	transpose(r->turned, r->scratch, wide);
	rotate_rows(r->turned, wide);
	reorder_rows(r, r->turned, wide);
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
static bool factor(const struct rounding *r, float *restrict upper, float *restrict cost,
		   float *restrict m, size_t n)
{
	for (size_t last = n; last-- > 0;) {
		if (is_stopped(r))
			return false;
		float d = m[last * n + last];
		cost[last] = d;
		upper[last * n + last] = 1;
		for (size_t i = 0; i < last; i++)
			upper[i * n + last] = m[last * n + i] / d;
		for (size_t i = 0; i < last; i++)
			r->kernels->add_scaled(m + i * n, -upper[i * n + last], m + last * n,
					       i + 1);
	}
	return true;
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

bool rounding_weigh(struct rounding *r, uint32_t first, const float *h)
{
	size_t n = r->cols - first < r->width ? r->cols - first : r->width, wide = whole_groups(n);
	turn(r, h, n, wide);
	dampen(r->turned, wide);
	float *upper = r->upper + first * r->width;
	if (!factor(r, upper, r->cost + first, r->turned, wide))
		return false;
	for (size_t g = 0; g < wide && !is_stopped(r); g += TQ_GROUP)
		pair(r, first + g, upper + g * wide + g, wide, r->cost + first + g);
	return !is_stopped(r);
}

/* ---- one group ---- */

static void aim(struct group *g)
{
	float left[TQ_GROUP];
	memcpy(left, g->brought, sizeof left);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *u = g->upper + i * g->stride;
		g->target[i] = g->weight[i] + left[i];
		g->kernels->add_scaled(left + i + 1, -left[i], u + i + 1, TQ_GROUP - 1 - i);
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
static void fit(const struct group *g, struct coded *c, bool half)
{
	float a[TQ_GROUP], b[TQ_GROUP];
	double ab = 0, aa = 0, bb = 0;
	spread(g, a, c->level);
	spread(g, b, g->target);
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

static float norm_of(const float x[TQ_GROUP])
{
	double sum = 0;
	for (size_t i = 0; i < TQ_GROUP; i++)
		sum += (double)x[i] * x[i];
	return (float)sqrt(sum);
}

static void code_group(const struct rounding *r, struct group *g, struct coded *best, bool half)
{
	aim(g);
	float norm = norm_of(g->target);
	*best = (struct coded){.cost = INFINITY};
	if (norm == 0) {
		r->choose(g, 0, best);
		best->norm = 0;
		return;
	}
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		struct coded c = {0};
		r->choose(g, norm * shares[i], &c);
		fit(g, &c, half);
		if (c.cost < best->cost)
			*best = c;
	}
	for (int i = 0; i < SWEEPS && best->norm > 0 && r->sweep(g, best); i++)
		fit(g, best, half);
}

/* ---- one row ---- */

/* What group g's errors ask of the groups after it in its block. */
static void bring(struct rounding *r, uint32_t g, const struct coded *c)
{
	size_t first = (size_t)g * TQ_GROUP, block = first / r->width * r->width;
	size_t all = (size_t)r->groups * TQ_GROUP;
	size_t end = block + r->width < all ? block + r->width : all, wide = end - block;
	for (size_t i = 0; i < TQ_GROUP; i++) {
		float error = r->weight[first + i] - c->norm * c->level[i];
		const float *u = r->upper + block * r->width + (first - block + i) * wide;
		r->kernels->add_scaled(r->brought + first + TQ_GROUP, error,
				       u + (first - block) + TQ_GROUP, end - first - TQ_GROUP);
	}
}

static struct group group_of(const struct rounding *r, uint32_t g)
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
		.bits = r->bits,
	};
}

/* The row's groups, rotated and in the order of rounding. False: they hold what is no number. */
static bool load(struct rounding *r, const float *row)
{
	for (uint32_t g = 0; g < r->groups; g++) {
		size_t first = (size_t)g * TQ_GROUP, left = r->cols - first;
		float y[TQ_GROUP] = {0};
		memcpy(y, row + first, (left < TQ_GROUP ? left : TQ_GROUP) * sizeof *y);
		if (!isfinite(norm_of(y)))
			return false;
		tq_rotate(y);
		for (size_t i = 0; i < TQ_GROUP; i++)
			r->weight[first + i] = y[r->column[i]];
	}
	memset(r->brought, 0, (size_t)r->groups * TQ_GROUP * sizeof *r->brought);
	return true;
}

static void pack(const struct rounding *r, uint8_t *packed, const struct coded *c)
{
	uint8_t symbol[TQ_GROUP];
	for (size_t i = 0; i < TQ_GROUP; i++)
		symbol[r->column[i]] = c->symbol[i];
	tq_pack(packed, symbol, r->bits);
}

bool rounding_row(struct rounding *r, uint8_t *packed, float *norms, const float *row, bool half)
{
	if (!load(r, row))
		return false;
	for (uint32_t g = 0; g < r->groups; g++) {
		if (is_stopped(r))
			return false;
		struct coded c;
		struct group group = group_of(r, g);
		code_group(r, &group, &c, half);
		pack(r, packed + (size_t)g * TQ_GROUP / 8 * r->bits, &c);
		norms[g] = c.norm;
		bring(r, g, &c);
	}
	return true;
}
