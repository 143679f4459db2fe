#include "engine/compute/forward.h"
#include "kernels/delta.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

/* ---- scratch ---- */

/* The arrays' places; their bytes in all. */
static size_t lay_out(struct scratch *s, const struct config *c, size_t rows, void *memory)
{
	struct arena a = {.memory = memory};
	*s = (struct scratch){.memory = memory};
	s->x = arena_take(&a, rows * c->hidden_size, sizeof *s->x);
	activation_take(&a, &s->normed, rows, c->hidden_size);
	attention_take(&s->attention, &a, c, rows);
	if (c->mixers[MIXER_DELTA_NET])
		delta_take(&s->delta, &a, c, rows);
	rotation_take(s->rotations, &a, c, rows);
	dense_take(&s->dense, &a, c, rows);
	uint32_t widest = c->hidden_size > s->dense.hidden.k ? c->hidden_size : s->dense.hidden.k;
	s->out = arena_take(&a, rows * widest, sizeof *s->out);
	s->logits = arena_take(&a, (size_t)ANSWER_ROWS * c->vocabulary, sizeof *s->logits);
	if (c->experts)
		moe_take(&s->moe, &a, c, rows);
	return a.used;
}

int forward_computes(const struct config *c, struct err *e)
{
	const struct delta_net *n = &c->delta_net;
	if (c->mixers[MIXER_DELTA_NET] && (n->key_dim > DELTA_KEY_DIM || n->width > CONV_WIDTH))
		return err_set(e, ENOTSUP,
			       "this %s model's delta nets have keys of %u and a convolution over "
			       "%u tokens; up to %d and %d are computed",
			       c->model_type, n->key_dim, n->width, DELTA_KEY_DIM, CONV_WIDTH);
	return 0;
}

int forward_init(struct forward *f, struct err *e)
{
	const struct config *c = f->env.config;
	size_t bytes = lay_out(&f->scratch, c, f->chunk, NULL);
	void *memory = aligned_alloc(ARENA_ALIGNMENT, bytes);
	if (!memory)
		return err_set(e, ENOMEM, "out of memory for %zu MB of activations", bytes >> 20);
	lay_out(&f->scratch, c, f->chunk, memory);
	rotation_begin(f->scratch.rotations, c);
	return 0;
}

void forward_free(struct forward *f)
{
	free(f->scratch.memory);
	f->scratch = (struct scratch){0};
}

uint64_t forward_bytes(const struct config *c, uint32_t chunk)
{
	struct scratch measured;
	return lay_out(&measured, c, chunk, NULL);
}

/* Has the pages taken from the system; what is in them stays. */
static void touch_scratch(const struct forward *f)
{
	enum { LEAST_PAGE = 4096 };
	volatile uint8_t *at = f->scratch.memory;
	size_t bytes = forward_bytes(f->env.config, f->chunk);
	for (size_t i = 0; i < bytes; i += LEAST_PAGE)
		at[i] = at[i];
}

int forward_resize(struct forward *f, uint32_t chunk, struct err *e)
{
	struct forward other = *f;
	other.chunk = chunk;
	int failed = forward_init(&other, e);
	if (failed)
		return failed;
	bool longer = chunk > f->chunk;
	forward_free(f);
	*f = other;
	if (longer)
		touch_scratch(f);
	else
		malloc_trim(0); /* or the smaller arrays would stay the process's */
	return 0;
}

/* ---- a step ---- */

struct step forward_step(struct forward *f, struct context *x, uint32_t n)
{
	struct scratch *s = &f->scratch;
	rotation_make(s->rotations, f->env.config, (uint32_t)x->tokens.count, n);
	return (struct step){
		.env = &f->env,
		.context = x,
		.n = n,
		.kind = f->kind,
		.losses = f->losses,
		.clock = f->token_count,
		.x = s->x,
		.normed = &s->normed,
		.out = s->out,
		.rotations = s->rotations,
	};
}

static void tap(const struct step *s, enum tap_point point, uint32_t layer, const float *rows)
{
	const struct environment *env = s->env;
	if (env->tap)
		env->tap(env->tap_ctx, point, layer, (uint32_t)s->context->tokens.count, s->n,
			 env->config->hidden_size, rows);
}

/* normed[0 … n-1] from the stream's tokens first … first + n - 1. */
struct normalisation {
	const struct step *step;
	const float *weight;
	uint32_t first;
};

static void normalise_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct normalisation *z = ctx;
	const struct environment *env = z->step->env;
	uint32_t width = env->config->hidden_size;
	for (size_t t = begin; t < end; t++)
		env->kernels->rmsnorm(z->step->normed->f + t * width,
				      z->step->x + (z->first + t) * width, z->weight, width,
				      env->config->rms_eps);
}

static void normalise(struct step *s, const float *weight, uint32_t first, uint32_t n)
{
	struct normalisation z = {s, weight, first};
	threads_run(s->env->threads, n, 8, normalise_tokens, &z);
	activation_changed(s->normed);
}

static void add_to_stream(struct step *s)
{
	const struct config *c = s->env->config;
	s->env->kernels->add_scaled(s->x, c->residual_multiplier, s->out,
				    (size_t)s->n * c->hidden_size);
}

/* ---- layers ---- */

static void run_attention(struct scratch *a, struct step *s, uint32_t layer)
{
	attention_run(&a->attention, s, layer);
}

static void run_delta_net(struct scratch *a, struct step *s, uint32_t layer)
{
	delta_run(&a->delta, s, layer);
}

static void (*const mixers[MIXERS])(struct scratch *, struct step *, uint32_t layer) = {
	[MIXER_ATTENTION] = run_attention,
	[MIXER_DELTA_NET] = run_delta_net,
};

int forward_layer(struct forward *f, struct step *s, uint32_t layer, struct err *e)
{
	const struct config *c = s->env->config;
	const struct layer_weights *l = &s->env->weights->layer[layer];
	normalise(s, weights_vector(l, TENSOR_MIXER_NORM), 0, s->n);
	mixers[c->layer[layer].mixer](&f->scratch, s, layer);
	add_to_stream(s);

	normalise(s, weights_vector(l, TENSOR_FEED_FORWARD_NORM), 0, s->n);
	int failed = 0;
	if (config_routed(c, layer))
		failed = moe_run(&f->scratch.moe, s, layer, e);
	else
		dense_run(&f->scratch.dense, s, layer);
	add_to_stream(s);
	return failed;
}

void forward_keys(struct forward *f, struct step *s, uint32_t layer)
{
	normalise(s, weights_vector(&s->env->weights->layer[layer], TENSOR_MIXER_NORM), 0, s->n);
	attention_keys(&f->scratch.attention, s, layer);
}

int forward_embed(struct step *s, const uint32_t *tokens, struct err *e)
{
	const struct config *c = s->env->config;
	for (uint32_t t = 0; t < s->n; t++) {
		float *row = s->x + (size_t)t * c->hidden_size;
		int failed = weights_embed(s->env->weights, tokens[t], row, e);
		if (failed)
			return failed;
		for (uint32_t i = 0; i < c->hidden_size && c->embedding_multiplier != 1; i++)
			row[i] *= c->embedding_multiplier;
	}
	return 0;
}

void forward_logits(struct forward *f, struct step *s, enum tensor_role norm, float *all)
{
	const struct layer_weights *once = &s->env->weights->once;
	uint32_t first = all ? 0 : s->n - 1;
	normalise(s, weights_vector(once, norm), first, s->n - first);
	float *logits = all ? all : f->scratch.logits, scaling = s->env->config->logits_scaling;
	struct product head = {logits, &once->m[TENSOR_HEAD]};
	product_run(s->env, &head, 1, s->normed, s->n - first);
	size_t count = (size_t)(s->n - first) * head.w->shape.rows;
	for (size_t i = 0; i < count && scaling != 1; i++)
		logits[i] /= scaling;
}

static int run_layers(struct forward *f, struct step *s, struct err *e)
{
	const struct environment *env = s->env;
	for (uint32_t layer = 0; layer < env->config->layers; layer++) {
		if (env->stop && atomic_load(env->stop))
			return err_set(e, ECANCELED, "stopped");
		int failed = forward_layer(f, s, layer, e);
		if (failed)
			return failed;
		tap(s, TAP_STATE, layer + 1, s->x);
	}
	return 0;
}

int forward_run(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n,
		bool want_logits, float *all_logits, struct err *e)
{
	uint32_t position = (uint32_t)x->tokens.count;
	int failed = context_reserve(x, position + n, e);
	if (failed)
		return failed;
	struct step s = forward_step(f, x, n);
	failed = forward_embed(&s, tokens, e);
	if (failed)
		return failed;
	s.clock = f->token_count += n;
	tap(&s, TAP_STATE, 0, s.x);
	x->recurrent.spoiled = true; /* until all layers have moved on */
	failed = run_layers(f, &s, e);
	f->experts_dropped += s.dropped;
	if (!failed && (want_logits || all_logits))
		forward_logits(f, &s, TENSOR_FINAL_NORM, all_logits);
	if (!failed && all_logits)
		tap(&s, TAP_NORMED, 0, s.normed->f);
	if (!failed)
		failed = token_list_append(&x->tokens, tokens, n, e);
	if (failed) {
		context_rollback(x, position);
	} else {
		x->recurrent.spoiled = false;
		x->recurrent.behind = n - delta_commits(&s);
	}
	return failed;
}
