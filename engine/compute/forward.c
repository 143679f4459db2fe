/* The forward pass: scratch, layers, output head. See forward.h. */
#include "engine/compute/forward.h"
#include "kernels/delta.h"
#include "kernels/watch.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* ---- scratch ---- */

/* Takes a pass's arrays. */
static void forward_take_pass(struct forward_pass *p, struct arena *a, const struct config *c,
			      size_t rows)
{
	*p = (struct forward_pass){.rows = (uint32_t)rows};
	p->x = arena_take(a, rows * config_stream_width(c), sizeof *p->x);
	if (c->per_layer)
		p->per_layer = arena_take(a, rows * c->per_layer * c->layers, sizeof *p->per_layer);
	rotation_take(p->rotations, a, c, rows);
	chooser_take_entries(&p->chosen, a, c, rows);
	p->spans = arena_take(a, rows, sizeof *p->spans);
	p->span_of = arena_take(a, rows, sizeof *p->span_of);
	p->tokens = arena_take(a, rows, sizeof *p->tokens);
	p->embedded = arena_take(a, rows, sizeof *p->embedded);
	p->per_layer_read = arena_take(a, rows, sizeof *p->per_layer_read);
	p->wanted = arena_take(a, rows, sizeof *p->wanted);
	p->wanted_row = arena_take(a, rows, sizeof *p->wanted_row);
	p->wanted_index = arena_take(a, rows, sizeof *p->wanted_index);
}

/* Places the arrays in memory; NULL: only measures. Returns their bytes. */
static size_t forward_lay_out(struct scratch *s, const struct config *c, size_t rows, void *memory)
{
	struct arena a = {.memory = memory};
	*s = (struct scratch){.memory = memory};
	forward_take_pass(&s->pass, &a, c, rows);
	activation_take(&a, &s->normed, rows, c->hidden_size);
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
	s->logits = arena_take(&a, (size_t)HEAD_ROWS * c->vocabulary, sizeof *s->logits);
	if (c->experts)
		moe_take(&s->moe, &a, c, rows);
	return s->bytes = a.used;
}

int forward_computes(const struct config *c, struct err *e)
{
	const struct delta_net *n = &c->delta_net;
	const struct latent *l = &c->latent;
	if (c->mixers[MIXER_DELTA_NET] + c->mixers[MIXER_KIMI] && (n->key_dim > DELTA_KEY_DIM || n->width > CONV_WIDTH))
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
		return err_set(e, ENOTSUP,
			       "this %s model has a convolution over %u n-grams; moefs computes up to "
			       "%d",
			       c->model_type, c->ngrams.width, CONV_WIDTH);
	if (c->chooser.interleaved && c->rope[0].dim > 2 * INDEX_ROTATED)
		return err_set(e, ENOTSUP,
			       "this %s model rotates %u numbers of an index head; moefs computes up "
			       "to %d",
			       c->model_type, c->rope[0].dim, 2 * INDEX_ROTATED);
	return 0;
}

/* A mapping of its own, so that the system has the memory back as soon as it is freed; and
 * populated, because memory that is counted as taken but not yet touched would look free. */
static void *forward_map(size_t bytes, struct err *e)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory != MAP_FAILED)
		return memory;
	err_set(e, ENOMEM, "out of memory for %zu MB of activations", bytes >> 20);
	return NULL;
}

int forward_init(struct forward *f, struct err *e)
{
	const struct config *c = f->env.config;
	void *memory = forward_map(forward_lay_out(&f->scratch, c, f->chunk, NULL), e);
	if (!memory)
		return -ENOMEM;
	forward_lay_out(&f->scratch, c, f->chunk, memory);
	rotation_init(f->scratch.pass.rotations, c);
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

/* The same for a pass alone. */
static size_t forward_lay_out_pass(struct forward_pass *p, const struct config *c, uint32_t rows,
				   void *memory)
{
	struct arena a = {.memory = memory};
	forward_take_pass(p, &a, c, rows);
	p->memory = memory;
	return p->bytes = a.used;
}

int forward_pass_init(struct forward_pass *p, const struct config *c, uint32_t rows, struct err *e)
{
	void *memory = forward_map(forward_lay_out_pass(p, c, rows, NULL), e);
	if (!memory)
		return -ENOMEM;
	forward_lay_out_pass(p, c, rows, memory);
	rotation_init(p->rotations, c);
	return 0;
}

void forward_pass_free(struct forward_pass *p)
{
	if (p->memory)
		(void)munmap(p->memory, p->bytes);
	*p = (struct forward_pass){0};
}

uint64_t forward_pass_bytes(const struct config *c, uint32_t rows)
{
	struct forward_pass measured;
	return forward_lay_out_pass(&measured, c, rows, NULL);
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

struct step forward_step(struct forward *f, struct forward_pass *p, uint32_t count)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct step_span *span = &p->spans[i];
		rotation_set(p->rotations, f->env.config, span->first, span->position, span->n,
			     span->context->long_text);
		for (uint32_t t = 0; t < span->n; t++)
			p->span_of[n++] = i;
	}
	return (struct step){
		.env = &f->env,
		.n = n,
		.spans = p->spans,
		.span_count = count,
		.span_of = p->span_of,
		.clock = f->token_count,
		.x = p->x,
		.per_layer = p->per_layer,
		.residual = &f->scratch.residual,
		.normed = &f->scratch.normed,
		.out = f->scratch.out,
		.rotations = p->rotations,
		.chosen = &p->chosen,
		.tokens = p->tokens,
	};
}

/* What a row of the stream begins with, after its row of the embedding. */
static void forward_finish_embedding(const struct config *c, float *x)
{
	for (uint32_t i = 0; i < c->hidden_size && c->embedding_multiplier != 1; i++)
		x[i] *= c->embedding_multiplier;
	residual_copy(c, x);
}

int forward_embed(struct step *s, uint32_t row, uint32_t token, struct err *e)
{
	const struct config *c = s->env->config;
	float *x = s->x + (size_t)row * config_stream_width(c);
	int failed = weights_row(s->env->weights, TABLE_EMBEDDING, token, x, e);
	if (failed)
		return failed;
	forward_finish_embedding(c, x);
	return c->per_layer ? per_layer_read(s, row, token, e) : 0;
}

void forward_normalise(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n)
{
	step_norm(s, s->normed->f, s->x, rows, weights_vector(&s->env->weights->once, norm), n);
	activation_changed(s->normed);
}

/* ---- layers ---- */

static int forward_run_mixer(struct forward *f, struct step *s, uint32_t layer, struct err *e)
{
	(void)e;
	switch (f->env.config->layer[layer].mixer) {
	case MIXER_LATENT:
		latent_run(&f->scratch.latent, &f->scratch.chooser, s, layer);
		break;
	case MIXER_COMPRESSED:
		compressed_run(&f->scratch.compressed, &f->scratch.chooser, s, layer);
		break;
	case MIXER_DELTA_NET:
		delta_run(&f->scratch.delta, s, layer);
		break;
	case MIXER_KIMI:
		kimi_run(&f->scratch.kimi, s, layer);
		break;
	case MIXER_MAMBA:
		mamba_run(&f->scratch.mamba, s, layer);
		break;
	case MIXER_CONVOLUTION:
		convolution_run(&f->scratch.convolution, s, layer);
		break;
	default:
		attention_run(&f->scratch.attention, &f->scratch.chooser, s, layer);
		break;
	}
	return 0;
}

static int forward_run_feed_forward(struct forward *f, struct step *s, uint32_t layer,
				    struct err *e)
{
	if (config_routed(f->env.config, layer))
		return moe_run(&f->scratch.moe, s, layer, e);
	dense_run(&f->scratch.dense, s, layer);
	return 0;
}

/* A part reads the stream by residual_read, and leaves in `out` what is added to it. 0, or a negative
 * errno with words. */
typedef int forward_part_fn(struct forward *f, struct step *s, uint32_t layer, struct err *e);
static forward_part_fn *const forward_parts[LAYER_PARTS] = {
	[PART_MIXER] = forward_run_mixer,
	[PART_FEED_FORWARD] = forward_run_feed_forward,
};

int forward_layer(struct forward *f, struct step *s, uint32_t layer, struct err *e)
{
	const struct config *c = s->env->config;
	const struct layer_weights *l = &s->env->weights->layer[layer];
	if (c->layer[layer].ngrams)
		ngram_run(&f->scratch.ngrams, s, layer);
	for (enum layer_part i = 0; i < LAYER_PARTS && s->n; i++) {
		if (!config_has_part(&c->layer[layer], i))
			continue;
		residual_read(s, layer, i);
		int failed = forward_parts[i](f, s, layer, e);
		if (failed)
			return failed;
		residual_add(s, layer, i);
	}
	if (c->per_layer)
		per_layer_run(&f->scratch.per_layer, s, layer);
	const float *scale = weights_vector(l, TENSOR_LAYER_SCALE);
	size_t count = (size_t)s->n * config_stream_width(c);
	for (size_t i = 0; scale && i < count; i++)
		s->x[i] *= *scale;
	return 0;
}

void forward_layer_keys(struct forward *f, struct step *s, uint32_t layer)
{
	residual_read(s, layer, PART_MIXER);
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

/* ---- outputs ---- */

static uint32_t forward_count_wanted(const struct step_batch *b)
{
	uint32_t wanted = 0;
	for (uint32_t t = 0; t < b->count; t++)
		wanted += b->rows[t].logits;
	return wanted;
}

/* Lists the rows that live and whose logits are wanted. */
static void forward_list_wanted(struct forward_pass *p)
{
	const struct step *s = &p->step;
	const struct step_span *span = s->spans, *end = s->spans + s->span_count;
	uint32_t index = 0;
	p->wanted_count = p->wanted_done = 0;
	for (uint32_t t = 0; t < p->batch->count; t++) {
		if (!p->batch->rows[t].logits)
			continue;
		while (span < end && span->origin + span->n <= t)
			span++;
		if (span < end && span->origin <= t) {
			p->wanted[p->wanted_count] = span->first + t - span->origin;
			p->wanted_row[p->wanted_count] = t;
			p->wanted_index[p->wanted_count++] = index;
		}
		index++;
	}
}

/* Takes rows that have died meanwhile out of the list. */
static void forward_sift_wanted(struct forward_pass *p)
{
	uint32_t kept = p->wanted_done;
	for (uint32_t i = kept; i < p->wanted_count; i++) {
		if (!step_row_lives(&p->step, p->wanted[i]))
			continue;
		p->wanted[kept] = p->wanted[i];
		p->wanted_row[kept] = p->wanted_row[i];
		p->wanted_index[kept++] = p->wanted_index[i];
	}
	p->wanted_count = kept;
}

/* Gives the logits of the next HEAD_ROWS rows to the batch's reader. */
static int forward_give_logits(struct forward *f, struct forward_pass *p, struct err *e)
{
	const struct step_batch *b = p->batch;
	step_stop(&p->step);
	forward_sift_wanted(p);
	uint32_t done = p->wanted_done, left = p->wanted_count - done,
		 n = left < HEAD_ROWS ? left : HEAD_ROWS;
	if (!n)
		return 0;
	residual_end(&p->step, p->wanted + done, n);
	forward_head(&p->step, n, f->scratch.logits);
	p->wanted_done += n;
	return b->read(b->ctx, p->wanted_row + done, n, f->scratch.logits, e);
}

/* Computes all wanted logits into an array. Dead rows leave gaps: the others keep their places. */
static void forward_make_logits(struct forward *f, struct forward_pass *p)
{
	float *to = p->logits ? p->logits : f->scratch.logits;
	for (uint32_t n; p->wanted_done < p->wanted_count; p->wanted_done += n) {
		const uint32_t *at = p->wanted_index + p->wanted_done;
		uint32_t left = p->wanted_count - p->wanted_done;
		for (n = 1; n < left && at[n] == at[n - 1] + 1;)
			n++;
		residual_end(&p->step, p->wanted + p->wanted_done, n);
		forward_head(&p->step, n, to + (size_t)*at * f->env.config->vocabulary);
	}
}

/* Computes the final norm of all rows, if it is not there already, each row's where it stands in
 * the batch. */
static void forward_make_normed(struct forward_pass *p, bool there)
{
	struct step *s = &p->step;
	size_t width = s->env->config->hidden_size;
	if (!there)
		residual_end(s, NULL, s->n);
	step_tap(s, TAP_NORMED, 0, (uint32_t)width, s->normed->f);
	for (uint32_t i = s->span_count; i-- > 0;) { /* the last first: each moves up */
		const struct step_span *span = &s->spans[i];
		if (span->first != span->origin)
			memmove(s->normed->f + span->origin * width,
				s->normed->f + span->first * width,
				span->n * width * sizeof *s->normed->f);
	}
}

/* ---- the pass ---- */

/* Reads the rows of the tables that many tokens need together. */
static void forward_read_tables(struct forward_pass *p)
{
	const struct step *s = &p->step;
	const struct environment *env = s->env;
	const struct config *c = env->config;
	weights_rows(env->weights, TABLE_EMBEDDING, p->tokens, s->n, s->x, config_stream_width(c),
		     p->embedded, env->threads);
	if (c->per_layer)
		weights_rows(env->weights, TABLE_PER_LAYER, p->tokens, s->n, s->per_layer,
			     (size_t)c->per_layer * c->layers, p->per_layer_read, env->threads);
}

static int forward_embed_row(struct forward_pass *p, uint32_t row, struct err *e)
{
	struct step *s = &p->step;
	const struct config *c = s->env->config;
	if (!p->embedded[row] || (c->per_layer && !p->per_layer_read[row]))
		return forward_embed(s, row, p->tokens[row], e);
	forward_finish_embedding(c, s->x + (size_t)row * config_stream_width(c));
	if (c->per_layer)
		per_layer_scale(s, row);
	return 0;
}

/* Reserves room in every context, and embeds the rows' tokens, which are still those of the batch.
 */
static void forward_embed_spans(struct forward_pass *p)
{
	struct step *s = &p->step;
	struct err why;
	forward_read_tables(p);
	for (uint32_t i = 0; i < s->span_count; i++) {
		struct step_span *span = &s->spans[i];
		step_open(span);
		if (context_reserve(span->context, span->position + span->n, &why))
			step_kill(s, span, 0, SPAN_FAILED, &why);
		for (uint32_t t = 0; t < span->n; t++)
			if (forward_embed_row(p, span->first + t, &why))
				step_kill(s, span, t, SPAN_FAILED, &why);
	}
}

/* Ends the pass: every context is after its rows, or, after an error of all of them, where it was.
 */
static int forward_end(struct forward *f, struct forward_pass *p, int failed, struct err *e)
{
	struct step *s = &p->step;
	for (uint32_t i = 0; i < s->span_count; i++) {
		if (failed)
			step_kill(s, &s->spans[i], 0, SPAN_FAILED, e);
		else
			step_close(s, &s->spans[i], p->tokens + s->spans[i].origin);
	}
	f->env.observer = NULL;
	p->batch = NULL;
	return failed ? failed : step_lost(s, e);
}

static int forward_check(const struct forward *f, const struct forward_pass *p,
			 const struct step_batch *b, const float *logits, struct err *e)
{
	uint32_t most = p->rows < f->chunk ? p->rows : f->chunk, wanted = forward_count_wanted(b);
	if (!b->count || b->count > most)
		return err_set(e, EINVAL,
			       "internal error: a step of %u rows, where 1 to %u are possible",
			       b->count, most);
	if (!logits && !b->read && wanted > HEAD_ROWS)
		return err_set(e, EINVAL,
			       "internal error: logits of %u rows, where there is room for %d",
			       wanted, HEAD_ROWS);
	return 0;
}

/* A text that passes the limit must have been known to from its beginning (context_suit). */
static int forward_check_long(const struct forward_pass *p, int spans, struct err *e)
{
	for (int i = 0; i < spans; i++) {
		const struct step_span *span = &p->spans[i];
		uint32_t end = span->position + span->n;
		if (!span->position)
			context_suit(span->context, span->context->long_text ? UINT32_MAX : end);
		if (context_is_long(span->context, end) && !span->context->long_text)
			return err_set(e, EINVAL,
				       "internal error: a text of %u positions was begun as one of "
				       "at most %u",
				       end, span->context->limit);
	}
	return spans;
}

int forward_begin(struct forward *f, struct forward_pass *p, const struct step_batch *b,
		  float *logits, struct err *e)
{
	int failed = forward_check(f, p, b, logits, e);
	int spans = failed ? failed : step_find_spans(b, p->spans, e);
	if (spans > 0)
		spans = forward_check_long(p, spans, e);
	if (spans < 0)
		return spans;
	for (uint32_t t = 0; t < b->count; t++)
		p->tokens[t] = b->rows[t].token;
	p->batch = b;
	p->logits = logits;
	p->layer = 0;
	p->observer = p->spans->account ? p->spans->account->observer : NULL;
	p->step = forward_step(f, p, (uint32_t)spans);
	p->step.clock = f->token_count += p->step.n;
	forward_embed_spans(p);
	if (p->step.died)
		step_close_up(&p->step);
	for (uint32_t i = 0; i < p->step.span_count; i++) /* until all layers have moved on */
		p->step.spans[i].context->recurrent.spoiled = true;
	if (!p->step.n)
		return forward_end(f, p, 0, e);
	if (f->env.config->per_layer)
		per_layer_begin(&f->scratch.per_layer, &p->step);
	ngram_ahead(&p->step);
	step_tap(&p->step, TAP_STATE, 0, config_stream_width(f->env.config), p->x);
	return 1;
}

/* Ends spans that are to stop, and takes out of the stream what has died, if more layers follow. */
static void forward_bury(struct forward_pass *p)
{
	step_stop(&p->step);
	if (p->step.died && p->layer < p->step.env->config->layers)
		step_close_up(&p->step);
}

/* Computes a layer or some of the outputs. 1: more are left. */
static int forward_run_piece(struct forward *f, struct forward_pass *p, struct err *e)
{
	struct step *s = &p->step;
	const struct config *c = f->env.config;
	if (p->layer < c->layers) {
		int failed = forward_layer(f, s, p->layer++, e);
		if (failed)
			return failed;
		step_tap(s, TAP_STATE, p->layer, config_stream_width(c), s->x);
		if (p->layer == c->layers)
			forward_list_wanted(p);
		return 1;
	}
	if (p->batch->read) {
		int failed = forward_give_logits(f, p, e);
		if (failed || p->wanted_done < p->wanted_count)
			return failed ? failed : 1;
	} else {
		forward_make_logits(f, p);
	}
	bool there = !p->batch->read && p->wanted_count == p->batch->count;
	if (p->batch->normed || there)
		forward_make_normed(p, there);
	return 0;
}

int forward_go_on(struct forward *f, struct forward_pass *p, uint32_t pieces, struct err *e)
{
	int more = 1;
	f->env.observer = p->observer;
	p->step.out = f->scratch.out; /* the scratch may be a new one (forward_resize) */
	forward_bury(p);
	while (more > 0 && p->step.n && pieces--) {
		more = forward_run_piece(f, p, e);
		if (more > 0)
			forward_bury(p);
	}
	f->env.observer = NULL;
	return more > 0 && p->step.n ? more : forward_end(f, p, more < 0 ? more : 0, e);
}

void forward_give_up(struct forward *f, struct forward_pass *p, const struct err *why)
{
	struct err e = *why;
	(void)forward_end(f, p, -why->code, &e);
}

int forward_run(struct forward *f, const struct step_batch *b, float *logits, struct err *e)
{
	struct forward_pass *p = &f->scratch.pass;
	int more = forward_begin(f, p, b, logits, e);
	return more > 0 ? forward_go_on(f, p, UINT32_MAX, e) : more;
}
