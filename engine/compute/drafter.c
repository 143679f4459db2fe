/* Drafts: prompt lookup, and the drafter that follows a text with the draft layer. See drafter.h.
 */
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

/* ---- the drafter ---- */

static size_t drafter_pending_bytes(uint32_t width)
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
	context_give(d->keys.budget, d->hidden, drafter_pending_bytes(d->width));
	d->hidden = NULL;
	d->rows = d->pending = 0;
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
	       drafter_pending_bytes(c->hidden_size);
}

static bool drafter_is_empty(const struct drafter *d)
{
	return !d->rows && !d->pending;
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
	d->pending = 1;
}

void drafter_begin(struct drafter *d, struct context *x)
{
	size_t count = x->tokens.count;
	d->resting = false;
	if (drafter_is_empty(d))
		return;
	context_rollback(&d->keys, d->rows);
	if (count > drafter_next_position(d) + d->pending)
		drafter_drop(d); /* the text continued without the drafter */
	else if (count <= drafter_next_position(d))
		drafter_go_back(d, x);
	else
		d->pending = (uint32_t)(count - drafter_next_position(d));
	if (d->pending) /* for a checkpoint that is made now */
		context_note(x, d->hidden + (size_t)(d->pending - 1) * d->width);
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

/* The first n rows are no longer pending. */
static void drafter_pending_less(struct drafter *d, uint32_t n)
{
	d->pending -= n;
	memmove(d->hidden, d->hidden + (size_t)n * d->width,
		(size_t)d->pending * d->width * sizeof *d->hidden);
}

/* Computes the first n pending rows: all but the last, or all, which needs the token `next`. */
static int drafter_compute_pending(struct drafter *d, struct draft_layer *l,
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
	drafter_pending_less(d, n);
	return 0;
}

bool drafter_ready(const struct drafter *d, const struct context *x)
{
	return d->pending && drafter_next_position(d) + d->pending == x->tokens.count;
}

/* Forgets all rows but the last `keep` pending ones, with which the rows begin again. */
static void drafter_forget(struct drafter *d, uint32_t keep)
{
	uint32_t gone = d->pending > keep ? d->pending - keep : 0;
	context_rollback(&d->keys, 0);
	d->first += d->rows + gone;
	d->rows = 0;
	drafter_pending_less(d, gone);
}

uint32_t drafter_make_room(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t next, enum row_kind kind, bool keep_keys)
{
	struct err ignored; /* the drafter rests after an error */
	uint32_t step = kind == ROW_PROMPT ? DRAFTER_ROWS : ANSWER_ROWS, n = d->pending;
	if (!drafter_ready(d, x))
		return 0;
	if (keep_keys && n + step > DRAFTER_ROWS)
		return drafter_compute_pending(d, l, x, n, next, &ignored) ? 0 : n;
	if (!keep_keys && n + step > DRAFTER_MOST_LAST)
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
		d->hidden = context_take(d->keys.budget, drafter_pending_bytes(d->width), &ignored);
	if (!d->hidden)
		(void)drafter_give_up(d, -ENOSPC);
	return d->hidden;
}

/* Keeps the hidden states of n rows, which are then pending. */
static void drafter_keep_pending(struct drafter *d, const float *rows, uint32_t n)
{
	memcpy(d->hidden + (size_t)d->pending * d->width, rows,
	       (size_t)n * d->width * sizeof *rows);
	d->pending += n;
}

void drafter_follow_prompt(struct drafter *d, struct draft_layer *l, struct context *x, uint32_t n,
			   bool keep_keys)
{
	struct err ignored;
	size_t count = x->tokens.count, position = count - n;
	const float *rows = forward_normed(l->forward), *last = rows + (size_t)(n - 1) * d->width;
	if (!drafter_begin_rows(d, position))
		return;
	context_note(x, last);
	if (!keep_keys || d->pending) { /* begins again with the last of these rows */
		uint32_t kept = n < DRAFTER_LAST ? n : DRAFTER_LAST;
		drafter_forget(d, 0);
		d->first = count - kept;
		drafter_keep_pending(d, rows + (size_t)(n - kept) * d->width, kept);
		return;
	}
	drafter_keep_pending(d, last, 1);
	(void)drafter_add_rows(d, l, x->tokens.ids + position + 1, rows, n - 1, &ignored);
}

void drafter_follow_answer(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t first, uint32_t n)
{
	if (!drafter_begin_rows(d, x->tokens.count - n))
		return;
	if (d->keys.tokens.count > d->rows) { /* a draft began with the pending row */
		d->rows++;
		d->pending = 0;
	}
	context_rollback(&d->keys, d->rows);
	drafter_keep_pending(d, forward_normed(l->forward) + (size_t)first * d->width, n);
}

/* ---- drafters side by side: drafting ---- */

/* The rows of some of the asks, in one pass. */
struct drafter_party {
	uint32_t count, row_count;
	uint32_t ask[DRAFTERS_TOGETHER]; /* whose each is */
	struct draft_rows rows[DRAFTERS_TOGETHER];
	const struct draft_reader *reader;
};

static void drafter_join_party(struct drafter_party *p, const struct draft_ask *asks, uint32_t ask,
			       const uint32_t *tokens, const float *hidden, uint32_t n)
{
	p->ask[p->count] = ask;
	p->row_count += n;
	p->rows[p->count++] = (struct draft_rows){
		.context = &asks[ask].drafter->keys,
		.tokens = tokens,
		.hidden = hidden,
		.n = n,
		.losses = asks[ask].losses,
		.account = asks[ask].account,
	};
}

/* The reader of a pass: the rows' numbers become the asks'. */
static int drafter_read_party(void *ctx, const uint32_t *rows, uint32_t n, const float *logits,
			      struct err *e)
{
	const struct drafter_party *p = ctx;
	uint32_t asks[HEAD_ROWS];
	for (uint32_t i = 0; i < n; i++)
		asks[i] = p->ask[rows[i]];
	return p->reader->read(p->reader->ctx, asks, n, logits, e);
}

/* A drafter whose rows failed rests. Returns the error of the pass, if any, which is all rows'. */
static int drafter_end_party(const struct drafter_party *p, struct draft_ask *asks, int failed)
{
	for (uint32_t i = 0; i < p->count; i++) {
		struct draft_ask *ask = &asks[p->ask[i]];
		if (failed || ask->account->end != SPAN_DONE)
			(void)drafter_give_up(ask->drafter,
					      failed ? failed : -ask->account->error.code);
	}
	return failed;
}

/* Computes pending rows, but for the last, of the asks from *done on, as many as one pass takes. */
static int drafter_catch_up_some(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
				 uint32_t *done, struct err *e)
{
	struct drafter_party p = {0};
	for (bool whole = true; *done < count && whole; *done += whole) {
		struct drafter *d = asks[*done].drafter;
		const uint32_t *ids = asks[*done].text->tokens.ids;
		uint32_t n = d->pending > 1 ? d->pending - 1 : 0, room = l->forward->chunk;
		context_rollback(&d->keys, d->rows);
		if (asks[*done].account->end != SPAN_DONE || !n)
			continue;
		whole = n <= room - p.row_count;
		n = whole ? n : room - p.row_count;
		if (n)
			drafter_join_party(&p, asks, *done, ids + drafter_next_position(d) + 1,
					   d->hidden, n);
	}
	if (!p.count)
		return 0;
	int failed =
		drafter_end_party(&p, asks, drafter_layer_keys_together(l, p.rows, p.count, e));
	for (uint32_t i = 0; i < p.count && !failed; i++)
		if (asks[p.ask[i]].account->end == SPAN_DONE) {
			asks[p.ask[i]].drafter->rows += p.rows[i].n;
			drafter_pending_less(asks[p.ask[i]].drafter, p.rows[i].n);
		}
	return failed;
}

/* A row of each ask that has not failed; `first`: from the hidden states of pending rows. */
static int drafter_advance(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
			   bool first, const struct draft_reader *reader, struct err *e)
{
	struct drafter_party p = {.reader = reader};
	const struct draft_reader read = {drafter_read_party, &p};
	const float *own = forward_normed(l->forward);
	for (uint32_t i = 0; i < count; i++) {
		struct draft_ask *ask = &asks[i];
		if (ask->account->end != SPAN_DONE)
			continue;
		drafter_join_party(&p, asks, i, &ask->next,
				   first ? ask->drafter->hidden
					 : own + (size_t)ask->row * ask->drafter->width,
				   1);
		ask->row = p.count - 1;
	}
	if (!p.count)
		return 0;
	return drafter_end_party(&p, asks,
				 drafter_layer_run_together(l, p.rows, p.count, &read, e));
}

static int drafter_check_together(const struct draft_layer *l, uint32_t count, struct err *e)
{
	if (count <= DRAFTERS_TOGETHER && count <= l->forward->chunk)
		return 0;
	return err_set(e, EINVAL, "internal error: %u drafts at once", count);
}

int drafter_catch_up_together(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
			      struct err *e)
{
	int failed = drafter_check_together(l, count, e);
	for (uint32_t i = 0; i < count; i++)
		asks[i].account->end = SPAN_DONE;
	for (uint32_t done = 0; done < count && !failed;)
		failed = drafter_catch_up_some(l, asks, count, &done, e);
	return failed;
}

int drafter_first_together(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
			   const struct draft_reader *reader, struct err *e)
{
	int failed = drafter_catch_up_together(l, asks, count, e);
	return failed ? failed : drafter_advance(l, asks, count, true, reader, e);
}

int drafter_next_together(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
			  const struct draft_reader *reader, struct err *e)
{
	int failed = drafter_check_together(l, count, e);
	return failed ? failed : drafter_advance(l, asks, count, false, reader, e);
}
