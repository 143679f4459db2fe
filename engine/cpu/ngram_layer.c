/* Embeddings of n-grams in a layer (Qwen 4, per-layer embeddings), added to all streams before the
 * layer's mixer. See layers.h.
 *
 * A token's rows of the table, one after the other, are projected to a value and, for each stream, a
 * key. With q the norm of the stream, g = key · q / √hidden says how open a stream is to the value:
 * y = sigmoid(sign(g) · √max(|g|, 1e-6)) · value. To the stream is added y, and silu of a depthwise
 * convolution over the norms of y, whose taps are as many positions apart as the longest n-gram has
 * tokens. Its past inputs are kept with the context, by which it is always computed: so a row's bits
 * do not depend on the chunk. */
#include "engine/cpu/layers.h"
#include "engine/compute/ngrams.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

static const float least_gate = 1e-6F;

void ngram_take(struct ngram_scratch *s, struct arena *arena, const struct config *c, size_t rows)
{
	*s = (struct ngram_scratch){0};
	if (!c->ngrams.tables)
		return;
	size_t width = config_stream_width(c);
	activation_take(arena, &s->rows, rows, c->ngrams.dim);
	s->index = arena_take(arena, rows * c->ngrams.hash[0].rows, sizeof *s->index);
	s->keys = arena_take(arena, rows * width, sizeof *s->keys);
	s->values = arena_take(arena, rows * c->hidden_size, sizeof *s->values);
	s->added = arena_take(arena, rows * width, sizeof *s->added);
	s->errors = arena_take(arena, rows, sizeof *s->errors);
	s->waited = arena_take(arena, rows, sizeof *s->waited);
}

struct ngram_task {
	struct ngram_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	const struct layer *layer;
};

/* ---- rows of the table ---- */

/* Fills the numbers of the rows that row t of the step has, by its tokens. */
static void ngram_find_row(const struct step *s, const struct ngram_hash *h, uint32_t t,
			   uint64_t *rows)
{
	const struct step_span *span = step_span_of(s, t);
	const uint32_t *tokens = s->tokens + span->origin, *held = span->context->tokens.ids;
	uint32_t before[NGRAM_SIZE], count = 0, at = t - span->first;
	for (; count + 1 < h->size && count < span->position + at; count++)
		before[count] = count < at ? tokens[at - 1 - count]
					   : held[span->position - 1 - (count - at)];
	ngram_hash_rows(h, tokens[at], before, count, rows);
}

static const struct ngram_hash *ngram_hash_of(const struct step *s, const struct layer *l)
{
	return &s->env->config->ngrams.hash[l->ngrams - 1];
}

void ngram_ahead(const struct step *s)
{
	const struct config *c = s->env->config;
	uint64_t rows[NGRAM_ROWS];
	for (uint32_t layer = 0; layer < c->layers && c->ngrams.tables; layer++) {
		const struct layer *l = &c->layer[layer];
		if (!l->ngrams)
			continue;
		const struct ngram_hash *h = ngram_hash_of(s, l);
		for (uint32_t t = 0; t < s->n; t++) {
			ngram_find_row(s, h, t, rows);
			ngrams_ahead(s->env->ngrams, l->ngrams - 1, rows, h->rows);
		}
	}
}

static void ngram_read_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct ngram_task *a = ctx;
	const struct step *s = a->step;
	const struct ngram_hash *h = ngram_hash_of(s, a->layer);
	for (size_t t = begin; t < end; t++) {
		uint64_t *rows = a->scratch->index + t * h->rows;
		struct err *e = &a->scratch->errors[t];
		ngram_find_row(s, h, (uint32_t)t, rows);
		e->code = 0;
		a->scratch->waited[t] = 0;
		(void)ngrams_read(s->env->ngrams, a->layer->ngrams - 1, rows, h->rows,
				  a->scratch->rows.f + t * a->scratch->rows.k,
				  &a->scratch->waited[t], e);
	}
}

/* Reads the rows of all that live. Rows whose reads fail die, and are taken out of the stream. */
static void ngram_read(const struct ngram_task *a, struct step *s)
{
	do {
		threads_run(s->env->threads, s->n, 1, ngram_read_rows, (void *)a);
		for (uint32_t t = 0; t < s->n; t++) {
			struct step_span *span = step_span_of(s, t);
			if (span->account) {
				span->account->ngram_rows += ngram_hash_of(s, a->layer)->rows;
				span->account->ngram_waits += a->scratch->waited[t];
			}
			if (a->scratch->errors[t].code)
				step_kill(s, span, t - span->first, SPAN_FAILED,
					  &a->scratch->errors[t]);
		}
		if (!s->died)
			return;
		step_close_up(s);
	} while (s->n);
}

/* ---- what is added ---- */

/* y of one stream, in `added`, from its key and the value; first the query is there. */
static void ngram_open_stream(const struct ngram_task *a, size_t t, size_t stream)
{
	const struct config *c = a->step->env->config;
	const struct kernels *k = a->step->env->kernels;
	size_t hidden = c->hidden_size, at = stream * hidden, row = t * config_stream_width(c) + at;
	float *key = a->scratch->keys + row, *y = a->scratch->added + row;
	k->rmsnorm(key, key, weights_vector(a->weights, TENSOR_NGRAM_KEY_NORM) + at, c->hidden_size,
		   c->rms_eps);
	k->rmsnorm(y, a->step->stream->x + row,
		   weights_vector(a->weights, TENSOR_NGRAM_QUERY_NORM) + at, c->hidden_size,
		   c->rms_eps);
	double dot = 0;
	for (size_t i = 0; i < hidden; i++)
		dot += (double)key[i] * y[i];
	float gate = (float)(dot / sqrt(c->hidden_size)), open = 1;
	float root = sqrtf(fmaxf(fabsf(gate), least_gate));
	root = gate < 0 ? -root : gate > 0 ? root : 0;
	k->sigmoid_mul(&open, &root, 1);
	for (size_t i = 0; i < hidden; i++)
		y[i] = open * a->scratch->values[t * hidden + i];
}

/* y of rows, and its norm, which is kept for the convolution. */
static void ngram_open_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct ngram_task *a = ctx;
	const struct config *c = a->step->env->config;
	size_t hidden = c->hidden_size, width = config_stream_width(c);
	const float *norm = weights_vector(a->weights, TENSOR_NGRAM_CONV_NORM);
	for (size_t t = begin; t < end; t++) {
		const struct step_span *span = step_span_of(a->step, t);
		float *keys = a->scratch->keys + t * width, *y = a->scratch->added + t * width;
		for (size_t s = 0; s < c->streams.count; s++)
			ngram_open_stream(a, t, s);
		for (size_t s = 0; s < c->streams.count; s++)
			a->step->env->kernels->rmsnorm(keys + s * hidden, y + s * hidden,
						       norm + s * hidden, c->hidden_size,
						       c->rms_eps);
		context_past_put(span->context, a->layer->past_at, width,
				 span->position + t - span->first, keys);
	}
}

/* Adds y and the convolution to channels [first, first + n) of a row of the stream. */
static void ngram_convolve(const struct ngram_task *a, size_t t, size_t first, size_t n)
{
	const struct config *c = a->step->env->config;
	const struct step_span *span = step_span_of(a->step, t);
	const struct kernels *k = a->step->env->kernels;
	size_t width = config_stream_width(c), position = span->position + t - span->first;
	float past[CONV_WIDTH][NGRAM_TILE], sum[NGRAM_TILE],
		*x = a->step->stream->x + t * width + first;
	const float *taps[CONV_WIDTH];
	for (uint32_t i = 0; i < c->ngrams.width; i++) {
		size_t back = (size_t)(c->ngrams.width - 1 - i) * c->ngrams.step;
		taps[i] = past[i];
		memset(past[i], 0, n * sizeof(float));
		if (back <= position)
			context_past_get(span->context, a->layer->past_at, width, position - back,
					 first, n, past[i]);
	}
	k->conv_silu(sum, weights_vector(a->weights, TENSOR_NGRAM_CONV) + first, NULL, taps,
		     c->ngrams.width, (uint32_t)width, 0, (uint32_t)n);
	k->add(sum, a->scratch->added + t * width + first, n);
	k->add(x, sum, n);
}

static void ngram_add_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct ngram_task *a = ctx;
	size_t width = config_stream_width(a->step->env->config);
	for (size_t t = begin; t < end; t++)
		for (size_t at = 0; at < width; at += NGRAM_TILE)
			ngram_convolve(a, t, at, width - at < NGRAM_TILE ? width - at : NGRAM_TILE);
}

void ngram_run(struct step *s, uint32_t layer)
{
	struct ngram_scratch *scratch = &s->scratch->ngrams;
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	struct ngram_task a = {scratch, s, l, &env->config->layer[layer]};
	const struct product in[] = {{scratch->keys, &l->m[TENSOR_NGRAM_KEYS]},
				     {scratch->values, &l->m[TENSOR_NGRAM_VALUES]}};
	ngram_read(&a, s);
	if (!s->n)
		return;
	activation_changed(&scratch->rows);
	product_run(env, in, 2, &scratch->rows, s->n);
	threads_run(env->threads, s->n, 1, ngram_open_rows, &a);
	threads_run(env->threads, s->n, 1, ngram_add_rows, &a);
}
