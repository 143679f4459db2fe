/* A hybrid's own draft layer against the exact reference. Its rows depend only on the rows before:
 * not on chunks, threads, the cache or the instruction set. */
#include "engine/compute/drafter.h"
#include "engine/admin/observe.h"
#include "forward_help.h"
#include "gguf_convert.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static const char *const fixtures[] = {"qwen3_5", "qwen3_5_moe"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures, DEPTHS = 2 };
static const double tolerance = 2e-5; /* L2, relative, of a row */

/* ---- a model with its draft layer ---- */

struct bench {
	struct test_model m;
	struct model_view view;
	struct golden *golden;
	struct weights weights; /* with the draft's, which the model has not loaded for itself */
	struct forward forward;
	struct draft_layer draft;
	struct context text, drafts[DEPTHS]; /* each depth attends to its own keys alone */
	uint32_t *ids, tokens;
};

static void load_with_draft(struct bench *b)
{
	static const _Atomic bool never;
	const struct model_view *m = &b->view;
	struct err e = {0};
	assert_true(m->plan->recipe.draft);
	if (weights_load(&b->weights, m->plan, m->config, m->store, true, &never, &e))
		fail_msg("%s", e.text);
	b->forward = (struct forward){
		.env = m->forward->env,
		.chunk = m->forward->chunk,
	};
	b->forward.env.weights = &b->weights;
	if (forward_init(&b->forward, &e))
		fail_msg("%s", e.text);
	drafter_layer_init(&b->draft, &b->forward);
}

static void read_ids(struct bench *b)
{
	struct golden_tensor ids = golden_get(b->golden, "input_ids", "I32");
	const int32_t *from = ids.data;
	b->tokens = (uint32_t)ids.count;
	b->ids = malloc(ids.count * sizeof *b->ids);
	assert_non_null(b->ids);
	for (uint32_t t = 0; t < b->tokens; t++)
		b->ids[t] = (uint32_t)from[t];
}

/* The golden numbers are the fixture's; the model may be another way to write it. */
static void bench_open_as(struct bench *b, const char *model, const char *fixture,
			  const struct engine_options *options)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/golden.safetensors", fixture);
	*b = (struct bench){.golden = golden_open(path)};
	test_model_open(&b->m, model, options);
	test_wait_converted(b->m.model);
	observe_model(b->m.model, &b->view);
	read_ids(b);
	load_with_draft(b);
	struct context_budget *budget = b->view.context_budget;
	enum kv_type type = b->view.kv;
	context_init(&b->text, budget, b->view.config, type);
	for (int depth = 0; depth < DEPTHS; depth++)
		context_init_draft(&b->drafts[depth], budget, b->view.config, type);
}

static void bench_open(struct bench *b, const char *fixture, const struct engine_options *options)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s", fixture);
	bench_open_as(b, path, path, options);
}

static void bench_close(struct bench *b)
{
	context_free(&b->text);
	for (int depth = 0; depth < DEPTHS; depth++)
		context_free(&b->drafts[depth]);
	assert_int_equal(engine_context_used(b->m.engine), 0);
	forward_free(&b->forward);
	weights_free(&b->weights);
	golden_close(b->golden);
	free(b->ids);
	test_model_close(&b->m);
}

/* A draft layer's results for a text. Depth d has `tokens - 1 - d` rows. */
struct run {
	uint32_t tokens, width, vocabulary;
	float *normed; /* [tokens][width]: the model's own */
	float *output[DEPTHS], *logits[DEPTHS];
};

static float *array(size_t count)
{
	float *a = calloc(count, sizeof *a);
	assert_non_null(a);
	return a;
}

static uint32_t rows_of(const struct run *r, int depth)
{
	return r->tokens - 1 - (uint32_t)depth;
}

static uint32_t next_chunk(const struct forward *f, uint32_t left)
{
	return left < f->chunk ? left : f->chunk;
}

static void compute_text(struct bench *b, struct run *r)
{
	struct forward *f = &b->forward;
	struct err e = {0};
	float *logits = array((size_t)r->tokens * r->vocabulary);
	for (uint32_t done = 0, n; done < r->tokens; done += n) {
		n = next_chunk(f, r->tokens - done);
		if (test_step(f, &b->text, b->ids + done, n, logits, &e))
			fail_msg("%s", e.text);
		memcpy(r->normed + (size_t)done * r->width, forward_normed(f),
		       (size_t)n * r->width * sizeof(float));
	}
	free(logits);
}

/* Row i takes token i + 1 + depth and the previous depth's state of position i. */
static void compute_depth(struct bench *b, struct run *r, int depth)
{
	struct forward *f = &b->forward;
	struct err e = {0};
	const float *hidden = depth ? r->output[depth - 1] : r->normed;
	const uint32_t *tokens = b->ids + 1 + depth;
	for (uint32_t done = 0, n; done < rows_of(r, depth); done += n) {
		n = next_chunk(f, rows_of(r, depth) - done);
		size_t at = (size_t)done * r->width;
		if (drafter_layer_run(&b->draft, &b->drafts[depth], tokens + done, hidden + at, n,
				      r->logits[depth] + (size_t)done * r->vocabulary, &e))
			fail_msg("%s", e.text);
		memcpy(r->output[depth] + at, forward_normed(f),
		       (size_t)n * r->width * sizeof(float));
	}
}

static struct run run_make(struct bench *b)
{
	const struct config *c = b->view.config;
	struct run r = {.tokens = b->tokens, .width = c->hidden_size, .vocabulary = c->vocabulary};
	r.normed = array((size_t)r.tokens * r.width);
	compute_text(b, &r);
	for (int depth = 0; depth < DEPTHS; depth++) {
		r.output[depth] = array((size_t)rows_of(&r, depth) * r.width);
		r.logits[depth] = array((size_t)rows_of(&r, depth) * r.vocabulary);
		compute_depth(b, &r, depth);
	}
	return r;
}

static void run_free(struct run *r)
{
	free(r->normed);
	for (int depth = 0; depth < DEPTHS; depth++) {
		free(r->output[depth]);
		free(r->logits[depth]);
	}
}

static void assert_same_bits(const struct run *a, const struct run *b)
{
	for (int depth = 0; depth < DEPTHS; depth++) {
		size_t rows = rows_of(a, depth);
		assert_memory_equal(a->output[depth], b->output[depth],
				    rows * a->width * sizeof(float));
		assert_memory_equal(a->logits[depth], b->logits[depth],
				    rows * a->vocabulary * sizeof(float));
	}
}

/* ---- the reference ---- */

static double row_error(const float *got, const float *want, size_t width)
{
	double error = 0, norm = 0;
	for (size_t i = 0; i < width; i++) {
		double d = (double)got[i] - want[i];
		error += d * d;
		norm += (double)want[i] * want[i];
	}
	return sqrt(error / norm);
}

static double compare_depth(const struct bench *b, const struct run *r, int depth)
{
	static const char *const names[DEPTHS] = {"mtp_draft1_logits", "mtp_draft2_logits"};
	struct golden_tensor want = golden_get(b->golden, names[depth], "F32");
	double worst = 0;
	assert_int_equal(want.count, (size_t)rows_of(r, depth) * r->vocabulary);
	for (uint32_t i = 0; i < rows_of(r, depth); i++) {
		size_t at = (size_t)i * r->vocabulary;
		double error = row_error(r->logits[depth] + at, (const float *)want.data + at,
					 r->vocabulary);
		if (!(error < tolerance))
			fail_msg("%s, row %u: relative error %.2e", names[depth], i, error);
		if (error > worst)
			worst = error;
	}
	return worst;
}

static void assert_bench_agrees(struct bench *b, const char *name)
{
	struct run r = run_make(b);
	for (int depth = 0; depth < DEPTHS; depth++)
		printf("%s, draft %d: worst relative error of any row %.1e\n", name, depth + 1,
		       compare_depth(b, &r, depth));
	run_free(&r);
	bench_close(b);
}

static void assert_agrees(const char *fixture)
{
	struct bench b;
	bench_open(&b, fixture, &(struct engine_options){.quant = "bf16"});
	assert_bench_agrees(&b, strrchr(fixture, '/') + 1);
}

/* ---- tests ---- */

static void its_logits_agree_with_the_reference(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		assert_agrees(test_fixture(fixtures[i]));
}

static void one_with_stacked_experts_agrees_with_the_reference(void **state)
{
	(void)state;
	const char *fixture = test_fixture("qwen3_5_moe_fused");
	if (!fixture)
		skip();
	char path[512];
	(void)snprintf(path, sizeof path, "%s", fixture);
	assert_agrees(path);
}

static void one_in_a_gguf_file_agrees_with_the_reference(void **state)
{
	(void)state;
	static const char *const architectures[FIXTURES] = {"qwen35", "qwen35moe"};
	char folder[32], path[512];
	test_folder_make(folder);
	for (int i = 0; i < FIXTURES; i++) {
		struct bench b;
		const struct gguf_conversion c = {
			.fixture = fixtures[i], .architecture = architectures[i], .type = "BF16"};
		test_gguf_convert(&c, folder, architectures[i], path);
		bench_open_as(&b, path, test_fixture(fixtures[i]),
			      &(struct engine_options){.quant = "bf16"});
		assert_bench_agrees(&b, architectures[i]);
	}
	test_folder_remove(folder);
}

static void assert_same_under_all_settings(const char *fixture, const char *quant)
{
	static const uint32_t chunks[] = {1, 7, 64}, threads[] = {1, 2, 4};
	struct bench b;
	bench_open(&b, test_fixture(fixture), &(struct engine_options){.quant = quant});
	struct run first = run_make(&b);
	bool routed = b.view.plan->routed_layers;
	uint64_t one_expert = pager_slot_bytes(b.view.plan->slot_bytes);
	if (!quant && !b.view.plan->recipe.as_published) /* the default depends on the budget */
		quant = b.view.plan->recipe.quant;
	bench_close(&b);
	for (int i = 0; i < 3 * 3 * (routed ? 2 : 1); i++) {
		struct engine_options o = {.quant = quant,
					   .chunk = chunks[i % 3],
					   .threads = threads[i / 3 % 3],
					   .budget = i < 9 ? 0 : one_expert};
		bench_open(&b, test_fixture(fixture), &o);
		struct run r = run_make(&b);
		assert_same_bits(&first, &r);
		run_free(&r);
		bench_close(&b);
	}
	run_free(&first);
}

static void it_is_the_same_for_any_chunk_threads_and_cache(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		assert_same_under_all_settings(fixtures[i], "bf16");
		assert_same_under_all_settings(fixtures[i], NULL);
	}
}

static void assert_same_with_all_kernels(const char *fixture, const char *quant)
{
	struct bench b;
	struct run first = {0};
	bench_open(&b, test_fixture(fixture), &(struct engine_options){.quant = quant});
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		b.forward.env.kernels = *k;
		context_rollback(&b.text, 0);
		for (int depth = 0; depth < DEPTHS; depth++)
			context_rollback(&b.drafts[depth], 0);
		struct run r = run_make(&b);
		if (k == kernels_available()) {
			first = r;
			continue;
		}
		assert_same_bits(&first, &r);
		run_free(&r);
	}
	run_free(&first);
	bench_close(&b);
}

static void every_kernel_table_gives_the_same_bits(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		assert_same_with_all_kernels(fixtures[i], "bf16");
		assert_same_with_all_kernels(fixtures[i], NULL);
	}
}

/* A draft in the depth-1 context: the rows that it fed itself are taken back and replaced by
 * verified rows. */
static void rows_that_were_taken_back_leave_no_trace(void **state)
{
	(void)state;
	struct bench b;
	struct err e = {0};
	bench_open(&b, test_fixture("qwen3_5_moe"), &(struct engine_options){.quant = "bf16"});
	struct run r = run_make(&b);
	struct context *x = &b.drafts[0];
	const uint32_t *tokens = b.ids + 1;
	for (uint32_t kept = 1; kept < rows_of(&r, 0); kept += 9) {
		uint32_t rest = rows_of(&r, 0) - kept;
		assert_int_equal(context_rollback(x, kept), kept);
		for (uint32_t i = 0; i < 3; i++) /* any tokens, on its own output */
			assert_int_equal(drafter_layer_run(&b.draft, x, &(uint32_t){7 + i},
							   forward_normed(&b.forward), 1, NULL, &e),
					 0);
		assert_int_equal(context_rollback(x, kept), kept);
		size_t at = (size_t)kept * r.width;
		assert_int_equal(drafter_layer_run(&b.draft, x, tokens + kept, r.normed + at, rest,
						   NULL, &e),
				 0);
		assert_memory_equal(b.forward.logits,
				    r.logits[0] + (size_t)(rows_of(&r, 0) - 1) * r.vocabulary,
				    r.vocabulary * sizeof(float));
		assert_memory_equal(forward_normed(&b.forward),
				    r.output[0] + (size_t)(rows_of(&r, 0) - 1) * r.width,
				    r.width * sizeof(float));
	}
	run_free(&r);
	bench_close(&b);
}

static uint32_t routed_rows; /* that a draft's router decided about */

static void count_routed(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			 uint32_t n, uint32_t width, const float *rows)
{
	const struct bench *b = ctx;
	(void)position, (void)width, (void)rows;
	if (point != TAP_ROUTER_EXPERTS)
		return;
	assert_int_equal(layer, b->view.plan->routed_of[b->view.config->layers]);
	routed_rows += n;
}

static uint64_t uses_of_layer(const struct bench *b, uint32_t routed)
{
	uint64_t uses = 0;
	for (uint32_t i = 0; i < b->view.plan->experts; i++) {
		struct pager_expert now;
		pager_inspect(b->view.experts, routed, i, &now);
		uses += now.hits + now.misses;
	}
	return uses;
}

static void its_experts_are_those_of_its_own_layer(void **state)
{
	(void)state;
	struct bench b;
	bench_open(&b, test_fixture("qwen3_5_moe"), &(struct engine_options){.quant = "bf16"});
	struct run r = run_make(&b);
	uint32_t layers = b.view.plan->routed_layers;
	uint64_t before[8];
	assert_in_range(layers, 2, 8);
	for (uint32_t i = 0; i < layers; i++)
		before[i] = uses_of_layer(&b, i);
	context_rollback(&b.drafts[0], 0);
	routed_rows = 0;
	b.forward.env.tap = count_routed;
	b.forward.env.tap_ctx = &b;
	compute_depth(&b, &r, 0);
	assert_int_equal(routed_rows, rows_of(&r, 0));
	for (uint32_t i = 0; i + 1 < layers; i++)
		assert_int_equal(uses_of_layer(&b, i), before[i]);
	assert_true(uses_of_layer(&b, layers - 1) > before[layers - 1]);
	run_free(&r);
	bench_close(&b);
}

static void rows_whose_guess_nobody_wants_leave_their_keys_and_need_no_expert(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct bench b;
		struct err e = {0};
		bench_open(&b, test_fixture(fixtures[i]),
			   &(struct engine_options){.quant = "bf16", .chunk = 7});
		struct run r = run_make(&b);
		struct context *x = &b.drafts[0];
		uint32_t last = rows_of(&r, 0) - 1, routed = b.view.plan->routed_layers;
		uint64_t before = routed ? uses_of_layer(&b, routed - 1) : 0;
		context_rollback(x, 0);
		for (uint32_t done = 0, n; done < last; done += n) {
			n = next_chunk(&b.forward, last - done);
			assert_int_equal(drafter_layer_keys(&b.draft, x, b.ids + 1 + done,
							    r.normed + (size_t)done * r.width, n,
							    &e),
					 0);
		}
		assert_int_equal(x->tokens.count, last);
		assert_int_equal(routed ? uses_of_layer(&b, routed - 1) : 0, before);
		assert_int_equal(drafter_layer_run(&b.draft, x, b.ids + 1 + last,
						   r.normed + (size_t)last * r.width, 1, NULL, &e),
				 0);
		assert_memory_equal(b.forward.logits, r.logits[0] + (size_t)last * r.vocabulary,
				    r.vocabulary * sizeof(float));
		run_free(&r);
		bench_close(&b);
	}
}

static void its_weights_are_in_memory_only_when_asked_for(void **state)
{
	(void)state;
	static const _Atomic bool never;
	struct bench b;
	struct weights without;
	struct err e = {0};
	bench_open(&b, test_fixture("qwen3_5"), &(struct engine_options){.quant = "bf16"});
	const struct model_view *m = &b.view;
	uint32_t layer = m->config->layers;
	size_t draft = 0;
	for (uint32_t i = 0; i < m->plan->dense_count; i++)
		if (m->plan->dense[i].draft)
			draft += format_arranged_bytes(&m->plan->dense[i].computed);
	assert_true(draft > 0);
	assert_int_equal(weights_load(&without, m->plan, m->config, m->store, false, &never, &e),
			 0);
	assert_int_equal(m->weights->memory.bytes, without.memory.bytes + draft);
	assert_null(without.once.m[TENSOR_DRAFT_PROJECTION].data);
	assert_null(without.layer[layer].m[TENSOR_Q].data);
	assert_non_null(m->weights->once.m[TENSOR_DRAFT_PROJECTION].data);
	assert_non_null(m->weights->layer[layer].m[TENSOR_Q].data);
	weights_free(&without);
	bench_close(&b);
}

static void its_context_takes_the_keys_and_values_of_one_layer(void **state)
{
	(void)state;
	struct bench b;
	bench_open(&b, test_fixture("qwen3_5"), &(struct engine_options){.quant = "bf16"});
	const struct config *c = b.view.config;
	struct run r = run_make(&b);
	context_rollback(&b.text, 0);
	size_t block =
		context_pages((size_t)c->kv_heads * 2 * c->head_dim * KV_BLOCK * sizeof(float));
	assert_int_equal(engine_context_used(b.m.engine), DEPTHS * block);
	run_free(&r);
	bench_close(&b);
}

static void a_step_that_fails_leaves_its_context_as_it_was(void **state)
{
	(void)state;
	static const _Atomic bool stop = true;
	struct bench b;
	struct err e = {0};
	bench_open(&b, test_fixture("qwen3_5_moe"), &(struct engine_options){.quant = "bf16"});
	struct run r = run_make(&b);
	struct context *x = &b.drafts[0];
	size_t last = (size_t)(rows_of(&r, 0) - 1), held = last, used;
	uint32_t tokens[] = {b.ids[last + 1], b.view.config->vocabulary};
	const float *hidden = r.normed + last * r.width;
	context_rollback(x, held);
	used = engine_context_used(b.m.engine);
	assert_int_equal(drafter_layer_run(&b.draft, x, tokens, hidden, 2, NULL, &e), -ERANGE);
	b.draft.account = &(struct step_account){.stop = &stop};
	assert_int_equal(drafter_layer_run(&b.draft, x, tokens, hidden, 1, NULL, &e), -ECANCELED);
	b.draft.account = NULL;
	assert_int_equal(x->tokens.count, held);
	assert_int_equal(engine_context_used(b.m.engine), used);
	assert_int_equal(drafter_layer_run(&b.draft, x, tokens, hidden, 1, NULL, &e), 0);
	assert_memory_equal(b.forward.logits, r.logits[0] + last * r.vocabulary,
			    r.vocabulary * sizeof(float));
	run_free(&r);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_logits_agree_with_the_reference),
		cmocka_unit_test(one_with_stacked_experts_agrees_with_the_reference),
		cmocka_unit_test(one_in_a_gguf_file_agrees_with_the_reference),
		cmocka_unit_test(it_is_the_same_for_any_chunk_threads_and_cache),
		cmocka_unit_test(every_kernel_table_gives_the_same_bits),
		cmocka_unit_test(rows_that_were_taken_back_leave_no_trace),
		cmocka_unit_test(its_experts_are_those_of_its_own_layer),
		cmocka_unit_test(rows_whose_guess_nobody_wants_leave_their_keys_and_need_no_expert),
		cmocka_unit_test(its_weights_are_in_memory_only_when_asked_for),
		cmocka_unit_test(its_context_takes_the_keys_and_values_of_one_layer),
		cmocka_unit_test(a_step_that_fails_leaves_its_context_as_it_was),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
