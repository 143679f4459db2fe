/* The router's choice, and the work of all rows. What is expected is what engine/cpu/router.c does. */
#include "kernels/delta.h"
#include "kernels/kernels.h"
#include "tests/cuda/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the choice ---- */

enum { CHOICE_ROWS = 10, CHOICE_MOST = 32, CHOICE_EXPERTS = 256 };

/* Routers, without their arrays. */
static const struct case_router {
	struct cuda_choice p;
	bool bias, correction, scale;
} case_routers[] = {
	{.p = {.experts = 128, .top_k = 8}},
	{.p = {.experts = 160, .top_k = 8, .normalise = 1, .eps = 1e-20F, .scaling = 2.5F}},
	{.p = {.experts = 9, .top_k = 8, .normalise = 1}},
	{.p = {.experts = 40, .top_k = 1, .normalise = 1}, .bias = true},
	{.p = {.experts = 16, .top_k = 2, .normalise = 1, .multiplier = 0.0442F}, .scale = true},
	{.p = {.order = CUDA_SOFTMAX_LAST, .experts = 40, .top_k = 10}},
	{.p = {.order = CUDA_SOFTMAX_LAST, .experts = 128, .top_k = 4}, .bias = true},
	{.p = {.order = CUDA_SOFTMAX_LAST, .experts = 72, .top_k = 32, .normalise = 1}, .scale = true},
	{.p = {.order = CUDA_SIGMOIDS, .experts = 64, .top_k = 6}},
	{.p = {.order = CUDA_SIGMOIDS, .experts = 160, .top_k = 8, .normalise = 1, .scaling = 2.5F},
	 .correction = true},
	{.p = {.order = CUDA_SIGMOIDS, .experts = 256, .top_k = 8, .normalise = 1, .groups = 8,
	       .top_groups = 4, .eps = 1e-20F, .scaling = 2.5F},
	 .correction = true},
	{.p = {.order = CUDA_SIGMOIDS, .experts = 20, .top_k = 4, .groups = 10, .top_groups = 2}},
	{.p = {.order = CUDA_SIGMOIDS, .experts = 15, .top_k = 8, .normalise = 1, .groups = 3,
	       .top_groups = 1, .multiplier = 0.7F, .eps = 0.1F, .scaling = 3},
	 .bias = true, .correction = true, .scale = true},
	{.p = {.order = CUDA_SOFTPLUS_ROOTS, .experts = 48, .top_k = 6, .normalise = 1, .scaling = 1.5F,
	       .eps = 1e-20F},
	 .correction = true},
};
enum { CASE_ROUTERS = sizeof case_routers / sizeof *case_routers };

/* NaN comes after all numbers. */
static bool case_above(float a, float b)
{
	return !isnan(a) && !(a <= b);
}

static void case_top_k(const float *scores, uint32_t n, uint32_t *chosen, uint32_t top_k)
{
	bool taken[CHOICE_EXPERTS] = {false};

	for (uint32_t rank = 0; rank < top_k; rank++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < n; i++)
			if (!taken[i] && (best == UINT32_MAX || case_above(scores[i], scores[best])))
				best = i;
		chosen[rank] = best;
		taken[best] = true;
	}
}

static void case_keep_groups(const struct cuda_choice *p, float *scores)
{
	const uint32_t size = p->experts / p->groups;
	float sum[CHOICE_EXPERTS / 2];
	uint32_t two[2], best[CHOICE_EXPERTS / 2];

	for (uint32_t g = 0; g < p->groups; g++) {
		case_top_k(scores + g * size, size, two, 2);
		sum[g] = scores[g * size + two[0]] + scores[g * size + two[1]];
	}
	case_top_k(sum, p->groups, best, p->groups);
	for (uint32_t i = p->top_groups; i < p->groups; i++)
		for (uint32_t e = 0; e < size; e++)
			scores[best[i] * size + e] = -INFINITY;
}

/* Logits become what experts are weighed by, and scores what they are chosen by. */
static void case_score(const struct cuda_choice *p, float *logit, float *score)
{
	for (uint32_t e = 0; e < p->experts; e++) {
		logit[e] *= p->multiplier;
		if (p->bias)
			logit[e] += p->bias[e];
		score[e] = 1;
		kernels_scalar.sigmoid_mul(&score[e], &logit[e], 1);
		if (p->order == CUDA_SIGMOIDS)
			logit[e] = score[e];
		if (p->order == CUDA_SOFTPLUS_ROOTS)
			logit[e] = (float)sqrt(delta_softplus((double)logit[e]));
		score[e] = logit[e];
		if (p->correction)
			score[e] += p->correction[e];
	}
	if (p->groups > 1)
		case_keep_groups(p, score);
}

static void case_weigh(const struct cuda_choice *p, float *logit, const uint32_t *chosen, float *weight)
{
	float sum = 0;

	if (p->order == CUDA_SOFTMAX_FIRST)
		kernels_scalar.softmax(logit, p->experts);
	for (uint32_t i = 0; i < p->top_k; i++)
		weight[i] = logit[chosen[i]];
	if (p->order == CUDA_SOFTMAX_LAST)
		kernels_scalar.softmax(weight, p->top_k);
	for (uint32_t i = 0; i < p->top_k; i++)
		sum += weight[i];
	sum += p->eps;
	for (uint32_t i = 0; i < p->top_k; i++) {
		weight[i] = p->normalise ? weight[i] / sum : weight[i];
		weight[i] *= p->scaling;
		if (p->scale)
			weight[i] *= p->scale[chosen[i]];
	}
}

struct case_choice {
	uint32_t chosen[CHOICE_MOST], rank[CHOICE_MOST];
	float weight[CHOICE_MOST];
};

/* One row; its logits are written over. */
static void case_choose_row(const struct cuda_choice *p, float *logit, struct case_choice *to)
{
	uint32_t chosen[CHOICE_MOST];
	float weight[CHOICE_MOST], score[CHOICE_EXPERTS];

	case_score(p, logit, score);
	case_top_k(score, p->experts, chosen, p->top_k);
	case_weigh(p, logit, chosen, weight);
	for (uint32_t i = 0; i < p->top_k; i++) {
		uint32_t place = 0;
		for (uint32_t k = 0; k < p->top_k; k++)
			place += chosen[k] < chosen[i];
		to->chosen[place] = chosen[i];
		to->weight[place] = weight[i];
		to->rank[place] = i;
	}
}

/* Rows with many ties, with infinities and with NaNs, also of whole groups. */
static void case_fill_logits(struct random *random, float *logits, uint32_t experts)
{
	random_normal(random, logits, (size_t)CHOICE_ROWS * experts);
	for (size_t i = 0; i < 2 * experts; i++)
		logits[experts + i] = rintf(logits[experts + i] * (i < experts ? 1 : 3));
	logits[3 * experts + 5] = -INFINITY;
	logits[4 * experts + 7] = INFINITY;
	logits[5 * experts] = NAN;
	logits[6 * experts + 8] = NAN;
	for (size_t i = 0; i < experts; i++) {
		logits[7 * experts + i] = i % 2 ? 0.0F : -0.0F;
		logits[8 * experts + i] = i % 3 ? NAN : -40 * logits[8 * experts + i];
		logits[9 * experts + i] *= 60; /* sigmoids are 1, exponentials 0 */
	}
}

/* A router with its arrays, and logits for it. */
struct case_routing {
	struct cuda_choice p;
	float bias[CHOICE_EXPERTS], correction[CHOICE_EXPERTS], scale[CHOICE_EXPERTS];
	float logits[CHOICE_ROWS * CHOICE_EXPERTS];
};

static void case_routing_make(struct case_routing *c, const struct case_router *router)
{
	struct random random = {router->p.experts + router->p.top_k};

	c->p = router->p;
	c->p.multiplier = c->p.multiplier != 0 ? c->p.multiplier : 1;
	c->p.scaling = c->p.scaling != 0 ? c->p.scaling : 1;
	random_normal(&random, c->bias, CHOICE_EXPERTS);
	random_normal(&random, c->correction, CHOICE_EXPERTS);
	random_normal(&random, c->scale, CHOICE_EXPERTS);
	case_fill_logits(&random, c->logits, c->p.experts);
	c->p.bias = router->bias ? c->bias : NULL;
	c->p.correction = router->correction ? c->correction : NULL;
	c->p.scale = router->scale ? c->scale : NULL;
}

/* The same for the GPU, of `rows` rows from `first` on, with room for what is chosen. */
static struct cuda_choice case_routing_put(const struct runner *r, const struct case_routing *c,
					   uint32_t first, uint32_t rows)
{
	const size_t each = c->p.experts * sizeof(float), left = (size_t)rows * c->p.top_k * sizeof(float);
	struct cuda_choice p = c->p;

	p.rows = rows;
	p.logits = r->put(r->ctx, c->logits + (size_t)first * c->p.experts, rows * each);
	p.bias = p.bias ? r->put(r->ctx, c->bias, each) : NULL;
	p.correction = p.correction ? r->put(r->ctx, c->correction, each) : NULL;
	p.scale = p.scale ? r->put(r->ctx, c->scale, each) : NULL;
	p.chosen = r->put(r->ctx, NULL, left);
	p.weight = r->put(r->ctx, NULL, left);
	p.rank = r->put(r->ctx, NULL, left);
	return p;
}

/* Whether row `row` of what the GPU chose is that of the logits of row `from`. */
static bool case_choice_agrees(const struct runner *r, const struct cuda_choice *p, struct case_routing *c,
			       uint32_t row, uint32_t from, struct case_choice *expected)
{
	const size_t at = (size_t)row * p->top_k, bytes = p->top_k * sizeof(float);
	struct case_choice got;

	case_choose_row(&c->p, c->logits + (size_t)from * c->p.experts, expected);
	return r->get(r->ctx, got.chosen, p->chosen + at, bytes) &&
	       r->get(r->ctx, got.weight, p->weight + at, bytes) &&
	       r->get(r->ctx, got.rank, p->rank + at, bytes) &&
	       compare_bytes("chosen", got.chosen, expected->chosen, sizeof(uint32_t), p->top_k) &&
	       compare_floats("weights", got.weight, expected->weight, p->top_k) &&
	       compare_bytes("ranks", got.rank, expected->rank, sizeof(uint32_t), p->top_k);
}

static bool case_choose_by(const struct runner *r, const struct case_router *router)
{
	static struct case_routing c;
	struct case_choice expected;
	case_routing_make(&c, router);
	const struct cuda_choice p = case_routing_put(r, &c, 0, CHOICE_ROWS);
	bool right = case_launch(r, cuda_choice_kernel(&p), cuda_choice_grid(&p), &p, sizeof p);

	for (uint32_t row = 0; row < CHOICE_ROWS && right; row++)
		right = case_choice_agrees(r, &p, &c, row, row, &expected);
	r->forget(r->ctx);
	return right;
}

bool case_choose(const struct runner *r)
{
	for (size_t i = 0; i < CASE_ROUTERS; i++)
		if (!case_choose_by(r, &case_routers[i])) {
			printf("# of router %zu\n", i);
			return false;
		}
	return true;
}

/* ---- the work of all rows, by expert ---- */

enum { GROUP_ROWS = 40, GROUP_TOP_K = 6, GROUP_EXPERTS = 20, GROUP_ALL = GROUP_ROWS * GROUP_TOP_K };

struct grouped {
	uint32_t order[GROUP_ALL], count;
	struct cuda_item items[GROUP_ALL + GROUP_EXPERTS];
};

/* Experts 3, 7, 11 … are not there. */
static bool case_expert_missing(uint32_t e)
{
	return e % 4 == 3;
}

/* The address of an expert's record; the kernels do not read what is there. */
static const uint8_t *case_slot(uint32_t e)
{
	return case_expert_missing(e) ? NULL : (const uint8_t *)(uintptr_t)(4096 + e);
}

static void case_group_expect(struct grouped *g, const struct cuda_groups *p,
			      const uint32_t *chosen)
{
	uint32_t ordered = 0;

	for (uint32_t e = 0; e < p->experts; e++) {
		const uint32_t from = ordered;
		for (uint32_t a = 0; a < p->rows * p->top_k && !case_expert_missing(e); a++)
			if (chosen[a] == e)
				g->order[ordered++] = a;
		for (uint32_t i = from; i < ordered; i += p->most)
			g->items[g->count++] = (struct cuda_item){
				case_slot(e), i, ordered - i < p->most ? ordered - i : p->most};
	}
}

static bool case_group_shape(const struct runner *r, struct cuda_groups p)
{
	static struct grouped got, expected;
	const void *slots[GROUP_EXPERTS];
	uint32_t chosen[GROUP_ALL];
	struct random random = {p.rows};
	memset(&got, 0, sizeof got);
	memset(&expected, 0, sizeof expected);
	for (uint32_t a = 0; a < GROUP_ALL; a++) /* different experts of a row, some of them often */
		chosen[a] = (a % GROUP_TOP_K * 3 + random_u32(&random) % 3) % p.experts;
	for (uint32_t e = 0; e < GROUP_EXPERTS; e++)
		slots[e] = case_slot(e);
	p.chosen = r->put(r->ctx, chosen, sizeof chosen);
	p.slots = r->put(r->ctx, slots, sizeof slots);
	p.order = r->put(r->ctx, NULL, sizeof got.order);
	p.items = r->put(r->ctx, NULL, sizeof got.items);
	p.item_count = r->put(r->ctx, NULL, sizeof got.count);

	const bool launched =
		case_launch(r, cuda_group_number, cuda_groups_grid(&p), &p, sizeof p) &&
		r->get(r->ctx, got.order, p.order, sizeof got.order) &&
		r->get(r->ctx, got.items, p.items, sizeof got.items) &&
		r->get(r->ctx, &got.count, p.item_count, sizeof got.count);
	case_group_expect(&expected, &p, chosen);
	r->forget(r->ctx);
	return launched && compare_bytes("items and order", &got, &expected, sizeof(uint32_t),
					 sizeof got / sizeof(uint32_t));
}

bool case_group(const struct runner *r)
{
	const struct cuda_groups many = {.rows = GROUP_ROWS, .top_k = GROUP_TOP_K,
					 .experts = GROUP_EXPERTS, .most = 8},
				 one = {.rows = 1, .top_k = GROUP_TOP_K, .experts = GROUP_EXPERTS,
					.most = 1},
				 none = {.rows = 1, .top_k = GROUP_TOP_K, .experts = 4, .most = 3};
	return case_group_shape(r, many) && case_group_shape(r, one) && case_group_shape(r, none);
}

/* ---- both of one row ---- */

/* Main memory, which a card has in its own here. */
enum { TOLD_WIDTH = 2500 };
struct case_told {
	uint32_t choice[3 * CHOICE_EXPERTS], flag;
	float input[TOLD_WIDTH];
};

static struct cuda_told case_told_put(const struct runner *r)
{
	struct case_told t = {0};
	for (uint32_t i = 0; i < TOLD_WIDTH; i++)
		t.input[i] = (float)i;
	return (struct cuda_told){.choice = r->put(r->ctx, NULL, sizeof t.choice),
				  .input = r->put(r->ctx, t.input, sizeof t.input),
				  .copy = r->put(r->ctx, NULL, sizeof t.input),
				  .width = TOLD_WIDTH,
				  .flag = r->put(r->ctx, NULL, sizeof t.flag)};
}

static bool case_told_agrees(const struct runner *r, const struct cuda_told *p, uint32_t n,
			     const struct case_choice *expected)
{
	struct case_told got;
	float weight[CHOICE_EXPERTS];

	if (!r->get(r->ctx, got.choice, p->choice, 3 * n * sizeof *got.choice) ||
	    !r->get(r->ctx, &got.flag, p->flag, sizeof got.flag) ||
	    !r->get(r->ctx, got.input, p->copy, sizeof got.input))
		return false;
	memcpy(weight, got.choice + n, n * sizeof *weight);
	bool copied = true;
	for (uint32_t i = 0; i < TOLD_WIDTH; i++)
		copied = copied && got.input[i] == (float)i;
	return got.flag == 1 && copied && compare_bytes("told", got.choice, expected->chosen, sizeof(uint32_t), n) &&
	       compare_floats("told weights", weight, expected->weight, n) &&
	       compare_bytes("told ranks", got.choice + 2 * n, expected->rank, sizeof(uint32_t), n);
}

static bool case_route_row(const struct runner *r, const struct case_router *router, uint32_t row)
{
	static struct grouped got, expected;
	static struct case_routing c;
	struct case_choice choice;
	const void *slots[CHOICE_EXPERTS];
	memset(&got, 0, sizeof got);
	memset(&expected, 0, sizeof expected);
	for (uint32_t e = 0; e < CHOICE_EXPERTS; e++)
		slots[e] = case_slot(e);
	case_routing_make(&c, router);
	struct cuda_route p = {.choice = case_routing_put(r, &c, row, 1)};
	p.groups = (struct cuda_groups){.chosen = p.choice.chosen,
					.slots = r->put(r->ctx, slots, sizeof slots),
					.rows = 1,
					.top_k = p.choice.top_k,
					.experts = p.choice.experts,
					.most = 1,
					.order = r->put(r->ctx, NULL, sizeof got.order),
					.items = r->put(r->ctx, NULL, sizeof got.items),
					.item_count = r->put(r->ctx, NULL, sizeof got.count)};
	if (row % 2)
		p.told = case_told_put(r);

	bool right = case_launch(r, cuda_route_kernel(&p.choice), cuda_choice_grid(&p.choice), &p,
				 sizeof p) &&
		     case_choice_agrees(r, &p.choice, &c, 0, row, &choice) &&
		     (!p.told.flag || case_told_agrees(r, &p.told, p.choice.top_k, &choice)) &&
		     r->get(r->ctx, got.order, p.groups.order, sizeof got.order) &&
		     r->get(r->ctx, got.items, p.groups.items, sizeof got.items) &&
		     r->get(r->ctx, &got.count, p.groups.item_count, sizeof got.count);
	case_group_expect(&expected, &p.groups, choice.chosen);
	r->forget(r->ctx);
	return right && compare_bytes("items and order", &got, &expected, sizeof(uint32_t),
				      sizeof got / sizeof(uint32_t));
}

bool case_route(const struct runner *r)
{
	for (uint32_t i = 0; i < CASE_ROUTERS; i++)
		if (!case_route_row(r, &case_routers[i], i % CHOICE_ROWS)) {
			printf("# of router %u\n", i);
			return false;
		}
	return true;
}
