/* Rows of a step and the states of recurrent layers. See recurrent_rows.h. */
#include "engine/cpu/recurrent_rows.h"

#include <string.h>

_Static_assert((int)RECURRENT_BEHIND >= (int)ANSWER_ROWS - 1, "a state may be behind by a draft");

/* A layer's state in a context. */
struct recurrent_state {
	float *matrices; /* [heads][key_dim][value_dim] */
	float *before;	 /* [width - 1][channels]: the convolution's last inputs */
	float *kept;	 /* [behind][row]: rows that the state has yet to move on by */
	uint32_t behind;
};

static struct recurrent_state recurrent_state_of(const struct recurrent_rows *r,
						 const struct step_span *span)
{
	float *at = span->context->recurrent.now + r->at;
	float *before = at + r->shape.matrices;
	return (struct recurrent_state){
		.matrices = at,
		.before = before,
		.kept = before + (size_t)(r->shape.width - 1) * r->shape.channels,
		.behind = span->context->recurrent.behind,
	};
}

struct recurrent_rows recurrent_rows_of(const struct step *s, uint32_t layer,
					const float *const part[RECURRENT_PARTS])
{
	const struct config *c = s->env->config;
	struct recurrent_rows r = {
		.step = s,
		.weights = &s->env->weights->layer[layer],
		.shape = recurrent_shape_of(c, c->layer[layer].mixer),
		.at = recurrent_layer_at(c, layer),
	};
	memcpy(r.part, part, sizeof r.part);
	return r;
}

/* ---- the convolution ---- */

/* The input `back` tokens before a span's row t, which may be one of an earlier step. */
static const float *recurrent_input(const struct recurrent_rows *r, const struct step_span *span,
				    const struct recurrent_state *s, uint32_t t, uint32_t back)
{
	size_t channels = r->shape.channels;
	if (back <= t)
		return r->part[RECURRENT_INPUT] + (size_t)(span->first + t - back) * channels;
	back -= t;
	if (back <= s->behind)
		return s->kept + (s->behind - back) * recurrent_row_floats(&r->shape);
	back -= s->behind;
	return s->before + (size_t)(r->shape.width - 1 - back) * channels;
}

void recurrent_rows_taps(const struct recurrent_rows *r, uint32_t row, const float **taps)
{
	const struct step_span *span = step_span_of(r->step, row);
	const struct recurrent_state s = recurrent_state_of(r, span);
	for (uint32_t i = 0; i < r->shape.width; i++)
		taps[i] = recurrent_input(r, span, &s, row - span->first, r->shape.width - 1 - i);
}

/* ---- matrices ---- */

/* Adjacent rows after the convolution, with their gates. */
struct recurrent_run {
	uint32_t n, commit; /* all rows, and the first of them, by which the state moves on */
	const float *mixed, *decay, *factor;
	size_t stride, decay_stride, factor_stride;
	float *out;
	size_t out_stride;
};

/* Moves a head through rows. */
static void recurrent_step_head(const struct recurrent_heads *x, const struct recurrent_state *s,
				const struct recurrent_run *r, uint32_t h)
{
	/* Heads share keys: with their neighbours, or with heads at a distance. */
	uint32_t key_head = x->tiled ? h % x->key_heads : h / (x->heads / x->key_heads);
	size_t decays = x->rows->shape.row[RECURRENT_DECAY] / x->heads;
	struct delta steps = {
		.rule = x->rule,
		.key_dim = x->key_dim,
		.value_dim = x->value_dim,
		.n = r->n,
		.commit = r->commit,
		.state = s->matrices + (size_t)h * x->key_dim * x->value_dim,
		.q = r->mixed + x->q + (size_t)key_head * x->key_dim,
		.k = r->mixed + x->k + (size_t)key_head * x->key_dim,
		.key_stride = r->stride,
		.v = r->mixed + x->v + (size_t)h * x->value_dim,
		.value_stride = r->stride,
		.decay = r->decay + h * decays,
		.decay_stride = r->decay_stride,
		.beta = r->factor + h,
		.beta_stride = r->factor_stride,
		.out = r->out + (size_t)h * x->value_dim,
		.out_stride = r->out_stride,
	};
	x->rows->step->env->kernels->delta_steps(&steps, 0, x->value_dim);
}

/* The rows that the state is behind. Their outputs were used when they were new: all of them are
 * written where the step's first row writes its own afterwards. */
static struct recurrent_run recurrent_run_behind(const struct recurrent_rows *r,
						 const struct recurrent_state *s, float *out)
{
	const size_t *row = r->shape.row, stride = recurrent_row_floats(&r->shape);
	const float *mixed = s->kept + row[RECURRENT_INPUT],
		    *decay = mixed + row[RECURRENT_MIXED];
	return (struct recurrent_run){
		.n = s->behind,
		.commit = s->behind,
		.mixed = mixed,
		.decay = decay,
		.factor = decay + row[RECURRENT_DECAY],
		.stride = stride,
		.decay_stride = stride,
		.factor_stride = stride,
		.out = out,
	};
}

static struct recurrent_run recurrent_run_of(const struct recurrent_heads *x,
					     const struct step_span *span)
{
	const struct recurrent_rows *r = x->rows;
	const size_t *row = r->shape.row, outs = (size_t)x->heads * x->value_dim;
	return (struct recurrent_run){
		.n = span->n,
		.commit = span->certain,
		.mixed = r->part[RECURRENT_MIXED] + span->first * row[RECURRENT_MIXED],
		.decay = r->part[RECURRENT_DECAY] + span->first * row[RECURRENT_DECAY],
		.factor = r->part[RECURRENT_FACTOR] + span->first * row[RECURRENT_FACTOR],
		.stride = row[RECURRENT_MIXED],
		.decay_stride = row[RECURRENT_DECAY],
		.factor_stride = row[RECURRENT_FACTOR],
		.out = x->out + span->first * outs,
		.out_stride = outs,
	};
}

/* Items are (span, head). */
static void recurrent_step_heads(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_heads *x = ctx;
	for (uint32_t i = begin; i < end; i++) {
		const struct step_span *span = &x->rows->step->spans[i / x->heads];
		const struct recurrent_state s = recurrent_state_of(x->rows, span);
		struct recurrent_run rows = recurrent_run_of(x, span),
				     behind = recurrent_run_behind(x->rows, &s, rows.out);
		if (behind.n)
			recurrent_step_head(x, &s, &behind, i % x->heads);
		recurrent_step_head(x, &s, &rows, i % x->heads);
	}
}

void recurrent_heads_run(const struct recurrent_heads *h)
{
	const struct step *s = h->rows->step;
	threads_run(s->env->threads, s->span_count * h->heads, 1, recurrent_step_heads, (void *)h);
}

/* ---- the end of a step ---- */

/* Keeps the last inputs of the convolution by which the state has moved on, old and new ones. */
static void recurrent_keep_inputs(const struct recurrent_rows *r, const struct step_span *span,
				  const struct recurrent_state *s)
{
	size_t channels = r->shape.channels;
	uint32_t kept = r->shape.width - 1;
	for (uint32_t i = 0; i < kept; i++) /* ascending: each is read before it is overwritten */
		memmove(s->before + i * channels,
			recurrent_input(r, span, s, span->certain - 1, kept - 1 - i),
			channels * sizeof *s->before);
}

/* Keeps the drafted rows, by which the state is behind from now on. */
static void recurrent_keep_drafts(const struct recurrent_rows *r, const struct step_span *span,
				  const struct recurrent_state *s)
{
	float *at = s->kept;
	for (size_t row = span->first + span->certain; row < span->first + span->n; row++)
		for (int i = 0; i < RECURRENT_PARTS; at += r->shape.row[i++])
			if (r->shape.row[i])
				memcpy(at, r->part[i] + row * r->shape.row[i],
				       r->shape.row[i] * sizeof *at);
}

void recurrent_rows_keep(const struct recurrent_rows *r)
{
	const struct step *step = r->step;
	for (const struct step_span *s = step->spans; s < step->spans + step->span_count; s++) {
		const struct recurrent_state state = recurrent_state_of(r, s);
		recurrent_keep_inputs(r, s, &state);
		recurrent_keep_drafts(r, s, &state);
	}
}
