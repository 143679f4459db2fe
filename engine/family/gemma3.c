/* The text part of Gemma 3. Five of six layers have a window and another base frequency of the
 * rotation. Four zero-centred norms per layer. A number in the config scales the scores. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <math.h>
#include <string.h>

enum { ROPE_FULL, ROPE_SLIDING };

/* Published configs leave out values that equal the defaults of transformers. */
static const struct family_default defaults[] = {
	{"vocab_size", 262208},
	{"hidden_size", 2304},
	{"intermediate_size", 9216},
	{"num_hidden_layers", 26},
	{"num_attention_heads", 8},
	{"num_key_value_heads", 4},
	{"head_dim", 256},
	{"max_position_embeddings", 131072},
	{"sliding_window", 4096},
	{0},
};

static const struct only gemma3_only[] = {
	{"hidden_activation", "\"gelu_pytorch_tanh\""},
	{"attn_logit_softcapping", "null"},
	{"use_bidirectional_attention", "false"},
	{0},
};

static void gemma3_switches(struct reader *r)
{
	struct config *c = r->config;
	double scalar;
	c->norm_offset = 1;
	c->post_norms = true;
	c->glu = GLU_GELU;
	c->embedding_multiplier = (float)sqrt(c->hidden_size);
	reader_double_or(r, "query_pre_attn_scalar", 1e-3, 1e6, 256, &scalar);
	c->attention_scale = (float)(1 / sqrt(scalar));
}

/* Without layer_types, every sliding_window_pattern-th layer attends to all positions. */
static void gemma3_windows(struct reader *r)
{
	struct config *c = r->config;
	uint32_t every;
	const char *key = json_has(r->json, "sliding_window_pattern") ? "sliding_window_pattern"
								      : "_sliding_window_pattern";
	reader_u32_or(r, key, 1, CONFIG_MAX_LAYERS, 6, &every);
	reader_windows(r);
	bool typed = json_has(r->json, "layer_types");
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		struct layer *l = &c->layer[layer];
		if (!typed && (layer + 1) % every == 0)
			l->window = 0;
		l->rope = l->window ? ROPE_SLIDING : ROPE_FULL;
	}
}

/* Older configs have rope_theta and rope_scaling for layers without a window, and
 * rope_local_base_freq for the others, which are never scaled. */
static void gemma3_rotations(struct reader *r)
{
	struct config *c = r->config;
	const struct json *ropes = reader_object_or_null(r, "rope_parameters");
	if (ropes) {
		rope_read_typed(r, ropes, "full_attention", c->head_dim, &c->rope[ROPE_FULL]);
		rope_read_typed(r, ropes, "sliding_attention", c->head_dim, &c->rope[ROPE_SLIDING]);
		return;
	}
	rope_read_based(r, "rope_theta", 1e6, reader_object_or_null(r, "rope_scaling"), c->head_dim,
			&c->rope[ROPE_FULL]);
	rope_read_based(r, "rope_local_base_freq", 1e4, NULL, c->head_dim, &c->rope[ROPE_SLIDING]);
}

#define L "model.layers.%u."
static const struct tensor_name names[] = {
	{TENSOR_MIXER_POST_NORM, L "post_attention_layernorm.weight", NULL},
	{TENSOR_FEED_FORWARD_NORM, L "pre_feedforward_layernorm.weight", NULL},
	{0},
};

/* GGUF files have 1 added to all norms. Few files say which layers have a window, so the rule of
 * the published models is used. */
static const struct gguf_key gguf_keys[] = {
	{"attention.sliding_window", "sliding_window", GGUF_COPIED, 0},
	{"attention.sliding_window_pattern", NULL, GGUF_KNOWN, 0},
	{"rope.freq_base_swa", "rope_local_base_freq", GGUF_REAL, 0},
	{"final_logit_softcapping", "final_logit_softcapping", GGUF_REAL, 0},
	{0},
};
/* No key has the scale of the scores. In all published models it follows from the width of a head,
 * except in the one with 62 layers, where it follows from hidden size / number of heads. */
static void gemma3_put_scale(struct gguf_writer *w)
{
	uint64_t scale = gguf_writer_uint(w, "attention.key_length"),
		 heads = gguf_writer_uint(w, "attention.head_count");
	if (heads && gguf_writer_uint(w, "block_count") == 62)
		scale = gguf_writer_uint(w, "embedding_length") / heads;
	gguf_put_uint(w, "query_pre_attn_scalar", scale);
}

#define B "blk.%u."
static const struct tensor_name gguf_names[] = {
	{TENSOR_MIXER_POST_NORM, B "post_attention_norm.weight", NULL},
	{TENSOR_FEED_FORWARD_POST_NORM, B "post_ffw_norm.weight", NULL},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "gemma3",
	.whole_every = 6,
	.keys = {gguf_keys},
	.names = gguf_names,
	.norms_plus_one = true,
	.put = gemma3_put_scale,
};

static const char *const types[] = {"gemma3", "gemma3_text", NULL};
static const char *const skipped[] = {
	"model.vision_tower.", "model.multi_modal_projector.", "vision_tower.",
	"multi_modal_projector.", NULL,
};
const struct family family_gemma3 = {
	.model_types = types,
	.nested = true,
	.defaults = defaults,
	.ropes = 1U << ROPE_LINEAR,
	.own_positions = true,
	.tied = true,
	.head_norms = HEAD_NORMS_EACH,
	.only = gemma3_only,
	.parts = {gemma3_switches, reader_dense, gemma3_windows, gemma3_rotations, reader_logit_cap},
	.names = names,
	.skipped = skipped,
	.gguf = &gguf,
};
