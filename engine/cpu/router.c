/* The router of a layer with experts (Shazeer et al. 2017): which experts each token of a step
 * passes through, and with what weight. See layers.h. What becomes of the choice, and what the
 * pager is told about it, is routing.h's.
 *
 * Families differ between logits and weights: softmax before or after the choice, or sigmoids, or
 * roots of softplus, with a correction and groups (DeepSeek-AI 2024); normalisation; factors. In
 * some layers a table lists each token's experts (Roller et al. 2021), and only their weights are
 * computed. */
#include "engine/cpu/cpu.h"
#include "engine/cpu/layers.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

void router_take(struct router_scratch *r, struct arena *arena, const struct config *c)
{
	activation_take(arena, &r->guess, PREDICT_MOST, c->hidden_size);
	r->guess.guess = true;
}

/* ---- one token's choice ---- */

/* Experts outside of the best groups lose their scores. A group is as good as the sum of its two
 * best scores. */
static void router_keep_groups(const struct config *c, float *scores)
{
	uint32_t size = c->experts / c->router_groups, best[CONFIG_MAX_EXPERTS / 2], two[2];
	float sum[CONFIG_MAX_EXPERTS / 2];
	bool kept[CONFIG_MAX_EXPERTS / 2] = {false};
	for (uint32_t g = 0; g < c->router_groups; g++) {
		const float *group = scores + (size_t)g * size;
		routing_top_k(group, size, two, 2);
		sum[g] = group[two[0]] + group[two[1]];
	}
	routing_top_k(sum, c->router_groups, best, c->router_top_groups);
	for (uint32_t i = 0; i < c->router_top_groups; i++)
		kept[best[i]] = true;
	for (uint32_t e = 0; e < c->experts; e++)
		if (!kept[e / size])
			scores[e] = -INFINITY;
}

static void router_steer(const float *bias, float *logits, uint32_t experts)
{
	for (uint32_t e = 0; bias && e < experts; e++)
		logits[e] += bias[e];
}

/* An expert that is off has no score, whatever its correction. */
static void router_turn_off(const float *bias, float *scores, uint32_t experts)
{
	for (uint32_t e = 0; bias && e < experts; e++)
		if (isinf(bias[e]))
			scores[e] = -INFINITY;
}

/* Sorts the chosen experts by descending weight. They were chosen in another order: by logits or by
 * corrected scores. Stable. */
void router_sort_by_weight(uint32_t *chosen, float *weight, uint32_t count)
{
	for (uint32_t end = 1; end < count; end++)
		for (uint32_t r = end; r > 0 && weight[r] > weight[r - 1]; r--) {
			float w = weight[r];
			uint32_t e = chosen[r];
			weight[r] = weight[r - 1];
			chosen[r] = chosen[r - 1];
			weight[r - 1] = w;
			chosen[r - 1] = e;
		}
}

/* Logits become what experts are weighed by, each by itself: their sigmoids, or the roots of their
 * softplus. */
static void router_open(const struct environment *env, float *logits, float *scores)
{
	const struct config *c = env->config;
	if (c->router_order == SOFTPLUS_THEN_TOP_K) {
		for (uint32_t e = 0; e < c->experts; e++)
			logits[e] = (float)sqrt(delta_softplus((double)logits[e]));
		return;
	}
	for (uint32_t e = 0; e < c->experts; e++)
		scores[e] = 1;
	env->kernels->sigmoid_mul(scores, logits, c->experts);
	memcpy(logits, scores, c->experts * sizeof *logits);
}

/* The experts that a table lists for the token, the heaviest first, of equal ones the first: top_k
 * of them. */
static void router_take_listed(const struct config *c, const float *listed, const float *logits,
			       uint32_t top_k, uint32_t *chosen)
{
	uint32_t all[CONFIG_MAX_EXPERTS];
	float weight[CONFIG_MAX_EXPERTS];
	for (uint32_t i = 0; i < c->experts_per_token; i++) {
		all[i] = (uint32_t)listed[i];
		weight[i] = logits[all[i]];
	}
	router_sort_by_weight(all, weight, c->experts_per_token);
	memcpy(chosen, all, top_k * sizeof *chosen);
}

/* The experts that are listed for a row's token; NULL: the layer has no list. */
static const float *router_list_of(const struct layer_weights *l, const struct step *s, size_t row)
{
	const float *list = weights_vector(l, TENSOR_ROUTER_LIST);
	size_t each = s->env->config->experts_per_token;
	return list ? list + step_token(s, row) * each : NULL;
}

/* The top_k experts of one token by logits[experts], to which bias[experts] is added; or of those
 * listed, if there are any. Where experts
 * are weighed each by itself, the logits become these weights, and scores[experts] is written over:
 * weights plus the correction, which balances the load of experts and moves the choice, never the
 * weights. */
static void router_choose(const struct environment *env, const struct layer_weights *l,
			  const float *bias, const float *listed, uint32_t top_k, float *logits,
			  float *scores, uint32_t *chosen)
{
	const struct config *c = env->config;
	const float *correction = weights_vector(l, TENSOR_ROUTER_CORRECTION);
	bool apart = c->router_order >= SIGMOID_THEN_TOP_K;
	router_steer(bias, logits, c->experts);
	if (apart)
		router_open(env, logits, scores);
	if (listed) {
		router_take_listed(c, listed, logits, top_k, chosen);
		return;
	}
	if (apart) {
		memcpy(scores, logits, c->experts * sizeof *scores);
		if (correction)
			env->kernels->add(scores, correction, c->experts);
		router_turn_off(bias, scores, c->experts);
		if (c->router_groups > 1)
			router_keep_groups(c, scores);
	}
	routing_top_k(apart ? scores : logits, c->experts, chosen, top_k);
}

/* Takes experts that are off out of a token's choice: it has them only where fewer are on than it
 * has to choose. Returns how many are left. */
static uint32_t router_leave_off(const float *bias, uint32_t *chosen, float *weight, uint32_t count)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (bias && isinf(bias[chosen[i]]))
			continue;
		chosen[kept] = chosen[i];
		weight[kept++] = weight[i];
	}
	return kept;
}

/* The chosen experts' weights, of logits that are probabilities where these come before the choice;
 * chosen and weight become descending in weight. */
static void router_weigh_chosen(const struct environment *env, const struct layer_weights *l,
				uint32_t top_k, const float *logits, uint32_t *chosen,
				float *weight)
{
	const struct config *c = env->config;
	const float *scale = weights_vector(l, TENSOR_EXPERT_SCALE);
	for (uint32_t i = 0; i < top_k; i++)
		weight[i] = logits[chosen[i]];
	if (c->router_order == TOP_K_THEN_SOFTMAX)
		env->kernels->softmax(weight, top_k);
	if (c->normalise_top_k) {
		float sum = 0;
		for (uint32_t i = 0; i < top_k; i++)
			sum += weight[i];
		sum += c->top_k_eps;
		for (uint32_t i = 0; i < top_k; i++)
			weight[i] /= sum;
	}
	for (uint32_t i = 0; i < top_k && c->routed_scaling != 1; i++)
		weight[i] *= c->routed_scaling;
	for (uint32_t i = 0; i < top_k && scale; i++)
		weight[i] *= scale[chosen[i]];
	router_sort_by_weight(chosen, weight, top_k);
}

/* The same of logits as they are; they are written over. */
static void router_weigh(const struct environment *env, const struct layer_weights *l,
			 uint32_t top_k, float *logits, uint32_t *chosen, float *weight)
{
	if (env->config->router_order == SOFTMAX_THEN_TOP_K)
		env->kernels->softmax(logits, env->config->experts);
	router_weigh_chosen(env, l, top_k, logits, chosen, weight);
}

/* ---- a step's choice ---- */

struct router_task {
	const struct step *step;
	const struct layer_weights *weights;
	uint32_t layer;
};

static void router_route_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct router_task *x = ctx;
	const struct environment *env = x->step->env;
	struct routing *r = x->step->routing;
	uint32_t experts = env->config->experts;
	for (size_t t = begin; t < end; t++) {
		float *logits = r->router_logits + t * experts;
		uint32_t *chosen = r->chosen + t * r->top_k;
		float *weight = r->weight + t * r->top_k;
		const struct step_span *span = step_span_of(x->step, t);
		const float *bias = routing_steering(span, x->layer);
		r->kept[t] = routing_experts_of(env->config, span);
		router_choose(env, x->weights, bias, router_list_of(x->weights, x->step, t),
			      r->kept[t], logits, r->scores + t * experts, chosen);
		router_weigh(env, x->weights, r->kept[t], logits, chosen, weight);
		r->kept[t] = router_leave_off(bias, chosen, weight, r->kept[t]);
		for (uint32_t i = r->kept[t]; i < r->top_k; i++) { /* other rows have more */
			chosen[i] = 0;
			weight[i] = 0;
		}
	}
}

/* The router's products become its logits. */
static void router_finish_logits(const struct step *s, const struct layer_weights *l)
{
	const struct environment *env = s->env;
	float *logits = s->routing->router_logits, multiplier = env->config->router_multiplier;
	size_t count = (size_t)s->n * env->config->experts;
	for (size_t i = 0; i < count && multiplier != 1; i++)
		logits[i] *= multiplier;
	product_add_bias(env, logits, weights_vector(l, TENSOR_ROUTER_BIAS), s->n,
			 env->config->experts);
}

static void router_make_logits(const struct step *s, const struct layer_weights *l,
			       struct activation *input)
{
	struct product router = {s->routing->router_logits, &l->m[TENSOR_ROUTER]};
	product_run(s->env, &router, 1, input, s->n);
	router_finish_logits(s, l);
}

static void router_choose_all(const struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	step_tap(s, TAP_ROUTER_LOGITS, env->plan->routed_of[layer], env->config->experts,
		 s->routing->router_logits);
	threads_run(env->threads, s->n, 16, router_route_tokens,
		    &(struct router_task){s, l, layer});
}

void router_run(const struct step *s, uint32_t layer, struct activation *input)
{
	router_make_logits(s, &s->env->weights->layer[layer], input);
	router_choose_all(s, layer);
}

void router_choose_experts(struct step *s, uint32_t layer)
{
	router_finish_logits(s, &s->env->weights->layer[layer]);
	router_choose_all(s, layer);
}

void router_reweigh(struct step *s, uint32_t layer, size_t row)
{
	const struct environment *env = s->env;
	struct routing *r = s->routing;
	uint32_t *chosen = r->chosen + row * r->top_k;
	float *weight = r->weight + row * r->top_k;
	router_weigh_chosen(env, &env->weights->layer[layer], r->kept[row],
			    r->router_logits + row * env->config->experts, chosen, weight);
	r->kept[row] = router_leave_off(routing_steering(step_span_of(s, row), layer), chosen,
					weight, r->kept[row]);
}

/* The best rank of each expert among the step's rows. */
static void router_rank(struct step *s, uint32_t later)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	struct routing *r = s->routing;
	const struct layer_weights *l = &env->weights->layer[later];
	for (uint32_t e = 0; e < c->experts; e++)
		r->rank[e] = UINT32_MAX;
	for (size_t t = 0; t < s->n; t++) {
		const float *bias = routing_steering(step_span_of(s, t), later);
		router_choose(env, l, bias, router_list_of(l, s, t), r->top_k,
			      r->router_logits + t * c->experts, r->scores, r->predicted);
		for (uint32_t i = 0; i < r->top_k; i++)
			if (i < r->rank[r->predicted[i]])
				r->rank[r->predicted[i]] = i;
	}
}

/* The stream changes little from layer to layer, so these are most of the experts that the layer
 * will choose. */
void router_guess(struct step *s, uint32_t later)
{
	struct activation *input = &s->scratch->moe.router.guess;
	const struct layer_weights *l = &s->env->weights->layer[later];
	const float *own = weights_vector(l, TENSOR_ROUTER_SCALE);
	if (own) {
		activation_norm(s, input->f, s->stream->x, NULL, own, s->n);
		activation_changed(input);
	} else {
		residual_guess(s, later, input);
	}
	router_make_logits(s, l, input);
	router_rank(s, later);
}

void router_rank_experts(struct step *s, uint32_t later)
{
	router_finish_logits(s, &s->env->weights->layer[later]);
	router_rank(s, later);
}
