/* Mixtral. Its layers may see a window. */
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	r->config->normalise_top_k = true;
	int failed = reader_rms_eps(r, 1e-5);
	if (!failed)
		failed = reader_windows(r);
	return failed ? failed : reader_routed(r, "intermediate_size");
}

#define EXPERTS "model.layers.%u.block_sparse_moe."
static const struct tensor_name names[] = {
	{TENSOR_ROUTER, EXPERTS "gate.weight", NULL},
	{TENSOR_EXPERT_GATE, EXPERTS "experts.%u.w1.weight", NULL},
	{TENSOR_EXPERT_UP, EXPERTS "experts.%u.w3.weight", NULL},
	{TENSOR_EXPERT_DOWN, EXPERTS "experts.%u.w2.weight", NULL},
	{0},
};

static const char *const types[] = {"mixtral", NULL};
const struct family family_mixtral = {.model_types = types, .read = read, .names = names};
