#include "engine/turn/draft_meter.h"

/* Fading: of a cost, and of ai once it has been seen often. */
static const double cost_weight = 0.1, believed_weight = 0.5, stood_weight = 0.05;
/* Times what was expected. */
static const double far_more = 1.5;
/* Before anything is measured: what one more row costs, in steps of one row, and ai. */
static const double row_guess = 0.6, stood_guess = 0.5;
/* And what drafting a token costs: a layer and the output head, and next to nothing. */
static const double drafting_guess[DRAFT_KINDS] = {[DRAFT_MTP] = 0.3, [DRAFT_LOOKUP] = 0.01};
/* Credit, in steps of one row: at first, at most, and the part of each step's time. */
static const double credit_first = 0.5, credit_most = 4, credit_part = 0.01;
/* What following may always take, in steps of one row. */
static const double following_part = 0.01;
/* A gain below this is noise; and it takes as much to go a token deeper, where more is lost if
 * nothing stands. */
static const double least_gain = 1.01, deeper_gain = 1.03;
/* Steps without a draft of a kind before the text is tried again, at least; and while another kind
 * pays and this one was wrong at its last trial. */
enum { TRIAL_AFTER = 16, TRIAL_BESIDE = 128 };
/* When all of two drafts in turn stood, what was seen before counts as this often. */
enum { CHANGED = 4 };

/* values[to] of those that begin with values[first]. What was not measured continues in a line that
 * becomes flatter, with a step of `guess` if nothing says more; and no step is larger than the one
 * before it: the second row is the dearest, a row more meets experts that others have fetched, and
 * a single measurement may have been bad. */
static double draft_extrapolate(const double *values, uint32_t first, uint32_t to, double guess)
{
	static const double flatter = 0.75;
	double at = values[first], step = guess;
	for (uint32_t i = first + 1; i <= to; i++) {
		bool second = i == first + 1;
		double measured = values[i] > at ? values[i] - at : 0;
		if (!(values[i] > 0))
			step *= second ? 1 : flatter;
		else if (second || measured < step)
			step = measured;
		at += step;
	}
	return at;
}

/* Of a step that many rows wide. */
static double draft_meter_cost_of(const struct draft_meter *m, uint32_t rows)
{
	return draft_extrapolate(m->cost, 1, rows, row_guess * m->cost[1]);
}

/* drafting[0] is 0: no draft, no time. */
static double draft_drafting_seconds(const struct draft_meter *m, struct draft_choice c)
{
	return draft_extrapolate(m->kind[c.kind].drafting, 0, c.depth,
				 drafting_guess[c.kind] * m->cost[1]);
}

static double draft_seconds(const struct draft_meter *m, struct draft_choice c)
{
	return draft_drafting_seconds(m, c) + draft_meter_cost_of(m, c.depth + 1);
}

static double draft_stood(const struct draft_kind_meter *k, uint32_t depth)
{
	while (depth > 1 && !k->seen[depth])
		depth--; /* one that was never reached is like the one before */
	return k->seen[depth] ? k->stood[depth] : stood_guess;
}

/* ---- choosing ---- */

/* What it loses if nothing stands. */
static double draft_loss(const struct draft_meter *m, struct draft_choice c)
{
	return draft_seconds(m, c) - m->cost[1];
}

/* Half of that, as something mostly stands; or a quarter of one token that nearly always does. */
static double draft_risk(const struct draft_meter *m, struct draft_choice c)
{
	double stands = draft_stood(&m->kind[c.kind], 1);
	return draft_loss(m, c) * (c.depth == 1 && stands > 0.75 ? 0.25 : 0.5);
}

/* A draft layer first gets to know the tokens that it has missed. */
static double draft_meter_missed_of(const struct draft_meter *m, const struct draft_offer *o,
				    struct draft_choice c)
{
	return c.kind == DRAFT_MTP ? o->missed * m->following : 0;
}

/* What there has to be of credit. */
static double draft_price(const struct draft_meter *m, const struct draft_offer *o,
			  struct draft_choice c)
{
	return draft_risk(m, c) + draft_meter_missed_of(m, o, c);
}

static bool draft_affordable(const struct draft_meter *m, const struct draft_offer *o,
			     struct draft_choice c)
{
	return m->credit >= draft_price(m, o, c);
}

struct search {
	struct draft_choice best; /* of those for which there is credit */
	double speed;		  /* its */
	bool pays;		  /* something does, with credit or without */
};

static void draft_search_kind(const struct draft_meter *m, const struct draft_offer *o,
			      enum draft_kind kind, struct search *s)
{
	double tokens = 1, chance = 1, least = least_gain / m->cost[1], shallower = 0;
	for (uint32_t d = 1; d <= o->most[kind] && d <= DRAFT_MOST; d++) {
		struct draft_choice c = {kind, d};
		chance *= draft_stood(&m->kind[kind], d);
		tokens += chance;
		double speed = tokens / draft_seconds(m, c);
		s->pays |= speed > least;
		if (speed > least && speed > shallower && speed > s->speed &&
		    draft_affordable(m, o, c)) {
			s->speed = speed;
			shallower = deeper_gain * speed;
			s->best = c;
		}
	}
}

/* Whether it has waited until its part of the credit is what a trial costs on average: or what is
 * cheap to try would leave nothing for what is dear. */
static bool draft_is_due(const struct draft_meter *m, const struct draft_offer *o,
			 struct draft_choice c, uint32_t kinds)
{
	double gain = draft_stood(&m->kind[c.kind], 1) * m->cost[1];
	double costs = draft_loss(m, c) + draft_meter_missed_of(m, o, c) - gain;
	return m->kind[c.kind].idle * credit_part * m->cost[1] >= kinds * costs;
}

/* Steps before a kind is tried again. */
static uint32_t draft_pause(const struct draft_kind_meter *k, bool beside)
{
	if (!beside)
		return k->hot ? 0 : TRIAL_AFTER;
	return k->hot ? TRIAL_AFTER : TRIAL_BESIDE;
}

/* One token of a kind, but not of `paying`, which does (DRAFT_KINDS: none): the cheapest of those
 * that were right at their last trial, as the text may have changed, or else of all. */
static struct draft_choice draft_trial(const struct draft_meter *m, const struct draft_offer *o,
				       int paying)
{
	struct draft_choice best = {0};
	uint32_t kinds = 0;
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		kinds += o->most[kind] > 0;
	for (int kind = 0; kind < DRAFT_KINDS; kind++) {
		const struct draft_kind_meter *k = &m->kind[kind];
		struct draft_choice c = {(enum draft_kind)kind, 1};
		bool hot = k->hot && paying == DRAFT_KINDS;
		if (kind == paying || !o->most[kind] || !draft_affordable(m, o, c) ||
		    k->idle < draft_pause(k, paying < DRAFT_KINDS) ||
		    !(hot || draft_is_due(m, o, c, kinds)))
			continue;
		bool better = k->hot != m->kind[best.kind].hot
				      ? k->hot
				      : draft_price(m, o, c) < draft_price(m, o, best);
		if (!best.depth || better)
			best = c;
	}
	return best;
}

struct draft_choice draft_meter_choose(const struct draft_meter *m, const struct draft_offer *o)
{
	struct search s = {0};
	if (!(m->cost[1] > 0))
		return s.best;
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		draft_search_kind(m, o, (enum draft_kind)kind, &s);
	/* What pays and waits for credit is not to wait for trials of what does not. */
	if (s.pays && !s.best.depth)
		return s.best;
	struct draft_choice other = draft_trial(m, o, s.pays ? (int)s.best.kind : DRAFT_KINDS);
	return other.depth ? other : s.best;
}

bool draft_meter_follows(const struct draft_meter *m, bool answer)
{
	static const struct draft_offer own = {.most = {[DRAFT_MTP] = DRAFT_MOST}};
	struct search s = {0};
	if (!(m->cost[1] > 0) || m->following <= following_part * m->cost[1])
		return true;
	if (!answer)
		draft_search_kind(m, &own, DRAFT_MTP, &s);
	return s.pays;
}

/* ---- counting ---- */

/* A step that lost its processor for a while says nothing of its rows: what is far more than was
 * expected counts as less. Returns what it counts as. */
static double draft_count_cost(double *cost, double expected, double seconds)
{
	double before = *cost > 0 ? *cost : expected;
	if (before > 0 && seconds > far_more * before)
		seconds = far_more * before;
	*cost = *cost > 0 ? before + cost_weight * (seconds - before) : seconds;
	return seconds;
}

/* But of drafting it is believed when it happens again: the draft layer's experts may have to be
 * read now. */
static double draft_count_drafting(struct draft_kind_meter *k, uint32_t depth, double expected,
				   double seconds)
{
	double *cost = &k->drafting[depth];
	bool again = k->far[depth];
	k->far[depth] = *cost > 0 && seconds > far_more * *cost;
	if (!again || !k->far[depth])
		return draft_count_cost(cost, expected, seconds);
	*cost += believed_weight * (seconds - *cost);
	return seconds;
}

static void draft_count_stood(struct draft_kind_meter *k, uint32_t drafted, uint32_t stood)
{
	for (uint32_t depth = 1; depth <= drafted && depth <= stood + 1; depth++) {
		if (k->hot && stood == drafted && k->seen[depth] > CHANGED)
			k->seen[depth] = CHANGED;
		double before = draft_stood(k, depth), weight = 1.0 / (k->seen[depth] + 2);
		if (weight < stood_weight)
			weight = stood_weight;
		else
			k->seen[depth]++;
		k->stood[depth] = before + weight * ((depth <= stood) - before);
	}
	/* Bad luck at a depth must not keep it from being tried again: while all that is drafted
	 * stands, the depths beyond become like the last. */
	for (uint32_t depth = drafted + 1; stood == drafted && depth <= DRAFT_MOST; depth++)
		if (drafted && k->stood[depth] < k->stood[drafted])
			k->stood[depth] += stood_weight * (k->stood[drafted] - k->stood[depth]);
}

/* The first step is the measure of all others. */
static void draft_meter_begin(struct draft_meter *m)
{
	m->credit = credit_first * m->cost[1];
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		m->kind[kind].hot = true;
}

static double draft_count_kind(struct draft_meter *m, struct draft_choice drafted, uint32_t stood,
			       double drafting)
{
	struct draft_kind_meter *k = &m->kind[drafted.kind];
	draft_count_stood(k, drafted.depth, stood);
	k->idle = 0;
	k->hot = stood == drafted.depth;
	return draft_count_drafting(k, drafted.depth, draft_drafting_seconds(m, drafted), drafting);
}

void draft_meter_count(struct draft_meter *m, struct draft_choice drafted, uint32_t stood,
		       double drafting, double seconds)
{
	double known = m->cost[1];
	uint32_t rows = drafted.depth + 1;
	double spent = draft_count_cost(&m->cost[rows], draft_meter_cost_of(m, rows), seconds);
	if (!(known > 0)) {
		draft_meter_begin(m);
		return;
	}
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		m->kind[kind].idle++;
	m->credit += credit_part * spent;
	if (drafted.depth)
		m->credit +=
			(stood + 1) * known - spent - draft_count_kind(m, drafted, stood, drafting);
	if (m->credit > credit_most * known)
		m->credit = credit_most * known;
}

void draft_meter_follow(struct draft_meter *m, uint32_t tokens, double seconds, bool answer)
{
	double each = draft_count_cost(&m->following, 0, seconds / tokens);
	m->credit -= answer ? tokens * each : 0;
}
