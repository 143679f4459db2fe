/* All layers of a step as one sequence of launches. A step of few rows takes as long as its launches, which
 * cost less if the driver knows them: they are noted once for each number of rows and played again and
 * again. What differs from step to step (tokens, positions, blocks, where experts lie) is in GPU
 * memory. See cuda_arrays.h.
 *
 * Only a step that needs nobody in between is computed so: the GPU holds all experts, and nobody looks
 * at the router's choice or the stream. */
#include "engine/cuda/cuda_arrays.h"

static bool cuda_can_run_ahead(const struct step *s)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	const struct config *c = s->env->config;
	bool can = x->model->whole && s->n <= CUDA_SEQUENCE_ROWS && !s->env->tap &&
		   !s->env->observer;
	for (uint32_t layer = 0; layer < c->layers && can; layer++)
		can = !config_routed(c, layer) || cuda_can_feed(s, layer);
	return can;
}

/* The spans that a sequence has room for: few different numbers, as a text grows. */
static uint32_t cuda_rounded(uint32_t spans)
{
	uint32_t room = 1;
	while (room < spans)
		room *= 2;
	return room;
}

/* The sequence for such a step; or, to be made, the one that was used longest ago. */
static struct cuda_sequence *cuda_find_sequence(struct cuda_scratch *k, const struct cuda_stream *x)
{
	struct cuda_sequence *oldest = k->sequence;
	for (struct cuda_sequence *q = k->sequence; q < k->sequence + CUDA_SEQUENCES; q++) {
		if (q->launches && q->stream == x->number && q->n == x->n && q->spans == x->spans)
			return q;
		if (q->used < oldest->used)
			oldest = q;
	}
	cuda_free_sequence(k, oldest);
	return oldest;
}

static void cuda_note_layers(struct step *s)
{
	const struct cuda_layer *parts = cuda_stream_of(s)->model->parts;
	for (uint32_t layer = 0; layer < s->env->config->layers; layer++)
		for (enum layer_part part = 0; part < LAYER_PARTS; part++)
			if (parts[layer].run[part])
				parts[layer].run[part](s, layer);
}

static void cuda_make_sequence(struct step *s, struct cuda_sequence *q)
{
	struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_model *m = x->model;
	struct err e;
	if (m->failure.code || card_record(&m->card, &m->failure))
		return;
	cuda_note_layers(s);
	int failed = card_recorded(&m->card, &q->launches, &e);
	if (failed)
		cuda_fail(m, &e);
	q->pending = cuda_scratch_of(s)->pending;
	q->x = x->x;
	q->stream = x->number;
	q->n = x->n;
	q->spans = x->spans;
}

void cuda_run_ahead(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	struct cuda_scratch *k = cuda_scratch_of(s);
	if (!cuda_can_run_ahead(s))
		return;
	cuda_place_rows(s); /* this, and what follows, is no part of the sequence */
	cuda_rows_to_gpu(s);
	cuda_flush(k); /* another pass's */
	x->spans = cuda_rounded(x->spans);
	struct cuda_sequence *q = cuda_find_sequence(k, x);
	if (!q->launches)
		cuda_make_sequence(s, q);
	q->used = x->model->steps;
	if (!x->model->failure.code)
		(void)card_play(&x->model->card, q->launches, &x->model->failure);
	k->pending = q->pending;
	x->x = q->x;
	x->in_cpus = false;
	x->ahead = true;
}
