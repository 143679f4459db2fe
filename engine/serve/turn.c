/* One turn of a conversation, from the prompt's text to the answer's last byte, in steps. */
#include "cache/clock.h"
#include "engine/serve/chunk.h"
#include "engine/serve/draft.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- beginning: from text to ids ---- */

void turn_start(struct session *s)
{
	struct schedule *c = &s->model->schedule;
	s->stats = (struct session_stats){.seed = s->turn.sampling.seed, .finish = ""};
	params_lossy(&s->turn.params, s->stats.lossy, sizeof s->stats.lossy);
	s->error = (struct err){0};
	s->status = atomic_load(&c->state) == MODEL_READY ? SESSION_QUEUED : SESSION_LOADING;
	s->working = true;
	atomic_store(&s->stop, false);
	session_queue(s);
	c->load_wanted = true;
	pthread_cond_signal(&c->work);
}

static int append_conversation(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	const struct chat *c = s->model->run.chat;
	int failed = tokenizer_begin(s->model->run.tokenizer, &t->ids, e);
	if (!failed && *t->params.system)
		failed = chat_message(c, ROLE_SYSTEM, t->params.system, strlen(t->params.system),
				      &s->stop, &t->ids, e);
	t->system_ids = t->ids.count;
	if (!failed)
		failed = token_list_append(&t->ids, s->history.ids, s->history.count, e);
	if (!failed)
		failed = chat_message(c, ROLE_USER, t->prompt, t->prompt_length, &s->stop, &t->ids,
				      e);
	if (!failed)
		failed = chat_answer_begin(c, &t->ids, e);
	return failed;
}

static int check_length(const struct session *s, struct err *e)
{
	size_t count = s->turn.ids.count;
	if (!count)
		return err_set(e, EINVAL, "the prompt has no tokens");
	if (count < s->model->id.context)
		return 0;
	return err_set(e, EFBIG,
		       "the prompt is %zu tokens with the conversation before it, but the context "
		       "holds %u; "
		       "shorten it, echo reset > ctl, or mount with a larger -o context=",
		       count, s->model->id.context);
}

int turn_check_ids(const struct session *s, struct err *e)
{
	for (size_t i = 0; i < s->turn.ids.count; i++)
		if (s->turn.ids.ids[i] >= s->model->id.config.vocabulary)
			return err_set(e, EINVAL,
				       "the tokenizer gives token %u, but the model's vocabulary "
				       "is %u: they do "
				       "not belong together",
				       s->turn.ids.ids[i], s->model->id.config.vocabulary);
	return 0;
}

/* What the context already holds of the ids need not be computed again; the last id always is, for
 * its logits. A recurrent state may have to go back further, and is marked where the turn begins,
 * so that undoing the turn or writing it anew goes back to there. Nothing stays that was computed
 * by other weights, or with other losses than the turn's: both are the same for a whole context, so
 * it is all or nothing. */
static void reuse_context(struct session *s)
{
	const struct token_list *have = &s->context.tokens, *want = &s->turn.ids;
	size_t same = 0;
	uint64_t weights = s->model->run.weights_sum;
	if (s->weights_sum == weights && losses_equal(&s->context_losses, &s->turn.losses))
		while (same < have->count && same + 1 < want->count &&
		       have->ids[same] == want->ids[same])
			same++;
	size_t left = context_rollback(&s->context, same);
	if (s->turn.follow)
		drafter_begin(&s->drafter, &s->context);
	else
		drafter_drop(&s->drafter);
	recurrent_mark(&s->context.recurrent, left);
	s->turn.recomputed = same - left;
	s->context_losses = s->turn.losses;
	s->weights_sum = weights;
}

static int note_repetition(struct turn *t, uint32_t vocabulary, struct err *e)
{
	struct penalties by = {
		.repetition = (float)t->params.repetition_penalty,
		.frequency = (float)t->params.frequency_penalty,
		.presence = (float)t->params.presence_penalty,
	};
	if (repetition_init(&t->repetition, by, vocabulary) ||
	    repetition_add(&t->repetition, t->ids.ids, t->ids.count))
		return err_set(e, ENOMEM, "out of memory for the penalties of what was said");
	return 0;
}

int turn_begin(struct session *s, struct err *e)
{
	struct turn *t = &s->turn;
	const struct model *m = s->model;
	t->chat = t->params.chat == CHAT_ON || (t->params.chat == CHAT_UNSET && m->run.chat);
	if (t->chat && !m->run.chat)
		return err_set(e, ENOTSUP,
			       "%s has no chat format (its tokenizer lacks <|im_start|>); "
			       "echo off > params/chat",
			       m->id.name);
	int failed = t->chat ? append_conversation(s, e)
			     : tokenizer_encode_alone(m->run.tokenizer, t->prompt, t->prompt_length,
						      &s->stop, &t->ids, e);
	if (!failed)
		failed = check_length(s, e);
	if (!failed)
		failed = turn_check_ids(s, e);
	if (!failed)
		failed = note_repetition(t, m->id.config.vocabulary, e);
	if (!failed)
		failed = logprobs_begin(s, e);
	if (!failed)
		failed = stream_init(&t->stream, t->params.stop, e);
	if (failed)
		return failed;
	t->stream.skip_space = t->chat && tokenizer_leads_with_space(m->run.tokenizer);
	t->prompt_ids = t->ids.count;
	t->follow = draft_follows(s);
	reuse_context(s);
	t->begun = true;
	return 0;
}

/* ---- texts ---- */

void session_log_append(struct session *s, const char *text, size_t n)
{
	if (s->log_size + n > s->log_room) {
		size_t room = 2 * (s->log_size + n);
		char *log = realloc(s->log, room);
		if (!log)
			return;
		s->log = log;
		s->log_room = room;
	}
	memcpy(s->log + s->log_size, text, n);
	s->log_size += n;
}

/* Copies the part of the answer that became readable to the log. Lock held. */
static void log_answer(struct session *s, uint64_t from)
{
	char piece[4096];
	bool complete;
	ssize_t n;
	while ((n = answer_read(s->answer, from, piece, sizeof piece, &complete)) > 0) {
		session_log_append(s, piece, (size_t)n);
		from += (uint64_t)n;
	}
}

int turn_give_out(struct session *s, const char *text, size_t n, struct err *e)
{
	bool complete;
	uint64_t before = answer_size(s->answer, &complete);
	if (!text || answer_append(s->answer, text, n) < 0)
		return err_set(e, ENOMEM, "out of memory for the answer");
	pthread_mutex_lock(&s->model->schedule.lock);
	log_answer(s, before);
	pthread_mutex_unlock(&s->model->schedule.lock);
	return 0;
}

/* ---- ending ---- */

/* The conversation goes on from what the model saw and said. */
static void extend_history(struct session *s)
{
	struct turn *t = &s->turn;
	struct err ignored;
	size_t before = s->history.count;
	s->history.count = 0; /* ids begins with the same */
	int failed = token_list_append(&s->history, t->ids.ids + t->system_ids,
				       t->ids.count - t->system_ids, &ignored);
	if (!failed)
		failed = chat_answer_end(s->model->run.chat, &s->history, &ignored);
	if (failed) /* out of memory: this turn is forgotten, the earlier ones still lie there */
		s->history.count = before;
}

void turn_free(struct turn *t)
{
	free(t->prompt);
	params_free(&t->params);
	token_list_free(&t->ids);
	repetition_free(&t->repetition);
	logprobs_free(&t->logprobs);
	stream_free(&t->stream);
	*t = (struct turn){0};
}

void turn_end(struct session *s, const char *finish, int failed, const struct err *e)
{
	struct turn *t = &s->turn;
	bool complete, scored = t->score.read != NULL;
	uint64_t before = answer_size(s->answer, &complete);
	size_t n = 0;
	const char *rest = t->begun ? stream_flush(&t->stream, &n) : NULL;
	if (rest && n)
		answer_append(s->answer, rest, n);
	if (!failed && t->begun && t->chat)
		extend_history(s);
	s->status = failed			? SESSION_ERROR
		    : strcmp(finish, "stopped") ? SESSION_DONE
						: SESSION_STOPPED;
	s->stats.finish = finish;
	s->error = (struct err){0};
	if (failed)
		s->error = *e;
	turn_free(t);
	s->working = false;
	/* Last, since whoever sees the answer complete may submit the next prompt. */
	answer_finish(s->answer, failed ? -EIO : 0);
	if (scored) /* no part of the conversation */
		return;
	log_answer(s, before);
	session_log_append(s, "\n", 1);
}

bool turn_over(struct session *s, const char *finish, int failed, const struct err *e)
{
	if (failed == -ECANCELED) {
		finish = "stopped";
		failed = 0;
	}
	pthread_mutex_lock(&s->model->schedule.lock);
	s->model->stored.doubted |= failed != 0;
	if (s->working) /* not ended by session_end meanwhile */
		turn_end(s, finish, failed, e);
	pthread_mutex_unlock(&s->model->schedule.lock);
	return false;
}

/* ---- computing ---- */

static void count_step(struct session *s, uint64_t started, bool prefill)
{
	struct pager_stats now;
	struct session_stats *st = &s->stats;
	model_cache_stats(s->model, &now);
	pthread_mutex_lock(&s->model->schedule.lock);
	*(prefill ? &st->prefill_seconds : &st->decode_seconds) += seconds_since(started);
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
	struct batch *b = &s->model->run.batch;
	struct row row = {
		.context = &s->context,
		.kind = kind,
		.logits = all,
		.losses = s->turn.losses,
	};
	uint32_t certain = kind == ROW_PROMPT ? n : 1;
	batch_clear(b);
	int failed = batch_add(b, &row, tokens, certain, e);
	row.kind = ROW_DRAFT;
	if (!failed)
		failed = batch_add(b, &row, tokens + certain, n - certain, e);
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
	uint64_t started = now_ns(), dropped = f->experts_dropped;
	if (s->weights_sum != s->model->run.weights_sum)
		return err_set(e, EIO,
			       "the checkpoint was converted anew while it answered, since it was "
			       "changed or needs 32-bit norms; ask again");
	f->env.stop = &s->stop;
	if (s->turn.follow)
		draft_make_room(s, *tokens, kind);
	int failed = fill_batch(s, tokens, n, kind, want, all || s->turn.score.read, e);
	s->model->run.batch.normed = s->turn.follow;
	s->model->run.batch.read = s->turn.score.read;
	s->model->run.batch.ctx = s;
	if (!failed)
		failed = run(s, all, e);
	count_step(s, started, kind == ROW_PROMPT);
	count_dropped(s, f->experts_dropped - dropped);
	return failed;
}
