/* Drafts: what may follow the last token of an answer, by what, and how many tokens of it to
 * verify. */
#include "cache/clock.h"
#include "engine/serve/draft.h"
#include "engine/serve/internal.h"
#include "engine/serve/session_state.h"

#include "engine/compute/drafter.h"

static uint32_t least(uint64_t one, uint64_t other)
{
	return (uint32_t)(one < other ? one : other);
}

/* How many tokens may follow before the turn ends in any case: what is verified beyond would be
 * computed in vain. */
static uint32_t room(const struct session *s)
{
	const struct turn *t = &s->turn;
	uint64_t answered = t->ids.count - t->prompt_ids, most = t->params.max_tokens;
	uint64_t left = s->model->id.context - t->ids.count;
	if (most)
		left = least(left, most - answered - 1);
	left = least(left, s->model->run.forward.chunk - 1);
	return least(left, DRAFT_MOST);
}

/* With drop_missing a text depends on what each step holds. */
static bool may_draft(const struct turn *t, enum draft_kind kind)
{
	const struct params *p = &t->params;
	bool wanted = p->draft == DRAFT_AUTO || (p->draft == DRAFT_ALWAYS && p->draft_kind == kind);
	return wanted && !t->undrafted && !(t->losses.drop_missing > 0);
}

bool draft_follows(const struct session *s)
{
	return may_draft(&s->turn, DRAFT_MTP) && s->model->run.draft_layer.memory;
}

/* ---- by the model's own draft layer ---- */

/* Whether what the draft layer needs of every position is computed. */
static bool keeps_keys(const struct session *s, bool answer)
{
	return s->turn.params.draft != DRAFT_AUTO ||
	       draft_meter_follows(&s->model->run.draft_meter, answer);
}

static void count_following(struct session *s, uint32_t rows, double seconds, bool answer)
{
	if (rows && s->turn.params.draft == DRAFT_AUTO)
		draft_meter_follow(&s->model->run.draft_meter, rows, seconds, answer);
}

void draft_make_room(struct session *s, uint32_t next, enum row_kind kind)
{
	uint64_t started = clock_ns();
	bool answer = kind == ROW_ANSWER, keys = keeps_keys(s, answer);
	uint32_t rows = drafter_make_room(&s->drafter, &s->model->run.draft_layer, &s->context,
					  next, kind, keys);
	count_following(s, rows, clock_seconds_since(started), answer);
}

void draft_follow_prompt(struct session *s, uint32_t n)
{
	uint64_t started = clock_ns();
	bool keys = keeps_keys(s, false);
	drafter_follow_prompt(&s->drafter, &s->model->run.draft_layer, &s->context, n, keys);
	count_following(s, keys ? n : 0, clock_seconds_since(started), false);
}

/* More rows than a draft leaves are not what drafting takes, but what it takes to begin. */
static uint32_t missed(const struct session *s)
{
	uint32_t rows = s->drafter.waiting - 1;
	return rows > DRAFT_MOST ? rows : 0;
}

static int catch_up(struct session *s, struct err *e)
{
	uint64_t started = clock_ns();
	uint32_t rows = missed(s);
	int failed = drafter_catch_up(&s->drafter, &s->model->run.draft_layer, &s->context, e);
	count_following(s, failed ? 0 : rows, clock_seconds_since(started), true);
	return failed;
}

/* The likeliest, at any temperature: drawing it as the token itself will be drawn, with the same
 * random number, stands less often (a number means another token where probabilities differ). */
static uint32_t likeliest(struct session *s)
{
	float *logits = s->model->run.forward.scratch.logits;
	sampler_repetition_apply(&s->turn.repetition, logits);
	return sampler_greedy(logits, s->model->id.config.vocabulary);
}

/* *started: when it knew all of the text. Without memory, or if an expert cannot be read, there are
 * fewer or none: a draft is no reason to end a turn. */
static uint32_t draft_own(struct session *s, uint32_t *draft, uint32_t count, uint64_t *started)
{
	struct model *m = s->model;
	struct err ignored;
	size_t held = s->context.tokens.count;
	uint32_t n = 0;
	m->run.forward.env.stop = &s->stop;
	m->run.draft_layer.losses = s->turn.losses;
	int failed = catch_up(s, &ignored);
	*started = clock_ns();
	if (!failed)
		failed = drafter_first(&s->drafter, &m->run.draft_layer, &s->context,
				       s->turn.ids.ids[held], &ignored);
	while (!failed) {
		draft[n] = likeliest(s);
		if (++n == count)
			break;
		failed = drafter_next(&s->drafter, &m->run.draft_layer, draft[n - 1], &ignored);
	}
	return n;
}

/* ---- either ---- */

static struct draft_choice choose(const struct session *s, const struct draft_offer *o)
{
	const struct params *p = &s->turn.params;
	if (p->draft == DRAFT_AUTO)
		return draft_meter_choose(&s->model->run.draft_meter, o);
	return (struct draft_choice){p->draft_kind, least(o->most[p->draft_kind], p->draft_depth)};
}

void draft_propose(struct session *s, struct draft *d)
{
	const struct turn *t = &s->turn;
	struct draft_offer o = {0};
	uint32_t left = room(s), matched;
	const uint64_t began = clock_ns();
	uint64_t started = began;
	*d = (struct draft){0};
	if (may_draft(t, DRAFT_LOOKUP) && left)
		o.most[DRAFT_LOOKUP] =
			drafter_lookup(t->ids.ids, t->ids.count, d->tokens, left, &matched);
	o.most[DRAFT_LOOKUP] = constrain_drafts(s, d->tokens, o.most[DRAFT_LOOKUP]);
	if (t->follow && drafter_ready(&s->drafter, &s->context)) {
		o.most[DRAFT_MTP] = left;
		o.missed = missed(s);
	}
	d->choice = choose(s, &o);
	if (d->choice.depth && d->choice.kind == DRAFT_MTP)
		d->choice.depth = draft_own(s, d->tokens, d->choice.depth, &started);
	d->seconds = clock_seconds_since(started);
	d->whole = clock_seconds_since(began);
}

void draft_count(struct session *s, const struct draft *d, uint32_t stood, double seconds)
{
	struct session_stats *st = &s->stats;
	uint32_t drafted = d->choice.depth;
	if (s->turn.params.draft == DRAFT_AUTO) /* what it did not choose is not on its credit */
		draft_meter_count(&s->model->run.draft_meter, d->choice, stood, d->seconds,
				  seconds);
	pthread_mutex_lock(&s->model->schedule.lock);
	st->decode_seconds += d->whole;
	for (uint32_t i = 0; i < drafted; i++) {
		st->drafted[i]++;
		st->draft_stood[i] += i < stood;
	}
	if (drafted) {
		st->drafted_by[d->choice.kind] += drafted;
		st->draft_stood_by[d->choice.kind] += stood;
	}
	pthread_mutex_unlock(&s->model->schedule.lock);
}
