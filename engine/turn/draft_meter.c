#include "engine/turn/draft_meter.h"

/* Weights of a new measurement in fading means: of a cost; of a cost that is far too high twice in
 * a row; of ai. */
static const double cost_weight = 0.1, believed_weight = 0.5, stood_weight = 0.05;
/* A cost is far too high if it exceeds the expected one by this factor. */
static const double far_more = 1.5;
/* Guesses before anything is measured: the cost of one more row, relative to a step of one row; and
 * ai. */
static const double row_guess = 0.6, stood_guess = 0.5;
/* Likewise, the cost of drafting a token: MTP computes a layer and the output head; lookup costs
 * almost nothing. */
static const double drafting_guess[DRAFT_KINDS] = {[DRAFT_MTP] = 0.3, [DRAFT_LOOKUP] = 0.01};
/* Credit, relative to a step without drafts: at the beginning (less for shared steps, whose trials
 * have one token per turn and tell more), the maximum, and the part of each step's time that is
 * added. */
static const double credit_first = 0.5, credit_first_together = 0.25, credit_most = 4,
		    credit_part = 0.01;
/* The draft layer always follows if this costs at most this part of a step of one row. */
static const double following_part = 0.01;
/* Smaller gains are noise. Drafting one more token needs a larger gain, since more is lost if no
 * draft is accepted. */
static const double least_gain = 1.01, deeper_gain = 1.03;
/* In shared steps costs are less certain, since the experts that other turns' rows need differ from
 * step to step. With a least gain of 1 %, text sampled at a temperature, where few drafts are
 * accepted, was up to 6 % slower. */
static const double least_gain_together = 1.05;
/* Least steps without a draft of a kind before a new trial: normally; and if another kind saves
 * time and the last trial of this kind failed. */
enum { TRIAL_AFTER = 16, TRIAL_BESIDE = 128 };
/* A token that is accepted this often counts as nearly certain. */
static const double sure_chance = 0.75;
/* If all drafts were accepted twice in a row, all earlier observations count as this many. */
enum { CHANGED = 4 };

/* Returns values[to], extrapolated from the measured values from index `first` on. An unmeasured
 * value continues the line before it with a decreasing slope, or with a slope of `guess` if there
 * is no line. No step is larger than the one before it: the second row costs most, since further
 * rows need experts that are read already; and a single measurement may have been bad. */
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

/* The cost of this many rows of a turn alone. */
static double draft_meter_cost_of(const struct draft_meter *m, uint32_t rows)
{
	return draft_extrapolate(m->cost, 1, rows, row_guess * m->cost[1]);
}

/* Drafting time of a turn alone. drafting[0] is 0. */
static double draft_drafting_seconds(const struct draft_meter *m, struct draft_choice c)
{
	return draft_extrapolate(m->kind[c.kind].drafting, 0, c.depth,
				 drafting_guess[c.kind] * m->cost[1]);
}

static double draft_stood(const struct draft_kind_meter *k, uint32_t depth)
{
	while (depth > 1 && !k->seen[depth])
		depth--; /* a depth without measurements is like the one before */
	return k->seen[depth] ? k->stood[depth] : stood_guess;
}

/* The time of a draft layer pass for several turns. Before one is measured, it is estimated from a
 * step with as many rows, in the same ratio as for a turn alone. */
static double draft_pass_seconds(const struct draft_meter *m, uint32_t depth, uint32_t asks)
{
	double seconds = depth > 1 ? draft_costs_at(&m->next_pass, asks) : 0;
	if (!(seconds > 0))
		seconds = draft_costs_at(&m->first_pass, asks);
	if (seconds > 0)
		return seconds;
	double alone = m->kind[DRAFT_MTP].drafting[1];
	double part = alone > 0 ? alone / m->cost[1] : drafting_guess[DRAFT_MTP];
	return part * draft_costs_at(&m->company, asks);
}

/* ---- plans ---- */

/* The drafts of a step. */
struct draft_plan {
	struct draft_choice choices[DRAFT_TURNS]; /* [turns] */
	uint32_t turns, rows;
	/* [depth]: turns with a draft of the draft layer at this depth */
	uint32_t asks[DRAFT_MOST + 1];
	double tokens;	 /* expected number of tokens */
	uint32_t missed; /* tokens that the draft layer must compute first */
	bool unsure;	 /* some of the meter's drafts are not nearly certain */
};

/* Adds a draft of a turn at a depth, if it continues the turn's drafts in the plan. chance: that it
 * is accepted. */
static bool draft_plan_add(struct draft_plan *p, const struct draft_offer *o, uint32_t turn,
			   struct draft_choice c, double chance, uint32_t room)
{
	if (o[turn].most[c.kind] < c.depth || p->choices[turn].depth + 1 != c.depth ||
	    p->rows == room)
		return false;
	p->choices[turn] = c;
	p->rows++;
	p->tokens += chance;
	p->asks[c.depth] += c.kind == DRAFT_MTP;
	if (c.kind == DRAFT_MTP && c.depth == 1 && !o[turn].asked)
		p->missed += o[turn].missed;
	p->unsure |= !o[turn].asked && (c.depth > 1 || chance <= sure_chance);
	return true;
}

/* The seconds that a plan takes; 0: unknown. */
static double draft_plan_seconds(const struct draft_meter *m, const struct draft_plan *p)
{
	if (p->turns == 1)
		return draft_drafting_seconds(m, p->choices[0]) + draft_meter_cost_of(m, p->rows);
	double seconds = draft_costs_at(&m->company, p->rows);
	for (uint32_t d = 1; d <= DRAFT_MOST && p->asks[d] && seconds > 0; d++)
		seconds += draft_pass_seconds(m, d, p->asks[d]);
	return seconds;
}

/* Begins a plan with the drafts that params ask for. */
static void draft_plan_begin(const struct draft_meter *m, const struct draft_offer *o,
			     uint32_t turns, uint32_t room, struct draft_plan *p)
{
	double chance[DRAFT_KINDS] = {1, 1};
	*p = (struct draft_plan){.turns = turns, .rows = turns, .tokens = turns};
	for (uint32_t d = 1; d <= DRAFT_MOST; d++)
		for (int kind = 0; kind < DRAFT_KINDS; kind++) {
			chance[kind] *= draft_stood(&m->kind[kind], d);
			for (uint32_t i = 0; i < turns; i++) {
				uint32_t turn = (m->chosen + i) % turns;
				if (o[turn].asked)
					draft_plan_add(p, o, turn, (struct draft_choice){kind, d},
						       chance[kind], room);
			}
		}
}

/* ---- choosing ---- */

struct draft_search {
	const struct draft_meter *m;
	const struct draft_offer *offers;
	uint32_t room;
	struct draft_plan base; /* the plan without the meter's drafts */
	double seconds;		/* seconds of `base`; 0: unknown */
	struct draft_plan best; /* the best plan that the credit allows */
	double speed;		/* speed of `best`; 0: there is none */
	bool pays;		/* some plan saves time, whether or not the credit allows it */
};

static void draft_search_begin(struct draft_search *s)
{
	s->seconds = draft_plan_seconds(s->m, &s->base);
	s->speed = 0;
	s->pays = false;
	s->best = s->base;
}

/* The seconds that a plan loses if no draft is accepted. */
static double draft_loss(const struct draft_search *s, const struct draft_plan *p)
{
	return draft_plan_seconds(s->m, p) - s->seconds;
}

/* The credit that a plan needs: half of the possible loss, since usually some drafts are accepted;
 * a quarter if each turn has one nearly certain token; plus the time to compute tokens that the
 * draft layer has missed. */
static double draft_price(const struct draft_search *s, const struct draft_plan *p)
{
	return draft_loss(s, p) * (p->unsure ? 0.5 : 0.25) + p->missed * s->m->following;
}

/* Considers a plan. shallower: the speed that a deeper plan must exceed. */
static void draft_search_look(struct draft_search *s, const struct draft_plan *p, double *shallower)
{
	double speed = p->tokens / draft_plan_seconds(s->m, p),
	       gain = p->turns > 1 ? least_gain_together : least_gain,
	       least = gain * s->base.tokens / s->seconds;
	s->pays |= speed > least;
	if (speed > least && speed > *shallower && speed > s->speed &&
	    s->m->credit >= draft_price(s, p)) {
		s->speed = speed;
		*shallower = deeper_gain * speed;
		s->best = *p;
	}
}

/* The preferred kind of drafts, and the kind for turns to which the first has nothing to offer. */
struct draft_preference {
	enum draft_kind first;
	bool other;
};

static bool draft_prefers(const struct draft_offer *o, struct draft_preference by,
			  enum draft_kind kind)
{
	if (o->asked)
		return false;
	return kind == by.first || (by.other && !o->most[by.first]);
}

/* Adds drafts row by row, the most likely to be accepted first. */
static void draft_search_plans(struct draft_search *s, struct draft_preference by)
{
	struct draft_plan p = s->base;
	uint32_t depth[DRAFT_KINDS] = {0};
	double chance[DRAFT_KINDS], shallower = 0;
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		chance[kind] = draft_stood(&s->m->kind[kind], 1);
	while (depth[DRAFT_MTP] < DRAFT_MOST || depth[DRAFT_LOOKUP] < DRAFT_MOST) {
		bool lookup = chance[DRAFT_LOOKUP] > chance[DRAFT_MTP];
		enum draft_kind kind = lookup ? DRAFT_LOOKUP : DRAFT_MTP;
		struct draft_choice c = {kind, ++depth[kind]};
		for (uint32_t i = 0; i < p.turns; i++) {
			uint32_t turn = (s->m->chosen + i) % p.turns;
			if (draft_prefers(&s->offers[turn], by, kind) &&
			    draft_plan_add(&p, s->offers, turn, c, chance[kind], s->room))
				draft_search_look(s, &p, &shallower);
		}
		chance[kind] = c.depth < DRAFT_MOST
				       ? chance[kind] * draft_stood(&s->m->kind[kind], c.depth + 1)
				       : -1;
	}
}

static void draft_search_all(struct draft_search *s)
{
	uint32_t offered[DRAFT_KINDS] = {0};
	for (uint32_t i = 0; i < s->base.turns; i++)
		for (int kind = 0; kind < DRAFT_KINDS; kind++)
			offered[kind] += !s->offers[i].asked && s->offers[i].most[kind];
	bool both = offered[DRAFT_MTP] && offered[DRAFT_LOOKUP] && s->base.turns > 1;
	for (int other = 0; other <= both; other++)
		for (int kind = 0; kind < DRAFT_KINDS; kind++)
			if (offered[kind])
				draft_search_plans(
					s, (struct draft_preference){(enum draft_kind)kind, other});
}

/* A trial: one token of a kind for each turn that has one. */
static struct draft_plan draft_trial_plan(const struct draft_search *s, enum draft_kind kind)
{
	struct draft_plan p = s->base;
	double chance = draft_stood(&s->m->kind[kind], 1);
	for (uint32_t i = 0; i < p.turns; i++) {
		uint32_t turn = (s->m->chosen + i) % p.turns;
		if (!s->offers[turn].asked)
			draft_plan_add(&p, s->offers, turn, (struct draft_choice){kind, 1}, chance,
				       s->room);
	}
	return p;
}

/* Whether a kind has waited long enough for its part of the credit to cover the average cost of a
 * trial. Otherwise trials of a cheap kind would use up the credit for an expensive one. */
static bool draft_is_due(const struct draft_search *s, const struct draft_plan *p, uint32_t idle,
			 uint32_t kinds)
{
	double gain = (p->tokens - s->base.tokens) * s->seconds / s->base.tokens;
	double costs = draft_loss(s, p) + p->missed * s->m->following - gain;
	return idle * credit_part * s->seconds >= kinds * costs;
}

/* The number of steps before the next trial of a kind. */
static uint32_t draft_pause(const struct draft_kind_meter *k, bool beside)
{
	if (!beside)
		return k->hot ? 0 : TRIAL_AFTER;
	return k->hot ? TRIAL_AFTER : TRIAL_BESIDE;
}

/* The set of kinds in the best plan. */
static uint32_t draft_paying(const struct draft_search *s)
{
	uint32_t kinds = 0;
	for (uint32_t i = 0; i < s->best.turns; i++)
		if (s->best.choices[i].depth > s->base.choices[i].depth)
			kinds |= 1U << s->best.choices[i].kind;
	return kinds;
}

/* Tries one token of a kind that is not in the best plan: the cheapest of the kinds that were right
 * at their last trial, or else of all. */
static void draft_try(struct draft_search *s)
{
	const uint32_t paying = draft_paying(s);
	const struct draft_kind_meter *best = NULL;
	double best_price = 0;
	uint32_t kinds = 0;
	struct draft_plan trials[DRAFT_KINDS];
	for (int kind = 0; kind < DRAFT_KINDS; kind++) {
		trials[kind] = draft_trial_plan(s, (enum draft_kind)kind);
		kinds += trials[kind].rows > s->base.rows;
	}
	for (int kind = 0; kind < DRAFT_KINDS; kind++) {
		const struct draft_kind_meter *k = &s->m->kind[kind];
		const struct draft_plan *p = &trials[kind];
		double price = draft_price(s, p);
		if (paying >> kind & 1 || p->rows == s->base.rows || s->m->credit < price ||
		    k->idle < draft_pause(k, paying) ||
		    !((k->hot && !paying) || draft_is_due(s, p, k->idle, kinds)))
			continue;
		bool better = best && k->hot != best->hot ? k->hot : price < best_price;
		if (best && !better)
			continue;
		best = k;
		best_price = price;
		s->best = *p;
	}
}

void draft_meter_choose(struct draft_meter *m, const struct draft_offer *offers, uint32_t turns,
			uint32_t room, struct draft_choice *choices)
{
	struct draft_search s = {.m = m, .offers = offers, .room = room};
	draft_plan_begin(m, offers, turns, room, &s.base);
	draft_search_begin(&s);
	/* Costs of shared steps are compared only with measured costs of similar steps. */
	bool known = s.seconds > 0 && (turns == 1 || draft_costs_known(&m->company, s.base.rows));
	if (known)
		draft_search_all(&s);
	/* A plan that saves time but waits for credit must not wait for trials of other kinds. */
	if (known && (s.speed > 0 || !s.pays))
		draft_try(&s);
	for (uint32_t i = 0; i < turns; i++)
		choices[i] = s.best.choices[i];
	m->chosen++;
}

bool draft_meter_follows(const struct draft_meter *m, bool answer)
{
	static const struct draft_offer own = {.most = {[DRAFT_MTP] = DRAFT_MOST}};
	struct draft_offer offers[DRAFT_TURNS];
	uint32_t turns = m->turns ? m->turns : 1;
	struct draft_search s = {.m = m, .offers = offers, .room = UINT32_MAX};
	for (uint32_t i = 0; i < turns; i++)
		offers[i] = own;
	draft_plan_begin(m, offers, turns, s.room, &s.base);
	draft_search_begin(&s);
	if (!(s.seconds > 0) || turns * m->following <= following_part * s.seconds)
		return true;
	if (!answer)
		draft_search_plans(&s, (struct draft_preference){DRAFT_MTP, false});
	return s.pays;
}

/* ---- counting ---- */

/* Adds a measured cost. A cost far above the expected one counts as less, since the step may have
 * lost its processor for a while. Returns the seconds counted. */
static double draft_count_cost(double *cost, double expected, double seconds)
{
	double before = *cost > 0 ? *cost : expected;
	if (before > 0 && seconds > far_more * before)
		seconds = far_more * before;
	*cost = *cost > 0 ? before + cost_weight * (seconds - before) : seconds;
	return seconds;
}

/* The same for drafting, except that a second such measurement in a row counts in full: the draft
 * layer's experts may have to be read now. */
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
		double before = draft_stood(k, depth), weight = 1.0 / (k->seen[depth] + 2);
		if (weight < stood_weight)
			weight = stood_weight;
		else
			k->seen[depth]++;
		k->stood[depth] = before + weight * ((depth <= stood) - before);
	}
	/* Bad luck at a depth must not prevent further trials: while all drafts are accepted, the
	 * estimates for greater depths approach that of the last one. */
	for (uint32_t depth = drafted + 1; stood == drafted && depth <= DRAFT_MOST; depth++)
		if (drafted && k->stood[depth] < k->stood[drafted])
			k->stood[depth] += stood_weight * (k->stood[drafted] - k->stood[depth]);
}

/* The first step's time sets the initial credit. */
static void draft_meter_begin(struct draft_meter *m, double seconds)
{
	m->credit = (m->turns > 1 ? credit_first_together : credit_first) * seconds;
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		m->kind[kind].hot = true;
}

/* Counts a kind as right if more than half of the turns' drafts were accepted completely. */
static void draft_count_kind(struct draft_meter *m, enum draft_kind kind,
			     const struct draft_result *r, uint32_t turns)
{
	struct draft_kind_meter *k = &m->kind[kind];
	uint32_t drafts = 0, right = 0, deepest = 0;
	for (uint32_t i = 0; i < turns; i++) {
		uint32_t depth = r[i].choice.kind == kind && !r[i].asked ? r[i].choice.depth : 0;
		drafts += depth > 0;
		right += depth && r[i].stood == depth;
		deepest = depth > deepest ? depth : deepest;
	}
	k->idle = drafts ? 0 : k->idle + 1;
	if (!drafts)
		return;
	for (uint32_t d = 1; d <= deepest && k->hot && right == drafts; d++)
		if (k->seen[d] > CHANGED)
			k->seen[d] = CHANGED;
	for (uint32_t i = 0; i < turns; i++)
		if (r[i].choice.kind == kind && !r[i].asked)
			draft_count_stood(k, r[i].choice.depth, r[i].stood);
	k->hot = 2 * right > drafts;
}

/* Adds the measurements of a turn alone. Returns the seconds counted for drafting. */
static double draft_count_alone(struct draft_meter *m, struct draft_choice c,
				const struct draft_times *t, double *spent)
{
	uint32_t rows = c.depth + 1;
	double drafting = c.kind == DRAFT_LOOKUP ? t->lookup : 0;
	*spent = draft_count_cost(&m->cost[rows], draft_meter_cost_of(m, rows), t->verifying);
	if (!c.depth)
		return 0;
	for (uint32_t d = 1; d <= DRAFT_MOST && c.kind == DRAFT_MTP; d++)
		drafting += t->passes[d];
	return draft_count_drafting(&m->kind[c.kind], c.depth, draft_drafting_seconds(m, c),
				    drafting);
}

static double draft_count_company(struct draft_meter *m, uint32_t rows, const struct draft_times *t,
				  double *spent)
{
	double drafting = 0;
	*spent = draft_costs_count(&m->company, rows, draft_costs_at(&m->company, rows),
				   t->verifying, false);
	for (uint32_t d = 1; d <= DRAFT_MOST && t->asks[d]; d++)
		drafting +=
			draft_costs_count(d > 1 ? &m->next_pass : &m->first_pass, t->asks[d],
					  draft_pass_seconds(m, d, t->asks[d]), t->passes[d], true);
	return drafting;
}

/* The plan of the step with only the drafts that params asked for. */
static struct draft_plan draft_plan_asked(const struct draft_result *r, uint32_t turns)
{
	struct draft_plan p = {.turns = turns, .rows = turns, .tokens = turns};
	for (uint32_t i = 0; i < turns; i++) {
		if (!r[i].asked)
			continue;
		p.choices[i] = r[i].choice;
		p.rows += r[i].choice.depth;
		p.tokens += r[i].stood;
		for (uint32_t d = 1; d <= r[i].choice.depth; d++)
			p.asks[d] += r[i].choice.kind == DRAFT_MTP;
	}
	return p;
}

void draft_meter_count(struct draft_meter *m, const struct draft_result *results, uint32_t turns,
		       const struct draft_times *t)
{
	const struct draft_plan asked = draft_plan_asked(results, turns);
	double known = draft_plan_seconds(m, &asked), tokens = asked.tokens, spent, drafting;
	uint32_t rows = asked.rows;
	for (uint32_t i = 0; i < turns; i++) {
		rows += results[i].asked ? 0 : results[i].choice.depth;
		tokens += results[i].asked ? 0 : results[i].stood;
	}
	drafting = turns == 1 ? draft_count_alone(m, results[0].choice, t, &spent)
			      : draft_count_company(m, rows, t, &spent);
	bool first = !m->turns;
	m->turns = turns;
	if (first)
		draft_meter_begin(m, spent);
	if (!(known > 0))
		return;
	for (int kind = 0; kind < DRAFT_KINDS; kind++)
		draft_count_kind(m, (enum draft_kind)kind, results, turns);
	m->credit += credit_part * spent;
	if (rows > asked.rows)
		m->credit += tokens / asked.tokens * known - spent - drafting;
	if (m->credit > credit_most * known)
		m->credit = credit_most * known;
}

void draft_meter_follow(struct draft_meter *m, uint32_t tokens, double seconds, bool answer)
{
	double each = draft_count_cost(&m->following, 0, seconds / tokens);
	m->credit -= answer ? tokens * each : 0;
}
