/* One session's part of a step (run_step.c): adds the rows of its turn to the batch, and publishes
 * the step's results to the session. */
#include "cache/clock.h"
#include "engine/model/chunk.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the beginning of a turn ---- */

static void run_begin_turn(struct session *s, struct turn_event *ev)
{
	struct model *m = s->model;
	struct turn_state *t = s->turn;
	*ev = t->told;
	t->told = (struct turn_event){0};
	turn_admit(t);
	pthread_mutex_lock(&m->run->lock);
	s->status = SESSION_PROMPTING;
	s->stats.queued_seconds = clock_seconds_since(s->asked.submitted_ns);
	s->stats.prompt_tokens = t->ids.count;
	s->stats.cached_tokens = s->context.tokens.count;
	s->stats.from_disk_tokens = s->brought_back;
	s->stats.recomputed_tokens = t->recomputed;
	free(s->why);
	s->why = t->why;
	t->why = NULL;
	pthread_mutex_unlock(&m->run->lock);
}

/* Reads the session's context back from disk. Idle sessions give up their contexts until there is
 * room for it.
 */
static void run_bring_back(struct session *s)
{
	int failed;
	s->brought_back = 0;
	s->offload_failed = 0;
	do
		failed = run_read_back(s);
	while (failed == -ENOSPC && !s->offloaded->failed && run_find_room_of_idle(s));
	run_forget_offloaded(s, failed);
}

void run_begin_place(struct run_place *p)
{
	struct session *s = p->session;
	p->computes = p->computed = false;
	p->no_room = (struct err){0};
	p->before = run_cost_of(s);
	if (atomic_load(&s->stop)) {
		turn_over(&p->event, "stopped", 0, NULL);
	} else if (!s->turn->admitted) {
		run_bring_back(s);
		run_begin_turn(s, &p->event);
	} else {
		turn_begin_step(s->turn);
		p->computes = true;
	}
}

/* ---- rows ---- */

/* A step without room in the context is repeated if room can be found. The memory of drafts is
 * given up first. */
static void run_fail_place(struct run_place *p, int failed, const struct err *e)
{
	struct session *s = p->session;
	if (failed != -ENOSPC) {
		turn_fail(s->turn, failed, e, &p->event);
		return;
	}
	s->turn->step.stood = 0;
	if (!drafter_yield(&s->drafter))
		p->no_room = *e;
}

static int run_add_rows(struct session *s, uint32_t most, struct step_batch *b, struct err *e)
{
	struct model *m = s->model;
	struct turn_state *t = s->turn;
	size_t left = turn_left(t);
	if (s->weights_sum != m->loaded.weights_sum)
		return err_set(e, EIO,
			       "the checkpoint was converted again during the answer, because it "
			       "changed or needs 32-bit norms; ask again");
	uint32_t room = left ? chunk_next(m, left, most) : 1, before = b->count;
	s->account.stop = &s->stop;
	s->account.observer = s->observer;
	if (t->follow)
		draft_make_room(t, t->ids.ids[s->context.tokens.count], t->step.kind);
	b->normed |= t->follow;
	/* A prompt begins only when there is room for all of it, so that it is not computed twice
	 * because it ran out of room in the middle. */
	int failed = left ? context_reserve_text(&s->context, (uint32_t)t->prompt_ids, e) : 0;
	if (!failed)
		failed = turn_rows(t, room, b, e);
	if (failed)
		b->count = before;
	return failed;
}

void run_collect_place(struct run_place *p, uint32_t most, struct step_batch *b)
{
	struct session *s = p->session;
	struct err e = {0};
	int failed = run_add_rows(s, most, b, &e);
	p->computes = !failed;
	if (failed)
		run_fail_place(p, failed, &e);
	else
		tracing_begin(&p->trace, s, s->turn->step.kind);
}

void run_settle_place(struct run_place *p, int failed, const struct err *e)
{
	struct session *s = p->session;
	struct turn_state *t = s->turn;
	const struct step_account *a = &s->account;
	tracing_end(s);
	p->computed = true;
	if (failed)
		run_fail_place(p, failed, e);
	else if (a->end == SPAN_FAILED)
		run_fail_place(p, -a->error.code, &a->error);
	else if (a->end == SPAN_DONE)
		turn_settle(t, a->rows, &p->event);
	else if (!p->event.finish)
		turn_over(&p->event, "stopped", 0, NULL);
	if (t->step.kind == ROW_ANSWER)
		tracing_settle(&p->trace, t->step.stood);
	if (!failed && a->end == SPAN_DONE)
		turn_count_draft(t, &p->event);
}

/* ---- what it cost, and what it brings ---- */

struct run_cost run_cost_of(const struct session *s)
{
	const struct step_account *a = &s->account, *d = &s->drafting;
	return (struct run_cost){a->hits + d->hits, a->misses + d->misses, a->reads + d->reads,
				 a->dropped + d->dropped, a->substituted + d->substituted, a->ngram_rows, a->ngram_waits};
}

/* Each session in the step gets the step's whole time, since it waited for all of it. Bytes read
 * are divided in proportion to the reads that each session caused. all_reads: the reads of all
 * sessions. */
static void run_count(const struct run_place *p, const struct run_step *step, uint64_t all_reads)
{
	struct session *s = p->session;
	struct session_stats *st = &s->stats;
	const struct run_cost now = run_cost_of(s), *before = &p->before;
	bool prompt = s->turn->step.kind == ROW_PROMPT;
	if (!p->computed)
		return;
	*(prompt ? &st->prefill_seconds : &st->decode_seconds) += step->seconds;
	st->expert_hits += now.hits - before->hits;
	st->expert_misses += now.misses - before->misses;
	st->experts_dropped += now.dropped - before->dropped;
	st->experts_substituted += now.substituted - before->substituted;
	st->ngram_rows += now.ngram_rows - before->ngram_rows;
	st->ngram_waits += now.ngram_waits - before->ngram_waits;
	double share = all_reads ? (double)(now.reads - before->reads) / (double)all_reads : 0;
	st->bytes_read +=
		(uint64_t)(share * (double)(step->after.bytes_read - step->before.bytes_read));
	double waited = (double)(step->after.wait_ns - step->before.wait_ns) * 1e-9;
	st->wait_seconds += waited;
	if (!prompt)
		st->decode_wait_seconds += waited;
	st->context_tokens = s->context.tokens.count;
}

void run_publish_place(struct run_place *p, const struct run_step *step, uint64_t reads)
{
	struct session *s = p->session;
	struct turn_event *ev = &p->event;
	/* A scored text's context is dropped, so that it holds no context memory while its answer
	 * is still open. */
	if (ev->finish && s->asked.scores)
		context_rollback(&s->context, 0);
	if (s->working && p->no_room.code && !run_find_room(s)) /* perhaps only for drafts */
		turn_fail(s->turn, -p->no_room.code, &p->no_room, ev);
	s->model->stored.doubted |= ev->failed != 0;
	if (s->working) { /* session_end has not ended it meanwhile */
		run_count(p, step, reads);
		turn_publish(s->turn, ev);
		if (ev->finish && !ev->failed && !s->asked.scores && !s->background)
			forecast_count(&s->model->run->forecast, &s->stats);
		if (ev->finish) {
			turn_end(s, ev->finish, ev->failed, &ev->e);
			if (remember_waits(s->model->engine->remember))
				pthread_cond_signal(&s->model->run->prepare);
			run_end_wait(s->model->run);
		}
	}
	p->over = ev->finish;
	turn_event_free(ev);
}
