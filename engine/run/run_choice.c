/* Chooses which sessions get the next step: one session alone, or the sessions that are answering.
 *
 * A step alone is for a prompt, for a text to score, or for the beginning of a turn. Answers share
 * a step of their own after as many steps alone as there are sessions that want one, so that each
 * of these sessions gets one step. Among sessions that want a step alone, and among more than
 * RUN_PLACES answers, the priority decides (shares.h); within a priority, the order of the queue.
 */
#include "engine/model/model_state.h"
#include "engine/run/run.h"

/* ---- answers ---- */

static bool run_may_share(const struct session *s)
{
	const struct turn_state *t = s->turn;
	return t->admitted && !s->waits_for_room && !s->background && !s->observer &&
	       !s->asked.scores && !turn_left(t);
}

void run_take_place(struct run_party *p, struct session *s)
{
	struct run_place *place = &p->places[p->count++];
	run_unqueue(s);
	s->stepping = true;
	place->session = s;
	place->begins = !s->turn->admitted;
	s->tries_again = false;
	if (place->begins)
		run_pass_over(s);
}

struct session *run_first_answer(const struct run *r)
{
	struct session *s = r->runnable.first;
	while (s && !run_may_share(s))
		s = s->next;
	return s;
}

/* The next answer of a priority, from s on. */
static struct session *run_next_answer(struct session *s, enum session_priority priority)
{
	while (s && !(s->asked.params.priority == priority && run_may_share(s)))
		s = s->next;
	return s;
}

static bool run_any_waits(const bool waits[SESSION_PRIORITIES])
{
	return waits[SESSION_LOW] || waits[SESSION_NORMAL] || waits[SESSION_HIGH];
}

/* Each session gets at least one row. */
void run_gather_answers(struct model *m, struct run_party *p)
{
	struct run *r = m->run;
	uint32_t chunk = m->loaded.forward.chunk, most = chunk < RUN_PLACES ? chunk : RUN_PLACES;
	struct session *next[SESSION_PRIORITIES];
	bool waits[SESSION_PRIORITIES];
	for (int i = 0; i < SESSION_PRIORITIES; i++) {
		next[i] = run_next_answer(r->runnable.first, (enum session_priority)i);
		waits[i] = next[i];
	}
	while (p->count < most && run_any_waits(waits)) {
		enum session_priority i = shares_next(&r->answers, waits, 0);
		struct session *s = next[i];
		next[i] = run_next_answer(s->next, i);
		waits[i] = next[i];
		shares_count(&r->answers, i, 1);
		run_take_place(p, s);
	}
}

/* ---- steps alone ---- */

/* For each priority, the first session that wants a step alone; and how many sessions want one. */
struct run_alone {
	struct session *first[SESSION_PRIORITIES];
	bool waits[SESSION_PRIORITIES];
	uint32_t count;
};

/* A turn that has begun has no context before its first rows, and after it gave up its context. */
static bool run_lacks_room(const struct session *s)
{
	bool begun = s->turn->admitted && !s->background;
	return s->waits_for_room || s->tries_again || (begun && !s->context.tokens.count);
}

/* The first of the turns without room for their context. */
static const struct session *run_first_lacking(const struct run *r)
{
	const struct session *first = NULL;
	for (const struct session *s = r->runnable.first; s; s = s->next)
		if (run_lacks_room(s) && (!first || run_comes_before(s, first)))
			first = s;
	return first;
}

/* Turns get room in their order: a turn without context waits for earlier turns that have no room.
 */
static bool run_may_step_alone(const struct session *s, const struct session *lacking)
{
	bool has_room = s->turn->admitted && s->context.tokens.count;
	if (s->background || run_may_share(s))
		return false;
	if (s->waits_for_room) /* a stopped turn ends in its next step */
		return atomic_load(&s->stop);
	return has_room || s == lacking || !lacking || run_comes_before(s, lacking);
}

static struct run_alone run_find_alone(const struct run *r)
{
	const struct session *lacking = run_first_lacking(r);
	struct run_alone a = {0};
	for (struct session *s = r->runnable.first; s; s = s->next) {
		enum session_priority i = s->asked.params.priority;
		if (!run_may_step_alone(s, lacking))
			continue;
		a.first[i] = a.waits[i] ? a.first[i] : s;
		a.waits[i] = true;
		a.count++;
	}
	return a;
}

static struct session *run_first_background(const struct run *r)
{
	struct session *s = r->runnable.first;
	while (s && !s->background)
		s = s->next;
	return s;
}

struct session *run_next_alone(struct run *r)
{
	struct run_alone a = run_find_alone(r);
	bool answers = run_has_answers(r);
	uint32_t most = a.count < RUN_PLACES ? a.count : RUN_PLACES;
	if (answers && r->alone >= most)
		return NULL;
	if (a.count)
		return a.first[shares_next(&r->prompts, a.waits, RUN_AHEAD)];
	struct session *background = run_first_background(r);
	if (background)
		return background;
	run_end_wait(r); /* there is no other turn to wait for */
	return run_next_alone(r);
}
