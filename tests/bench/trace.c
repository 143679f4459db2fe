/* Reading a routing trace: lines to visits; see the header for the format. */
#include "tests/bench/trace.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

enum field { TURN, PHASE, STEP, LAYER, EXPERT, FIELDS };
static const struct {
	const char *name;
	uint32_t below;
} fields[FIELDS] = {
	[TURN] = {"turn", UINT32_MAX},
	[PHASE] = {"phase", TRACE_PHASES},
	[STEP] = {"step", UINT32_MAX},
	[LAYER] = {"layer", TRACE_LAYERS_MOST},
	[EXPERT] = {"expert", TRACE_EXPERTS_MOST},
};

struct row {
	uint32_t value[FIELDS];
};

enum { COLUMNS_MOST = 64 };

/* How the visit being read uses an expert: each step counts half as much 16 steps later. */
struct use {
	bool used;
	uint32_t step; /* the latest */
	double count;  /* at that step */
	uint32_t rank;
};
static const double credit_height = 0.1, credit_half_life = 16;

struct reading {
	struct trace *trace;
	const char *path;
	struct trace_lines *lines;
	enum field column[COLUMNS_MOST]; /* what stands there; FIELDS: nothing that is read */
	uint32_t columns;
	size_t visits_room, experts_room, credits_room, ranks_room;
	struct use *uses;      /* [TRACE_EXPERTS_MOST] by the visit being read */
	uint32_t last_step;    /* of it */
	uint32_t *layer_index; /* [TRACE_LAYERS_MOST] 1: it occurs; then its place among them */
	struct row last;       /* the row before, if there are visits */
	uint32_t prompt_layer; /* the first of the chunk being read */
};

/* Cuts the next field off *rest, which is NULL after the last. */
static char *cut(char **rest)
{
	char *field = *rest, *comma = strchr(field, ',');
	*rest = comma ? comma + 1 : NULL;
	if (comma)
		*comma = '\0';
	return field;
}

static int malformed(const struct reading *r, struct err *e, const char *what, const char *name)
{
	return err_set(e, EINVAL, "%s:%llu: %s \"%s\"", r->path,
		       (unsigned long long)trace_lines_number(r->lines), what, name);
}

static int read_head(struct reading *r, char *line, struct err *e)
{
	bool found[FIELDS] = {false};
	for (char *rest = line; rest; r->columns++) {
		const char *name = cut(&rest);
		if (r->columns == COLUMNS_MOST)
			return malformed(r, e, "there are too many columns at", name);
		enum field f = 0;
		while (f < FIELDS && strcmp(name, fields[f].name) != 0)
			f++;
		if (f < FIELDS && found[f])
			return malformed(r, e, "two columns are named", name);
		if (f < FIELDS)
			found[f] = true;
		r->column[r->columns] = f;
	}
	for (enum field f = 0; f < FIELDS; f++)
		if (!found[f])
			return malformed(r, e, "a routing trace is wanted, but no column is named",
					 fields[f].name);
	return 0;
}

/* Digits and nothing else, below a limit. */
static bool scan_number(const char *text, uint32_t below, uint32_t *value)
{
	uint64_t n = 0;
	for (const char *at = text; *at; at++) {
		if (*at < '0' || *at > '9' || n >= below)
			return false;
		n = 10 * n + (uint64_t)(*at - '0');
	}
	*value = (uint32_t)n;
	return *text && n < below;
}

static int read_row(const struct reading *r, char *line, struct row *row, struct err *e)
{
	uint32_t at = 0;
	for (char *rest = line; rest; at++) {
		const char *text = cut(&rest);
		if (at == r->columns)
			return malformed(r, e, "one column too many:", text);
		enum field f = r->column[at];
		if (f == FIELDS || scan_number(text, fields[f].below, &row->value[f]))
			continue;
		return err_set(e, EINVAL, "%s:%llu: %s \"%s\" must be a number below %u", r->path,
			       (unsigned long long)trace_lines_number(r->lines), fields[f].name,
			       text, fields[f].below);
	}
	if (at < r->columns)
		return err_set(e, EINVAL, "%s:%llu: %u columns, but the head of the table has %u",
			       r->path, (unsigned long long)trace_lines_number(r->lines), at,
			       r->columns);
	return 0;
}

/* ---- visits ---- */

static int too_long(const struct reading *r, struct err *e)
{
	return err_set(e, EFBIG, "%s:%llu: the trace is longer than can be replayed", r->path,
		       (unsigned long long)trace_lines_number(r->lines));
}

static int no_memory(const struct reading *r, struct err *e)
{
	return err_set(e, ENOMEM, "%s:%llu: out of memory for the trace", r->path,
		       (unsigned long long)trace_lines_number(r->lines));
}

/* Twice the room, moved; NULL: `array` stays as it is. */
static void *grow(void *array, size_t *room, size_t bytes)
{
	size_t more = *room ? 2 * *room : 1024;
	void *bigger = realloc(array, more * bytes);
	if (bigger)
		*room = more;
	return bigger;
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static double faded(double count, uint32_t steps)
{
	return count * exp2(-(double)steps / credit_half_life);
}

/* A file may give the steps of a chunk in any order. */
static void count_use(struct use *u, uint32_t step)
{
	if (!u->used) {
		*u = (struct use){.used = true, .step = step, .count = 1};
	} else if (step < u->step) {
		u->count += faded(1, u->step - step);
	} else {
		u->count = faded(u->count, step - u->step) + 1;
		u->step = step;
	}
}

static void end_visit(struct reading *r)
{
	struct trace *t = r->trace;
	if (!t->visit_count)
		return;
	const struct trace_visit *v = &t->visits[t->visit_count - 1];
	uint32_t *of = t->expert + v->first;
	qsort(of, v->count, sizeof *of, ascending);
	for (uint32_t i = 0; i < v->count; i++) {
		struct use *u = &r->uses[of[i]];
		double count = faded(u->count, r->last_step - u->step);
		t->credit[v->first + i] =
			v->phase == TRACE_PROMPT ? (float)(credit_height * count) : 1;
		t->rank[v->first + i] = u->rank;
		u->used = false;
	}
}

/* Whether a row belongs to the visit of the row before. */
static bool same_visit(const struct row *row, const struct row *last)
{
	return row->value[TURN] == last->value[TURN] && row->value[PHASE] == last->value[PHASE] &&
	       row->value[LAYER] == last->value[LAYER] &&
	       (row->value[STEP] == last->value[STEP] || row->value[PHASE] == TRACE_PROMPT);
}

static int begin_visit(struct reading *r, const struct row *row, struct err *e)
{
	struct trace *t = r->trace;
	if (t->visit_count == TRACE_VISITS_MOST)
		return too_long(r, e);
	if (t->visit_count == r->visits_room) {
		struct trace_visit *more = grow(t->visits, &r->visits_room, sizeof *more);
		if (!more)
			return no_memory(r, e);
		t->visits = more;
	}
	t->visits[t->visit_count++] = (struct trace_visit){
		.phase = row->value[PHASE],
		.layer = row->value[LAYER],
		.first = t->expert_count,
	};
	r->layer_index[row->value[LAYER]] = 1;
	r->last_step = 0;
	return 0;
}

/* The tokens of a chunk of the prompt are those of its first layer: later ones may leave out what
 * nobody needs, as the last layer leaves out all but the last token. */
static void count_tokens(struct reading *r, const struct row *row, bool first)
{
	struct trace *t = r->trace;
	const uint32_t *now = row->value, *last = r->last.value;
	bool turn = first || now[TURN] != last[TURN];
	bool pass = turn || now[PHASE] != last[PHASE] || now[LAYER] < last[LAYER];
	if (pass)
		r->prompt_layer = now[LAYER];
	t->turns += turn;
	if (now[PHASE] == TRACE_ANSWER || now[LAYER] == r->prompt_layer)
		t->tokens[now[PHASE]] += pass || now[STEP] != last[STEP];
}

/* Room for one more expert, its credit and its rank, which the end of the visit fills in. */
static int make_room(struct reading *r, struct err *e)
{
	struct trace *t = r->trace;
	if (t->expert_count == TRACE_USES_MOST)
		return too_long(r, e);
	if (t->expert_count == r->experts_room) {
		uint32_t *more = grow(t->expert, &r->experts_room, sizeof *more);
		if (!more)
			return no_memory(r, e);
		t->expert = more;
	}
	if (t->expert_count == r->credits_room) {
		float *more = grow(t->credit, &r->credits_room, sizeof *more);
		if (!more)
			return no_memory(r, e);
		t->credit = more;
	}
	if (t->expert_count == r->ranks_room) {
		uint32_t *more = grow(t->rank, &r->ranks_room, sizeof *more);
		if (!more)
			return no_memory(r, e);
		t->rank = more;
	}
	return 0;
}

static int add_row(struct reading *r, const struct row *row, struct err *e)
{
	struct trace *t = r->trace;
	bool first = !t->visit_count;
	count_tokens(r, row, first);
	if (first || !same_visit(row, &r->last)) {
		end_visit(r);
		int failed = begin_visit(r, row, e);
		if (failed)
			return failed;
	}
	r->last = *row;
	uint32_t expert = row->value[EXPERT], step = row->value[STEP];
	bool known = r->uses[expert].used;
	count_use(&r->uses[expert], step);
	r->last_step = step > r->last_step ? step : r->last_step;
	if (known)
		return 0;
	int failed = make_room(r, e);
	if (failed)
		return failed;
	t->expert[t->expert_count++] = expert;
	r->uses[expert].rank = t->visits[t->visit_count - 1].count++;
	t->experts = expert < t->experts ? t->experts : expert + 1;
	return 0;
}

/* From the numbers of the model's layers to those of the layers that occur. */
static void number_layers(struct reading *r)
{
	struct trace *t = r->trace;
	for (uint32_t i = 0; i < TRACE_LAYERS_MOST; i++)
		if (r->layer_index[i])
			r->layer_index[i] = t->layers++;
	for (size_t i = 0; i < t->visit_count; i++)
		t->visits[i].layer = r->layer_index[t->visits[i].layer];
}

/* ---- the file ---- */

static int read_lines(struct reading *r, struct err *e)
{
	char *line;
	int got;
	while ((got = trace_lines_next(r->lines, &line, e)) > 0) {
		struct row row;
		if (*line == '#' || !*line)
			continue;
		int failed;
		if (!r->columns)
			failed = read_head(r, line, e);
		else if (!(failed = read_row(r, line, &row, e)))
			failed = add_row(r, &row, e);
		if (failed)
			return failed;
	}
	if (got < 0)
		return got;
	end_visit(r);
	number_layers(r);
	return r->trace->visit_count ? 0
				     : err_set(e, EINVAL, "%s: there is no routing in it", r->path);
}

int trace_read(struct trace *t, const char *path, struct err *e)
{
	struct reading r = {
		.trace = t,
		.path = path,
		.uses = calloc(TRACE_EXPERTS_MOST, sizeof *r.uses),
		.layer_index = calloc(TRACE_LAYERS_MOST, sizeof *r.layer_index),
	};
	*t = (struct trace){0};
	int failed = r.uses && r.layer_index ? 0 : err_set(e, ENOMEM, "%s: out of memory", path);
	if (!failed)
		failed = trace_lines_open(&r.lines, path, e);
	if (!failed)
		failed = read_lines(&r, e);
	trace_lines_close(r.lines);
	free(r.uses);
	free(r.layer_index);
	if (failed)
		trace_free(t);
	return failed;
}

void trace_free(struct trace *t)
{
	free(t->visits);
	free(t->expert);
	free(t->credit);
	free(t->rank);
	*t = (struct trace){0};
}
