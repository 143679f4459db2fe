/* Qwen3's mixtures of experts, the Coder among them. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	r->config->head_norms = HEAD_NORMS_EACH;
	int failed = reader_only_full_attention(r);
	if (!failed)
		failed = reader_dense(r);
	if (!failed)
		failed = reader_routed(r, "moe_intermediate_size");
	if (!failed)
		failed = reader_sparse_layers(r);
	return failed ? failed : reader_normalisation(r, false);
}

static const struct gguf_family gguf = {
	.architecture = "qwen3moe",
	.also = "\"norm_topk_prob\": true",
	.keys = {gguf_keys_routed},
};

static const char *const types[] = {"qwen3_moe", NULL};
const struct family family_qwen3_moe = {.model_types = types, .read = read, .gguf = &gguf};
