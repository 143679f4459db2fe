/* A turn step by step (turn.h).
 *
 * A step of an answer computes the last token together with its drafts (draft.h). A row's logits do
 * not depend on the other rows (promise 2), and each token is sampled with the random number of its
 * position. The first row whose sampled token differs from the draft ends the step, and the context
 * is rolled back to this row. So drafts change only how many tokens a step yields.
 */
#include "engine/turn/turn.h"

#include "cache/clock.h"
#include "engine/compute/recurrent.h"
#include "engine/model/model_state.h"
#include "engine/session/ending.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)ANSWER_ROWS == (int)DRAFT_MOST + 1,
	       "a step verifies a draft after the last token");
_Static_assert((int)RECURRENT_BEHIND >= (int)DRAFT_MOST,
	       "a recurrent state may be behind by a draft");

struct turn_state *turn_new(struct session *s, const struct turn_env *env)
{
	struct turn_state *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->session = s;
	t->env = env;
	return t;
}

void turn_free(struct turn_state *t)
{
	if (!t)
		return;
	dialogue_free(&t->dialogue);
	token_list_free(&t->ids);
	free(t->why);
	sampler_repetition_free(&t->repetition);
	logprobs_free(&t->logprobs);
	constrain_end(&t->constraint);
	choose_free(t);
	embed_free(t);
	recall_free(&t->recall);
	turn_event_free(&t->told);
	free(t);
}

/* ---- rows ---- */

size_t turn_left(const struct turn_state *t)
{
	size_t held = t->session->context.tokens.count;
	if (t->session->asked.embeds)
		return embed_left(t);
	if (t->ids.count == t->prompt_ids)
		return held < t->prompt_ids ? t->prompt_ids - held : choose_left(t);
	/* More than one token is left in two cases: a step failed because of a draft, and the
	 * recurrent state is before the answer's last token; or the text has passed rope_limit and
	 * begins again. */
	return t->ids.count - 1 - held;
}

void turn_begin_step(struct turn_state *t)
{
	t->step = (struct turn_step){.kind = turn_left(t) ? ROW_PROMPT : ROW_ANSWER};
	t->draft = (struct draft){0};
	choose_begin_step(t);
}

/* Whether the next token is the largest of the model's own logits: nothing of what turn_sample does changes or keeps
 * them. */
static bool turn_draws_largest(const struct turn_state *t)
{
	const struct asked *asked = &t->session->asked;
	return asked->sampling.temperature <= 0 && !asked->params.logit_bias.count &&
	       !t->logprobs.logits && !t->constraint.kept &&
	       !sampler_repetition_changes(&t->repetition) && t->choose.state == CHOOSE_NOTHING;
}

/* Adds rows of a prompt, of a text to score, or of tokens to compute again. */
static int turn_prompt_rows(struct turn_state *t, uint32_t room, struct step_batch *b,
			    struct err *e)
{
	const struct context *x = &t->session->context;
	bool prompt = t->ids.count == t->prompt_ids, scores = t->session->asked.scores;
	size_t held = x->tokens.count, left = turn_left(t);
	uint32_t n = left < room ? (uint32_t)left : room;
	if (prompt && !scores && turn_next_stop(t, held) - held < n)
		n = (uint32_t)(turn_next_stop(t, held) - held);
	t->step = (struct turn_step){.held = held,
				     .first = b->count,
				     .n = n,
				     .kind = ROW_PROMPT,
				     .marks = prompt && !scores,
				     .last = prompt && n == left,
				     .draws = prompt && n == left && !scores};
	const struct step_row row = {.context = &t->session->context,
				     .kind = ROW_PROMPT,
				     .logits = scores,
				     .losses = t->losses,
				     .account = &t->session->account};
	int failed = step_batch_add(b, &row, t->ids.ids + held, n, e);
	if (!failed) {
		struct step_row *last = &b->rows[b->count - 1];
		last->logits = scores || t->step.draws;
		last->only_largest = t->step.draws && turn_draws_largest(t);
	}
	return failed;
}

/* Adds the last token of an answer and its drafts. */
static int turn_answer_rows(struct turn_state *t, struct step_batch *b, struct err *e)
{
	size_t held = t->session->context.tokens.count;
	uint32_t drafted = t->draft.choice.depth;
	t->step = (struct turn_step){.held = held,
				     .first = b->count,
				     .n = drafted + 1,
				     .kind = ROW_ANSWER,
				     .draws = true};
	struct step_row row = {.context = &t->session->context,
			       .kind = ROW_ANSWER,
			       .logits = true,
			       .only_largest = turn_draws_largest(t),
			       .losses = t->losses,
			       .account = &t->session->account};
	int failed = step_batch_add(b, &row, t->ids.ids + held, 1, e);
	row.kind = ROW_DRAFT;
	if (!failed)
		failed = step_batch_add(b, &row, t->draft.tokens, drafted, e);
	return failed;
}

int turn_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e)
{
	if (t->session->asked.embeds)
		return embed_rows(t, room, b, e);
	if (t->choose.state == CHOOSE_WALKS && t->session->context.tokens.count == t->prompt_ids)
		return choose_rows(t, room, b, e);
	return turn_left(t) ? turn_prompt_rows(t, room, b, e) : turn_answer_rows(t, b, e);
}

/* ---- tokens ---- */

/* Whether the answer may repeat itself here: in the arguments of a call, and where a grammar
 * restricts it. (Thoughts are never restricted by a grammar.) */
static bool turn_may_repeat(const struct turn_state *t)
{
	enum split_place place = split_place(t->session->answering.split);
	return place == SPLIT_IN_CALL || (t->constraint.kept && place != SPLIT_IN_THOUGHTS);
}

/* The finish word if the turn ends after this token; NULL: it continues. over: the grammar allows
 * only the end. */
static const char *turn_end_after(const struct turn_state *t, size_t held, bool over)
{
	const struct params *p = &t->session->asked.params;
	if (t->session->answering.stops.stopped)
		return "stop";
	if (over)
		return "end";
	if (p->max_tokens && t->ids.count - t->prompt_ids >= p->max_tokens)
		return "length";
	if (t->periods.repeats && p->stop_repetition && !turn_may_repeat(t))
		return "repetition";
	return held >= t->env->model->id.context ? "length" : NULL;
}

/* Samples from the logits of all tokens; drawn: the token and its logit. What is done to logits here is listed in
 * turn_draws_largest. -EIO: the grammar allows no token. */
static int turn_sample(struct turn_state *t, size_t held, float *logits,
		       const struct turn_scratch *x, struct candidate *drawn, struct err *e)
{
	const struct asked *asked = &t->session->asked;
	logprobs_keep(&t->logprobs, logits);
	int failed = constrain_logits(t, logits, x, e);
	if (failed)
		return failed;
	sampler_bias(asked->params.logit_bias.of, asked->params.logit_bias.count, logits);
	sampler_repetition_apply(&t->repetition, logits);
	drawn->id = sampler_draw(x->sampler, logits, &asked->sampling, held);
	drawn->p = logits[drawn->id];
	return 0;
}

/* The token after the first `held` positions. -EIO: the weights are damaged, or no token is allowed. */
static int turn_draw(struct turn_state *t, size_t held, const struct step_logits *logits,
		     const struct turn_scratch *x, uint32_t *id, struct err *e)
{
	struct candidate drawn;
	int failed = 0;
	if (logits->all)
		failed = turn_sample(t, held, logits->all, x, &drawn, e);
	else
		drawn = *logits->largest;
	if (failed)
		return failed;
	*id = drawn.id;
	if (isfinite(drawn.p))
		return 0;
	err_set(e, EIO, "the model computed NaN (not a number): its weights are damaged");
	return err_name(e, "damaged");
}

/* Takes a sampled token. Returns the finish word; NULL: the turn continues. */
static const char *turn_take_token(struct turn_state *t, size_t held, const struct step_logits *logits,
				   const struct turn_scratch *x, struct turn_event *ev, int *failed,
				   struct err *e)
{
	uint32_t id;
	bool over = false;
	*failed = turn_draw(t, held, logits, x, &id, e);
	if (*failed)
		return "error";
	ev->tokens++;
	*failed = logprobs_tell(t, id, x, &ev->logprobs, e);
	if (*failed)
		return "error";
	if (model_ends(t->env->model, t->chat, id))
		return "end";
	*failed = token_list_append(&t->ids, &id, 1, e);
	if (!*failed && sampler_repetition_add_answer(&t->repetition, id))
		*failed = err_set(e, ENOMEM, "out of memory for the repetition penalties");
	if (!*failed)
		*failed = constrain_take(t, id, &over, e);
	if (!*failed)
		*failed = turn_say(t, id, ev, e);
	if (*failed)
		return "error";
	periods_take(&t->periods, t->ids.ids, t->ids.count);
	return turn_end_after(t, held, over);
}

/* Thoughts before a choice also end where any other answer would end. */
static const char *turn_think_on(struct turn_state *t, const char *finish, struct turn_event *ev,
				 int *failed, struct err *e)
{
	bool ends = finish && (!strcmp(finish, "end") || !strcmp(finish, "repetition"));
	if (*failed || t->choose.state != CHOOSE_THINKS || (finish && !ends))
		return finish;
	*failed = ends ? choose_end_thoughts(t, ev, e) : choose_after_token(t, e);
	return *failed ? "error" : NULL;
}

static void turn_take_row(struct turn_state *t, uint32_t row, const struct step_logits *logits,
			  const struct turn_scratch *x, struct turn_event *ev)
{
	struct turn_step *p = &t->step;
	struct err e = {0};
	int failed;
	const char *finish = turn_take_token(t, p->held + row + 1, logits, x, ev, &failed, &e);
	finish = turn_think_on(t, finish, ev, &failed, &e);
	if (finish)
		turn_over(ev, finish, failed, &e);
	p->closed = finish || row + 1 == p->n ||
		    t->ids.ids[t->ids.count - 1] != t->draft.tokens[p->stood];
	p->stood += !p->closed;
}

static void turn_take_score(struct turn_state *t, uint32_t row, const float *logits,
			    const struct turn_scratch *x, struct turn_event *ev)
{
	struct err e = {0};
	int failed = score_take_row(t, row, logits, x, &ev->piece.content, &e);
	t->step.closed = failed;
	if (failed)
		turn_over(ev, "error", failed, &e);
}

/* Begins the thoughts before a choice with this token. */
static int turn_begin_thoughts(struct turn_state *t, uint32_t id, struct turn_event *ev,
			       struct err *e)
{
	int failed = token_list_append(&t->ids, &id, 1, e);
	ev->tokens++;
	return failed ? failed : turn_say(t, id, ev, e);
}

static void turn_take_choice(struct turn_state *t, uint32_t row, const float *logits,
			     const struct turn_scratch *x, struct turn_event *ev)
{
	struct err e = {0};
	uint32_t id;
	int failed = t->choose.wave_count	    ? choose_take_row(t, row, logits, x, &e)
		     : choose_thinks(t, logits, &id) ? turn_begin_thoughts(t, id, ev, &e)
						    : choose_take_first(t, logits, x, &e);
	t->step.closed = failed;
	if (failed)
		turn_over(ev, "error", failed, &e);
}

void turn_take(struct turn_state *t, uint32_t row, const struct step_logits *logits,
	       const struct turn_scratch *x, struct turn_event *ev)
{
	if (t->step.closed)
		return;
	if (t->session->asked.scores)
		turn_take_score(t, row, logits->all, x, ev);
	else if (t->choose.state >= CHOOSE_BEGINS)
		turn_take_choice(t, row, logits->all, x, ev);
	else
		turn_take_row(t, row, logits, x, ev);
}

/* ---- after a step ---- */

/* Makes checkpoints, so that a long prompt need not be computed again from its beginning, nor the
 * next prompt if it differs only from `fork` on. */
static void turn_mark(struct turn_state *t)
{
	struct context *x = &t->session->context;
	size_t fork = t->fork, held = x->tokens.count;
	forward_bring_state(&t->env->model->loaded.forward, x);
	if (fork > t->step.held && fork < held)
		context_checkpoint(x, fork);
	context_checkpoint(x, held);
}

static void turn_finish_score(struct turn_state *t, struct turn_event *ev)
{
	struct err e = {0};
	int failed = score_finish(t, &ev->piece.content, &e);
	turn_over(ev, failed ? "error" : "end", failed, &e);
}

static void turn_settle_embedding(struct turn_state *t, struct turn_event *ev)
{
	struct err e = {0};
	bool over = false;
	int failed = embed_settle(t, &over, &ev->piece.content, &e);
	if (over || failed)
		turn_over(ev, failed ? "error" : "end", failed, &e);
}

static void turn_settle_choice(struct turn_state *t, struct turn_event *ev)
{
	struct err e = {0};
	bool over = false;
	int failed = ev->finish ? 0 : choose_settle(t, &over, ev, &e);
	if (over || failed)
		turn_over(ev, failed ? "error" : "end", failed, &e);
}

/* Stops drafting after a failed step: the failure may concern only drafts, such as an expert that
 * cannot be read or the context's last block. */
static void turn_lose_drafts(struct turn_state *t)
{
	t->undrafted = true;
	t->follow = false;
	drafter_drop(&t->session->drafter);
}

static void turn_settle_rows(struct turn_state *t, uint32_t computed, struct turn_event *ev)
{
	struct session *s = t->session;
	struct turn_step *p = &t->step;
	if (computed < p->n) {
		turn_lose_drafts(t);
		p->stood = p->stood < computed ? p->stood : computed - 1;
	}
	if (s->asked.embeds) {
		turn_settle_embedding(t, ev);
		return;
	}
	if (s->asked.scores) {
		if (p->last && !ev->finish)
			turn_finish_score(t, ev);
		return;
	}
	if (t->choose.wave_count) {
		turn_settle_choice(t, ev);
		return;
	}
	if (p->kind == ROW_PROMPT) {
		if (!p->marks)
			return;
		if (t->follow)
			draft_follow_prompt(t, p->n);
		turn_mark(t);
		turn_keep_prefix(t, ev->finish && !ev->failed);
		if (p->last && t->choose.state == CHOOSE_WALKS)
			turn_settle_choice(t, ev);
		return;
	}
	size_t held = p->held + p->stood + 1;
	if (s->context.tokens.count > held)
		context_rollback(&s->context, held);
	if (t->follow)
		drafter_follow_answer(&s->drafter, &t->env->model->loaded.draft_layer, &s->context,
				      p->first, p->stood + 1);
	if (ev->finish && !ev->failed)
		turn_keep_prefix(t, true);
}

/* A text that has passed rope_limit needs another rotation, so all of it is computed again
 * (turn_left). */
void turn_settle(struct turn_state *t, uint32_t computed, struct turn_event *ev)
{
	turn_settle_rows(t, computed, ev);
	if (!t->session->asked.scores && !ev->finish)
		context_suit(&t->session->context, t->ids.count);
}

void turn_count_draft(struct turn_state *t, struct turn_event *ev)
{
	if (t->step.kind != ROW_ANSWER)
		return;
	t->draft.verified = true;
	ev->drafted = t->draft.choice;
	ev->stood = t->step.stood;
	ev->drafting_seconds = t->draft.seconds;
}

/* After a failed step with drafts, the answer continues from the context's position without drafts.
 * The turn fails only if a step without drafts fails. */
void turn_fail(struct turn_state *t, int failed, const struct err *e, struct turn_event *ev)
{
	t->step.stood = 0;
	if (t->step.kind != ROW_ANSWER || !t->draft.choice.depth) {
		turn_over(ev, "error", failed, e);
		return;
	}
	turn_lose_drafts(t);
}

/* ---- the session ---- */

void turn_give_up(struct turn_state *t)
{
	choose_give_up(t);
	embed_give_up(t);
}

static int turn_publish_text(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	struct session *s = t->session;
	struct answer *logprobs = answer_logprobs(s->answer);
	bool failed =
		ev->logprobs.n && answer_append(logprobs, ev->logprobs.bytes, ev->logprobs.n) < 0;
	if (logprobs && ev->no_logprobs)
		answer_finish(logprobs, 0);
	answer_unref(logprobs);
	ev->logprobs.n = 0;
	if (ev->chosen.n) {
		free(s->chosen);
		s->chosen = ev->chosen.bytes;
		ev->chosen = (struct text_out){0};
	}
	if (failed)
		return err_set(e, ENOMEM, "out of memory for params/logprobs");
	if (!s->asked.scores)
		return answering_publish(s, &ev->piece, e);
	struct text_out *lines = &ev->piece.content;
	failed = lines->n && answer_append(s->answer, lines->bytes, lines->n) < 0;
	lines->n = 0;
	return failed ? err_set(e, ENOMEM, "out of memory for the score") : 0;
}

static void turn_publish_stats(struct turn_state *t, const struct turn_event *ev)
{
	struct session *s = t->session;
	struct session_stats *st = &s->stats;
	uint32_t drafted = ev->drafted.depth;
	if (ev->tokens && !st->output_tokens)
		st->first_token_seconds = clock_seconds_since(s->asked.submitted_ns);
	if (ev->tokens)
		s->status = SESSION_GENERATING;
	st->output_tokens += ev->tokens;
	atomic_fetch_add(&s->model->engine->output_tokens, ev->tokens);
	st->decode_seconds += ev->drafting_seconds;
	for (uint32_t i = 0; i < drafted; i++) {
		st->drafted[i]++;
		st->draft_stood[i] += i < ev->stood;
	}
	if (drafted) {
		st->drafted_by[ev->drafted.kind] += drafted;
		st->draft_stood_by[ev->drafted.kind] += ev->stood;
	}
}

void turn_publish(struct turn_state *t, struct turn_event *ev)
{
	struct err e;
	for (size_t i = 0; i < ev->drop_count; i++)
		history_drop_turns(t->session, ev->drops[i].first, ev->drops[i].count,
				   ev->drops[i].turns);
	ev->drop_count = 0;
	turn_publish_stats(t, ev);
	int failed = turn_publish_text(t, ev, &e);
	if (failed && !ev->failed)
		turn_over(ev, "error", failed, &e);
}

static void turn_count(const struct session *s)
{
	struct engine *g = s->model->engine;
	atomic_fetch_add(&g->turns, 1);
	atomic_fetch_add(&g->turns_remembered, s->stats.remembered);
	atomic_fetch_add(&g->prompt_tokens, s->stats.prompt_tokens);
	atomic_fetch_add(&g->cached_tokens, s->stats.cached_tokens);
}

void turn_end(struct session *s, const char *finish, int failed, const struct err *e)
{
	struct turn_state *t = s->turn;
	ending_apply(s, &(struct ending){.finish = finish,
					 .failed = failed,
					 .e = e,
					 .begun = t->admitted || t->recall.found,
					 .chat = t->chat,
					 .ids = t->ids.ids + t->rendered_ids,
					 .count = t->ids.count - t->rendered_ids});
	if (!failed)
		recall_keep(t, finish);
	if (!s->background)
		turn_count(s);
	turn_free(t);
	s->turn = NULL;
}
