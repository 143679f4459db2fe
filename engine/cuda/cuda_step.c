/* The table of the backend for GPUs, and what is too small for a file: the stream. See cuda.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

#include <string.h>

/* The model is checked with its formats when it is copied to the GPU (cuda_model_open). */
static int cuda_computes(const struct config *c, struct err *e)
{
	(void)c;
	(void)e;
	return 0;
}

/* ---- the stream ---- */

/* By rows from the store, which the CPU reads. */
static void cuda_embed_by_cpu(struct step *s)
{
	struct step cpus = cuda_as_cpus(s);
	cpu_backend.embed(&cpus);
	s->died = cpus.died;
	s->lost = cpus.lost;
	cuda_stream_of(s)->in_cpus = true;
}

/* By the table on the GPU. */
static void cuda_embed_on_card(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_model *m = x->model;
	const struct config *c = s->env->config;
	cuda_place_rows(s);
	const struct cuda_embedding p = {.x = cuda_at(x->x),
					 .table = cuda_at(m->table),
					 .tokens = cuda_at(x->in + cuda_tokens_at(s->n)),
					 .n = s->n,
					 .width = c->hidden_size,
					 .type = m->table_type,
					 .multiplier = c->embedding_multiplier,
					 .groups = m->table_groups};
	const struct cuda_grid g = cuda_items_grid((size_t)s->n * c->hidden_size);
	cuda_do(m, cuda_embed_number, &g, &p);
	x->on_gpu = true;
}

static bool cuda_tokens_known(const struct step *s)
{
	for (uint32_t t = 0; t < s->n; t++)
		if (s->tokens[t] >= s->env->config->vocabulary)
			return false;
	return true;
}

static void cuda_embed(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_enter(x->model);
	x->model->steps++;
	if (k->pending.of != x)
		cuda_flush(k); /* of experts where they were */
	k->pending.kind = PENDING_NONE;
	cuda_contexts_let_go(x->model, x->number); /* of a pass that was given up */
	cuda_experts_turn(x->model, s->clock);
	x->placed = x->ahead = x->unsent = x->on_gpu = x->in_cpus = false;
	x->settled = x->sent = x->mixed = x->portions = 0;
	x->x = x->rows_at;
	if (x->model->table && cuda_tokens_known(s))
		cuda_embed_on_card(s);
	else
		cuda_embed_by_cpu(s); /* which says what is wrong with a token */
}

static void cuda_begin(struct step *s)
{
	(void)s;
}

/* Rows move up over some that died. What belongs to rows as they were is brought to its place first;
 * copies do not overlap. The CPU's stream also has what rows have chosen in earlier layers, wherever the
 * rows themselves are. */
static void cuda_move(struct step *s, uint32_t to, uint32_t from, uint32_t n)
{
	struct cuda_stream *x = cuda_stream_of(s);
	struct step cpus = cuda_as_cpus(s);
	size_t width = s->env->config->hidden_size * sizeof(float);
	uint32_t most = from - to;
	cuda_flush(cuda_scratch_of(s));
	if (x->placed)
		cuda_settle_placed(s);
	x->placed = x->ahead; /* then no layer needs them any more */
	for (uint32_t t = 0; t < n && x->on_gpu; t += most)
		cuda_copy_within(x->model, x->x + (to + t) * width, x->x + (from + t) * width,
				 (n - t < most ? n - t : most) * width);
	cpu_backend.move(&cpus, to, from, n);
}

static const float *cuda_show(struct step *s)
{
	(void)cuda_rows_to_cpu(s);
	return cpu_stream_rows(cuda_stream_of(s)->cpus);
}

static int cuda_failed(const struct environment *env, struct err *e)
{
	const struct err *why = &env->on_card->failure;
	if (why->code)
		*e = *why;
	return -why->code;
}

static bool cuda_holds(const struct environment *env, uint32_t routed, uint32_t expert)
{
	return !env->observer && cuda_experts_held(env->on_card, routed, expert);
}

/* The CPU moves on the states that are the GPU's otherwise. */
static void cuda_states_to_cpu(struct step *s)
{
	struct err lost;
	err_set(&lost, EIO, "a recurrent state on the GPU is lost");
	for (struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		struct context *x = span->context;
		if (span->n && x->recurrent.copy == RECURRENT_AWAY && !cuda_bring_state(s->env, x))
			cuda_fail(cuda_stream_of(s)->model, &lost);
		x->recurrent.copy = RECURRENT_NOT_COPIED;
	}
}

static void cuda_mix(struct step *s, uint32_t layer)
{
	struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_layer *l = &x->model->parts[layer];
	if (layer == 0)
		cuda_run_ahead(s);
	if (!x->ahead && !cuda_runs(s, layer, PART_MIXER)) {
		if (l->run[PART_MIXER]) /* somebody observes the step */
			cuda_states_to_cpu(s);
		cuda_run_on_cpu(s, layer, cpu_backend.mix);
		return;
	}
	if (!x->ahead) {
		cuda_place_rows(s);
		l->run[PART_MIXER](s, layer);
	}
	x->mixed = l[1].keyed;
	x->unsent = true;
	cuda_send_portion(s);
}

/* The step's keys and values are in the contexts. Copies have them, too, if the GPU computed them. */
static void cuda_settle(struct step *s)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_model *m = x->model;
	cuda_settle_layers(s);
	for (struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		if (!span->n || m->failure.code)
			continue;
		if (x->mixed == m->left.keyed)
			span->context->copy.valid = span->position + span->n;
		cuda_context_moved(m, span->context);
	}
	cuda_contexts_let_go(m, x->number);
}

/* Of the draft layer, which the CPU computes. */
static void cuda_mix_keys(struct step *s, uint32_t layer)
{
	cuda_run_on_cpu(s, layer, cpu_backend.mix_keys);
}

static void cuda_join(struct step *s, uint32_t first, const float *const *hidden, uint32_t n)
{
	struct step cpus = cuda_as_cpus(s);
	if (cuda_rows_to_cpu(s))
		cpu_backend.join(&cpus, first, hidden, n);
	cuda_stream_of(s)->on_gpu = false;
}

static void cuda_finish(struct step *s, uint32_t layer)
{
	(void)s;
	(void)layer;
}

const struct backend cuda_backend = {
	.computes = cuda_computes,
	.stream_make = cuda_stream_make,
	.stream_free = cuda_stream_free,
	.stream_bytes = cuda_stream_bytes,
	.scratch_make = cuda_scratch_make,
	.scratch_free = cuda_scratch_free,
	.scratch_bytes = cuda_scratch_bytes,
	.embed = cuda_embed,
	.begin = cuda_begin,
	.move = cuda_move,
	.show = cuda_show,
	.failed = cuda_failed,
	.settle = cuda_settle,
	.has_state = cuda_has_state,
	.bring_state = cuda_bring_state,
	.mix = cuda_mix,
	.mix_keys = cuda_mix_keys,
	.feed = cuda_feed,
	.finish = cuda_finish,
	.holds = cuda_holds,
	.feed_held = cuda_feed_held,
	.tell_choice = cuda_tell_choice,
	.route = cuda_route,
	.reweigh = cuda_reweigh,
	.guess = cuda_guess,
	.begin_experts = cuda_begin_experts,
	.wave = cuda_wave,
	.end_experts = cuda_end_experts,
	.end = cuda_end,
	.head = cuda_head,
	.largest = cuda_largest_logits,
	.logits = cuda_logits,
	.normed = cuda_normed,
	.join = cuda_join,
};
