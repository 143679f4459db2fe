/* Forecasts for a replay: a trace says what routers chose, not what they would have chosen a layer or
 * two before. So a forecast has the expert of each rank with a chance that falls with the rank, and
 * otherwise the expert that this rank had at another token, which is as popular as routers' errors
 * are. The chances are those that others measured of a model with 8 of 64 experts: 92 % of the first
 * rank, 64 % of the seventh, 28 % of the sixteenth; for two layers ahead their squares. */
#include "tests/bench/pager_replay.h"

enum { RANKS_MOST = 64, FIRST_PERCENT = 92, FALL_PERMILLE = 43 /* a rank */ };

/* Marsaglia's xorshift. */
static uint64_t forecast_random(struct replay *r)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return r->random;
}

static double forecast_chance(uint32_t distance, uint32_t rank)
{
	double next = FIRST_PERCENT * .01 - FALL_PERMILLE * .001 * rank;
	next = next > 0 ? next : 0;
	return distance ? next * next : next;
}

/* The expert of a rank in a visit; else the last one's. */
static uint32_t forecast_at(const struct trace *t, const struct trace_visit *v, uint32_t rank)
{
	uint32_t i = 0;
	while (i + 1 < v->count && t->rank[v->first + i] != rank)
		i++;
	return t->expert[v->first + i];
}

/* A visit of the same layer by another token. */
static const struct trace_visit *forecast_other(struct replay *r, const struct trace_visit *v)
{
	const struct trace *t = &r->trace;
	size_t at = (size_t)(forecast_random(r) % t->visit_count);
	while (t->visits[at].layer != v->layer || t->visits[at].phase != TRACE_ANSWER)
		at = (at + 1) % t->visit_count;
	return &t->visits[at];
}

static void forecast_layer(struct replay *r, struct pager_source *source,
			   const struct trace_visit *v, uint32_t distance)
{
	uint32_t experts[RANKS_MOST], ranks[RANKS_MOST], n = 0;
	for (uint32_t rank = 0; rank < v->count && rank < RANKS_MOST; rank++) {
		bool right = (double)(forecast_random(r) >> 11) * 0x1p-53 <
			     forecast_chance(distance, rank);
		uint32_t expert =
			forecast_at(&r->trace, right ? v : forecast_other(r, v), rank);
		bool twice = false;
		for (uint32_t i = 0; i < n; i++)
			twice |= experts[i] == expert;
		experts[n] = expert;
		ranks[n] = rank;
		n += !twice;
	}
	bool all = r->forecast[0] == 'a';
	pager_predict(source, v->layer, experts, all ? NULL : ranks, n);
}

void replay_forecast(struct replay *r, struct pager_source *source, size_t at)
{
	const struct trace *t = &r->trace;
	const struct trace_visit *v = &t->visits[at];
	for (uint32_t d = 0; d < PAGER_LOOK_AHEAD; d++) {
		const struct trace_visit *next = v + 1 + d;
		if (at + 1 + d >= t->visit_count || next->phase != TRACE_ANSWER ||
		    v->phase != TRACE_ANSWER || next->layer != v->layer + 1 + d ||
		    next->layer >= r->layers)
			return;
		forecast_layer(r, source, next, d);
	}
}
