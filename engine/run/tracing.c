#include "engine/run/tracing.h"

#include "engine/compute/step.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One expert of one row. The first expert begins a new row. */
struct trace_pick {
	uint32_t position, layer, expert;
	uint8_t draft;		/* index of the draft within the step, from 1; 0: no draft */
	bool first, none; /* none: the row has no expert */
	char mark;	  /* '*': read for it, '+': held by the backend, 0: in main memory */
};

void tracing_init(struct tracing *t)
{
	*t = (struct tracing){0};
	trace_ring_init(&t->ring, TRACE_RING_BYTES);
}

void tracing_free(struct tracing *t)
{
	text_out_free(&t->lines);
	trace_ring_free(&t->ring);
}

void tracing_span_free(struct tracing_span *t)
{
	free(t->picks);
	t->picks = NULL;
	t->count = t->room = 0;
	t->missed = 0;
}

/* ---- lines ---- */

static void tracing_put_number(struct text_out *o, uint32_t number, int digits)
{
	char text[16];
	int n = 0;
	do
		text[sizeof text - (size_t)++n] = (char)('0' + number % 10);
	while ((number /= 10) || n < digits);
	text_out_add(o, text + sizeof text - n, (size_t)n);
}

static const char *tracing_kind(const struct tracing_span *t, const struct trace_pick *p,
				uint32_t stood)
{
	if (t->kind == ROW_PROMPT)
		return " prompt ";
	return p->draft > stood ? " draft " : " answer ";
}

static void tracing_put_pick(struct tracing_span *t, const struct trace_pick *p, uint32_t stood)
{
	struct text_out *o = &t->to->lines;
	if (p->first) {
		text_out_string(o, t->name);
		text_out_add(o, " ", 1);
		tracing_put_number(o, p->position, 1);
		text_out_string(o, tracing_kind(t, p, stood));
		tracing_put_number(o, p->layer, 2);
	}
	if (p->none)
		return;
	text_out_add(o, " ", 1);
	tracing_put_number(o, p->expert, 3);
	if (p->mark)
		text_out_add(o, &p->mark, 1);
}

static bool tracing_ends_line(const struct tracing_span *t, size_t i)
{
	return i + 1 == t->count || t->picks[i + 1].first;
}

/* Adds the lines to the ring and clears them. */
static void tracing_give(struct tracing_span *t, uint64_t lines)
{
	struct text_out *o = &t->to->lines;
	bool whole = !o->failed && o->n <= TRACE_ADD_BYTES;
	if (lines)
		trace_ring_add(&t->to->ring, t->owner, whole ? o->bytes : NULL, o->n, lines);
	if (o->failed)
		text_out_free(o);
	o->failed = false;
	o->n = 0;
}

static void tracing_flush(struct tracing_span *t, uint32_t stood)
{
	uint64_t lines = 0;
	for (size_t i = 0; i < t->count; i++) {
		tracing_put_pick(t, &t->picks[i], stood);
		if (!tracing_ends_line(t, i))
			continue;
		text_out_add(&t->to->lines, "\n", 1);
		lines++;
		if (t->to->lines.n > TRACE_ADD_BYTES / 2 || t->to->lines.failed) {
			tracing_give(t, lines);
			lines = 0;
		}
	}
	tracing_give(t, lines);
	if (t->missed)
		trace_ring_add(&t->to->ring, t->owner, NULL, 0, t->missed);
	t->count = 0;
	t->missed = 0;
}

/* ---- steps ---- */

static bool tracing_make_room(struct tracing_span *t, size_t more)
{
	if (t->room - t->count >= more)
		return true;
	size_t room = t->count + more + t->room;
	struct trace_pick *grown = reallocarray(t->picks, room, sizeof *grown);
	if (!grown)
		return false;
	t->picks = grown;
	t->room = room;
	return true;
}

/* There is room. */
static void tracing_keep_row(struct tracing_span *t, const struct picks *p, uint32_t row)
{
	const uint32_t *chosen = p->chosen + (size_t)row * p->stride;
	uint32_t kept = p->kept[row], certain = p->span->certain;
	struct trace_pick like = {
		.position = p->span->position + row,
		.layer = p->layer,
		.draft = (uint8_t)(row < certain ? 0 : row - certain + 1),
	};
	for (uint32_t i = 0; i < kept || i == 0; i++) {
		struct trace_pick *pick = &t->picks[t->count++];
		*pick = like;
		pick->first = i == 0;
		pick->none = !kept;
		if (pick->none)
			continue;
		pick->expert = chosen[i];
		pick->mark = p->absent[chosen[i]] ? '*' : p->held[chosen[i]] ? '+' : 0;
		p->absent[chosen[i]] = false;
	}
}

static void tracing_take_picks(void *ctx, const struct picks *p)
{
	struct tracing_span *t = ctx;
	for (uint32_t row = 0; row < p->span->n; row++)
		if (tracing_make_room(t, p->stride + 1))
			tracing_keep_row(t, p, row);
		else
			t->missed++;
	if (t->kind == ROW_PROMPT)
		tracing_flush(t, 0);
}

void tracing_begin(struct tracing_span *t, struct session *s, enum row_kind kind)
{
	struct run *run = s->model->run;
	s->account.picked = NULL;
	if (!trace_ring_is_read(&run->tracing.ring)) {
		tracing_span_free(t);
		text_out_free(&run->tracing.lines);
		return;
	}
	t->to = &run->tracing;
	t->kind = kind;
	t->count = 0;
	t->missed = 0;
	pthread_mutex_lock(&run->lock);
	t->owner = s->owner;
	(void)snprintf(t->name, sizeof t->name, "%s", s->name ? s->name : "-");
	pthread_mutex_unlock(&run->lock);
	s->account.picked_ctx = t;
	s->account.picked = tracing_take_picks;
}

void tracing_end(struct session *s)
{
	s->account.picked = NULL;
}

void tracing_settle(struct tracing_span *t, uint32_t stood)
{
	if (t->count || t->missed)
		tracing_flush(t, stood);
}
