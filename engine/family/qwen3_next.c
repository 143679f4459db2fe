/* Qwen3-Next: a hybrid whose delta nets have their projections fused head by head. */
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	int failed = reader_hybrid(r);
	if (!failed)
		failed = reader_dense(r);
	if (!failed)
		failed = reader_routed(r, "moe_intermediate_size");
	if (!failed)
		failed = reader_sparse_layers(r);
	if (!failed)
		failed = reader_shared(r);
	return failed ? failed : reader_normalisation(r, true);
}

#define DELTA_NET "model.layers.%u.linear_attn."
static const struct tensor_name names[] = {
	{TENSOR_DELTA_QKV, DELTA_NET "in_proj_qkvz.weight", view_qkvz_qkv},
	{TENSOR_DELTA_Z, DELTA_NET "in_proj_qkvz.weight", view_qkvz_z},
	{TENSOR_DELTA_B, DELTA_NET "in_proj_ba.weight", view_ba_b},
	{TENSOR_DELTA_A, DELTA_NET "in_proj_ba.weight", view_ba_a},
	TENSOR_NAMES_HYBRID,
	{0},
};

static const char *const types[] = {"qwen3_next", NULL};
const struct family family_qwen3_next = {
	.model_types = types,
	.partial_rotary = true,
	.read = read,
	.names = names,
	DRAFT_NAMES_HYBRID,
};
