#include "engine/convert/rounding.h"
#include "kernels/tc_errors.h"
#include "kernels/tq.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Added to the diagonal of H, relative to its mean. Moments from few tokens have no information
 * about most directions, and errors there must not be free. */
static const double damping = 0.01;
/* Norms to try, relative to the target's norm. Compensating for earlier errors makes targets wider
 * or narrower than the levels are designed for. */
static const float norm_shares[] = {0.9F, 1, 1.1F};
enum { NORMS = sizeof norm_shares / sizeof *norm_shares };
/* Most sweeps over a group's positions. After the third, sweeps rarely change anything. */
enum { SWEEPS = 8 };

/* A group of TQ_GROUP weights of a row. Positions are in the order of rounding; for a trellis this
 * is the order of its stream. */
struct rounding_group {
	const struct kernels *kernels;
	struct tc_group shape; /* cost of errors; the same for all rows */
	const float *weight;
	/* The correction added to the weights, and the weights that would compensate completely. */
	float aimed[TQ_GROUP], target[TQ_GROUP];
	float pairs_target[TQ_GROUP]; /* pairs · target */
	double square;		      /* target' · pairs · target */
};

/* The codes of a group. */
struct rounding_codes {
	uint8_t symbol[TQ_GROUP];
	float level[TQ_GROUP]; /* level · norm is the weight of the symbol */
	float pairs_level[TQ_GROUP];
	float pull[TQ_GROUP]; /* pairs · (target - norm · level) */
	float norm;
	double cost;
};

/* Chooses codes for a given norm, position by position; each compensates for earlier errors. */
typedef void rounding_choose_fn(const struct rounding_group *g, float norm,
				struct rounding_codes *c);
/* Chooses each position's code again, given all others. True: a code changed. */
typedef bool rounding_sweep_fn(const struct rounding_group *g, struct rounding_codes *c);

struct rounding {
	const struct kernels *kernels;
	const _Atomic bool *stop;
	uint32_t cols, groups, bits;
	uint8_t column[TQ_GROUP]; /* column within a group of each position in the order of rounding
				   */
	rounding_choose_fn *choose;
	rounding_sweep_fn *sweep;
	size_t width; /* columns of a block, padded to whole groups */
	float *upper; /* [groups · TQ_GROUP][width]: row i of U, of its block */
	float *cost;  /* [groups · TQ_GROUP]: D */
	float *pairs; /* [groups · TQ_GROUP][TQ_GROUP]: final cost of a group's errors */
	float *turned, *scratch; /* [width][width] */
	/* For the current rows: */
	float *weight;	/* [ROUNDING_ROWS][groups · TQ_GROUP]: rotated */
	float *brought; /* the same: corrections for errors of earlier groups */
	float *error;	/* [ROUNDING_ROWS][TQ_GROUP]: errors of the current group */
};

/* a += s · b */
static void rounding_add(const struct rounding_group *g, float *a, float s, const float *b,
			 size_t n)
{
	g->kernels->add_scaled(a, s, b, n);
}

static double rounding_dot(const float a[TQ_GROUP], const float b[TQ_GROUP])
{
	enum { LANES = 8 };
	double lane[LANES] = {0}, sum = 0;
	for (size_t i = 0; i < TQ_GROUP; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lane[l] += (double)a[i + l] * b[i + l];
	for (size_t l = 0; l < LANES; l++)
		sum += lane[l];
	return sum;
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
	const struct tq_codebook *book = tq_codebook(g->shape.bits);
	float aimed[TQ_GROUP], divisor = norm > 0 ? norm : 1;
	memcpy(aimed, g->aimed, sizeof aimed);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		c->symbol[i] = rounding_nearest_level(book, aimed[i] / divisor);
		c->level[i] = book->level[c->symbol[i]];
		rounding_add(g, aimed + i + 1, g->weight[i] - norm * c->level[i],
			     g->shape.upper + i * g->shape.stride + i + 1, TQ_GROUP - 1 - i);
	}
}

static bool rounding_sweep_levels(const struct rounding_group *g, struct rounding_codes *c)
{
	const struct tq_codebook *book = tq_codebook(g->shape.bits);
	bool changed = false;
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *row = g->shape.pairs + i * TQ_GROUP;
		uint8_t symbol =
			rounding_nearest_level(book, c->level[i] + c->pull[i] / (row[i] * c->norm));
		if (symbol == c->symbol[i])
			continue;
		rounding_add(g, c->pull, c->norm * (c->level[i] - book->level[symbol]), row,
			     TQ_GROUP);
		c->symbol[i] = symbol;
		c->level[i] = book->level[symbol];
		changed = true;
	}
	return changed;
}

/* ---- codes of TC: a trellis (kernels/tc_errors.h) ---- */

static void rounding_choose_path(const struct rounding_group *g, float norm,
				 struct rounding_codes *c)
{
	g->kernels->tc_choose(c->symbol, &g->shape, g->weight, g->aimed, g->target, norm);
	tc_levels(c->level, c->symbol, g->shape.bits);
}

static bool rounding_sweep_path(const struct rounding_group *g, struct rounding_codes *c)
{
	float least = (float)(1e-6 * fabs(c->cost)); /* a smaller gain may be a rounding error */
	bool changed = g->kernels->tc_improve(c->symbol, c->pull, &g->shape, c->norm, least);
	tc_levels(c->level, c->symbol, g->shape.bits);
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
		r->weight = calloc(all * ROUNDING_ROWS, sizeof *r->weight);
		r->brought = calloc(all * ROUNDING_ROWS, sizeof *r->brought);
		r->error = calloc((size_t)TQ_GROUP * ROUNDING_ROWS, sizeof *r->error);
		if (r->upper && r->cost && r->pairs && r->turned && r->scratch && r->weight &&
		    r->brought && r->error)
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
	free(r->error);
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

/* Rotates the rows of m[n][n], group by group, and reorders them to the order of rounding. */
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

/* How many columns are eliminated one by one before they are subtracted together from the columns
 * before. */
enum { PANEL = TQ_GROUP };

/* Eliminates columns [first, end) of m within their own rows. False: stopped. */
static bool rounding_factor_panel(const struct rounding *r, float *restrict upper,
				  float *restrict cost, float *restrict m, size_t n, size_t first,
				  size_t end)
{
	for (size_t last = end; last-- > first;) {
		if (rounding_is_stopped(r))
			return false;
		float d = m[last * n + last];
		cost[last] = d;
		upper[last * n + last] = 1;
		for (size_t i = 0; i < last; i++)
			upper[i * n + last] = m[last * n + i] / d;
		for (size_t i = first; i < last; i++)
			r->kernels->add_scaled(m + i * n, -upper[i * n + last], m + last * n,
					       i + 1);
	}
	return true;
}

/* Subtracts the columns [first, end) from all rows before them. Only the lower triangle is needed,
 * so this is done in strips of rows. */
static void rounding_factor_rest(const struct rounding *r, const float *upper, float *m, size_t n,
				 size_t first, size_t end)
{
	for (size_t at = 0; at < first; at += PANEL) {
		float less[PANEL * PANEL];
		size_t wide = end - first;
		for (size_t i = 0; i < PANEL; i++)
			for (size_t t = 0; t < wide; t++)
				less[i * wide + t] = -upper[(at + i) * n + first + t];
		const struct add_products p = {
			.a = less,
			.a_row = wide,
			.a_step = 1,
			.b = m + first * n,
			.ldb = n,
			.rows = PANEL,
			.cols = at + PANEL,
			.n = wide,
		};
		r->kernels->add_products(m + at * n, n, &p);
	}
}

/* m = U D U', from the last column to the first; n is a multiple of PANEL. Row i of upper[n][n]
 * becomes row i of U, from its diagonal on; cost[n] becomes D; m is overwritten. False: stopped. */
static bool rounding_factor(const struct rounding *r, float *upper, float *cost, float *m, size_t n)
{
	for (size_t end = n; end; end -= PANEL) {
		if (!rounding_factor_panel(r, upper, cost, m, n, end - PANEL, end))
			return false;
		rounding_factor_rest(r, upper, m, n, end - PANEL, end);
	}
	return true;
}

/* pairs = U D U' of one group: the cost of its errors after later groups have compensated. */
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
static void rounding_aim(struct rounding_group *g, const float brought[TQ_GROUP])
{
	float left[TQ_GROUP];
	memcpy(left, brought, sizeof left);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *u = g->shape.upper + i * g->shape.stride;
		g->aimed[i] = g->weight[i] + brought[i];
		g->target[i] = g->weight[i] + left[i];
		rounding_add(g, left + i + 1, -left[i], u + i + 1, TQ_GROUP - 1 - i);
	}
}

/* y[n][TQ_GROUP] = x[n][TQ_GROUP] · pairs */
static void rounding_multiply_pairs(const struct rounding_group *g, float *y, const float *x,
				    size_t n)
{
	const struct add_products p = {
		.a = x,
		.a_row = TQ_GROUP,
		.a_step = 1,
		.b = g->shape.pairs,
		.ldb = TQ_GROUP,
		.rows = n,
		.cols = TQ_GROUP,
		.n = TQ_GROUP,
	};
	memset(y, 0, n * TQ_GROUP * sizeof *y);
	g->kernels->add_products(y, TQ_GROUP, &p);
}

/* Computes the norm with the least cost for these codes (weighted least squares), the cost, and the
 * pull. */
static void rounding_fit_norm(const struct rounding_group *g, struct rounding_codes *c, bool half)
{
	double with_target = rounding_dot(c->level, g->pairs_target);
	double with_itself = rounding_dot(c->level, c->pairs_level);
	c->norm = with_target > 0 && with_itself > 0 ? (float)(with_target / with_itself) : 0;
	if (half)
		c->norm = f16_to_f32(f16_from_f32(c->norm));
	c->cost = g->square - 2 * c->norm * with_target + (double)c->norm * c->norm * with_itself;
	for (size_t i = 0; i < TQ_GROUP; i++)
		c->pull[i] = g->pairs_target[i] - c->norm * c->pairs_level[i];
}

static float rounding_norm(const float x[TQ_GROUP])
{
	return (float)sqrt(rounding_dot(x, x));
}

/* Chooses the norm with the least cost. */
static void rounding_choose_norm(const struct rounding *r, struct rounding_group *g, float norm,
				 struct rounding_codes *best, bool half)
{
	struct rounding_codes c[NORMS];
	float levels[NORMS + 1][TQ_GROUP], with_pairs[NORMS + 1][TQ_GROUP];
	size_t least = 0;
	for (size_t i = 0; i < NORMS; i++) {
		r->choose(g, norm * norm_shares[i], &c[i]);
		memcpy(levels[i], c[i].level, sizeof levels[i]);
	}
	memcpy(levels[NORMS], g->target, sizeof levels[NORMS]);
	rounding_multiply_pairs(g, with_pairs[0], levels[0], NORMS + 1);
	memcpy(g->pairs_target, with_pairs[NORMS], sizeof g->pairs_target);
	g->square = rounding_dot(g->target, g->pairs_target);
	for (size_t i = 0; i < NORMS; i++) {
		memcpy(c[i].pairs_level, with_pairs[i], sizeof c[i].pairs_level);
		rounding_fit_norm(g, &c[i], half);
		if (c[i].cost < c[least].cost)
			least = i;
	}
	*best = c[least];
}

/* Chooses codes, then sweeps until nothing changes. */
static void rounding_code_group(const struct rounding *r, struct rounding_group *g,
				struct rounding_codes *best, bool half)
{
	float norm = rounding_norm(g->target);
	if (norm == 0) { /* any code will do */
		memset(best, 0, sizeof *best);
		return;
	}
	rounding_choose_norm(r, g, norm, best, half);
	for (int i = 0; i < SWEEPS && best->norm > 0 && r->sweep(g, best); i++) {
		for (size_t k = 0; k < TQ_GROUP; k++)
			best->pairs_level[k] = (g->pairs_target[k] - best->pull[k]) / best->norm;
		rounding_fit_norm(g, best, half);
	}
}

/* ---- rows ---- */

/* Rotates a row's groups and reorders them to the order of rounding. False: a group has a NaN or an
 * infinity. */
static bool rounding_load_row(const struct rounding *r, float *weight, const float *row)
{
	for (uint32_t g = 0; g < r->groups; g++) {
		size_t first = (size_t)g * TQ_GROUP, left = r->cols - first;
		float y[TQ_GROUP] = {0};
		memcpy(y, row + first, (left < TQ_GROUP ? left : TQ_GROUP) * sizeof *y);
		if (!isfinite(rounding_norm(y)))
			return false;
		tq_rotate(y);
		for (size_t i = 0; i < TQ_GROUP; i++)
			weight[first + i] = y[r->column[i]];
	}
	return true;
}

/* Rounds group `first` / TQ_GROUP of row i: sets its codes and norm, and r->error. */
static void rounding_do_group(struct rounding *r, const struct tc_group *shape, size_t first,
			      size_t i, uint8_t *packed, float *norm, bool half)
{
	size_t all = (size_t)r->groups * TQ_GROUP;
	struct rounding_group g = {
		.kernels = r->kernels, .shape = *shape, .weight = r->weight + i * all + first};
	struct rounding_codes c;
	uint8_t symbol[TQ_GROUP];
	rounding_aim(&g, r->brought + i * all + first);
	rounding_code_group(r, &g, &c, half);
	for (size_t k = 0; k < TQ_GROUP; k++) {
		symbol[r->column[k]] = c.symbol[k];
		r->error[i * TQ_GROUP + k] = g.weight[k] - c.norm * c.level[k];
	}
	tq_pack(packed + first / 8 * r->bits, symbol, r->bits);
	*norm = c.norm;
}

/* Rounds a group of all rows, and adds the corrections for its errors to the later groups of the
 * block. */
static void rounding_do_column(struct rounding *r, size_t first, uint32_t rows, uint8_t *packed,
			       float *norms, bool half)
{
	size_t all = (size_t)r->groups * TQ_GROUP, block = first / r->width * r->width;
	size_t wide = all - block < r->width ? all - block : r->width, in = first - block;
	const struct tc_group shape = {
		.bits = r->bits,
		.upper = r->upper + block * r->width + in * wide + in,
		.stride = wide,
		.cost = r->cost + first,
		.pairs = r->pairs + first * TQ_GROUP,
	};
	const struct add_products rest = {
		.a = r->error,
		.a_row = TQ_GROUP,
		.a_step = 1,
		.b = shape.upper + TQ_GROUP,
		.ldb = wide,
		.rows = rows,
		.cols = wide - in - TQ_GROUP,
		.n = TQ_GROUP,
	};
	for (size_t i = 0; i < rows; i++)
		rounding_do_group(r, &shape, first, i,
				  packed + i * r->groups * tq_group_bytes(r->bits),
				  norms + i * r->groups + first / TQ_GROUP, half);
	r->kernels->add_products(r->brought + first + TQ_GROUP, all, &rest);
}

bool rounding_rows(struct rounding *r, uint8_t *packed, float *norms, const float *row,
		   uint32_t rows, bool half)
{
	size_t all = (size_t)r->groups * TQ_GROUP;
	for (uint32_t i = 0; i < rows; i++)
		if (!rounding_load_row(r, r->weight + i * all, row + (size_t)i * r->cols))
			return false;
	memset(r->brought, 0, rows * all * sizeof *r->brought);
	for (size_t first = 0; first < all; first += TQ_GROUP) {
		if (rounding_is_stopped(r))
			return false;
		rounding_do_column(r, first, rows, packed, norms, half);
	}
	return true;
}
