/* The table of the CPU's backend, its arrays, and what is too small for a file: embedding and head.
 * Each mixer and each feed-forward has a file of its own (layers.h). See cpu.h. */
#include "engine/cpu/cpu.h"
#include "engine/cpu/layers.h"
#include "kernels/delta.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int cpu_computes(const struct config *c, struct err *e)
{
	const struct delta_net *n = &c->delta_net;
	const struct latent *l = &c->latent;
	if (c->mixers[MIXER_DELTA_NET] + c->mixers[MIXER_KIMI] &&
	    (n->key_dim > DELTA_KEY_DIM || n->width > CONV_WIDTH))
		return err_set(e, ENOTSUP,
			       "this %s model's delta nets have keys of %u and a convolution over "
			       "%u tokens; moefs computes up to %d and %d",
			       c->model_type, n->key_dim, n->width, DELTA_KEY_DIM, CONV_WIDTH);
	if (c->mixers[MIXER_MAMBA] &&
	    (c->mamba.state > DELTA_KEY_DIM || c->mamba.width > CONV_WIDTH))
		return err_set(e, ENOTSUP,
			       "this %s model's Mamba layers have states of %u and a convolution "
			       "over %u tokens; moefs computes up to %d and %d",
			       c->model_type, c->mamba.state, c->mamba.width, DELTA_KEY_DIM,
			       CONV_WIDTH);
	if (c->mixers[MIXER_CONVOLUTION] && c->convolution > CONV_WIDTH)
		return err_set(e, ENOTSUP,
			       "this %s model's convolutions see %u tokens; moefs computes up to "
			       "%d",
			       c->model_type, c->convolution, CONV_WIDTH);
	if (c->mixers[MIXER_LATENT] && l->rank > LATENT_DIM)
		return err_set(e, ENOTSUP,
			       "this %s model has latents of %u; moefs computes latents up to %d",
			       c->model_type, l->rank, LATENT_DIM);
	if (c->mixers[MIXER_COMPRESSED] && c->head_dim > LATENT_DIM)
		return err_set(e, ENOTSUP, "this %s model has heads of %u; moefs computes up to %d",
			       c->model_type, c->head_dim, LATENT_DIM);
	if (c->ngrams.width > CONV_WIDTH)
		return err_set(
			e, ENOTSUP,
			"this %s model has a convolution over %u n-grams; moefs computes up to "
			"%d",
			c->model_type, c->ngrams.width, CONV_WIDTH);
	if (c->chooser.interleaved && c->rope[0].dim > 2 * INDEX_ROTATED)
		return err_set(
			e, ENOTSUP,
			"this %s model rotates %u numbers of an index head; moefs computes up "
			"to %d",
			c->model_type, c->rope[0].dim, 2 * INDEX_ROTATED);
	return 0;
}

/* ---- memory ---- */

/* Places the arrays in memory, behind what lists them; memory NULL: only measures. Returns all
 * bytes. */
static size_t cpu_lay_out_stream(struct residual_stream *x, const struct config *c, size_t rows,
				 void *memory)
{
	struct arena a = {.memory = memory};
	*x = (struct residual_stream){0};
	(void)arena_take(&a, 1, sizeof *x);
	x->x = arena_take(&a, rows * config_stream_width(c), sizeof *x->x);
	if (c->per_layer)
		x->per_layer =
			arena_take(&a, rows * c->per_layer * c->layers, sizeof *x->per_layer);
	chooser_take_entries(&x->chosen, &a, c, rows);
	x->embedded = arena_take(&a, rows, sizeof *x->embedded);
	x->per_layer_read = arena_take(&a, rows, sizeof *x->per_layer_read);
	return x->bytes = a.used;
}

static uint64_t cpu_stream_bytes(const struct config *c, uint32_t rows)
{
	struct residual_stream measured;
	return cpu_lay_out_stream(&measured, c, rows, NULL);
}

static int cpu_stream_make(struct residual_stream **out, const struct environment *env,
			   uint32_t rows, struct err *e)
{
	const struct config *c = env->config;
	*out = arena_map(cpu_stream_bytes(c, rows), e);
	if (!*out)
		return -ENOMEM;
	cpu_lay_out_stream(*out, c, rows, *out);
	return 0;
}

static void cpu_stream_free(struct residual_stream *x)
{
	if (x)
		arena_unmap(x, x->bytes);
}

/* The same for scratch. */
static size_t cpu_lay_out_scratch(struct scratch *s, const struct config *c, size_t rows,
				  void *memory)
{
	struct arena a = {.memory = memory};
	*s = (struct scratch){0};
	(void)arena_take(&a, 1, sizeof *s);
	activation_take(&a, &s->normed, rows, c->hidden_size);
	activation_take(&a, &s->joined, JOINED_ROWS, c->draft ? 2 * c->hidden_size : 0);
	residual_take(&s->residual, &a, c, rows);
	ngram_take(&s->ngrams, &a, c, rows);
	chooser_take(&s->chooser, &a, c, rows);
	if (c->chooser.entry != INDEX_NONE)
		look_chosen_take(&s->chooser.look, &a, c, rows);
	attention_take(&s->attention, &a, c, rows);
	if (c->mixers[MIXER_LATENT])
		latent_take(&s->latent, &a, c, rows);
	if (c->mixers[MIXER_COMPRESSED])
		compressed_take(&s->compressed, &a, c, rows);
	if (c->mixers[MIXER_DELTA_NET])
		delta_take(&s->delta, &a, c, rows);
	if (c->mixers[MIXER_KIMI])
		kimi_take(&s->kimi, &a, c, rows);
	if (c->mixers[MIXER_MAMBA])
		mamba_take(&s->mamba, &a, c, rows);
	if (c->mixers[MIXER_CONVOLUTION])
		convolution_take(&s->convolution, &a, c, rows);
	dense_take(&s->dense, &a, c, rows);
	if (c->per_layer)
		per_layer_take(&s->per_layer, &a, c, rows);
	uint32_t widest = c->hidden_size > s->dense.hidden.k ? c->hidden_size : s->dense.hidden.k;
	s->out = arena_take(&a, rows * widest, sizeof *s->out);
	if (c->experts)
		moe_take(&s->moe, &a, c, rows);
	return s->bytes = a.used;
}

static uint64_t cpu_scratch_bytes(const struct config *c, uint32_t rows)
{
	struct scratch measured;
	return cpu_lay_out_scratch(&measured, c, rows, NULL);
}

static int cpu_scratch_make(struct scratch **out, const struct environment *env, uint32_t rows,
			    struct err *e)
{
	const struct config *c = env->config;
	*out = arena_map(cpu_scratch_bytes(c, rows), e);
	if (!*out)
		return -ENOMEM;
	cpu_lay_out_scratch(*out, c, rows, *out);
	return 0;
}

static void cpu_scratch_free(struct scratch *s)
{
	if (s)
		arena_unmap(s, s->bytes);
}

/* ---- the stream ---- */

/* Reads the rows of the tables that many tokens need together. */
static void cpu_read_tables(const struct step *s)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	struct residual_stream *to = s->stream;
	weights_rows(env->weights, TABLE_EMBEDDING, s->tokens, s->n, to->x, config_stream_width(c),
		     to->embedded, env->threads);
	if (c->per_layer)
		weights_rows(env->weights, TABLE_PER_LAYER, s->tokens, s->n, to->per_layer,
			     (size_t)c->per_layer * c->layers, to->per_layer_read, env->threads);
}

static int cpu_embed_row(struct step *s, uint32_t row, struct err *e)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	float *x = s->stream->x + (size_t)row * config_stream_width(c);
	int failed = 0;
	if (!s->stream->embedded[row])
		failed = weights_row(env->weights, TABLE_EMBEDDING, s->tokens[row], x, e);
	if (failed)
		return failed;
	for (uint32_t i = 0; i < c->hidden_size && c->embedding_multiplier != 1; i++)
		x[i] *= c->embedding_multiplier;
	residual_copy(c, x);
	if (!c->per_layer)
		return 0;
	return per_layer_read(s, row, s->stream->per_layer_read[row], e);
}

/* No row has died or moved yet: they are those of the batch. */
static void cpu_embed(struct step *s)
{
	struct err why;
	cpu_read_tables(s);
	for (struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		for (uint32_t t = 0; t < span->n; t++)
			if (cpu_embed_row(s, span->first + t, &why))
				step_kill(s, span, t, SPAN_FAILED, &why);
}

static void cpu_begin(struct step *s)
{
	if (s->env->config->per_layer)
		per_layer_begin(s);
	ngram_ahead(s);
}

static void cpu_move(struct step *s, uint32_t to, uint32_t from, uint32_t n)
{
	const struct config *c = s->env->config;
	struct residual_stream *all = s->stream;
	size_t width = config_stream_width(c), inputs = (size_t)c->per_layer * c->layers;
	memmove(all->x + to * width, all->x + from * width, n * width * sizeof *all->x);
	if (all->per_layer)
		memmove(all->per_layer + to * inputs, all->per_layer + from * inputs,
			n * inputs * sizeof *all->per_layer);
	chooser_move_entries(&all->chosen, to, from, n);
}

static const float *cpu_show(struct step *s)
{
	return s->stream->x;
}

/* ---- a layer ---- */

/* A mixer, or a feed-forward: reads `normed`, and leaves in `out` what is added to the stream. */
typedef void cpu_part_fn(struct step *s, uint32_t layer);
static cpu_part_fn *const cpu_mixers[MIXER_NONE] = {
	[MIXER_ATTENTION] = attention_run,
	[MIXER_LATENT] = latent_run,
	[MIXER_COMPRESSED] = compressed_run,
	[MIXER_DELTA_NET] = delta_run,
	[MIXER_KIMI] = kimi_run,
	[MIXER_MAMBA] = mamba_run,
	[MIXER_CONVOLUTION] = convolution_run,
};

static void cpu_mix(struct step *s, uint32_t layer)
{
	residual_read(s, layer, PART_MIXER);
	cpu_mixers[s->env->config->layer[layer].mixer](s, layer);
	residual_add(s, layer, PART_MIXER);
}

static void cpu_mix_keys(struct step *s, uint32_t layer)
{
	residual_read(s, layer, PART_MIXER);
	attention_run_keys(s, layer);
}

static void cpu_feed(struct step *s, uint32_t layer)
{
	residual_read(s, layer, PART_FEED_FORWARD);
	dense_run(s, layer);
	residual_add(s, layer, PART_FEED_FORWARD);
}

static void cpu_finish(struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	const float *scale = weights_vector(&s->env->weights->layer[layer], TENSOR_LAYER_SCALE);
	size_t count = (size_t)s->n * config_stream_width(c);
	if (c->per_layer)
		per_layer_run(s, layer);
	for (size_t i = 0; scale && i < count; i++)
		s->stream->x[i] *= *scale;
}

/* ---- outputs ---- */

static void cpu_end(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n)
{
	struct activation *to = &s->scratch->normed;
	if (norm == TENSOR_FINAL_NORM)
		residual_end(s, rows, n);
	else
		activation_norm(s, to->f, s->stream->x, rows,
				weights_vector(&s->env->weights->once, norm), n);
	activation_changed(to);
}

static void cpu_head(struct step *s, uint32_t n, float *logits)
{
	const struct environment *env = s->env;
	struct product head = {logits, &env->weights->once.m[TENSOR_HEAD]};
	float scaling = env->config->logits_scaling;
	product_run(env, &head, 1, &s->scratch->normed, n);
	size_t count = (size_t)n * head.w->shape.rows;
	for (size_t i = 0; i < count && scaling != 1; i++)
		logits[i] /= scaling;
	if (env->config->logit_cap > 0)
		env->kernels->softcap(logits, count, env->config->logit_cap);
}

static float *cpu_normed(struct scratch *s)
{
	return s->normed.f;
}

/* ---- a draft layer's input ---- */

struct cpu_joining {
	const struct step *step;
	uint32_t first;
	const float *const *hidden;
};

/* joined[begin … end - 1] from the embeddings and hidden states. */
static void cpu_join_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct cpu_joining *j = ctx;
	const struct environment *env = j->step->env;
	const struct layer_weights *once = &env->weights->once;
	uint32_t width = env->config->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float *row = j->step->scratch->joined.f + 2 * t * width;
		env->kernels->rmsnorm(row, j->step->stream->x + (j->first + t) * width,
				      weights_vector(once, TENSOR_DRAFT_EMBEDDING_NORM), width,
				      env->config->rms_eps);
		env->kernels->rmsnorm(row + width, j->hidden[t],
				      weights_vector(once, TENSOR_DRAFT_HIDDEN_NORM), width,
				      env->config->rms_eps);
	}
}

static void cpu_join(struct step *s, uint32_t first, const float *const *hidden, uint32_t n)
{
	const struct environment *env = s->env;
	struct activation *joined = &s->scratch->joined;
	const struct product p = {s->stream->x + (size_t)first * env->config->hidden_size,
				  &env->weights->once.m[TENSOR_DRAFT_PROJECTION]};
	threads_run(env->threads, n, 8, cpu_join_rows, &(struct cpu_joining){s, first, hidden});
	activation_changed(joined);
	product_run(env, &p, 1, joined, n);
}

/* ---- for other backends ---- */

float *cpu_stream_rows(struct residual_stream *x)
{
	return x->x;
}

const struct backend cpu_backend = {
	.computes = cpu_computes,
	.stream_make = cpu_stream_make,
	.stream_free = cpu_stream_free,
	.stream_bytes = cpu_stream_bytes,
	.scratch_make = cpu_scratch_make,
	.scratch_free = cpu_scratch_free,
	.scratch_bytes = cpu_scratch_bytes,
	.embed = cpu_embed,
	.begin = cpu_begin,
	.move = cpu_move,
	.show = cpu_show,
	.ngrams = ngram_run,
	.mix = cpu_mix,
	.mix_keys = cpu_mix_keys,
	.feed = cpu_feed,
	.finish = cpu_finish,
	.route = moe_route,
	.reweigh = router_reweigh,
	.guess = router_guess,
	.begin_experts = moe_begin,
	.wave = moe_run_wave,
	.end_experts = moe_end,
	.end = cpu_end,
	.head = cpu_head,
	.normed = cpu_normed,
	.join = cpu_join,
};
