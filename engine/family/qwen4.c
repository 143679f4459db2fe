/* Qwen 4 as published so far (Qwen3.8-Flash-Next): three gated delta nets to one gated attention to
 * chosen blocks, four residual streams with gated hyper-connections instead of norms, a shared
 * expert beside the routed ones, and n-gram embeddings in some layers, whose tables are read from
 * the published files. The draft layer is left out. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

static const struct only qwen4_only[] = {
	{"attention_bias", "false"}, {"indexer_kv_heads", "1"}, {0}};

/* ---- mixers ---- */

static void qwen4_mixers(struct reader *r)
{
	struct config *c = r->config;
	const char *gate = reader_string_or(r, "output_gate_type", "silu");
	c->norm_offset = 1;
	c->query_gate = true;
	c->delta_net.sigmoid = !strcmp(gate, "sigmoid");
	if (!c->delta_net.sigmoid && strcmp(gate, "silu") != 0)
		reader_unsupported(r, "output_gate_type", gate, "sigmoid or silu");
	reader_delta_nets(r);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++)
		if (c->layer[layer].mixer == MIXER_ATTENTION)
			c->layer[layer].index = INDEX_OWN;
}

static void qwen4_index(struct reader *r)
{
	struct config *c = r->config;
	struct chooser *x = &c->chooser;
	uint32_t budget = 1;
	const struct reader_number numbers[] = {
		{"indexer_n_heads", &x->heads, 4096},
		{"indexer_head_dim", &x->dim, 4096},
		{"indexer_budget", &budget, CONFIG_MAX_POSITIONS},
		{"indexer_compress_ratio", &x->ratio, 64},
	};
	x->entry = INDEX_MEANS;
	x->groups = 1;
	x->norms = true;
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	if (r->failed)
		return;
	if (64 % x->ratio || budget % x->ratio)
		reader_refuse(r, EINVAL,
			      "an index with entries of %u positions (indexer_compress_ratio) and a "
			      "budget of %u (indexer_budget) is not supported: the first must divide "
			      "64 and the budget",
			      x->ratio, budget);
	reader_check_index(r);
	x->most = budget / x->ratio;
}

/* ---- streams ---- */

static void qwen4_streams(struct reader *r)
{
	struct streams *s = &r->config->streams;
	s->kind = STREAMS_GATED;
	reader_u32_or(r, "hc_count", 2, CONFIG_MAX_STREAMS, 4, &s->count);
	reader_u32_or(r, "hc_lowrank", 1, CONFIG_MAX_WIDTH, 320, &s->low);
	reader_check_streams(r);
	if (s->low > config_stream_width(r->config))
		reader_refuse(r, EINVAL, "\"hc_lowrank\" is %u, more than all streams' %u", s->low,
			      config_stream_width(r->config));
}

/* ---- n-grams ---- */

/* The token beyond which n-grams do not reach back: the first of several end tokens. GGUF files
 * have a key for it. */
static uint32_t qwen4_end_token(struct reader *r)
{
	const char *key = json_has(r->json, "ngram_end_token") ? "ngram_end_token" : "eos_token_id";
	const struct json *v = json_find(r->json, key);
	uint64_t end = 0;
	if (v && json_kind(v) == JSON_LIST)
		v = json_next(v, NULL);
	if (!r->failed)
		r->failed = json_as_uint(v, key, r->name, 0, r->config->vocabulary - 1, &end, r->e);
	return (uint32_t)end;
}

static void qwen4_ngram_sizes(struct reader *r, struct ngram_sizes *n)
{
	struct config *c = r->config;
	uint32_t base, seed;
	n->vocabulary = c->vocabulary;
	reader_u32_or(r, "ngram_size", 2, NGRAM_SIZE, 3, &n->size);
	reader_u32_or(r, "heads_per_ngram", 1, NGRAM_ROWS, 8, &n->heads);
	reader_u32_or(r, "ngram_vocab_size_base", 2, NGRAM_BASE_MOST, 20000000, &base);
	reader_u32_or(r, "make_ngram_vocab_size_divisible_by", 1, NGRAM_BASE_MOST, 128,
		      &n->divisor);
	reader_u32_or(r, "seed", 0, UINT32_MAX, 1234, &seed);
	reader_u32_or(r, "ple_embed_dim", 1, CONFIG_MAX_WIDTH, c->hidden_size, &c->ngrams.dim);
	reader_u32_or(r, "ple_conv_kernel_size", 1, 64, 4, &c->ngrams.width);
	n->base = base;
	n->seed = seed;
	n->end = qwen4_end_token(r);
	if (r->failed) /* the number of heads may be 0 */
		return;
	uint32_t rows = (n->size - 1) * n->heads;
	if (rows > NGRAM_ROWS || c->ngrams.dim % rows)
		reader_refuse(r, EINVAL,
			      "n-grams of up to %u tokens with %u heads each do not divide "
			      "\"ple_embed_dim\" of %u; at most %d rows a token are supported",
			      n->size, n->heads, c->ngrams.dim, NGRAM_ROWS);
	c->ngrams.step = n->size;
}

/* Reads a list of this many numbers; 0 is not allowed. */
static void qwen4_ngram_list(struct reader *r, const char *key, uint64_t most, uint32_t count,
			     uint64_t *to)
{
	const struct json *list = reader_list_or_null(r, key), *v = NULL;
	if (!r->failed && json_count(list) != count)
		reader_refuse(r, EINVAL, "%s has %zu numbers, but n-grams need %u", key,
			      json_count(list), count);
	for (uint32_t i = 0; !r->failed && (v = json_next(list, v)); i++)
		r->failed = json_as_uint(v, key, r->name, 1, most, &to[i], r->e);
}

/* Reads the constants of a GGUF file's single table (qwen4_gguf.c). */
static void qwen4_ngram_given(struct reader *r, const struct ngram_sizes *n)
{
	struct config *c = r->config;
	uint64_t multiplier[NGRAM_SIZE], prime[NGRAM_ROWS], sum = 0;
	uint32_t rows = (n->size - 1) * n->heads, all;
	qwen4_ngram_list(r, "ngram_multipliers", INT64_MAX, n->size, multiplier);
	qwen4_ngram_list(r, "ngram_primes", UINT32_MAX, rows, prime);
	reader_u32(r, "ngram_table_rows", 1, UINT32_MAX, &all);
	for (uint32_t i = 0; i < rows && !r->failed; i++)
		sum += prime[i];
	if (!r->failed && sum > all)
		reader_refuse(r, EINVAL,
			      "n-grams are looked for in %llu rows, but their table has %u",
			      (unsigned long long)sum, all);
	if (!r->failed)
		ngram_hash_set(&c->ngrams.hash[c->ngrams.tables], n, multiplier, prime, all);
}

static void qwen4_ngrams(struct reader *r)
{
	struct config *c = r->config;
	struct ngram_sizes sizes = {0};
	const struct json *layers = reader_list_or_null(r, "ple_layer_ids"), *v = NULL;
	if (r->failed || !json_count(layers))
		return;
	qwen4_ngram_sizes(r, &sizes);
	while (!r->failed && (v = json_next(layers, v))) {
		uint64_t number = 1;
		r->failed = json_as_uint(v, "ple_layer_ids", r->name, 1, c->layers, &number, r->e);
		if (!r->failed)
			c->layer[number - 1].ngrams = 1;
	}
	/* Tables are numbered in the order of their layers, not in the order of the list. */
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		struct layer *l = &c->layer[layer];
		if (!l->ngrams)
			continue;
		if (l->mixer != MIXER_DELTA_NET)
			reader_unsupported(r, "ple_layer_ids", "a layer of attention",
					   "layers of linear_attention");
		if (c->ngrams.tables && json_has(r->json, "ngram_primes"))
			reader_refuse(r, ENOTSUP,
				      "more than one layer with n-grams is not supported in GGUF files");
		if (c->ngrams.tables == NGRAM_TABLES) {
			reader_refuse(r, ENOTSUP, "more than %d layers with n-grams are not supported",
				      NGRAM_TABLES);
			return;
		}
		if (json_has(r->json, "ngram_primes"))
			qwen4_ngram_given(r, &sizes);
		else
			ngram_hash_make(&c->ngrams.hash[c->ngrams.tables], &sizes,
					c->ngrams.tables);
		l->ngrams = ++c->ngrams.tables;
	}
}

/* ---- names ---- */

#define L "model.layers.%u."
#define INDEX L "self_attn.indexer."
static const struct tensor_name names[] = {
	{TENSOR_DELTA_CONV, L "linear_attn.conv1d.weight", view_convolution},
	{TENSOR_NGRAM_CONV, L "ple.conv1d.weight", view_ngram_convolution},
	{TENSOR_INDEX_Q, INDEX "index_qk_proj.weight", view_index_queries},
	{TENSOR_INDEX_K, INDEX "index_qk_proj.weight", view_index_keys},
	{TENSOR_INDEX_Q_NORM, INDEX "q_layernorm.weight", NULL},
	{TENSOR_INDEX_K_NORM, INDEX "k_layernorm.weight", NULL},
	{TENSOR_EXPERT_GATE, L "mlp.experts.gate_up_proj", view_stacked_gate},
	{TENSOR_EXPERT_UP, L "mlp.experts.gate_up_proj", view_stacked_up},
	{TENSOR_EXPERT_DOWN, L "mlp.experts.down_proj", view_stacked_down},
	{0},
};

static const char *const types[] = {"qwen4_exp", "qwen4_exp_text", NULL};
static const char *const skipped[] = {"model.visual.", "vision_tower.", "mtp.", NULL};
const struct family family_qwen4_exp = {
	.model_types = types,
	.nested = true,
	.partial_rotary = true,
	.head_norms = HEAD_NORMS_EACH,
	.normalise_top_k = true,
	.only = qwen4_only,
	.parts = {qwen4_mixers, qwen4_index, qwen4_streams, qwen4_ngrams, reader_moe,
		  reader_shared, reader_normalisation},
	.names = names,
	.gguf = &gguf_qwen4_exp,
	.skipped = skipped,
};
