/* The preparing thread of a run: renders and encodes the prompts of submitted turns and compiles
 * their grammars before the turns begin, so that running answers do not wait for this.
 *
 * One thread prepares turns one after the other, since within a priority turns begin in the order
 * of submission. More threads would only take time from steps, which use all processors. shares.h
 * chooses among priorities. At most RUN_PLACES turns of a priority are prepared and not begun,
 * since each has a copy of its messages and its ids.
 *
 * While a turn is prepared, its session is `stepping`, and this thread owns the fields that
 * session_state.h marks (turn), except the context and the drafter. turn_prepare does not touch
 * these two, since their memory may be needed for others.
 *
 * With -o remember=, turns are prepared before the model is loaded. The weights are loaded only for
 * a turn whose answer is not on disk. */
#include "cache/clock.h"
#include "cache/thread_trim.h"
#include "engine/model/load.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <stdlib.h>
#include <string.h>

bool run_must_load(const struct model *m)
{
	return m->run->load_wanted && atomic_load(&m->state) != MODEL_READY;
}

/* Lock held, as for all functions below. Whether the run's thread is ready to compute steps. */
static bool run_may_prepare(const struct model *m)
{
	const struct run *r = m->run;
	return !r->loads && !r->unload_wanted && !run_must_load(m) && !m->stored.doubted;
}

static void run_count_prepared(const struct run *r, uint32_t count[SESSION_PRIORITIES])
{
	for (const struct session *s = r->runnable.first; s; s = s->next)
		count[s->asked.params.priority] += !s->turn->admitted;
}

/* Skips a session while the end of its last turn is being reported. */
bool run_find_unprepared(const struct run *r, struct session *first[SESSION_PRIORITIES])
{
	uint32_t prepared[SESSION_PRIORITIES] = {0};
	bool any = false;
	run_count_prepared(r, prepared);
	memset(first, 0, SESSION_PRIORITIES * sizeof *first);
	for (struct session *s = r->unprepared.first; s; s = s->next) {
		enum session_priority i = s->asked.params.priority;
		if (first[i] || s->stepping || prepared[i] >= RUN_PLACES)
			continue;
		first[i] = s;
		any = true;
	}
	return any;
}

/* The next session whose turn to prepare. */
static struct session *run_next_to_prepare(struct run *r)
{
	struct session *first[SESSION_PRIORITIES];
	bool waits[SESSION_PRIORITIES];
	if (!run_find_unprepared(r, first))
		return NULL;
	for (size_t i = 0; i < SESSION_PRIORITIES; i++)
		waits[i] = first[i] != NULL;
	return first[shares_next(&r->preparations, waits, 0)];
}

static void run_note_remembered(struct session *s)
{
	struct turn_state *t = s->turn;
	s->stats.remembered = true;
	s->stats.prompt_tokens = s->stats.cached_tokens = t->recall.ids;
	s->stats.queued_seconds = clock_seconds_since(s->asked.submitted_ns);
	free(s->why);
	s->why = t->why;
	t->why = NULL;
}

/* Lock released meanwhile. Ends a turn without a step, because it failed, was stopped or has a
 * remembered answer. */
static void run_end_unbegun(struct session *s)
{
	struct turn_event ev = s->turn->told;
	s->turn->told = (struct turn_event){0};
	if (!ev.finish)
		turn_over(&ev, "stopped", 0, NULL);
	if (s->turn->recall.found)
		run_note_remembered(s);
	s->model->stored.doubted |= ev.failed != 0;
	turn_publish(s->turn, &ev);
	session_end_turn(s, ev.finish, ev.failed, &ev.e);
	turn_event_free(&ev);
}

static void run_hand_over(struct session *s)
{
	run_queue(s);
	s->model->run->load_wanted = true;
	if (!s->background) /* refining may have begun a step since the turn was submitted */
		run_interrupt_background(s->model);
}

/* Released meanwhile. */
static void run_prepare_turn(struct run *r, struct session *s)
{
	struct turn_state *t = s->turn;
	struct err e = {0};
	shares_count(&r->preparations, s->asked.params.priority, 1);
	run_unqueue(s);
	s->stepping = true;
	r->preparing = s;
	int failed = turn_snapshot(t, &e);
	pthread_mutex_unlock(&r->lock);
	if (!failed)
		failed = turn_prepare(t, &t->told, &e);
	if (failed)
		turn_over(&t->told, "error", failed, &e);
	pthread_mutex_lock(&r->lock);
	r->preparing = NULL;
	r->looked = false;
	s->stepping = false;
	t->prepared = true;
	if (s->ended)
		session_drop(s);
	else if (t->told.finish || atomic_load(&s->stop))
		run_end_unbegun(s);
	else
		run_hand_over(s);
	pthread_cond_signal(&r->work);
}

/* Lock released meanwhile. Writes answers before the next turn looks for its own. */
static void run_remember(struct run *r)
{
	pthread_mutex_unlock(&r->lock);
	remember_write(r->env.remember);
	pthread_mutex_lock(&r->lock);
}

/* Lock released meanwhile. The model is not loaded, and the answer to a turn may be on disk. Finds
 * out whether the tokenizer alone can be used to look for it. If not, loads the model, which
 * reports the reason. */
static void run_look_unloaded(struct model *m)
{
	struct run *r = m->run;
	r->looks = true;
	pthread_mutex_unlock(&r->lock);
	bool can = load_can_recall(m);
	pthread_mutex_lock(&r->lock);
	r->looks = false;
	r->looked = can;
	r->load_wanted |= !can;
	pthread_cond_signal(&r->work);
}

void *run_prepare_turns(void *arg)
{
	struct model *m = arg;
	struct run *r = m->run;
	bool keeps = false;
	pthread_mutex_lock(&r->lock);
	while (!atomic_load(&r->quit)) {
		bool writes = remember_waits(r->env.remember);
		struct session *s =
			!writes && run_may_prepare(m) ? run_next_to_prepare(r) : NULL;
		bool ready = atomic_load(&m->state) == MODEL_READY;
		if (writes)
			run_remember(r);
		else if (s && !ready && !r->looked)
			run_look_unloaded(m);
		else if (s)
			run_prepare_turn(r, s);
		else {
			r->looked = false;
			thread_wait_and_trim(&r->prepare, &r->lock, &keeps);
		}
		keeps |= s || writes;
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

void run_wait_for_preparation(struct run *r)
{
	while (r->preparing || r->looks)
		pthread_cond_wait(&r->work, &r->lock);
}
