/* Products of a model's own matrices with weights, inputs and outputs in the cache: what a step
 * would take if memory had no limit. Of each kind of matrix the first rows are multiplied again
 * and again, by each thread, and the time is scaled to all rows. Attention, norms and the router's
 * choice are not counted. */
#include "tests/bench/run_answers.h"

#include "kernels/block.h"
#include "tests/bench/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CACHED_BYTES = 256 << 10 }; /* of weights: a quarter of a second-level cache */

/* ---- which matrices ---- */

static bool cached_alike(const struct shape *a, const struct shape *b)
{
	return a->format == b->format && a->norms == b->norms && a->cols == b->cols;
}

/* The kind of this matrix, a new one if there is none; NULL: there are too many. */
static struct cached_kind *cached_kind_of(struct cached *c, const struct matrix *w)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (cached_alike(&c->kind[i].w.shape, &w->shape))
			return &c->kind[i];
	if (c->count == CACHED_KINDS)
		return NULL;
	struct cached_kind *kind = &c->kind[c->count++];
	uint64_t row = format_arranged_bytes(&w->shape) / w->shape.rows + 1,
		 most = CACHED_BYTES / row / TILE_ROWS * TILE_ROWS;
	*kind = (struct cached_kind){.w = *w};
	if (most < TILE_ROWS)
		most = TILE_ROWS;
	if (w->shape.rows > most && !format_is_float(w->shape.format))
		kind->w.shape.rows = (uint32_t)most;
	c->widest = w->shape.cols > c->widest ? w->shape.cols : c->widest;
	return kind;
}

static bool cached_is_product(uint32_t role, const struct matrix *w)
{
	return w->data && w->shape.rows > 1 && role != TENSOR_EXPERT_GATE_BIAS &&
	       role != TENSOR_EXPERT_UP_BIAS && role != TENSOR_EXPERT_DOWN_BIAS &&
	       role != TENSOR_DELTA_CONV;
}

static void cached_add_dense(struct cached *c, const struct layer_weights *l)
{
	for (uint32_t role = 0; role < TENSOR_ROLES; role++) {
		struct cached_kind *kind = cached_is_product(role, &l->m[role])
						   ? cached_kind_of(c, &l->m[role])
						   : NULL;
		if (kind)
			kind->dense_rows += l->m[role].shape.rows;
	}
}

/* One expert, held until cached_close, stands for all of them; layers whose formats differ count as
 * if they had the first one's. */
static int cached_add_experts(struct cached *c, const struct run *r, struct err *e)
{
	const struct plan *p = r->view.plan;
	static const uint32_t first; /* lives as long as the batch */
	if (!run_routed_layers(&r->view))
		return 0;
	int got = pager_begin(&c->batch, r->view.experts, 0, &first, NULL, 1, 0, e);
	if (got >= 0)
		got = pager_next(&c->batch, &c->expert, 1, e);
	if (got < 1)
		return got < 0 ? got : err_set(e, EIO, "cannot read an expert");
	const uint8_t *slot = c->expert.data;
	for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++) {
		const struct matrix w = {p->record[0].computed[part],
					 slot + p->record[0].slot_offset[part]};
		struct cached_kind *kind = cached_kind_of(c, &w);
		if (kind)
			kind->expert_rows += w.shape.rows;
	}
	return 0;
}

/* ---- inputs ---- */

static void *cached_array(size_t count, size_t size)
{
	return aligned_alloc(64, (count * size + 63) / 64 * 64);
}

static int cached_make_inputs(struct cached *c, uint32_t rows, struct err *e)
{
	size_t k = (c->widest + TQ_GROUP - 1) / TQ_GROUP * TQ_GROUP, all = ANSWERS_MOST * k;
	c->f = cached_array(all, sizeof *c->f);
	c->q = cached_array(all, sizeof *c->q);
	c->scale = cached_array(all / TQ_GROUP, sizeof *c->scale);
	c->block_q = cached_array(all, sizeof *c->block_q);
	c->block_scale = cached_array(all / BLOCK, sizeof *c->block_scale);
	c->block_sum = cached_array(all / HALF_BLOCK, sizeof *c->block_sum);
	c->y = cached_array((size_t)c->threads * ANSWERS_MOST * rows, sizeof *c->y);
	if (!c->f || !c->q || !c->scale || !c->block_q || !c->block_scale || !c->block_sum || !c->y)
		return err_set(e, ENOMEM, "out of memory for %d tokens", ANSWERS_MOST);
	fill_floats(c->f, all * sizeof *c->f, FORMAT_F32);
	for (size_t t = 0; t < ANSWERS_MOST; t++) {
		c->kernels->tq_prepare(c->q + t * k, c->scale + t * k / TQ_GROUP, c->f + t * k,
				       (uint32_t)k);
		c->kernels->block_prepare(c->block_q + t * k, c->block_scale + t * k / BLOCK,
					  c->block_sum + t * k / HALF_BLOCK, c->f + t * k,
					  (uint32_t)k);
	}
	return 0;
}

int cached_open(struct cached *c, const struct run *r, struct err *e)
{
	uint32_t rows = 0;
	*c = (struct cached){.kernels = r->view.kernels, .threads = (uint32_t)r->effort.threads};
	cached_add_dense(c, &r->view.weights->once);
	for (uint32_t layer = 0; layer < r->view.config->layers; layer++)
		cached_add_dense(c, &r->view.weights->layer[layer]);
	int failed = cached_add_experts(c, r, e);
	for (uint32_t i = 0; i < c->count; i++)
		rows = c->kind[i].w.shape.rows > rows ? c->kind[i].w.shape.rows : rows;
	return failed ? failed : cached_make_inputs(c, rows, e);
}

void cached_close(struct cached *c)
{
	if (c->expert.data) {
		pager_put(&c->batch, &c->expert);
		pager_end(&c->batch);
	}
	free(c->f);
	free(c->q);
	free(c->scale);
	free(c->block_q);
	free(c->block_scale);
	free(c->block_sum);
	free(c->y);
	*c = (struct cached){0};
}

/* ---- measuring ---- */

void cached_forget(struct cached *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		memset(c->kind[i].rows_per_second, 0, sizeof c->kind[i].rows_per_second);
}

struct cached_task {
	const struct cached *cached;
	const struct cached_kind *kind;
	uint32_t tokens;
};

static double cached_multiply(void *ctx, uint32_t thread)
{
	const struct cached_task *t = ctx;
	const struct cached *c = t->cached;
	const struct matrix *w = &t->kind->w;
	const struct input x = {
		w->shape.cols, c->f, c->q, c->scale, {c->block_q, c->block_scale, c->block_sum}};
	uint32_t rows = w->shape.rows;
	float *y = c->y + (size_t)thread * ANSWERS_MOST * rows;
	c->kernels->multiply[w->shape.format](y, rows, w, 0, rows, &x, NULL, t->tokens);
	return rows;
}

/* Rows per second of this kind by `tokens`. */
static int cached_rate(const struct cached *c, struct cached_kind *kind, uint32_t tokens,
		       double seconds, double *rate, struct err *e)
{
	struct cached_task t = {c, kind, tokens};
	double *known = &kind->rows_per_second[tokens];
	int failed = *known > 0 ? 0 : crew_rate(known, c->threads, seconds, cached_multiply, &t, e);
	*rate = *known;
	return failed;
}

int cached_seconds(struct cached *c, uint32_t tokens, const double experts[ANSWERS_MOST + 1],
		   double seconds, double *out, struct err *e)
{
	*out = 0;
	for (struct cached_kind *kind = c->kind; kind < c->kind + c->count; kind++)
		for (uint32_t n = 1; n <= tokens; n++) {
			double rows = kind->expert_rows * experts[n], rate;
			rows += n == tokens ? kind->dense_rows : 0;
			if (rows <= 0)
				continue;
			int failed = cached_rate(c, kind, n, seconds, &rate, e);
			if (failed)
				return failed;
			*out += rows / rate;
		}
	return 0;
}
