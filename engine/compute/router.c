/* The router of a layer with experts (Shazeer et al. 2017): which experts a chunk's tokens pass
 * through and with what weight, and what follows from that for the pager.
 *
 * Softmax, top-k and the weights' normalisation are the family's; params may ask for fewer
 * experts, or for doing without light ones that are not in memory (losses.h).
 */
#include "engine/compute/moe.h"

#include <math.h>
#include <string.h>

/* ---- routing ---- */

/* The top_k largest of logits[n], descending, ties to the lowest index. NaN is never chosen before
 * a number, and there are always top_k of them. */
static void choose(const float *logits, uint32_t n, uint32_t *chosen, uint32_t top_k)
{
	for (uint32_t rank = 0; rank < top_k; rank++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < n; i++) {
			bool taken = false;
			for (uint32_t r = 0; r < rank && !taken; r++)
				taken = chosen[r] == i;
			if (!taken && (best == UINT32_MAX || logits[i] > logits[best]))
				best = i;
		}
		chosen[rank] = best;
	}
}

/* Only the best groups' experts keep their scores: those whose two best have the largest sum. */
static void choose_groups(const struct config *c, float *scores)
{
	uint32_t size = c->experts / c->router_groups, best[CONFIG_MAX_EXPERTS], two[2];
	float sum[CONFIG_MAX_EXPERTS / 2];
	bool kept[CONFIG_MAX_EXPERTS / 2] = {false};
	for (uint32_t g = 0; g < c->router_groups; g++) {
		choose(scores + (size_t)g * size, size, two, 2);
		sum[g] = scores[(size_t)g * size + two[0]] + scores[(size_t)g * size + two[1]];
	}
	choose(sum, c->router_groups, best, c->router_top_groups);
	for (uint32_t i = 0; i < c->router_top_groups; i++)
		kept[best[i]] = true;
	for (uint32_t e = 0; e < c->experts; e++)
		if (!kept[e / size])
			scores[e] = -INFINITY;
}

/* Sigmoids of the logits, in place; chosen by them with the layer's correction (DeepSeek-AI 2024).
 */
static void choose_by_sigmoid(const struct forward *f, const float *correction, float *logits,
			      float *scores, uint32_t *chosen)
{
	const struct config *c = f->config;
	for (uint32_t e = 0; e < c->experts; e++)
		scores[e] = 1;
	f->kernels->sigmoid_mul(scores, logits, c->experts);
	memcpy(logits, scores, c->experts * sizeof *logits);
	if (correction)
		f->kernels->add(scores, correction, c->experts);
	if (c->router_groups > 1)
		choose_groups(c, scores);
	choose(scores, c->experts, chosen, f->moe->top_k);
}

/* What a choice by other numbers than the weights may have left: in descending order of weight, as
 * they were where that is equal. */
static void sort_by_weight(uint32_t *chosen, float *weight, uint32_t count)
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

static void normalise_weights(float *weight, uint32_t count)
{
	float sum = 0;
	for (uint32_t r = 0; r < count; r++)
		sum += weight[r];
	for (uint32_t r = 0; r < count; r++)
		weight[r] /= sum;
}

/* One token's experts; where they are chosen by sigmoids, the logits become those. */
static void pick(const struct forward *f, const struct layer_weights *l, float *logits,
		 float *scores, uint32_t *chosen)
{
	if (f->config->router_order == SIGMOID_THEN_TOP_K)
		choose_by_sigmoid(f, weights_vector(l, TENSOR_ROUTER_CORRECTION), logits, scores,
				  chosen);
	else
		choose(logits, f->config->experts, chosen, f->moe->top_k);
}

/* Turns one token's logits into its experts and their weights; the logits become scores. */
static void route_token(const struct forward *f, const struct layer_weights *l, float *logits,
			float *scores, uint32_t *chosen, float *weight)
{
	const struct config *c = f->config;
	uint32_t top_k = f->moe->top_k;
	pick(f, l, logits, scores, chosen);
	if (c->router_order == SOFTMAX_THEN_TOP_K)
		f->kernels->softmax(logits, c->experts);
	for (uint32_t r = 0; r < top_k; r++)
		weight[r] = logits[chosen[r]];
	if (c->router_order == TOP_K_THEN_SOFTMAX)
		f->kernels->softmax(weight, top_k);
	if (c->normalise_top_k)
		normalise_weights(weight, top_k);
	for (uint32_t r = 0; r < top_k && c->routed_scaling != 1; r++)
		weight[r] *= c->routed_scaling;
	sort_by_weight(chosen, weight, top_k);
}

struct routing {
	const struct forward *f;
	const struct layer_weights *weights;
};

static void route_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct routing *z = ctx;
	struct moe *m = z->f->moe;
	for (size_t t = begin; t < end; t++) {
		size_t row = t * z->f->config->experts, first = t * m->top_k;
		route_token(z->f, z->weights, m->router_logits + row, m->scores + row,
			    m->chosen + first, m->weight + first);
		m->kept[t] = m->top_k;
	}
}

/* Marks the experts that the step does without (losses.h). A weight that is not a number drops
 * nothing. */
static void find_dropped(struct forward *f, uint32_t routed, uint32_t n)
{
	struct moe *m = f->moe;
	size_t all = (size_t)n * m->top_k;
	memset(m->dropped, 0, f->config->experts * sizeof *m->dropped);
	for (size_t i = 0; i < all; i++)
		m->dropped[m->chosen[i]] = true;
	for (size_t i = 0; i < all; i++)
		if (i % m->top_k == 0 || !(m->weight[i] < f->losses.drop_missing))
			m->dropped[m->chosen[i]] = false;
	for (uint32_t e = 0; e < f->config->experts; e++) {
		struct pager_expert now;
		if (!m->dropped[e])
			continue;
		pager_inspect(f->experts, routed, e, &now);
		m->dropped[e] = !now.resident;
		f->experts_dropped += m->dropped[e];
	}
}

/* Moves what a token keeps to the front, in the same order; the weights keep their sum. */
static void keep_rest(struct moe *m, uint32_t token)
{
	uint32_t *chosen = m->chosen + (size_t)token * m->top_k, kept = 0;
	float *weight = m->weight + (size_t)token * m->top_k, before = 0, after = 0;
	for (uint32_t r = 0; r < m->top_k; r++) {
		before += weight[r];
		if (m->dropped[chosen[r]])
			continue;
		after += weight[r];
		chosen[kept] = chosen[r];
		weight[kept++] = weight[r];
	}
	for (uint32_t r = 0; r < kept && kept < m->top_k; r++)
		weight[r] *= before / after;
	m->kept[token] = kept;
}

static void drop_missing(struct forward *f, uint32_t routed, uint32_t n)
{
	find_dropped(f, routed, n);
	for (uint32_t t = 0; t < n; t++)
		keep_rest(f->moe, t);
}

/* Numbers the assignments by a counting sort over experts. */
static void group_by_expert(struct moe *m, uint32_t experts, uint32_t n)
{
	memset(m->fill, 0, experts * sizeof *m->fill);
	for (uint32_t t = 0; t < n; t++)
		for (uint32_t r = 0; r < m->kept[t]; r++)
			m->fill[m->chosen[t * m->top_k + r]]++;
	m->distinct_count = 0;
	m->group_start[0] = 0;
	for (uint32_t e = 0; e < experts; e++) {
		if (m->fill[e])
			m->distinct[m->distinct_count++] = e;
		m->group_start[e + 1] = m->group_start[e] + m->fill[e];
		m->fill[e] = m->group_start[e];
	}
	for (uint32_t t = 0; t < n; t++)
		for (uint32_t r = 0; r < m->kept[t]; r++) {
			uint32_t i = t * m->top_k + r, a = m->fill[m->chosen[i]]++;
			m->token[a] = t;
			m->assignment[i] = a;
		}
}

static void tap_routing(const struct forward *f, uint32_t layer, uint32_t position, uint32_t n,
			enum tap_point point)
{
	const struct moe *m = f->moe;
	if (!f->tap)
		return;
	uint32_t routed = f->plan->routed_of[layer];
	if (point == TAP_ROUTER_LOGITS) {
		f->tap(f->tap_ctx, point, routed, position, n, f->config->experts,
		       m->router_logits);
		return;
	}
	f->tap(f->tap_ctx, TAP_ROUTER_WEIGHTS, routed, position, n, m->top_k, m->weight);
	for (size_t i = 0; i < (size_t)n * m->top_k; i++)
		m->up[i] = (float)m->chosen[i]; /* not in use yet */
	f->tap(f->tap_ctx, TAP_ROUTER_EXPERTS, routed, position, n, m->top_k, m->up);
}

void route(struct forward *f, uint32_t layer, uint32_t n, uint32_t position)
{
	struct moe *m = f->moe;
	uint32_t own = f->config->experts_per_token, fewer = f->losses.experts_per_token;
	m->top_k = fewer && fewer < own ? fewer : own;
	const struct layer_weights *l = &f->weights->layer[layer];
	struct product router = {m->router_logits, &l->m[TENSOR_ROUTER]};
	forward_multiply(f, &router, 1, &f->normed, n);
	tap_routing(f, layer, position, n, TAP_ROUTER_LOGITS);
	threads_run(f->threads, n, 16, route_tokens, &(struct routing){f, l});
	tap_routing(f, layer, position, n, TAP_ROUTER_WEIGHTS);
	if (f->losses.drop_missing > 0)
		drop_missing(f, f->plan->routed_of[layer], n);
	group_by_expert(m, f->config->experts, n);
}

/* ---- for the pager ---- */

/* What the uses of a chunk of n tokens count: a prompt must not outvote the answer, and its last
 * tokens are most like what comes. (0.1 and a half-life of 16 tokens: cache/MEASUREMENTS.md.) */
void route_credit(struct moe *m, uint32_t n)
{
	for (uint32_t d = 0; d < m->distinct_count; d++) {
		uint32_t e = m->distinct[d];
		m->credit[d] = 0;
		for (uint32_t a = m->group_start[e]; a < m->group_start[e + 1]; a++)
			m->credit[d] += 0.1F * exp2f((float)(m->token[a] + 1) / 16 - (float)n / 16);
	}
}

/* A later layer's router on this layer's input: the stream changes little from layer to layer, so
 * it names most of what it will choose. Names experts in m->named. */
static void foresee(struct forward *f, uint32_t next, uint32_t n)
{
	struct moe *m = f->moe;
	const struct config *c = f->config;
	const struct layer_weights *l = &f->weights->layer[next];
	for (size_t t = 0; t < n; t++)
		f->kernels->rmsnorm(m->foreseen.f + t * c->hidden_size, f->x + t * c->hidden_size,
				    weights_vector(l, TENSOR_FEED_FORWARD_NORM), c->hidden_size,
				    c->rms_eps);
	struct product router = {m->router_logits, &l->m[TENSOR_ROUTER]};
	activation_changed(&m->foreseen);
	forward_multiply(f, &router, 1, &m->foreseen, n);
	memset(m->named, 0, c->experts * sizeof *m->named);
	for (size_t t = 0; t < n; t++) {
		pick(f, l, m->router_logits + t * c->experts, m->scores, m->predicted);
		for (uint32_t r = 0; r < m->top_k; r++)
			m->named[m->predicted[r]] = true;
	}
}

static void predict_layer(struct forward *f, uint32_t next, uint32_t n)
{
	struct moe *m = f->moe;
	const struct config *c = f->config;
	uint32_t count = 0;
	if (next >= c->layers || !config_routed(c, next))
		return;
	if (n <= PREDICT_MOST)
		foresee(f, next, n);
	for (uint32_t e = 0; e < c->experts; e++)
		if (n > PREDICT_MOST || m->named[e])
			m->predicted[count++] = e;
	pager_predict(f->experts, f->plan->routed_of[next], m->predicted, count);
}

/* One layer of a chunk wants more than the device can read meanwhile. An answer's does not. */
void route_predict(struct forward *f, uint32_t layer, uint32_t n)
{
	uint32_t layers = n == 1 || f->kind == ROWS_ANSWER ? PAGER_LOOK_AHEAD : 1;
	for (uint32_t ahead = 1; ahead <= layers && pager_predicts(f->experts); ahead++)
		predict_layer(f, layer + ahead, n);
}
