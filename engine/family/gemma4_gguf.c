/* Gemma 4 in GGUF files: values that differ between layers are in arrays, or in two keys, one of
 * which ends in _swa and is for layers with a window. */
#include "engine/family/gguf_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

static const struct gguf_key keys[] = {
	{"attention.key_length", NULL, GGUF_KNOWN, 0},
	{"attention.key_length_swa", "head_dim", GGUF_COPIED, 0},
	{"attention.value_length_swa", NULL, GGUF_KNOWN, 0},
	{"attention.head_count_kv", NULL, GGUF_KNOWN, 0},
	{"attention.shared_kv_layers", "num_kv_shared_layers", GGUF_COPIED, 0},
	{"attention.sliding_window", "sliding_window", GGUF_COPIED, 0},
	{"attention.sliding_window_pattern", NULL, GGUF_KNOWN, 0},
	{"embedding_length_per_layer_input", "hidden_size_per_layer_input", GGUF_COPIED, 0},
	{"feed_forward_length", NULL, GGUF_KNOWN, 0},
	{"final_logit_softcapping", "final_logit_softcapping", GGUF_REAL, 0},
	{"rope.freq_base", NULL, GGUF_KNOWN, 0},
	{"rope.freq_base_swa", NULL, GGUF_KNOWN, 0},
	{"rope.dimension_count_swa", NULL, GGUF_KNOWN, 0},
	{0},
};

/* How much of a head is rotated, from the factors: 1 for rotated pairs, 1e30 for the others. The
 * config's reader truncates the number of pairs. */
static double gemma4_gguf_turning(struct gguf_writer *w)
{
	float factor[ROPE_FACTORS_MOST];
	const struct package_tensor *t = package_find(w->package, GGUF_ROPE_FACTORS);
	if (!t && !w->failed)
		w->failed = err_set(w->e, ENOENT, "%s has no tensor %s", w->name, GGUF_ROPE_FACTORS);
	uint32_t pairs = t ? gguf_read_factors(w, t, factor) : 0, turning = 0;
	while (turning < pairs && factor[turning] == 1)
		turning++;
	for (uint32_t i = turning; i < pairs; i++)
		if (factor[i] < 1e20F)
			gguf_writer_refuse(w, ENOTSUP,
					   "%s slows rotations by %g, but only 1 and 1e30 are "
					   "supported",
					   GGUF_ROPE_FACTORS, (double)factor[i]);
	double part = pairs ? (double)turning / pairs : 1;
	while ((uint32_t)(2 * pairs * part / 2) < turning)
		part = nextafter(part, INFINITY);
	return part;
}

static void gemma4_gguf_put_rotations(struct gguf_writer *w)
{
	double part = gemma4_gguf_turning(w), whole = gguf_writer_real(w, "rope.freq_base"),
	       local = gguf_writer_has(w, "rope.freq_base_swa")
			       ? gguf_writer_real(w, "rope.freq_base_swa")
			       : 10000;
	uint64_t dim = gguf_writer_uint(w, "attention.key_length_swa");
	if (gguf_writer_uint_or(w, "rope.dimension_count_swa", dim) != dim)
		gguf_writer_refuse(w, ENOTSUP,
				   "in layers with a window not all of a head turns "
				   "(rope.dimension_count_swa)");
	(void)fprintf(w->out,
		      ",\n  \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
		      "\"proportional\", \"rope_theta\": %.17g, \"partial_rotary_factor\": %.17g}, "
		      "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": %.17g}}",
		      whole, part, local);
}

/* Writes the heads of each layer without a window. */
static void gemma4_gguf_put_heads(struct gguf_writer *w, uint64_t layers)
{
	static const char heads[] = "attention.head_count_kv";
	char key[GGUF_KEY_BYTES];
	const struct gguf_value *v = gguf_find(
		w->g, gguf_full_key(w, "attention.sliding_window_pattern", key));
	uint64_t dim = gguf_writer_uint(w, "attention.key_length"), count = 0, local = 0;
	if (!w->failed && (!v || v->kind != GGUF_ARRAY || v->count != layers)) {
		gguf_writer_refuse(w, EINVAL, "%s is not an array of an element for each layer",
				   key);
		return;
	}
	(void)fprintf(w->out, ",\n  \"per_layer_config\": {");
	for (uint64_t i = 0; i < layers && !w->failed; i++) {
		uint64_t one = 0;
		bool sliding = gguf_uint(v, i, &one) ? one : v->bytes[i];
		if (sliding) {
			local = i;
			continue;
		}
		(void)fprintf(w->out,
			      "%s\"%" PRIu64 "\": {\"head_dim\": %" PRIu64
			      ", \"num_key_value_heads\": %" PRIu64 "}",
			      count++ ? ", " : "", i, dim, gguf_writer_uint_of(w, heads, i));
	}
	(void)fprintf(w->out, "}");
	gguf_put_uint(w, "num_key_value_heads", gguf_writer_uint_of(w, heads, local));
}

/* Writes whether the last layers are twice as wide as the first. */
static void gemma4_gguf_put_widths(struct gguf_writer *w, uint64_t layers)
{
	static const char width[] = "feed_forward_length";
	uint64_t first = gguf_writer_uint_of(w, width, 0),
		 last = layers ? gguf_writer_uint_of(w, width, layers - 1) : 0;
	gguf_put_uint(w, "intermediate_size", first);
	gguf_put_bool(w, "use_double_wide_mlp", first && last == 2 * first);
}

/* Whether layers without a window use their keys as values: whether the first of them has no value
 * projection. */
static bool gemma4_gguf_keys_are_values(const struct gguf_writer *w, uint64_t layers)
{
	char name[64];
	for (uint64_t i = 0; i < layers; i++) {
		(void)snprintf(name, sizeof name, "blk.%" PRIu64 ".attn_k.weight", i);
		bool key = package_find(w->package, name);
		(void)snprintf(name, sizeof name, "blk.%" PRIu64 ".attn_v.weight", i);
		if (key && !package_find(w->package, name))
			return true;
	}
	return false;
}

static void gemma4_gguf_put(struct gguf_writer *w)
{
	uint64_t layers = gguf_writer_uint(w, "block_count");
	const struct package_tensor *table = package_find(w->package, "per_layer_token_embd.weight");
	if (w->failed) /* then the number of layers is not checked */
		return;
	gemma4_gguf_put_heads(w, layers);
	gemma4_gguf_put_widths(w, layers);
	gemma4_gguf_put_rotations(w);
	gguf_put_bool(w, "attention_k_eq_v", gemma4_gguf_keys_are_values(w, layers));
	gguf_put_bool(w, "enable_moe_block", gguf_writer_uint_or(w, "expert_count", 0) > 0);
	if (table)
		gguf_put_uint(w, "vocab_size_per_layer_input", package_rows(table));
}

#define B "blk.%u."
static const struct tensor_name names[] = {
	{TENSOR_MIXER_POST_NORM, B "post_attention_norm.weight", NULL},
	{TENSOR_FEED_FORWARD_POST_NORM, B "post_ffw_norm.weight", NULL},
	{TENSOR_LAYER_SCALE, B "layer_output_scale.weight", NULL},
	{TENSOR_PER_LAYER_TABLE, "per_layer_token_embd.weight", NULL},
	{TENSOR_PER_LAYER_INPUTS, "per_layer_model_proj.weight", NULL},
	{TENSOR_PER_LAYER_INPUTS_NORM, "per_layer_proj_norm.weight", NULL},
	{TENSOR_PER_LAYER_GATE, B "inp_gate.weight", NULL},
	{TENSOR_PER_LAYER_OUT, B "proj.weight", NULL},
	{TENSOR_PER_LAYER_POST_NORM, B "post_norm.weight", NULL},
	{TENSOR_ROUTER_SCALE, B "ffn_gate_inp.scale", NULL},
	{TENSOR_EXPERT_SCALE, B "ffn_down_exps.scale", NULL},
	{TENSOR_SHARED_GATE, B "ffn_gate.weight", NULL},
	{TENSOR_SHARED_UP, B "ffn_up.weight", NULL},
	{TENSOR_SHARED_DOWN, B "ffn_down.weight", NULL},
	{TENSOR_SHARED_POST_NORM, B "post_ffw_norm_1.weight", NULL},
	{TENSOR_EXPERTS_NORM, B "pre_ffw_norm_2.weight", NULL},
	{TENSOR_EXPERTS_POST_NORM, B "post_ffw_norm_2.weight", NULL},
	{TENSOR_EXPERT_GATE, B "ffn_gate_up_exps.weight", view_stacked_gate},
	{TENSOR_EXPERT_UP, B "ffn_gate_up_exps.weight", view_stacked_up},
	{0},
};

const struct gguf_family gguf_gemma4 = {
	.architecture = "gemma4",
	.whole_every = 6,
	.keys = {keys, gguf_keys_routed},
	.names = names,
	.put = gemma4_gguf_put,
};
