/* Whole models in each format that weights are published in, used as they are: every matrix within
 * 2e-4 of the power of the exact product of its dequantised weights, and the same bits for any
 * number of threads, chunk, cache and kernel table. */
#include "affine_help.h"
#include "engine/cpu/product.h"
#include "gguf_convert.h"
#include "golden_run.h"
#include "memory_help.h"
#include "random.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[32], stores[64];

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	(void)snprintf(stores, sizeof stores, "%s/stores", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(folder);
	return 0;
}

/* ---- models ---- */

struct made {
	const char *name, *quant; /* quant: NULL, as published */
	bool again;		  /* the same format as another: only the file is new */
	char path[512], golden[600];
};

static struct golden_bench bench_of(const struct made *m, struct engine_options o)
{
	struct golden_bench b;
	o.store = stores;
	o.quant = m->quant;
	golden_bench_open(&b, m->path, m->golden, &o);
	return b;
}

static bool take_fixture(struct made *m, const char *fixture)
{
	const char *at = test_fixture(fixture);
	m->name = fixture;
	if (at)
		(void)snprintf(m->path, sizeof m->path, "%s", at);
	if (at)
		(void)snprintf(m->golden, sizeof m->golden, "%s/golden.safetensors", at);
	return at;
}

/* ---- products ---- */

static const double most_error = 2e-4; /* of the power */
enum { TOKENS = 32 };		       /* a gate has one row */

struct sums {
	double worst;
	uint32_t matrices, codes;
};

/* A few outliers, as in models. */
static void make_inputs(struct random *random, float *x, size_t n)
{
	random_normal(random, x, n);
	for (size_t i = 5; i < n; i += 61)
		x[i] *= 12;
}

/* y[TOKENS][rows], freed by the caller. */
static float *multiply(const struct golden_bench *b, const struct matrix *w, uint64_t seed)
{
	struct environment *env = &b->view.forward->env;
	struct random random = {seed};
	struct activation x;
	struct arena a = {0};
	activation_take(&a, &x, TOKENS, w->shape.cols);
	a = (struct arena){.memory = aligned_alloc(ARENA_ALIGNMENT, a.used)};
	float *y = calloc((size_t)TOKENS * w->shape.rows, sizeof *y);
	assert_true(a.memory && y);
	activation_take(&a, &x, TOKENS, w->shape.cols);
	make_inputs(&random, x.f, (size_t)TOKENS * w->shape.cols);
	product_run(env, &(struct product){y, w}, 1, &x, TOKENS);
	free(a.memory);
	return y;
}

static void compare_product(struct sums *s, const struct golden_bench *native,
			    const struct matrix *w, const struct golden_bench *exact,
			    const struct matrix *numbers)
{
	size_t n = (size_t)TOKENS * w->shape.rows;
	double error = 0, power = 0;
	assert_true(format_is_float(numbers->shape.format));
	if (format_is_float(w->shape.format))
		return;
	float *got = multiply(native, w, s->matrices),
	      *want = multiply(exact, numbers, s->matrices);
	for (size_t i = 0; i < n; i++) {
		double d = (double)got[i] - (double)want[i];
		error += d * d;
		power += (double)want[i] * (double)want[i];
	}
	free(got);
	free(want);
	s->matrices++;
	s->codes |= 1U << w->shape.format;
	if (error > most_error * power)
		fail_msg("a matrix in %s is off by %.1e of its power", format_name(w->shape.format),
			 error / power);
	if (error > s->worst * power)
		s->worst = error / power;
}

static void compare_weights(struct sums *s, const struct golden_bench *native,
			    const struct golden_bench *exact, const struct layer_weights *w,
			    const struct layer_weights *numbers)
{
	for (int role = 0; role < TENSOR_ROLES; role++)
		if (w->m[role].data)
			compare_product(s, native, &w->m[role], exact, &numbers->m[role]);
}

/* One in memory until it is put back. */
struct held {
	struct pager_batch batch;
	struct pager_ready ready;
};

static void hold(struct held *h, const struct golden_bench *b, uint32_t layer,
		 const uint32_t *expert)
{
	struct err e;
	assert_int_equal(pager_begin(&h->batch, b->view.experts, layer, expert, NULL, 1, 0, &e), 0);
	assert_int_equal(pager_next(&h->batch, &h->ready, 1, &e), 1);
}

static void put_back(struct held *h)
{
	pager_put(&h->batch, &h->ready);
	pager_end(&h->batch);
}

static struct matrix part_of(const struct held *h, const struct golden_bench *b, uint32_t layer,
			     uint32_t part)
{
	const struct plan_record *r = &b->view.plan->record[layer];
	return (struct matrix){r->computed[part],
			       (const uint8_t *)h->ready.data + r->slot_offset[part]};
}

static void compare_expert(struct sums *s, const struct golden_bench *native,
			   const struct golden_bench *exact, uint32_t layer, uint32_t expert)
{
	struct held a, b;
	hold(&a, native, layer, &expert);
	hold(&b, exact, layer, &expert);
	for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
		struct matrix w = part_of(&a, native, layer, part),
			      numbers = part_of(&b, exact, layer, part);
		compare_product(s, native, &w, exact, &numbers);
	}
	put_back(&a);
	put_back(&b);
}

/* All matrices, and the first and last expert of each layer. */
static struct sums compare_products(const struct made *m)
{
	struct golden_bench native = bench_of(m, (struct engine_options){.threads = 2}),
			    exact = bench_of(m, (struct engine_options){.threads = 2, .exact = 1});
	struct sums s = {0};
	const struct plan *p = native.view.plan;
	const struct weights *w = native.view.weights, *numbers = exact.view.weights;
	compare_weights(&s, &native, &exact, &w->once, &numbers->once);
	for (uint32_t layer = 0; layer < native.view.config->layers; layer++)
		compare_weights(&s, &native, &exact, &w->layer[layer], &numbers->layer[layer]);
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		for (uint32_t i = 0; i < 2; i++)
			compare_expert(&s, &native, &exact, layer, i * (p->experts - 1));
	golden_bench_close(&native);
	golden_bench_close(&exact);
	return s;
}

/* ---- bits ---- */

static void compare_tables(const struct made *m, const struct golden_run *first)
{
	struct golden_bench b = bench_of(m, (struct engine_options){.threads = 2});
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		b.view.forward->env.kernels = *k;
		context_rollback(&b.context, 0);
		struct golden_run r = golden_run_make(&b);
		golden_assert_same_bits(first, &r);
		golden_run_free(&r);
	}
	golden_bench_close(&b);
}

/* Each chunk and each number of threads once, two of them with one expert in memory. Under a
 * sanitizer only those two: more room or one thread takes no other path. */
static void compare_settings(const struct made *m)
{
	static const struct {
		uint32_t chunk, threads;
		bool small;
	} settings[] = {{7, 2, true}, {1, 4, true}, {64, 4, false}, {7, 1, false}};
	enum { ALL = sizeof settings / sizeof *settings, THESE = SANITIZED ? 2 : ALL };
	struct golden_bench b = bench_of(m, (struct engine_options){.chunk = 64, .threads = 1});
	struct golden_run first = golden_run_make(&b);
	const struct plan *p = b.view.plan;
	uint64_t one = p->routed_layers ? pager_slot_bytes(p->slot_bytes) : 0;
	golden_bench_close(&b);
	for (size_t i = 0; i < THESE; i++) {
		struct pager_stats stats;
		b = bench_of(m, (struct engine_options){
					.chunk = settings[i].chunk,
					.threads = settings[i].threads,
					.budget = settings[i].small ? one : 0,
				});
		struct golden_run r = golden_run_make(&b);
		golden_assert_same_bits(&first, &r);
		engine_cache_stats(b.engine, &stats);
		if (one && settings[i].small)
			assert_true(stats.peak <= one && stats.evictions > 0);
		golden_run_free(&r);
		golden_bench_close(&b);
	}
	if (!THREADS_WATCHED && !(SANITIZED && m->again))
		compare_tables(m, &first);
	golden_run_free(&first);
}

/* Under ThreadSanitizer only the first of a kind: for threads its formats are alike, and other
 * builds check the numbers. */
enum { ONE_OF_A_KIND = THREADS_WATCHED };

static void check(const struct made *m)
{
	struct sums s = {0};
	if (!ONE_OF_A_KIND)
		s = compare_products(m);
	assert_true(ONE_OF_A_KIND || s.codes);
	compare_settings(m);
	printf("%s: %u matrices, each off by at most %.1e of its power\n", m->name, s.matrices,
	       s.worst);
	test_folder_remove(stores);
}

/* ---- the formats ---- */

static bool find(const char *type, bool own, const char *ending, char path[512])
{
	char name[64];
	(void)snprintf(name, sizeof name, "fixtures/gguf/%s%s", type, ending);
	const char *at = own ? test_fixture("gguf") : shared_data(name);
	if (at)
		(void)snprintf(path, 512, own ? "%s/%s%s" : "%s", at, type, ending);
	return at;
}

static void every_type_of_gguf_files(void **state)
{
	(void)state;
	/* The first is in the repository. */
	static const char *const types[] = {"Q4_K_M", "Q8_0", "Q6_K", "Q3_K_M", "Q2_K",	  "Q4_0",
					    "Q4_1",   "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS", "IQ3_S"};
	for (size_t i = 0; i < (ONE_OF_A_KIND ? 1 : sizeof types / sizeof *types); i++) {
		struct made m = {.name = types[i]};
		if (find(types[i], i == 0, ".gguf", m.path) &&
		    find(types[i], i == 0, ".golden.safetensors", m.golden))
			check(&m);
	}
}

/* Q8_0 wherever the published converter would write it, and MXFP4. */
static void gguf_files_of_every_family(void **state)
{
	(void)state;
	static const struct gguf_conversion files[] = {
		{.fixture = "qwen3_moe", .architecture = "qwen3moe"},
		{.fixture = "qwen2", .architecture = "qwen2"},
		{.fixture = "qwen2_moe", .architecture = "qwen2moe"},
		{.fixture = "granitemoe", .architecture = "granitemoe"},
		{.fixture = "mixtral", .architecture = "llama"},
		{.fixture = "olmoe", .architecture = "olmoe"},
		{.fixture = "qwen3_5_moe", .architecture = "qwen35moe"},
		{.fixture = "qwen3_next", .architecture = "qwen3next"},
		{.fixture = "gpt_oss_mxfp4", .architecture = "gpt-oss"},
		{.fixture = "deepseek_v3", .architecture = "deepseek2"},
		{.fixture = "deepseek_v3", .architecture = "deepseek2", .fused = true},
		{.fixture = "glm4_moe", .architecture = "glm4moe"},
		{.fixture = "minimax_m2", .architecture = "minimax-m2"},
	};
	for (size_t i = 0; i < (ONE_OF_A_KIND ? 1 : sizeof files / sizeof *files); i++) {
		struct made m = {.again = i > 0};
		struct gguf_conversion c = files[i];
		c.type = "Q8_0";
		if (!take_fixture(&m, c.fixture))
			continue;
		m.name = c.architecture;
		test_gguf_convert(&c, folder, c.architecture, m.path);
		check(&m);
	}
}

static void mlx_codes_of_all_sizes(void **state)
{
	(void)state;
	/* If rows are not whole groups, an expert has floats and codes. */
	static const uint32_t kinds[][2] = {{2, 32}, {3, 64}, {4, 128}, {5, 32}, {6, 64}, {8, 32}};
	for (size_t i = 0; i < (ONE_OF_A_KIND ? 1 : sizeof kinds / sizeof *kinds); i++) {
		char name[32];
		struct made m = {0};
		assert_true(take_fixture(&m, "qwen3_moe"));
		(void)snprintf(name, sizeof name, "affine%u/%u", kinds[i][0], kinds[i][1]);
		(void)snprintf(m.path, sizeof m.path, "%s/affine%u", folder, kinds[i][0]);
		m.name = name;
		test_affine_make("qwen3_moe", kinds[i][0], kinds[i][1], m.path);
		check(&m);
	}
}

static void what_published_checkpoints_are_in(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_moe_mlx4", "gpt_oss_mxfp4", "tq3_native",
					       "tq3_native_sensitive4"};
	for (size_t i = 0; i < (ONE_OF_A_KIND ? 2 : sizeof fixtures / sizeof *fixtures); i++) {
		struct made m = {0};
		if (take_fixture(&m, fixtures[i]))
			check(&m);
	}
}

static void our_own_stores(void **state)
{
	(void)state;
	static const char *const recipes[] = {"tq2", "tq3", "tq4"};
	for (int i = 0; i < (ONE_OF_A_KIND ? 1 : 3); i++) {
		struct made m = {.quant = recipes[i]};
		assert_true(take_fixture(&m, "qwen3_moe"));
		m.name = recipes[i];
		check(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_of_gguf_files),
		cmocka_unit_test(gguf_files_of_every_family),
		cmocka_unit_test(mlx_codes_of_all_sizes),
		cmocka_unit_test(what_published_checkpoints_are_in),
		cmocka_unit_test(our_own_stores),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
