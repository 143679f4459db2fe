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

static inline int reader_u32(const struct reader *r, const char *key, uint32_t least, uint32_t most,
			     uint32_t *to)
{
	uint64_t value;
	int failed = json_get_uint(r->json, key, r->name, least, most, &value, r->e);
	if (!failed)
		*to = (uint32_t)value;
	return failed;
}

static inline int reader_u32_or(const struct reader *r, const char *key, uint32_t least,
				uint32_t most, uint32_t fallback, uint32_t *to)
{
	*to = fallback;
	return json_has(r->json, key) ? reader_u32(r, key, least, most, to) : 0;
}

/* A positive factor that is 1 where the key is missing. */
int reader_factor(const struct reader *r, const char *key, float *to);
/* "\"KEY\" is VALUE, but only SUPPORTED is supported" */
int reader_unsupported(const struct reader *r, const char *key, const char *value,
		       const char *supported);
/* Checks keys that are computed for one value alone (family.h). A key that is missing or null says
 * nothing. */
int reader_only(const struct reader *r, const struct only *keys);
/* layer_types, where it is there, names nothing but full attention. */
int reader_only_full_attention(const struct reader *r);

/* sliding_window, in the layers that layer_types names, or without it in all. */
int reader_windows(const struct reader *r);

/* The dense feed-forward's size. */
int reader_dense(const struct reader *r);
/* The numbers of routed experts and their size, which config.json calls intermediate_size or
 * moe_intermediate_size; all layers become routed. */
int reader_experts(const struct reader *r);
int reader_moe(const struct reader *r);
/* decoder_sparse_step and mlp_only_layers: which layers are dense all the same. */
int reader_sparse_layers(const struct reader *r);
/* norm_topk_prob; without it, what the family has. */
int reader_normalisation(const struct reader *r);
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
/* clang-format off: a row a line */
/* Rows of names: a router and experts that are called block_sparse_moe. */
#define BLOCK_SPARSE_MOE "model.layers.%u.block_sparse_moe."
#define TENSOR_NAMES_BLOCK_SPARSE_MOE                                                \
	{TENSOR_ROUTER, BLOCK_SPARSE_MOE "gate.weight", NULL},                       \
		{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "experts.%u.w1.weight", NULL}, \
		{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "experts.%u.w3.weight", NULL},   \
		{TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "experts.%u.w2.weight", NULL}, \
		{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "switch_mlp.gate_proj.weight", \
		 view_stacked_one},                                                  \
		{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "switch_mlp.up_proj.weight",     \
		 view_stacked_one},                                                  \
	{                                                                            \
		TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "switch_mlp.down_proj.weight",  \
			view_stacked_down                                            \
	}
/* clang-format on */

#endif
