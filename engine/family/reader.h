/* Reading a config.json: what config.c and the families' files share. Within engine/family only. */
#ifndef MOEFS_ENGINE_FAMILY_READER_H
#define MOEFS_ENGINE_FAMILY_READER_H

#include "engine/family/family.h"
#include "engine/json/json.h"

struct reader {
	struct config *config;
	const struct json *json; /* where the model's numbers are: the file, or its text_config */
	const char *name;	 /* of the file, for messages */
	struct err *e;
};

static inline int get_u32(const struct reader *r, const char *key, uint32_t least, uint32_t most,
			  uint32_t *to)
{
	uint64_t value;
	int failed = json_get_uint(r->json, key, r->name, least, most, &value, r->e);
	if (!failed)
		*to = (uint32_t)value;
	return failed;
}

static inline int get_u32_or(const struct reader *r, const char *key, uint32_t least, uint32_t most,
			     uint32_t fallback, uint32_t *to)
{
	*to = fallback;
	return json_has(r->json, key) ? get_u32(r, key, least, most, to) : 0;
}

/* A positive factor that is 1 where the key is missing. */
int reader_factor(const struct reader *r, const char *key, float *to);
/* rms_norm_eps where its default is not the common 1e-6. */
int reader_rms_eps(const struct reader *r, double fallback);

/* "\"KEY\" is VALUE, but only SUPPORTED is supported" */
int reader_unsupported(const struct reader *r, const char *key, const char *value,
		       const char *supported);
/* A key that only null, or its absence, is computed for. */
int reader_null_only(const struct reader *r, const char *key);
/* Keys that are computed for one value alone, as a config writes it; a list of these ends with a
 * row without a key. A key that is missing or null says nothing. */
struct only {
	const char *key, *value;
};
int reader_only(const struct reader *r, const struct only *keys);
/* layer_types, where it is there, names nothing but full attention. */
int reader_only_full_attention(const struct reader *r);

/* sliding_window, in the layers that layer_types names, or without it in all. */
int reader_windows(const struct reader *r);

/* The dense feed-forward's size. */
int reader_dense(const struct reader *r);
/* The numbers of routed experts, their size under that key; all layers become routed. */
int reader_routed(const struct reader *r, const char *size_key);
/* The same under moe_intermediate_size. */
int reader_moe(const struct reader *r);
/* decoder_sparse_step and mlp_only_layers: which layers are dense all the same. */
int reader_sparse_layers(const struct reader *r);
/* norm_topk_prob. */
int reader_normalisation(const struct reader *r, bool fallback);
/* first_k_dense_replace: the first layers that are dense all the same. */
int reader_first_dense(const struct reader *r);
/* A router whose scores are sigmoids, with a correction for the choice, groups and a factor. */
int reader_sigmoid_router(const struct reader *r);
/* A shared expert beside the routed ones of every layer that has them, behind a gate of its own. */
int reader_shared(const struct reader *r);
/* The same without a gate: n_shared_experts of the routed ones' size as one. */
int reader_shared_experts(const struct reader *r);
/* num_nextn_predict_layers: layers of a draft, which the family leaves out by their names. */
int reader_left_out(const struct reader *r);
/* Gated delta nets and gated attention: the mixers, the delta nets' sizes, and all that such models
 * have in common. */
int reader_hybrid(const struct reader *r);
/* Their names: in a family's table, and where its draft layer lies. */
#define TENSOR_NAMES_HYBRID                                                                      \
	{                                                                                        \
		TENSOR_DELTA_CONV, "model.layers.%u.linear_attn.conv1d.weight", view_convolution \
	}
#define DRAFT_NAMES_HYBRID .draft = "mtp.", .draft_layer = "mtp.layers.%u."

/* clang-format off: a row a line */
/* Rows of names: a router and experts that are called block_sparse_moe. */
#define BLOCK_SPARSE_MOE "model.layers.%u.block_sparse_moe."
#define TENSOR_NAMES_BLOCK_SPARSE_MOE \
	{TENSOR_ROUTER, BLOCK_SPARSE_MOE "gate.weight", NULL}, \
	{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "experts.%u.w1.weight", NULL}, \
	{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "experts.%u.w3.weight", NULL}, \
	{TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "experts.%u.w2.weight", NULL}, \
	{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "switch_mlp.gate_proj.weight", view_stacked_one}, \
	{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "switch_mlp.up_proj.weight", view_stacked_one}, \
	{TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "switch_mlp.down_proj.weight", view_stacked_down}
/* clang-format on */

#endif
