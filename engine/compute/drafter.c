/* Drafts: prompt lookup, the draft layer, and the drafter that follows a text. See drafter.h. */
#include "engine/compute/drafter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- prompt lookup ---- */

/* How many tokens before `end` agree with those before `count`, at most LOOKUP_MOST. */
static uint32_t drafter_agreement(const uint32_t *tokens, size_t end, size_t count)
{
	uint32_t n = 0;
	while (n < LOOKUP_MOST && n < end && tokens[end - 1 - n] == tokens[count - 1 - n])
		n++;
	return n;
}

uint32_t drafter_lookup(const uint32_t *tokens, size_t count, uint32_t *draft, uint32_t most,
			uint32_t *matched)
{
	size_t place = 0;
	*matched = 0;
	for (size_t end = count ? count - 1 : 0; end >= LOOKUP_LEAST && *matched < LOOKUP_MOST;
	     end--) {
		uint32_t n = drafter_agreement(tokens, end, count);
		if (n >= LOOKUP_LEAST && n > *matched) {
			*matched = n;
			place = end;
		}
	}
	if (!*matched)
		return 0;
	for (uint32_t i = 0; i < most; i++)
		draft[i] = place + i < count ? tokens[place + i] : draft[place + i - count];
	return most;
}

/* ---- the draft layer ---- */

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

/* joined[0 … n-1] from the embeddings and hidden states of rows first … first + n - 1. */
struct drafter_joining {
	const struct draft_layer *d;
	const float *hidden;
	uint32_t first;
};

static void drafter_join_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct drafter_joining *j = ctx;
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

/* Makes the layer's input of the rows' embeddings, in the stream, and of their hidden states. */
static void drafter_project(struct draft_layer *d, const float *hidden, uint32_t n)
{
	const struct environment *env = &d->forward->env;
	const struct matrix *w = &env->weights->once.m[TENSOR_DRAFT_PROJECTION];
	for (uint32_t first = 0; first < n; first += JOINED_ROWS) {
		uint32_t rows = n - first < JOINED_ROWS ? n - first : JOINED_ROWS;
		struct drafter_joining j = {d, hidden, first};
		struct product p = {
			d->forward->scratch.x + (size_t)first * env->config->hidden_size, w};
		threads_run(env->threads, rows, 8, drafter_join_rows, &j);
		activation_changed(&d->joined);
		product_run(env, &p, 1, &d->joined, rows);
	}
}

/* Computes rows as an answer's: guesses are only wanted of answers. keys: no output, no logits. */
static int drafter_layer_pass(struct draft_layer *d, struct context *x, const uint32_t *tokens,
			      const float *hidden, uint32_t n, bool keys, float *all_logits,
			      struct err *e)
{
	struct forward *f = d->forward;
	const uint32_t position = (uint32_t)x->tokens.count, layer = f->env.config->layers;
	struct step_span span = {
		.context = x, .n = n, .position = position, .certain = n, .losses = d->losses};
	int failed = context_reserve(x, position + n, e);
	struct step s = forward_step(f, &span, 1);
	for (uint32_t t = 0; t < n && !failed; t++)
		failed = forward_embed(&s, t, tokens[t], e);
	if (!failed)
		drafter_project(d, hidden, n);
	if (!failed && keys)
		forward_layer_keys(f, &s, layer);
	else if (!failed)
		failed = forward_layer(f, &s, layer, e);
	if (!failed)
		failed = token_list_append(&x->tokens, tokens, n, e);
	if (failed)
		context_rollback(x, position);
	if (failed || keys)
		return failed;
	uint32_t last = n - 1;
	forward_normalise(&s, TENSOR_DRAFT_NORM, all_logits ? NULL : &last, all_logits ? n : 1);
	forward_head(&s, all_logits ? n : 1, all_logits ? all_logits : f->scratch.logits);
	return 0;
}

int drafter_layer_run(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		      const float *hidden, uint32_t n, float *all_logits, struct err *e)
{
	return drafter_layer_pass(d, x, tokens, hidden, n, false, all_logits, e);
}

int drafter_layer_keys(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		       const float *hidden, uint32_t n, struct err *e)
{
	return drafter_layer_pass(d, x, tokens, hidden, n, true, NULL, e);
}

/* ---- the drafter ---- */

static size_t drafter_waiting_bytes(uint32_t width)
{
	return context_pages((size_t)DRAFTER_ROWS * width * sizeof(float));
}

void drafter_init(struct drafter *d, struct context_budget *budget, const struct config *c,
		  enum kv_type type)
{
	*d = (struct drafter){.width = c->hidden_size};
	context_init_draft(&d->keys, budget, c, type);
}

void drafter_drop(struct drafter *d)
{
	context_rollback(&d->keys, 0);
	context_give(d->keys.budget, d->hidden, drafter_waiting_bytes(d->width));
	d->hidden = NULL;
	d->rows = d->waiting = 0;
}

void drafter_free(struct drafter *d)
{
	drafter_drop(d);
	context_free(&d->keys);
}

uint64_t drafter_full_bytes(const struct config *c, enum kv_type type, uint32_t positions)
{
	struct context keys;
	context_init_draft(&keys, NULL, c, type);
	return context_kv_bytes(&keys, positions, positions) +
	       drafter_waiting_bytes(c->hidden_size);
}

static bool drafter_is_empty(const struct drafter *d)
{
	return !d->rows && !d->waiting;
}

/* The first position without a row in keys. */
static size_t drafter_next_position(const struct drafter *d)
{
	return d->first + d->rows;
}

/* Drops the rows and rests, unless there is no error or the step was only stopped. Returns the
 * error. */
static int drafter_give_up(struct drafter *d, int failed)
{
	if (failed && failed != -ECANCELED) {
		drafter_drop(d);
		d->resting = true;
	}
	return failed;
}

bool drafter_yield(struct drafter *d)
{
	return !drafter_is_empty(d) && drafter_give_up(d, -ENOSPC);
}

/* ---- the drafter: turns ---- */

/* The text is not longer than the rows: keeps the rows whose next token is in the text. */
static void drafter_go_back(struct drafter *d, const struct context *x)
{
	size_t count = x->tokens.count;
	const float *noted = context_noted(x);
	if (!noted || count <= d->first) {
		drafter_drop(d);
		return;
	}
	d->rows = context_rollback(&d->keys, count - 1 - d->first);
	memcpy(d->hidden, noted, d->width * sizeof *noted);
	d->waiting = 1;
}

void drafter_begin(struct drafter *d, struct context *x)
{
	size_t count = x->tokens.count;
	d->resting = false;
	if (drafter_is_empty(d))
		return;
	context_rollback(&d->keys, d->rows);
	if (count > drafter_next_position(d) + d->waiting)
		drafter_drop(d); /* the text went on without the drafter */
	else if (count <= drafter_next_position(d))
		drafter_go_back(d, x);
	else
		d->waiting = (uint32_t)(count - drafter_next_position(d));
	if (d->waiting) /* for a checkpoint that is made now */
		context_note(x, d->hidden + (size_t)(d->waiting - 1) * d->width);
}

/* ---- the drafter: following ---- */

/* Computes the keys and values of n rows, chunk by chunk. */
static int drafter_add_rows(struct drafter *d, struct draft_layer *l, const uint32_t *tokens,
			    const float *hidden, uint32_t n, struct err *e)
{
	int failed = 0;
	for (uint32_t done = 0, piece; done < n && !failed; done += piece) {
		piece = n - done < l->forward->chunk ? n - done : l->forward->chunk;
		failed = drafter_layer_keys(l, &d->keys, tokens + done,
					    hidden + (size_t)done * d->width, piece, e);
	}
	d->rows += failed ? 0 : n;
	return drafter_give_up(d, failed);
}

/* Computes the first n rows that wait: all but the last, or all, which needs the token `next`. */
static int drafter_compute_waiting(struct drafter *d, struct draft_layer *l,
				   const struct context *x, uint32_t n, uint32_t next,
				   struct err *e)
{
	uint32_t tokens[DRAFTER_ROWS + 1];
	size_t known = x->tokens.count - drafter_next_position(d) - 1;
	memcpy(tokens, x->tokens.ids + drafter_next_position(d) + 1, known * sizeof *tokens);
	tokens[known] = next;
	context_rollback(&d->keys, d->rows);
	int failed = drafter_add_rows(d, l, tokens, d->hidden, n, e);
	if (failed)
		return failed;
	d->waiting -= n;
	memmove(d->hidden, d->hidden + (size_t)n * d->width,
		(size_t)d->waiting * d->width * sizeof *d->hidden);
	return 0;
}

bool drafter_ready(const struct drafter *d, const struct context *x)
{
	return d->waiting && drafter_next_position(d) + d->waiting == x->tokens.count;
}

/* Forgets all rows but the last `keep` that wait, with which the rows begin anew. */
static void drafter_forget(struct drafter *d, uint32_t keep)
{
	uint32_t gone = d->waiting > keep ? d->waiting - keep : 0;
	context_rollback(&d->keys, 0);
	d->first += d->rows + gone;
	d->rows = 0;
	d->waiting -= gone;
	memmove(d->hidden, d->hidden + (size_t)gone * d->width,
		(size_t)d->waiting * d->width * sizeof *d->hidden);
}

uint32_t drafter_make_room(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t next, enum row_kind kind, bool keys)
{
	struct err ignored; /* the drafter rests after an error */
	uint32_t step = kind == ROW_PROMPT ? DRAFTER_ROWS : ANSWER_ROWS, n = d->waiting;
	if (!drafter_ready(d, x))
		return 0;
	if (keys && n + step > DRAFTER_ROWS)
		return drafter_compute_waiting(d, l, x, n, next, &ignored) ? 0 : n;
	if (!keys && n + step > DRAFTER_MOST_LAST)
		drafter_forget(d, DRAFTER_LAST);
	return 0;
}

/* Takes memory and sets where the rows begin; false: the drafter cannot follow the text. */
static bool drafter_begin_rows(struct drafter *d, size_t position)
{
	struct err ignored;
	if (d->resting)
		return false;
	if (drafter_is_empty(d))
		d->first = position;
	if (!d->hidden)
		d->hidden = context_take(d->keys.budget, drafter_waiting_bytes(d->width), &ignored);
	if (!d->hidden)
		(void)drafter_give_up(d, -ENOSPC);
	return d->hidden;
}

/* Keeps the hidden states of n rows, which wait. */
static void drafter_wait_rows(struct drafter *d, const float *rows, uint32_t n)
{
	memcpy(d->hidden + (size_t)d->waiting * d->width, rows,
	       (size_t)n * d->width * sizeof *rows);
	d->waiting += n;
}

void drafter_follow_prompt(struct drafter *d, struct draft_layer *l, struct context *x, uint32_t n,
			   bool keys)
{
	struct err ignored;
	size_t count = x->tokens.count, position = count - n;
	const float *rows = l->forward->scratch.normed.f, *last = rows + (size_t)(n - 1) * d->width;
	if (!drafter_begin_rows(d, position))
		return;
	context_note(x, last);
	if (!keys || d->waiting) { /* begins anew with the last of these rows */
		uint32_t kept = n < DRAFTER_LAST ? n : DRAFTER_LAST;
		drafter_forget(d, 0);
		d->first = count - kept;
		drafter_wait_rows(d, rows + (size_t)(n - kept) * d->width, kept);
		return;
	}
	drafter_wait_rows(d, last, 1);
	(void)drafter_add_rows(d, l, x->tokens.ids + position + 1, rows, n - 1, &ignored);
}

void drafter_follow_answer(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t n)
{
	if (!drafter_begin_rows(d, x->tokens.count - n))
		return;
	if (d->keys.tokens.count > d->rows) { /* a draft began with the row that waited */
		d->rows++;
		d->waiting = 0;
	}
	context_rollback(&d->keys, d->rows);
	drafter_wait_rows(d, l->forward->scratch.normed.f, n);
}

/* ---- the drafter: drafting ---- */

int drafter_catch_up(struct drafter *d, struct draft_layer *l, const struct context *x,
		     struct err *e)
{
	return drafter_compute_waiting(d, l, x, d->waiting - 1, 0, e);
}

int drafter_first(struct drafter *d, struct draft_layer *l, const struct context *x, uint32_t next,
		  struct err *e)
{
	int failed = drafter_catch_up(d, l, x, e);
	if (failed)
		return failed;
	failed = drafter_layer_run(l, &d->keys, &next, d->hidden, 1, NULL, e);
	return drafter_give_up(d, failed);
}

int drafter_next(struct drafter *d, struct draft_layer *l, uint32_t next, struct err *e)
{
	const float *own = l->forward->scratch.normed.f;
	return drafter_give_up(d, drafter_layer_run(l, &d->keys, &next, own, 1, NULL, e));
}
