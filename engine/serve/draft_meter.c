#include "engine/serve/draft_meter.h"

/* Fading: of a cost, and of ai once it has been seen often. */
static const double cost_weight = 0.1, stood_weight = 0.05;
/* Before anything is measured: what one more row costs, in steps of one row, and ai. */
static const double row_guess = 0.6, stood_guess = 0.5;
/* Credit, in steps of one row: at first, at most, and the part of each step's time. */
static const double credit_first = 0.75, credit_most = 3, credit_part = 0.01;
/* A gain below this is noise. */
static const double least_gain = 1.01;
/* Steps without a draft before the text is tried again. */
enum { TRIAL_AFTER = 16 };

/* Of a step that many rows wide; what was not measured goes on in a straight line. */
static double cost_of(const struct draft_meter *m, uint32_t rows)
{
	if (m->cost[rows] > 0)
		return m->cost[rows];
	uint32_t known = rows - 1;
	while (known > 1 && !(m->cost[known] > 0))
		known--;
	double row =
		known > 1 ? (m->cost[known] - m->cost[1]) / (known - 1) : row_guess * m->cost[1];
	return m->cost[known] + (rows - known) * (row > 0 ? row : 0);
}

static double stood_of(const struct draft_meter *m, uint32_t depth)
{
	while (depth > 1 && !m->seen[depth])
		depth--; /* one that was never reached is like the one before */
	return m->seen[depth] ? m->stood[depth] : stood_guess;
}

static uint32_t fastest(const struct draft_meter *m, uint32_t most)
{
	double tokens = 1, chance = 1, best_speed = least_gain / cost_of(m, 1);
	uint32_t best = 0;
	for (uint32_t d = 1; d <= most; d++) {
		chance *= stood_of(m, d);
		tokens += chance;
		double speed = tokens / cost_of(m, d + 1);
		if (speed > best_speed) {
			best_speed = speed;
			best = d;
		}
	}
	return best;
}

uint32_t draft_meter_choose(const struct draft_meter *m, uint32_t most)
{
	if (!(m->cost[1] > 0) || !most)
		return 0;
	uint32_t d = fastest(m, most < DRAFT_MOST ? most : DRAFT_MOST);
	if (!d && m->plain >= TRIAL_AFTER)
		d = 1;
	/* Half of what it loses if nothing stands: something mostly does. */
	while (d && m->credit < (cost_of(m, d + 1) - m->cost[1]) / 2)
		d--;
	return d;
}

static void count_cost(struct draft_meter *m, uint32_t rows, double seconds)
{
	double *cost = &m->cost[rows];
	if (!(*cost > 0)) {
		*cost = seconds;
		return;
	}
	/* A step that lost its processor for a while says nothing of its rows. */
	if (seconds > 3 * *cost)
		seconds = 3 * *cost;
	*cost += cost_weight * (seconds - *cost);
}

static void count_stood(struct draft_meter *m, uint32_t drafted, uint32_t stood)
{
	for (uint32_t depth = 1; depth <= drafted && depth <= stood + 1; depth++) {
		double before = stood_of(m, depth), weight = 1.0 / (m->seen[depth] + 2);
		if (weight < stood_weight)
			weight = stood_weight;
		else
			m->seen[depth]++;
		m->stood[depth] = before + weight * ((depth <= stood) - before);
	}
	/* Bad luck at a depth must not keep it from being tried again: while all that is drafted
	 * stands, the depths beyond become like the last. */
	for (uint32_t depth = drafted + 1; stood == drafted && depth <= DRAFT_MOST; depth++)
		if (drafted && m->stood[depth] < m->stood[drafted])
			m->stood[depth] += stood_weight * (m->stood[drafted] - m->stood[depth]);
}

void draft_meter_count(struct draft_meter *m, uint32_t drafted, uint32_t stood, double seconds)
{
	double known = m->cost[1];
	count_cost(m, drafted + 1, seconds);
	count_stood(m, drafted, stood);
	m->plain = drafted ? 0 : m->plain + 1;
	if (!(known > 0)) { /* the first step is the measure of all others */
		m->credit = credit_first * m->cost[1];
		m->plain = TRIAL_AFTER;
		return;
	}
	m->credit += credit_part * seconds;
	if (drafted)
		m->credit += (stood + 1) * known - seconds;
	if (m->credit > credit_most * known)
		m->credit = credit_most * known;
}
