/* Speculative decoding: drafts tokens and counts accepted ones (draft.h). */
#include "cache/clock.h"
#include "engine/model/model_state.h"
#include "engine/turn/turn.h"

#include "engine/compute/drafter.h"

_Static_assert((int)DRAFT_TURNS <= (int)DRAFTERS_TOGETHER, "a step's drafters run together");

static uint32_t draft_least(uint64_t one, uint64_t other)
{
	return (uint32_t)(one < other ? one : other);
}

/* How many tokens the turn can still generate. Drafts beyond that would be computed in vain. */
static uint32_t draft_room(const struct turn_state *t)
{
	uint64_t answered = t->ids.count - t->prompt_ids,
		 most = t->session->asked.params.max_tokens;
	const struct context *x = &t->session->context;
	uint64_t left = t->env->model->id.context - t->ids.count;
	/* Beyond the limit the text is computed again (turn_settle). */
	if (x->limit && !x->long_text)
		left = draft_least(left, x->limit - t->ids.count);
	if (most)
		left = draft_least(left, most - answered - 1);
	return draft_least(left, DRAFT_MOST);
}

/* With drop_missing, the text depends on the rows of each step, so there are no drafts. */
static bool draft_allowed(const struct turn_state *t, enum draft_kind kind)
{
	const struct params *p = &t->session->asked.params;
	bool wanted = p->draft == DRAFT_AUTO || (p->draft == DRAFT_ALWAYS && p->draft_kind == kind);
	return wanted && !t->undrafted && !step_needs_cache(&t->losses);
}

bool draft_follows(const struct turn_state *t)
{
	return draft_allowed(t, DRAFT_MTP) && t->env->model->loaded.draft_layer.forward;
}

/* ---- by the model's own draft layer ---- */

/* Whether the draft layer's keys and values are computed for every position. */
static bool draft_keeps_keys(const struct turn_state *t, bool answer)
{
	return t->session->asked.params.draft != DRAFT_AUTO ||
	       draft_meter_follows(t->env->meter, answer);
}

static void draft_count_following(struct turn_state *t, uint32_t rows, double seconds, bool answer)
{
	if (rows && t->session->asked.params.draft == DRAFT_AUTO)
		draft_meter_follow(t->env->meter, rows, seconds, answer);
}

void draft_make_room(struct turn_state *t, uint32_t next, enum row_kind kind)
{
	uint64_t started = clock_ns();
	bool answer = kind == ROW_ANSWER, keys = draft_keeps_keys(t, answer);
	uint32_t rows = drafter_make_room(&t->session->drafter, &t->env->model->loaded.draft_layer,
					  &t->session->context, next, kind, keys);
	draft_count_following(t, rows, clock_seconds_since(started), answer);
}

void draft_follow_prompt(struct turn_state *t, uint32_t n)
{
	uint64_t started = clock_ns();
	bool keys = draft_keeps_keys(t, false);
	drafter_follow_prompt(&t->session->drafter, &t->env->model->loaded.draft_layer,
			      &t->session->context, n, keys);
	draft_count_following(t, keys ? n : 0, clock_seconds_since(started), false);
}

/* How many tokens the draft layer must compute before it can draft; 0 if no more than a draft
 * always leaves. */
static uint32_t draft_missed(const struct turn_state *t)
{
	uint32_t rows = t->session->drafter.pending - 1;
	return rows > DRAFT_MOST ? rows : 0;
}

/* Drafts the most probable token at any temperature. Sampling it with the random number of the real
 * token is accepted less often, since the same number gives another token if probabilities differ.
 */
static uint32_t draft_likeliest(const struct turn_state *t, float *logits)
{
	sampler_repetition_apply(&t->repetition, logits);
	return sampler_greedy(logits, t->env->model->id.config.vocabulary);
}

/* The turns for which the draft layer drafts more tokens. */
struct draft_round {
	struct draft_layer *layer;
	struct turn_state *turns[DRAFT_TURNS];
	uint32_t wanted[DRAFT_TURNS]; /* [count] tokens to draft */
	struct draft_ask asks[DRAFT_TURNS];
	uint32_t count;
};

static void draft_join_round(struct draft_round *r, struct turn_state *t)
{
	struct session *s = t->session;
	struct context *x = &s->context;
	if (t->draft.choice.kind != DRAFT_MTP || !t->draft.choice.depth)
		return;
	s->drafting.stop = &s->stop;
	s->drafting.end = SPAN_DONE;
	r->turns[r->count] = t;
	r->wanted[r->count] = t->draft.choice.depth;
	r->asks[r->count++] = (struct draft_ask){
		.drafter = &s->drafter,
		.text = x,
		.next = t->ids.ids[x->tokens.count],
		.losses = t->losses,
		.account = &s->drafting,
	};
	t->draft.choice.depth = 0;
}

/* Removes turns that have all their drafts, were stopped or failed. */
static void draft_leave_round(struct draft_round *r)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->turns[i]->draft.choice.depth == r->wanted[i] ||
		    r->asks[i].account->end != SPAN_DONE)
			continue;
		r->turns[left] = r->turns[i];
		r->wanted[left] = r->wanted[i];
		r->asks[left++] = r->asks[i];
	}
	r->count = left;
}

/* Callback `read` of the draft layer: takes a token for each turn. */
static int draft_read(void *ctx, const uint32_t *asks, uint32_t n, const float *logits,
		      struct err *e)
{
	struct draft_round *r = ctx;
	(void)e;
	for (uint32_t i = 0; i < n; i++) {
		struct turn_state *t = r->turns[asks[i]];
		size_t vocabulary = t->env->model->id.config.vocabulary;
		uint32_t token = draft_likeliest(t, (float *)logits + i * vocabulary);
		t->draft.tokens[t->draft.choice.depth++] = token;
		r->asks[asks[i]].next = token;
	}
	return 0;
}

/* The draft layer computes the tokens of the texts that it has missed. */
static int draft_catch_up(struct draft_round *r)
{
	struct err ignored;
	struct draft_ask late[DRAFT_TURNS];
	uint64_t started = clock_ns();
	uint32_t count = 0, rows = 0, chosen = 0; /* chosen: rows chosen by the meter */
	for (uint32_t i = 0; i < r->count; i++) {
		uint32_t missed = draft_missed(r->turns[i]);
		if (missed)
			late[count++] = r->asks[i];
		rows += missed;
		chosen += r->turns[i]->draft.offer.asked ? 0 : missed;
	}
	if (!count)
		return 0;
	int failed = drafter_catch_up_together(r->layer, late, count, &ignored);
	if (!failed && chosen)
		draft_meter_follow(r->turns[0]->env->meter, chosen,
				   clock_seconds_since(started) * chosen / rows, true);
	draft_leave_round(r);
	return failed;
}

/* If memory runs out or an expert cannot be read, there are fewer drafts or none, but no turn
 * fails. */
static void draft_own(struct draft_step *d)
{
	struct draft_round r = {.layer = &d->turns[0]->env->model->loaded.draft_layer};
	const struct draft_reader reader = {draft_read, &r};
	struct err ignored;
	for (uint32_t i = 0; i < d->count; i++)
		draft_join_round(&r, d->turns[i]);
	int failed = draft_catch_up(&r);
	for (uint32_t depth = 1; r.count && !failed; depth++) {
		uint64_t started = clock_ns();
		d->times.asks[depth] = r.count;
		failed = depth > 1 ? drafter_next_together(r.layer, r.asks, r.count, &reader,
							   &ignored)
				   : drafter_first_together(r.layer, r.asks, r.count, &reader,
							    &ignored);
		d->times.passes[depth] = clock_seconds_since(started);
		draft_leave_round(&r);
	}
}

/* ---- either ---- */

static void draft_offer(struct turn_state *t)
{
	const struct params *p = &t->session->asked.params;
	struct draft_offer *o = &t->draft.offer;
	uint32_t left = draft_room(t), matched;
	*o = (struct draft_offer){.asked = p->draft == DRAFT_ALWAYS};
	if (o->asked)
		left = draft_least(left, p->draft_depth);
	if (draft_allowed(t, DRAFT_LOOKUP) && left)
		o->most[DRAFT_LOOKUP] =
			drafter_lookup(t->ids.ids, t->ids.count, t->draft.tokens, left, &matched);
	o->most[DRAFT_LOOKUP] = constrain_drafts(t, t->draft.tokens, o->most[DRAFT_LOOKUP]);
	if (t->follow && drafter_ready(&t->session->drafter, &t->session->context)) {
		o->most[DRAFT_MTP] = left;
		o->missed = draft_missed(t);
	}
}

/* Gives each turn the meter's choice. */
static void draft_choose(struct draft_step *d, uint32_t room)
{
	struct draft_offer offers[DRAFT_TURNS];
	struct draft_choice choices[DRAFT_TURNS];
	for (uint32_t i = 0; i < d->count; i++)
		offers[i] = d->turns[i]->draft.offer;
	draft_meter_choose(d->turns[0]->env->meter, offers, d->count, room, choices);
	for (uint32_t i = 0; i < d->count; i++)
		d->turns[i]->draft.choice = choices[i];
}

void draft_propose(struct draft_step *d, uint32_t room)
{
	const uint64_t began = clock_ns();
	if (!d->count)
		return;
	for (uint32_t i = 0; i < d->count; i++)
		draft_offer(d->turns[i]);
	draft_choose(d, room);
	d->times.lookup = clock_seconds_since(began);
	draft_own(d);
	for (uint32_t i = 0; i < d->count; i++)
		d->turns[i]->draft.seconds = clock_seconds_since(began);
}

void draft_count(struct draft_step *d, double seconds)
{
	struct draft_result results[DRAFT_TURNS];
	/* chosen: the meter chose for some turn; verified: all turns */
	bool chosen = false, verified = true;
	for (uint32_t i = 0; i < d->count; i++) {
		const struct turn_state *t = d->turns[i];
		results[i] = (struct draft_result){
			.choice = t->draft.choice,
			.stood = t->step.stood,
			.asked = t->draft.offer.asked,
		};
		chosen |= t->session->asked.params.draft == DRAFT_AUTO;
		verified &= t->draft.verified;
	}
	d->times.verifying = seconds;
	if (chosen && verified)
		draft_meter_count(d->turns[0]->env->meter, results, d->count, &d->times);
}
