/* The text part of MiniMax M3: norms of each query and key head, partial rotation, some layers with
 * attention to chosen blocks, dense and routed feed-forwards with a clamped gated linear unit, a
 * router of sigmoids with a correction, and a shared expert. The vision part is left out. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

static const struct only minimax_only[] = {{"attention_bias", "false"}, {0}};

/* ---- the index: at the top, or as published in sparse_attention_config ---- */

static void minimax_index_sizes(struct reader *r, const struct json *apart, const char *const key[5])
{
	struct config *c = r->config;
	struct chooser *x = &c->chooser;
	const struct json *whole = r->json;
	uint32_t blocks, local;
	if (apart)
		r->json = apart;
	reader_u32_or(r, key[0], 1, 4096, 4, &x->heads);
	reader_u32_or(r, key[1], 2, 4096, 128, &x->dim);
	reader_u32_or(r, key[2], 1, CONFIG_MAX_POSITIONS, 128, &x->ratio);
	reader_u32_or(r, key[3], 1, CONFIG_MAX_POSITIONS, 16, &blocks);
	reader_u32_or(r, key[4], 0, CONFIG_MAX_POSITIONS, 1, &local);
	if (local != 1)
		reader_refuse(r, ENOTSUP, "\"%s\" is %u, but only 1 is supported", key[4], local);
	r->json = whole;
	x->entry = INDEX_BLOCKS;
	x->norms = true;
	x->groups = x->heads;
	x->most = blocks - 1; /* the token's own block is added */
	if (!x->most || (uint64_t)blocks * x->ratio > CONFIG_MAX_POSITIONS)
		reader_refuse(r, ENOTSUP, "%u blocks of %u positions (%s) are not supported", blocks,
			      x->ratio, key[3]);
	if (x->heads != c->kv_heads)
		reader_refuse(r, ENOTSUP,
			      "an index of %u heads for %u key-value heads is not supported: each has "
			      "one of its own",
			      x->heads, c->kv_heads);
	reader_check_index(r);
}

/* sparse_attention_freq: 1 for a layer that chooses. */
static void minimax_sparse_layers(struct reader *r, const struct json *apart,
				  bool sparse[CONFIG_MAX_LAYERS])
{
	const struct json *whole = r->json, *v = NULL;
	r->json = apart;
	const struct json *list = reader_list_or_null(r, "sparse_attention_freq");
	r->json = whole;
	if (list && json_count(list) != r->config->layers)
		reader_refuse(r, EINVAL, "sparse_attention_freq names %zu layers of %u",
			      json_count(list), r->config->layers);
	for (uint32_t layer = 0; !r->failed && (v = json_next(list, v)); layer++) {
		uint64_t one = 0;
		r->failed = json_as_uint(v, "sparse_attention_freq", r->name, 0, 1, &one, r->e);
		sparse[layer] = one;
	}
}

static void minimax_index(struct reader *r)
{
	static const char *const here[] = {"index_n_heads", "index_head_dim", "index_block_size",
					   "index_topk_blocks", "index_local_blocks"};
	static const char *const there[] = {"sparse_num_index_heads", "sparse_index_dim",
					    "sparse_block_size", "sparse_topk_blocks",
					    "sparse_local_block"};
	struct config *c = r->config;
	bool sparse[CONFIG_MAX_LAYERS] = {false}, any = false;
	const struct json *apart = reader_object_or_null(r, "sparse_attention_config");
	if (!reader_layer_types(r, "minimax_m3_sparse", sparse) && apart)
		minimax_sparse_layers(r, apart, sparse);
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		c->layer[layer].index = sparse[layer] ? INDEX_OWN : INDEX_UNUSED;
		any = any || sparse[layer];
	}
	if (any)
		minimax_index_sizes(r, apart, apart ? there : here);
}

/* ---- feed-forwards ---- */

/* moe_layer_freq: 1 for a routed layer. */
static void minimax_routed_layers(struct reader *r)
{
	struct config *c = r->config;
	const struct json *list = reader_list_or_null(r, "moe_layer_freq"), *v = NULL;
	if (list && json_count(list) != c->layers)
		reader_refuse(r, EINVAL, "moe_layer_freq names %zu layers of %u", json_count(list),
			      c->layers);
	for (uint32_t layer = 0; !r->failed && (v = json_next(list, v)); layer++) {
		uint64_t one = 1;
		r->failed = json_as_uint(v, "moe_layer_freq", r->name, 0, 1, &one, r->e);
		if (!one)
			c->layer[layer].feed_forward = FEED_FORWARD_DENSE;
	}
	reader_dense_or_sparse(r);
}

static void minimax_feed_forwards(struct reader *r)
{
	struct config *c = r->config;
	c->norm_offset = 1;
	c->glu = GLU_CLAMPED;
	c->glu_alpha = 1.702F;
	c->glu_limit = 7;
	if (json_has(r->json, "swiglu_alpha"))
		reader_factor(r, "swiglu_alpha", &c->glu_alpha);
	if (json_has(r->json, "swiglu_limit"))
		reader_factor(r, "swiglu_limit", &c->glu_limit);
	reader_experts(r);
	minimax_routed_layers(r);
	reader_u32_or(r, "dense_intermediate_size", 1, CONFIG_MAX_WIDTH, 12288,
		      &c->intermediate_size);
	reader_u32_or(r, "shared_intermediate_size", 1, CONFIG_MAX_WIDTH, 3072, &c->shared_size);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		c->layer[layer].shared = config_routed(c, layer);
}

#define A "model.layers.%u.self_attn."
static const struct tensor_name names[] = {
	TENSOR_NAMES_BLOCK_SPARSE_MOE,
	{TENSOR_ROUTER_CORRECTION, BLOCK_SPARSE_MOE "e_score_correction_bias", NULL},
	TENSOR_NAMES_SHARED_EXPERTS(BLOCK_SPARSE_MOE),
	{TENSOR_INDEX_Q, A "index_q_proj.weight", NULL},
	{TENSOR_INDEX_K, A "index_k_proj.weight", NULL},
	{TENSOR_INDEX_Q_NORM, A "index_q_norm.weight", NULL},
	{TENSOR_INDEX_K_NORM, A "index_k_norm.weight", NULL},
	{0},
};

/* ---- GGUF files: they do not say how units are clamped, nor how wide the shared expert is ---- */

static const struct gguf_key gguf_keys[] = {
	{"feed_forward_length", "dense_intermediate_size", GGUF_COPIED, 0},
	{"expert_feed_forward_length", "intermediate_size", GGUF_COPIED, 0},
	{"expert_shared_count", NULL, GGUF_NEUTRAL, 1},
	{"leading_dense_block_count", NULL, GGUF_KNOWN, 0},
	{"attention.indexer.head_count", "index_n_heads", GGUF_COPIED, 0},
	{"attention.indexer.key_length", "index_head_dim", GGUF_COPIED, 0},
	{"attention.indexer.top_k", "index_topk_blocks", GGUF_COPIED, 0},
	{"attention.indexer.block_size", "index_block_size", GGUF_COPIED, 0},
	{"attention.indexer.local_blocks", "index_local_blocks", GGUF_COPIED, 0},
	{0},
};

static const char *minimax_kind(struct gguf_writer *w, uint64_t layer)
{
	bool indexed = gguf_writer_tensor(w, layer, "indexer.q_proj.weight");
	return indexed ? "minimax_m3_sparse" : "full_attention";
}

static const char *minimax_feed_kind(struct gguf_writer *w, uint64_t layer)
{
	return layer < gguf_writer_uint_or(w, "leading_dense_block_count", 0) ? "dense" : "sparse";
}

static void minimax_put(struct gguf_writer *w)
{
	uint64_t layers = gguf_writer_layers(w);
	const struct package_tensor *shared =
		layers ? gguf_writer_tensor(w, layers - 1, "ffn_gate_shexp.weight") : NULL;
	gguf_put_kinds(w, "layer_types", minimax_kind);
	gguf_put_kinds(w, "mlp_layer_types", minimax_feed_kind);
	if (shared)
		gguf_put_uint(w, "shared_intermediate_size", package_rows(shared));
}

static const struct tensor_name gguf_names[] = {
	{TENSOR_INDEX_Q, "blk.%u.indexer.q_proj.weight", NULL},
	{TENSOR_INDEX_K, "blk.%u.indexer.k_proj.weight", NULL},
	{TENSOR_INDEX_Q_NORM, "blk.%u.indexer.q_norm.weight", NULL},
	{TENSOR_INDEX_K_NORM, "blk.%u.indexer.k_norm.weight", NULL},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "minimax-m3",
	.keys = {gguf_keys, gguf_keys_routed, gguf_keys_sigmoid},
	.names = gguf_names,
	.put = minimax_put,
	.norms_plus_one = true,
};

static const char *const types[] = {"minimax_m3_vl", "minimax_m3_vl_text", NULL};
static const char *const skipped[] = {"vision_tower.", "multi_modal_projector.", "patch_merge_mlp.",
				      "model.vision_tower.", "model.multi_modal_projector.", "mtp.",
				      NULL};
const struct family family_minimax_m3 = {
	.model_types = types,
	.nested = true,
	.partial_rotary = true,
	.head_norms = HEAD_NORMS_EACH,
	.normalise_top_k = true,
	.activation = "swigluoai",
	.only = minimax_only,
	.parts = {minimax_index, minimax_feed_forwards, reader_sigmoid_router},
	.names = names,
	.gguf = &gguf,
	.skipped = skipped,
};
