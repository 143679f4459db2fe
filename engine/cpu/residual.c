/* The residual stream: what a layer's parts (its mixer and its feed-forward) read, and how their
 * outputs are added. See layers.h.
 *
 * Most models have one stream: a part reads its norm, and adds to it. Others have several streams,
 * which begin as copies of the embedding, and hyper-connections (Zhu et al. 2024), one before each
 * part and one at the end:
 *
 * Gated (Qwen 4): each stream is normalised by itself, with weights of its own: n. A product of low
 * rank gives a gate for every number, g = sigmoid(up · silu(down · n / S)), and the part reads the
 * mean over the streams of g ⊙ n. Its output is added to stream s with the factor
 * 2 · sigmoid(inject · n / S)_s. Streams are never mixed with each other. At the end the head reads
 * the mean in the same way: there is no other norm.
 *
 * Mixed (DeepSeek-AI 2026, manifold-constrained; Xie et al. 2026): all streams are normalised as one
 * vector without weights, and one product gives three groups of numbers, each times a scale of its
 * own plus a base: pre = sigmoid + eps, the weight with which each stream is read; post =
 * 2 · sigmoid, the weight with which the output is added to each; and comb[j][k], how much of stream
 * j goes on in stream k: softmax over k, + eps, then columns are divided by their sums + eps, and
 * rows and columns in turn (Sinkhorn and Knopp 1967). At the end the head reads a sum weighed by
 * another pre, or the plain mean. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

_Static_assert(TENSOR_GATED_FEED_INJECT - TENSOR_GATED_FEED_NORM ==
			       TENSOR_GATED_MIXER_INJECT - TENSOR_GATED_MIXER_NORM &&
		       TENSOR_MIXED_FEED_SCALE - TENSOR_MIXED_FEED ==
			       TENSOR_MIXED_MIXER_SCALE - TENSOR_MIXED_MIXER,
	       "both parts have the same roles in the same order");

void residual_take(struct residual_scratch *r, struct arena *arena, const struct config *c,
		   size_t rows)
{
	size_t width = config_stream_width(c), mix = config_stream_mix(c);
	*r = (struct residual_scratch){0};
	if (c->streams.kind == STREAMS_PLAIN)
		return;
	activation_take(arena, &r->flat, rows, (uint32_t)width);
	activation_take(arena, &r->low, rows, c->streams.low);
	r->gates = arena_take(arena, c->streams.low ? rows * width : 0, sizeof *r->gates);
	r->factors = arena_take(arena, rows * mix, sizeof *r->factors);
	r->guesses = arena_take(arena, PREDICT_MOST * mix, sizeof *r->guesses);
}

/* One hyper-connection, on its way. */
struct residual_task {
	const struct environment *env;
	struct residual_scratch *scratch;
	const float *x;		  /* [rows][streams][hidden] */
	const uint32_t *rows;	  /* of x; NULL: the first ones */
	float *to;		  /* [n][hidden]: what is read */
	float *factors;		  /* [n][mix], or [n][streams] of gated ones */
	const float *norm;	  /* of each stream, or of what is read */
	const float *base, *scale; /* of mixed ones */
	const float *out;	  /* [n][hidden]: is added */
	bool ends;		  /* nothing is added: only `pre` is there */
};

static const float *residual_row(const struct residual_task *z, size_t t)
{
	size_t row = z->rows ? z->rows[t] : t;
	return z->x + row * config_stream_width(z->env->config);
}

/* y = 1 / (1 + exp(-x)) */
static void residual_sigmoid(const struct kernels *k, float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = 1;
	k->sigmoid_mul(y, x, n);
}

static void residual_scale(float *y, float factor, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] *= factor;
}

/* ---- gated ---- */

static void residual_norm_streams(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	size_t hidden = c->hidden_size, width = config_stream_width(c);
	for (size_t t = begin; t < end; t++)
		for (size_t s = 0; s < c->streams.count; s++)
			z->env->kernels->rmsnorm(z->scratch->flat.f + t * width + s * hidden,
						 residual_row(z, t) + s * hidden,
						 z->norm + s * hidden, c->hidden_size, c->rms_eps);
}

/* silu(low / S), and the factors of what is added. */
static void residual_open_gates(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	uint32_t streams = c->streams.count, low = c->streams.low;
	for (size_t t = begin; t < end; t++) {
		float *row = z->scratch->low.f + t * low, *factors = z->factors + t * streams;
		float opened[CONFIG_MAX_STREAMS];
		residual_scale(row, 1 / (float)streams, low);
		z->env->kernels->sigmoid_mul(row, memcpy(z->scratch->gates + t * low, row,
							 low * sizeof *row),
					     low);
		if (z->ends)
			continue;
		residual_scale(factors, 1 / (float)streams, streams);
		residual_sigmoid(z->env->kernels, opened, factors, streams);
		for (uint32_t s = 0; s < streams; s++)
			factors[s] = 2 * opened[s];
	}
}

static void residual_mean_gated(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	size_t hidden = c->hidden_size, width = config_stream_width(c);
	for (size_t t = begin; t < end; t++) {
		float *flat = z->scratch->flat.f + t * width, *to = z->to + t * hidden;
		z->env->kernels->sigmoid_mul(flat, z->scratch->gates + t * width, width);
		memset(to, 0, hidden * sizeof *to);
		for (size_t s = 0; s < c->streams.count; s++)
			z->env->kernels->add(to, flat + s * hidden, hidden);
		residual_scale(to, 1 / (float)c->streams.count, hidden);
	}
}

/* m: the matrices from the norm's on; inject may be missing. */
static void residual_read_gated(struct residual_task *z, const struct matrix *m, uint32_t n)
{
	enum { NORM, DOWN, UP, INJECT };
	struct residual_scratch *r = z->scratch;
	const struct product first[] = {{r->low.f, &m[DOWN]}, {z->factors, &m[INJECT]}};
	z->norm = m[NORM].data;
	threads_run(z->env->threads, n, 2, residual_norm_streams, z);
	activation_changed(&r->flat);
	product_run(z->env, first, z->ends ? 1 : 2, &r->flat, n);
	threads_run(z->env->threads, n, 8, residual_open_gates, z);
	activation_changed(&r->low);
	product_run(z->env, &(struct product){r->gates, &m[UP]}, 1, &r->low, n);
	threads_run(z->env->threads, n, 2, residual_mean_gated, z);
}

static void residual_add_gated(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	size_t hidden = c->hidden_size, streams = c->streams.count;
	for (size_t t = begin; t < end; t++)
		for (size_t s = 0; s < streams; s++)
			watch_add_scaled(z->env->kernels,
					 (float *)residual_row(z, t) + s * hidden,
					 z->factors[t * streams + s], z->out + t * hidden, hidden);
}

/* ---- mixed ---- */

static void residual_flatten(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	size_t width = config_stream_width(c);
	for (size_t t = begin; t < end; t++) /* x / sqrt(mean(x²) + eps) */
		z->env->kernels->l2norm(z->scratch->flat.f + t * width, residual_row(z, t),
					(uint32_t)width, c->rms_eps * (float)width,
					sqrtf((float)width));
}

/* Divides rows or columns of comb[n][n] by their sums + eps: number i of line l is at
 * l · line + i · step. */
static void residual_divide_lines(float *comb, size_t n, size_t line, size_t step, float eps)
{
	for (size_t l = 0; l < n; l++) {
		float sum = 0;
		for (size_t i = 0; i < n; i++)
			sum += comb[l * line + i * step];
		for (size_t i = 0; i < n; i++)
			comb[l * line + i * step] /= sum + eps;
	}
}

static void residual_balance(const struct residual_task *z, float *comb)
{
	const struct streams *m = &z->env->config->streams;
	for (uint32_t j = 0; j < m->count; j++)
		z->env->kernels->softmax(comb + (size_t)j * m->count, m->count);
	for (uint32_t i = 0; i < m->count * m->count; i++)
		comb[i] += m->eps;
	residual_divide_lines(comb, m->count, 1, m->count, m->eps);
	for (uint32_t i = 1; i < m->iterations; i++) {
		residual_divide_lines(comb, m->count, m->count, 1, m->eps);
		residual_divide_lines(comb, m->count, 1, m->count, m->eps);
	}
}

/* The factors of rows, from the product: pre[S], and unless this is the end post[S] and
 * comb[S][S]. */
static void residual_weigh(const struct residual_task *z, float *factors)
{
	const struct streams *m = &z->env->config->streams;
	const struct kernels *k = z->env->kernels;
	uint32_t n = m->count, all = z->ends ? n : config_stream_mix(z->env->config);
	float opened[2 * CONFIG_MAX_STREAMS];
	for (uint32_t i = 0; i < all; i++)
		factors[i] = factors[i] * z->scale[i < n ? 0 : i < 2 * n ? 1 : 2] + z->base[i];
	residual_sigmoid(k, opened, factors, z->ends ? n : 2 * n);
	for (uint32_t s = 0; s < n; s++)
		factors[s] = opened[s] + m->eps;
	if (z->ends)
		return;
	for (uint32_t s = n; s < 2 * n; s++)
		factors[s] = 2 * opened[s];
	residual_balance(z, factors + 2 * (size_t)n);
}

/* Reads streams weighed by the first numbers of the row's factors; then the norm, if there is one.
 */
static void residual_collapse(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	size_t hidden = c->hidden_size, streams = c->streams.count;
	size_t width = z->ends ? streams : config_stream_mix(c);
	for (size_t t = begin; t < end; t++) {
		float *factors = z->factors + t * width, *to = z->to + t * hidden;
		residual_weigh(z, factors);
		memset(to, 0, hidden * sizeof *to);
		for (size_t s = 0; s < streams; s++)
			z->env->kernels->add_scaled(to, factors[s],
						    residual_row(z, t) + s * hidden, hidden);
		z->env->kernels->rmsnorm(to, to, z->norm, c->hidden_size, c->rms_eps);
	}
}

/* m: the product's matrix, its base and its scale. */
static void residual_read_mixed(struct residual_task *z, const struct matrix *m, uint32_t n)
{
	enum { PRODUCT, BASE, SCALE };
	z->base = m[BASE].data;
	z->scale = m[SCALE].data;
	threads_run(z->env->threads, n, 2, residual_flatten, z);
	activation_changed(&z->scratch->flat);
	product_run(z->env, &(struct product){z->factors, &m[PRODUCT]}, 1, &z->scratch->flat, n);
	threads_run(z->env->threads, n, 2, residual_collapse, z);
}

static void residual_add_mixed(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	const struct kernels *k = z->env->kernels;
	size_t hidden = c->hidden_size, streams = c->streams.count, width = streams * hidden;
	for (size_t t = begin; t < end; t++) {
		const float *post = z->factors + t * config_stream_mix(c) + streams,
			    *comb = post + streams;
		float *x = (float *)residual_row(z, t),
		      *before = memcpy(z->scratch->flat.f + t * width, x, width * sizeof *x);
		for (size_t s = 0; s < streams; s++) {
			memset(x + s * hidden, 0, hidden * sizeof *x);
			for (size_t j = 0; j < streams; j++)
				k->add_scaled(x + s * hidden, comb[j * streams + s],
					      before + j * hidden, hidden);
			watch_add_scaled(k, x + s * hidden, post[s], z->out + t * hidden, hidden);
		}
	}
}

/* The plain mean of the streams, and its norm. */
static void residual_mean(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	const struct config *c = z->env->config;
	size_t hidden = c->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float *to = z->to + t * hidden;
		memset(to, 0, hidden * sizeof *to);
		for (size_t s = 0; s < c->streams.count; s++)
			z->env->kernels->add(to, residual_row(z, t) + s * hidden, hidden);
		residual_scale(to, 1 / (float)c->streams.count, hidden);
		z->env->kernels->rmsnorm(to, to, z->norm, c->hidden_size, c->rms_eps);
	}
}

/* ---- all of it ---- */

static struct residual_task residual_task_of(const struct step *s, float *to, float *factors)
{
	return (struct residual_task){.env = s->env,
				      .scratch = &s->scratch->residual,
				      .x = s->stream->x,
				      .to = to,
				      .factors = factors};
}

static void residual_read_to(const struct step *s, uint32_t layer, enum layer_part part, float *to,
			     float *factors)
{
	const struct layer_weights *l = &s->env->weights->layer[layer];
	struct residual_task z = residual_task_of(s, to, factors);
	bool feed = part == PART_FEED_FORWARD;
	z.norm = weights_vector(l, feed ? TENSOR_FEED_FORWARD_NORM : TENSOR_MIXER_NORM);
	switch (s->env->config->streams.kind) {
	case STREAMS_GATED:
		residual_read_gated(
			&z, &l->m[feed ? TENSOR_GATED_FEED_NORM : TENSOR_GATED_MIXER_NORM], s->n);
		break;
	case STREAMS_MIXED:
		residual_read_mixed(&z, &l->m[feed ? TENSOR_MIXED_FEED : TENSOR_MIXED_MIXER], s->n);
		break;
	default:
		activation_norm(s, to, s->stream->x, NULL, z.norm, s->n);
		break;
	}
}

void residual_read(struct step *s, uint32_t layer, enum layer_part part)
{
	residual_read_to(s, layer, part, s->scratch->normed.f, s->scratch->residual.factors);
	activation_changed(&s->scratch->normed);
}

void residual_guess(const struct step *s, uint32_t layer, struct activation *to)
{
	residual_read_to(s, layer, PART_FEED_FORWARD, to->f, s->scratch->residual.guesses);
	activation_changed(to);
}

/* Rows that are added in one piece of a loop; fewer are not worth a meeting. */
enum { ADD_ROWS = 16 };

static void residual_add_plain(void *ctx, uint32_t begin, uint32_t end)
{
	const struct residual_task *z = ctx;
	size_t hidden = z->env->config->hidden_size;
	watch_add_scaled(z->env->kernels, (float *)z->x + begin * hidden,
			 z->env->config->residual_multiplier, z->out + begin * hidden,
			 (end - begin) * hidden);
}

void residual_add(struct step *s, uint32_t layer, enum layer_part part)
{
	const struct config *c = s->env->config;
	const struct layer_weights *l = &s->env->weights->layer[layer];
	const float *post_norm = weights_vector(l, part == PART_FEED_FORWARD
							   ? TENSOR_FEED_FORWARD_POST_NORM
							   : TENSOR_MIXER_POST_NORM);
	struct residual_task z = residual_task_of(s, NULL, s->scratch->residual.factors);
	z.out = s->scratch->out;
	if (post_norm)
		activation_norm(s, s->scratch->out, s->scratch->out, NULL, post_norm, s->n);
	switch (c->streams.kind) {
	case STREAMS_GATED:
		threads_run(s->env->threads, s->n, 2, residual_add_gated, &z);
		break;
	case STREAMS_MIXED:
		threads_run(s->env->threads, s->n, 2, residual_add_mixed, &z);
		break;
	default:
		threads_run(s->env->threads, s->n, ADD_ROWS, residual_add_plain, &z);
		break;
	}
}

void residual_copy(const struct config *c, float *x)
{
	for (uint32_t s = 1; s < c->streams.count; s++)
		memcpy(x + (size_t)s * c->hidden_size, x, c->hidden_size * sizeof *x);
}

void residual_end(struct step *s, const uint32_t *rows, uint32_t n)
{
	const struct config *c = s->env->config;
	const struct layer_weights *once = &s->env->weights->once;
	struct residual_task z =
		residual_task_of(s, s->scratch->normed.f, s->scratch->residual.factors);
	z.rows = rows;
	z.ends = true;
	z.norm = weights_vector(once, TENSOR_FINAL_NORM);
	if (c->streams.kind == STREAMS_GATED)
		residual_read_gated(&z, &once->m[TENSOR_GATED_END_NORM], n);
	else if (c->streams.kind == STREAMS_MIXED && !c->streams.mean)
		residual_read_mixed(&z, &once->m[TENSOR_MIXED_END], n);
	else if (c->streams.kind == STREAMS_MIXED)
		threads_run(s->env->threads, n, 2, residual_mean, &z);
	else
		activation_norm(s, s->scratch->normed.f, s->stream->x, rows, z.norm, n);
	activation_changed(&s->scratch->normed);
}
