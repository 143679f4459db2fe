/* Llama and Mistral, dense: attention and a gated unit, nothing else; Mistral's may see a window.
 */
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

static const char *const llama[] = {"llama", NULL}, *const mistral[] = {"mistral", NULL};
const struct family family_llama = {
	.model_types = llama,
	.ropes = 1U << ROPE_LINEAR | 1U << ROPE_LLAMA3 | 1U << ROPE_YARN,
	.read = read_llama,
};
const struct family family_mistral = {
	.model_types = mistral,
	.ropes = 1U << ROPE_LINEAR | 1U << ROPE_YARN,
	.read = read_mistral,
};
