/* A turn goes on step by step: its beginning, then chunks of the prompt, then the answer's tokens
 * (decode.c). */
#include "engine/serve/chunk.h"
#include "engine/serve/draft.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

/* A long prompt is not computed again from its beginning, nor one that parts from it at its fork,
 * which a step may have passed. */
static void mark(struct session *s, size_t done)
{
	size_t fork = s->turn.fork, held = s->context.tokens.count;
	if (fork > done && fork < held)
		context_checkpoint(&s->context, fork);
	context_checkpoint(&s->context, held);
}

/* A chunk of the prompt; after the last, the first token of the answer. */
static bool prefill_step(struct session *s)
{
	const struct turn *t = &s->turn;
	struct err e = {0};
	size_t done = s->context.tokens.count, left = t->prompt_ids - done;
	uint32_t n = chunk_next(s->model, left);
	/* A step ends where a recurrent state will be gone back to. */
	if (s->context.recurrent.bytes && done < t->fork && n > t->fork - done)
		n = (uint32_t)(t->fork - done);
	int failed = turn_forward(s, t->ids.ids + done, n, ROW_PROMPT, n == left, NULL, &e);
	if (failed)
		return turn_over(s, "error", failed, &e);
	if (t->follow)
		draft_follow_prompt(s, n);
	mark(s, done);
	return n == left ? decode_first(s) : true;
}

/* A step that failed over a draft has taken a recurrent state back to before the answer's last
 * token: what it had held is computed again. */
static bool recompute_step(struct session *s)
{
	const struct turn *t = &s->turn;
	struct err e = {0};
	size_t done = s->context.tokens.count, left = t->ids.count - 1 - done;
	uint32_t n = chunk_next(s->model, left);
	int failed = turn_forward(s, t->ids.ids + done, n, ROW_PROMPT, false, NULL, &e);
	return failed ? turn_over(s, "error", failed, &e) : true;
}

static bool begin_step(struct session *s)
{
	struct err e = {0};
	int failed = turn_begin(s, &e);
	if (failed)
		return turn_over(s, "error", failed, &e);
	pthread_mutex_lock(&s->model->schedule.lock);
	model_cache_stats(s->model, &s->turn.before);
	s->status = SESSION_PROMPTING;
	s->stats.prompt_tokens = s->turn.ids.count;
	s->stats.cached_tokens = s->context.tokens.count;
	s->stats.recomputed_tokens = s->turn.recomputed;
	pthread_mutex_unlock(&s->model->schedule.lock);
	return true;
}

bool turn_step(struct session *s)
{
	if (atomic_load(&s->stop))
		return turn_over(s, "stopped", 0, NULL);
	if (s->turn.score.read)
		return score_step(s);
	if (!s->turn.begun)
		return begin_step(s);
	if (s->turn.ids.count == s->turn.prompt_ids)
		return prefill_step(s);
	return s->context.tokens.count + 1 < s->turn.ids.count ? recompute_step(s) : decode_step(s);
}
