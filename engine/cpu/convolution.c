/* The short convolution with two gates of LFM2 (Liquid AI 2025): a mixer that sees only the last few
 * tokens. See layers.h.
 *
 * One projection gives the gate of the input, the gate of the output and the value, [hidden] each.
 * The value times its gate passes a causal convolution, whose output is multiplied by the other
 * gate. */
#include "engine/cpu/layers.h"
#include "engine/cpu/recurrent_rows.h"

void convolution_take(struct convolution_scratch *x, struct arena *arena, const struct config *c,
		      size_t rows)
{
	x->projected = arena_take(arena, rows * 3 * c->hidden_size, sizeof *x->projected);
	x->in = arena_take(arena, rows * c->hidden_size, sizeof *x->in);
	activation_take(arena, &x->gated, rows, c->hidden_size);
}

static void convolution_gate_inputs(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct convolution_scratch *scratch = &rows->step->scratch->convolution;
	size_t width = rows->shape.channels;
	for (size_t r = begin; r < end; r++) {
		const float *gate = scratch->projected + r * 3 * width, *x = gate + 2 * width;
		float *in = scratch->in + r * width;
		for (size_t i = 0; i < width; i++)
			in[i] = gate[i] * x[i];
	}
}

static void convolution_mix_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct convolution_scratch *scratch = &rows->step->scratch->convolution;
	const struct kernels *k = rows->step->env->kernels;
	uint32_t width = rows->shape.channels;
	for (uint32_t r = begin; r < end; r++) {
		const float *taps[CONV_WIDTH];
		const float *gate = scratch->projected + ((size_t)r * 3 + 1) * width;
		float *y = scratch->gated.f + (size_t)r * width;
		recurrent_rows_taps(rows, r, taps);
		k->conv(y, weights_vector(rows->weights, TENSOR_CONVOLUTION_TAPS), NULL, taps,
			rows->shape.width, width, 0, width);
		for (size_t i = 0; i < width; i++)
			y[i] *= gate[i];
	}
}

void convolution_run(struct step *s, uint32_t layer)
{
	struct convolution_scratch *x = &s->scratch->convolution;
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	const float *const parts[RECURRENT_PARTS] = {x->in};
	struct recurrent_rows rows = recurrent_rows_of(s, layer, parts);
	product_run(env, &(struct product){x->projected, &l->m[TENSOR_CONVOLUTION_IN]}, 1,
		    &s->scratch->normed, s->n);
	threads_run(env->threads, s->n, 1, convolution_gate_inputs, &rows);
	threads_run(env->threads, s->n, 1, convolution_mix_rows, &rows);
	recurrent_rows_keep(&rows);
	activation_changed(&x->gated);
	product_run(env, &(struct product){s->scratch->out, &l->m[TENSOR_CONVOLUTION_OUT]}, 1,
		    &x->gated, s->n);
}
