/* DeepSeek V3 and R1, and GLM 5: latent attention, the first layers dense, a router of sigmoids
 * with a correction and groups, and a shared expert. The draft layer after the last layer is left
 * out. In GLM 5 an index chooses the positions that attention reads. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

static void deepseek_latent(struct reader *r)
{
	struct config *c = r->config;
	c->latent.interleaved = true;
	reader_latent(r);
	if (!c->latent.rope)
		reader_refuse(r, EINVAL, "\"qk_rope_head_dim\" is 0, and positions turn nothing");
	reader_bool(r, "rope_interleave", &c->latent.interleaved);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		c->layer[layer].mixer = MIXER_LATENT;
	rope_read_config(r, c->latent.rope, &c->rope[0]);
	c->attention_scale *= c->rope[0].score_scale;
}

static const struct only deepseek_only[] = {
	{"attention_bias", "false"}, {"moe_layer_freq", "1"}, {0}};

#define A "model.layers.%u.self_attn."
static const struct tensor_name names[] = {
	{TENSOR_LATENT_Q, A "q_b_proj.weight", NULL},
	{TENSOR_LATENT_Q, A "q_proj.weight", NULL},
	{TENSOR_LATENT_KEYS, A "kv_b_proj.weight", view_latent_keys},
	{TENSOR_LATENT_VALUES, A "kv_b_proj.weight", view_latent_values},
	{TENSOR_LATENT_KEYS, A "embed_q.weight", view_latent_keys_apart}, /* MLX */
	{TENSOR_LATENT_VALUES, A "unembed_out.weight", view_latent_values_apart},
	TENSOR_NAMES_SHARED_EXPERTS("model.layers.%u.mlp."),
	{0},
};

/* GGUF files have separate projections of keys (transposed, head by head) and values; before
 * 2025-04 they had both as published. Files before 2025-09 have no keys for expert groups and are
 * computed without groups, as llama.cpp did then. GGUF files have no draft layer. */
static const struct gguf_family gguf = {
	.architecture = "deepseek2",
	.keys = {gguf_keys_latent, gguf_keys_routed, gguf_keys_sigmoid},
};

static const char *const types[] = {"deepseek_v3", NULL};
const struct family family_deepseek_v3 = {
	.model_types = types,
	.ropes = 1U << ROPE_YARN,
	.own_positions = true,
	.only = deepseek_only,
	.parts = {reader_only_full_attention, deepseek_latent, reader_dense, reader_moe,
		  reader_first_dense, reader_sigmoid_router, reader_shared_experts,
		  reader_left_out},
	.names = names,
	.gguf = &gguf,
};

/* ---- GLM 5 ---- */

static void deepseek_glm_sizes(struct reader *r)
{
	struct config *c = r->config;
	struct chooser *x = &c->chooser;
	c->latent.eps = 1e-6F; /* whatever rms_norm_eps is */
	x->entry = INDEX_TOKENS;
	x->groups = x->ratio = 1;
	x->low = x->layer_norm = x->weighed = x->interleaved = true;
	reader_u32_or(r, "index_n_heads", 1, 4096, 32, &x->heads);
	reader_u32_or(r, "index_head_dim", 2, 4096, 128, &x->dim);
	reader_u32_or(r, "index_topk", 1, CONFIG_MAX_POSITIONS, 2048, &x->most);
	if (!c->latent.query_rank)
		reader_refuse(r, EINVAL, "an index needs \"q_lora_rank\", from which its queries come");
	reader_check_index(r);
}

/* Reads a pattern with a letter for each layer, F or S. */
static void deepseek_glm_pattern(struct reader *r, char *pattern)
{
	const struct config *c = r->config;
	const char *text = reader_string_or(r, "index_topk_pattern", NULL);
	if (text && strlen(text) != c->layers)
		reader_refuse(r, EINVAL, "\"index_topk_pattern\" has %zu letters for %u layers",
			      strlen(text), c->layers);
	else if (text)
		memcpy(pattern, text, c->layers);
}

/* indexer_types: "full" or "shared". */
static void deepseek_glm_types(struct reader *r, char *pattern)
{
	const struct config *c = r->config;
	const struct json *list = reader_list_or_null(r, "indexer_types"), *v = NULL;
	if (list && json_count(list) != c->layers)
		reader_refuse(r, EINVAL, "indexer_types names %zu layers of %u", json_count(list),
			      c->layers);
	for (uint32_t layer = 0; !r->failed && (v = json_next(list, v)); layer++) {
		const char *type = "";
		r->failed = json_as_string(v, "indexer_types", r->name, &type, r->e);
		pattern[layer] = !strcmp(type, "full") ? 'F' : !strcmp(type, "shared") ? 'S' : '?';
	}
}

/* Layers marked "shared" use the choice of the last layer with an index. */
static void deepseek_glm_index(struct reader *r)
{
	struct config *c = r->config;
	char pattern[CONFIG_MAX_LAYERS];
	memset(pattern, 'F', sizeof pattern);
	deepseek_glm_sizes(r);
	deepseek_glm_pattern(r, pattern);
	deepseek_glm_types(r, pattern);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		if (pattern[layer] != 'F' && (pattern[layer] != 'S' || !layer))
			reader_refuse(r, EINVAL,
				      "layer %u has neither an index (full) nor one before to share",
				      layer);
		c->layer[layer].index = pattern[layer] == 'F' ? INDEX_OWN : INDEX_SHARED;
	}
}

static void deepseek_glm_layers(struct reader *r)
{
	const struct json *list = reader_list_or_null(r, "layer_types"), *v = NULL;
	while (!r->failed && (v = json_next(list, v))) {
		const char *type = "";
		r->failed = json_as_string(v, "layer_types", r->name, &type, r->e);
		if (!r->failed && strcmp(type, "indexed_attention") != 0)
			reader_unsupported(r, "layer_types", type, "indexed_attention");
	}
	reader_first_dense(r);
	reader_dense_or_sparse(r);
}

/* GGUF files: the first converter did not write the key indexer.types; then the presence of tensors
 * decides. */
static const struct gguf_key glm_keys[] = {
	{"attention.indexer.head_count", "index_n_heads", GGUF_COPIED, 0},
	{"attention.indexer.key_length", "index_head_dim", GGUF_COPIED, 0},
	{"attention.indexer.top_k", "index_topk", GGUF_COPIED, 0},
	{"attention.indexer.types", NULL, GGUF_KNOWN, 0},
	{0},
};

static const char *deepseek_glm_kind(struct gguf_writer *w, uint64_t layer)
{
	bool own = gguf_writer_tensor(w, layer, "indexer.proj.weight");
	return gguf_writer_flag_of(w, "attention.indexer.types", layer, own) ? "full" : "shared";
}

static void deepseek_glm_put(struct gguf_writer *w)
{
	gguf_put_kinds(w, "indexer_types", deepseek_glm_kind);
}

static const struct tensor_name glm_gguf_names[] = {GGUF_NAMES_INDEX, {0}};
static const struct gguf_family glm_gguf = {
	.architecture = "glm-dsa",
	.keys = {glm_keys, gguf_keys_latent, gguf_keys_routed, gguf_keys_sigmoid},
	.names = glm_gguf_names,
	.put = deepseek_glm_put,
};

static const struct only glm_only[] = {{"attention_bias", "false"}, {"mlp_bias", "false"},
				       {"index_topk_freq", "1"},    {"moe_layer_freq", "1"},
				       {0}};
static const char *const glm_types[] = {"glm_moe_dsa", NULL};
const struct family family_glm_moe_dsa = {
	.model_types = glm_types,
	.ropes = 1U << ROPE_YARN,
	.own_positions = true,
	.rms_eps = 1e-5,
	.only = glm_only,
	.parts = {deepseek_latent, deepseek_glm_index, reader_dense, reader_moe, deepseek_glm_layers,
		  reader_sigmoid_router, reader_shared_experts, reader_left_out},
	.names = names,
	.gguf = &glm_gguf,
};
