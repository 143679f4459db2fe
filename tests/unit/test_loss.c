/* What a store loses: the figure is that of both models computed one after the other, it is kept
 * beside the store, and what cannot be measured says so. */
#include "checkpoint_help.h"
#include "engine/admin/model_loss.h"
#include "engine/admin/observe.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>

static struct err e;

static void open_with(struct test_model *m, const char *model, const char *quant, const char *store,
		      uint32_t threads)
{
	test_model_ready(m, model,
			 &(struct engine_options){
				 .quant = quant, .store = store, .threads = threads});
	test_wait_converted(m->model);
}

/* Three windows of different lengths. */
static void fill_text(struct loss_text *t, uint32_t vocabulary)
{
	static const uint32_t lengths[] = {70, 2, 133};
	*t = (struct loss_text){0};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		uint32_t at = t->begin[t->windows];
		for (uint32_t k = 0; k < lengths[i]; k++)
			t->ids[at + k] = (uint32_t)((at + k) * 2654435761U % vocabulary);
		t->begin[++t->windows] = at + lengths[i];
	}
}

static struct store_loss compare_by(struct test_model *m, const struct loss_text *t)
{
	struct store_loss l;
	const char *folder = store_folder(m->model->stored.store);
	if (loss_measure_store(m->model, folder, t, false, &l, &e))
		fail_msg("%s", e.text);
	return l;
}

/* ---- the same in a plain way ---- */

/* The logarithms of a window's probabilities: [rows][vocabulary], malloc'ed. */
static double *window_of(struct test_model *m, const uint32_t *ids, uint32_t n)
{
	struct model_view v;
	struct context x;
	observe_model(m->model, &v);
	uint32_t width = v.config->vocabulary;
	float *logits = calloc((size_t)n * width, sizeof *logits);
	double *out = calloc((size_t)n * width, sizeof *out);
	context_init(&x, v.context_budget, v.config, v.kv);
	assert_non_null(logits);
	assert_non_null(out);
	if (test_step(v.forward, &x, ids, n, logits, &e))
		fail_msg("%s", e.text);
	for (uint32_t t = 0; t < n; t++) {
		double sum = 0;
		for (uint32_t i = 0; i < width; i++)
			sum += exp(logits[(size_t)t * width + i]);
		for (uint32_t i = 0; i < width; i++)
			out[(size_t)t * width + i] = logits[(size_t)t * width + i] - log(sum);
	}
	context_free(&x);
	free(logits);
	return out;
}

static double plain_kl(struct test_model *exact, struct test_model *store, const struct loss_text *t)
{
	uint32_t width = exact->model->id.config.vocabulary, tokens = 0;
	double sum = 0;
	for (uint32_t w = 0; w < t->windows; w++) {
		uint32_t n = t->begin[w + 1] - t->begin[w];
		double *p = window_of(exact, t->ids + t->begin[w], n),
		       *q = window_of(store, t->ids + t->begin[w], n);
		for (size_t i = 0; i < (size_t)(n - 1) * width; i++)
			sum += exp(p[i]) * (p[i] - q[i]);
		tokens += n - 1;
		free(p);
		free(q);
	}
	return sum / tokens;
}

static void expect_plain(const char *model)
{
	struct test_model exact, store;
	struct loss_text text;
	open_with(&exact, model, "bf16", NULL, 1);
	open_with(&store, model, "3bit", NULL, 2);
	fill_text(&text, store.model->id.config.vocabulary);
	struct store_loss l = compare_by(&store, &text);
	double plain = plain_kl(&exact, &store, &text);
	assert_int_equal(l.tokens, 202);
	assert_true(l.kl > 1e-3);
	assert_true(fabs(l.kl - plain) < 1e-5 * plain + 1e-7);
	test_model_close(&exact);
	test_model_close(&store);
}

static void the_loss_is_that_of_both_models_computed_one_after_the_other(void **state)
{
	(void)state;
	expect_plain(test_fixture("qwen3_moe"));
	expect_plain(test_fixture("qwen3"));
}

static void threads_change_nothing(void **state)
{
	struct store_loss all[2];
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct test_model m;
		struct loss_text text;
		open_with(&m, test_fixture("qwen3_moe"), "3bit", NULL, i ? 3 : 1);
		fill_text(&text, m.model->id.config.vocabulary);
		all[i] = compare_by(&m, &text);
		test_model_close(&m);
	}
	assert_memory_equal(&all[0], &all[1], sizeof *all);
}

/* ---- what is said ---- */

static void expect_fact(const struct test_model *m, const char *begins)
{
	char words[256];
	assert_int_equal(model_fact(m->model, FACT_LOSS, words, sizeof words), 0);
	if (strncmp(words, begins, strlen(begins)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", words, begins);
}

static void a_measured_loss_is_there_after_the_next_mount(void **state)
{
	struct test_model m;
	char before[256], after[256], folder[32];
	(void)state;
	test_folder_make(folder);
	open_with(&m, test_fixture("qwen3_moe"), "4bit", folder, 2);
	expect_fact(&m, "unknown: moefs --loss measures it");
	if (model_measure_loss(m.model, false, &e))
		fail_msg("%s", e.text);
	expect_fact(&m, "kl 0.");
	assert_int_equal(model_fact(m.model, FACT_LOSS, before, sizeof before), 0);
	test_model_close(&m);
	test_model_open(&m, test_fixture("qwen3_moe"),
			&(struct engine_options){.quant = "4bit", .store = folder});
	assert_int_equal(model_fact(m.model, FACT_LOSS, after, sizeof after), 0);
	assert_string_equal(before, after);
	test_model_close(&m);
	test_folder_remove(folder);
}

static void the_loss_of_another_store_counts_for_nothing(void **state)
{
	const struct store_loss l = {.kl = .25, .error = .5, .same = .75, .tokens = 3};
	struct store_loss read;
	struct store_key key = {.fingerprint = {1, 2}, .recipe = "4bit kept bf16 norms f16"}, other = key;
	char folder[32];
	(void)state;
	test_folder_make(folder);
	assert_int_equal(store_loss_read(&read, folder, &key, &e), -ENOENT);
	assert_int_equal(store_loss_write(&l, folder, &key, &e), 0);
	assert_int_equal(store_loss_read(&read, folder, &key, &e), 0);
	assert_true(read.kl == l.kl && read.error == l.error && read.same == l.same);
	assert_int_equal(read.tokens, l.tokens);
	other.fingerprint[1] = 3;
	assert_int_equal(store_loss_read(&read, folder, &other, &e), -ENOENT);
	assert_int_equal(read.tokens, 0);
	other = key;
	other.recipe[0] = '8';
	assert_int_equal(store_loss_read(&read, folder, &other, &e), -ENOENT);
	test_folder_remove(folder);
}

static void weights_as_published_lose_nothing(void **state)
{
	struct test_model m;
	(void)state;
	open_with(&m, test_fixture("qwen3_moe"), "bf16", NULL, 1);
	expect_fact(&m, "none: the weights are the checkpoint's own");
	assert_int_equal(model_measure_loss(m.model, false, &e), -ENOTSUP);
	test_model_close(&m);
	open_with(&m, test_fixture("qwen3_moe_mlx4"), NULL, NULL, 1);
	expect_fact(&m, "none: the weights are used as they are published");
	test_model_close(&m);
}

static void a_checkpoint_that_is_gone_is_said(void **state)
{
	struct test_model m;
	struct test_checkpoint c;
	char parent[32], source[64], store[64], weights[128];
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(store, sizeof store, "%s/stores", parent);
	(void)snprintf(weights, sizeof weights, "%s/model.safetensors", source);
	test_checkpoint_read(&c, "qwen3");
	test_checkpoint_make(&c, "qwen3", source);
	open_with(&m, source, "4bit", store, 1);
	test_model_close(&m);
	test_model_ready(&m, source, &(struct engine_options){.quant = "4bit", .store = store});
	assert_int_equal(unlink(weights), 0);
	expect_fact(&m, "unknown: the checkpoint is gone");
	assert_int_not_equal(model_measure_loss(m.model, false, &e), 0);
	test_model_close(&m);
	test_checkpoint_free(&c);
	test_folder_remove(parent);
}

static void measuring_can_be_stopped(void **state)
{
	struct test_model m;
	struct loss_text text;
	struct store_loss l;
	(void)state;
	open_with(&m, test_fixture("qwen3_moe"), "3bit", NULL, 1);
	fill_text(&text, m.model->id.config.vocabulary);
	atomic_store(&m.model->run->refining.yield, true); /* as a turn's beginning does */
	assert_int_equal(loss_measure_store(m.model, store_folder(m.model->stored.store), &text,
					    true, &l, &e),
			 -ECANCELED);
	test_model_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_loss_is_that_of_both_models_computed_one_after_the_other),
		cmocka_unit_test(threads_change_nothing),
		cmocka_unit_test(a_measured_loss_is_there_after_the_next_mount),
		cmocka_unit_test(the_loss_of_another_store_counts_for_nothing),
		cmocka_unit_test(weights_as_published_lose_nothing),
		cmocka_unit_test(a_checkpoint_that_is_gone_is_said),
		cmocka_unit_test(measuring_can_be_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
