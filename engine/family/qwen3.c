/* Qwen3, dense: a norm on each query and key head. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	r->config->head_norms = HEAD_NORMS_EACH;
	int failed = reader_only_full_attention(r);
	return failed ? failed : reader_dense(r);
}

static const struct gguf_family gguf = {.architecture = "qwen3"};

static const char *const types[] = {"qwen3", NULL};
const struct family family_qwen3 = {.model_types = types, .read = read, .gguf = &gguf};
