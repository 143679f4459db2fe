/* What a turn's steps compute, and what their tokens say. */
#include "cache/clock.h"
#include "engine/serve/draft.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>

/* ---- saying ---- */

/* Marks of thinking and calls are for whoever takes the answer apart, control tokens or not. */
static const char *bytes_of(const struct session *s, uint32_t id, size_t *n)
{
	const struct tokenizer *t = s->model->run.tokenizer;
	const char *bytes = tokenizer_bytes(t, id, false, n);
	if (*n || !s->turn.chat)
		return bytes;
	bytes = tokenizer_bytes(t, id, true, n);
	if (!split_form_marks(s->turn.answering.form, bytes, *n))
		*n = 0;
	return bytes;
}

int turn_say(struct session *s, uint32_t id, struct err *e)
{
	size_t n;
	const char *bytes = bytes_of(s, id, &n);
	pthread_mutex_lock(&s->model->schedule.lock);
	int failed = answering_take(s, bytes, n, e);
	pthread_mutex_unlock(&s->model->schedule.lock);
	return failed;
}

/* ---- computing ---- */

static void count_step(struct session *s, uint64_t started, bool prefill)
{
	struct pager_stats now;
	struct session_stats *st = &s->stats;
	model_cache_stats(s->model, &now);
	pthread_mutex_lock(&s->model->schedule.lock);
	*(prefill ? &st->prefill_seconds : &st->decode_seconds) += clock_seconds_since(started);
	st->expert_hits = now.hits - s->turn.before.hits;
	st->expert_misses = now.misses - s->turn.before.misses;
	st->bytes_read = now.bytes_read - s->turn.before.bytes_read;
	double waited = (double)(now.wait_ns - s->turn.before.wait_ns) * 1e-9;
	if (!prefill)
		st->decode_wait_seconds += waited - st->wait_seconds;
	st->wait_seconds = waited;
	st->context_tokens = s->context.tokens.count;
	pthread_mutex_unlock(&s->model->schedule.lock);
}

static void count_dropped(struct session *s, uint64_t experts)
{
	pthread_mutex_lock(&s->model->schedule.lock);
	s->stats.experts_dropped += experts;
	pthread_mutex_unlock(&s->model->schedule.lock);
}

static int fill_batch(struct session *s, const uint32_t *tokens, uint32_t n, enum row_kind kind,
		      bool last, bool all, struct err *e)
{
	struct step_batch *b = &s->model->run.batch;
	struct step_row row = {
		.context = &s->context,
		.kind = kind,
		.logits = all,
		.losses = s->turn.losses,
	};
	uint32_t certain = kind == ROW_PROMPT ? n : 1;
	step_batch_clear(b);
	int failed = step_batch_add(b, &row, tokens, certain, e);
	row.kind = ROW_DRAFT;
	if (!failed)
		failed = step_batch_add(b, &row, tokens + certain, n - certain, e);
	if (!failed)
		b->rows[n - 1].logits = last || all;
	return failed;
}

/* What drafts keep gives way to what the text needs. */
static int run(struct session *s, float *all, struct err *e)
{
	struct model *m = s->model;
	size_t before = s->context.tokens.count;
	int failed = forward_run(&m->run.forward, &m->run.batch, all, e);
	if (failed == -ENOSPC && s->context.tokens.count == before && drafter_yield(&s->drafter))
		failed = forward_run(&m->run.forward, &m->run.batch, all, e);
	return failed;
}

int turn_forward(struct session *s, const uint32_t *tokens, uint32_t n, enum row_kind kind,
		 bool want, float *all, struct err *e)
{
	struct forward *f = &s->model->run.forward;
	uint64_t started = clock_ns(), dropped = f->experts_dropped;
	if (s->weights_sum != s->model->run.weights_sum)
		return err_set(e, EIO,
			       "the checkpoint was converted again during the answer, because it "
			       "changed or needs 32-bit norms; ask again");
	f->env.stop = &s->stop;
	f->env.observer = s->observer;
	if (s->turn.follow)
		draft_make_room(s, *tokens, kind);
	int failed = fill_batch(s, tokens, n, kind, want, all || s->turn.score.read, e);
	s->model->run.batch.normed = s->turn.follow;
	s->model->run.batch.read = s->turn.score.read;
	s->model->run.batch.ctx = s;
	tracing_begin(s, kind);
	if (!failed)
		failed = run(s, all, e);
	tracing_end(s);
	count_step(s, started, kind == ROW_PROMPT);
	count_dropped(s, f->experts_dropped - dropped);
	return failed;
}
