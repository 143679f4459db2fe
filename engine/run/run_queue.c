/* The queue of a model's sessions that have a turn, and notifying their users. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <time.h>

/* NULL: at the list's ends. */
static void run_queue_between(struct session *s, struct session *before, struct session *after)
{
	struct session_list *l = &s->model->run->runnable;
	s->next = after;
	s->previous = before;
	*(before ? &before->next : &l->first) = s;
	*(after ? &after->previous : &l->last) = s;
	s->queued = true;
}

void run_queue(struct session *s)
{
	struct session *before = s->model->run->runnable.last, *after = NULL;
	while (before && before->background && !s->background) {
		after = before;
		before = before->previous;
	}
	run_queue_between(s, before, after);
}

void run_queue_first(struct session *s)
{
	run_queue_between(s, NULL, s->model->run->runnable.first);
}

/* In the middle of a step. */
static void run_interrupt_background(struct model *m)
{
	struct run_party *p = m->run->parties;
	refining_send_away(&m->run->refining);
	if (!p->count || !p->places->session->background)
		return; /* a background session has its steps alone */
	atomic_store(&p->places->session->stop, true);
	pager_wake(m->engine->pager);
}

void run_send_away(struct model *m)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	const struct run *run = m->run;
	const struct session *s;
	refining_send_away(&m->run->refining);
	while ((s = run->parties->count ? run->parties->places->session : run->runnable.first) &&
	       s->background) {
		run_interrupt_background(m); /* who began it ends it then */
		pthread_mutex_unlock(&m->run->lock);
		nanosleep(&moment, NULL);
		pthread_mutex_lock(&m->run->lock);
	}
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
	run->load_wanted = true;
	pthread_cond_signal(&run->work);
}

void run_unqueue(struct session *s)
{
	struct session_list *l = &s->model->run->runnable;
	*(s->previous ? &s->previous->next : &l->first) = s->next;
	*(s->next ? &s->next->previous : &l->last) = s->previous;
	s->next = s->previous = NULL;
	s->queued = false;
	s->waits_for_room = false; /* else run_end_wait would wake a turn that is over */
}

bool run_has_turn(const struct run *r)
{
	bool has = r->runnable.first;
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
