/* The router of a layer with experts (Shazeer et al. 2017): which experts each token of a step
 * passes through, with what weight, and what the pager is told about it. See layers.h.
 *
 * Families differ between logits and weights: softmax before or after the choice, or sigmoids, or roots
 * of softplus, with a correction and groups (DeepSeek-AI 2024); normalisation; factors. In some layers
 * a table lists each token's experts (Roller et al. 2021), and only their weights are computed. A session's params may ask
 * for fewer experts, or for skipping light ones that are not in memory (struct losses). */
#include "engine/compute/layers.h"
#include "engine/compute/substitute.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

void router_take(struct routing *r, struct arena *a, const struct config *c, size_t rows)
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
	activation_take(a, &r->predict_input, PREDICT_MOST, c->hidden_size);
	r->predict_input.guess = true;
	r->predicted = arena_take(a, experts, sizeof *r->predicted);
	r->predicted_rank = arena_take(a, experts, sizeof *r->predicted_rank);
	r->rank = arena_take(a, experts, sizeof *r->rank);
	r->marked = arena_take(a, experts, sizeof *r->marked);
}

/* ---- one token's choice ---- */

/* The top_k largest of scores[n], descending, ties to the lowest index. NaN is never chosen before
 * a number, and there are always top_k of them. */
static void router_top_k(const float *scores, uint32_t n, uint32_t *chosen, uint32_t top_k)
{
	bool taken[CONFIG_MAX_EXPERTS];
	memset(taken, 0, n * sizeof *taken);
	for (uint32_t rank = 0; rank < top_k; rank++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < n; i++)
			if (!taken[i] && (best == UINT32_MAX || scores[i] > scores[best]))
				best = i;
		chosen[rank] = best;
		taken[best] = true;
	}
}

/* Experts outside of the best groups lose their scores. A group is as good as the sum of its two
 * best scores. */
static void router_keep_groups(const struct config *c, float *scores)
{
	uint32_t size = c->experts / c->router_groups, best[CONFIG_MAX_EXPERTS / 2], two[2];
	float sum[CONFIG_MAX_EXPERTS / 2];
	bool kept[CONFIG_MAX_EXPERTS / 2] = {false};
	for (uint32_t g = 0; g < c->router_groups; g++) {
		const float *group = scores + (size_t)g * size;
		router_top_k(group, size, two, 2);
		sum[g] = group[two[0]] + group[two[1]];
	}
	router_top_k(sum, c->router_groups, best, c->router_top_groups);
	for (uint32_t i = 0; i < c->router_top_groups; i++)
		kept[best[i]] = true;
	for (uint32_t e = 0; e < c->experts; e++)
		if (!kept[e / size])
			scores[e] = -INFINITY;
}

/* The numbers that a span's session adds to the logits of a layer; NULL: none. Draft layers have
 * none. */
static const float *router_steering(const struct step_span *span, uint32_t layer)
{
	const struct steering *s = span->losses.steered ? span->losses.steering : NULL;
	return s && layer < s->layers ? s->bias + (size_t)layer * s->experts : NULL;
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
static void router_sort_by_weight(uint32_t *chosen, float *weight, uint32_t count)
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

/* The experts that a table lists for the token, the heaviest first, of equal ones the first: top_k of
 * them. */
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
	router_top_k(apart ? scores : logits, c->experts, chosen, top_k);
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
	struct routing *routing;
	uint32_t layer;
	const struct step *step;
	const struct layer_weights *weights;
};

/* Experts per token of a span: the model's own number, or fewer. */
static uint32_t router_experts_of(const struct config *c, const struct step_span *span)
{
	uint32_t own = c->experts_per_token, fewer = span->losses.experts_per_token;
	return fewer && fewer < own ? fewer : own;
}

static void router_route_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct router_task *x = ctx;
	const struct environment *env = x->step->env;
	struct routing *r = x->routing;
	uint32_t experts = env->config->experts;
	for (size_t t = begin; t < end; t++) {
		float *logits = r->router_logits + t * experts;
		uint32_t *chosen = r->chosen + t * r->top_k;
		float *weight = r->weight + t * r->top_k;
		const struct step_span *span = step_span_of(x->step, t);
		const float *bias = router_steering(span, x->layer);
		r->kept[t] = router_experts_of(env->config, span);
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

/* ---- substitutes ---- */

enum { ROUTER_UNKNOWN, ROUTER_PRESENT, ROUTER_MISSING };

/* Experts that a step need not wait for: in memory when the layer begins, or needed in any case. */
struct router_presence {
	const struct routing *routing; /* marked: needed in any case */
	const struct step *step;
	uint32_t routed;
	uint8_t is[CONFIG_MAX_EXPERTS]; /* ROUTER_… ; 0: not looked at */
};

static bool router_is_present(void *ctx, uint32_t expert)
{
	struct router_presence *p = ctx;
	struct pager_expert now;
	if (p->is[expert] == ROUTER_UNKNOWN) {
		pager_inspect(p->step->env->experts, p->routed, expert, &now);
		p->is[expert] = now.resident || p->routing->marked[expert] ? ROUTER_PRESENT
								: ROUTER_MISSING;
	}
	return p->is[expert] == ROUTER_PRESENT;
}

/* What a row's experts are chosen by, once they are. */
static const float *router_values(const struct routing *r, const struct config *c, size_t row)
{
	bool apart = c->router_order >= SIGMOID_THEN_TOP_K;
	return (apart ? r->scores : r->router_logits) + row * c->experts;
}

/* Marks the experts that some row needs: all of its own, or the ranks that are never substituted. */
static void router_mark_needed(struct routing *r, const struct step *s)
{
	const struct config *c = s->env->config;
	memset(r->marked, 0, c->experts * sizeof *r->marked);
	for (size_t t = 0; t < s->n; t++) {
		const struct losses *x = &step_span_of(s, t)->losses;
		uint32_t ranks[CONFIG_MAX_EXPERTS], n = r->kept[t];
		const uint32_t *needed = r->chosen + t * r->top_k;
		if (x->substitute_window) {
			n = x->substitute_keep < n ? x->substitute_keep : n;
			router_top_k(router_values(r, c, t), c->experts, ranks, n);
			needed = ranks;
		}
		for (uint32_t i = 0; i < n; i++)
			r->marked[needed[i]] = true;
	}
}

static void router_substitute_row(struct routing *r, const struct step *s, uint32_t layer,
				  struct router_presence *p, size_t t)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct step_span *span = step_span_of(s, t);
	const float *values = router_values(r, c, t), *bias = router_steering(span, layer);
	const struct substitute how = {span->losses.substitute_keep,
				       span->losses.substitute_window, router_is_present, p};
	uint32_t chosen[CONFIG_MAX_EXPERTS], n = router_experts_of(c, span);
	router_top_k(values, c->experts, chosen, n);
	uint32_t given = substitute_choose(&how, values, c->experts, chosen, n);
	if (!given)
		return;
	memcpy(r->chosen + t * r->top_k, chosen, n * sizeof *chosen);
	router_weigh_chosen(env, &env->weights->layer[layer], n, r->router_logits + t * c->experts,
			    r->chosen + t * r->top_k, r->weight + t * r->top_k);
	r->kept[t] = router_leave_off(bias, r->chosen + t * r->top_k, r->weight + t * r->top_k, n);
	if (span->account)
		span->account->substituted += given;
}

/* Where a layer lists experts by tokens, there are no other ranks. */
static void router_substitute(struct routing *r, struct step *s, uint32_t layer, uint32_t routed)
{
	struct router_presence p = {.routing = r, .step = s, .routed = routed};
	bool any = false;
	for (uint32_t i = 0; i < s->span_count; i++)
		any |= s->spans[i].losses.substitute_window != 0;
	if (!any || weights_vector(&s->env->weights->layer[layer], TENSOR_ROUTER_LIST))
		return;
	router_mark_needed(r, s);
	for (size_t t = 0; t < s->n; t++)
		if (step_span_of(s, t)->losses.substitute_window)
			router_substitute_row(r, s, layer, &p, t);
}

/* ---- dropping ---- */

/* Counts the dropped experts that a span's rows chose. */
static void router_count_dropped(struct routing *r, const struct step_span *span, uint32_t experts)
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
static void router_find_dropped(struct routing *r, struct step *s, uint32_t routed)
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
	for (uint32_t e = 0; e < experts; e++) {
		struct pager_expert now;
		if (!r->dropped[e])
			continue;
		pager_inspect(s->env->experts, routed, e, &now);
		r->dropped[e] = !now.resident;
	}
	for (uint32_t i = 0; i < s->span_count; i++)
		router_count_dropped(r, &s->spans[i], experts);
}

/* Moves a token's remaining experts to the front, in the same order; the weights keep their sum. */
static void router_keep_rest(struct routing *r, uint32_t token)
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

/* Numbers the assignments by a counting sort over experts. */
static void router_group_by_expert(struct routing *r, uint32_t experts, uint32_t n)
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
static void router_tap(const struct routing *r, const struct step *s, uint32_t routed)
{
	if (!s->env->tap)
		return;
	step_tap(s, TAP_ROUTER_WEIGHTS, routed, r->top_k, r->weight);
	for (size_t i = 0; i < (size_t)s->n * r->top_k; i++)
		r->router_logits[i] = (float)r->chosen[i];
	step_tap(s, TAP_ROUTER_EXPERTS, routed, r->top_k, r->router_logits);
}

static void router_make_logits(struct routing *r, const struct step *s,
			       const struct layer_weights *l, struct activation *input)
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

void router_run(struct routing *r, struct step *s, uint32_t layer, struct activation *input)
{
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	uint32_t routed = env->plan->routed_of[layer];
	bool drops = false;
	r->top_k = 0;
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		uint32_t experts = router_experts_of(env->config, span);
		r->top_k = experts > r->top_k ? experts : r->top_k;
		drops = drops || span->losses.drop_missing > 0;
	}
	router_make_logits(r, s, l, input);
	step_tap(s, TAP_ROUTER_LOGITS, routed, env->config->experts, r->router_logits);
	threads_run(env->threads, s->n, 16, router_route_tokens, &(struct router_task){r, layer, s, l});
	router_substitute(r, s, layer, routed);
	router_tap(r, s, routed);
	if (drops)
		router_find_dropped(r, s, routed);
	for (uint32_t t = 0; t < s->n && drops; t++)
		router_keep_rest(r, t);
	router_group_by_expert(r, env->config->experts, s->n);
}

/* Counts an expert for each span that has rows which chose it; of the group of its assignments,
 * the rows ascend, and so do their spans. */
static void router_count(const struct routing *r, const struct step *s, uint32_t expert,
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

void router_show(struct routing *r, const struct step *s, uint32_t layer, const uint8_t *missed)
{
	for (uint32_t d = 0; d < r->distinct_count; d++) {
		r->absent[r->distinct[d]] = missed[d];
		router_count(r, s, r->distinct[d], missed[d]);
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
				});
}

/* ---- for the pager ---- */

/* Whether a span is a prompt's chunk; a single row of a prompt is treated like an answer's. */
static bool router_is_chunk(const struct step_span *span)
{
	return span->prompt && span->n > 1;
}

static bool router_has_chunk(const struct step *s)
{
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		if (router_is_chunk(span))
			return true;
	return false;
}

/* How much an expert's use by a row counts. last: the row before that used the expert; NULL: none.
 * A prompt must not outvote the answer, and its last tokens are most like the answer: 0.1, with a
 * half-life of 16 tokens (cache/MEASUREMENTS.md). The rows of one answer count once together. */
static float router_credit_of(const struct step *s, uint32_t row, const uint32_t *last)
{
	const struct step_span *span = step_span_of(s, row);
	if (router_is_chunk(span))
		return 0.1F * exp2f((float)(row - span->first + 1) / 16 - (float)span->n / 16);
	return last && step_span_of(s, *last) == span ? 0 : 1;
}

const float *router_credit(struct routing *r, const struct step *s)
{
	if (!router_has_chunk(s))
		return NULL;
	for (uint32_t d = 0; d < r->distinct_count; d++) {
		uint32_t e = r->distinct[d], first = r->group_start[e];
		r->credit[d] = 0;
		for (uint32_t a = first; a < r->group_start[e + 1]; a++)
			r->credit[d] += router_credit_of(s, r->token[a],
							 a > first ? &r->token[a - 1] : NULL);
	}
	return r->credit;
}

/* Runs a later layer's router on this layer's stream, and sets r->rank for the experts that this
 * router chooses: the best of their ranks among the tokens' choices. The stream changes little from
 * layer to layer, so these are most of the experts that the layer will choose. */
static void router_predict_layer(struct routing *r, const struct step *s, uint32_t next)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer_weights *l = &env->weights->layer[next];
	const float *own = weights_vector(l, TENSOR_ROUTER_SCALE);
	if (own) {
		step_norm(s, r->predict_input.f, s->x, NULL, own, s->n);
		activation_changed(&r->predict_input);
	} else {
		residual_guess(s, next, &r->predict_input);
	}
	router_make_logits(r, s, l, &r->predict_input);
	for (uint32_t e = 0; e < c->experts; e++)
		r->rank[e] = UINT32_MAX;
	for (size_t t = 0; t < s->n; t++) {
		const float *bias = router_steering(step_span_of(s, t), next);
		router_choose(env, l, bias, router_list_of(l, s, t), r->top_k,
			      r->router_logits + t * c->experts, r->scores, r->predicted);
		for (uint32_t i = 0; i < r->top_k; i++)
			if (i < r->rank[r->predicted[i]])
				r->rank[r->predicted[i]] = i;
	}
}

/* Predicts the experts of r->rank, the surest first. */
static void router_predict_ranks(struct routing *r, const struct step *s, uint32_t routed)
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

/* Predicts for a chunk, or for many answers: of so many tokens nearly any rank comes true. In the
 * order of the file. */
static void router_predict_chunk(struct routing *r, const struct step *s, uint32_t routed)
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
void router_predict(struct routing *r, struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	bool chunk = router_has_chunk(s);
	uint32_t last = layer + (chunk ? 1 : PAGER_LOOK_AHEAD);
	for (uint32_t next = layer + 1; next <= last && next < c->layers; next++) {
		if (!pager_predicts(s->env->experts) || !config_routed(c, next))
			continue;
		if (s->n <= PREDICT_MOST)
			router_predict_layer(r, s, next);
		(chunk || s->n > PREDICT_MOST ? router_predict_chunk : router_predict_ranks)(
			r, s, s->env->plan->routed_of[next]);
	}
}
