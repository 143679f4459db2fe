/* Room for contexts: whose context gives way when another one cannot grow.
 *
 * First idle conversations give up their contexts, the one that was asked longest ago first. Their
 * next turn computes the text again, unless it finds the context on disk (run_offload.c). Then running turns that come after the one without room give
 * up theirs: the lowest priority first, and within a priority the latest. Such a turn is computed
 * again from its beginning, and its text is the same (promise 2); lines of a scored text that are
 * written already are not written again (run_step.c). If that does not help, the turn gives up its
 * own context and waits until another turn has ended. So turns without room are answered by
 * priority, and within a priority in the order in which they were asked. A turn fails only if there
 * is no other turn to wait for. After RUN_PASSES turns have got room although one that was asked
 * earlier has none, that one counts as high until its end. Contexts of other models are not
 * touched: they belong to the threads of those models. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>

/* Lock held, and so for all below. */
static void run_give_up_context(struct session *s)
{
	(void)context_rollback(&s->context, 0);
	s->context_given_up = true;
	atomic_store(&s->prefix, 0);
	drafter_drop(&s->drafter);
	if (s->turn && s->turn->admitted)
		turn_give_up(s->turn);
}

/* Whether the session may give up its context. Not a prompt that waits between two layers, and not
 * one with an observer, which sees each row once. */
static bool run_may_give_up(const struct session *s)
{
	const struct run_party *p = s->model->run->parties;
	bool waits = p[1].count && p[0].places->session == s;
	return !waits && !s->ended && s->context.tokens.count && !(s->working && s->observer);
}

static bool run_is_older(const struct session *a, const struct session *b)
{
	return a->asked.submitted_ns < b->asked.submitted_ns;
}

static enum session_priority run_rank(const struct session *s)
{
	return s->owed ? SESSION_HIGH : s->asked.params.priority;
}

bool run_comes_before(const struct session *a, const struct session *b)
{
	enum session_priority ranks[] = {run_rank(a), run_rank(b)};
	return ranks[0] == ranks[1] ? run_is_older(a, b) : ranks[0] > ranks[1];
}

/* The session that gives up its context for s; NULL: none. */
static struct session *run_least_needed(const struct session *s)
{
	struct session *rests = NULL, *works = NULL;
	for (struct session *x = s->model->run->all; x; x = x->all_next) {
		if (x == s || !run_may_give_up(x))
			continue;
		if (!x->working && (!rests || run_is_older(x, rests)))
			rests = x;
		if (x->working && run_comes_before(s, x) && (!works || run_comes_before(works, x)))
			works = x;
	}
	return rests ? rests : works;
}

/* Whether the end of another turn of the model will bring room. A turn that has not begun holds
 * memory only if the session kept the context of its last turn. */
static bool run_has_company(const struct session *s)
{
	for (const struct session *x = s->model->run->all; x; x = x->all_next) {
		bool begun = x->working && (x->turn->admitted || x->context.tokens.count);
		if (x != s && begun && !x->waits_for_room)
			return true;
	}
	return false;
}

/* Of the turns that were asked before s and have no room: the one that was asked first. */
static struct session *run_left_behind(const struct session *s)
{
	struct session *first = NULL;
	for (struct session *x = s->model->run->all; x; x = x->all_next) {
		bool waits = x->working && !x->stepping && !x->owed && !x->background;
		if (x != s && waits && !x->context.tokens.count &&
		    run_is_older(x, first ? first : s))
			first = x;
	}
	return first;
}

void run_pass_over(const struct session *s)
{
	struct run *r = s->model->run;
	struct session *passed = run_left_behind(s);
	if (!passed || ++r->passes < RUN_PASSES)
		return;
	r->passes = 0;
	passed->owed = true;
}

bool run_find_room(struct session *s)
{
	struct session *other = s->background ? NULL : run_least_needed(s);
	if (other) {
		if (!other->working)
			run_leave(other);
		run_give_up_context(other);
		run_pass_over(s);
		s->tries_again = true;
		return true;
	}
	s->waits_for_room = !s->background && run_has_company(s);
	if (!s->waits_for_room)
		return false;
	s->status = SESSION_QUEUED;
	if (!s->observer)
		run_give_up_context(s);
	return true;
}

bool run_find_room_of_idle(struct session *s)
{
	pthread_mutex_lock(&s->model->run->lock);
	struct session *other = run_least_needed(s);
	bool idle = other && !other->working;
	if (idle) {
		run_leave(other);
		run_give_up_context(other);
	}
	pthread_mutex_unlock(&s->model->run->lock);
	return idle;
}

static struct session *run_first_without_room(const struct run *r)
{
	struct session *first = NULL;
	for (struct session *s = r->all; s; s = s->all_next)
		if (s->waits_for_room && (!first || run_comes_before(s, first)))
			first = s;
	return first;
}

void run_end_wait(struct run *r)
{
	struct session *first = run_first_without_room(r);
	if (!first)
		return;
	first->waits_for_room = false;
	first->status = SESSION_PROMPTING;
	run_pass_over(first);
}
