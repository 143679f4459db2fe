/* The shared expert of a layer with routed ones: a feed-forward that every token passes through,
 * in some families weighed by the sigmoid of one more product. It needs nothing that has to be
 * read, so it is computed while routed experts are on their way, and added when they have been
 * summed. */
#include "engine/compute/forward.h"

void shared_lay_out(struct forward *f, struct arena *a)
{
	const struct config *c = f->config;
	size_t n = f->chunk, size = c->shared_size;
	activation_take(a, &f->shared.hidden, n, c->shared_size);
	f->shared.up = arena_take(a, n * size, sizeof *f->shared.up);
	f->shared.out = arena_take(a, n * c->hidden_size, sizeof *f->shared.out);
	f->shared.scale = arena_take(a, n, sizeof *f->shared.scale);
}

void shared_run(struct forward *f, uint32_t layer, uint32_t n)
{
	const struct layer_weights *l = &f->weights->layer[layer];
	struct shared *s = &f->shared;
	const struct product in[] = {{s->hidden.f, &l->m[TENSOR_SHARED_GATE]},
				     {s->up, &l->m[TENSOR_SHARED_UP]},
				     {s->scale, &l->m[TENSOR_SHARED_SCALE]}};
	forward_multiply(f, in, f->config->shared_gate ? 3 : 2, &f->normed, n);
	f->kernels->silu_mul(s->hidden.f, s->up, (size_t)n * s->hidden.k);
	activation_changed(&s->hidden);
	forward_multiply(f, &(struct product){s->out, &l->m[TENSOR_SHARED_DOWN]}, 1, &s->hidden, n);
}

static void add_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct forward *f = ctx;
	size_t width = f->config->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float weight = 1;
		if (f->config->shared_gate)
			f->kernels->sigmoid_mul(&weight, f->shared.scale + t, 1);
		f->kernels->add_scaled(f->up + t * width, weight, f->shared.out + t * width, width);
	}
}

void shared_add(struct forward *f, uint32_t n)
{
	threads_run(f->threads, n, 8, add_tokens, f);
}
