/* The walk over candidates (choose.h). */
#include "engine/turn/choose.h"

#include "engine/model/model_state.h"
#include "engine/turn/turn.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- contexts ---- */

static void choose_leave(struct choose_node *n)
{
	if (!n || --n->holders)
		return;
	context_free(&n->context);
	free(n);
}

/* Forks the context that the edge continues, with room for the edge's rows. */
static struct choose_node *choose_fork(struct turn_state *t, const struct choose_edge *x,
				       struct err *e)
{
	struct context *own = &t->session->context, *from = x->parent ? &x->parent->context : own;
	struct choose_node *n = calloc(1, sizeof *n);
	if (!n) {
		err_set(e, ENOMEM, "out of memory for the choices");
		return NULL;
	}
	n->holders = 1;
	context_init(&n->context, own->budget, &t->env->model->id.config, own->type);
	forward_bring_state(&t->env->model->loaded.forward, from);
	pthread_mutex_lock(&own->budget->lock);
	int failed = context_fork(&n->context, from, e);
	pthread_mutex_unlock(&own->budget->lock);
	if (!failed)
		failed = context_reserve(&n->context,
					 (uint32_t)from->tokens.count + x->to - x->from, e);
	if (!failed)
		return n;
	choose_leave(n);
	return NULL;
}

void choose_free(struct turn_state *t)
{
	struct choose *c = &t->choose;
	choose_give_up(t);
	free(c->texts);
	free(c->ids);
	free(c->pending);
	*c = (struct choose){0};
}

/* ---- edges ---- */

/* Pushes a pending edge. Keeps room for all edges of a wave, so that choose_end_wave cannot fail.
 */
static int choose_push(struct choose *c, const struct choose_edge *x, struct err *e)
{
	if (c->pending_room - c->pending_count <= CHOOSE_EDGES) {
		uint32_t room = 2 * c->pending_room + 2 * CHOOSE_EDGES;
		struct choose_edge *more = reallocarray(c->pending, room, sizeof *more);
		if (!more)
			return err_set(e, ENOMEM, "out of memory for the choices");
		c->pending = more;
		c->pending_room = room;
	}
	c->pending[c->pending_count++] = *x;
	return 0;
}

size_t choose_left(const struct turn_state *t)
{
	const struct choose *c = &t->choose;
	size_t rows = 0;
	for (uint32_t i = 0; i < c->pending_count; i++)
		rows += c->pending[i].to - c->pending[i].from;
	for (uint32_t i = 0; i < c->wave_count; i++)
		rows += c->wave[i].done ? 0 : c->wave[i].to - c->wave[i].from;
	return rows;
}

/* Ends the step: edges that it did not compute become pending again. */
static void choose_end_wave(struct choose *c)
{
	while (c->wave_count) {
		struct choose_edge *x = &c->wave[--c->wave_count];
		choose_leave(x->node);
		if (x->done)
			choose_leave(x->parent);
		else
			c->pending[c->pending_count++] = *x;
	}
}

void choose_give_up(struct turn_state *t)
{
	struct choose *c = &t->choose;
	choose_end_wave(c);
	for (uint32_t i = 0; i < c->pending_count; i++) {
		struct choose_edge *x = &c->pending[i];
		choose_leave(x->parent);
		x->parent = NULL;
		x->from = 0;
	}
}

void choose_begin_step(struct turn_state *t)
{
	choose_end_wave(&t->choose);
}

/* Moves the next edge into the wave, or its first `room` rows. */
static int choose_take_edge(struct turn_state *t, uint32_t room, struct err *e)
{
	struct choose *c = &t->choose;
	struct choose_edge *x = &c->pending[c->pending_count - 1];
	uint32_t to = x->to;
	if (x->to - x->from > room)
		x->to = x->from + room;
	x->node = choose_fork(t, x, e);
	if (!x->node) {
		x->to = to;
		return -e->code;
	}
	x->done = false;
	c->wave[c->wave_count++] = *x;
	c->pending_count--;
	return 0;
}

static int choose_add_rows(struct turn_state *t, struct choose_edge *x, struct step_batch *b,
			   struct err *e)
{
	const struct step_row row = {.context = &x->node->context,
				     .kind = ROW_PROMPT,
				     .logits = true,
				     .losses = t->losses,
				     .account = &t->session->account};
	const uint32_t *ids = t->choose.texts[x->first].ids;
	x->row = t->step.n;
	t->step.n += x->to - x->from;
	return step_batch_add(b, &row, ids + x->from, x->to - x->from, e);
}

/* If memory is used up, the step gets fewer edges. If there is no memory for the first edge, the
 * forks of other edges are given up. */
int choose_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e)
{
	struct choose *c = &t->choose;
	int failed = 0;
	t->step = (struct turn_step){.held = t->session->context.tokens.count,
				     .first = b->count,
				     .kind = ROW_PROMPT};
	while (!failed && c->pending_count && c->wave_count < CHOOSE_EDGES && t->step.n < room) {
		failed = choose_take_edge(t, room - t->step.n, e);
		if (failed == -ENOSPC && c->wave_count)
			return 0;
		if (failed == -ENOSPC) {
			choose_give_up(t);
			failed = choose_take_edge(t, room, e);
		}
		if (!failed)
			failed = choose_add_rows(t, &c->wave[c->wave_count - 1], b, e);
	}
	return failed;
}

/* ---- logits ---- */

static int choose_damaged(struct err *e)
{
	err_set(e, EIO, "the model computed NaN (not a number): its weights are damaged");
	return err_name(e, "damaged");
}

/* How many ids two texts have in common. */
static uint32_t choose_common(const struct choose_text *a, const struct choose_text *b)
{
	uint32_t n = 0;
	while (n < a->count && n < b->count && a->ids[n] == b->ids[n])
		n++;
	return n;
}

/* Takes the logits after the first `depth` ids of the texts [first, last); `sum` is the
 * log-probability of these ids. Texts that end there are done. Each different next id begins a new
 * edge. */
static int choose_expand(struct turn_state *t, const struct choose_edge *x, uint32_t depth,
			 double sum, const float *logits, double log_sum, struct err *e)
{
	struct choose *c = &t->choose;
	uint32_t i = x->first;
	for (; i < x->last && c->texts[i].count == depth; i++)
		c->texts[i].logprob = sum + logits[c->end] - log_sum;
	for (uint32_t from = i; i < x->last; from = i) {
		uint32_t id = c->texts[from].ids[depth];
		while (i < x->last && c->texts[i].ids[depth] == id)
			i++;
		const struct choose_edge next = {
			.parent = x->node,
			.first = from,
			.last = i,
			.from = depth,
			.to = choose_common(&c->texts[from], &c->texts[i - 1]),
			.sum = sum + logits[id] - log_sum,
			.known = depth,
		};
		int failed = choose_push(c, &next, e);
		if (failed)
			return failed;
		if (x->node)
			x->node->holders++;
	}
	return 0;
}

static int choose_take(struct turn_state *t, struct choose_edge *x, uint32_t depth,
		       const float *logits, const struct turn_scratch *w, struct err *e)
{
	const struct choose_text *text = &t->choose.texts[x->first];
	double log_sum = sampler_log_sum(w->sampler, logits);
	if (!isfinite(log_sum))
		return choose_damaged(e);
	if (depth < x->to && depth > x->known)
		x->sum += logits[text->ids[depth]] - log_sum;
	return depth == x->to ? choose_expand(t, x, depth, x->sum, logits, log_sum, e) : 0;
}

int choose_take_row(struct turn_state *t, uint32_t row, const float *logits,
		    const struct turn_scratch *w, struct err *e)
{
	struct choose *c = &t->choose;
	uint32_t i = c->wave_count - 1;
	while (c->wave[i].row > row)
		i--;
	struct choose_edge *x = &c->wave[i];
	uint32_t depth = x->from + row - x->row + 1; /* ids before the predicted token */
	x->done = depth == x->to;
	return choose_take(t, x, depth, logits, w, e);
}

/* ---- where the answer begins ---- */

bool choose_thinks(struct turn_state *t, const float *logits, uint32_t *id)
{
	const struct answering *a = &t->session->answering;
	const struct split_form *f = a->form;
	struct choose *c = &t->choose;
	size_t n;
	*id = sampler_greedy(logits, t->env->model->id.config.vocabulary);
	const char *bytes = tokenizer_bytes(t->env->model->loaded.tokenizer, *id, true, &n);
	bool may = t->chat && a->thinking == THINKING_AUTO && c->state == CHOOSE_BEGINS &&
		   !c->thought && t->session->asked.params.thinking != THINK_OFF;
	if (!may || !n || !split_form_marks(f, bytes, n) || strncmp(f->think_begin, bytes, n) != 0)
		return false;
	c->state = CHOOSE_THINKS;
	c->thought = true;
	return true;
}

int choose_take_first(struct turn_state *t, const float *logits, const struct turn_scratch *w,
		      struct err *e)
{
	struct choose *c = &t->choose;
	struct choose_edge root = {.last = c->count};
	if (c->state == CHOOSE_WALKS)
		return 0; /* the walk has begun already, and the context was computed again */
	c->state = CHOOSE_WALKS;
	return choose_take(t, &root, 0, logits, w, e);
}

/* ---- the choice ---- */

/* Chooses a text; returns its index in the user's list. */
static uint32_t choose_draw(const struct turn_state *t, const double *logprobs, double best)
{
	const struct sampling *how = &t->session->asked.sampling;
	uint32_t n = t->choose.count, taken = 0;
	double all = 0;
	while (logprobs[taken] != best)
		taken++;
	if (how->temperature <= 0)
		return taken;
	for (uint32_t i = 0; i < n; i++)
		all += exp((logprobs[i] - best) / how->temperature);
	double left = sampler_uniform(how->seed, t->prompt_ids) * all;
	for (uint32_t i = 0; i < n; i++) {
		left -= exp((logprobs[i] - best) / how->temperature);
		if (left < 0)
			return i;
	}
	return taken;
}

/* For qsort: the most probable first, ties in the order of the list. */
static int choose_compare_logprobs(const void *a, const void *b)
{
	const struct choose_text *x = a, *y = b;
	if (x->logprob != y->logprob)
		return x->logprob > y->logprob ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* A candidate on one line: \\, \t, \n and \r are escapes. */
static void choose_write_text(struct text_out *o, const struct choice *x)
{
	static const char marks[] = "\\\t\n\r", letters[] = "\\tnr";
	for (size_t i = 0; i < x->n; i++) {
		const char *mark = strchr(marks, x->text[i]);
		if (mark)
			text_out_add(o, (const char[]){'\\', letters[mark - marks]}, 2);
		else
			text_out_add(o, &x->text[i], 1);
	}
	text_out_string(o, "\n");
}

static int choose_write(const struct turn_state *t, double best, struct text_out *o, struct err *e)
{
	const struct choose *c = &t->choose;
	const struct choice *list = t->dialogue.choices.list;
	char numbers[64], logprob[LOGPROB_SIZE];
	double all = 0;
	for (uint32_t i = 0; i < c->count; i++)
		all += exp(c->texts[i].logprob - best);
	for (uint32_t i = 0; i < c->count; i++) {
		const struct choose_text *x = &c->texts[i];
		logprob_print(logprob, x->logprob);
		(void)snprintf(numbers, sizeof numbers, "%.6g\t%s\t",
			       exp(x->logprob - best) / all,
			       logprob);
		text_out_string(o, numbers);
		choose_write_text(o, &list[x->index]);
	}
	text_out_add(o, "", 1);
	return o->failed ? err_set(e, ENOMEM, "out of memory for choices.tsv") : 0;
}

/* Called when all log-probabilities are known. */
static int choose_finish(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	struct choose *c = &t->choose;
	double *logprobs = malloc(c->count * sizeof *logprobs);
	uint32_t tokens = 0, taken;
	if (!logprobs)
		return err_set(e, ENOMEM, "out of memory for the choices");
	for (uint32_t i = 0; i < c->count; i++)
		logprobs[c->texts[i].index] = c->texts[i].logprob;
	qsort(c->texts, c->count, sizeof *c->texts, choose_compare_logprobs);
	double best = c->texts[0].logprob;
	taken = isfinite(best) ? choose_draw(t, logprobs, best) : 0;
	free(logprobs);
	if (!isfinite(best))
		return choose_damaged(e);
	for (uint32_t i = 0; i < c->count; i++)
		if (c->texts[i].index == taken)
			tokens = c->texts[i].count;
	ev->tokens += tokens;
	const struct choice *choice = &t->dialogue.choices.list[taken];
	int failed = choose_write(t, best, &ev->chosen, e);
	if (failed)
		return failed;
	return answering_choose(&t->session->answering, choice->text, choice->n, &ev->piece, e);
}

int choose_settle(struct turn_state *t, bool *over, struct turn_event *ev, struct err *e)
{
	struct choose *c = &t->choose;
	choose_end_wave(c);
	*over = !c->pending_count;
	return *over ? choose_finish(t, ev, e) : 0;
}
