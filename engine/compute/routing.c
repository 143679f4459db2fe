/* What becomes of a router's choice. See routing.h.
 *
 * A session's params may ask for fewer experts, for others in the place of those that are not in
 * memory, or for skipping light ones that are not (struct losses). */
#include "engine/compute/backend.h"
#include "engine/compute/substitute.h"

#include <math.h>
#include <string.h>

void routing_take(struct routing *r, struct arena *a, const struct config *c, size_t rows)
{
	size_t experts = c->experts, all = rows * c->experts_per_token;
	r->router_logits = arena_take(a, rows * experts, sizeof *r->router_logits);
	r->scores = arena_take(a, rows * experts, sizeof *r->scores);
	r->chosen = arena_take(a, all, sizeof *r->chosen);
	r->weight = arena_take(a, all, sizeof *r->weight);
	r->kept = arena_take(a, rows, sizeof *r->kept);
	r->dropped = arena_take(a, experts, sizeof *r->dropped);
	r->absent = arena_take(a, experts, sizeof *r->absent);
	r->held = arena_take(a, experts, sizeof *r->held);
	r->group_start = arena_take(a, experts + 1, sizeof *r->group_start);
	r->fill = arena_take(a, experts, sizeof *r->fill);
	r->token = arena_take(a, all, sizeof *r->token);
	r->assignment = arena_take(a, all, sizeof *r->assignment);
	r->distinct = arena_take(a, experts, sizeof *r->distinct);
	r->credit = arena_take(a, experts, sizeof *r->credit);
	r->predicted = arena_take(a, experts, sizeof *r->predicted);
	r->predicted_rank = arena_take(a, experts, sizeof *r->predicted_rank);
	r->rank = arena_take(a, experts, sizeof *r->rank);
	r->marked = arena_take(a, experts, sizeof *r->marked);
	r->ready = arena_take(a, experts, sizeof *r->ready);
}

/* ---- for who chooses ---- */

/* NaN is above nothing, and numbers are above NaN. */
static bool routing_above(float a, float b)
{
	return !isnan(a) && !(a <= b);
}

void routing_top_k(const float *scores, uint32_t n, uint32_t *chosen, uint32_t top_k)
{
	bool taken[CONFIG_MAX_EXPERTS];
	memset(taken, 0, n * sizeof *taken);
	for (uint32_t rank = 0; rank < top_k; rank++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < n; i++)
			if (!taken[i] &&
			    (best == UINT32_MAX || routing_above(scores[i], scores[best])))
				best = i;
		chosen[rank] = best;
		taken[best] = true;
	}
}

const float *routing_steering(const struct step_span *span, uint32_t layer)
{
	const struct steering *s = span->losses.steered ? span->losses.steering : NULL;
	return s && layer < s->layers ? s->bias + (size_t)layer * s->experts : NULL;
}

uint32_t routing_experts_of(const struct config *c, const struct step_span *span)
{
	uint32_t own = c->experts_per_token, fewer = span->losses.experts_per_token;
	return fewer && fewer < own ? fewer : own;
}

/* Whether an expert need not be read: main memory or the backend has it. */
static bool routing_is_there(const struct environment *env, uint32_t routed, uint32_t expert)
{
	struct pager_expert now;
	if (env->backend->holds && env->backend->holds(env, routed, expert))
		return true;
	pager_inspect(env->experts, routed, expert, &now);
	return now.resident;
}

/* ---- substitutes ---- */

enum { ROUTING_UNKNOWN, ROUTING_PRESENT, ROUTING_MISSING };

/* Experts that a step need not wait for: in memory when the layer begins, or needed in any case. */
struct routing_presence {
	const struct routing *routing; /* marked: needed in any case */
	const struct step *step;
	uint32_t routed;
	uint8_t is[CONFIG_MAX_EXPERTS]; /* ROUTING_… ; 0: not looked at */
};

static bool routing_is_present(void *ctx, uint32_t expert)
{
	struct routing_presence *p = ctx;
	if (p->is[expert] == ROUTING_UNKNOWN)
		p->is[expert] = p->routing->marked[expert] ||
						routing_is_there(p->step->env, p->routed, expert)
					? ROUTING_PRESENT
					: ROUTING_MISSING;
	return p->is[expert] == ROUTING_PRESENT;
}

/* What a row's experts are chosen by, once they are. */
static const float *routing_values(const struct routing *r, const struct config *c, size_t row)
{
	bool apart = c->router_order >= SIGMOID_THEN_TOP_K;
	return (apart ? r->scores : r->router_logits) + row * c->experts;
}

/* Marks the experts that some row needs: all of its own, or the ranks that are never substituted.
 */
static void routing_mark_needed(struct routing *r, const struct step *s)
{
	const struct config *c = s->env->config;
	memset(r->marked, 0, c->experts * sizeof *r->marked);
	for (size_t t = 0; t < s->n; t++) {
		const struct losses *x = &step_span_of(s, t)->losses;
		uint32_t ranks[CONFIG_MAX_EXPERTS], n = r->kept[t];
		const uint32_t *needed = r->chosen + t * r->top_k;
		if (x->substitute_window) {
			n = x->substitute_keep < n ? x->substitute_keep : n;
			routing_top_k(routing_values(r, c, t), c->experts, ranks, n);
			needed = ranks;
		}
		for (uint32_t i = 0; i < n; i++)
			r->marked[needed[i]] = true;
	}
}

static void routing_substitute_row(struct routing *r, struct step *s, uint32_t layer,
				   struct routing_presence *p, size_t t)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct step_span *span = step_span_of(s, t);
	const float *values = routing_values(r, c, t);
	const struct substitute how = {span->losses.substitute_keep, span->losses.substitute_window,
				       routing_is_present, p};
	uint32_t chosen[CONFIG_MAX_EXPERTS], n = routing_experts_of(c, span);
	routing_top_k(values, c->experts, chosen, n);
	uint32_t given = substitute_choose(&how, values, c->experts, chosen, n);
	if (!given)
		return;
	memcpy(r->chosen + t * r->top_k, chosen, n * sizeof *chosen);
	r->kept[t] = n;
	env->backend->reweigh(s, layer, t);
	if (span->account)
		span->account->substituted += given;
}

/* Where a layer lists experts by tokens, there are no other ranks. */
static void routing_substitute(struct routing *r, struct step *s, uint32_t layer, uint32_t routed)
{
	struct routing_presence p = {.routing = r, .step = s, .routed = routed};
	bool any = false;
	for (uint32_t i = 0; i < s->span_count; i++)
		any |= s->spans[i].losses.substitute_window != 0;
	if (!any || weights_vector(&s->env->weights->layer[layer], TENSOR_ROUTER_LIST))
		return;
	routing_mark_needed(r, s);
	for (size_t t = 0; t < s->n; t++)
		if (step_span_of(s, t)->losses.substitute_window)
			routing_substitute_row(r, s, layer, &p, t);
}

/* ---- dropping ---- */

/* Counts the dropped experts that a span's rows chose. */
static void routing_count_dropped(struct routing *r, const struct step_span *span, uint32_t experts)
{
	uint32_t rows = span->first + span->n;
	if (!span->account || !(span->losses.drop_missing > 0))
		return;
	memset(r->marked, 0, experts * sizeof *r->marked);
	for (size_t t = span->first; t < rows; t++)
		for (uint32_t i = 0; i < r->kept[t]; i++) {
			uint32_t e = r->chosen[t * r->top_k + i];
			span->account->dropped += r->dropped[e] && !r->marked[e];
			r->marked[e] = true;
		}
}

/* Marks the experts that the step skips (struct losses). A weight that is not a number drops
 * nothing. */
static void routing_find_dropped(struct routing *r, struct step *s, uint32_t routed)
{
	uint32_t experts = s->env->config->experts;
	memset(r->dropped, 0, experts * sizeof *r->dropped);
	for (size_t t = 0; t < s->n; t++)
		for (uint32_t i = 0; i < r->kept[t]; i++)
			r->dropped[r->chosen[t * r->top_k + i]] = true;
	for (size_t t = 0; t < s->n; t++) {
		float threshold = step_span_of(s, t)->losses.drop_missing;
		for (uint32_t i = 0; i < r->kept[t]; i++)
			if (i == 0 || !(r->weight[t * r->top_k + i] < threshold))
				r->dropped[r->chosen[t * r->top_k + i]] = false;
	}
	for (uint32_t e = 0; e < experts; e++)
		r->dropped[e] = r->dropped[e] && !routing_is_there(s->env, routed, e);
	for (uint32_t i = 0; i < s->span_count; i++)
		routing_count_dropped(r, &s->spans[i], experts);
}

/* Moves a token's remaining experts to the front, in the same order; the weights keep their sum. */
static void routing_keep_rest(struct routing *r, uint32_t token)
{
	uint32_t *chosen = r->chosen + (size_t)token * r->top_k, had = r->kept[token], kept = 0;
	float *weight = r->weight + (size_t)token * r->top_k, before = 0, after = 0;
	for (uint32_t i = 0; i < had; i++) {
		before += weight[i];
		if (r->dropped[chosen[i]])
			continue;
		after += weight[i];
		chosen[kept] = chosen[i];
		weight[kept++] = weight[i];
	}
	for (uint32_t i = 0; i < kept && kept < had; i++)
		weight[i] *= before / after;
	r->kept[token] = kept;
}

/* Moves the experts that the backend holds behind the others. */
static void routing_part_held(struct step *s, uint32_t routed)
{
	const struct environment *env = s->env;
	struct routing *r = s->routing;
	uint32_t held = 0;
	r->paged_count = r->distinct_count;
	if (!env->backend->holds)
		return;
	r->paged_count = 0;
	for (uint32_t d = 0; d < r->distinct_count; d++)
		if (env->backend->holds(env, routed, r->distinct[d]))
			r->fill[held++] = r->distinct[d];
		else
			r->distinct[r->paged_count++] = r->distinct[d];
	memcpy(r->distinct + r->paged_count, r->fill, held * sizeof *r->fill);
}

/* Numbers the assignments by a counting sort over experts. */
static void routing_group_by_expert(struct routing *r, uint32_t experts, uint32_t n)
{
	memset(r->fill, 0, experts * sizeof *r->fill);
	for (uint32_t t = 0; t < n; t++)
		for (uint32_t i = 0; i < r->kept[t]; i++)
			r->fill[r->chosen[t * r->top_k + i]]++;
	r->distinct_count = 0;
	r->group_start[0] = 0;
	for (uint32_t e = 0; e < experts; e++) {
		if (r->fill[e])
			r->distinct[r->distinct_count++] = e;
		r->group_start[e + 1] = r->group_start[e] + r->fill[e];
		r->fill[e] = r->group_start[e];
	}
	for (uint32_t t = 0; t < n; t++)
		for (uint32_t i = 0; i < r->kept[t]; i++) {
			uint32_t at = t * r->top_k + i, a = r->fill[r->chosen[at]]++;
			r->token[a] = t;
			r->assignment[at] = a;
		}
}

/* ---- a step's choice ---- */

/* The logits are no longer needed: the experts' numbers are written over them. */
static void routing_tap(const struct routing *r, const struct step *s, uint32_t routed)
{
	if (!s->env->tap)
		return;
	step_tap(s, TAP_ROUTER_WEIGHTS, routed, r->top_k, r->weight);
	for (size_t i = 0; i < (size_t)s->n * r->top_k; i++)
		r->router_logits[i] = (float)r->chosen[i];
	step_tap(s, TAP_ROUTER_EXPERTS, routed, r->top_k, r->router_logits);
}

void routing_choose(struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	struct routing *r = s->routing;
	uint32_t routed = env->plan->routed_of[layer];
	bool drops = false;
	r->top_k = 0;
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		uint32_t experts = routing_experts_of(env->config, span);
		r->top_k = experts > r->top_k ? experts : r->top_k;
		drops = drops || span->losses.drop_missing > 0;
	}
	env->backend->route(s, layer);
	routing_substitute(r, s, layer, routed);
	routing_tap(r, s, routed);
	if (drops)
		routing_find_dropped(r, s, routed);
	for (uint32_t t = 0; t < s->n && drops; t++)
		routing_keep_rest(r, t);
	routing_group(s, layer);
}

void routing_group(struct step *s, uint32_t layer)
{
	routing_group_by_expert(s->routing, s->env->config->experts, s->n);
	routing_part_held(s, s->env->plan->routed_of[layer]);
}

/* Counts an expert for each span that has rows which chose it; of the group of its assignments,
 * the rows ascend, and so do their spans. */
static void routing_count(const struct routing *r, const struct step *s, uint32_t expert,
			  bool missed)
{
	const struct step_span *before = NULL;
	bool counted = false;
	for (uint32_t a = r->group_start[expert]; a < r->group_start[expert + 1]; a++) {
		const struct step_span *span = step_span_of(s, r->token[a]);
		struct step_account *account = span->account;
		if (span == before || !account)
			continue;
		account->hits += !missed;
		account->misses += missed;
		account->reads += missed && !counted;
		counted = true;
		before = span;
	}
}

void routing_show(const struct step *s, uint32_t layer, const uint8_t *missed)
{
	struct routing *r = s->routing;
	for (uint32_t d = 0; d < r->distinct_count; d++) {
		bool held = d >= r->paged_count, was_missed = !held && missed[d];
		r->absent[r->distinct[d]] = was_missed;
		r->held[r->distinct[d]] = held;
		routing_count(r, s, r->distinct[d], was_missed);
	}
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		if (span->account && span->account->picked)
			span->account->picked(
				span->account->picked_ctx,
				&(struct picks){
					.span = span,
					.layer = layer,
					.stride = r->top_k,
					.kept = r->kept + span->first,
					.chosen = r->chosen + (size_t)span->first * r->top_k,
					.absent = r->absent,
					.held = r->held,
				});
}

/* ---- for the pager ---- */

/* Whether a span is a prompt's chunk; a single row of a prompt is treated like an answer's. */
static bool routing_is_chunk(const struct step_span *span)
{
	return span->prompt && span->n > 1;
}

static bool routing_has_chunk(const struct step *s)
{
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		if (routing_is_chunk(span))
			return true;
	return false;
}

/* How much an expert's use by a row counts. last: the row before that used the expert; NULL: none.
 * A prompt must not outvote the answer, and its last tokens are most like the answer: 0.1, with a
 * half-life of 16 tokens (cache/MEASUREMENTS.md). The rows of one answer count once together. */
static float routing_credit_of(const struct step *s, uint32_t row, const uint32_t *last)
{
	const struct step_span *span = step_span_of(s, row);
	if (routing_is_chunk(span))
		return 0.1F * exp2f((float)(row - span->first + 1) / 16 - (float)span->n / 16);
	return last && step_span_of(s, *last) == span ? 0 : 1;
}

const float *routing_credit(const struct step *s)
{
	struct routing *r = s->routing;
	if (!routing_has_chunk(s))
		return NULL;
	for (uint32_t d = 0; d < r->distinct_count; d++) {
		uint32_t e = r->distinct[d], first = r->group_start[e];
		r->credit[d] = 0;
		for (uint32_t a = first; a < r->group_start[e + 1]; a++)
			r->credit[d] += routing_credit_of(s, r->token[a],
							  a > first ? &r->token[a - 1] : NULL);
	}
	return r->credit;
}

/* Predicts the experts of r->rank, the surest first. */
static void routing_predict_ranks(struct routing *r, const struct step *s, uint32_t routed)
{
	uint32_t count = 0;
	for (uint32_t rank = 0; rank < r->top_k; rank++)
		for (uint32_t e = 0; e < s->env->config->experts; e++)
			if (r->rank[e] == rank) {
				r->predicted[count] = e;
				r->predicted_rank[count++] = rank;
			}
	pager_predict(s->env->experts, routed, r->predicted, r->predicted_rank, count);
}

/* Predicts the experts of a chunk or of many answers, in the order of the file and without ranks: with
 * many tokens, experts of nearly any rank are chosen. */
static void routing_predict_chunk(struct routing *r, const struct step *s, uint32_t routed)
{
	uint32_t count = 0;
	for (uint32_t e = 0; e < s->env->config->experts; e++)
		if (s->n > PREDICT_MOST || r->rank[e] != UINT32_MAX)
			r->predicted[count++] = e;
	pager_predict(s->env->experts, routed, r->predicted, NULL, count);
}

/* A chunk predicts one layer: that layer wants more than the device can read meanwhile. An answer
 * predicts PAGER_LOOK_AHEAD layers. A draft layer is not predicted: its input is not this stream.
 */
void routing_predict(struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	struct routing *r = s->routing;
	bool chunk = routing_has_chunk(s);
	uint32_t last = layer + (chunk ? 1 : PAGER_LOOK_AHEAD);
	for (uint32_t next = layer + 1; next <= last && next < c->layers; next++) {
		if (!pager_predicts(s->env->experts) || !config_routed(c, next))
			continue;
		if (s->n <= PREDICT_MOST)
			s->env->backend->guess(s, next);
		(chunk || s->n > PREDICT_MOST ? routing_predict_chunk : routing_predict_ranks)(
			r, s, s->env->plan->routed_of[next]);
	}
}
