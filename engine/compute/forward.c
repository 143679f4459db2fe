/* The forward pass: scratch, layers, output head. See forward.h. */
#include "engine/compute/forward.h"
#include "kernels/delta.h"
#include "kernels/watch.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- scratch ---- */

/* Places the arrays in memory; NULL: only measures. Returns their bytes. */
static size_t forward_lay_out(struct scratch *s, const struct config *c, size_t rows, void *memory)
{
	struct arena a = {.memory = memory};
	*s = (struct scratch){.memory = memory};
	s->x = arena_take(&a, rows * c->hidden_size, sizeof *s->x);
	activation_take(&a, &s->normed, rows, c->hidden_size);
	attention_take(&s->attention, &a, c, rows);
	if (c->mixers[MIXER_LATENT])
		latent_take(&s->latent, &a, c, rows);
	if (c->mixers[MIXER_DELTA_NET])
		delta_take(&s->delta, &a, c, rows);
	rotation_take(s->rotations, &a, c, rows);
	dense_take(&s->dense, &a, c, rows);
	uint32_t widest = c->hidden_size > s->dense.hidden.k ? c->hidden_size : s->dense.hidden.k;
	s->out = arena_take(&a, rows * widest, sizeof *s->out);
	s->spans = arena_take(&a, rows, sizeof *s->spans);
	s->span_of = arena_take(&a, rows, sizeof *s->span_of);
	s->wanted = arena_take(&a, rows, sizeof *s->wanted);
	s->logits = arena_take(&a, (size_t)ANSWER_ROWS * c->vocabulary, sizeof *s->logits);
	if (c->experts)
		moe_take(&s->moe, &a, c, rows);
	return s->bytes = a.used;
}

int forward_computes(const struct config *c, struct err *e)
{
	const struct delta_net *n = &c->delta_net;
	const struct latent *l = &c->latent;
	if (c->mixers[MIXER_DELTA_NET] && (n->key_dim > DELTA_KEY_DIM || n->width > CONV_WIDTH))
		return err_set(e, ENOTSUP,
			       "this %s model's delta nets have keys of %u and a convolution over "
			       "%u tokens; moefs computes up to %d and %d",
			       c->model_type, n->key_dim, n->width, DELTA_KEY_DIM, CONV_WIDTH);
	if (c->mixers[MIXER_LATENT] &&
	    (l->rank > LATENT_DIM || l->rank % TILE_ROWS || l->value % TILE_ROWS))
		return err_set(e, ENOTSUP,
			       "this %s model has latents of %u and values of %u; moefs computes "
			       "latents up to %d, and multiples of %d for both",
			       c->model_type, l->rank, l->value, LATENT_DIM, TILE_ROWS);
	return 0;
}

/* A mapping of its own, so that the system has the memory back as soon as it is freed; and
 * populated, because memory that is counted as taken but not yet touched would look free. */
int forward_init(struct forward *f, struct err *e)
{
	const struct config *c = f->env.config;
	size_t bytes = forward_lay_out(&f->scratch, c, f->chunk, NULL);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return err_set(e, ENOMEM, "out of memory for %zu MB of activations", bytes >> 20);
	forward_lay_out(&f->scratch, c, f->chunk, memory);
	rotation_init(f->scratch.rotations, c);
	return 0;
}

void forward_free(struct forward *f)
{
	if (f->scratch.memory)
		(void)munmap(f->scratch.memory, f->scratch.bytes);
	f->scratch = (struct scratch){0};
}

uint64_t forward_bytes(const struct config *c, uint32_t chunk)
{
	struct scratch measured;
	return forward_lay_out(&measured, c, chunk, NULL);
}

int forward_resize(struct forward *f, uint32_t chunk, struct err *e)
{
	struct forward other = *f;
	other.chunk = chunk;
	int failed = forward_init(&other, e);
	if (failed)
		return failed;
	forward_free(f);
	*f = other;
	return 0;
}

/* ---- pieces ---- */

struct step forward_step(struct forward *f, const struct step_span *spans, uint32_t count)
{
	struct scratch *s = &f->scratch;
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++) {
		rotation_set(s->rotations, f->env.config, spans[i].first, spans[i].position,
			     spans[i].n);
		for (uint32_t t = 0; t < spans[i].n; t++)
			s->span_of[n++] = i;
	}
	return (struct step){
		.env = &f->env,
		.n = n,
		.spans = spans,
		.span_count = count,
		.span_of = s->span_of,
		.clock = f->token_count,
		.x = s->x,
		.normed = &s->normed,
		.out = s->out,
		.rotations = s->rotations,
	};
}

int forward_embed(struct step *s, uint32_t row, uint32_t token, struct err *e)
{
	const struct config *c = s->env->config;
	float *x = s->x + (size_t)row * c->hidden_size;
	int failed = weights_embed(s->env->weights, token, x, e);
	for (uint32_t i = 0; i < c->hidden_size && c->embedding_multiplier != 1 && !failed; i++)
		x[i] *= c->embedding_multiplier;
	return failed;
}

/* normed[n] = the norm of rows[n] of the stream; NULL: of the first n rows. */
static void forward_norm(struct step *s, const float *weight, const uint32_t *rows, uint32_t n)
{
	step_norm(s, s->normed->f, s->x, rows, weight, n);
	activation_changed(s->normed);
}

void forward_normalise(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n)
{
	forward_norm(s, weights_vector(&s->env->weights->once, norm), rows, n);
}

/* Adds `out` to the stream, after a norm where the family has one. */
static void forward_add_out(struct step *s, const float *post_norm)
{
	const struct config *c = s->env->config;
	if (post_norm)
		step_norm(s, s->out, s->out, NULL, post_norm, s->n);
	watch_add_scaled(s->env->kernels, s->x, c->residual_multiplier, s->out,
			 (size_t)s->n * c->hidden_size);
}

int forward_layer(struct forward *f, struct step *s, uint32_t layer, struct err *e)
{
	const struct config *c = s->env->config;
	const struct layer_weights *l = &s->env->weights->layer[layer];
	forward_norm(s, weights_vector(l, TENSOR_MIXER_NORM), NULL, s->n);
	switch (c->layer[layer].mixer) {
	case MIXER_LATENT:
		latent_run(&f->scratch.latent, s, layer);
		break;
	case MIXER_DELTA_NET:
		delta_run(&f->scratch.delta, s, layer);
		break;
	default:
		attention_run(&f->scratch.attention, s, layer);
		break;
	}
	forward_add_out(s, weights_vector(l, TENSOR_MIXER_POST_NORM));

	forward_norm(s, weights_vector(l, TENSOR_FEED_FORWARD_NORM), NULL, s->n);
	int failed = 0;
	if (config_routed(c, layer))
		failed = moe_run(&f->scratch.moe, s, layer, e);
	else
		dense_run(&f->scratch.dense, s, layer);
	forward_add_out(s, weights_vector(l, TENSOR_FEED_FORWARD_POST_NORM));
	const float *scale = weights_vector(l, TENSOR_LAYER_SCALE);
	size_t count = (size_t)s->n * c->hidden_size;
	for (size_t i = 0; scale && i < count; i++)
		s->x[i] *= *scale;
	return failed;
}

void forward_layer_keys(struct forward *f, struct step *s, uint32_t layer)
{
	forward_norm(s, weights_vector(&s->env->weights->layer[layer], TENSOR_MIXER_NORM), NULL,
		     s->n);
	attention_run_keys(&f->scratch.attention, s, layer);
}

void forward_head(struct step *s, uint32_t n, float *logits)
{
	struct product head = {logits, &s->env->weights->once.m[TENSOR_HEAD]};
	float scaling = s->env->config->logits_scaling;
	product_run(s->env, &head, 1, s->normed, n);
	size_t count = (size_t)n * head.w->shape.rows;
	for (size_t i = 0; i < count && scaling != 1; i++)
		logits[i] /= scaling;
	if (s->env->config->logit_cap > 0)
		s->env->kernels->softcap(logits, count, s->env->config->logit_cap);
}

/* ---- the pass ---- */

/* Reserves room in every context, and embeds the rows' tokens. */
static int forward_begin(struct step *s, const struct step_batch *b, struct err *e)
{
	int failed = 0;
	for (uint32_t i = 0; i < s->span_count && !failed; i++)
		failed = context_reserve(s->spans[i].context, s->spans[i].position + s->spans[i].n,
					 e);
	for (uint32_t t = 0; t < s->n && !failed; t++)
		failed = forward_embed(s, t, b->rows[t].token, e);
	return failed;
}

static bool forward_stopped(const struct environment *env)
{
	return env->stop && atomic_load(env->stop);
}

static int forward_run_layers(struct forward *f, struct step *s, struct err *e)
{
	const struct environment *env = s->env;
	uint32_t width = env->config->hidden_size;
	step_tap(s, TAP_STATE, 0, width, s->x);
	for (uint32_t layer = 0; layer < env->config->layers; layer++) {
		if (forward_stopped(env))
			return err_set(e, ECANCELED, "stopped");
		int failed = forward_layer(f, s, layer, e);
		if (failed)
			return failed;
		step_tap(s, TAP_STATE, layer + 1, width, s->x);
	}
	return 0;
}

/* Gives the logits of scratch.wanted to the batch's reader, ANSWER_ROWS rows at a time: of a whole
 * vocabulary, more would take more room than the rest of the scratch. */
static int forward_give_logits(struct forward *f, struct step *s, const struct step_batch *b,
			       uint32_t wanted, struct err *e)
{
	const uint32_t *rows = f->scratch.wanted;
	for (uint32_t done = 0, n; done < wanted; done += n) {
		n = wanted - done < ANSWER_ROWS ? wanted - done : ANSWER_ROWS;
		if (forward_stopped(s->env))
			return err_set(e, ECANCELED, "stopped");
		forward_normalise(s, TENSOR_FINAL_NORM, rows + done, n);
		forward_head(s, n, f->scratch.logits);
		for (uint32_t i = 0; i < n; i++) {
			const float *logits =
				f->scratch.logits + (size_t)i * s->env->config->vocabulary;
			int failed = b->read(b->ctx, rows[done + i], logits, e);
			if (failed)
				return failed;
		}
	}
	return 0;
}

/* Computes the logits of scratch.wanted, and then the final norm of all rows if that is wanted. */
static int forward_make_outputs(struct forward *f, struct step *s, const struct step_batch *b,
				uint32_t wanted, float *logits, struct err *e)
{
	if (b->read)
		return forward_give_logits(f, s, b, wanted, e);
	if (wanted) {
		forward_normalise(s, TENSOR_FINAL_NORM, f->scratch.wanted, wanted);
		forward_head(s, wanted, logits ? logits : f->scratch.logits);
	}
	if (b->normed && wanted < s->n)
		forward_normalise(s, TENSOR_FINAL_NORM, NULL, s->n);
	if (b->normed || wanted == s->n)
		step_tap(s, TAP_NORMED, 0, s->env->config->hidden_size, s->normed->f);
	return 0;
}

/* Leaves every context after its rows; after a failed step as it was before. */
static void forward_end(const struct step *s, int failed)
{
	for (const struct step_span *p = s->spans; p < s->spans + s->span_count; p++) {
		if (failed) {
			context_rollback(p->context, p->position);
		} else {
			p->context->recurrent.spoiled = false;
			p->context->recurrent.behind = p->n - p->certain;
		}
	}
}

int forward_run(struct forward *f, const struct step_batch *b, float *logits, struct err *e)
{
	if (!b->count || b->count > f->chunk)
		return err_set(e, EINVAL,
			       "internal error: a step of %u rows, where 1 to %u are possible",
			       b->count, f->chunk);
	uint32_t wanted = 0;
	for (uint32_t t = 0; t < b->count; t++)
		if (b->rows[t].logits)
			f->scratch.wanted[wanted++] = t;
	if (!logits && !b->read && wanted > ANSWER_ROWS)
		return err_set(e, EINVAL,
			       "internal error: logits of %u rows, where there is room for %d",
			       wanted, ANSWER_ROWS);
	int spans = step_find_spans(b, f->scratch.spans, e);
	if (spans < 0)
		return spans;
	struct step s = forward_step(f, f->scratch.spans, (uint32_t)spans);
	int failed = forward_begin(&s, b, e);
	if (failed)
		return failed;
	s.clock = f->token_count += s.n;
	for (uint32_t i = 0; i < s.span_count; i++) /* until all layers have moved on */
		s.spans[i].context->recurrent.spoiled = true;
	failed = forward_run_layers(f, &s, e);
	f->experts_dropped += s.dropped;
	if (!failed)
		failed = forward_make_outputs(f, &s, b, wanted, logits, e);
	for (uint32_t t = 0; t < b->count && !failed; t++)
		failed = token_list_append(&b->rows[t].context->tokens, &b->rows[t].token, 1, e);
	forward_end(&s, failed);
	return failed;
}
