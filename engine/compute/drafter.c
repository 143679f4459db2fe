#include "engine/compute/drafter.h"

#include <errno.h>
#include <string.h>

static size_t waiting_bytes(uint32_t width)
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
	context_give(d->keys.budget, d->hidden, waiting_bytes(d->width));
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
	return context_kv_bytes(&keys, positions, positions) + waiting_bytes(c->hidden_size);
}

static bool empty(const struct drafter *d)
{
	return !d->rows && !d->waiting;
}

/* The first position without a row in keys. */
static size_t next_of(const struct drafter *d)
{
	return d->first + d->rows;
}

/* What it has failed with: the rows are lost, unless the step was only stopped. */
static int give_up(struct drafter *d, int failed)
{
	if (failed && failed != -ECANCELED) {
		drafter_drop(d);
		d->resting = true;
	}
	return failed;
}

bool drafter_yield(struct drafter *d)
{
	return !empty(d) && give_up(d, -ENOSPC);
}

/* ---- turns ---- */

/* The text is no longer than the rows: those stay whose next token is in it. */
static void go_back(struct drafter *d, const struct context *x)
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
	if (empty(d))
		return;
	context_rollback(&d->keys, d->rows);
	if (count > next_of(d) + d->waiting)
		drafter_drop(d); /* it went on unfollowed */
	else if (count <= next_of(d))
		go_back(d, x);
	else
		d->waiting = (uint32_t)(count - next_of(d));
	if (d->waiting) /* for a copy of the state that is made now */
		context_note(x, d->hidden + (size_t)(d->waiting - 1) * d->width);
}

/* ---- following ---- */

static int add_rows(struct drafter *d, struct draft_layer *l, const uint32_t *tokens,
		    const float *hidden, uint32_t n, struct err *e)
{
	int failed = 0;
	for (uint32_t done = 0, piece; done < n && !failed; done += piece) {
		piece = n - done < l->forward->chunk ? n - done : l->forward->chunk;
		failed = draft_layer_keys(l, &d->keys, tokens + done,
					  hidden + (size_t)done * d->width, piece, e);
	}
	d->rows += failed ? 0 : n;
	return give_up(d, failed);
}

/* The first n of those that wait, which are all but the last or all of them. */
static int catch_up(struct drafter *d, struct draft_layer *l, const struct context *x, uint32_t n,
		    uint32_t next, struct err *e)
{
	uint32_t tokens[DRAFTER_ROWS + 1];
	size_t known = x->tokens.count - next_of(d) - 1;
	memcpy(tokens, x->tokens.ids + next_of(d) + 1, known * sizeof *tokens);
	tokens[known] = next;
	context_rollback(&d->keys, d->rows);
	int failed = add_rows(d, l, tokens, d->hidden, n, e);
	if (failed)
		return failed;
	d->waiting -= n;
	memmove(d->hidden, d->hidden + (size_t)n * d->width,
		(size_t)d->waiting * d->width * sizeof *d->hidden);
	return 0;
}

bool drafter_ready(const struct drafter *d, const struct context *x)
{
	return d->waiting && next_of(d) + d->waiting == x->tokens.count;
}

/* All rows but the last that wait, with which they begin anew. */
static void forget(struct drafter *d, uint32_t keep)
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
	struct err ignored; /* it rests then */
	uint32_t step = kind == ROW_PROMPT ? DRAFTER_ROWS : ANSWER_ROWS, n = d->waiting;
	if (!drafter_ready(d, x))
		return 0;
	if (keys && n + step > DRAFTER_ROWS)
		return catch_up(d, l, x, n, next, &ignored) ? 0 : n;
	if (!keys && n + step > DRAFTER_MOST_LAST)
		forget(d, DRAFTER_LAST);
	return 0;
}

/* Memory, and where the rows begin; false: it cannot follow. */
static bool begin_rows(struct drafter *d, size_t position)
{
	struct err ignored;
	if (d->resting)
		return false;
	if (empty(d))
		d->first = position;
	if (!d->hidden)
		d->hidden = context_take(d->keys.budget, waiting_bytes(d->width), &ignored);
	if (!d->hidden)
		(void)give_up(d, -ENOSPC);
	return d->hidden;
}

static void wait_rows(struct drafter *d, const float *rows, uint32_t n)
{
	memcpy(d->hidden + (size_t)d->waiting * d->width, rows,
	       (size_t)n * d->width * sizeof *rows);
	d->waiting += n;
}

/* No more is known of the text than the last rows of a step of n. */
static void begin_anew(struct drafter *d, size_t count, const float *rows, uint32_t n)
{
	uint32_t last = n < DRAFTER_LAST ? n : DRAFTER_LAST;
	forget(d, 0);
	d->first = count - last;
	wait_rows(d, rows + (size_t)(n - last) * d->width, last);
}

void drafter_follow_prompt(struct drafter *d, struct draft_layer *l, struct context *x, uint32_t n,
			   bool keys)
{
	struct err ignored;
	size_t position = x->tokens.count - n;
	const float *rows = l->forward->scratch.normed.f, *last = rows + (size_t)(n - 1) * d->width;
	if (!begin_rows(d, position))
		return;
	context_note(x, last);
	if (!keys || d->waiting) {
		begin_anew(d, x->tokens.count, rows, n);
		return;
	}
	wait_rows(d, last, 1);
	(void)add_rows(d, l, x->tokens.ids + position + 1, rows, n - 1, &ignored);
}

void drafter_follow_answer(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t n)
{
	if (!begin_rows(d, x->tokens.count - n))
		return;
	if (d->keys.tokens.count > d->rows) { /* a draft began with the row that waited */
		d->rows++;
		d->waiting = 0;
	}
	context_rollback(&d->keys, d->rows);
	wait_rows(d, l->forward->scratch.normed.f, n);
}

/* ---- drafting ---- */

int drafter_catch_up(struct drafter *d, struct draft_layer *l, const struct context *x,
		     struct err *e)
{
	return catch_up(d, l, x, d->waiting - 1, 0, e);
}

int drafter_first(struct drafter *d, struct draft_layer *l, const struct context *x, uint32_t next,
		  struct err *e)
{
	int failed = drafter_catch_up(d, l, x, e);
	return failed ? failed
		      : give_up(d, draft_layer_run(l, &d->keys, &next, d->hidden, 1, NULL, e));
}

int drafter_next(struct drafter *d, struct draft_layer *l, uint32_t next, struct err *e)
{
	const float *own = l->forward->scratch.normed.f;
	return give_up(d, draft_layer_run(l, &d->keys, &next, own, 1, NULL, e));
}
