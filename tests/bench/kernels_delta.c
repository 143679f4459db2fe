/* A gated delta net as Qwen3.6-35B-A3B has it: 32 value heads with a state of 128 × 128 in each of
 * 30 layers, and a convolution of 8192 channels over 4 tokens. States, and the convolution's
 * weights and inputs, follow each other through more memory than the caches hold, as a model's do.
 */
#include "tests/bench/kernels.h"

#include <errno.h>
#include <stdlib.h>

enum {
	LAYERS = 30,
	HEADS = 32,
	DIM = 128,
	STATE = DIM * DIM, /* floats */
	TOKENS_MOST = 64,
	CHANNELS = 8192,
	WIDTH = 4,
	CONVOLUTION = 2 * WIDTH * CHANNELS, /* floats: weights and inputs */
	MEMORY_BOUND = 4,		    /* tokens: of more, arithmetic is the ceiling */
	UPDATED = 4096,			    /* floats at a time */
	THREADS_MOST = 1024,
};

/* Of a token: query, key, value, the decays of all rows, what these are made of, and a factor. */
enum { INPUTS = 5 * DIM + 1 };

struct net {
	const struct kernels *kernels;
	float *memory;
	size_t bytes, states;
	float *inputs; /* [TOKENS_MOST][INPUTS]; read by all */
	float *out;    /* for each thread [CHANNELS] */
	float *decays; /* for each thread [DIM] */
	enum delta_rule rule;
	uint32_t tokens, threads;
	size_t next[THREADS_MOST];
};

/* ---- the ceiling: every float read, and written back ---- */

struct update {
	const struct kernels *kernels;
	float *memory, *zeros;
	size_t part; /* of each thread, in pieces of UPDATED */
	size_t next[THREADS_MOST];
};

static double update_one(void *ctx, uint32_t thread)
{
	struct update *u = ctx;
	size_t i = thread * u->part + u->next[thread];
	u->kernels->add_scaled(u->memory + i * UPDATED, 0, u->zeros, UPDATED);
	u->next[thread] = (u->next[thread] + 1) % u->part;
	return 2. * UPDATED * sizeof(float);
}

int measure_update(const struct kernels_bench *b, uint32_t threads, double *rate, struct err *e)
{
	struct update u = {
		.kernels = kernels_best(),
		.memory = (float *)(void *)b->ceiling.memory,
		.zeros = calloc(UPDATED, sizeof(float)),
		.part = b->ceiling.bytes / (UPDATED * sizeof(float)) / threads,
	};
	int failed = u.zeros ? 0 : err_set(e, ENOMEM, "out of memory for zeros");
	if (!failed)
		failed = crew_rate(rate, threads, b->effort.seconds, update_one, &u, e);
	free(u.zeros);
	return failed;
}

/* ---- what is measured ---- */

/* Each thread goes through a part of its own, in order. */
static size_t next_of(struct net *net, uint32_t thread, size_t count)
{
	size_t part = count / net->threads, i = net->next[thread];
	net->next[thread] = (i + 1) % part;
	return thread * part + i;
}

static double step(void *ctx, uint32_t thread)
{
	struct net *net = ctx;
	size_t stride = INPUTS;
	const struct delta d = {
		.rule = net->rule,
		.key_dim = DIM,
		.value_dim = DIM,
		.n = net->tokens,
		.commit = net->tokens,
		.state = net->memory + next_of(net, thread, net->states) * STATE,
		.q = net->inputs,
		.k = net->inputs + DIM,
		.key_stride = stride,
		.v = net->inputs + (size_t)2 * DIM,
		.value_stride = stride,
		.decay = net->inputs + (size_t)3 * DIM,
		.beta = net->inputs + (size_t)5 * DIM,
		.decay_stride = stride,
		.beta_stride = stride,
		.out = net->out + (size_t)thread * CHANNELS,
		.out_stride = DIM,
	};
	for (size_t t = 0; t < net->tokens && net->rule == DELTA_REPLACES_BY_ROW; t++)
		net->kernels->delta_decay(net->decays + (size_t)thread * DIM,
					  net->inputs + t * stride + (size_t)4 * DIM, net->inputs,
					  .5F, DIM);
	net->kernels->delta_steps(&d, 0, DIM);
	return 1;
}

static double convolve(void *ctx, uint32_t thread)
{
	struct net *net = ctx;
	size_t count = net->bytes / sizeof(float) / CONVOLUTION;
	const float *w = net->memory + next_of(net, thread, count) * CONVOLUTION;
	const float *taps[WIDTH];
	for (size_t i = 0; i < WIDTH; i++)
		taps[i] = w + (WIDTH + i) * CHANNELS;
	net->kernels->conv_silu(net->out + (size_t)thread * CHANNELS, w, NULL, taps, WIDTH,
				CHANNELS, 0,
				CHANNELS);
	return 1;
}

static int make_net(struct net *net, uint32_t threads, struct err *e)
{
	size_t most = sizeof(float) * CONVOLUTION * threads; /* one for each, at least */
	net->states = (size_t)LAYERS * HEADS;
	net->bytes = sizeof(float) * STATE * net->states;
	if (net->bytes < most)
		net->bytes = most;
	net->states = net->bytes / sizeof(float) / STATE;
	net->memory = buffer_allocate(net->bytes, e);
	if (!net->memory)
		return -ENOMEM;
	net->inputs = aligned_alloc(64, (sizeof(float) * TOKENS_MOST * INPUTS / 64 + 1) * 64);
	net->out = aligned_alloc(64, sizeof(float) * CHANNELS * threads);
	net->decays = aligned_alloc(64, sizeof(float) * DIM * threads);
	if (!net->inputs || !net->out || !net->decays)
		return err_set(e, ENOMEM, "out of memory for %u threads", threads);
	fill_floats(net->memory, net->bytes, FORMAT_F32);
	fill_floats(net->inputs, sizeof(float) * TOKENS_MOST * INPUTS, FORMAT_F32);
	for (size_t t = 0; t < TOKENS_MOST; t++) {
		float *x = net->inputs + t * INPUTS;
		kernels_scalar.l2norm(x, x, DIM, 0, 1);
		kernels_scalar.l2norm(x + DIM, x + DIM, DIM, 0, 1);
		for (size_t i = 0; i < DIM; i++)
			x[3 * DIM + i] = .9F;
		x[5 * DIM] = .5F;
	}
	return 0;
}

static void free_net(struct net *net)
{
	buffer_free(net->memory, net->bytes);
	free(net->inputs);
	free(net->out);
	free(net->decays);
}

/* One row of the table: `bytes` and `operations` are those of one call of `piece`. */
static int measure_piece(struct kernels_bench *b, struct net *net, const char *function,
			 piece_fn *piece, uint32_t ceiling, double bytes, double operations,
			 struct table *t, struct err *e)
{
	static const char *const names[] = {
		[PEAK_FP32] = "FP32", [CEILING_READ] = "read", [CEILING_UPDATE] = "read and write"};
	double scale = ceiling == PEAK_FP32 ? operations : bytes;
	struct beside got;
	for (uint32_t i = 0; i < net->threads; i++)
		net->next[i] = 0;
	int failed = measure_beside(b, net->threads, ceiling, piece, net, scale, &got, e);
	if (failed)
		return failed;
	double calls = got.rate.median / scale;
	table_text(t, net->kernels->name);
	table_text(t, function);
	table_number(t, net->tokens);
	table_number(t, net->threads);
	table_number(t, 1e6 * net->threads / calls);
	table_number(t, calls * bytes * 1e-9);
	table_number(t, calls * operations * 1e-9);
	table_text(t, names[ceiling]);
	table_summary(t, &got.percent);
	return 0;
}

/* The state counts once in each direction. Per element a multiplication and three fused
 * multiply-adds, or two where values are only added; making decays counts as nothing. */
static int measure_steps(struct kernels_bench *b, struct net *net, struct table *t, struct err *e)
{
	static const uint32_t tokens[] = {1, 2, 3, MEMORY_BOUND, TOKENS_MOST};
	static const char *const names[DELTA_RULES] = {
		[DELTA_REPLACES] = "delta_steps",
		[DELTA_REPLACES_BY_ROW] = "by row, with delta_decay",
		[DELTA_ADDS] = "only adding"};
	static const double operations[DELTA_RULES] = {7, 7, 5};
	enum { TOKENS = sizeof tokens / sizeof *tokens };
	int failed = 0;
	for (uint32_t i = 0; i < TOKENS * DELTA_RULES && !failed; i++) {
		net->tokens = tokens[i / DELTA_RULES];
		net->rule = (enum delta_rule)(i % DELTA_RULES);
		failed = measure_piece(b, net, names[net->rule], step,
				       net->tokens <= MEMORY_BOUND ? CEILING_UPDATE : PEAK_FP32,
				       2. * STATE * sizeof(float),
				       operations[net->rule] * STATE * net->tokens, t, e);
	}
	return failed;
}

static int measure_tables(struct kernels_bench *b, struct net *net, struct table *t, struct err *e)
{
	int failed = 0;
	for (size_t k = 0; b->table[k]; k++)
		for (uint32_t h = 0; h < b->threads.count && !failed; h++) {
			net->kernels = b->table[k];
			net->threads = b->threads.value[h];
			failed = measure_steps(b, net, t, e);
			net->tokens = 1;
			if (!failed)
				failed = measure_piece(b, net, "conv_silu", convolve, CEILING_READ,
						       CONVOLUTION * sizeof(float),
						       2. * WIDTH * CHANNELS, t, e);
		}
	return failed;
}

int bench_delta(struct kernels_bench *b, struct err *e)
{
	static const struct column columns[] = {
		{"kernels", "kernels", -1},
		{"function", "function", -1},
		{"tokens", "tokens", 0},
		{"threads", "threads", 0},
		{"us", "µs", 2},
		{"gb_per_s", "GB/s", 1},
		{"gop_per_s", "GOP/s", 1},
		{"ceiling", "of", -1},
		{"percent", "%", 1},
	};
	struct net net = {0};
	struct table t;
	table_begin(&t, &b->report, "delta",
		    "delta nets and their like: one value head of 128 × 128, or 8192 channels over 4 tokens",
		    columns, sizeof columns / sizeof *columns);
	int failed = make_net(&net, (uint32_t)b->effort.threads, e);
	if (!failed)
		failed = measure_tables(b, &net, &t, e);
	table_end(&t);
	free_net(&net);
	return failed;
}
