/* Llama and Mistral, dense: attention and a gated unit, nothing else; Mistral's may see a window.
 */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read_llama(const struct reader *r)
{
	static const struct only keys[] = {{"mlp_bias", "false"}, {"sliding_window", "null"}, {0}};
	int failed = reader_only(r, keys);
	if (!failed)
		failed = reader_only_full_attention(r);
	return failed ? failed : reader_dense(r);
}

static int read_mistral(const struct reader *r)
{
	int failed = reader_windows(r);
	return failed ? failed : reader_dense(r);
}

/* GGUF files have the pairs of rows that a rotation turns as neighbours, of either of the two,
 * which they call by one name. Biases, whose pairs would be, too, are refused as tensors that are
 * not known. rope_freqs.weight holds what Llama 3.1's rotations are slowed by (gguf_rope.c). */
static const struct tensor_name gguf_names[] = {
	{TENSOR_Q, "blk.%u.attn_q.weight", view_paired_q},
	{TENSOR_K, "blk.%u.attn_k.weight", view_paired_k},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "llama",
	.also = "\"attention_bias\": false",
	.names = gguf_names,
};

static const char *const llama[] = {"llama", NULL}, *const mistral[] = {"mistral", NULL};
const struct family family_llama = {
	.model_types = llama,
	.ropes = 1U << ROPE_LINEAR | 1U << ROPE_LLAMA3 | 1U << ROPE_YARN | 1U << ROPE_FACTORS,
	.read = read_llama,
	.gguf = &gguf,
};
const struct family family_mistral = {
	.model_types = mistral,
	.ropes = 1U << ROPE_LINEAR | 1U << ROPE_YARN,
	.read = read_mistral,
};
