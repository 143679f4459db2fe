#include "engine/compute/batch.h"

#include <errno.h>
#include <stdlib.h>

void batch_clear(struct batch *b)
{
	b->count = 0;
	b->normed = false;
	b->read = NULL;
}

void batch_free(struct batch *b)
{
	free(b->rows);
	*b = (struct batch){0};
}

static int make_room(struct batch *b, uint32_t count, struct err *e)
{
	if (count <= b->room)
		return 0;
	struct row *rows = realloc(b->rows, count * sizeof *rows);
	if (!rows)
		return err_set(e, ENOMEM, "out of memory for a step of %u rows", count);
	b->rows = rows;
	b->room = count;
	return 0;
}

int batch_add(struct batch *b, const struct row *like, const uint32_t *tokens, uint32_t n,
	      struct err *e)
{
	int failed = make_room(b, b->count + n, e);
	if (failed)
		return failed;
	const struct row *last = b->count ? &b->rows[b->count - 1] : NULL;
	uint32_t position = last && last->context == like->context
				    ? last->position + 1
				    : (uint32_t)like->context->tokens.count;
	for (uint32_t t = 0; t < n; t++) {
		struct row *row = &b->rows[b->count++];
		*row = *like;
		row->position = position + t;
		row->token = tokens[t];
	}
	return 0;
}

/* Whether a row may follow the last one of a span. */
static bool goes_on(const struct span *s, const struct row *row)
{
	bool drafted = s->certain < s->n, drafts = row->kind == ROW_DRAFT;
	return row->position == s->position + s->n && (drafts || !drafted) &&
	       (drafts || s->prompt == (row->kind == ROW_PROMPT)) &&
	       s->n - s->certain + drafts < ANSWER_ROWS && losses_equal(&s->losses, &row->losses);
}

static bool begins(const struct span *spans, uint32_t count, const struct row *row)
{
	for (uint32_t i = 0; i < count; i++)
		if (spans[i].context == row->context)
			return false;
	return row->position == row->context->tokens.count && row->kind != ROW_DRAFT;
}

int batch_spans(const struct batch *b, struct span *spans, struct err *e)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < b->count; i++) {
		const struct row *row = &b->rows[i];
		struct span *s = count ? &spans[count - 1] : NULL;
		bool same = s && s->context == row->context;
		if (!(same ? goes_on(s, row) : begins(spans, count, row)))
			return err_set(e, EINVAL,
				       "row %u of a step, at position %u, does not follow what its "
				       "context holds",
				       i, row->position);
		if (!same)
			spans[count++] = (struct span){
				.context = row->context,
				.first = i,
				.position = row->position,
				.prompt = row->kind == ROW_PROMPT,
				.losses = row->losses,
			};
		spans[count - 1].n++;
		spans[count - 1].certain += row->kind != ROW_DRAFT;
	}
	return (int)count;
}
