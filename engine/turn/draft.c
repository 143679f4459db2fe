/* What may follow the last token of an answer, and how many tokens of it to verify (draft.h). */
#include "cache/clock.h"
#include "engine/model/model_state.h"
#include "engine/turn/turn.h"

#include "engine/compute/drafter.h"

static uint32_t draft_least(uint64_t one, uint64_t other)
{
	return (uint32_t)(one < other ? one : other);
}

/* How many tokens may follow before the turn ends in any case: what is verified beyond would be
 * computed for nothing. */
static uint32_t draft_room(const struct turn_state *t, uint32_t room)
{
	uint64_t answered = t->ids.count - t->prompt_ids,
		 most = t->session->asked.params.max_tokens;
	uint64_t left = t->env->model->id.context - t->ids.count;
	if (most)
		left = draft_least(left, most - answered - 1);
	left = draft_least(left, room - 1);
	return draft_least(left, DRAFT_MOST);
}

/* With drop_missing a text depends on what each step holds. */
static bool draft_allowed(const struct turn_state *t, enum draft_kind kind)
{
	const struct params *p = &t->session->asked.params;
	bool wanted = p->draft == DRAFT_AUTO || (p->draft == DRAFT_ALWAYS && p->draft_kind == kind);
	return wanted && !t->undrafted && !(t->losses.drop_missing > 0);
}

bool draft_follows(const struct turn_state *t)
{
	return draft_allowed(t, DRAFT_MTP) && t->env->model->loaded.draft_layer.memory;
}

/* ---- by the model's own draft layer ---- */

/* Whether what the draft layer needs of every position is computed. */
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

/* More rows than a draft leaves are not what drafting takes, but what it takes to begin. */
static uint32_t draft_missed(const struct turn_state *t)
{
	uint32_t rows = t->session->drafter.pending - 1;
	return rows > DRAFT_MOST ? rows : 0;
}

static int draft_catch_up(struct turn_state *t, struct err *e)
{
	uint64_t started = clock_ns();
	uint32_t rows = draft_missed(t);
	int failed = drafter_catch_up(&t->session->drafter, &t->env->model->loaded.draft_layer,
				      &t->session->context, e);
	draft_count_following(t, failed ? 0 : rows, clock_seconds_since(started), true);
	return failed;
}

/* The likeliest, at any temperature: drawing it as the token itself will be drawn, with the same
 * random number, stands less often (a number means another token where probabilities differ). */
static uint32_t draft_likeliest(struct turn_state *t)
{
	float *logits = t->env->model->loaded.forward.scratch.logits;
	sampler_repetition_apply(&t->repetition, logits);
	return sampler_greedy(logits, t->env->model->id.config.vocabulary);
}

/* *started: when it knew all of the text. Without memory, or if an expert cannot be read, there are
 * fewer or none: a draft is no reason to end a turn. */
static uint32_t draft_own(struct turn_state *t, uint32_t *draft, uint32_t count, uint64_t *started)
{
	struct model *m = t->env->model;
	struct err ignored;
	size_t held = t->session->context.tokens.count;
	uint32_t n = 0;
	struct step_account *account = &t->session->drafting;
	account->stop = &t->session->stop;
	m->loaded.draft_layer.account = account;
	m->loaded.draft_layer.losses = t->losses;
	int failed = draft_catch_up(t, &ignored);
	*started = clock_ns();
	if (!failed)
		failed = drafter_first(&t->session->drafter, &m->loaded.draft_layer,
				       &t->session->context, t->ids.ids[held], &ignored);
	while (!failed) {
		draft[n] = draft_likeliest(t);
		if (++n == count)
			break;
		failed = drafter_next(&t->session->drafter, &m->loaded.draft_layer, draft[n - 1],
				      &ignored);
	}
	m->loaded.draft_layer.account = NULL;
	return n;
}

/* ---- either ---- */

static struct draft_choice draft_choose(const struct turn_state *t, const struct draft_offer *o,
					bool company)
{
	const struct params *p = &t->session->asked.params;
	if (p->draft == DRAFT_AUTO)
		return company ? (struct draft_choice){0} : draft_meter_choose(t->env->meter, o);
	return (struct draft_choice){p->draft_kind,
				     draft_least(o->most[p->draft_kind], p->draft_depth)};
}

void draft_propose(struct turn_state *t, uint32_t room, bool company, struct draft *d)
{
	struct draft_offer o = {0};
	uint32_t left = draft_room(t, room), matched;
	const uint64_t began = clock_ns();
	uint64_t started = began;
	*d = (struct draft){.company = company};
	if (draft_allowed(t, DRAFT_LOOKUP) && left)
		o.most[DRAFT_LOOKUP] =
			drafter_lookup(t->ids.ids, t->ids.count, d->tokens, left, &matched);
	o.most[DRAFT_LOOKUP] = constrain_drafts(t, d->tokens, o.most[DRAFT_LOOKUP]);
	if (t->follow && drafter_ready(&t->session->drafter, &t->session->context)) {
		o.most[DRAFT_MTP] = left;
		o.missed = draft_missed(t);
	}
	d->choice = draft_choose(t, &o, company);
	if (d->choice.depth && d->choice.kind == DRAFT_MTP)
		d->choice.depth = draft_own(t, d->tokens, d->choice.depth, &started);
	d->seconds = clock_seconds_since(started);
	d->whole = clock_seconds_since(began);
}

void draft_count(struct turn_state *t, const struct draft *d, uint32_t stood, double seconds)
{
	/* Else the meter did not choose it. */
	if (t->session->asked.params.draft == DRAFT_AUTO && !d->company)
		draft_meter_count(t->env->meter, d->choice, stood, d->seconds, seconds);
}
