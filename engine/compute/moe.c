/* Routed experts (Shazeer et al. 2017): the experts that router.c chose for a whole chunk.
 *
 * The tokens of a chunk are grouped by expert, so that each expert is fetched once and its weights
 * meet all its tokens together. Experts are taken from the pager in whatever order they become
 * ready; each one's output is kept, and every token sums its own in ascending order of expert, so
 * that the order of arrival cannot change a bit.
 */
#include "engine/compute/moe.h"
#include "kernels/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void moe_lay_out(struct forward *f, struct arena *a)
{
	const struct config *c = f->config;
	size_t chunk = f->chunk, experts = c->experts, all = chunk * c->experts_per_token;
	struct moe *m = arena_take(a, 1, sizeof *m), measured;
	f->moe = m;
	if (!m)
		m = &measured;
	*m = (struct moe){0};
	m->router_logits = arena_take(a, chunk * experts, sizeof *m->router_logits);
	m->scores = arena_take(a, chunk * experts, sizeof *m->scores);
	m->chosen = arena_take(a, all, sizeof *m->chosen);
	m->weight = arena_take(a, all, sizeof *m->weight);
	m->kept = arena_take(a, chunk, sizeof *m->kept);
	m->dropped = arena_take(a, experts, sizeof *m->dropped);
	m->group_start = arena_take(a, experts + 1, sizeof *m->group_start);
	m->fill = arena_take(a, experts, sizeof *m->fill);
	m->token = arena_take(a, all, sizeof *m->token);
	m->assignment = arena_take(a, all, sizeof *m->assignment);
	m->distinct = arena_take(a, experts, sizeof *m->distinct);
	m->credit = arena_take(a, experts, sizeof *m->credit);
	activation_take(a, &m->hidden, all, c->expert_size);
	m->up = arena_take(a, all * c->expert_size, sizeof *m->up);
	m->out = arena_take(a, all * c->hidden_size, sizeof *m->out);
	m->ready = arena_take(a, experts, sizeof *m->ready);
	m->foreseen.k = c->hidden_size;
	m->foreseen.f = arena_take(a, (size_t)PREDICT_MOST * c->hidden_size, sizeof(float));
	m->predicted = arena_take(a, experts, sizeof *m->predicted);
	m->named = arena_take(a, experts, sizeof *m->named);
}

/* ---- experts ---- */

/* The experts that are ready now. They run as two parallel loops, whatever their number: gate, up
 * and their product, and down. */
struct wave {
	const struct forward *f;
	uint32_t blocks; /* per expert: of TQ_GROUP rows of gate and up, or of down's rows */
};

static uint32_t blocks_of(uint32_t rows)
{
	return (rows + TQ_GROUP - 1) / TQ_GROUP;
}

static uint32_t expert_of(const struct moe *m, uint32_t ready)
{
	return m->distinct[m->ready[ready].index];
}

/* Blocks [begin, end) of one matrix of one expert, for all of its tokens. */
static void multiply_blocks(const struct forward *f, uint32_t ready, uint32_t part, uint32_t begin,
			    uint32_t end)
{
	const struct moe *m = f->moe;
	const struct shape *s = &f->plan->part[part];
	struct matrix w = {*s, (const uint8_t *)m->ready[ready].data + f->plan->slot_offset[part]};
	uint32_t e = expert_of(m, ready), first = m->group_start[e],
		 n = m->group_start[e + 1] - first;
	uint32_t row0 = begin * TQ_GROUP,
		 row1 = end * TQ_GROUP < s->rows ? end * TQ_GROUP : s->rows;
	float *const outputs[EXPERT_PARTS] = {m->hidden.f, m->up, m->out};
	bool down = part == EXPERT_PARTS - 1; /* its inputs are this expert's own rows */
	struct input x =
		down ? activation_input(&m->hidden, first) : activation_input(&f->normed, 0);
	const uint32_t *tokens = down ? NULL : m->token + first;
	float *y = outputs[part] + (size_t)first * s->rows;
	multiply_watched(f->kernels, y, s->rows, &w, row0, row1, &x, tokens, n);
}

/* silu(gate) · up of a block's rows, made ready for down: the block is one of its input's groups.
 */
static void activate_block(const struct forward *f, uint32_t ready, uint32_t block)
{
	const struct moe *m = f->moe;
	size_t width = m->hidden.k, groups = tq_groups(m->hidden.k),
	       begin = (size_t)block * TQ_GROUP;
	uint32_t n = width - begin < TQ_GROUP ? (uint32_t)(width - begin) : TQ_GROUP;
	uint32_t e = expert_of(m, ready);
	bool tq = format_is_tq(f->plan->part[EXPERT_PARTS - 1].format);
	for (size_t a = m->group_start[e]; a < m->group_start[e + 1]; a++) {
		float *gate = m->hidden.f + a * width + begin;
		size_t group = a * groups + block;
		f->kernels->silu_mul(gate, m->up + a * width + begin, n);
		if (tq)
			f->kernels->tq_prepare(m->hidden.q + group * TQ_GROUP,
					       m->hidden.scale + group, gate, n);
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
		multiply_blocks(v->f, r.ready, 0, r.begin, r.end);
		multiply_blocks(v->f, r.ready, 1, r.begin, r.end);
		for (uint32_t block = r.begin; block < r.end; block++)
			activate_block(v->f, r.ready, block);
	}
}

static void run_down(void *ctx, uint32_t begin, uint32_t end)
{
	const struct wave *v = ctx;
	while (begin < end) {
		struct run r = next_run(v, &begin, end);
		multiply_blocks(v->f, r.ready, EXPERT_PARTS - 1, r.begin, r.end);
	}
}

static void run_wave(const struct forward *f, uint32_t count)
{
	const struct config *c = f->config;
	const struct moe *m = f->moe;
	uint64_t tokens = 0; /* of an average expert */
	for (uint32_t i = 0; i < count; i++)
		tokens += m->group_start[expert_of(m, i) + 1] - m->group_start[expert_of(m, i)];
	uint64_t work = (uint64_t)TQ_GROUP * tokens / count;

	struct wave v = {f, blocks_of(c->expert_size)};
	uint32_t items = count * v.blocks;
	threads_run(f->threads, items, forward_grain(f, items, 2 * work * c->hidden_size),
		    run_gate_up, &v);
	v.blocks = blocks_of(c->hidden_size);
	items = count * v.blocks;
	threads_run(f->threads, items, forward_grain(f, items, work * c->expert_size), run_down,
		    &v);
}

/* Each token's experts, added up in ascending order whatever the order of arrival. */
static void sum_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct forward *f = ctx;
	const struct moe *m = f->moe;
	uint32_t width = f->config->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float *y = f->up + t * width;
		memset(y, 0, width * sizeof *y);
		const uint32_t *chosen = m->chosen + t * m->top_k;
		uint32_t next = 0; /* the least expert not yet added */
		for (uint32_t added = 0; added < m->kept[t]; added++) {
			uint32_t rank = UINT32_MAX;
			for (uint32_t r = 0; r < m->kept[t]; r++)
				if (chosen[r] >= next &&
				    (rank == UINT32_MAX || chosen[r] < chosen[rank]))
					rank = r;
			size_t a = m->assignment[t * m->top_k + rank];
			f->kernels->add_scaled(y, m->weight[t * m->top_k + rank],
					       m->out + a * width, width);
			next = chosen[rank] + 1;
		}
	}
}

static int run_experts(struct forward *f, uint32_t layer, uint32_t n, struct err *e)
{
	struct moe *m = f->moe;
	struct pager_batch batch;
	bool credited = f->kind == ROWS_PROMPT && n > 1;
	if (credited)
		route_credit(m, n);
	int got = pager_begin(&batch, f->experts, f->plan->routed_of[layer], m->distinct,
			      credited ? m->credit : NULL, m->distinct_count, f->token_count, e);
	if (got < 0)
		return got;
	batch.stop = f->stop;
	/* While this layer's reads are under way: */
	route_predict(f, layer, n);
	if (f->config->layer[layer].shared)
		shared_run(f, layer, n);
	while ((got = pager_next(&batch, m->ready, m->distinct_count, e)) > 0) {
		run_wave(f, (uint32_t)got);
		for (int i = 0; i < got; i++)
			pager_put(&batch, &m->ready[i]);
	}
	pager_end(&batch);
	return got;
}

int moe_run(struct forward *f, uint32_t layer, uint32_t n, uint32_t position, struct err *e)
{
	route(f, layer, n, position);
	activation_prepare(f, &f->normed, n, f->plan->part[0].format);
	int failed = run_experts(f, layer, n, e);
	if (failed)
		return failed;
	threads_run(f->threads, n, 1, sum_tokens, f);
	if (f->config->layer[layer].shared)
		shared_add(f, n);
	return 0;
}
