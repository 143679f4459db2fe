#include "engine/compute/draft_layer.h"

#include <errno.h>
#include <stdlib.h>

/* Rows that are joined and projected at once: the projection is the only product of twice the
 * width, and scratch for a chunk of it would take megabytes. */
enum { JOINED_ROWS = 64 };

static size_t lay_out(struct draft_layer *d, const struct config *c, void *memory)
{
	struct arena a = {.memory = memory};
	activation_take(&a, &d->joined, JOINED_ROWS, 2 * c->hidden_size);
	return a.used;
}

uint64_t draft_layer_bytes(const struct config *c)
{
	struct draft_layer d;
	return lay_out(&d, c, NULL);
}

int draft_layer_init(struct draft_layer *d, struct forward *f, struct err *e)
{
	*d = (struct draft_layer){.forward = f};
	size_t bytes = lay_out(d, f->env.config, NULL);
	d->memory = aligned_alloc(ARENA_ALIGNMENT, bytes);
	if (!d->memory)
		return err_set(e, ENOMEM, "out of memory for %zu KB of drafting", bytes >> 10);
	lay_out(d, f->env.config, d->memory);
	return 0;
}

void draft_layer_free(struct draft_layer *d)
{
	free(d->memory);
	*d = (struct draft_layer){0};
}

/* joined[0 … n-1] from the embeddings and hidden states of rows first … first + n - 1. */
struct joining {
	const struct draft_layer *d;
	const float *hidden;
	uint32_t first;
};

static void join_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct joining *j = ctx;
	const struct forward *f = j->d->forward;
	const struct config *c = f->env.config;
	const struct layer_weights *once = &f->env.weights->once;
	uint32_t width = c->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float *row = j->d->joined.f + 2 * t * width;
		size_t from = (j->first + t) * width;
		f->env.kernels->rmsnorm(row, f->scratch.x + from,
					weights_vector(once, TENSOR_DRAFT_EMBEDDING_NORM), width,
					c->rms_eps);
		f->env.kernels->rmsnorm(row + width, j->hidden + from,
					weights_vector(once, TENSOR_DRAFT_HIDDEN_NORM), width,
					c->rms_eps);
	}
}

/* The rows' embeddings in the stream become the layer's input. */
static void project(struct draft_layer *d, const float *hidden, uint32_t n)
{
	const struct environment *env = &d->forward->env;
	const struct matrix *w = &env->weights->once.m[TENSOR_DRAFT_PROJECTION];
	for (uint32_t first = 0; first < n; first += JOINED_ROWS) {
		uint32_t rows = n - first < JOINED_ROWS ? n - first : JOINED_ROWS;
		struct joining j = {d, hidden, first};
		struct product p = {
			d->forward->scratch.x + (size_t)first * env->config->hidden_size, w};
		threads_run(env->threads, rows, 8, join_rows, &j);
		activation_changed(&d->joined);
		product_run(env, &p, 1, &d->joined, rows);
	}
}

/* Rows before their layer: room in the context, and the layer's input in the stream. They are an
 * answer's: of a prompt nobody wants the guesses. */
static int begin_rows(struct draft_layer *d, const struct step_span *span, const uint32_t *tokens,
		      const float *hidden, struct step *s, struct err *e)
{
	int failed = context_reserve(span->context, span->position + span->n, e);
	if (failed)
		return failed;
	*s = forward_step(d->forward, span, 1);
	for (uint32_t t = 0; t < span->n && !failed; t++)
		failed = forward_embed(s, t, tokens[t], e);
	if (!failed)
		project(d, hidden, span->n);
	return failed;
}

static struct step_span span_of(const struct draft_layer *d, struct context *x, uint32_t n)
{
	return (struct step_span){
		.context = x,
		.n = n,
		.position = (uint32_t)x->tokens.count,
		.certain = n,
		.losses = d->losses,
	};
}

/* Rows after their layer, which may have failed. */
static int end_rows(struct context *x, const uint32_t *tokens, uint32_t n, int failed,
		    struct err *e)
{
	size_t position = x->tokens.count;
	if (!failed)
		failed = token_list_append(&x->tokens, tokens, n, e);
	if (failed)
		context_rollback(x, position);
	return failed;
}

int draft_layer_run(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		    const float *hidden, uint32_t n, float *all_logits, struct err *e)
{
	struct forward *f = d->forward;
	struct step s;
	struct step_span span = span_of(d, x, n);
	int failed = begin_rows(d, &span, tokens, hidden, &s, e);
	if (!failed)
		failed = forward_layer(f, &s, f->env.config->layers, e);
	failed = end_rows(x, tokens, n, failed, e);
	if (failed)
		return failed;
	uint32_t last = n - 1;
	forward_normalise(&s, TENSOR_DRAFT_NORM, all_logits ? NULL : &last, all_logits ? n : 1);
	forward_head(&s, all_logits ? n : 1, all_logits ? all_logits : f->scratch.logits);
	return 0;
}

int draft_layer_keys(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		     const float *hidden, uint32_t n, struct err *e)
{
	struct forward *f = d->forward;
	struct step s;
	struct step_span span = span_of(d, x, n);
	int failed = begin_rows(d, &span, tokens, hidden, &s, e);
	if (!failed)
		forward_layer_keys(f, &s, f->env.config->layers);
	return end_rows(x, tokens, n, failed, e);
}
