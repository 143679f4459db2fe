#include "engine/compute/moe.h"
#include "kernels/delta.h"
#include "kernels/watch.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- scratch ---- */

void activation_take(struct arena *a, struct activation *v, size_t tokens, uint32_t k)
{
	v->k = k;
	v->f = arena_take(a, tokens * k, sizeof *v->f);
	v->q = arena_take(a, tokens * tq_groups(k) * TQ_GROUP, sizeof *v->q);
	v->scale = arena_take(a, tokens * tq_groups(k), sizeof *v->scale);
}

/* Of the dense feed-forward; 0 if no layer has one. */
static uint32_t dense_width(const struct config *c)
{
	for (uint32_t layer = 0; layer < c->layers; layer++)
		if (!config_routed(c, layer))
			return c->intermediate_size;
	return 0;
}

static size_t lay_out(struct forward *f, void *memory)
{
	const struct config *c = f->config;
	struct arena a = {.memory = memory};
	size_t n = f->chunk, kv = (size_t)c->kv_heads * c->head_dim;
	uint32_t attended = c->heads * c->head_dim, dense = dense_width(c);
	f->x = arena_take(&a, n * c->hidden_size, sizeof *f->x);
	activation_take(&a, &f->normed, n, c->hidden_size);
	f->projected_q = f->q = arena_take(&a, n * attended, sizeof *f->q);
	f->query_gate = NULL;
	if (c->query_gate) {
		f->projected_q = arena_take(&a, 2 * n * attended, sizeof *f->projected_q);
		f->query_gate = arena_take(&a, n * attended, sizeof *f->query_gate);
	}
	f->k = arena_take(&a, n * kv, sizeof *f->k);
	f->v = arena_take(&a, n * kv, sizeof *f->v);
	activation_take(&a, &f->attended, n, attended);
	if (c->mixers[MIXER_DELTA_NET])
		delta_lay_out(f, &a);
	f->rope_cos = arena_take(&a, n * c->rotary_dim / 2, sizeof *f->rope_cos);
	f->rope_sin = arena_take(&a, n * c->rotary_dim / 2, sizeof *f->rope_sin);
	f->rope_frequency = arena_take(&a, c->rotary_dim / 2, sizeof *f->rope_frequency);
	f->up = arena_take(&a, n * (c->hidden_size > dense ? c->hidden_size : dense),
			   sizeof *f->up);
	activation_take(&a, &f->hidden, n, dense);
	f->logits = arena_take(&a, (size_t)ANSWER_ROWS * c->vocabulary, sizeof *f->logits);
	if (c->experts)
		moe_lay_out(f, &a);
	if (c->shared_size)
		shared_lay_out(f, &a);
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
	const struct config *c = f->config;
	size_t bytes = lay_out(f, NULL);
	f->memory = aligned_alloc(ARENA_ALIGNMENT, bytes);
	if (!f->memory)
		return err_set(e, ENOMEM, "out of memory for %zu MB of activations", bytes >> 20);
	lay_out(f, f->memory);
	for (uint32_t i = 0; i < c->rotary_dim / 2; i++)
		f->rope_frequency[i] = pow(c->rope_theta, -2.0 * i / c->rotary_dim);
	return 0;
}

void forward_free(struct forward *f)
{
	free(f->memory);
	f->memory = NULL;
	f->moe = NULL;
}

uint64_t forward_bytes(const struct config *c, uint32_t chunk)
{
	struct forward f = {.config = c, .chunk = chunk};
	return lay_out(&f, NULL);
}

/* Has the pages taken from the system; what is in them stays. */
static void touch_scratch(const struct forward *f)
{
	enum { LEAST_PAGE = 4096 };
	volatile uint8_t *at = f->memory;
	for (size_t i = 0, bytes = forward_bytes(f->config, f->chunk); i < bytes; i += LEAST_PAGE)
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

/* ---- matrix products ---- */

struct prepare {
	const struct forward *f;
	struct activation *a;
};

static void prepare_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct prepare *p = ctx;
	struct activation *a = p->a;
	size_t groups = tq_groups(a->k);
	for (size_t t = begin; t < end; t++)
		p->f->kernels->tq_prepare(a->q + t * groups * TQ_GROUP, a->scale + t * groups,
					  a->f + t * a->k, a->k);
}

void activation_prepare(const struct forward *f, struct activation *a, uint32_t n,
			enum format format)
{
	if (!format_is_tq(format) || a->in_8_bits)
		return;
	threads_run(f->threads, n, 1, prepare_tokens, &(struct prepare){f, a});
	a->in_8_bits = true;
}

struct input activation_input(const struct activation *a, uint32_t first)
{
	size_t groups = tq_groups(a->k);
	return (struct input){
		.k = a->k,
		.f = a->f + (size_t)first * a->k,
		.q = a->q + first * groups * TQ_GROUP,
		.scale = a->scale + first * groups,
	};
}

/* Products of one input with several matrices, as one parallel loop over the tiles of them all. */
struct products {
	const struct kernels *kernels;
	const struct product *product;
	struct input x;
	uint32_t n;
};

static uint32_t tiles_of(const struct matrix *w)
{
	return (w->shape.rows + TILE_ROWS - 1) / TILE_ROWS;
}

static void multiply_tiles(void *ctx, uint32_t begin, uint32_t end)
{
	const struct products *all = ctx;
	const struct product *p = all->product;
	for (; begin < end; p++) {
		uint32_t tiles = tiles_of(p->w), rows = p->w->shape.rows;
		if (begin < tiles) {
			uint32_t last = end < tiles ? end : tiles;
			uint32_t row1 = last * TILE_ROWS < rows ? last * TILE_ROWS : rows;
			multiply_watched(all->kernels, p->y, rows, p->w, begin * TILE_ROWS, row1,
					 &all->x, NULL, all->n);
			begin = last;
		}
		begin -= tiles;
		end -= tiles;
	}
}

void forward_multiply(const struct forward *f, const struct product *products, uint32_t count,
		      struct activation *a, uint32_t n)
{
	uint32_t tiles = 0;
	for (uint32_t i = 0; i < count; i++) {
		tiles += tiles_of(products[i].w);
		activation_prepare(f, a, n, products[i].w->shape.format);
	}
	struct products all = {f->kernels, products, activation_input(a, 0), n};
	uint64_t work = (uint64_t)TILE_ROWS * a->k * n;
	threads_run(f->threads, tiles, forward_grain(f, tiles, work), multiply_tiles, &all);
}

uint32_t forward_grain(const struct forward *f, uint32_t items, uint64_t work)
{
	/* Some 3 µs: an idle thread that is awake needs about one to take a piece. */
	enum { LEAST_WORK = 1 << 17 };
	uint64_t shared = items / (8 * threads_count(f->threads)) + 1,
		 least = LEAST_WORK / (work + 1) + 1;
	uint64_t grain = shared > least ? shared : least;
	return grain < items ? (uint32_t)grain : items;
}

void forward_add_bias(const struct forward *f, float *y, const float *bias, uint32_t n,
		      uint32_t width)
{
	for (uint32_t t = 0; bias && t < n; t++)
		f->kernels->add(y + (size_t)t * width, bias, width);
}

/* ---- the residual stream ---- */

static void tap(const struct forward *f, enum tap_point point, uint32_t layer,
		const struct context *x, uint32_t n, const float *rows)
{
	if (f->tap)
		f->tap(f->tap_ctx, point, layer, (uint32_t)x->tokens.count, n,
		       f->config->hidden_size, rows);
}

/* normed[0 … n-1] from the stream's tokens first … first + n - 1. */
struct normalisation {
	struct forward *f;
	const float *weight;
	uint32_t first;
};

static void normalise_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct normalisation *z = ctx;
	const struct forward *f = z->f;
	uint32_t width = f->config->hidden_size;
	for (size_t t = begin; t < end; t++)
		f->kernels->rmsnorm(f->normed.f + t * width, f->x + (z->first + t) * width,
				    z->weight, width, f->config->rms_eps);
}

static void normalise(struct forward *f, const float *weight, uint32_t first, uint32_t n)
{
	struct normalisation z = {f, weight, first};
	threads_run(f->threads, n, 8, normalise_tokens, &z);
	activation_changed(&f->normed);
}

static void add_to_stream(struct forward *f, uint32_t n)
{
	f->kernels->add_scaled(f->x, f->config->residual_multiplier, f->up,
			       (size_t)n * f->config->hidden_size);
}

static void dense_feed_forward(struct forward *f, const struct layer_weights *l, uint32_t n)
{
	const struct product gate_up[] = {{f->hidden.f, &l->m[TENSOR_GATE]},
					  {f->up, &l->m[TENSOR_UP]}};
	forward_multiply(f, gate_up, 2, &f->normed, n);
	f->kernels->silu_mul(f->hidden.f, f->up, (size_t)n * f->config->intermediate_size);
	activation_changed(&f->hidden);
	forward_multiply(f, &(struct product){f->up, &l->m[TENSOR_DOWN]}, 1, &f->hidden, n);
}

static void (*const mixers[MIXERS])(struct forward *, struct context *, uint32_t, uint32_t) = {
	[MIXER_ATTENTION] = attention_run,
	[MIXER_DELTA_NET] = delta_run,
};

int forward_layer(struct forward *f, struct context *x, uint32_t layer, uint32_t n, struct err *e)
{
	const struct layer_weights *l = &f->weights->layer[layer];
	normalise(f, weights_vector(l, TENSOR_MIXER_NORM), 0, n);
	mixers[f->config->layer[layer].mixer](f, x, layer, n);
	add_to_stream(f, n);

	normalise(f, weights_vector(l, TENSOR_FEED_FORWARD_NORM), 0, n);
	int failed = 0;
	if (config_routed(f->config, layer))
		failed = moe_run(f, layer, n, (uint32_t)x->tokens.count, e);
	else
		dense_feed_forward(f, l, n);
	add_to_stream(f, n);
	return failed;
}

void forward_keys(struct forward *f, struct context *x, uint32_t layer, uint32_t n)
{
	normalise(f, weights_vector(&f->weights->layer[layer], TENSOR_MIXER_NORM), 0, n);
	attention_keys(f, x, layer, n);
}

int forward_embed(struct forward *f, const uint32_t *tokens, uint32_t n, struct err *e)
{
	const struct config *c = f->config;
	for (uint32_t t = 0; t < n; t++) {
		float *row = f->x + (size_t)t * c->hidden_size;
		int failed = weights_embed(f->weights, tokens[t], row, e);
		if (failed)
			return failed;
		for (uint32_t i = 0; i < c->hidden_size && c->embedding_multiplier != 1; i++)
			row[i] *= c->embedding_multiplier;
	}
	return 0;
}

/* Angles in double: at position 30,000 a float angle would be off by 1e-3. */
void forward_angles(struct forward *f, uint32_t position, uint32_t n)
{
	uint32_t half = f->config->rotary_dim / 2;
	for (uint32_t t = 0; t < n; t++)
		for (uint32_t i = 0; i < half; i++) {
			double angle = (double)(position + t) * f->rope_frequency[i];
			f->rope_cos[(size_t)t * half + i] = (float)cos(angle);
			f->rope_sin[(size_t)t * half + i] = (float)sin(angle);
		}
}

void forward_logits(struct forward *f, enum tensor_role norm, uint32_t n, float *all)
{
	uint32_t first = all ? 0 : n - 1;
	normalise(f, weights_vector(&f->weights->once, norm), first, n - first);
	float *logits = all ? all : f->logits;
	struct product head = {logits, &f->weights->once.m[TENSOR_HEAD]};
	forward_multiply(f, &head, 1, &f->normed, n - first);
	size_t count = (size_t)(n - first) * head.w->shape.rows;
	for (size_t i = 0; i < count && f->config->logits_scaling != 1; i++)
		logits[i] /= f->config->logits_scaling;
}

static int run_layers(struct forward *f, struct context *x, uint32_t n, struct err *e)
{
	for (uint32_t layer = 0; layer < f->config->layers; layer++) {
		if (f->stop && atomic_load(f->stop))
			return err_set(e, ECANCELED, "stopped");
		int failed = forward_layer(f, x, layer, n, e);
		if (failed)
			return failed;
		tap(f, TAP_STATE, layer + 1, x, n, f->x);
	}
	return 0;
}

int forward_run(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n,
		bool want_logits, float *all_logits, struct err *e)
{
	uint32_t position = (uint32_t)x->tokens.count;
	int failed = context_reserve(x, position + n, e);
	if (!failed)
		failed = forward_embed(f, tokens, n, e);
	if (failed)
		return failed;
	f->token_count += n;
	forward_angles(f, position, n);
	tap(f, TAP_STATE, 0, x, n, f->x);
	x->recurrent.spoiled = true; /* until all layers have moved on */
	failed = run_layers(f, x, n, e);
	if (!failed && (want_logits || all_logits))
		forward_logits(f, TENSOR_FINAL_NORM, n, all_logits);
	if (!failed && f->want_normed && !all_logits)
		normalise(f, weights_vector(&f->weights->once, TENSOR_FINAL_NORM), 0, n);
	if (!failed && all_logits)
		tap(f, TAP_NORMED, 0, x, n, f->normed.f);
	if (!failed)
		failed = token_list_append(&x->tokens, tokens, n, e);
	if (failed) {
		context_rollback(x, position);
	} else {
		x->recurrent.spoiled = false;
		x->recurrent.behind = n - delta_commits(f, n);
	}
	return failed;
}
