/* Inputs of matrix products: the forms that formats of weights multiply with, made from floats.
 * See product.h. */
#include "engine/cpu/product.h"
#include "kernels/block.h"
#include "kernels/watch.h"

/* Rounded up; but formats that multiply blocks have whole blocks only. */
static size_t activation_blocks(uint32_t k)
{
	return ((size_t)k + BLOCK - 1) / BLOCK;
}

void activation_take(struct arena *a, struct activation *v, size_t tokens, uint32_t k)
{
	*v = (struct activation){.k = k};
	v->f = arena_take(a, tokens * k, sizeof *v->f);
	v->q = arena_take(a, tokens * tq_groups(k) * TQ_GROUP, sizeof *v->q);
	v->scale = arena_take(a, tokens * tq_groups(k), sizeof *v->scale);
	v->block.q = arena_take(a, tokens * activation_blocks(k) * BLOCK, sizeof *v->block.q);
	v->block.scale = arena_take(a, tokens * activation_blocks(k), sizeof *v->block.scale);
	v->block.sum = arena_take(a, tokens * activation_blocks(k) * HALVES, sizeof *v->block.sum);
}

void activation_changed(struct activation *a)
{
	a->forms = 0;
}

void activation_prepare_part(const struct environment *env, const struct activation *a,
			     size_t token, uint32_t begin, uint32_t count, enum format format)
{
	const float *f = a->f + token * a->k + begin;
	size_t group = token * tq_groups(a->k) + begin / TQ_GROUP,
	       block = token * activation_blocks(a->k) + begin / BLOCK;
	switch (format_input(format)) {
	case INPUT_TQ:
		watch_tq_prepare(env->kernels, a->q + group * TQ_GROUP, a->scale + group, f, count);
		break;
	case INPUT_BLOCKS:
		env->kernels->block_prepare(a->block.q + block * BLOCK, a->block.scale + block,
					    a->block.sum + block * HALVES, f, count);
		break;
	default:
		break;
	}
}

struct activation_task {
	const struct environment *env;
	const struct activation *a;
	enum format format;
};

static void activation_prepare_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct activation_task *p = ctx;
	for (size_t t = begin; t < end; t++)
		activation_prepare_part(p->env, p->a, t, 0, p->a->k, p->format);
}

void activation_prepare(const struct environment *env, struct activation *a, uint32_t n,
			enum format format)
{
	uint32_t form = 1U << format_input(format);
	if (form == 1U << INPUT_FLOATS || a->forms & form)
		return;
	threads_run(env->threads, n, 1, activation_prepare_tokens,
		    &(struct activation_task){env, a, format});
	a->forms |= form;
}

struct input activation_input(const struct activation *a, uint32_t first)
{
	size_t group = first * tq_groups(a->k), block = first * activation_blocks(a->k);
	return (struct input){
		.k = a->k,
		.f = a->f + (size_t)first * a->k,
		.q = a->q + group * TQ_GROUP,
		.scale = a->scale + group,
		.block = {a->block.q + block * BLOCK, a->block.scale + block,
			  a->block.sum + block * HALVES},
	};
}

/* ---- norms ---- */

struct activation_norm_task {
	const struct environment *env;
	float *to;
	const float *from;
	const uint32_t *rows;
	const float *weight;
};

static void activation_norm_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct activation_norm_task *z = ctx;
	const struct config *c = z->env->config;
	size_t width = c->hidden_size;
	for (size_t t = begin; t < end; t++)
		z->env->kernels->rmsnorm(z->to + t * width,
					 z->from + (z->rows ? z->rows[t] : t) * width, z->weight,
					 c->hidden_size, c->rms_eps);
}

void activation_norm(const struct step *s, float *to, const float *from, const uint32_t *rows,
		     const float *weight, uint32_t n)
{
	threads_run(s->env->threads, n, 8, activation_norm_rows,
		    &(struct activation_norm_task){s->env, to, from, rows, weight});
}
