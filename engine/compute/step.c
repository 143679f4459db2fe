#include "engine/compute/step.h"

void step_tap(const struct step *s, enum tap_point point, uint32_t layer, uint32_t width,
	      const float *rows)
{
	const struct environment *env = s->env;
	for (uint32_t i = 0; i < s->span_count && env->tap; i++) {
		const struct span *p = &s->spans[i];
		env->tap(env->tap_ctx, point, layer, p->position, p->n, width,
			 rows + (size_t)p->first * width);
	}
}

struct normalisation {
	const struct environment *env;
	float *to;
	const float *from;
	const uint32_t *rows;
	const float *weight;
};

static void normalise_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct normalisation *z = ctx;
	const struct config *c = z->env->config;
	size_t width = c->hidden_size;
	for (size_t t = begin; t < end; t++)
		z->env->kernels->rmsnorm(z->to + t * width,
					 z->from + (z->rows ? z->rows[t] : t) * width, z->weight,
					 c->hidden_size, c->rms_eps);
}

void step_norm(const struct step *s, float *to, const float *from, const uint32_t *rows,
	       const float *weight, uint32_t n)
{
	threads_run(s->env->threads, n, 8, normalise_rows,
		    &(struct normalisation){s->env, to, from, rows, weight});
}
