/* Mixtral. Its layers may see a window. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	r->config->normalise_top_k = true;
	int failed = reader_rms_eps(r, 1e-5);
	if (!failed)
		failed = reader_windows(r);
	return failed ? failed : reader_routed(r, "intermediate_size");
}

static const struct tensor_name names[] = {
	TENSOR_NAMES_BLOCK_SPARSE_MOE,
	{0},
};

/* GGUF files call Mixtral a llama with experts. Its converter makes the pairs of rows that a
 * rotation turns neighbours; older ones have a tensor for each expert. */
#define LAYER "blk.%u."
static const struct tensor_name gguf_names[] = {
	{TENSOR_Q, LAYER "attn_q.weight", view_paired_q},
	{TENSOR_K, LAYER "attn_k.weight", view_paired_k},
	{TENSOR_EXPERT_GATE, LAYER "ffn_gate.%u.weight", NULL},
	{TENSOR_EXPERT_UP, LAYER "ffn_up.%u.weight", NULL},
	{TENSOR_EXPERT_DOWN, LAYER "ffn_down.%u.weight", NULL},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "llama",
	.routed = true,
	.also = "\"attention_bias\": false", /* pairs of its rows would be neighbours, too */
	.keys = {gguf_keys_routed_only},
	.names = gguf_names,
};

static const char *const types[] = {"mixtral", NULL};
const struct family family_mixtral = {
	.model_types = types, .read = read, .names = names, .gguf = &gguf};
