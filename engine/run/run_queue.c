/* The queue of a model's sessions that have a turn, and notifying their users. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <time.h>

static struct session_list *run_list_of(const struct session *s)
{
	struct run *r = s->model->run;
	return s->turn->prepared ? &r->runnable : &r->unprepared;
}

/* Inserts a session between two others; NULL: the end of the list. */
static void run_queue_between(struct session *s, struct session *before, struct session *after)
{
	struct session_list *l = run_list_of(s);
	s->next = after;
	s->previous = before;
	*(before ? &before->next : &l->first) = s;
	*(after ? &after->previous : &l->last) = s;
	s->queued = true;
}

void run_queue(struct session *s)
{
	struct session *before = run_list_of(s)->last, *after = NULL;
	while (before && before->background && !s->background) {
		after = before;
		before = before->previous;
	}
	run_queue_between(s, before, after);
}

void run_queue_first(struct session *s)
{
	run_queue_between(s, NULL, run_list_of(s)->first);
}

void run_interrupt_background(struct model *m)
{
	struct run_party *p = m->run->parties;
	refining_send_away(&m->run->refining);
	if (!p->count || !p->places->session->background)
		return; /* background sessions do not share steps */
	atomic_store(&p->places->session->stop, true);
	pager_wake(m->engine->pager);
}

static bool run_has_background(const struct run *r)
{
	const struct session *s = r->all;
	while (s && !(s->background && (s->working || s->stepping)))
		s = s->all_next;
	return s;
}

void run_send_away(struct model *m)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	refining_send_away(&m->run->refining);
	while (run_has_background(m->run)) {
		run_interrupt_background(m); /* the thread that began the work then ends it */
		pthread_mutex_unlock(&m->run->lock);
		nanosleep(&moment, NULL);
		pthread_mutex_lock(&m->run->lock);
	}
}

/* Lock held. Whether the answer may be on disk. Then the weights are not loaded yet: run_prepare.c
 * first looks for the answer. */
static bool run_may_recall(const struct session *s)
{
	const struct model *m = s->model;
	const struct asked *a = &s->asked;
	return m->run->env.remember && atomic_load(&m->state) == MODEL_UNLOADED &&
	       !m->run->unload_wanted && !m->run->loads && !s->background && !a->scores &&
	       !a->embeds && recall_may(&a->params);
}

void run_start_turn(struct session *s, struct turn_state *t)
{
	struct run *run = s->model->run;
	s->turn = t;
	s->waits_for_room = s->tries_again = false;
	s->owed = false;
	bool ready = atomic_load(&s->model->state) == MODEL_READY && !run->unload_wanted;
	s->status = ready ? SESSION_QUEUED : SESSION_LOADING;
	run_queue(s);
	if (!s->background)
		run_interrupt_background(s->model);
	run->load_wanted |= !run_may_recall(s);
	pthread_cond_signal(&run->prepare);
	pthread_cond_signal(&run->work);
}

void run_unqueue(struct session *s)
{
	struct run *r = s->model->run;
	struct session_list *l = run_list_of(s);
	*(s->previous ? &s->previous->next : &l->first) = s->next;
	*(s->next ? &s->next->previous : &l->last) = s->previous;
	s->next = s->previous = NULL;
	s->queued = false;
	s->waits_for_room = false; /* or run_end_wait would choose this ended turn */
	if (r->unprepared.first && !s->turn->admitted) /* another turn can be prepared */
		pthread_cond_signal(&r->prepare);
	if (!s->turn->prepared) /* the run's thread may be waiting for this */
		pthread_cond_signal(&r->work);
}

bool run_has_turn(const struct run *r)
{
	bool has =
		r->runnable.first || r->unprepared.first || (r->preparing && r->preparing->working);
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < r->parties[i].count; k++)
			has |= r->parties[i].places[k].session->working;
	return has;
}

void run_notify(struct session *s)
{
	struct model *m = s->model;
	pthread_mutex_lock(&m->run->notify);
	if (s->user && m->engine->options.changed)
		m->engine->options.changed(m->engine->options.ctx, s->user);
	pthread_mutex_unlock(&m->run->notify);
}
