/* Embeddings of n-grams: which rows of the table a token has, rows read where they were published, and
 * tables that are not what the config says. */
#include "engine/compute/ngrams.h"
#include "golden_run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char folder[512]; /* the fixture's; "": it is missing */
static struct config config;
static struct err e;

/* ---- the hash ---- */

static void constants_follow_from_the_config(void **state)
{
	(void)state;
	static const uint64_t multipliers[] = {16304757896083889, 11435418644576253,
					       7275717464594479};
	static const uint64_t primes[] = {307, 311, 313, 317, 331, 337, 347, 349};
	struct ngram_hash h;
	ngram_hash_make(&h, &(struct ngram_sizes){384, 3, 4, 300, 1234, 128, 381}, 0);
	assert_memory_equal(h.multiplier, multipliers, sizeof multipliers);
	assert_memory_equal(h.prime, primes, sizeof primes);
	assert_int_equal(h.offset[7], 2263);
	assert_int_equal(h.table_rows, 2688);
	/* A second table goes on with the next primes. */
	ngram_hash_make(&h, &(struct ngram_sizes){384, 3, 4, 300, 1234, 128, 381}, 1);
	assert_int_equal(h.prime[0], 353);
}

static void assert_rows(const struct golden *g, const char *ids_name, const char *rows_name)
{
	struct golden_tensor ids = golden_get(g, ids_name, "I32"),
			     want = golden_get(g, rows_name, "I64");
	const struct ngram_hash *h = &config.ngrams.hash[0];
	const int32_t *id = ids.data;
	for (uint32_t t = 0; t < ids.count; t++) {
		uint32_t before[NGRAM_SIZE], count = 0;
		uint64_t rows[NGRAM_ROWS];
		for (; count < t && count + 1 < h->size; count++)
			before[count] = (uint32_t)id[t - 1 - count];
		ngram_hash_rows(h, (uint32_t)id[t], before, count, rows);
		for (uint32_t i = 0; i < h->rows; i++)
			assert_int_equal(rows[i], ((const int64_t *)want.data)[t * h->rows + i]);
	}
}

static void a_token_has_the_rows_of_the_reference(void **state)
{
	(void)state;
	char path[600];
	if (!*folder)
		return;
	(void)snprintf(path, sizeof path, "%s/golden.safetensors", folder);
	struct golden *g = golden_open(path);
	assert_rows(g, "input_ids", "extra.ngram_rows.0");
	assert_rows(g, "extra.eos_input_ids", "extra.eos_ngram_rows.0"); /* not over an end token */
	golden_close(g);
}

/* ---- rows ---- */

static void rows_are_read_as_they_were_published(void **state)
{
	(void)state;
	enum { WIDTH = 6, SHARD = 672 };
	static const uint64_t rows[] = {0, 1, SHARD - 1, SHARD, 3 * SHARD - 1, 3 * SHARD, 2687};
	enum { COUNT = sizeof rows / sizeof *rows };
	float got[COUNT][WIDTH];
	uint32_t waited = 0;
	struct ngram_tables *t;
	char path[600];
	if (!*folder)
		return;
	if (ngrams_open(&t, &config, folder, &e))
		fail_msg("%s", e.text);
	ngrams_ahead(t, 0, rows, COUNT);
	assert_int_equal(ngrams_read(t, 0, rows, COUNT, &got[0][0], &waited, &e), 0);
	(void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
	struct golden *g = golden_open(path);
	for (int i = 0; i < COUNT; i++) {
		char name[128];
		(void)snprintf(name, sizeof name,
			       "model.language_model.layers.1.ple.ple_embedding.ngram_embedding."
			       "shard_%u.weight",
			       (unsigned)(rows[i] / SHARD));
		const uint16_t *from = golden_get(g, name, "BF16").data;
		for (int k = 0; k < WIDTH; k++)
			assert_true(got[i][k] == bf16_to_f32(from[rows[i] % SHARD * WIDTH + k]));
	}
	struct ngram_counts counts = ngrams_counts(t);
	assert_int_equal(counts.rows, COUNT);
	assert_int_equal(counts.bytes, 2688 * WIDTH * 2);
	assert_true(ngrams_resident(t) <= counts.bytes + 2 * 4096);
	golden_close(g);
	ngrams_close(t);
}

static void an_n_gram_does_not_reach_over_an_end_token(void **state)
{
	(void)state;
	struct golden_bench b;
	char path[600];
	if (!*folder)
		return;
	(void)snprintf(path, sizeof path, "%s/golden.safetensors", folder);
	golden_bench_open(&b, folder, path,
			  &(struct engine_options){.exact = 1, .threads = 2, .store = "/dev/shm/"});
	struct golden_tensor ids = golden_get(b.golden, "extra.eos_input_ids", "I32");
	uint32_t n = (uint32_t)ids.count, vocabulary = b.view.config->vocabulary;
	float *logits = golden_array((size_t)n * vocabulary);
	golden_compute(&b, ids.data, n, logits);
	golden_compare_rows("logits", logits, golden_get(b.golden, "extra.eos_logits", "F32").data,
			    n, vocabulary);
	free(logits);
	golden_bench_close(&b);
}

/* ---- what does not fit together ---- */

/* The fixture's config with a key's number replaced. */
static int read_with(struct config *c, const char *key, const char *value)
{
	char path[600], text[8192], quoted[64];
	(void)snprintf(path, sizeof path, "%s/config.json", folder);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof text - 128, f);
	fclose(f);
	text[n] = 0;
	(void)snprintf(quoted, sizeof quoted, "\"%s\": ", key);
	char *at = strstr(text, quoted);
	assert_non_null(at);
	at += strlen(quoted);
	size_t old = strcspn(at, ",\n"), new = strlen(value);
	memmove(at + new, at + old, strlen(at + old) + 1);
	memcpy(at, value, new);
	return config_parse(c, text, strlen(text), "config.json", &e);
}

static void a_table_that_is_not_the_configs_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *key, *value, *says;
	} cases[] = {
		{"ngram_vocab_size_base", "400", "rows"},
		{"seed", "1235", "constants"},
		{"ple_embed_dim", "96", "rows of 12 numbers"},
		{"make_ngram_vocab_size_divisible_by", "1024", "rows"},
	};
	struct config *c = malloc(sizeof *c);
	assert_non_null(c);
	for (size_t i = 0; i < sizeof cases / sizeof *cases && *folder; i++) {
		struct ngram_tables *t;
		if (read_with(c, cases[i].key, cases[i].value))
			fail_msg("%s", e.text);
		assert_int_equal(ngrams_open(&t, c, folder, &e), -EINVAL);
		if (!strstr(e.text, cases[i].says))
			fail_msg("%s: %s", cases[i].key, e.text);
	}
	free(c);
}

static void sizes_that_cannot_be_are_refused_by_their_key(void **state)
{
	(void)state;
	static const struct {
		const char *key, *value;
	} cases[] = {
		{"ngram_size", "1"},
		{"ngram_size", "9"},
		{"heads_per_ngram", "0"},
		{"heads_per_ngram", "4294967295"},
		{"ngram_vocab_size_base", "0"},
		{"ngram_vocab_size_base", "4000000000"},
		{"make_ngram_vocab_size_divisible_by", "0"},
		{"ple_conv_kernel_size", "0"},
		{"hc_count", "1"},
		{"hc_count", "17"},
		{"hc_lowrank", "0"},
		{"indexer_compress_ratio", "0"},
		{"indexer_compress_ratio", "128"},
		{"indexer_compress_ratio", "3"},
		{"indexer_budget", "0"},
		{"indexer_n_heads", "0"},
		{"indexer_kv_heads", "2"},
		{"indexer_head_dim", "4"},
		{"ple_embed_dim", "47"},
		{"eos_token_id", "384"},
		{"output_gate_type", "\"tanh\""},
	};
	struct config *c = malloc(sizeof *c);
	assert_non_null(c);
	for (size_t i = 0; i < sizeof cases / sizeof *cases && *folder; i++)
		if (!read_with(c, cases[i].key, cases[i].value))
			fail_msg("%s may be %s", cases[i].key, cases[i].value);
	free(c);
}

static void without_its_source_a_model_says_that_it_needs_it(void **state)
{
	(void)state;
	struct ngram_tables *t;
	if (!*folder)
		return;
	assert_int_equal(ngrams_open(&t, &config, "/nonexistent/model", &e), -ENOENT);
	assert_non_null(strstr(e.text, "needs the source"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants_follow_from_the_config),
		cmocka_unit_test(a_token_has_the_rows_of_the_reference),
		cmocka_unit_test(rows_are_read_as_they_were_published),
		cmocka_unit_test(an_n_gram_does_not_reach_over_an_end_token),
		cmocka_unit_test(a_table_that_is_not_the_configs_is_refused),
		cmocka_unit_test(sizes_that_cannot_be_are_refused_by_their_key),
		cmocka_unit_test(without_its_source_a_model_says_that_it_needs_it),
	};
	const char *fixture = test_fixture("qwen4_exp");
	(void)snprintf(folder, sizeof folder, "%s", fixture ? fixture : "");
	if (*folder && config_read(&config, folder, &e))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
