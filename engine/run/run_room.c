/* Room for contexts: decides which session gives up its context when another context cannot grow.
 *
 * First, idle sessions give up their contexts, the least recently used first. Their next turn
 * computes the text again, unless the context is on disk (run_offload.c). Second, running turns
 * that rank after the turn without room give up theirs: the lowest priority first, and within a
 * priority the youngest. Such a turn is computed again from its beginning and gives the same text
 * (promise 2); lines of a scored text are not written twice (run_logits.c). Third, the turn gives
 * up its own context and waits until another turn has ended. So turns without room are answered by
 * priority, and within a priority in the order of submission. A turn fails only if there is no
 * other turn to wait for. After RUN_PASSES turns have got room before an older turn, the older turn
 * counts as high priority until its end. Contexts of other models are not touched, since they
 * belong to those models' threads. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>

/* Lock held, as for all functions below. */
static void run_give_up_context(struct session *s)
{
	(void)context_rollback(&s->context, 0);
	s->context_given_up = true;
	atomic_store(&s->prefix, 0);
	drafter_drop(&s->drafter);
	if (s->turn && s->turn->admitted)
		turn_give_up(s->turn);
}

/* Whether the session may give up its context. Not if its prompt pauses between two layers, and not
 * if it has an observer, which must see each row once. */
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

/* The session that must give up its context for s; NULL: none. */
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

/* Whether another turn of the model will free memory when it ends. A turn that has not begun holds
 * memory only if its session kept the context of its last turn. */
static bool run_has_company(const struct session *s)
{
	for (const struct session *x = s->model->run->all; x; x = x->all_next) {
		bool begun = x->working && (x->turn->admitted || x->context.tokens.count);
		if (x != s && begun && !x->waits_for_room)
			return true;
	}
	return false;
}

/* The oldest turn without room that is older than the turn of s; NULL: none. */
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
