/* Routed experts (Shazeer et al. 2017): router, top-k, and the chosen experts of a whole chunk.
 *
 * The tokens of a chunk are grouped by expert, so that each expert is fetched once and its weights
 * meet all its tokens together. Experts are taken from the pager in whatever order they become
 * ready; each one's output is kept, and every token sums its own in ascending order of expert, so
 * that the order of arrival cannot change a bit.
 */
#include "engine/forward.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "Assignment": one (token, chosen expert) pair. They are numbered in order of expert, then token.
 */
struct moe {
	uint32_t top_k;	      /* experts per token, of this step: the model's own or fewer */
	float *router_logits; /* [chunk][experts] */
	uint32_t *chosen;     /* [chunk][top_k], descending weight */
	float *weight;	      /* [chunk][top_k] */
	uint32_t *kept;	      /* [chunk], how many of these the token passes through: the first */
	bool *dropped;	      /* [experts], by this step */
	uint32_t *group_start; /* [experts + 1], assignments of expert e: start[e] … start[e + 1] */
	uint32_t *fill;	       /* [experts] */
	uint32_t *token;       /* [assignment] */
	uint32_t *assignment; /* [chunk][top_k], in the order of chosen */
	uint32_t *distinct;   /* [experts], the chunk's experts, ascending */
	uint32_t distinct_count;
	float *credit;		   /* [distinct_count], of uses in a prompt */
	struct activation hidden;  /* [assignment][expert size]: silu(gate) · up */
	float *up;		   /* [assignment][expert size] */
	float *out;		   /* [assignment][hidden] */
	struct pager_ready *ready; /* [experts] */

	struct activation foreseen; /* [PREDICT_MOST][hidden]: input of the next layer's router */
	uint32_t *predicted;	    /* [experts] */
	bool *named;		    /* [experts] */
};

/* From so many tokens on, a chunk will want nearly all experts of a layer, whatever its router
 * says.
 */
enum { PREDICT_MOST = 64 };

/* Allocates one array; a size that does not fit is out of memory too. */
static bool allocate(void *place, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 63)
		return false;
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memcpy(place, &memory, sizeof memory);
	return memory;
}

int moe_init(struct forward *f, struct err *e)
{
	const struct config *c = f->config;
	struct moe *m = calloc(1, sizeof *m);
	size_t chunk = f->chunk, top_k = c->experts_per_token, all = chunk * top_k;
	size_t groups = tq_groups(c->expert_size);
	f->moe = m;
	if (m && allocate(&m->router_logits, chunk * c->experts, sizeof(float)) &&
	    allocate(&m->chosen, all, sizeof(uint32_t)) &&
	    allocate(&m->weight, all, sizeof(float)) &&
	    allocate(&m->kept, chunk, sizeof(uint32_t)) &&
	    allocate(&m->dropped, c->experts, sizeof(bool)) &&
	    allocate(&m->group_start, c->experts + 1u, sizeof(uint32_t)) &&
	    allocate(&m->fill, c->experts, sizeof(uint32_t)) &&
	    allocate(&m->token, all, sizeof(uint32_t)) &&
	    allocate(&m->assignment, all, sizeof(uint32_t)) &&
	    allocate(&m->distinct, c->experts, sizeof(uint32_t)) &&
	    allocate(&m->credit, c->experts, sizeof(float)) &&
	    allocate(&m->hidden.f, all * c->expert_size, sizeof(float)) &&
	    allocate(&m->hidden.q, all * groups * TQ_GROUP, sizeof(int8_t)) &&
	    allocate(&m->hidden.scale, all * groups, sizeof(float)) &&
	    allocate(&m->up, all * c->expert_size, sizeof(float)) &&
	    allocate(&m->out, all * c->hidden_size, sizeof(float)) &&
	    allocate(&m->ready, c->experts, sizeof *m->ready) &&
	    allocate(&m->foreseen.f, (size_t)PREDICT_MOST * c->hidden_size, sizeof(float)) &&
	    allocate(&m->predicted, c->experts, sizeof(uint32_t)) &&
	    allocate(&m->named, c->experts, sizeof(bool))) {
		m->hidden.k = c->expert_size;
		m->foreseen.k = c->hidden_size;
		return 0;
	}
	return err_set(e, ENOMEM, "out of memory for the experts' activations of %zu tokens",
		       chunk);
}

void moe_free(struct moe *m)
{
	if (!m)
		return;
	free(m->router_logits);
	free(m->chosen);
	free(m->weight);
	free(m->kept);
	free(m->dropped);
	free(m->group_start);
	free(m->fill);
	free(m->token);
	free(m->assignment);
	free(m->distinct);
	free(m->credit);
	free(m->hidden.f);
	free(m->hidden.q);
	free(m->hidden.scale);
	free(m->up);
	free(m->out);
	free(m->ready);
	free(m->foreseen.f);
	free(m->predicted);
	free(m->named);
	free(m);
}

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

/* Turns one token's logits into its experts and their weights. Softmax runs in place. */
static void route_token(const struct forward *f, float *logits, uint32_t *chosen, float *weight)
{
	const struct config *c = f->config;
	uint32_t top_k = f->moe->top_k;
	choose(logits, c->experts, chosen, top_k);
	if (c->architecture->router_order == SOFTMAX_THEN_TOP_K)
		f->kernels->softmax(logits, c->experts);
	for (uint32_t r = 0; r < top_k; r++)
		weight[r] = logits[chosen[r]];
	if (c->architecture->router_order == TOP_K_THEN_SOFTMAX)
		f->kernels->softmax(weight, top_k);
	if (!c->normalise_top_k)
		return;
	float sum = 0;
	for (uint32_t r = 0; r < top_k; r++)
		sum += weight[r];
	for (uint32_t r = 0; r < top_k; r++)
		weight[r] /= sum;
}

static void route_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct forward *f = ctx;
	struct moe *m = f->moe;
	for (size_t t = begin; t < end; t++) {
		route_token(f, m->router_logits + t * f->config->experts, m->chosen + t * m->top_k,
			    m->weight + t * m->top_k);
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

static void route(struct forward *f, uint32_t layer, uint32_t n, uint32_t position)
{
	struct moe *m = f->moe;
	uint32_t own = f->config->experts_per_token, fewer = f->losses.experts_per_token;
	m->top_k = fewer && fewer < own ? fewer : own;
	struct product router = {m->router_logits, &f->weights->layer[layer].m[TENSOR_ROUTER]};
	forward_multiply(f, &router, 1, &f->normed, n);
	tap_routing(f, layer, position, n, TAP_ROUTER_LOGITS);
	threads_run(f->threads, n, 16, route_tokens, f);
	tap_routing(f, layer, position, n, TAP_ROUTER_WEIGHTS);
	if (f->losses.drop_missing > 0)
		drop_missing(f, f->plan->routed_of[layer], n);
	group_by_expert(m, f->config->experts, n);
}

/* ---- for the pager ---- */

/* What the uses of a chunk of n tokens count: a prompt must not outvote the answer, and its last
 * tokens are most like what comes. (0.1 and a half-life of 16 tokens: cache/README.md.) */
static void credit_uses(struct moe *m, uint32_t n)
{
	for (uint32_t d = 0; d < m->distinct_count; d++) {
		uint32_t e = m->distinct[d];
		m->credit[d] = 0;
		for (uint32_t a = m->group_start[e]; a < m->group_start[e + 1]; a++)
			m->credit[d] += 0.1F * exp2f((float)(m->token[a] + 1) / 16 - (float)n / 16);
	}
}

/* The next layer's router on this layer's input: the stream changes little from layer to layer, so
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
	forward_multiply(f, &router, 1, &m->foreseen, n);
	memset(m->named, 0, c->experts * sizeof *m->named);
	for (size_t t = 0; t < n; t++) {
		choose(m->router_logits + t * c->experts, c->experts, m->predicted, m->top_k);
		for (uint32_t r = 0; r < m->top_k; r++)
			m->named[m->predicted[r]] = true;
	}
}

static void predict_next(struct forward *f, uint32_t layer, uint32_t n)
{
	struct moe *m = f->moe;
	const struct config *c = f->config;
	uint32_t next = layer + 1, count = 0;
	if (next >= c->layers || !config_routed(c, next) || !pager_predicts(f->experts))
		return;
	if (n <= PREDICT_MOST)
		foresee(f, next, n);
	for (uint32_t e = 0; e < c->experts; e++)
		if (n > PREDICT_MOST || m->named[e])
			m->predicted[count++] = e;
	pager_predict(f->experts, f->plan->routed_of[next], m->predicted, count);
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

/* TQ_GROUP rows of one matrix of one expert, for all of its tokens. */
static void multiply_block(const struct forward *f, uint32_t ready, uint32_t part, uint32_t block)
{
	const struct moe *m = f->moe;
	const struct shape *s = &f->plan->part[part];
	struct matrix w = {*s, (const uint8_t *)m->ready[ready].data + f->plan->slot_offset[part]};
	uint32_t e = expert_of(m, ready), first = m->group_start[e],
		 n = m->group_start[e + 1] - first;
	uint32_t row0 = block * TQ_GROUP,
		 row1 = row0 + TQ_GROUP < s->rows ? row0 + TQ_GROUP : s->rows;
	float *const outputs[EXPERT_PARTS] = {m->hidden.f, m->up, m->out};
	bool down = part == EXPERT_PARTS - 1; /* its inputs are this expert's own rows */
	struct input x =
		down ? activation_input(&m->hidden, first) : activation_input(&f->normed, 0);
	f->kernels->multiply[s->format](outputs[part] + (size_t)first * s->rows, s->rows, &w, row0,
					row1, &x, down ? NULL : m->token + first, n);
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

static void run_gate_up(void *ctx, uint32_t begin, uint32_t end)
{
	const struct wave *v = ctx;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t ready = i / v->blocks, block = i % v->blocks;
		multiply_block(v->f, ready, 0, block);
		multiply_block(v->f, ready, 1, block);
		activate_block(v->f, ready, block);
	}
}

static void run_down(void *ctx, uint32_t begin, uint32_t end)
{
	const struct wave *v = ctx;
	for (uint32_t i = begin; i < end; i++)
		multiply_block(v->f, i / v->blocks, EXPERT_PARTS - 1, i % v->blocks);
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
	if (n > 1)
		credit_uses(m, n);
	int got = pager_begin(&batch, f->experts, f->plan->routed_of[layer], m->distinct,
			      n > 1 ? m->credit : NULL, m->distinct_count, f->token_count, e);
	if (got < 0)
		return got;
	predict_next(f, layer, n); /* while this layer's reads are under way */
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
	return 0;
}
