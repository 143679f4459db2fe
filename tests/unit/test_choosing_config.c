/* Configs of families whose attention chooses, or that have several streams: what cannot be, or is not
 * computed, is refused by its key before anything is allocated. */
#include "engine/family/config.h"
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct err e;

/* The fixture's config with the value of a key replaced; NULL: as it is. */
static int read_with(struct config *c, const char *fixture, const char *key, const char *value)
{
	char path[600], text[16384], quoted[64];
	(void)snprintf(path, sizeof path, "%s/config.json", test_fixture(fixture));
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof text - 256, f);
	fclose(f);
	text[n] = 0;
	(void)snprintf(quoted, sizeof quoted, "\"%s\": ", key ? key : "model_type");
	char *at = strstr(text, quoted);
	assert_non_null(at);
	at += strlen(quoted);
	size_t old = *at == '[' ? strcspn(at, "]") + 1 : strcspn(at, ",\n"),
	       new = key ? strlen(value) : old;
	memmove(at + new, at + old, strlen(at + old) + 1);
	if (key)
		memcpy(at, value, new);
	return config_parse(c, text, strlen(text), "config.json", &e);
}

static void what_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct {
		const char *fixture, *key, *value, *says;
	} cases[] = {
		{"glm_moe_dsa", "index_topk", "0", "index_topk"},
		{"glm_moe_dsa", "index_n_heads", "0", "index_n_heads"},
		{"glm_moe_dsa", "index_head_dim", "8", "heads of the index"},
		{"glm_moe_dsa", "q_lora_rank", "null", "q_lora_rank"},
		{"glm_moe_dsa", "qk_rope_head_dim", "0", "qk_rope_head_dim"},
		{"glm_moe_dsa", "indexer_types", "[\"full\"]", "indexer_types"},
		{"glm_moe_dsa", "indexer_types", "[\"shared\", \"full\", \"full\", \"full\"]",
		 "layer 0"},
		{"glm_moe_dsa", "mlp_layer_types", "[\"dense\"]", "mlp_layer_types"},
		{"minimax_m3", "index_local_blocks", "2", "index_local_blocks"},
		{"minimax_m3", "index_n_heads", "4", "key-value heads"},
		{"minimax_m3", "index_topk_blocks", "1", "index_topk_blocks"},
		{"minimax_m3", "index_block_size", "16777216", "index_topk_blocks"},
		{"glm5_next", "index_kpool", "3", "index_kpool"},
		{"glm5_next", "index_kpool", "128", "index_kpool"},
		{"glm5_next", "index_topk", "3", "index_topk"},
		{"glm5_next", "index_kpool_always_select_tail", "false",
		 "index_kpool_always_select_tail"},
		{"glm5_next", "hc_mult", "1", "hc_mult"},
		{"glm5_next", "hc_mult", "17", "hc_mult"},
		{"glm5_next", "hc_sinkhorn_iters", "0", "hc_sinkhorn_iters"},
		{"glm5_next", "linear_lower_bound", "1", "linear_lower_bound"},
		{"glm5_next", "qk_rope_head_dim", "16", "qk_rope_head_dim"},
		{"glm5_next", "linear_num_heads", "0", "linear_num_heads"},
		{"deepseek_v4", "num_key_value_heads", "2", "num_key_value_heads"},
		{"deepseek_v4", "n_shared_experts", "2", "n_shared_experts"},
		{"deepseek_v4", "norm_topk_prob", "false", "norm_topk_prob"},
		{"deepseek_v4", "scoring_func", "\"softmax\"", "scoring_func"},
		{"deepseek_v4", "o_groups", "0", "o_groups"},
		{"deepseek_v4", "o_groups", "3", "o_groups"},
		{"deepseek_v4", "o_lora_rank", "1048576", "o_lora_rank"},
		{"deepseek_v4", "q_lora_rank", "0", "q_lora_rank"},
		{"deepseek_v4", "index_topk", "0", "index_topk"},
		{"deepseek_v4", "index_head_dim", "8", "heads of the index"},
		{"deepseek_v4", "heavily_compressed_attention", "512", "heavily_compressed_attention"},
		{"deepseek_v4", "heavily_compressed_attention", "96", "compress_rates"},
		{"deepseek_v4", "compressed_sparse_attention", "128", "compress_rates"},
		{"deepseek_v4", "compressed_sparse_attention", "0", "compressed_sparse_attention"},
		{"deepseek_v4", "sliding_window", "0", "sliding_window"},
		{"deepseek_v4", "qk_rope_head_dim", "8", "qk_rope_head_dim"},
		{"deepseek_v4", "layer_types", "[\"full_attention\"]", "layer_types"},
		{"deepseek_v4", "layer_types", "null", "compress_ratios"},
		{"deepseek_v4", "mlp_layer_types", "[\"moe\"]", "mlp_layer_types"},
		{"deepseek_v4", "hc_mult", "1", "hc_mult"},
		{"deepseek_v4", "swiglu_limit", "0", "swiglu_limit"},
	};
	struct config *c = malloc(sizeof *c);
	assert_non_null(c);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (!test_fixture(cases[i].fixture))
			continue;
		assert_int_equal(read_with(c, cases[i].fixture, NULL, NULL), 0);
		if (!read_with(c, cases[i].fixture, cases[i].key, cases[i].value))
			fail_msg("%s: %s may be %s", cases[i].fixture, cases[i].key,
				 cases[i].value);
		if (!strstr(e.text, cases[i].says))
			fail_msg("%s, %s: %s", cases[i].fixture, cases[i].key, e.text);
	}
	free(c);
}

/* Both spellings give the same layers and the same index. */
static void published_configs_say_the_same(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"glm_moe_dsa", "minimax_m3"};
	struct config *c = calloc(2, sizeof *c);
	assert_non_null(c);
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures && test_fixture(fixtures[i]); i++) {
		char path[600], text[16384];
		assert_int_equal(read_with(&c[0], fixtures[i], NULL, NULL), 0);
		(void)snprintf(path, sizeof path, "%s/config.published.json",
			       test_fixture(fixtures[i]));
		FILE *f = fopen(path, "r");
		assert_non_null(f);
		size_t n = fread(text, 1, sizeof text, f);
		fclose(f);
		if (config_parse(&c[1], text, n, path, &e))
			fail_msg("%s", e.text);
		assert_memory_equal(&c[0].chooser, &c[1].chooser, sizeof c->chooser);
		assert_memory_equal(c[0].kv_width, c[1].kv_width, sizeof c->kv_width);
		assert_true(c[0].glu_limit == c[1].glu_limit && c[0].rope[0].dim == c[1].rope[0].dim);
		for (uint32_t layer = 0; layer < c[0].layers; layer++) {
			const struct layer *a = &c[0].layer[layer], *b = &c[1].layer[layer];
			assert_int_equal(a->index, b->index);
			assert_int_equal(a->feed_forward, b->feed_forward);
			assert_int_equal(a->shared, b->shared);
		}
	}
	free(c);
}

/* DeepSeek V4's older spelling: numbers of positions, of hashed layers, of rotated numbers. */
static void older_keys_of_deepseek_say_the_same(void **state)
{
	(void)state;
	static const char older[] =
		"{\"model_type\": \"deepseek_v4\", \"hidden_size\": 64, \"num_hidden_layers\": 4,"
		"\"vocab_size\": 384, \"max_position_embeddings\": 512, \"num_attention_heads\": 4,"
		"\"head_dim\": 32, \"q_lora_rank\": 32, \"o_groups\": 2, \"o_lora_rank\": 24,"
		"\"qk_rope_head_dim\": 16, \"compress_ratios\": [0, 128, 4, 4, 0],"
		"\"compress_rate_hca\": 16, \"num_hash_layers\": 1, \"sliding_window\": 8,"
		"\"index_n_heads\": 8, \"index_head_dim\": 32, \"index_topk\": 4,"
		"\"n_routed_experts\": 12, \"num_experts_per_tok\": 3,"
		"\"moe_intermediate_size\": 48, \"swiglu_limit\": 1.5, \"rope_scaling\":"
		"{\"type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64}}";
	struct config *c = calloc(2, sizeof *c);
	assert_non_null(c);
	if (!test_fixture("deepseek_v4"))
		skip();
	assert_int_equal(read_with(&c[0], "deepseek_v4", NULL, NULL), 0);
	if (config_parse(&c[1], older, strlen(older), "config.json", &e))
		fail_msg("%s", e.text);
	assert_memory_equal(c[0].layer, c[1].layer, sizeof c->layer);
	assert_memory_equal(&c[0].chooser, &c[1].chooser, sizeof c->chooser);
	assert_memory_equal(c[0].kv_width, c[1].kv_width, sizeof c->kv_width);
	assert_true(c[0].routed_scaling == c[1].routed_scaling);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(c[0].rope[i].dim, c[1].rope[i].dim);
		assert_true(c[0].rope[i].theta == c[1].rope[i].theta);
		assert_true(c[0].rope[i].factor == c[1].rope[i].factor);
		assert_true(c[0].rope[i].amplitude == c[1].rope[i].amplitude);
	}
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(published_configs_say_the_same),
		cmocka_unit_test(older_keys_of_deepseek_say_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
