/* Whose turn it is: the sessions of a model that have a step to do, in rotation, and telling who
 * waits for one of them. */
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <time.h>

void session_queue(struct session *s)
{
	struct session_list *l = &s->model->schedule.runnable;
	struct session *before = l->last, *after = NULL;
	while (before && before->background && !s->background) {
		after = before;
		before = before->previous;
	}
	s->next = after;
	s->previous = before;
	*(before ? &before->next : &l->first) = s;
	*(after ? &after->previous : &l->last) = s;
	s->queued = true;
}

/* In the middle of a step. */
static void send_away(struct model *m)
{
	struct session *s = m->schedule.at_step;
	refine_send_away(&m->refining);
	if (!s || !s->background)
		return;
	atomic_store(&s->stop, true);
	pager_wake(m->engine->pager);
}

void schedule_send_away(struct model *m)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	const struct schedule *c = &m->schedule;
	const struct session *s;
	refine_send_away(&m->refining);
	while ((s = c->at_step ? c->at_step : c->runnable.first) && s->background) {
		send_away(m); /* who began it ends it then */
		pthread_mutex_unlock(&m->schedule.lock);
		nanosleep(&moment, NULL);
		pthread_mutex_lock(&m->schedule.lock);
	}
}

void session_start_turn(struct session *s)
{
	struct schedule *c = &s->model->schedule;
	s->stats = (struct session_stats){.seed = s->turn.sampling.seed, .finish = ""};
	params_lossy(&s->turn.params, s->stats.lossy, sizeof s->stats.lossy);
	s->error = (struct err){0};
	bool ready = atomic_load(&c->state) == MODEL_READY && !c->unload_wanted;
	s->status = ready ? SESSION_QUEUED : SESSION_LOADING;
	s->working = true;
	atomic_store(&s->stop, false);
	session_queue(s);
	if (!s->background)
		send_away(s->model);
	c->load_wanted = true;
	pthread_cond_signal(&c->work);
}

void session_unqueue(struct session *s)
{
	struct session_list *l = &s->model->schedule.runnable;
	*(s->previous ? &s->previous->next : &l->first) = s->next;
	*(s->next ? &s->next->previous : &l->last) = s->previous;
	s->next = s->previous = NULL;
	s->queued = false;
}

void session_notify(struct session *s)
{
	struct model *m = s->model;
	pthread_mutex_lock(&m->schedule.notify);
	if (s->user && m->engine->options.changed)
		m->engine->options.changed(m->engine->options.ctx, s->user);
	pthread_mutex_unlock(&m->schedule.notify);
}
