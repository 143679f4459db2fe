/* Entries that are made of several positions: those of compressed attention are the reference's after a
 * prompt, whatever the chunks, and after going back. */
#include "engine/compute/context.h"
#include "golden_run.h"
#include "memory_help.h"
#include "store_help.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

static bool bench_open(struct golden_bench *b, uint32_t chunk)
{
	char path[512], golden[600];
	const char *fixture = test_fixture("deepseek_v4");
	if (!fixture)
		return false;
	snprintf(path, sizeof path, "%s", fixture);
	snprintf(golden, sizeof golden, "%s/golden.safetensors", path);
	golden_bench_open(b, path, golden,
			  &(struct engine_options){
				  .exact = 1, .threads = 2, .chunk = chunk, .store = test_folder});
	return true;
}

/* Entry number i of a layer, out of its block. */
static void take_entry(const struct golden_bench *b, const struct layer *l, uint32_t i, float *to)
{
	size_t last = (size_t)(i + 1) * l->pool - 1, columns = context_entry_columns(l->pool);
	const float *keys = context_entries(&b->context, l->entries_at, last);
	for (uint32_t d = 0; d < l->head_dim; d++)
		to[d] = keys[d * columns + context_entry_column(l->pool, last)];
}

static void compare_entries(const struct golden_bench *b)
{
	uint32_t compared = 0;
	for (uint32_t layer = 0; layer < b->view.config->layers; layer++) {
		const struct layer *l = &b->view.config->layer[layer];
		char name[64];
		if (!l->pool)
			continue;
		snprintf(name, sizeof name, "extra.compressed.%u", layer);
		struct golden_tensor t = golden_get(b->golden, name, "F32");
		float *got = golden_array(t.count);
		for (uint32_t i = 0; i < t.shape[0]; i++)
			take_entry(b, l, i, got + (size_t)i * l->head_dim);
		golden_compare_rows(name, got, t.data, t.shape[0], l->head_dim);
		compared += (uint32_t)t.shape[0];
		free(got);
	}
	assert_int_equal(compared, 2 + 9 + 9);
}

static void compute_from(struct golden_bench *b, uint32_t held)
{
	struct golden_tensor ids = golden_get(b->golden, "input_ids", "I32");
	uint32_t n = (uint32_t)ids.count - held;
	float *logits = golden_array((size_t)n * b->view.config->vocabulary);
	golden_compute(b, (const int32_t *)ids.data + held, n, logits);
	free(logits);
}

static void entries_are_the_references_for_any_chunks(void **state)
{
	(void)state;
	static const uint32_t chunks[] = {1, 3, 7, 16, 64};
	for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
		struct golden_bench b;
		if (!bench_open(&b, chunks[i]))
			skip();
		compute_from(&b, 0);
		compare_entries(&b);
		golden_bench_close(&b);
	}
}

/* Where one goes back to, a pool is open: what it is made of is still there. */
static void going_back_into_a_pool_makes_the_same_entries(void **state)
{
	(void)state;
	struct golden_bench b;
	if (!bench_open(&b, 64))
		skip();
	compute_from(&b, 0);
	for (uint32_t back = 1; back <= KV_BACK; back++) {
		uint32_t held = (uint32_t)b.context.tokens.count - back;
		assert_int_equal(context_rollback(&b.context, held), held);
		compute_from(&b, held);
		compare_entries(&b);
	}
	golden_bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_the_references_for_any_chunks),
		cmocka_unit_test(going_back_into_a_pool_makes_the_same_entries),
	};
	return cmocka_run_group_tests(tests, test_folder_setup_fast, test_folder_teardown);
}
