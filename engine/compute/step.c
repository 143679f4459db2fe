/* Batches, their spans, how these end, and taps. See step.h. */
#include "engine/compute/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- batches ---- */

void step_batch_clear(struct step_batch *b)
{
	b->count = 0;
	b->normed = false;
	b->read = NULL;
}

void step_batch_free(struct step_batch *b)
{
	free(b->rows);
	*b = (struct step_batch){0};
}

int step_batch_add(struct step_batch *b, const struct step_row *like, const uint32_t *tokens,
		   uint32_t n, struct err *e)
{
	uint32_t count = b->count + n;
	if (count > b->room) {
		struct step_row *rows = realloc(b->rows, count * sizeof *rows);
		if (!rows)
			return err_set(e, ENOMEM, "out of memory for a step of %u rows", count);
		b->rows = rows;
		b->room = count;
	}
	const struct step_row *last = b->count ? &b->rows[b->count - 1] : NULL;
	uint32_t position = last && last->context == like->context
				    ? last->position + 1
				    : (uint32_t)like->context->tokens.count;
	for (uint32_t t = 0; t < n; t++) {
		struct step_row *row = &b->rows[b->count++];
		*row = *like;
		row->position = position + t;
		row->token = tokens[t];
	}
	return 0;
}

/* ---- spans ---- */

/* Whether a row of the span's context may follow the span's last row. */
static bool step_continues_span(const struct step_span *s, const struct step_row *row)
{
	bool drafted = s->certain < s->n, drafts = row->kind == ROW_DRAFT;
	return row->position == s->position + s->n && (drafts || !drafted) &&
	       (drafts || s->prompt == (row->kind == ROW_PROMPT)) &&
	       s->n - s->certain + drafts < ANSWER_ROWS && s->account == row->account &&
	       step_same_losses(&s->losses, &row->losses);
}

/* Whether a row may be the first of its context. */
static bool step_begins_span(const struct step_span *spans, uint32_t count,
			     const struct step_row *row)
{
	for (uint32_t i = 0; i < count; i++)
		if (spans[i].context == row->context)
			return false;
	return row->position == row->context->tokens.count && row->kind != ROW_DRAFT;
}

int step_find_spans(const struct step_batch *b, struct step_span *spans, struct err *e)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < b->count; i++) {
		const struct step_row *row = &b->rows[i];
		struct step_span *s = count ? &spans[count - 1] : NULL;
		bool same = s && s->context == row->context;
		if (!(same ? step_continues_span(s, row) : step_begins_span(spans, count, row)))
			return err_set(e, EINVAL,
				       "internal error: row %u of a step, at position %u, does not "
				       "follow what its context holds",
				       i, row->position);
		if (!same)
			spans[count++] = (struct step_span){
				.context = row->context,
				.first = i,
				.origin = i,
				.position = row->position,
				.prompt = row->kind == ROW_PROMPT,
				.losses = row->losses,
				.account = row->account,
			};
		spans[count - 1].n++;
		spans[count - 1].certain += row->kind != ROW_DRAFT;
	}
	for (uint32_t i = 0; i < count && count > 1; i++)
		if (spans[i].account && spans[i].account->observer)
			return err_set(e, EINVAL,
				       "internal error: a step that is observed has rows of %u "
				       "contexts",
				       count);
	return (int)count;
}

/* ---- how spans end ---- */

void step_open(struct step_span *span)
{
	if (!span->account)
		return;
	span->account->end = SPAN_DONE;
	span->account->rows = 0;
	span->account->error.code = 0;
}

void step_close(struct step *s, struct step_span *span, const uint32_t *tokens)
{
	struct context *x = span->context;
	struct err why;
	if (span->n && token_list_append(&x->tokens, tokens, span->n, &why))
		step_kill(s, span, 0, SPAN_FAILED, &why);
	if (!span->n)
		return;
	x->recurrent.spoiled = false;
	x->recurrent.behind = span->n - span->certain;
	if (span->cut)
		context_rollback(x, x->tokens.count); /* gives back the dead rows' room */
	if (span->account)
		span->account->rows = span->n;
}

int step_lost(const struct step *s, struct err *e)
{
	if (!s->lost.code)
		return 0;
	*e = s->lost;
	return -e->code;
}

void step_kill(struct step *s, struct step_span *span, uint32_t from, enum span_end end,
	       const struct err *why)
{
	struct step_account *account = span->account;
	bool drafted = from >= span->certain;
	if (from >= span->n)
		return;
	s->died = true;
	span->n = drafted ? from : 0;
	span->cut = drafted;
	if (account)
		account->error = *why;
	else if (!drafted && !s->lost.code)
		s->lost = *why;
	if (drafted)
		return;
	if (account) {
		account->end = end;
		account->rows = 0;
	}
	context_rollback(span->context, span->position);
}

static bool step_span_must_stop(const struct step_span *span)
{
	return span->n && span->account && span->account->stop && atomic_load(span->account->stop);
}

bool step_must_stop(void *s)
{
	const struct step *step = s;
	for (uint32_t i = 0; i < step->span_count; i++)
		if (step_span_must_stop(&step->spans[i]))
			return true;
	return false;
}

void step_stop(struct step *s)
{
	struct err stopped;
	err_set(&stopped, ECANCELED, "stopped");
	for (uint32_t i = 0; i < s->span_count; i++)
		if (step_span_must_stop(&s->spans[i]))
			step_kill(s, &s->spans[i], 0, SPAN_STOPPED, &stopped);
}

void step_close_up(struct step *s)
{
	uint32_t n = 0, count = 0;
	for (uint32_t i = 0; i < s->span_count; i++) {
		struct step_span *span = &s->spans[i];
		if (!span->n)
			continue;
		if (span->first != n) {
			s->env->backend->move(s, n, span->first, span->n);
			span->first = n;
			rotation_set(s->rotations, s->env->config, n, span->position, span->n,
				     span->context->long_text);
		}
		for (uint32_t t = 0; t < span->n; t++)
			s->span_of[n++] = count;
		s->spans[count++] = *span;
	}
	s->n = n;
	s->span_count = count;
	s->died = false;
}

void step_tap(const struct step *s, enum tap_point point, uint32_t layer, uint32_t width,
	      const float *rows)
{
	const struct environment *env = s->env;
	for (uint32_t i = 0; i < s->span_count && env->tap; i++) {
		const struct step_span *p = &s->spans[i];
		if (p->n)
			env->tap(env->tap_ctx, point, layer, p->position, p->n, width,
				 rows + (size_t)p->first * width);
	}
}
