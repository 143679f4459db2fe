#include "engine/convert/rounding.h"
#include "kernels/tc.h"
#include "kernels/tq.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Added to the diagonal of H, as a share of its mean: moments of few tokens know nothing of most
 * directions, and an error there must not be free. */
static const double damping = 0.01;
/* Norms that codes are chosen by, as shares of the target's own norm: making up for earlier errors
 * makes targets wider or narrower than the levels are meant for. */
static const float norm_shares[] = {0.9F, 1, 1.1F};
/* The most sweeps over a group's positions; few change anything after the third. */
enum { SWEEPS = 8 };

/* A group of TQ_GROUP weights of one row. Positions are in the order of rounding, which for a
 * trellis is the order of its stream. */
struct rounding_group {
	const struct kernels *kernels;
	uint32_t bits;
	const float *upper; /* [TQ_GROUP] rows of U, each from the group's first position on */
	size_t stride;	    /* between these rows */
	const float *cost;  /* [TQ_GROUP]: D */
	const float *pairs; /* [TQ_GROUP][TQ_GROUP]: U D U' of the group alone */
	const float *weight, *brought;
	/* The weights that would make up for all of `brought`. */
	float target[TQ_GROUP];
};

/* The codes of a group. */
struct rounding_codes {
	uint8_t symbol[TQ_GROUP];
	float level[TQ_GROUP]; /* times norm: the weight that the symbol stands for */
	float norm;
	double cost;
};

/* Chooses codes for a given norm, position by position, each making up for those before. */
typedef void rounding_choose_fn(const struct rounding_group *g, float norm,
				struct rounding_codes *c);
/* Chooses each position's code again, given all others; true if one was changed. */
typedef bool rounding_sweep_fn(const struct rounding_group *g, struct rounding_codes *c);

struct rounding {
	const struct kernels *kernels;
	const _Atomic bool *stop;
	uint32_t cols, groups, bits;
	uint8_t column[TQ_GROUP]; /* within a group, of each position in the order of rounding */
	rounding_choose_fn *choose;
	rounding_sweep_fn *sweep;
	size_t width; /* of a block, padded to whole groups */
	float *upper; /* [groups · TQ_GROUP][width]: row i of U, of its block */
	float *cost;  /* [groups · TQ_GROUP]: D */
	float *pairs; /* [groups · TQ_GROUP][TQ_GROUP]: what errors of a group cost in the end */
	float *turned, *scratch; /* [width][width] */
	/* Of the current row: */
	float *weight;	/* rotated */
	float *brought; /* what errors of earlier groups add to the targets */
};

/* a += s · b */
static void rounding_add(const struct rounding_group *g, float *a, float s, const float *b,
			 size_t n)
{
	g->kernels->add_scaled(a, s, b, n);
}

/* The change of the group's cost per change of each position's weight: pairs · (target - codes). */
static void rounding_pull(const struct rounding_group *g, const struct rounding_codes *c,
			  float pull[TQ_GROUP])
{
	memset(pull, 0, TQ_GROUP * sizeof *pull);
	for (size_t i = 0; i < TQ_GROUP; i++)
		rounding_add(g, pull, g->target[i] - c->norm * c->level[i], g->pairs + i * TQ_GROUP,
			     TQ_GROUP);
}

/* ---- codes of TQ: a codebook of levels ---- */

static uint8_t rounding_nearest_level(const struct tq_codebook *book, float y)
{
	uint32_t index = 0;
	for (uint32_t i = 0; i + 1 < book->levels; i++)
		index += book->boundary[i] < y;
	return (uint8_t)index;
}

static void rounding_choose_levels(const struct rounding_group *g, float norm,
				   struct rounding_codes *c)
{
	const struct tq_codebook *book = tq_codebook(g->bits);
	float aimed[TQ_GROUP], divisor = norm > 0 ? norm : 1;
	for (size_t i = 0; i < TQ_GROUP; i++)
		aimed[i] = g->weight[i] + g->brought[i];
	for (size_t i = 0; i < TQ_GROUP; i++) {
		c->symbol[i] = rounding_nearest_level(book, aimed[i] / divisor);
		c->level[i] = book->level[c->symbol[i]];
		rounding_add(g, aimed + i + 1, g->weight[i] - norm * c->level[i],
			     g->upper + i * g->stride + i + 1, TQ_GROUP - 1 - i);
	}
}

static bool rounding_sweep_levels(const struct rounding_group *g, struct rounding_codes *c)
{
	const struct tq_codebook *book = tq_codebook(g->bits);
	float pull[TQ_GROUP];
	bool changed = false;
	rounding_pull(g, c, pull);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *row = g->pairs + i * TQ_GROUP;
		uint8_t symbol =
			rounding_nearest_level(book, c->level[i] + pull[i] / (row[i] * c->norm));
		if (symbol == c->symbol[i])
			continue;
		rounding_add(g, pull, c->norm * (c->level[i] - book->level[symbol]), row, TQ_GROUP);
		c->symbol[i] = symbol;
		c->level[i] = book->level[symbol];
		changed = true;
	}
	return changed;
}

/* ---- codes of TC: a trellis (kernels/tc.h) ----
 *
 * The Viterbi algorithm where each path carries what its own errors ask of the weights to come
 * (per-survivor processing: Raheli, Polydoros and Tzou 1995). The state where the ring closes is
 * found first, from the weights on both sides of that seam, as in kernels/tc.c, but with the cost
 * of errors there. */

enum { STATES = 64, WINDOWS = 256 }; /* at most */
enum { TOUCHED = 4 };		     /* weights that one symbol affects, at most */

struct rounding_trellis {
	uint32_t bits, states, window;
	uint32_t seam;
	float level[WINDOWS];
};

static struct rounding_trellis rounding_trellis_of(uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	struct rounding_trellis t = {
		bits, 1U << (book->window - bits), book->window, book->seam, {0}};
	for (uint32_t w = 0; w < 1U << t.window; w++)
		t.level[w] = (float)tc_code(book, w) * book->gain;
	return t;
}

/* The state before `state`, from which the symbol `dropped` has left since. */
static uint32_t rounding_state_before(const struct rounding_trellis *t, uint32_t state,
				      uint32_t dropped)
{
	return (state << t->bits | dropped) & (t->states - 1);
}

/* The cheapest way to each state: after[s] is its cost, dropped[s] its step. aimed[p] is the target
 * of the path to each state before. */
static void rounding_trellis_step(const struct rounding_trellis *t, float after[STATES],
				  uint8_t dropped[STATES], const float before[STATES],
				  const float aimed[STATES], float norm, float cost)
{
	for (uint32_t s = 0; s < t->states; s++) {
		after[s] = INFINITY;
		dropped[s] = 0;
		for (uint32_t d = 0; d < 1U << t->bits; d++) {
			uint32_t p = rounding_state_before(t, s, d);
			float off = aimed[p] - norm * t->level[s << t->bits | d];
			float all = before[p] + cost * off * off;
			if (all < after[s]) {
				after[s] = all;
				dropped[s] = (uint8_t)d;
			}
		}
	}
}

/* The state between the last weight and the first. */
static uint32_t rounding_seam_state(const struct rounding_trellis *t,
				    const struct rounding_group *g, float norm)
{
	uint8_t dropped[TQ_GROUP][STATES];
	float cost[STATES] = {0}, after[STATES], aimed[STATES];
	uint32_t state = 0;
	for (uint32_t i = 0; i < 2 * t->seam; i++) {
		uint32_t at = (TQ_GROUP - t->seam + i) % TQ_GROUP;
		for (uint32_t s = 0; s < t->states; s++)
			aimed[s] = g->target[at];
		rounding_trellis_step(t, after, dropped[i], cost, aimed, norm, g->cost[at]);
		memcpy(cost, after, sizeof cost);
	}
	for (uint32_t s = 1; s < t->states; s++)
		if (cost[s] < cost[state])
			state = s;
	for (uint32_t i = 2 * t->seam; i-- > t->seam;)
		state = rounding_state_before(t, state, dropped[i][state]);
	return state;
}

/* The best path to each state, and what each path aims at for the weights to come. */
struct rounding_paths {
	float cost[STATES];
	float aimed[STATES][TQ_GROUP];
};

static void rounding_extend_paths(const struct rounding_trellis *t, const struct rounding_group *g,
				  float norm, size_t at, struct rounding_paths *to,
				  const struct rounding_paths *from, uint8_t dropped[STATES])
{
	float aimed[STATES];
	for (uint32_t s = 0; s < t->states; s++)
		aimed[s] = from->aimed[s][at];
	rounding_trellis_step(t, to->cost, dropped, from->cost, aimed, norm, g->cost[at]);
	for (uint32_t s = 0; s < t->states; s++) {
		size_t next = at + 1, left = TQ_GROUP - next;
		const float *before = from->aimed[rounding_state_before(t, s, dropped[s])];
		float error = g->weight[at] - norm * t->level[s << t->bits | dropped[s]];
		memcpy(to->aimed[s] + next, before + next, left * sizeof *before);
		rounding_add(g, to->aimed[s] + next, error, g->upper + at * g->stride + next, left);
	}
}

/* The levels of weights [at, at + count), which wrap around the ring, and whose windows begin
 * `symbols` symbols before. */
static void rounding_read_levels(const struct rounding_trellis *t, const struct rounding_codes *c,
				 uint32_t at, uint32_t count, uint32_t symbols, float *level)
{
	uint32_t window = 0;
	for (uint32_t i = TQ_GROUP + at - symbols; i < TQ_GROUP + at + count; i++) {
		window = window >> t->bits | (uint32_t)c->symbol[i % TQ_GROUP]
						     << (t->window - t->bits);
		if (i >= TQ_GROUP + at)
			level[i - TQ_GROUP - at] = t->level[window];
	}
}

/* Symbols in a window: as many weights one symbol affects. */
static uint32_t rounding_window_symbols(const struct rounding_trellis *t)
{
	return (t->window + t->bits - 1) / t->bits;
}

static void rounding_choose_path(const struct rounding_group *g, float norm,
				 struct rounding_codes *c)
{
	const struct rounding_trellis t = rounding_trellis_of(g->bits);
	struct rounding_paths paths[2];
	uint8_t dropped[TQ_GROUP][STATES];
	uint32_t seam = rounding_seam_state(&t, g, norm), state = seam;
	for (uint32_t s = 0; s < t.states; s++) {
		paths[0].cost[s] = s == seam ? 0 : INFINITY;
		for (size_t i = 0; i < TQ_GROUP; i++)
			paths[0].aimed[s][i] = g->weight[i] + g->brought[i];
	}
	for (size_t i = 0; i < TQ_GROUP; i++)
		rounding_extend_paths(&t, g, norm, i, &paths[(i + 1) % 2], &paths[i % 2],
				      dropped[i]);
	for (size_t i = TQ_GROUP; i-- > 0;) {
		c->symbol[i] = (uint8_t)(state >> (t.window - 2 * t.bits)); /* the newest one */
		state = rounding_state_before(&t, state, dropped[i][state]);
	}
	rounding_read_levels(&t, c, 0, TQ_GROUP, rounding_window_symbols(&t), c->level);
}

/* How much less the group would cost with these levels at weights [at, at + count). */
static double rounding_gain(const struct rounding_group *g, const struct rounding_codes *c,
			    const float pull[TQ_GROUP], uint32_t at, uint32_t count,
			    const float level[TOUCHED])
{
	float change[TOUCHED];
	double gain = 0;
	for (uint32_t i = 0; i < count; i++)
		change[i] = c->norm * (level[i] - c->level[(at + i) % TQ_GROUP]);
	for (uint32_t i = 0; i < count; i++) {
		const float *row = g->pairs + (size_t)((at + i) % TQ_GROUP) * TQ_GROUP;
		gain += 2 * (double)change[i] * pull[(at + i) % TQ_GROUP];
		for (uint32_t j = 0; j < count; j++)
			gain -= (double)change[i] * change[j] * row[(at + j) % TQ_GROUP];
	}
	return gain;
}

static bool rounding_sweep_path(const struct rounding_group *g, struct rounding_codes *c)
{
	const struct rounding_trellis t = rounding_trellis_of(g->bits);
	float pull[TQ_GROUP];
	bool changed = false;
	uint32_t count = rounding_window_symbols(&t);
	double least = 1e-6 * fabs(c->cost); /* a smaller gain may be none */
	rounding_pull(g, c, pull);
	for (uint32_t at = 0; at < TQ_GROUP; at++) {
		float level[TOUCHED], best_level[TOUCHED];
		uint8_t now = c->symbol[at], best = now;
		double most = least;
		for (uint32_t symbol = 0; symbol < 1U << t.bits; symbol++) {
			c->symbol[at] = (uint8_t)symbol;
			rounding_read_levels(&t, c, at, count, count, level);
			double gain = rounding_gain(g, c, pull, at, count, level);
			if (symbol != now && gain > most) {
				most = gain;
				best = (uint8_t)symbol;
				memcpy(best_level, level, sizeof level);
			}
		}
		c->symbol[at] = best;
		for (uint32_t i = 0; i < count && best != now; i++) {
			size_t p = (at + i) % TQ_GROUP;
			rounding_add(g, pull, c->norm * (c->level[p] - best_level[i]),
				     g->pairs + p * TQ_GROUP, TQ_GROUP);
			c->level[p] = best_level[i];
		}
		changed |= best != now;
	}
	return changed;
}

/* ---- life ---- */

static size_t rounding_padded(size_t cols)
{
	return (cols + TQ_GROUP - 1) / TQ_GROUP * TQ_GROUP;
}

int rounding_create(struct rounding **out, const struct kernels *k, enum format format,
		    uint32_t cols, uint32_t block, struct err *e)
{
	struct rounding *r = calloc(1, sizeof *r);
	size_t all = rounding_padded(cols);
	bool trellis = format_is_trellis(format);
	*out = r;
	if (r) {
		r->kernels = k;
		r->bits = format_tq_bits(format);
		r->choose = trellis ? rounding_choose_path : rounding_choose_levels;
		r->sweep = trellis ? rounding_sweep_path : rounding_sweep_levels;
		for (size_t i = 0; i < TQ_GROUP; i++)
			r->column[i] = (uint8_t)(trellis ? tc_column(i) : i);
		r->cols = cols;
		r->groups = (uint32_t)(all / TQ_GROUP);
		r->width = block < cols ? rounding_padded(block) : all;
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

static bool rounding_is_stopped(const struct rounding *r)
{
	return r->stop && atomic_load(r->stop);
}

/* ---- what errors cost ---- */

/* Rotates the rows of m[n][n], group by group, and puts them into the order of rounding. */
static void rounding_rotate_rows(const struct rounding *r, float *m, size_t n)
{
	for (size_t at = 0; at < n * n; at += TQ_GROUP) {
		float y[TQ_GROUP];
		tq_rotate(m + at);
		memcpy(y, m + at, sizeof y);
		for (size_t i = 0; i < TQ_GROUP; i++)
			m[at + i] = y[r->column[i]];
	}
}

/* r->turned[wide][wide] = h[n][n], padded, in the basis of the rotated weights. */
static void rounding_rotate_moment(struct rounding *r, const float *h, size_t n, size_t wide)
{
	memset(r->scratch, 0, wide * wide * sizeof *r->scratch);
	for (size_t i = 0; i < n; i++)
		memcpy(r->scratch + i * wide, h + i * n, n * sizeof *h);
	rounding_rotate_rows(r, r->scratch, wide);
	for (size_t i = 0; i < wide; i++)
		for (size_t j = 0; j < wide; j++)
			r->turned[j * wide + i] = r->scratch[i * wide + j];
	rounding_rotate_rows(r, r->turned, wide);
}

static void rounding_dampen(float *m, size_t n)
{
	double trace = 0;
	for (size_t i = 0; i < n; i++)
		trace += m[i * n + i];
	float least = (float)(trace / (double)n * damping);
	for (size_t i = 0; i < n; i++)
		m[i * n + i] += least > 0 ? least : 1;
}

/* m = U D U', from the last column to the first. Row i of upper[n][n] becomes row i of U, from its
 * diagonal on; cost[n] becomes D; m is overwritten. False: stopped. */
static bool rounding_factor(const struct rounding *r, float *restrict upper, float *restrict cost,
			    float *restrict m, size_t n)
{
	for (size_t last = n; last-- > 0;) {
		if (rounding_is_stopped(r))
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

/* pairs = U D U' of one group alone: what its errors cost when those after it have made up. */
static void rounding_pair_costs(float *pairs, const float *upper, size_t stride, const float *cost)
{
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
	size_t n = r->cols - first < r->width ? r->cols - first : r->width;
	size_t wide = rounding_padded(n);
	float *upper = r->upper + first * r->width;
	rounding_rotate_moment(r, h, n, wide);
	rounding_dampen(r->turned, wide);
	if (!rounding_factor(r, upper, r->cost + first, r->turned, wide))
		return false;
	for (size_t g = 0; g < wide && !rounding_is_stopped(r); g += TQ_GROUP)
		rounding_pair_costs(r->pairs + (first + g) * TQ_GROUP, upper + g * wide + g, wide,
				    r->cost + first + g);
	return !rounding_is_stopped(r);
}

/* ---- one group ---- */

/* target = weight + U^-1 · brought */
static void rounding_aim(struct rounding_group *g)
{
	float left[TQ_GROUP];
	memcpy(left, g->brought, sizeof left);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *u = g->upper + i * g->stride;
		g->target[i] = g->weight[i] + left[i];
		rounding_add(g, left + i + 1, -left[i], u + i + 1, TQ_GROUP - 1 - i);
	}
}

/* y = the group's part of U' · x */
static void rounding_multiply_upper(const struct rounding_group *g, float y[TQ_GROUP],
				    const float x[TQ_GROUP])
{
	memset(y, 0, TQ_GROUP * sizeof *y);
	for (size_t i = 0; i < TQ_GROUP; i++)
		rounding_add(g, y + i, x[i], g->upper + i * g->stride + i, TQ_GROUP - i);
}

/* The norm of least cost for these codes (weighted least squares), and that cost. */
static void rounding_fit_norm(const struct rounding_group *g, struct rounding_codes *c, bool half)
{
	float a[TQ_GROUP], b[TQ_GROUP];
	double ab = 0, aa = 0, bb = 0;
	rounding_multiply_upper(g, a, c->level);
	rounding_multiply_upper(g, b, g->target);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		ab += (double)g->cost[i] * a[i] * b[i];
		aa += (double)g->cost[i] * a[i] * a[i];
		bb += (double)g->cost[i] * b[i] * b[i];
	}
	c->norm = ab > 0 ? (float)(ab / aa) : 0;
	if (half)
		c->norm = f16_to_f32(f16_from_f32(c->norm));
	c->cost = bb - 2 * c->norm * ab + (double)c->norm * c->norm * aa;
}

static float rounding_norm(const float x[TQ_GROUP])
{
	double sum = 0;
	for (size_t i = 0; i < TQ_GROUP; i++)
		sum += (double)x[i] * x[i];
	return (float)sqrt(sum);
}

/* Of several norms the one of least cost is taken; then sweeps, until none changes anything. */
static void rounding_code_group(const struct rounding *r, struct rounding_group *g,
				struct rounding_codes *best, bool half)
{
	rounding_aim(g);
	float norm = rounding_norm(g->target);
	*best = (struct rounding_codes){.cost = INFINITY};
	if (norm == 0) {
		r->choose(g, 0, best);
		best->norm = 0;
		return;
	}
	for (size_t i = 0; i < sizeof norm_shares / sizeof *norm_shares; i++) {
		struct rounding_codes c = {0};
		r->choose(g, norm * norm_shares[i], &c);
		rounding_fit_norm(g, &c, half);
		if (c.cost < best->cost)
			*best = c;
	}
	for (int i = 0; i < SWEEPS && best->norm > 0 && r->sweep(g, best); i++)
		rounding_fit_norm(g, best, half);
}

/* ---- one row ---- */

/* Rotates a row's groups and puts them into the order of rounding. False: one holds a NaN or an
 * infinity. */
static bool rounding_load_row(struct rounding *r, const float *row)
{
	for (uint32_t g = 0; g < r->groups; g++) {
		size_t first = (size_t)g * TQ_GROUP, left = r->cols - first;
		float y[TQ_GROUP] = {0};
		memcpy(y, row + first, (left < TQ_GROUP ? left : TQ_GROUP) * sizeof *y);
		if (!isfinite(rounding_norm(y)))
			return false;
		tq_rotate(y);
		for (size_t i = 0; i < TQ_GROUP; i++)
			r->weight[first + i] = y[r->column[i]];
	}
	memset(r->brought, 0, (size_t)r->groups * TQ_GROUP * sizeof *r->brought);
	return true;
}

bool rounding_row(struct rounding *r, uint8_t *packed, float *norms, const float *row, bool half)
{
	if (!rounding_load_row(r, row))
		return false;
	size_t all = (size_t)r->groups * TQ_GROUP;
	for (uint32_t g = 0; g < r->groups; g++) {
		if (rounding_is_stopped(r))
			return false;
		size_t first = (size_t)g * TQ_GROUP, block = first / r->width * r->width;
		size_t wide = all - block < r->width ? all - block : r->width, in = first - block;
		struct rounding_codes c;
		struct rounding_group group = {
			.kernels = r->kernels,
			.upper = r->upper + block * r->width + in * wide + in,
			.stride = wide,
			.cost = r->cost + first,
			.pairs = r->pairs + first * TQ_GROUP,
			.weight = r->weight + first,
			.brought = r->brought + first,
			.bits = r->bits,
		};
		rounding_code_group(r, &group, &c, half);
		uint8_t symbol[TQ_GROUP];
		for (size_t i = 0; i < TQ_GROUP; i++)
			symbol[r->column[i]] = c.symbol[i];
		tq_pack(packed + first / 8 * r->bits, symbol, r->bits);
		norms[g] = c.norm;
		/* What these errors ask of the groups after this one in its block. */
		for (size_t i = 0; i < TQ_GROUP; i++)
			rounding_add(&group, r->brought + first + TQ_GROUP,
				     group.weight[i] - c.norm * c.level[i],
				     group.upper + i * wide + TQ_GROUP, wide - in - TQ_GROUP);
	}
	return true;
}
