/* The draft layer: rows of one context or of several through the layer that follows the model's
 * own. See drafter.h. */
#include "engine/compute/drafter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rows that are joined and projected at once: the projection is the only product of twice the
 * width, and scratch for a chunk of it would take megabytes. */
enum { JOINED_ROWS = 64 };

/* Places the arrays in memory; NULL: only measures. Returns their bytes. */
static size_t drafter_lay_out(struct draft_layer *d, const struct config *c, void *memory)
{
	struct arena a = {.memory = memory};
	activation_take(&a, &d->joined, JOINED_ROWS, 2 * c->hidden_size);
	return a.used;
}

uint64_t drafter_layer_bytes(const struct config *c)
{
	struct draft_layer d;
	return drafter_lay_out(&d, c, NULL);
}

int drafter_layer_init(struct draft_layer *d, struct forward *f, struct err *e)
{
	*d = (struct draft_layer){.forward = f};
	size_t bytes = drafter_lay_out(d, f->env.config, NULL);
	d->memory = aligned_alloc(ARENA_ALIGNMENT, bytes);
	if (!d->memory)
		return err_set(e, ENOMEM, "out of memory for %zu KB of drafting", bytes >> 10);
	drafter_lay_out(d, f->env.config, d->memory);
	return 0;
}

void drafter_layer_free(struct draft_layer *d)
{
	free(d->memory);
	*d = (struct draft_layer){0};
}

/* The next rows of the layer's input: their embeddings are in the stream from row `first` on. */
struct drafter_joining {
	const struct draft_layer *d;
	uint32_t first;
	const float *hidden[JOINED_ROWS]; /* [hidden size] each */
};

/* joined[begin … end - 1] from the embeddings and hidden states. */
static void drafter_join_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct drafter_joining *j = ctx;
	const struct forward *f = j->d->forward;
	const struct config *c = f->env.config;
	const struct layer_weights *once = &f->env.weights->once;
	uint32_t width = c->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float *row = j->d->joined.f + 2 * t * width;
		f->env.kernels->rmsnorm(row, f->scratch.pass.x + (j->first + t) * width,
					weights_vector(once, TENSOR_DRAFT_EMBEDDING_NORM), width,
					c->rms_eps);
		f->env.kernels->rmsnorm(row + width, j->hidden[t],
					weights_vector(once, TENSOR_DRAFT_HIDDEN_NORM), width,
					c->rms_eps);
	}
}

/* Makes the layer's input of the embeddings of the rows that are joined. */
static void drafter_project(struct draft_layer *d, struct drafter_joining *j, uint32_t n)
{
	const struct environment *env = &d->forward->env;
	const struct matrix *w = &env->weights->once.m[TENSOR_DRAFT_PROJECTION];
	struct product p = {
		d->forward->scratch.pass.x + (size_t)j->first * env->config->hidden_size, w};
	threads_run(env->threads, n, 8, drafter_join_rows, j);
	activation_changed(&d->joined);
	product_run(env, &p, 1, &d->joined, n);
	j->first += n;
}

/* Makes the layer's input of all rows that live. */
static void drafter_project_spans(struct draft_layer *d, const struct step *s,
				  const struct draft_rows *rows)
{
	uint32_t width = d->forward->env.config->hidden_size, n = 0;
	struct drafter_joining j = {.d = d};
	for (uint32_t i = 0; i < s->span_count; i++) {
		while (rows->context != s->spans[i].context)
			rows++;
		for (size_t t = 0; t < s->spans[i].n; t++) {
			j.hidden[n++] = rows->hidden + t * width;
			if (n < JOINED_ROWS)
				continue;
			drafter_project(d, &j, n);
			n = 0;
		}
	}
	if (n)
		drafter_project(d, &j, n);
}

/* Begins a step of the rows: computed as an answer's, since guesses are only wanted of answers. */
static void drafter_begin_step(struct forward *f, struct forward_pass *p,
			       const struct draft_rows *rows, uint32_t count)
{
	struct err why;
	uint32_t first = 0;
	for (uint32_t i = 0; i < count; first += rows[i++].n)
		p->spans[i] = (struct step_span){
			.context = rows[i].context,
			.first = first,
			.n = rows[i].n,
			.origin = first,
			.position = (uint32_t)rows[i].context->tokens.count,
			.certain = rows[i].n,
			.losses = rows[i].losses,
			.account = rows[i].account,
		};
	p->step = forward_step(f, p, count);
	for (uint32_t i = 0; i < count; i++) {
		struct step_span *span = &p->spans[i];
		step_open(span);
		if (context_reserve(span->context, span->position + span->n, &why))
			step_kill(&p->step, span, 0, SPAN_FAILED, &why);
		for (uint32_t t = 0; t < span->n; t++)
			if (forward_embed(&p->step, span->first + t, rows[i].tokens[t], &why))
				step_kill(&p->step, span, 0, SPAN_FAILED, &why);
	}
	if (p->step.died)
		step_close_up(&p->step);
}

/* Computes the rows, and leaves those that live in the stream. keys_only: no more than the keys and
 * values that later rows attend to. */
static int drafter_pass(struct draft_layer *d, const struct draft_rows *rows, uint32_t count,
			bool keys_only, struct err *e)
{
	struct forward *f = d->forward;
	struct forward_pass *p = &f->scratch.pass;
	uint32_t layer = f->env.config->layers;
	int failed = 0;
	drafter_begin_step(f, p, rows, count);
	struct step *s = &p->step;
	if (s->n)
		drafter_project_spans(d, s, rows);
	if (s->n && keys_only)
		forward_layer_keys(f, s, layer);
	else if (s->n)
		failed = forward_layer(f, s, layer, e);
	for (uint32_t i = 0; i < s->span_count; i++) {
		struct step_span *span = &s->spans[i];
		while (rows->context != span->context)
			rows++;
		if (failed)
			step_kill(s, span, 0, SPAN_FAILED, e);
		else
			step_close(s, span, rows->tokens);
	}
	return failed ? failed : step_lost(s, e);
}

/* The result of the rows' span as that of a call. */
static int drafter_ended(const struct draft_rows *rows, struct err *e)
{
	const struct step_account *account = rows->account;
	if (!account || account->end == SPAN_DONE)
		return 0;
	*e = account->error;
	return -e->code;
}

int drafter_layer_run(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		      const float *hidden, uint32_t n, float *all_logits, struct err *e)
{
	struct draft_rows rows = {x, tokens, hidden, n, d->losses, d->account};
	struct forward *f = d->forward;
	struct step *s = &f->scratch.pass.step;
	uint32_t last = n - 1;
	int failed = drafter_pass(d, &rows, 1, false, e);
	if (!failed)
		failed = drafter_ended(&rows, e);
	if (failed)
		return failed;
	forward_normalise(s, TENSOR_DRAFT_NORM, all_logits ? NULL : &last, all_logits ? n : 1);
	forward_head(s, all_logits ? n : 1, all_logits ? all_logits : f->scratch.logits);
	return 0;
}

int drafter_layer_keys(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		       const float *hidden, uint32_t n, struct err *e)
{
	struct draft_rows rows = {x, tokens, hidden, n, d->losses, d->account};
	int failed = drafter_pass(d, &rows, 1, true, e);
	return failed ? failed : drafter_ended(&rows, e);
}

/* Gives the reader the logits of each context's last row. Returns how many rows live; their places
 * and numbers are the pass's `wanted`. */
static int drafter_give_logits(struct draft_layer *d, const struct draft_rows *rows,
			       uint32_t *lived, const struct draft_reader *reader, struct err *e)
{
	struct forward *f = d->forward;
	struct forward_pass *p = &f->scratch.pass;
	struct step *s = &p->step;
	uint32_t count = 0, entry = 0;
	for (uint32_t i = 0; i < s->span_count; i++) {
		const struct step_span *span = &s->spans[i];
		while (rows[entry].context != span->context)
			entry++;
		if (!span->n)
			continue;
		p->wanted[count] = span->first + span->n - 1;
		p->wanted_row[count++] = entry;
	}
	*lived = count;
	int failed = 0;
	for (uint32_t done = 0, n; done < count && !failed; done += n) {
		n = count - done < HEAD_ROWS ? count - done : HEAD_ROWS;
		forward_normalise(s, TENSOR_DRAFT_NORM, p->wanted + done, n);
		forward_head(s, n, f->scratch.logits);
		failed = reader->read(reader->ctx, p->wanted_row + done, n, f->scratch.logits, e);
	}
	return failed;
}

int drafter_layer_run_together(struct draft_layer *d, const struct draft_rows *rows, uint32_t count,
			       const struct draft_reader *reader, struct err *e)
{
	const struct forward_pass *p = &d->forward->scratch.pass;
	float *normed = d->forward->scratch.normed.f;
	size_t width = d->forward->env.config->hidden_size;
	uint32_t lived;
	int failed = drafter_pass(d, rows, count, false, e);
	if (!failed)
		failed = drafter_give_logits(d, rows, &lived, reader, e);
	if (failed)
		return failed;
	forward_normalise(&d->forward->scratch.pass.step, TENSOR_DRAFT_NORM, p->wanted, lived);
	for (uint32_t i = lived; i-- > 0;) /* the last first: each moves up */
		memmove(normed + p->wanted_row[i] * width, normed + i * width,
			width * sizeof *normed);
	return 0;
}

int drafter_layer_keys_together(struct draft_layer *d, const struct draft_rows *rows,
				uint32_t count, struct err *e)
{
	return drafter_pass(d, rows, count, true, e);
}
