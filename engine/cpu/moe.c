/* The experts of a routed feed-forward (mixture of experts, Shazeer et al. 2017): computes those
 * that are ready, and sums them and the shared expert. See layers.h. Choosing them is router.c's,
 * awaiting them engine/compute/experts.c's.
 *
 * A step's tokens are grouped by expert, so that an expert's weights meet all its tokens together.
 * Each expert's output is kept, and every token then sums its own experts' outputs in
 * ascending order of expert, so that the order of arrival cannot change a bit. */
#include "engine/cpu/cpu.h"
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <stdatomic.h>
#include <string.h>

/* Rows of an item of a loop: a divisor of TQ_GROUP, and few, so that 16 threads end together although a token has only eight
 * experts of some hundred rows. */
enum { MOE_ROWS = 32, MOE_GROUP_SLICES = TQ_GROUP / MOE_ROWS };
/* Slices of down's rows whose sums over a token's experts are made at once. */
enum { MOE_SUM_SLICES = 8, MOE_SUM_ROWS = MOE_SUM_SLICES * MOE_ROWS };

static uint32_t moe_count(uint32_t rows, uint32_t each)
{
	return (rows + each - 1) / each;
}

void moe_take(struct moe_scratch *m, struct arena *arena, const struct config *c, size_t rows)
{
	size_t all = rows * c->experts_per_token;
	router_take(&m->router, arena, c);
	activation_take(arena, &m->hidden, all, c->expert_size);
	m->up = arena_take(arena, all * c->expert_size, sizeof *m->up);
	m->own_out = arena_take(arena, all * config_expert_width(c), sizeof *m->own_out);
	m->out = m->own_out;
	m->unfinished = arena_take(arena, (size_t)c->experts * moe_count(c->expert_size, TQ_GROUP),
				   sizeof *m->unfinished);
	m->unsummed = arena_take(arena, moe_count(config_expert_width(c), MOE_SUM_ROWS),
				 sizeof *m->unsummed);
	if (c->shared_size)
		dense_take_shared(&m->shared, arena, c, rows);
	activation_take(arena, &m->apart, rows, c->feed_forwards_apart ? c->hidden_size : 0);
	activation_take(arena, &m->latent, rows, c->expert_latent);
	activation_take(arena, &m->summed, rows, c->expert_latent);
}

/* ---- a wave: the experts that are ready now ---- */

/* Waves of any number of experts run as two parallel loops: gate, up and their product; then down.
 * A loop's items are slices of an expert's rows. TQ_GROUP rows of gate and up are one group of
 * down's input: the thread that finishes the last slice of a group makes it. */
struct moe_wave {
	const struct moe_scratch *m;
	const struct step *step;
	const struct routing *routing; /* the step's */
	const struct pager_ready *ready;
	const struct layer_weights *weights;
	const struct activation *input;	  /* of gate and up */
	const struct plan_record *record; /* of the layer */
	uint32_t layer;
	uint32_t slices; /* per expert: of MOE_ROWS rows of gate and up, or of down's rows */
};

/* The assignments (a token and one of its experts) of expert v->ready[ready]: returns the first,
 * and in *n how many there are. */
static uint32_t moe_group(const struct moe_wave *v, uint32_t ready, uint32_t *n)
{
	uint32_t e = v->routing->distinct[v->ready[ready].index];
	*n = v->routing->group_start[e + 1] - v->routing->group_start[e];
	return v->routing->group_start[e];
}

/* Adjacent slices of one expert, multiplied by one call, since each call gathers its inputs again.
 */
struct moe_slices {
	uint32_t ready, begin, end;
};

/* The slices of the first expert among items [*begin, end); *begin moves on behind them. */
static struct moe_slices moe_next_slices(const struct moe_wave *v, uint32_t *begin, uint32_t end)
{
	uint32_t ready = *begin / v->slices, first = ready * v->slices;
	uint32_t last = end - first < v->slices ? end : first + v->slices;
	struct moe_slices b = {ready, *begin - first, last - first};
	*begin = last;
	return b;
}

/* Multiplies slices of one of an expert's matrices by all the expert's tokens. part: 0 gate, 1 up,
 * 2 down, whose inputs are the expert's own rows of `hidden`. */
static void moe_multiply(const struct moe_wave *v, struct moe_slices b, uint32_t part)
{
	const struct moe_scratch *m = v->m;
	const struct shape *s = &v->record->computed[part];
	const uint8_t *slot = v->ready[b.ready].data;
	struct matrix w = {*s, slot + v->record->slot_offset[part]};
	uint32_t n, first = moe_group(v, b.ready, &n);
	uint32_t row0 = b.begin * MOE_ROWS,
		 row1 = b.end * MOE_ROWS < s->rows ? b.end * MOE_ROWS : s->rows;
	bool gated = config_gated(v->step->env->config);
	float *const outputs[EXPERT_PARTS] = {m->hidden.f, gated ? m->up : m->hidden.f, m->out};
	bool down = part == EXPERT_PARTS - 1;
	struct input x = down ? activation_input(&m->hidden, first) : activation_input(v->input, 0);
	const uint32_t *tokens = down ? NULL : v->routing->token + first;
	float *y = outputs[part] + (size_t)first * s->rows;
	watch_multiply(v->step->env->kernels, y, s->rows, &w, row0, row1, &x, tokens, n);
}

/* An expert's row of a layer's biases; NULL if the layer has none. */
static const float *moe_bias(const struct moe_wave *v, enum tensor_role role, uint32_t ready)
{
	const float *bias = weights_vector(v->weights, role);
	uint32_t e = v->routing->distinct[v->ready[ready].index];
	return bias ? bias + (size_t)e * v->weights->m[role].shape.cols : NULL;
}

/* Adds elements [begin, begin + n) of a bias, if there is one, to those of y. */
static void moe_add_bias(const struct moe_wave *v, float *y, const float *bias, size_t begin,
			 uint32_t n)
{
	if (bias)
		v->step->env->kernels->add(y + begin, bias + begin, n);
}

/* Gate and up of a group's rows become input of down. */
static void moe_activate_group(const struct moe_wave *v, uint32_t ready, uint32_t group)
{
	const struct moe_scratch *m = v->m;
	size_t width = m->hidden.k, begin = (size_t)group * TQ_GROUP;
	uint32_t n = width - begin < TQ_GROUP ? (uint32_t)(width - begin) : TQ_GROUP;
	uint32_t count, first = moe_group(v, ready, &count);
	enum format down = v->record->computed[EXPERT_PARTS - 1].format;
	const float *gate_bias = moe_bias(v, TENSOR_EXPERT_GATE_BIAS, ready),
		    *up_bias = moe_bias(v, TENSOR_EXPERT_UP_BIAS, ready);
	for (size_t a = first; a < first + count; a++) {
		float *gate = m->hidden.f + a * width, *up = m->up + a * width;
		moe_add_bias(v, gate, gate_bias, begin, n);
		moe_add_bias(v, up, up_bias, begin, n);
		dense_gate(v->step->env, gate + begin, up + begin, n);
		activation_prepare_part(v->step->env, &m->hidden, a, (uint32_t)begin, n, down);
	}
}

/* Slices of gate and up are computed: activates the groups that they complete. */
static void moe_finish_slices(const struct moe_wave *v, struct moe_slices b)
{
	uint32_t groups = moe_count(v->slices, MOE_GROUP_SLICES);
	for (uint32_t end; b.begin < b.end; b.begin = end) {
		uint32_t group = b.begin / MOE_GROUP_SLICES, next = (group + 1) * MOE_GROUP_SLICES;
		end = next < b.end ? next : b.end;
		uint32_t done = end - b.begin;
		if (atomic_fetch_sub(&v->m->unfinished[b.ready * groups + group].left, done) ==
		    done)
			moe_activate_group(v, b.ready, group);
	}
}

/* Before a wave's gate and up: how many slices each group has. */
static void moe_expect_slices(const struct moe_wave *v, uint32_t count)
{
	uint32_t groups = moe_count(v->slices, MOE_GROUP_SLICES);
	for (uint32_t i = 0; i < count * groups; i++) {
		uint32_t left = v->slices - i % groups * MOE_GROUP_SLICES;
		v->m->unfinished[i].left = left < MOE_GROUP_SLICES ? left : MOE_GROUP_SLICES;
	}
}

static void moe_run_gate_up(void *ctx, uint32_t begin, uint32_t end)
{
	const struct moe_wave *v = ctx;
	while (begin < end) {
		struct moe_slices b = moe_next_slices(v, &begin, end);
		for (uint32_t part = v->step->env->plan->first_part; part < EXPERT_PARTS - 1; part++)
			moe_multiply(v, b, part);
		moe_finish_slices(v, b);
	}
}

/* The sums over a token's experts: out, or what is projected to out afterwards. */
static float *moe_sums(const struct moe_wave *v)
{
	return v->m->summed.k ? v->m->summed.f : v->step->scratch->out;
}

/* moe_sums[t] = the weighted outputs of token t's experts, added in ascending order of expert;
 * columns [col0, col1). */
static void moe_sum_columns(const struct moe_wave *v, size_t t, uint32_t col0, uint32_t col1)
{
	const struct routing *r = v->routing;
	const uint32_t *chosen = r->chosen + t * r->top_k;
	size_t width = config_expert_width(v->step->env->config);
	float *y = moe_sums(v) + t * width + col0;
	uint32_t next = 0; /* the least expert not yet added */
	memset(y, 0, (col1 - col0) * sizeof *y);
	for (uint32_t added = 0; added < r->kept[t]; added++) {
		uint32_t rank = UINT32_MAX;
		for (uint32_t i = 0; i < r->kept[t]; i++)
			if (chosen[i] >= next && (rank == UINT32_MAX || chosen[i] < chosen[rank]))
				rank = i;
		size_t a = r->assignment[t * r->top_k + rank];
		watch_add_scaled(v->step->env->kernels, y, r->weight[t * r->top_k + rank],
				 v->m->out + a * width + col0, col1 - col0);
		next = chosen[rank] + 1;
	}
}

static void moe_sum_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct moe_wave *v = ctx;
	uint32_t width = config_expert_width(v->step->env->config);
	for (size_t t = begin; t < end; t++)
		if (step_row_lives(v->step, t))
			moe_sum_columns(v, t, 0, width);
		else
			memset(moe_sums(v) + t * width, 0, width * sizeof(float));
}

/* A step of one row sums its experts as their columns are finished, in whatever wave: a loop for
 * that alone would be one thread's. */
static void moe_expect_sums(const struct moe_scratch *m, const struct step *s)
{
	const struct config *c = s->env->config;
	uint32_t slices = moe_count(config_expert_width(c), MOE_ROWS);
	for (uint32_t i = 0; i * MOE_SUM_SLICES < slices; i++) {
		uint32_t left = slices - i * MOE_SUM_SLICES;
		m->unsummed[i].left =
			(left < MOE_SUM_SLICES ? left : MOE_SUM_SLICES) * s->routing->kept[0];
	}
}

/* Slices of down are computed in a step of one row: sums the columns that they complete. */
static void moe_sum_slices(const struct moe_wave *v, struct moe_slices b)
{
	uint32_t width = config_expert_width(v->step->env->config);
	for (uint32_t end; b.begin < b.end; b.begin = end) {
		uint32_t block = b.begin / MOE_SUM_SLICES, next = (block + 1) * MOE_SUM_SLICES;
		end = next < b.end ? next : b.end;
		uint32_t done = end - b.begin, last = (block + 1) * MOE_SUM_ROWS;
		if (atomic_fetch_sub(&v->m->unsummed[block].left, done) == done)
			moe_sum_columns(v, 0, block * MOE_SUM_ROWS, last < width ? last : width);
	}
}

static void moe_run_down(void *ctx, uint32_t begin, uint32_t end)
{
	const struct moe_wave *v = ctx;
	const struct moe_scratch *m = v->m;
	size_t width = config_expert_width(v->step->env->config);
	while (begin < end) {
		struct moe_slices b = moe_next_slices(v, &begin, end);
		moe_multiply(v, b, EXPERT_PARTS - 1);
		size_t col0 = (size_t)b.begin * MOE_ROWS, col1 = (size_t)b.end * MOE_ROWS;
		col1 = col1 < width ? col1 : width;
		const float *bias = moe_bias(v, TENSOR_EXPERT_DOWN_BIAS, b.ready);
		uint32_t n, first = moe_group(v, b.ready, &n);
		for (size_t a = first; bias && a < first + n; a++)
			moe_add_bias(v, m->out + a * width, bias, col0, (uint32_t)(col1 - col0));
		if (v->step->n == 1)
			moe_sum_slices(v, b);
	}
}

/* Shows the inputs of each expert's gate and down. */
static void moe_observe_wave(const struct moe_wave *v, uint32_t count)
{
	const struct moe_scratch *m = v->m;
	const struct observer *o = v->step->env->observer;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t n, first = moe_group(v, i, &n);
		struct tensor_id id = {plan_part_role(v->step->env->plan->first_part), v->layer,
				       v->routing->distinct[v->ready[i].index]};
		o->saw(o->ctx, id, v->input->f, v->input->k, v->routing->token + first, n);
		id.role = TENSOR_EXPERT_DOWN;
		o->saw(o->ctx, id, m->hidden.f + (size_t)first * m->hidden.k, m->hidden.k, NULL, n);
	}
}

static struct moe_wave moe_wave_of(const struct step *s, uint32_t layer)
{
	const struct moe_scratch *m = &s->scratch->moe;
	const struct plan *p = s->env->plan;
	return (struct moe_wave){.m = m,
				 .step = s,
				 .routing = s->routing,
				 .weights = &s->env->weights->layer[layer],
				 .input = m->input,
				 .record = &p->record[p->routed_of[layer]],
				 .layer = layer};
}

void moe_run_wave(struct step *s, uint32_t layer, const struct pager_ready *ready, uint32_t count)
{
	const struct environment *env = s->env;
	uint32_t hidden = config_expert_width(env->config), size = env->config->expert_size, n;
	uint64_t tokens = 0;
	struct moe_wave v = moe_wave_of(s, layer);
	v.ready = ready;
	for (uint32_t i = 0; i < count; i++) {
		(void)moe_group(&v, i, &n);
		tokens += n;
	}
	uint64_t work = (uint64_t)MOE_ROWS * tokens / count; /* of an average expert */

	v.slices = moe_count(size, MOE_ROWS);
	moe_expect_slices(&v, count);
	uint32_t items = count * v.slices;
	threads_run(env->threads, items, product_grain(env, items, 2 * work * hidden),
		    moe_run_gate_up, &v);
	v.slices = moe_count(hidden, MOE_ROWS);
	items = count * v.slices;
	threads_run(env->threads, items, product_grain(env, items, work * size), moe_run_down, &v);
	if (env->observer)
		moe_observe_wave(&v, count);
}

/* ---- before the waves, and after them ---- */

/* The stream by a norm of the router's or the experts' own; NULL: by the layer's. */
static struct activation *moe_input(struct moe_scratch *m, struct step *s, const float *norm)
{
	if (!norm)
		return &s->scratch->normed;
	activation_norm(s, m->apart.f, s->stream->x, NULL, norm, s->n);
	activation_changed(&m->apart);
	return &m->apart;
}

void moe_route(struct step *s, uint32_t layer)
{
	const struct layer_weights *l = &s->env->weights->layer[layer];
	const float *norm = weights_vector(l, TENSOR_ROUTER_SCALE);
	residual_read(s, layer, PART_FEED_FORWARD);
	router_run(s, layer, moe_input(&s->scratch->moe, s, norm));
}

/* What the experts read: `input`, or a projection of it. */
static struct activation *moe_project_input(struct moe_scratch *m, const struct step *s,
					    const struct layer_weights *l, struct activation *input)
{
	if (!m->latent.k)
		return input;
	product_run(s->env, &(struct product){m->latent.f, &l->m[TENSOR_EXPERTS_IN]}, 1, input,
		    s->n);
	activation_changed(&m->latent);
	return &m->latent;
}

/* What routed experts need. */
static void moe_begin_routed(struct step *s, uint32_t layer)
{
	struct moe_scratch *m = &s->scratch->moe;
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct plan_record *record = &env->plan->record[env->plan->routed_of[layer]];
	struct activation *input = moe_input(m, s, weights_vector(l, TENSOR_EXPERTS_NORM));
	m->input = input = moe_project_input(m, s, l, input);
	for (uint32_t part = env->plan->first_part; part < EXPERT_PARTS - 1; part++)
		activation_prepare(env, input, s->n, record->computed[part].format);
	if (env->observer)
		env->observer->saw(env->observer->ctx,
				   (struct tensor_id){plan_part_role(env->plan->first_part), layer,
						      UINT32_MAX},
				   input->f, input->k, NULL, s->n);
	if (s->n == 1)
		moe_expect_sums(m, s);
}

void moe_begin(struct step *s, uint32_t layer)
{
	s->scratch->moe.out = s->scratch->moe.own_out;
	moe_begin_routed(s, layer);
	if (s->env->config->layer[layer].shared)
		dense_run_shared(&s->scratch->moe.shared, s, layer);
}

/* Shows the inputs of all experts' downs, in the order of the tokens, not of arrival. */
static void moe_observe_downs(const struct moe_scratch *m, const struct step *s, uint32_t layer)
{
	const struct routing *r = s->routing;
	const struct observer *o = s->env->observer;
	const struct tensor_id id = {TENSOR_EXPERT_DOWN, layer, UINT32_MAX};
	for (size_t t = 0, n; t < s->n; t += n) {
		for (n = 1; t + n < s->n && r->kept[t + n - 1] == r->top_k;)
			n++; /* tokens whose assignments are adjacent */
		o->saw(o->ctx, id, m->hidden.f, m->hidden.k, r->assignment + t * r->top_k,
		       (uint32_t)((n - 1) * r->top_k + r->kept[t + n - 1]));
	}
}

/* out = the experts' sums, projected back where they worked on a projection. */
static void moe_project_sums(struct moe_scratch *m, const struct step *s,
			     const struct layer_weights *l)
{
	if (!m->summed.k)
		return;
	activation_changed(&m->summed);
	product_run(s->env, &(struct product){s->scratch->out, &l->m[TENSOR_EXPERTS_OUT]}, 1,
		    &m->summed, s->n);
}

void moe_end(struct step *s, uint32_t layer)
{
	struct moe_scratch *m = &s->scratch->moe;
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	struct moe_wave wave = moe_wave_of(s, layer);
	if (env->observer && !s->died)
		moe_observe_downs(m, s, layer);
	if (s->n > 1 || s->died || !s->routing->kept[0])
		threads_run(env->threads, s->n, 1, moe_sum_tokens, &wave);
	moe_project_sums(m, s, l);
	const float *post_norm = weights_vector(l, TENSOR_EXPERTS_POST_NORM);
	if (post_norm)
		activation_norm(s, s->scratch->out, s->scratch->out, NULL, post_norm, s->n);
	if (env->config->layer[layer].shared)
		dense_add_shared(&m->shared, s);
	residual_add(s, layer, PART_FEED_FORWARD);
}

/* ---- for other backends ---- */

void moe_begin_experts(struct step *s, uint32_t layer, const float *normed, float *outputs)
{
	struct moe_scratch *m = &s->scratch->moe;
	struct activation *input = &s->scratch->normed;
	m->out = outputs ? outputs : m->own_out;
	memcpy(input->f, normed, (size_t)s->n * input->k * sizeof *normed);
	activation_changed(input);
	moe_begin_routed(s, layer);
}

const float *moe_experts_found(const struct scratch *s)
{
	return s->moe.out;
}
