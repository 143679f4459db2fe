/* Qwen 4 in GGUF files: the constants of n-gram hashes are keys (with config.json they are
 * computed), and all rows of the table are in one tensor. Layers are numbered from 0, in
 * config.json from 1. */
#include "engine/family/gguf_writer.h"

#include <errno.h>
#include <inttypes.h>

static const struct gguf_key keys[] = {
	{"attention.recurrent_layers", NULL, GGUF_KNOWN, 0},
	{"hyper_connection.count", "hc_count", GGUF_COPIED, 0},
	{"hyper_connection.low_rank", "hc_lowrank", GGUF_COPIED, 0},
	{"attention.indexer.head_count", "indexer_n_heads", GGUF_COPIED, 0},
	{"attention.indexer.key_length", "indexer_head_dim", GGUF_COPIED, 0},
	{"attention.indexer.top_k", "indexer_budget", GGUF_COPIED, 0},
	{"attention.compress_ratios", "indexer_compress_ratio", GGUF_COPIED, 0},
	{"ple.layers", NULL, GGUF_KNOWN, 0},
	{"ple.ngram_size", "ngram_size", GGUF_COPIED, 0},
	{"ple.heads_per_ngram", "heads_per_ngram", GGUF_COPIED, 0},
	{"ple.conv_kernel", "ple_conv_kernel_size", GGUF_COPIED, 0},
	{"ple.eos_token_id", "ngram_end_token", GGUF_COPIED, 0},
	{"ple.image_token_id", NULL, GGUF_KNOWN, 0}, /* for images */
	{"ple.layer_multipliers", NULL, GGUF_KNOWN, 0},
	{"ple.head_offsets", NULL, GGUF_KNOWN, 0},
	{"ple.head_vocab_sizes", NULL, GGUF_KNOWN, 0},
	{"embedding_length_per_layer_input", NULL, GGUF_KNOWN, 0},
	{0},
};

/* ---- kinds of layers ---- */

static const char *qwen4_gguf_kind(struct gguf_writer *w, uint64_t layer)
{
	uint64_t every = gguf_writer_uint_or(w, "full_attention_interval", 4);
	bool recurrent = every && (layer + 1) % every;
	return gguf_writer_flag_of(w, "attention.recurrent_layers", layer, recurrent)
		       ? "linear_attention"
		       : "full_attention";
}

/* ---- n-grams ---- */

/* Finds an array of at most NGRAM_ROWS numbers; NULL after an error. */
static const struct gguf_value *qwen4_gguf_list(struct gguf_writer *w, const char *suffix)
{
	char key[GGUF_KEY_BYTES];
	const struct gguf_value *v = gguf_find(w->g, gguf_full_key(w, suffix, key));
	uint64_t one;
	bool list = v && v->kind == GGUF_ARRAY && v->count && v->count <= NGRAM_ROWS;
	for (uint64_t i = 0; list && i < v->count; i++)
		list = gguf_uint(v, i, &one);
	if (!list)
		gguf_writer_refuse(w, EINVAL, "%s is not a list of at most %d whole numbers", key,
				   NGRAM_ROWS);
	return list ? v : NULL;
}

/* Writes the list, each number with `more` added. */
static void qwen4_gguf_put_list(struct gguf_writer *w, const char *name, const char *suffix,
				uint64_t more)
{
	const struct gguf_value *v = qwen4_gguf_list(w, suffix);
	uint64_t one;
	(void)fprintf(w->out, ",\n  \"%s\": [", name);
	for (uint64_t i = 0; v && i < v->count && gguf_uint(v, i, &one); i++)
		(void)fprintf(w->out, "%s%" PRIu64, i ? ", " : "", one + more);
	(void)fprintf(w->out, "]");
}

/* Checks that each head's rows begin where those of the head before end. */
static void qwen4_gguf_check_offsets(struct gguf_writer *w)
{
	const struct gguf_value *offsets = qwen4_gguf_list(w, "ple.head_offsets"),
				*sizes = qwen4_gguf_list(w, "ple.head_vocab_sizes");
	uint64_t offset = 0, size = 0, sum = 0;
	if (!offsets || !sizes)
		return;
	bool fits = offsets->count == sizes->count;
	for (uint64_t i = 0; fits && i < sizes->count; i++, sum += size)
		fits = gguf_uint(offsets, i, &offset) && gguf_uint(sizes, i, &size) &&
		       offset == sum && size <= UINT32_MAX;
	if (!fits)
		gguf_writer_refuse(w, EINVAL,
				   "the heads of n-grams (ple.head_offsets, ple.head_vocab_sizes) do "
				   "not lie one after the other");
}

static void qwen4_gguf_put_ngrams(struct gguf_writer *w)
{
	const struct package_tensor *table = package_find(w->package, "per_layer_token_embd.weight");
	uint64_t heads = gguf_writer_uint(w, "ple.heads_per_ngram"),
		 size = gguf_writer_uint(w, "ple.ngram_size"),
		 dim = gguf_writer_uint(w, "embedding_length_per_layer_input");
	if (!table)
		gguf_writer_refuse(w, ENOENT, "no tensor per_layer_token_embd.weight, the table of "
					      "n-grams");
	if (!size || size > NGRAM_SIZE || heads > NGRAM_ROWS)
		gguf_writer_refuse(w, ENOTSUP, "n-grams of up to %" PRIu64 " tokens with %" PRIu64
					       " heads are not supported", size, heads);
	if (w->failed)
		return;
	qwen4_gguf_put_list(w, "ple_layer_ids", "ple.layers", 1);
	qwen4_gguf_put_list(w, "ngram_multipliers", "ple.layer_multipliers", 0);
	qwen4_gguf_put_list(w, "ngram_primes", "ple.head_vocab_sizes", 0);
	qwen4_gguf_check_offsets(w);
	gguf_put_uint(w, "ngram_table_rows", package_rows(table));
	gguf_put_uint(w, "ple_embed_dim", dim * heads * (size - 1));
}

static void qwen4_gguf_put(struct gguf_writer *w)
{
	gguf_put_kinds(w, "layer_types", qwen4_gguf_kind);
	if (gguf_writer_has(w, "ple.layers"))
		qwen4_gguf_put_ngrams(w);
	else
		(void)fprintf(w->out, ",\n  \"ple_layer_ids\": []");
}

#define B "blk.%u."
static const struct tensor_name names[] = {
	{TENSOR_NGRAM_KEYS, B "ple_key.weight", NULL},
	{TENSOR_NGRAM_VALUES, B "ple_value.weight", NULL},
	{TENSOR_NGRAM_KEY_NORM, B "ple_norm_key.weight", NULL},
	{TENSOR_NGRAM_QUERY_NORM, B "ple_norm_query.weight", NULL},
	{TENSOR_NGRAM_CONV_NORM, B "ple_norm_conv.weight", NULL},
	{TENSOR_NGRAM_CONV, B "ple_conv1d.weight", NULL},
	{TENSOR_GATED_MIXER_NORM, B "hc_attn_norm.weight", NULL},
	{TENSOR_GATED_MIXER_DOWN, B "hc_attn_down.weight", NULL},
	{TENSOR_GATED_MIXER_UP, B "hc_attn_up.weight", NULL},
	{TENSOR_GATED_MIXER_INJECT, B "hc_attn_inject.weight", NULL},
	{TENSOR_GATED_FEED_NORM, B "hc_ffn_norm.weight", NULL},
	{TENSOR_GATED_FEED_DOWN, B "hc_ffn_down.weight", NULL},
	{TENSOR_GATED_FEED_UP, B "hc_ffn_up.weight", NULL},
	{TENSOR_GATED_FEED_INJECT, B "hc_ffn_inject.weight", NULL},
	{TENSOR_GATED_END_NORM, "output_hc_norm.weight", NULL},
	{TENSOR_GATED_END_DOWN, "output_hc_down.weight", NULL},
	{TENSOR_GATED_END_UP, "output_hc_up.weight", NULL},
	{TENSOR_INDEX_Q, B "indexer.q_proj.weight", NULL},
	{TENSOR_INDEX_K, B "indexer.k_proj.weight", NULL},
	{TENSOR_INDEX_Q_NORM, B "indexer.q_norm.weight", NULL},
	{TENSOR_INDEX_K_NORM, B "indexer.k_norm.weight", NULL},
	{0},
};

const struct gguf_family gguf_qwen4_exp = {
	.architecture = "qwen4exp",
	.also = "\"output_gate_type\": \"sigmoid\"",
	.keys = {keys, gguf_keys_routed, gguf_keys_shared, gguf_keys_hybrid},
	.names = names,
	.put = qwen4_gguf_put,
	.norms_plus_one = true,
	.tiled_heads = true,
};
