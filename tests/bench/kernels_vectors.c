/* Functions on vectors of a hidden state's width, one thread, everything in the cache. */
#include "tests/bench/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 2048, HEAD = 128, HALF = HEAD / 2, REPEATS = 16 };

struct vectors {
	const struct kernels *kernels;
	float x[WIDTH], y[WIDTH], z[WIDTH]; /* z starts as what x was */
	float cosine[HALF], sine[HALF], scale[WIDTH / TQ_GROUP];
	_Alignas(64) int8_t q[WIDTH];
	_Alignas(64) uint16_t block[2 * HEAD * KV_BLOCK];
	void (*function)(struct vectors *v);
	double bytes; /* read and written by one call */
};

static void do_rmsnorm(struct vectors *v)
{
	v->kernels->rmsnorm(v->y, v->x, v->z, WIDTH, 1e-6F);
}
static void do_rope(struct vectors *v)
{
	for (size_t i = 0; i < WIDTH; i += HEAD)
		v->kernels->rope(v->x + i, v->cosine, v->sine, HALF);
}
/* Again and again in place would end in zeros or infinities. */
static void do_silu_mul(struct vectors *v)
{
	memcpy(v->x, v->z, sizeof v->x);
	v->kernels->silu_mul(v->x, v->z, WIDTH);
}
static void do_sigmoid_mul(struct vectors *v)
{
	memcpy(v->x, v->z, sizeof v->x);
	v->kernels->sigmoid_mul(v->x, v->z, WIDTH);
}
static void do_l2norm(struct vectors *v)
{
	for (size_t i = 0; i < WIDTH; i += HEAD)
		v->kernels->l2norm(v->y + i, v->x + i, HEAD, 1e-6F, 1);
}
static void do_softmax(struct vectors *v)
{
	memcpy(v->x, v->z, sizeof v->x);
	v->kernels->softmax(v->x, WIDTH);
}
static void do_add(struct vectors *v)
{
	memcpy(v->x, v->z, sizeof v->x);
	v->kernels->add(v->x, v->z, WIDTH);
}
static void do_add_scaled(struct vectors *v)
{
	v->kernels->add_scaled(v->y, 1e-6F, v->z, WIDTH);
}
static void do_prepare(struct vectors *v)
{
	v->kernels->tq_prepare(v->q, v->scale, v->z, WIDTH);
}
static void do_kv_put(struct vectors *v)
{
	for (uint32_t i = 0; i < WIDTH / HEAD; i++)
		v->kernels->kv_put(v->block, KV_F16, 0, (size_t)HEAD * KV_BLOCK, i,
				   v->z + (size_t)i * HEAD, v->z + (size_t)i * HEAD, HEAD, 0);
}

static const struct {
	const char *name;
	void (*function)(struct vectors *v);
	double bytes_per_element;
} functions[] = {
	{"rmsnorm", do_rmsnorm, 12},
	{"rope", do_rope, 8},
	{"l2norm", do_l2norm, 8},
	{"copy, sigmoid_mul", do_sigmoid_mul, 20},
	{"copy, silu_mul", do_silu_mul, 20},
	{"copy, softmax", do_softmax, 16},
	{"copy, add", do_add, 20},
	{"add_scaled", do_add_scaled, 12},
	{"tq_prepare", do_prepare, 5},
	{"kv_put, f16", do_kv_put, 12},
};

static double call(void *ctx, uint32_t thread)
{
	struct vectors *v = ctx;
	(void)thread;
	for (int i = 0; i < REPEATS; i++)
		v->function(v);
	return REPEATS;
}

static int measure_function(struct kernels_bench *b, struct vectors *v, size_t i, struct table *t,
			    struct err *e)
{
	double rates[ROUNDS_MOST], bytes = functions[i].bytes_per_element * WIDTH;
	fill_floats(v->z, sizeof v->z, FORMAT_F32);
	memcpy(v->x, v->z, sizeof v->x);
	memcpy(v->y, v->z, sizeof v->y);
	v->function = functions[i].function;
	for (size_t r = 0; r < b->effort.rounds; r++) {
		int failed = crew_rate(&rates[r], 1, b->effort.seconds, call, v, e);
		if (failed)
			return failed;
		rates[r] *= bytes * 1e-9;
	}
	struct summary s = summarise(rates, b->effort.rounds);
	table_text(t, v->kernels->name);
	table_text(t, functions[i].name);
	table_number(t, bytes * 1e-3 / s.median);
	table_summary(t, &s);
	return 0;
}

int bench_vectors(struct kernels_bench *b, struct err *e)
{
	static const struct column columns[] = {
		{"kernels", "kernels", -1},
		{"function", "function", -1},
		{"us", "µs", 2},
		{"gb_per_s", "GB/s", 1},
	};
	struct table t;
	struct vectors *v = aligned_alloc(64, (sizeof *v + 63) / 64 * 64);
	int failed = v ? 0 : err_set(e, ENOMEM, "out of memory for vectors");
	table_begin(&t, &b->report, "vectors",
		    "vectors of 2048, one thread, in the cache: bytes read and written", columns,
		    sizeof columns / sizeof *columns);
	for (size_t k = 0; b->table[k] && !failed; k++)
		for (size_t i = 0; i < sizeof functions / sizeof *functions && !failed; i++) {
			*v = (struct vectors){.kernels = b->table[k]};
			for (size_t h = 0; h < HALF; h++) /* a rotation by some angle */
				v->cosine[h] = .6F, v->sine[h] = .8F;
			failed = measure_function(b, v, i, &t, e);
		}
	table_end(&t);
	free(v);
	return failed;
}
