/* The states of recurrent mixers against the reference: after the prompt, in any chunks, every layer's
 * matrices and the last inputs of its convolution are those that the reference has. */
#include "engine/compute/recurrent.h"
#include "golden_run.h"
#include "memory_help.h"
#include "store_help.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

/* How the reference lays a head's matrix out: [value][key], or as here [key][value]. */
static const struct {
	const char *fixture, *matrices;
	bool across;
} fixtures[] = {{"lfm2_moe", "", false}, {"granitemoehybrid", "ssm_state", true},
	{"nemotron_h", "ssm_state", true}, {"kimi_linear", "delta_state", false}};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static void bench_open(struct golden_bench *b, const char *fixture, uint32_t chunk)
{
	char path[512], golden[600];
	snprintf(path, sizeof path, "%s", test_fixture(fixture));
	snprintf(golden, sizeof golden, "%s/golden.safetensors", path);
	golden_bench_open(b, path, golden,
			  &(struct engine_options){
				  .exact = 1, .threads = 2, .chunk = chunk, .store = test_folder});
}

/* The convolution's last inputs, [channels][width - 1] in the reference. */
static void compare_inputs(const struct golden_bench *b, uint32_t layer, const float *before,
			   const struct recurrent_shape *s)
{
	char name[64];
	snprintf(name, sizeof name, "extra.conv_state.%u", layer);
	const float *want = golden_get(b->golden, name, "F32").data;
	size_t kept = s->width - 1;
	float *rows = golden_array(kept * s->channels);
	for (size_t c = 0; c < s->channels; c++)
		for (size_t i = 0; i < kept; i++)
			rows[c * kept + i] = before[i * s->channels + c];
	golden_compare_rows("inputs of a convolution", rows, want, 1, kept * s->channels);
	free(rows);
}

static void compare_matrices(const struct golden_bench *b, uint32_t layer, const float *got,
			     const struct recurrent_shape *s, const char *what, bool across)
{
	struct golden_tensor t;
	char name[64];
	snprintf(name, sizeof name, "extra.%s.%u", what, layer);
	t = golden_get(b->golden, name, "F32");
	assert_int_equal(t.count, s->matrices);
	size_t heads = t.shape[0], rows = t.shape[1], cols = t.shape[2];
	float *as_there = golden_array(s->matrices);
	for (size_t h = 0; h < heads; h++)
		for (size_t r = 0; r < rows; r++)
			for (size_t c = 0; c < cols; c++)
				as_there[(h * rows + r) * cols + c] =
					got[h * rows * cols + (across ? c * rows + r : r * cols + c)];
	golden_compare_rows(what, as_there, t.data, 1, s->matrices);
	free(as_there);
}

static void states_are_those_of_the_reference(void **state)
{
	(void)state;
	static const uint32_t chunks[] = {1, 7, 64};
	for (int i = 0; i < FIXTURES * 3; i++) {
		struct golden_bench b;
		if (!test_fixture(fixtures[i / 3].fixture))
			continue;
		bench_open(&b, fixtures[i / 3].fixture, chunks[i % 3]);
		const struct config *c = b.view.config;
		struct golden_tensor ids = golden_get(b.golden, "input_ids", "I32");
		float *logits = golden_array(ids.count * c->vocabulary);
		uint32_t compared = 0;
		golden_compute(&b, ids.data, (uint32_t)ids.count, logits);
		for (uint32_t layer = 0; layer < c->layers; layer++) {
			struct recurrent_shape s = recurrent_shape_of(c, c->layer[layer].mixer);
			const float *at = b.context.recurrent.now + recurrent_layer_at(c, layer);
			if (!s.width)
				continue;
			compare_inputs(&b, layer, at + s.matrices, &s);
			if (s.matrices)
				compare_matrices(&b, layer, at, &s, fixtures[i / 3].matrices,
						 fixtures[i / 3].across);
			compared++;
		}
		assert_true(compared > 0);
		free(logits);
		golden_bench_close(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_are_those_of_the_reference),
	};
	return cmocka_run_group_tests(tests, test_folder_setup_fast, test_folder_teardown);
}
