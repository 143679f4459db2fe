/* Qwen2 and Qwen2.5: dense, with biases on q, k and v. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	r->config->qkv_bias = true;
	int failed = reader_only_full_attention(r);
	return failed ? failed : reader_dense(r);
}

static const struct gguf_family gguf = {.architecture = "qwen2"};

static const char *const types[] = {"qwen2", NULL};
const struct family family_qwen2 = {.model_types = types, .read = read, .gguf = &gguf};
