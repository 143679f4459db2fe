/* A feed-forward with experts (mixture of experts, Shazeer et al. 2017): chooses a step's experts,
 * awaits them, and has them computed as they come. See routing.h. What is computed is the
 * backend's (backend.h).
 *
 * A step's tokens are grouped by expert, so that each expert is fetched once. experts_await takes
 * experts from the pager in whatever order they become ready. */
#include "engine/compute/backend.h"

#include <errno.h>

/* Whether any row lives that chose the step's expert number d. */
static bool experts_is_wanted(const struct routing *r, const struct step *s, uint32_t d)
{
	uint32_t expert = r->distinct[d];
	for (uint32_t a = r->group_start[expert]; a < r->group_start[expert + 1]; a++)
		if (step_row_lives(s, r->token[a]))
			return true;
	return false;
}

/* Rows die whose expert number d cannot be read. */
static void experts_fail_rows(const struct routing *r, struct step *s, uint32_t d,
			      const struct err *why)
{
	uint32_t expert = r->distinct[d];
	for (uint32_t a = r->group_start[expert]; a < r->group_start[expert + 1]; a++) {
		struct step_span *span = step_span_of(s, r->token[a]);
		step_kill(s, span, r->token[a] - span->first, SPAN_FAILED, why);
	}
}

/* Removes from the first n that are ready those that could not be read; returns how many are left.
 */
static uint32_t experts_sift(struct step *s, uint32_t n)
{
	struct routing *r = s->routing;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++)
		if (r->ready[i].error)
			experts_fail_rows(r, s, r->ready[i].index, r->ready[i].error);
		else
			r->ready[kept++] = r->ready[i];
	return kept;
}

/* Fills the routing's `ready` with the next experts; 0: all that live rows want have been computed.
 * Rows may die meanwhile. */
static int experts_next_wave(struct step *s, struct pager_batch *batch, struct err *e)
{
	const struct routing *r = s->routing;
	for (uint32_t ready = 0;;) {
		int got = pager_next(batch, r->ready, r->paged_count, e);
		if (got == -ECANCELED)
			step_stop(s);
		else if (got <= 0)
			return got;
		else
			ready = experts_sift(s, (uint32_t)got);
		for (uint32_t d = 0; d < r->paged_count && s->died; d++)
			if (!experts_is_wanted(r, s, d))
				pager_forgo(batch, d);
		if (ready)
			return (int)ready;
	}
}

/* Has the cache's policy count the experts that the backend holds. credit: routing_credit's. */
static void experts_count_held(const struct step *s, uint32_t layer, const float *credit,
			       bool visited)
{
	const struct routing *r = s->routing;
	const uint32_t first = r->paged_count, n = r->distinct_count - first;
	if (n)
		pager_use_elsewhere(s->env->experts, s->env->plan->routed_of[layer],
				    r->distinct + first, credit ? credit + first : NULL, n, visited);
}

/* The same of a layer of which the pager brings nothing. Where the backend holds all experts of the model,
 * nothing is to be decided, and the counts of earlier mounts stay. */
static void experts_visit_held(const struct step *s, uint32_t layer)
{
	if (pager_decides(s->env->experts))
		experts_count_held(s, layer, routing_credit(s), false);
}

/* Awaits the experts of the step's tokens and has them computed. pager_next returns the experts
 * that are in memory first, then the missing ones as they are read; what one call returns is a
 * wave. While the reads are under way, the next layers' experts are predicted, so that they can be
 * read ahead, and the shared expert is computed. */
static int experts_await(struct step *s, uint32_t layer, struct err *e)
{
	const struct environment *env = s->env;
	const struct routing *r = s->routing;
	const float *credit = routing_credit(s);
	struct pager_batch batch;
	int got = pager_begin(&batch, env->experts, env->plan->routed_of[layer], r->distinct, credit,
			      r->paged_count, s->clock, e);
	if (got < 0)
		return got;
	experts_count_held(s, layer, credit, true);
	batch.stop = step_must_stop;
	batch.stop_ctx = s;
	routing_show(s, layer, batch.missed);
	routing_predict(s, layer);
	env->backend->begin_experts(s, layer);
	while ((got = experts_next_wave(s, &batch, e)) > 0) {
		env->backend->wave(s, layer, r->ready, (uint32_t)got);
		for (int i = 0; i < got; i++)
			pager_put(&batch, &r->ready[i]);
	}
	pager_end(&batch);
	return got;
}

/* What the backend holds needs no pager. */
static int experts_run_held(struct step *s, uint32_t layer)
{
	experts_visit_held(s, layer);
	routing_show(s, layer, NULL);
	s->env->backend->begin_experts(s, layer);
	s->env->backend->end_experts(s, layer);
	return 0;
}

int experts_run(struct step *s, uint32_t layer, struct err *e)
{
	const struct backend *b = s->env->backend;
	if (b->feed_held && b->feed_held(s, layer)) {
		s->untold[layer] = true;
		return 0;
	}
	routing_choose(s, layer);
	struct err why;
	if (b->failed && b->failed(s->env, &why))
		return 0; /* the choice is worthless, and nobody is told */
	if (s->routing->distinct_count && !s->routing->paged_count)
		return experts_run_held(s, layer);
	int failed = experts_await(s, layer, e);
	if (!failed)
		s->env->backend->end_experts(s, layer);
	return failed;
}

void experts_report(struct step *s, uint32_t layer)
{
	for (uint32_t l = 0; l < layer; l++) {
		if (!s->untold[l])
			continue;
		s->untold[l] = false;
		s->env->backend->tell_choice(s, l);
		routing_group(s, l);
		experts_visit_held(s, l);
		routing_show(s, l, NULL);
	}
}
