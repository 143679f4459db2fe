/* OLMoE: norms over all heads together. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	r->config->head_norms = HEAD_NORMS_TOGETHER;
	int failed = reader_rms_eps(r, 1e-5);
	if (!failed)
		failed = reader_null_only(r, "clip_qkv");
	if (!failed)
		failed = reader_only_full_attention(r);
	if (!failed)
		failed = reader_routed(r, "intermediate_size");
	return failed ? failed : reader_normalisation(r, false);
}

static const struct gguf_family gguf = {
	.architecture = "olmoe",
	.keys = {gguf_keys_routed_only},
};

static const char *const types[] = {"olmoe", NULL};
const struct family family_olmoe = {.model_types = types, .read = read, .gguf = &gguf};
