/* What the mixers of the 30 delta nets of Qwen3.6-35B-A3B take without their products, as one chain of
 * launches: for one token, for 16 contexts with one each, and for a prompt's rows. */
#include "tests/cuda/card_chain.h"
#include "tests/cuda/card_runner.h"

#include <stdio.h>

enum { LAYERS = 30, KEY_HEADS = 16, HEADS = 32, DIM = 128, WIDTH = 4, CONTEXTS = 16, ROWS = 512 };
enum { CHANNELS = (2 * KEY_HEADS + HEADS) * DIM, KEPT = 4 };
enum { STATE = HEADS * DIM * DIM + (WIDTH - 1) * CHANNELS + KEPT * (2 * CHANNELS + 2 * HEADS) };

/* A piece of memory that begins at *at. */
static void *card_delta_take(gpu_address *at, size_t bytes)
{
	void *piece = (void *)(uintptr_t)*at;
	*at += (bytes + 255) / 256 * 256;
	return piece;
}

/* The operands of a step of `contexts` contexts with n rows each. */
static struct cuda_delta card_delta_of(struct card *c, gpu_address at, uint32_t contexts, uint32_t n)
{
	static struct cuda_states states[CONTEXTS];
	static struct cuda_row rows[ROWS];
	struct cuda_delta p = {.n = contexts * n, .most = contexts, .key_heads = KEY_HEADS,
			       .value_heads = HEADS, .key_dim = DIM, .value_dim = DIM, .width = WIDTH,
			       .query_scale = 1, .length_eps = 1e-6F, .eps = 1e-6F};
	float *memory = card_delta_take(&at, (size_t)CONTEXTS * LAYERS * STATE * sizeof(float));
	struct err e;

	for (uint32_t i = 0; i < contexts; i++)
		states[i] = (struct cuda_states){memory + (size_t)i * LAYERS * STATE, i * n, n, n, 0};
	for (uint32_t t = 0; t < p.n; t++)
		rows[t].context = t / n;
	p.rows = card_delta_take(&at, sizeof rows);
	p.contexts = card_delta_take(&at, sizeof states);
	(void)card_copy_in(c, (uintptr_t)p.rows, rows, sizeof rows, &e);
	(void)card_copy_in(c, (uintptr_t)p.contexts, states, sizeof states, &e);
	float **const arrays[] = {&p.mixed, &p.out, &p.decay, &p.beta};
	const float **const inputs[] = {&p.in, &p.gate, &p.a, &p.b, &p.conv, &p.a_log, &p.dt_bias, &p.norm};
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		*arrays[i] = card_delta_take(&at, (size_t)ROWS * CHANNELS * sizeof(float));
	for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
		*inputs[i] = card_delta_take(&at, (size_t)ROWS * CHANNELS * sizeof(float));
	p.q = card_delta_take(&at, (size_t)ROWS * HEADS * DIM);
	p.scale = card_delta_take(&at, (size_t)ROWS * HEADS * sizeof(float));
	p.counts = cuda_delta_is_short(&p) ? card_delta_take(&at, (size_t)ROWS * HEADS * sizeof(float)) : NULL;
	cuda_fill_signs(&p.signs);
	return p;
}

/* Microseconds of the first `kernels` launches of a layer. */
static double card_delta_time(struct card *c, struct cuda_delta p, int kernels, bool early)
{
	const struct cuda_grid mix = cuda_delta_mix_grid(&p), steps = cuda_delta_steps_grid(&p),
			       outputs = cuda_delta_outputs_grid(&p);
	struct card_chain chain;

	card_chain_begin(&chain, c, early);
	for (uint32_t i = 0; i < LAYERS; i++) {
		p.at = (uint64_t)i * STATE;
		card_chain_add(&chain, cuda_delta_mix_number, mix, &p);
		if (kernels > 1)
			card_chain_add(&chain, cuda_delta_steps_kernel(&p), steps, &p);
		if (kernels > 2 && !p.counts)
			card_chain_add(&chain, cuda_delta_outputs_number, outputs, &p);
	}
	return card_chain_end(&chain) / LAYERS;
}

void card_measure_delta(struct card *c)
{
	static const struct {
		uint32_t contexts, n;
	} steps[] = {{1, 1}, {1, 4}, {CONTEXTS, 1}, {1, ROWS}};
	const size_t bytes = ((size_t)CONTEXTS * LAYERS * STATE + (size_t)ROWS * CHANNELS * 15) * sizeof(float);
	gpu_address memory = 0;
	struct err e;

	if (card_take(c, bytes, &memory, &e) || c->driver.fill(memory, 0x35, bytes, c->stream)) {
		printf("# no memory for delta nets\n");
		card_give(c, memory);
		return;
	}
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		const struct cuda_delta p = card_delta_of(c, memory, steps[i].contexts, steps[i].n);
		for (int kernels = 1; kernels <= 3; kernels++)
			printf("a delta net, %u contexts with %u rows, %d launches: %.2f (%.2f) us\n",
			       steps[i].contexts, steps[i].n, kernels,
			       card_delta_time(c, p, kernels, false), card_delta_time(c, p, kernels, true));
	}
	card_give(c, memory);
}
