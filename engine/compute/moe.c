#include "engine/compute/moe.h"
#include "engine/compute/glu.h"
#include "engine/compute/observer.h"
#include "kernels/watch.h"

#include <string.h>

void moe_take(struct moe_scratch *m, struct arena *arena, const struct config *c, size_t rows)
{
	size_t all = rows * c->experts_per_token;
	route_take(&m->routing, arena, c, rows);
	activation_take(arena, &m->hidden, all, c->expert_size);
	m->up = arena_take(arena, all * c->expert_size, sizeof *m->up);
	m->out = arena_take(arena, all * c->hidden_size, sizeof *m->out);
	m->ready = arena_take(arena, c->experts, sizeof *m->ready);
	if (c->shared_size)
		shared_take(&m->shared, arena, c, rows);
	activation_take(arena, &m->apart, rows, c->feed_forwards_apart ? c->hidden_size : 0);
}

/* ---- experts ---- */

/* The experts that are ready now. They run as two parallel loops, whatever their number: gate, up
 * and their product, and down. */
struct wave {
	const struct moe_scratch *m;
	const struct step *step;
	const struct layer_weights *weights;
	const struct activation *input;	  /* of gate and up */
	const struct plan_record *record; /* of the layer */
	uint32_t layer;
	uint32_t blocks; /* per expert: of TQ_GROUP rows of gate and up, or of down's rows */
};

static uint32_t blocks_of(uint32_t rows)
{
	return (rows + TQ_GROUP - 1) / TQ_GROUP;
}

/* The assignments of the expert that was `ready`-th: the first, and how many. */
static uint32_t group_of(const struct moe_scratch *m, uint32_t ready, uint32_t *n)
{
	uint32_t e = m->routing.distinct[m->ready[ready].index];
	*n = m->routing.group_start[e + 1] - m->routing.group_start[e];
	return m->routing.group_start[e];
}

/* Blocks [begin, end) of one matrix of one expert, for all of its tokens. */
static void multiply_blocks(const struct wave *v, uint32_t ready, uint32_t part, uint32_t begin,
			    uint32_t end)
{
	const struct moe_scratch *m = v->m;
	const struct shape *s = &v->record->computed[part];
	const uint8_t *slot = m->ready[ready].data;
	struct matrix w = {*s, slot + v->record->slot_offset[part]};
	uint32_t n, first = group_of(m, ready, &n);
	uint32_t row0 = begin * TQ_GROUP,
		 row1 = end * TQ_GROUP < s->rows ? end * TQ_GROUP : s->rows;
	float *const outputs[EXPERT_PARTS] = {m->hidden.f, m->up, m->out};
	bool down = part == EXPERT_PARTS - 1; /* its inputs are this expert's own rows */
	struct input x = down ? activation_input(&m->hidden, first) : activation_input(v->input, 0);
	const uint32_t *tokens = down ? NULL : m->routing.token + first;
	float *y = outputs[part] + (size_t)first * s->rows;
	multiply_watched(v->step->env->kernels, y, s->rows, &w, row0, row1, &x, tokens, n);
}

/* An expert's row of a layer's biases, if it has these. */
static const float *bias_of(const struct wave *v, enum tensor_role role, uint32_t ready)
{
	const float *bias = weights_vector(v->weights, role);
	uint32_t e = v->m->routing.distinct[v->m->ready[ready].index];
	return bias ? bias + (size_t)e * v->weights->m[role].shape.cols : NULL;
}

/* Adds elements [begin, begin + n) of a bias, if there is one, to those of an array. */
static void add_bias(const struct wave *v, float *y, const float *bias, size_t begin, uint32_t n)
{
	if (bias)
		v->step->env->kernels->add(y + begin, bias + begin, n);
}

/* Gate and up of a block's rows become down's input: the block is one of its groups. */
static void activate_block(const struct wave *v, uint32_t ready, uint32_t block)
{
	const struct moe_scratch *m = v->m;
	size_t width = m->hidden.k, begin = (size_t)block * TQ_GROUP;
	uint32_t n = width - begin < TQ_GROUP ? (uint32_t)(width - begin) : TQ_GROUP;
	uint32_t count, first = group_of(m, ready, &count);
	enum format down = v->record->computed[EXPERT_PARTS - 1].format;
	const float *gate_bias = bias_of(v, TENSOR_EXPERT_GATE_BIAS, ready),
		    *up_bias = bias_of(v, TENSOR_EXPERT_UP_BIAS, ready);
	for (size_t a = first; a < first + count; a++) {
		float *gate = m->hidden.f + a * width + begin;
		add_bias(v, m->hidden.f + a * width, gate_bias, begin, n);
		add_bias(v, m->up + a * width, up_bias, begin, n);
		glu_run(v->step->env, gate, m->up + a * width + begin, n);
		activation_prepare_part(v->step->env, &m->hidden, a, (uint32_t)begin, n, down);
	}
}

/* Adjacent blocks of one expert. They are multiplied by one call, since each call gathers its
 * inputs anew. */
struct run {
	uint32_t ready, begin, end;
};

/* Takes what belongs to the first expert from the items [*begin, end). */
static struct run next_run(const struct wave *v, uint32_t *begin, uint32_t end)
{
	uint32_t ready = *begin / v->blocks, first = ready * v->blocks;
	uint32_t last = end - first < v->blocks ? end : first + v->blocks;
	struct run r = {ready, *begin - first, last - first};
	*begin = last;
	return r;
}

static void run_gate_up(void *ctx, uint32_t begin, uint32_t end)
{
	const struct wave *v = ctx;
	while (begin < end) {
		struct run r = next_run(v, &begin, end);
		multiply_blocks(v, r.ready, 0, r.begin, r.end);
		multiply_blocks(v, r.ready, 1, r.begin, r.end);
		for (uint32_t block = r.begin; block < r.end; block++)
			activate_block(v, r.ready, block);
	}
}

/* Adds the bias to what down gave. */
static void finish_blocks(const struct wave *v, struct run r)
{
	const struct moe_scratch *m = v->m;
	size_t width = v->step->env->config->hidden_size, begin = (size_t)r.begin * TQ_GROUP,
	       end = (size_t)r.end * TQ_GROUP < width ? (size_t)r.end * TQ_GROUP : width;
	const float *bias = bias_of(v, TENSOR_EXPERT_DOWN_BIAS, r.ready);
	uint32_t n, first = group_of(m, r.ready, &n);
	for (size_t a = first; bias && a < first + n; a++)
		add_bias(v, m->out + a * width, bias, begin, (uint32_t)(end - begin));
}

static void run_down(void *ctx, uint32_t begin, uint32_t end)
{
	const struct wave *v = ctx;
	while (begin < end) {
		struct run r = next_run(v, &begin, end);
		multiply_blocks(v, r.ready, EXPERT_PARTS - 1, r.begin, r.end);
		finish_blocks(v, r);
	}
}

/* What each expert of a wave was given, and what its down was. */
static void observe_wave(const struct wave *v, uint32_t count)
{
	const struct moe_scratch *m = v->m;
	const struct observer *o = v->step->env->observer;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t n, first = group_of(m, i, &n);
		struct tensor_id id = {TENSOR_EXPERT_GATE, v->layer,
				       m->routing.distinct[m->ready[i].index]};
		o->saw(o->ctx, id, v->input->f, v->input->k, m->routing.token + first, n);
		id.role = TENSOR_EXPERT_DOWN;
		o->saw(o->ctx, id, m->hidden.f + (size_t)first * m->hidden.k, m->hidden.k, NULL, n);
	}
}

/* What the downs of all experts were given, token by token, whatever arrived when. */
static void observe_downs(const struct moe_scratch *m, const struct step *s, uint32_t layer)
{
	const struct routing *r = &m->routing;
	const struct observer *o = s->env->observer;
	const struct tensor_id id = {TENSOR_EXPERT_DOWN, layer, UINT32_MAX};
	for (size_t t = 0, n; t < s->n; t += n) {
		for (n = 1; t + n < s->n && r->kept[t + n - 1] == r->top_k;)
			n++; /* these are adjacent */
		o->saw(o->ctx, id, m->hidden.f, m->hidden.k, r->assignment + t * r->top_k,
		       (uint32_t)((n - 1) * r->top_k + r->kept[t + n - 1]));
	}
}

static void run_wave(const struct wave *like, uint32_t count)
{
	const struct moe_scratch *m = like->m;
	const struct environment *env = like->step->env;
	uint32_t hidden = env->config->hidden_size, size = env->config->expert_size, n;
	uint64_t tokens = 0; /* of an average expert */
	for (uint32_t i = 0; i < count; i++) {
		(void)group_of(m, i, &n);
		tokens += n;
	}
	uint64_t work = (uint64_t)TQ_GROUP * tokens / count;

	struct wave v = *like;
	v.blocks = blocks_of(size);
	uint32_t items = count * v.blocks;
	threads_run(env->threads, items, product_grain(env, items, 2 * work * hidden), run_gate_up,
		    &v);
	v.blocks = blocks_of(hidden);
	items = count * v.blocks;
	threads_run(env->threads, items, product_grain(env, items, work * size), run_down, &v);
	if (env->observer)
		observe_wave(&v, count);
}

/* Each token's experts, added up in ascending order whatever the order of arrival. */
static void sum_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct wave *v = ctx;
	const struct routing *r = &v->m->routing;
	uint32_t width = v->step->env->config->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float *y = v->step->out + t * width;
		memset(y, 0, width * sizeof *y);
		const uint32_t *chosen = r->chosen + t * r->top_k;
		uint32_t next = 0; /* the least expert not yet added */
		for (uint32_t added = 0; added < r->kept[t]; added++) {
			uint32_t rank = UINT32_MAX;
			for (uint32_t i = 0; i < r->kept[t]; i++)
				if (chosen[i] >= next &&
				    (rank == UINT32_MAX || chosen[i] < chosen[rank]))
					rank = i;
			size_t a = r->assignment[t * r->top_k + rank];
			add_scaled_watched(v->step->env->kernels, y, r->weight[t * r->top_k + rank],
					   v->m->out + a * width, width);
			next = chosen[rank] + 1;
		}
	}
}

static int run_experts(struct moe_scratch *m, struct step *s, uint32_t layer, const struct wave *v,
		       struct err *e)
{
	const struct environment *env = s->env;
	uint32_t routed = env->plan->routed_of[layer];
	struct routing *r = &m->routing;
	struct pager_batch batch;
	int got = pager_begin(&batch, env->experts, routed, r->distinct, route_credit(r, s),
			      r->distinct_count, s->clock, e);
	if (got < 0)
		return got;
	batch.stop = env->stop;
	route_show(r, s, layer, batch.missed);
	/* While this layer's reads are under way: */
	route_predict(r, s, layer);
	if (env->config->layer[layer].shared)
		shared_run(&m->shared, s, layer);
	while ((got = pager_next(&batch, m->ready, r->distinct_count, e)) > 0) {
		run_wave(v, (uint32_t)got);
		for (int i = 0; i < got; i++)
			pager_put(&batch, &m->ready[i]);
	}
	pager_end(&batch);
	return got;
}

/* The stream by that norm; where there is none, the layer's own. */
static struct activation *input_of(struct moe_scratch *m, struct step *s, const float *norm)
{
	if (!norm)
		return s->normed;
	step_norm(s, m->apart.f, s->x, NULL, norm, s->n);
	activation_changed(&m->apart);
	return &m->apart;
}

int moe_run(struct moe_scratch *m, struct step *s, uint32_t layer, struct err *e)
{
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct plan_record *record = &env->plan->record[env->plan->routed_of[layer]];
	route(&m->routing, s, layer, input_of(m, s, weights_vector(l, TENSOR_ROUTER_SCALE)));
	struct activation *input = input_of(m, s, weights_vector(l, TENSOR_EXPERTS_NORM));
	for (uint32_t part = 0; part < EXPERT_PARTS - 1; part++)
		activation_prepare(env, input, s->n, record->computed[part].format);
	const struct wave wave = {m, s, l, input, record, layer, 0};
	if (env->observer)
		env->observer->saw(env->observer->ctx,
				   (struct tensor_id){TENSOR_EXPERT_GATE, layer, UINT32_MAX},
				   input->f, input->k, NULL, s->n);
	int failed = run_experts(m, s, layer, &wave, e);
	if (failed)
		return failed;
	if (env->observer)
		observe_downs(m, s, layer);
	threads_run(env->threads, s->n, 1, sum_tokens, (void *)&wave);
	const float *post_norm = weights_vector(l, TENSOR_EXPERTS_POST_NORM);
	if (post_norm)
		step_norm(s, s->out, s->out, NULL, post_norm, s->n);
	if (env->config->layer[layer].shared)
		shared_add(&m->shared, s);
	return 0;
}
