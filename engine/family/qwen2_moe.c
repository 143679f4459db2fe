/* Qwen1.5-MoE and Qwen2's mixtures of experts: a shared expert behind a gate of its own. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	struct config *c = r->config;
	int failed = json_get_bool_or(r->json, "qkv_bias", r->name, true, &c->qkv_bias, r->e);
	if (!failed)
		failed = reader_only_full_attention(r);
	if (!failed)
		failed = reader_dense(r);
	if (!failed)
		failed = reader_routed(r, "moe_intermediate_size");
	if (!failed)
		failed = reader_sparse_layers(r);
	if (!failed)
		failed = reader_shared(r);
	return failed ? failed : reader_normalisation(r, false);
}

static const struct gguf_family gguf = {
	.architecture = "qwen2moe",
	.keys = {gguf_keys_routed, gguf_keys_shared},
};

static const char *const types[] = {"qwen2_moe", NULL};
const struct family family_qwen2_moe = {.model_types = types, .read = read, .gguf = &gguf};
