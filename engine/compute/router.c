/* How experts are chosen and weighed is the family's (choice.h); params may ask for fewer experts,
 * or for doing without light ones that are not in memory (losses.h). */
#include "engine/compute/router.h"

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
	r->group_start = arena_take(a, experts + 1, sizeof *r->group_start);
	r->fill = arena_take(a, experts, sizeof *r->fill);
	r->token = arena_take(a, all, sizeof *r->token);
	r->assignment = arena_take(a, all, sizeof *r->assignment);
	r->distinct = arena_take(a, experts, sizeof *r->distinct);
	r->credit = arena_take(a, experts, sizeof *r->credit);
	r->foreseen.k = c->hidden_size;
	r->foreseen.f = arena_take(a, (size_t)PREDICT_MOST * c->hidden_size, sizeof(float));
	r->predicted = arena_take(a, experts, sizeof *r->predicted);
	r->named = arena_take(a, experts, sizeof *r->named);
}

/* ---- routing ---- */

struct choice {
	struct routing *routing;
	const struct step *step;
	const struct layer_weights *weights;
};

static void route_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct choice *x = ctx;
	const struct environment *env = x->step->env;
	struct routing *r = x->routing;
	for (size_t t = begin; t < end; t++) {
		float *logits = r->router_logits + t * env->config->experts;
		uint32_t *chosen = r->chosen + t * r->top_k;
		choose_experts(env, x->weights, r->top_k, logits,
			       r->scores + t * env->config->experts, chosen);
		weigh_experts(env, x->weights, r->top_k, logits, chosen, r->weight + t * r->top_k);
		r->kept[t] = r->top_k;
	}
}

/* Marks the experts that the step does without (losses.h). A weight that is not a number drops
 * nothing. */
static void find_dropped(struct routing *r, struct step *s, uint32_t routed)
{
	uint32_t experts = s->env->config->experts;
	size_t all = (size_t)s->n * r->top_k;
	memset(r->dropped, 0, experts * sizeof *r->dropped);
	for (size_t i = 0; i < all; i++)
		r->dropped[r->chosen[i]] = true;
	for (size_t i = 0; i < all; i++)
		if (i % r->top_k == 0 || !(r->weight[i] < s->losses.drop_missing))
			r->dropped[r->chosen[i]] = false;
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
	uint32_t *chosen = r->chosen + (size_t)token * r->top_k, kept = 0;
	float *weight = r->weight + (size_t)token * r->top_k, before = 0, after = 0;
	for (uint32_t i = 0; i < r->top_k; i++) {
		before += weight[i];
		if (r->dropped[chosen[i]])
			continue;
		after += weight[i];
		chosen[kept] = chosen[i];
		weight[kept++] = weight[i];
	}
	for (uint32_t i = 0; i < kept && kept < r->top_k; i++)
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

static void tap_logits(const struct routing *r, const struct step *s, uint32_t routed)
{
	const struct environment *env = s->env;
	if (env->tap)
		env->tap(env->tap_ctx, TAP_ROUTER_LOGITS, routed,
			 (uint32_t)s->context->tokens.count, s->n, env->config->experts,
			 r->router_logits);
}

/* The logits are no longer needed: the experts' numbers are written over them. */
static void tap_choice(const struct routing *r, const struct step *s, uint32_t routed)
{
	const struct environment *env = s->env;
	uint32_t position = (uint32_t)s->context->tokens.count;
	if (!env->tap)
		return;
	env->tap(env->tap_ctx, TAP_ROUTER_WEIGHTS, routed, position, s->n, r->top_k, r->weight);
	for (size_t i = 0; i < (size_t)s->n * r->top_k; i++)
		r->router_logits[i] = (float)r->chosen[i];
	env->tap(env->tap_ctx, TAP_ROUTER_EXPERTS, routed, position, s->n, r->top_k,
		 r->router_logits);
}

void route(struct routing *r, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	uint32_t own = env->config->experts_per_token, fewer = s->losses.experts_per_token;
	uint32_t routed = env->plan->routed_of[layer];
	r->top_k = fewer && fewer < own ? fewer : own;
	const struct layer_weights *l = &env->weights->layer[layer];
	struct product router = {r->router_logits, &l->m[TENSOR_ROUTER]};
	product_run(env, &router, 1, s->normed, s->n);
	product_add_bias(env, r->router_logits, weights_vector(l, TENSOR_ROUTER_BIAS), s->n,
			 env->config->experts);
	tap_logits(r, s, routed);
	threads_run(env->threads, s->n, 16, route_tokens, &(struct choice){r, s, l});
	tap_choice(r, s, routed);
	if (s->losses.drop_missing > 0)
		drop_missing(r, s, routed);
	group_by_expert(r, env->config->experts, s->n);
}

/* ---- for the pager ---- */

/* What the uses of a chunk of n tokens count: a prompt must not outvote the answer, and its last
 * tokens are most like what comes. (0.1 and a half-life of 16 tokens: cache/MEASUREMENTS.md.) */
void route_credit(struct routing *r, uint32_t n)
{
	for (uint32_t d = 0; d < r->distinct_count; d++) {
		uint32_t e = r->distinct[d];
		r->credit[d] = 0;
		for (uint32_t a = r->group_start[e]; a < r->group_start[e + 1]; a++)
			r->credit[d] += 0.1F * exp2f((float)(r->token[a] + 1) / 16 - (float)n / 16);
	}
}

/* A later layer's router on this layer's input: the stream changes little from layer to layer, so
 * it names most of what it will choose. Names experts in r->named. */
static void foresee(struct routing *r, const struct step *s, uint32_t next)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer_weights *l = &env->weights->layer[next];
	for (size_t t = 0; t < s->n; t++)
		env->kernels->rmsnorm(r->foreseen.f + t * c->hidden_size, s->x + t * c->hidden_size,
				      weights_vector(l, TENSOR_FEED_FORWARD_NORM), c->hidden_size,
				      c->rms_eps);
	struct product router = {r->router_logits, &l->m[TENSOR_ROUTER]};
	activation_changed(&r->foreseen);
	product_run(env, &router, 1, &r->foreseen, s->n);
	product_add_bias(env, r->router_logits, weights_vector(l, TENSOR_ROUTER_BIAS), s->n,
			 c->experts);
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
	uint32_t layers = s->n == 1 || s->kind == ROWS_ANSWER ? PAGER_LOOK_AHEAD : 1;
	for (uint32_t ahead = 1; ahead <= layers && pager_predicts(s->env->experts); ahead++)
		predict_layer(r, s, layer + ahead);
}
