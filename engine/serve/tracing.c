#include "engine/serve/tracing.h"

#include "engine/compute/step.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One expert of one row; a row begins with its first. */
struct trace_pick {
	uint32_t position, layer, expert;
	uint8_t draft;		/* the how manieth of its step's; 0: it is none */
	bool first, read, none; /* none: the row passes no expert at all */
};

void tracing_init(struct tracing *t)
{
	*t = (struct tracing){0};
	trace_ring_init(&t->ring, TRACE_RING_BYTES);
}

static void forget(struct tracing *t)
{
	free(t->picks);
	text_out_free(&t->lines);
	t->picks = NULL;
	t->lines = (struct text_out){0};
	t->count = t->room = 0;
	t->missed = 0;
}

void tracing_free(struct tracing *t)
{
	forget(t);
	trace_ring_free(&t->ring);
}

/* ---- lines ---- */

static void put_number(struct text_out *o, uint32_t number, int digits)
{
	char text[16];
	int n = 0;
	do
		text[sizeof text - (size_t)++n] = (char)('0' + number % 10);
	while ((number /= 10) || n < digits);
	text_out_add(o, text + sizeof text - n, (size_t)n);
}

static const char *kind_of(const struct tracing *t, const struct trace_pick *p, uint32_t stood)
{
	if (t->kind == ROW_PROMPT)
		return " prompt ";
	return p->draft > stood ? " draft " : " answer ";
}

static void put_pick(struct tracing *t, const struct trace_pick *p, uint32_t stood)
{
	struct text_out *o = &t->lines;
	if (p->first) {
		text_out_string(o, t->name);
		text_out_add(o, " ", 1);
		put_number(o, p->position, 1);
		text_out_string(o, kind_of(t, p, stood));
		put_number(o, p->layer, 2);
	}
	if (p->none)
		return;
	text_out_add(o, " ", 1);
	put_number(o, p->expert, 3);
	if (p->read)
		text_out_add(o, "*", 1);
}

static bool ends_line(const struct tracing *t, size_t i)
{
	return i + 1 == t->count || t->picks[i + 1].first;
}

/* Gives what is written to the readers, and begins anew. */
static void give(struct tracing *t, uint64_t lines)
{
	bool whole = !t->lines.failed && t->lines.n <= TRACE_ADD_BYTES;
	if (lines)
		trace_ring_add(&t->ring, t->owner, whole ? t->lines.bytes : NULL, t->lines.n,
			       lines);
	if (t->lines.failed)
		text_out_free(&t->lines);
	t->lines.failed = false;
	t->lines.n = 0;
}

static void flush(struct tracing *t, uint32_t stood)
{
	uint64_t lines = 0;
	for (size_t i = 0; i < t->count; i++) {
		put_pick(t, &t->picks[i], stood);
		if (!ends_line(t, i))
			continue;
		text_out_add(&t->lines, "\n", 1);
		lines++;
		if (t->lines.n > TRACE_ADD_BYTES / 2 || t->lines.failed) {
			give(t, lines);
			lines = 0;
		}
	}
	give(t, lines);
	if (t->missed)
		trace_ring_add(&t->ring, t->owner, NULL, 0, t->missed);
	t->count = 0;
	t->missed = 0;
}

/* ---- steps ---- */

static bool make_room(struct tracing *t, size_t more)
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
static void keep_row(struct tracing *t, const struct picks *p, uint32_t row)
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
		pick->read = p->absent[chosen[i]];
		p->absent[chosen[i]] = false;
	}
}

static void on_picks(void *ctx, const struct picks *p)
{
	struct tracing *t = ctx;
	for (uint32_t row = 0; row < p->span->n; row++)
		if (make_room(t, p->stride + 1))
			keep_row(t, p, row);
		else
			t->missed++;
	if (t->kind == ROW_PROMPT)
		flush(t, 0);
}

void tracing_begin(struct session *s, enum row_kind kind)
{
	struct model *m = s->model;
	struct tracing *t = &m->tracing;
	m->run.forward.env.picked = NULL;
	if (!trace_ring_is_read(&t->ring)) {
		forget(t);
		return;
	}
	t->kind = kind;
	t->count = 0;
	t->missed = 0;
	pthread_mutex_lock(&m->schedule.lock);
	t->owner = s->owner;
	(void)snprintf(t->name, sizeof t->name, "%s", s->name ? s->name : "-");
	pthread_mutex_unlock(&m->schedule.lock);
	m->run.forward.env.picked_ctx = t;
	m->run.forward.env.picked = on_picks;
}

void tracing_end(struct session *s)
{
	s->model->run.forward.env.picked = NULL;
}

void tracing_settle(struct session *s, uint32_t stood)
{
	flush(&s->model->tracing, stood);
}

/* ---- for model.h and session.h ---- */

/* Spaces and backslashes as in /proc/mounts, so that a name is one column. */
static char *escaped(const char *name)
{
	struct text_out o = {0};
	for (; *name; name++)
		if (*name == ' ' || *name == '\\')
			text_out_string(&o, *name == ' ' ? "\\040" : "\\134");
		else
			text_out_add(&o, name, 1);
	if (!o.failed)
		return o.bytes;
	text_out_free(&o);
	return NULL;
}

void session_name(struct session *s, uint32_t owner, const char *name)
{
	char *text = escaped(name), *before;
	pthread_mutex_lock(&s->model->schedule.lock);
	before = s->name;
	s->name = text;
	s->owner = owner;
	pthread_mutex_unlock(&s->model->schedule.lock);
	free(before);
}

int model_trace_open(struct trace_reader **out, struct model *m, const uint32_t *owner,
		     void (*told)(void *ctx), void *ctx, struct err *e)
{
	return trace_reader_open(out, &m->tracing.ring, owner, told, ctx, e);
}

void model_trace_close(struct trace_reader *t)
{
	trace_reader_close(t);
}

size_t model_trace_read(struct trace_reader *t, char *buffer, size_t bytes)
{
	return trace_reader_read(t, buffer, bytes);
}

bool model_trace_has_lines(const struct trace_reader *t)
{
	return trace_reader_has_lines(t);
}
