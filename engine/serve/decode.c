/* A turn's answer, token by token: drawing, and steps that verify drafts.
 *
 * A step computes the last token and with it those that may follow (draft.c). Each row's logits are
 * what they would be without the others (promise 2), and each is drawn from as it would be: with
 * the random number of its position. The first row that draws something else than was drafted ends
 * the step, and what was computed beyond it is taken back. So drafts change how many tokens a step
 * yields and nothing else.
 */
#include "cache/clock.h"
#include "engine/compute/recurrent.h"
#include "engine/serve/draft.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include <errno.h>
#include <math.h>
#include <string.h>

_Static_assert((int)ANSWER_ROWS == (int)DRAFT_MOST + 1,
	       "a step verifies a draft after the last token");
_Static_assert((int)RECURRENT_BEHIND >= (int)DRAFT_MOST,
	       "a recurrent state may be behind by a draft");

static void count_token(struct session *s)
{
	pthread_mutex_lock(&s->model->schedule.lock);
	s->status = SESSION_GENERATING;
	if (!s->stats.output_tokens++)
		s->stats.first_token_seconds = clock_seconds_since(s->turn.submitted_ns);
	pthread_mutex_unlock(&s->model->schedule.lock);
}

/* How the turn ends with a token that is in the answer, if it does. `over`: nothing else may
 * follow. */
static const char *end_after(const struct session *s, size_t held, bool over)
{
	const struct turn *t = &s->turn;
	if (t->answering.stops.stopped)
		return "stop";
	if (over)
		return "end";
	if (t->params.max_tokens && t->ids.count - t->prompt_ids >= t->params.max_tokens)
		return "length";
	return held >= s->model->id.context ? "length" : NULL;
}

/* Draws the token that follows the first `held` of the context, and gives its text out. Returns the
 * word that the turn ends with; NULL: it goes on. */
static const char *take_token(struct session *s, float *logits, size_t held, int *failed,
			      struct err *e)
{
	struct turn *t = &s->turn;
	struct model *m = s->model;
	bool over = false;
	logprobs_keep(&t->logprobs, logits);
	*failed = constrain_logits(s, logits, e);
	if (*failed)
		return "error";
	sampler_bias(t->params.logit_bias.of, t->params.logit_bias.count, logits);
	sampler_repetition_apply(&t->repetition, logits);
	uint32_t id = sampler_draw(&m->run.sampler, logits, &t->sampling, held);
	if (!isfinite(logits[id])) {
		*failed = err_set(e, EIO,
				  "the model computed NaN (not a number): its weights are damaged");
		err_name(e, "damaged");
		return "error";
	}
	count_token(s);
	*failed = logprobs_tell(s, id, e);
	if (*failed)
		return "error";
	if (model_ends(m, t->chat, id))
		return "end";
	*failed = token_list_append(&t->ids, &id, 1, e);
	if (!*failed && sampler_repetition_add_answer(&t->repetition, id))
		*failed = err_set(e, ENOMEM, "out of memory for the repetition penalties");
	if (!*failed)
		*failed = constrain_take(s, id, &over, e);
	if (!*failed)
		*failed = turn_say(s, id, e);
	return *failed ? "error" : end_after(s, held, over);
}

bool decode_first(struct session *s)
{
	struct err e = {0};
	int failed = 0;
	const char *finish = take_token(s, s->model->run.forward.scratch.logits,
					s->context.tokens.count, &failed, &e);
	return finish ? turn_over(s, finish, failed, &e) : true;
}

/* What stood of a draft stays in the context. */
static void settle(struct session *s, size_t before, uint32_t stood)
{
	size_t held = before + stood + 1;
	if (s->context.tokens.count > held) {
		context_rollback(&s->context, held);
		pthread_mutex_lock(&s->model->schedule.lock);
		s->stats.context_tokens = held;
		pthread_mutex_unlock(&s->model->schedule.lock);
	}
	if (s->turn.follow)
		drafter_follow_answer(&s->drafter, &s->model->run.draft_layer, &s->context,
				      stood + 1);
}

/* What a draft needs, the text may not: an expert that cannot be read, a context's last block. The
 * answer goes on from where the failed step left the context, and without drafts it fails only if
 * it must. */
static bool without_drafts(struct session *s)
{
	s->turn.undrafted = true;
	s->turn.follow = false;
	drafter_drop(&s->drafter);
	return true;
}

bool decode_step(struct session *s)
{
	struct turn *t = &s->turn;
	struct forward *f = &s->model->run.forward;
	struct err e = {0};
	struct draft d;
	size_t before = s->context.tokens.count;
	draft_propose(s, &d);
	uint32_t rows[ANSWER_ROWS], drafted = d.choice.depth, stood = 0;
	uint64_t started = clock_ns();
	rows[0] = t->ids.ids[before];
	memcpy(rows + 1, d.tokens, drafted * sizeof *rows);
	int failed = turn_forward(s, rows, drafted + 1, ROW_ANSWER, true,
				  drafted ? f->scratch.logits : NULL, &e);
	if (failed) {
		tracing_settle(s, 0);
		return drafted ? without_drafts(s) : turn_over(s, "error", failed, &e);
	}
	const char *finish;
	for (;; stood++) {
		float *logits = f->scratch.logits + (size_t)stood * s->model->id.config.vocabulary;
		finish = take_token(s, logits, before + stood + 1, &failed, &e);
		if (finish || stood == drafted || t->ids.ids[t->ids.count - 1] != rows[stood + 1])
			break;
	}
	settle(s, before, stood);
	tracing_settle(s, stood);
	draft_count(s, &d, stood, clock_seconds_since(started));
	return finish ? turn_over(s, finish, failed, &e) : true;
}
