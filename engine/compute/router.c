/* How experts are chosen and weighed is the family's (choice.h); params may ask for fewer experts,
 * or for doing without light ones that are not in memory (losses.h). */
#include "engine/compute/router.h"

#include "engine/compute/picks.h"

#include <math.h>
#include <string.h>

void route_take(struct routing *r, struct arena *a, const struct config *c, size_t rows)
{
	size_t experts = c->experts, all = rows * c->experts_per_token;
	r->router_logits = arena_take(a, rows * experts, sizeof *r->router_logits);
	r->scores = arena_take(a, rows * experts, sizeof *r->scores);
	r->chosen = arena_take(a, all, sizeof *r->chosen);
	r->weight = arena_take(a, all, sizeof *r->weight);
	r->kept = arena_take(a, rows, sizeof *r->kept);
	r->dropped = arena_take(a, experts, sizeof *r->dropped);
	r->absent = arena_take(a, experts, sizeof *r->absent);
	r->group_start = arena_take(a, experts + 1, sizeof *r->group_start);
	r->fill = arena_take(a, experts, sizeof *r->fill);
	r->token = arena_take(a, all, sizeof *r->token);
	r->assignment = arena_take(a, all, sizeof *r->assignment);
	r->distinct = arena_take(a, experts, sizeof *r->distinct);
	r->credit = arena_take(a, experts, sizeof *r->credit);
	activation_take(a, &r->foreseen, PREDICT_MOST, c->hidden_size);
	r->foreseen.guess = true;
	r->predicted = arena_take(a, experts, sizeof *r->predicted);
	r->named = arena_take(a, experts, sizeof *r->named);
}

/* ---- routing ---- */

struct choice {
	struct routing *routing;
	const struct step *step;
	const struct layer_weights *weights;
};

/* The model's own number of experts, or fewer. */
static uint32_t experts_of(const struct config *c, const struct span *span)
{
	uint32_t own = c->experts_per_token, fewer = span->losses.experts_per_token;
	return fewer && fewer < own ? fewer : own;
}

static void route_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct choice *x = ctx;
	const struct environment *env = x->step->env;
	struct routing *r = x->routing;
	for (size_t t = begin; t < end; t++) {
		float *logits = r->router_logits + t * env->config->experts;
		uint32_t *chosen = r->chosen + t * r->top_k;
		float *weight = r->weight + t * r->top_k;
		r->kept[t] = experts_of(env->config, step_span(x->step, t));
		choose_experts(env, x->weights, r->kept[t], logits,
			       r->scores + t * env->config->experts, chosen);
		weigh_experts(env, x->weights, r->kept[t], logits, chosen, weight);
		for (uint32_t i = r->kept[t]; i < r->top_k; i++) { /* others have more */
			chosen[i] = 0;
			weight[i] = 0;
		}
	}
}

/* Marks the experts that the step does without (losses.h). A weight that is not a number drops
 * nothing. */
static void find_dropped(struct routing *r, struct step *s, uint32_t routed)
{
	uint32_t experts = s->env->config->experts;
	memset(r->dropped, 0, experts * sizeof *r->dropped);
	for (size_t t = 0; t < s->n; t++)
		for (uint32_t i = 0; i < r->kept[t]; i++)
			r->dropped[r->chosen[t * r->top_k + i]] = true;
	for (size_t t = 0; t < s->n; t++) {
		float threshold = step_span(s, t)->losses.drop_missing;
		for (uint32_t i = 0; i < r->kept[t]; i++)
			if (i == 0 || !(r->weight[t * r->top_k + i] < threshold))
				r->dropped[r->chosen[t * r->top_k + i]] = false;
	}
	for (uint32_t e = 0; e < experts; e++) {
		struct pager_expert now;
		if (!r->dropped[e])
			continue;
		pager_inspect(s->env->experts, routed, e, &now);
		r->dropped[e] = !now.resident;
		s->dropped += r->dropped[e];
	}
}

/* Moves what a token keeps to the front, in the same order; the weights keep their sum. */
static void keep_rest(struct routing *r, uint32_t token)
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

static void drop_missing(struct routing *r, struct step *s, uint32_t routed)
{
	find_dropped(r, s, routed);
	for (uint32_t t = 0; t < s->n; t++)
		keep_rest(r, t);
}

/* Numbers the assignments by a counting sort over experts. */
static void group_by_expert(struct routing *r, uint32_t experts, uint32_t n)
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

/* The logits are no longer needed: the experts' numbers are written over them. */
static void tap_choice(const struct routing *r, const struct step *s, uint32_t routed)
{
	if (!s->env->tap)
		return;
	step_tap(s, TAP_ROUTER_WEIGHTS, routed, r->top_k, r->weight);
	for (size_t i = 0; i < (size_t)s->n * r->top_k; i++)
		r->router_logits[i] = (float)r->chosen[i];
	step_tap(s, TAP_ROUTER_EXPERTS, routed, r->top_k, r->router_logits);
}

static void make_logits(struct routing *r, const struct step *s, const struct layer_weights *l,
			struct activation *input)
{
	const struct environment *env = s->env;
	struct product router = {r->router_logits, &l->m[TENSOR_ROUTER]};
	float multiplier = env->config->router_multiplier;
	size_t count = (size_t)s->n * env->config->experts;
	product_run(env, &router, 1, input, s->n);
	for (size_t i = 0; i < count && multiplier != 1; i++)
		r->router_logits[i] *= multiplier;
	product_add_bias(env, r->router_logits, weights_vector(l, TENSOR_ROUTER_BIAS), s->n,
			 env->config->experts);
}

void route(struct routing *r, struct step *s, uint32_t layer, struct activation *input)
{
	const struct environment *env = s->env;
	uint32_t routed = env->plan->routed_of[layer];
	bool drops = false;
	r->top_k = 0;
	for (const struct span *span = s->spans; span < s->spans + s->span_count; span++) {
		uint32_t experts = experts_of(env->config, span);
		r->top_k = experts > r->top_k ? experts : r->top_k;
		drops = drops || span->losses.drop_missing > 0;
	}
	const struct layer_weights *l = &env->weights->layer[layer];
	make_logits(r, s, l, input);
	step_tap(s, TAP_ROUTER_LOGITS, routed, env->config->experts, r->router_logits);
	threads_run(env->threads, s->n, 16, route_tokens, &(struct choice){r, s, l});
	tap_choice(r, s, routed);
	if (drops)
		drop_missing(r, s, routed);
	group_by_expert(r, env->config->experts, s->n);
}

void route_show(struct routing *r, const struct step *s, uint32_t layer, const uint8_t *missed)
{
	const struct environment *env = s->env;
	if (!env->picked)
		return;
	memset(r->absent, 0, env->config->experts * sizeof *r->absent);
	for (uint32_t d = 0; d < r->distinct_count; d++)
		r->absent[r->distinct[d]] = missed[d];
	for (const struct span *span = s->spans; span < s->spans + s->span_count; span++)
		env->picked(env->picked_ctx,
			    &(struct picks){
				    .span = span,
				    .layer = layer,
				    .stride = r->top_k,
				    .kept = r->kept + span->first,
				    .chosen = r->chosen + (size_t)span->first * r->top_k,
				    .absent = r->absent,
			    });
}

/* ---- for the pager ---- */

/* Of a prompt; one row of it is like an answer's. */
static bool is_chunk(const struct span *span)
{
	return span->prompt && span->n > 1;
}

static bool has_chunk(const struct step *s)
{
	for (const struct span *span = s->spans; span < s->spans + s->span_count; span++)
		if (is_chunk(span))
			return true;
	return false;
}

/* What an expert's use by a row counts; `last` is the row before it that used it, or none. A prompt
 * must not outvote the answer, and its last tokens are most like what comes (0.1 and a half-life of
 * 16 tokens: cache/MEASUREMENTS.md). The rows of one answer count once. */
static float credit_of(const struct step *s, uint32_t row, const uint32_t *last)
{
	const struct span *span = step_span(s, row);
	if (is_chunk(span))
		return 0.1F * exp2f((float)(row - span->first + 1) / 16 - (float)span->n / 16);
	return last && step_span(s, *last) == span ? 0 : 1;
}

const float *route_credit(struct routing *r, const struct step *s)
{
	if (!has_chunk(s))
		return NULL;
	for (uint32_t d = 0; d < r->distinct_count; d++) {
		uint32_t e = r->distinct[d], first = r->group_start[e];
		r->credit[d] = 0;
		for (uint32_t a = first; a < r->group_start[e + 1]; a++)
			r->credit[d] +=
				credit_of(s, r->token[a], a > first ? &r->token[a - 1] : NULL);
	}
	return r->credit;
}

/* A later layer's router on this layer's input: the stream changes little from layer to layer, so
 * it names most of what it will choose. Names experts in r->named. */
static void foresee(struct routing *r, const struct step *s, uint32_t next)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer_weights *l = &env->weights->layer[next];
	const float *own = weights_vector(l, TENSOR_ROUTER_SCALE);
	step_norm(s, r->foreseen.f, s->x, NULL,
		  own ? own : weights_vector(l, TENSOR_FEED_FORWARD_NORM), s->n);
	activation_changed(&r->foreseen);
	make_logits(r, s, l, &r->foreseen);
	memset(r->named, 0, c->experts * sizeof *r->named);
	for (size_t t = 0; t < s->n; t++) {
		choose_experts(env, l, r->top_k, r->router_logits + t * c->experts, r->scores,
			       r->predicted);
		for (uint32_t i = 0; i < r->top_k; i++)
			r->named[r->predicted[i]] = true;
	}
}

static void predict_layer(struct routing *r, const struct step *s, uint32_t next)
{
	const struct config *c = s->env->config;
	uint32_t count = 0;
	/* What a draft layer gets is not this stream: it is not foreseen. */
	if (next >= c->layers || !config_routed(c, next))
		return;
	if (s->n <= PREDICT_MOST)
		foresee(r, s, next);
	for (uint32_t e = 0; e < c->experts; e++)
		if (s->n > PREDICT_MOST || r->named[e])
			r->predicted[count++] = e;
	pager_predict(s->env->experts, s->env->plan->routed_of[next], r->predicted, count);
}

/* One layer of a chunk wants more than the device can read meanwhile. An answer's does not. */
void route_predict(struct routing *r, struct step *s, uint32_t layer)
{
	uint32_t layers = has_chunk(s) ? 1 : PAGER_LOOK_AHEAD;
	for (uint32_t ahead = 1; ahead <= layers && pager_predicts(s->env->experts); ahead++)
		predict_layer(r, s, layer + ahead);
}
