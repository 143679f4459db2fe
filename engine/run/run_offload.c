/* Writes contexts of idle sessions to disk before their memory is used for other contexts (-o
 * offload=), and reads them back when the session's next turn begins. The run's thread writes and
 * reads; inspecting the model does not wait for this. Kept prefixes that no session uses any more
 * are not written to disk. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <stdlib.h>

/* A context that will be written to disk. Its memory is kept until it has been written. */
struct run_leaving {
	struct run_leaving *next;
	struct offload_text *text;
	struct context_save save;
};

void run_leave(struct session *s)
{
	struct run *r = s->model->run;
	struct err ignored;
	size_t positions = s->context.tokens.count;
	if (!r->offload.room->most || positions < PREFIX_LEAST)
		return;
	struct run_leaving *l = calloc(1, sizeof *l);
	struct offload_text *t = l ? offload_begin(&r->offload, positions) : NULL;
	if (!t || context_save_open(&l->save, &s->context, &s->model->id.config, &ignored)) {
		if (t) {
			t->writing = false;
			offload_drop(t);
		}
		free(l);
		return;
	}
	t->positions = l->save.parts.counts.head.positions;
	t->weights_sum = s->weights_sum;
	t->losses = s->context_losses;
	t->is_private = s->context_private;
	l->text = t;
	l->next = r->leaving;
	r->leaving = l;
	offload_drop(s->offloaded);
	s->offloaded = t;
}

void run_write_leaving(struct model *m)
{
	struct run *r = m->run;
	struct run_leaving *l;
	while ((l = r->leaving)) {
		r->leaving = l->next;
		offload_write(&r->offload, l->text, &l->save);
		context_save_close(&l->save);
		free(l);
	}
}

int run_read_back(struct session *s)
{
	struct model *m = s->model;
	const struct offload_text *t = s->offloaded;
	struct err ignored;
	if (!t || t->failed || s->context.tokens.count)
		return t ? -t->failed : 0;
	run_write_leaving(m);
	int failed = offload_read(&m->run->offload, t, &s->context, &m->id.config, &ignored);
	if (failed)
		return failed;
	s->brought_back = s->context.tokens.count;
	s->weights_sum = t->weights_sum;
	s->context_losses = t->losses;
	s->context_private = t->is_private;
	s->context_given_up = false;
	return 0;
}

void run_forget_offloaded(struct session *s, int failed)
{
	struct offload_text *t = s->offloaded;
	if (failed == -ENOENT) /* newer texts have replaced it */
		s->offload_failed = ENOSPC;
	else if (failed == -ENOSPC && !t->failed) /* the context budget is full, not the disk */
		s->offload_failed = 0;
	else
		s->offload_failed = -failed;
	pthread_mutex_lock(&s->model->run->lock);
	s->offloaded = NULL;
	pthread_mutex_unlock(&s->model->run->lock);
	offload_drop(t);
}
