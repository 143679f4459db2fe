/* Products with matrices of an expert's shape, many of them one after the other, so that weights
 * come from memory as they do in a model, and inputs and outputs from the cache. */
#include "kernels/block.h"
#include "tests/bench/kernels.h"
#include "tests/unit/random_blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Outputs of a matrix: those of an expert's down projection, or of gate and up. */
enum { WIDE = 2048, NARROW = 768, GROUP = 64, THREADS_MOST = 1024 };

struct product {
	const struct kernels *kernels;
	struct shape shape;
	uint8_t *weights; /* count arranged matrices, each `bytes` long */
	size_t bytes, count, memory;
	struct input x;
	uint32_t tokens; /* of one call */
	float *f, *scale, *block_scale;
	int8_t *q, *block_q;
	int16_t *block_sum;
	float *y; /* [threads][tokens][rows] */
	uint32_t threads;
	size_t next[THREADS_MOST]; /* each thread's next matrix */
};

static void *aligned(size_t bytes)
{
	return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

/* A random matrix, arranged at `to`. TQ norms are those of weights about 1 / √columns, scales of
 * blocks about 1. */
static int make_matrix(void *to, const struct shape *s, struct err *e)
{
	size_t packed_bytes = format_packed_bytes(s), norm_bytes = format_norm_bytes(s);
	uint8_t *packed = aligned(packed_bytes), *norms = aligned(norm_bytes + 1),
		*biases = aligned(format_bias_bytes(s) + 1);
	bool made = packed && norms && biases;
	if (made && format_is_tq(s->format)) {
		random_bytes(packed, packed_bytes / 8 * 8, 1);
		memset(norms, 0x34, norm_bytes); /* F16: 0.26 */
	} else if (made && format_is_block(s->format)) {
		random_blocks(&(struct random){1}, s, packed, norms, biases);
	} else if (made) {
		fill_floats(packed, packed_bytes / 8 * 8, s->format);
	}
	if (made)
		format_arrange(to, s, 0, s->rows, &(struct pieces){packed, norms, biases});
	free(packed);
	free(norms);
	free(biases);
	return made ? 0 : err_set(e, ENOMEM, "out of memory for a matrix");
}

static int make_weights(struct product *p, uint64_t memory, struct err *e)
{
	p->bytes = format_arranged_bytes(&p->shape);
	p->count = memory / p->bytes + p->threads;
	p->memory = p->count * p->bytes;
	p->weights = buffer_allocate(p->memory, e);
	int failed = p->weights ? make_matrix(p->weights, &p->shape, e) : -ENOMEM;
	for (size_t i = 1; i < p->count && !failed; i++)
		memcpy(p->weights + i * p->bytes, p->weights, p->bytes);
	return failed;
}

/* Inputs for the most tokens, in every form; outputs for each thread. */
static int make_inputs(struct product *p, uint32_t tokens, struct err *e)
{
	size_t k = p->shape.cols, groups = tq_groups(p->shape.cols);
	size_t f_bytes = (tokens * k * sizeof *p->f + 63) / 64 * 64;
	p->f = aligned(f_bytes);
	p->q = aligned(tokens * groups * TQ_GROUP);
	p->scale = aligned(tokens * groups * sizeof *p->scale);
	p->block_q = aligned(tokens * k);
	p->block_scale = aligned(tokens * (k / BLOCK) * sizeof *p->block_scale);
	p->block_sum = aligned(tokens * (k / HALF_BLOCK) * sizeof *p->block_sum);
	p->y = aligned((size_t)p->threads * tokens * p->shape.rows * sizeof *p->y);
	if (!p->f || !p->q || !p->scale || !p->block_q || !p->block_scale || !p->block_sum || !p->y)
		return err_set(e, ENOMEM, "out of memory for %u tokens", tokens);
	fill_floats(p->f, f_bytes, FORMAT_F32);
	for (size_t t = 0; t < tokens; t++)
		kernels_best()->tq_prepare(p->q + t * groups * TQ_GROUP, p->scale + t * groups,
					   p->f + t * k, p->shape.cols);
	for (size_t t = 0; format_is_block(p->shape.format) && t < tokens; t++)
		kernels_best()->block_prepare(p->block_q + t * k, p->block_scale + t * (k / BLOCK),
					      p->block_sum + t * (k / HALF_BLOCK), p->f + t * k,
					      p->shape.cols);
	p->x = (struct input){.k = p->shape.cols,
			      .f = p->f,
			      .q = p->q,
			      .scale = p->scale,
			      .block = {p->block_q, p->block_scale, p->block_sum}};
	return 0;
}

static void free_product(struct product *p)
{
	buffer_free(p->weights, p->memory);
	free(p->f);
	free(p->q);
	free(p->scale);
	free(p->block_q);
	free(p->block_scale);
	free(p->block_sum);
	free(p->y);
}

static double multiply_one(void *ctx, uint32_t thread)
{
	struct product *p = ctx;
	size_t rows = p->shape.rows, i = p->next[thread];
	const struct matrix w = {p->shape, p->weights + i * p->bytes};
	p->kernels->multiply[p->shape.format](p->y + (size_t)thread * p->tokens * rows, rows, &w, 0,
					      p->shape.rows, &p->x, NULL, p->tokens);
	p->next[thread] = i + p->threads < p->count ? i + p->threads : thread;
	return 1;
}

/* One row of the table. One token's ceiling is memory, that of more is arithmetic. */
static int measure_product(struct kernels_bench *b, struct product *p, uint32_t threads,
			   struct table *t, struct err *e)
{
	static const char *const names[] = {
		[PEAK_INT8] = "int8", [PEAK_FP32] = "FP32", [CEILING_READ] = "memory"};
	struct beside got;
	double gb = (double)p->bytes * 1e-9, gop = 2e-9 * p->shape.rows * p->shape.cols * p->tokens;
	uint32_t ceiling = p->tokens == 1				   ? CEILING_READ
			   : format_input(p->shape.format) != INPUT_FLOATS ? PEAK_INT8
									   : PEAK_FP32;
	for (uint32_t i = 0; i < threads; i++)
		p->next[i] = i;
	p->threads = threads;
	int failed = measure_beside(b, threads, ceiling, multiply_one, p,
				    1e9 * (ceiling == CEILING_READ ? gb : gop), &got, e);
	if (failed)
		return failed;
	double calls = got.rate.median / (1e9 * (ceiling == CEILING_READ ? gb : gop));
	table_text(t, p->kernels->name);
	table_text(t, format_name(p->shape.format));
	table_number(t, p->shape.cols);
	table_number(t, p->shape.rows);
	table_number(t, threads);
	table_number(t, p->tokens);
	table_number(t, calls * gb);
	table_number(t, calls * gop);
	table_text(t, names[ceiling]);
	table_summary(t, &got.percent);
	return 0;
}

static int measure_tables(struct kernels_bench *b, struct product *p, struct table *t,
			  struct err *e)
{
	int failed = 0;
	for (size_t k = 0; b->table[k]; k++)
		for (uint32_t h = 0; h < b->threads.count; h++)
			for (uint32_t n = 0; n < b->tokens.count && !failed; n++) {
				p->kernels = b->table[k];
				p->tokens = b->tokens.value[n];
				failed = measure_product(b, p, b->threads.value[h], t, e);
			}
	return failed;
}

static int measure_shape(struct kernels_bench *b, enum format format, uint32_t cols,
			 struct table *t, struct err *e)
{
	uint32_t most = 0;
	struct product p = {
		.shape = {.format = format,
			  .rows = cols < WIDE ? WIDE : NARROW,
			  .cols = cols,
			  .group = GROUP},
		.threads = (uint32_t)b->effort.threads,
	};
	for (uint32_t n = 0; n < b->tokens.count; n++)
		most = b->tokens.value[n] > most ? b->tokens.value[n] : most;
	int failed = make_weights(&p, b->memory, e);
	if (!failed)
		failed = make_inputs(&p, most, e);
	if (!failed)
		failed = measure_tables(b, &p, t, e);
	free_product(&p);
	return failed;
}

int bench_multiply(struct kernels_bench *b, struct err *e)
{
	static const struct column columns[] = {
		{"kernels", "kernels", -1}, {"format", "format", -1},  {"columns", "columns", 0},
		{"rows", "rows", 0},	    {"threads", "threads", 0}, {"tokens", "tokens", 0},
		{"gb_per_s", "GB/s", 2},    {"gop_per_s", "GOP/s", 1}, {"ceiling", "of", -1},
		{"percent", "%", 1},
	};
	struct table t;
	int failed = 0;
	table_begin(&t, &b->report, "multiply",
		    "products: weights as they lie in memory, 2 operations per weight and token",
		    columns, sizeof columns / sizeof *columns);
	for (int f = 0; f < FORMAT_COUNT; f++)
		for (uint32_t c = 0; c < b->columns.count && !failed; c++) {
			struct shape s = {.format = (enum format)f, .group = GROUP};
			if (name_listed(b->formats, format_name(s.format)) &&
			    kernels_scalar.multiply[f] &&
			    b->columns.value[c] % format_block_cols(&s) == 0)
				failed = measure_shape(b, s.format, b->columns.value[c], &t, e);
		}
	table_end(&t);
	return failed;
}
