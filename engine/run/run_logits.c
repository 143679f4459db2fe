/* Distributes the logits of a step: its turns take them in parallel on the compute threads.
 *
 * The forward pass gives logits in groups of at most HEAD_ROWS rows, so a group belongs to at most
 * HEAD_ROWS turns, and at most HEAD_ROWS threads take logits at once, each with its own scratch
 * memory. One thread takes the rows of a turn in order, since a row's mask and penalties depend on
 * the token sampled from the row before it. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <errno.h>
#include <stdlib.h>

/* The rows of one turn in a group. */
struct run_taking {
	struct run_place *place;
	uint32_t first, n; /* in the group */
};

struct run_logits { /* of a group */
	struct run *run;
	const uint32_t *rows; /* of the batch */
	const struct step_logits *logits;
	struct run_taking turns[HEAD_ROWS];
	uint32_t count;
	_Atomic uint32_t next; /* next turn that no thread has taken */
};

int run_make_scratch(struct model *m, struct err *e)
{
	struct run *r = m->run;
	size_t words = grammars_mask_words(m->id.config.vocabulary);
	for (uint32_t i = 0; i < m->loaded.sampler_count; i++) {
		struct turn_scratch *x = &r->scratch[i];
		x->sampler = &m->loaded.samplers[i];
		if (!x->mask && !(x->mask = calloc(words, sizeof *x->mask)))
			return err_set(e, ENOMEM, "out of memory for masks");
	}
	return 0;
}

/* Whether the answer has the row's line already. This happens if a text to score gave up its
 * context (run_room.c) and is computed again. */
static bool run_is_scored(const struct turn_state *t, uint32_t row)
{
	return t->session->asked.scores && t->step.held + row < t->score.count;
}

/* An error here fails only this turn. */
static void run_take_turn(const struct run_logits *l, const struct run_taking *taking,
			  const struct turn_scratch *x)
{
	struct run_place *p = taking->place;
	struct turn_state *t = p->session->turn;
	uint32_t vocabulary = t->env->model->id.config.vocabulary;
	for (uint32_t i = taking->first; i < taking->first + taking->n; i++) {
		uint32_t row = l->rows[i] - t->step.first;
		const struct step_logits logits = step_logits_of_row(l->logits, i, vocabulary);
		if (!run_is_scored(t, row))
			turn_take(t, row, &logits, x, &p->event);
	}
}

/* A threads_fn with one item per scratch memory: each item takes one turn after another. */
static void run_take_turns(void *ctx, uint32_t begin, uint32_t end)
{
	struct run_logits *l = ctx;
	for (uint32_t i = begin; i < end; i++)
		for (uint32_t k; (k = atomic_fetch_add(&l->next, 1)) < l->count;)
			run_take_turn(l, &l->turns[k], &l->run->scratch[i]);
}

/* Divides a group's rows among places, whose rows are in ascending order. */
static void run_group_rows(struct run_logits *l, struct run_place *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct turn_step *step = &p->session->turn->step;
		while (!p->computes || l->rows[i] >= step->first + step->n)
			step = &(++p)->session->turn->step;
		if (!l->count || l->turns[l->count - 1].place != p)
			l->turns[l->count++] = (struct run_taking){.place = p, .first = i};
		l->turns[l->count - 1].n++;
	}
}

int run_take_logits(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		    struct err *e)
{
	struct run_party *party = ctx;
	const struct model_loaded *m = &party->run->env.model->loaded;
	struct run_logits l = {.run = party->run, .rows = rows, .logits = logits};
	(void)e;
	run_group_rows(&l, party->places, n);
	uint32_t scratches = l.count < m->sampler_count ? l.count : m->sampler_count;
	threads_run(m->forward.env.threads, scratches, 1, run_take_turns, &l);
	return 0;
}
