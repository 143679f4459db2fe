/* One token's attention over a context, for the 8 query heads of 128 that share a key-value head in
 * Qwen3-30B-A3B. Contexts of many key-value heads follow each other, so that keys and values come
 * from memory where a model's would. With 8 query heads arithmetic is the ceiling: 4 operations per
 * head and element. */
#include "tests/bench/kernels.h"

#include <errno.h>
#include <stdlib.h>

enum { HEADS = 8, HEAD_DIM = 128, THREADS_MOST = 1024 };

struct look_back {
	const struct kernels *kernels;
	struct attention attention;
	uint8_t *memory;
	const void **blocks; /* of all contexts */
	size_t bytes, block_bytes, blocks_each, contexts;
	float *q, *out; /* [HEADS][HEAD_DIM], out for each thread */
	size_t next[THREADS_MOST];
	uint32_t threads;
};

static int make_contexts(struct look_back *l, uint64_t memory, uint32_t threads, struct err *e)
{
	enum kv_type type = l->attention.type;
	size_t keys = kv_key_bytes(type, HEAD_DIM, 0);
	l->attention.value_offset = keys / kv_type_element(type);
	l->block_bytes = keys + kv_value_bytes(type, HEAD_DIM);
	l->blocks_each = (l->attention.length + KV_BLOCK - 1) / KV_BLOCK;
	l->contexts = memory / (l->blocks_each * l->block_bytes) + threads;
	size_t count = l->contexts * l->blocks_each, vector = sizeof(float) * HEADS * HEAD_DIM;
	l->bytes = count * l->block_bytes;
	l->memory = buffer_allocate(l->bytes, e);
	if (!l->memory)
		return -ENOMEM;
	l->blocks = calloc(count, sizeof *l->blocks);
	l->q = aligned_alloc(64, vector);
	l->out = aligned_alloc(64, vector * threads);
	if (!l->blocks || !l->q || !l->out)
		return err_set(e, ENOMEM, "out of memory for %zu blocks", count);
	/* Bytes of floats do as codes; scales are floats. */
	fill_floats(l->memory, l->bytes, type == KV_F32 ? FORMAT_F32 : FORMAT_F16);
	fill_floats(l->q, vector, FORMAT_F32);
	for (size_t i = 0; i < count; i++)
		l->blocks[i] = l->memory + i * l->block_bytes;
	return 0;
}

static void free_contexts(struct look_back *l)
{
	buffer_free(l->memory, l->bytes);
	free(l->blocks);
	free(l->q);
	free(l->out);
}

static double attend_one(void *ctx, uint32_t thread)
{
	struct look_back *l = ctx;
	size_t i = l->next[thread];
	struct attention a = l->attention;
	a.blocks = l->blocks + i * l->blocks_each;
	l->kernels->attend(l->out + (size_t)thread * HEADS * HEAD_DIM, l->q, &a);
	l->next[thread] = i + l->threads < l->contexts ? i + l->threads : thread;
	return 1;
}

static int measure_attend(struct kernels_bench *b, struct look_back *l, uint32_t threads,
			  struct table *t, struct err *e)
{
	struct beside got;
	double gop = 4e-9 * HEADS * HEAD_DIM * l->attention.length;
	double gb = (double)l->block_bytes / KV_BLOCK * l->attention.length * 1e-9;
	l->threads = threads;
	for (uint32_t i = 0; i < threads; i++)
		l->next[i] = i;
	int failed = measure_beside(b, threads, PEAK_FP32, attend_one, l, 1e9 * gop, &got, e);
	if (failed)
		return failed;
	double calls = got.rate.median * 1e-9 / gop;
	table_text(t, l->kernels->name);
	table_text(t, kv_type_name(l->attention.type));
	table_number(t, l->attention.length);
	table_number(t, threads);
	table_number(t, 1e6 * threads / calls);
	table_number(t, calls * gb);
	table_number(t, calls * gop);
	table_summary(t, &got.percent);
	return 0;
}

static int measure_length(struct kernels_bench *b, enum kv_type type, uint32_t length,
			  struct table *t, struct err *e)
{
	struct look_back l = {
		.attention = {.type = type,
			      .head_dim = HEAD_DIM,
			      .heads = HEADS,
			      .length = length,
			      .scale = .0884F}, /* 128^-0.5 */
	};
	int failed = make_contexts(&l, b->memory, (uint32_t)b->effort.threads, e);
	for (size_t k = 0; b->table[k]; k++)
		for (uint32_t h = 0; h < b->threads.count && !failed; h++) {
			l.kernels = b->table[k];
			failed = measure_attend(b, &l, b->threads.value[h], t, e);
		}
	free_contexts(&l);
	return failed;
}

int bench_attention(struct kernels_bench *b, struct err *e)
{
	static const struct column columns[] = {
		{"kernels", "kernels", -1},
		{"cache", "cache", -1},
		{"positions", "positions", 0},
		{"threads", "threads", 0},
		{"us", "µs", 1},
		{"gb_per_s", "GB/s", 2},
		{"gop_per_s", "GOP/s", 1},
		{"fp32_percent", "% of FP32", 1},
	};
	static const enum kv_type types[] = {KV_F16, KV_F32, KV_Q8, KV_Q8Q4, KV_Q4};
	struct table t;
	int failed = 0;
	table_begin(&t, &b->report, "attention",
		    "attention: one token, 8 query heads of 128 on one key-value head", columns,
		    sizeof columns / sizeof *columns);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (uint32_t p = 0; p < b->positions.count && !failed; p++)
			failed = measure_length(b, types[i], b->positions.value[p], &t, e);
	table_end(&t);
	return failed;
}
