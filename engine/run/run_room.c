/* Room for contexts: whose context gives way when another one cannot grow.
 *
 * First the conversations at rest give up what the model has computed of them, the one that was
 * asked longest ago first: the next turn computes it again. Then turns that come after the one
 * without room, those of the lowest priority first, and of these the latest: they are computed
 * again from their beginning, and their text is the same (promise 2); of a text that is scored,
 * lines that are there are not written again (run_step.c). A turn that finds no room in either way
 * gives up its own context and waits until another turn has ended. So turns without room are
 * answered by priority, and within one in the order in which they were asked; a turn fails only if
 * there is no other one to wait for. Every RUN_PASSES times that room went to a turn although one
 * that was asked before has none, the first of these counts as high until its end. Contexts of
 * other models belong to the threads of these, and are left alone. */
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
}

/* Whether the context has memory that may be given up for another one. A prompt that waits between
 * two layers needs what it has, and an observer sees each row once. */
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

/* NULL: nobody has to give way to s. */
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

/* Whether other turns of the model are under way, whose end will bring room. A turn that has not
 * begun has none, unless it has the context of the last one. */
static bool run_has_company(const struct session *s)
{
	for (const struct session *x = s->model->run->all; x; x = x->all_next) {
		bool begun = x->working && (x->turn->admitted || x->context.tokens.count);
		if (x != s && begun && !x->waits_for_room)
			return true;
	}
	return false;
}

/* The turn asked first of those that have no room and were asked before s. */
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
