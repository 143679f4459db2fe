/* The text part of Gemma 4. Layers with and without a window, which differ in heads, keys and
 * rotation. Seven norms per layer, a dense feed-forward beside the routed one, a factor for each
 * layer, and a cap on the logits. Layers without a window may use their keys as values. In small
 * models the last layers have no keys and read those of an earlier layer, and each layer has
 * additional inputs. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROPE_FULL, ROPE_SLIDING };

static const struct only gemma4_only[] = {
	{"hidden_activation", "\"gelu_pytorch_tanh\""},
	{"use_bidirectional_attention", "\"vision\""},
	{0},
};

static void gemma4_switches(struct reader *r)
{
	struct config *c = r->config;
	c->value_norm = c->post_norms = c->layer_scale = true;
	c->glu = GLU_GELU;
	c->attention_scale = 1;
	c->embedding_multiplier = (float)sqrt(c->hidden_size);
}

/* ---- layers with and without a window ---- */

/* Checks that the last layer has no window. */
static void gemma4_windows(struct reader *r)
{
	const struct config *c = r->config;
	const struct json *types;
	if (!r->failed) /* the list must exist; reader_windows accepts a missing one */
		r->failed = json_get_list(r->json, "layer_types", r->name, &types, r->e);
	reader_windows(r);
	if (c->layer[c->layers - 1].window)
		reader_unsupported(r, "layer_types", "sliding_attention at its end",
				   "full_attention");
}

/* Reads settings of layers without a window in the newer form: an object for each such layer, by
 * its number. */
static void gemma4_overrides(struct reader *r, const struct json *layers)
{
	struct config *c = r->config;
	const struct json *whole = r->json, *v = NULL, *key = NULL;
	while (!r->failed && (v = json_next(layers, v))) {
		char *end;
		unsigned long layer = strtoul(json_key(v), &end, 10);
		if (*end || !*json_key(v) || layer >= c->layers || json_kind(v) != JSON_OBJECT) {
			r->failed = json_wrong(v, "per_layer_config", r->name,
					       "an object for numbers of layers", r->e);
			return;
		}
		while ((key = json_next(v, key)))
			if (strcmp(json_key(key), "head_dim") != 0 &&
			    strcmp(json_key(key), "num_key_value_heads") != 0)
				reader_unsupported(r, "per_layer_config", json_key(key),
						   "head_dim and num_key_value_heads");
		struct layer *l = &c->layer[layer];
		r->json = v;
		reader_u32_or(r, "head_dim", 2, 4096, l->head_dim, &l->head_dim);
		reader_u32_or(r, "num_key_value_heads", 1, c->heads, l->kv_heads, &l->kv_heads);
		r->json = whole;
	}
}

static void gemma4_heads(struct reader *r)
{
	struct config *c = r->config;
	bool shared = false;
	reader_bool(r, "attention_k_eq_v", &shared);
	const struct json *layers = reader_object_or_null(r, "per_layer_config");
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		struct layer *l = &c->layer[layer];
		l->rope = l->window ? ROPE_SLIDING : ROPE_FULL;
		l->keys_as_values = shared && !l->window;
		if (layers || l->window)
			continue;
		/* The published form: settings for all layers without a window. */
		reader_u32_or(r, "global_head_dim", 2, 4096, 512, &l->head_dim);
		if (l->keys_as_values)
			reader_u32_or(r, "num_global_key_value_heads", 1, c->heads, c->kv_heads,
				      &l->kv_heads);
	}
	gemma4_overrides(r, layers);
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const struct layer *l = &c->layer[layer];
		if (c->heads % l->kv_heads || l->head_dim % 2 ||
		    (uint64_t)c->heads * l->head_dim > CONFIG_MAX_WIDTH)
			reader_refuse(r, EINVAL,
				      "%u heads of %u and %u key-value heads in a layer do not fit "
				      "together",
				      c->heads, l->head_dim, l->kv_heads);
	}
}

/* The last layers read the keys of the last earlier layer that also has a window, or also has none.
 */
static void gemma4_shared_keys(struct reader *r)
{
	struct config *c = r->config;
	uint32_t count;
	bool wide = false;
	reader_u32_or(r, "num_kv_shared_layers", 0, c->layers, 0, &count);
	reader_bool(r, "use_double_wide_mlp", &wide);
	for (uint32_t layer = c->layers - count; layer < c->layers; layer++) {
		struct layer *l = &c->layer[layer];
		uint32_t from = c->layers - count;
		while (from && !c->layer[from - 1].window != !l->window)
			from--;
		if (!from)
			reader_refuse(r, EINVAL,
				      "num_kv_shared_layers (%u): layer %u has no earlier layer whose "
				      "keys it could read",
				      count, layer);
		l->keys_of = from;
		l->double_wide = wide;
		if (from && (c->layer[from - 1].head_dim != l->head_dim ||
			     c->layer[from - 1].kv_heads != l->kv_heads))
			reader_unsupported(r, "per_layer_config",
					   "of other heads in a layer than in that whose keys it reads",
					   "the same heads");
	}
}

static void gemma4_per_layer(struct reader *r)
{
	struct config *c = r->config;
	uint64_t all;
	reader_u32_or(r, "hidden_size_per_layer_input", 0, CONFIG_MAX_WIDTH, 0, &c->per_layer);
	if (!c->per_layer)
		return;
	reader_u32_or(r, "vocab_size_per_layer_input", 1, CONFIG_MAX_VOCABULARY, c->vocabulary,
		      &c->per_layer_vocabulary);
	all = (uint64_t)c->per_layer * c->layers;
	if (c->per_layer_vocabulary < c->vocabulary)
		reader_refuse(r, ENOTSUP,
			      "\"vocab_size_per_layer_input\" is %u, fewer than the %u tokens",
			      c->per_layer_vocabulary, c->vocabulary);
	if (all > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "inputs of %u for each of %u layers (hidden_size_per_layer_input) are "
			      "wider than the %d that is supported",
			      c->per_layer, c->layers, CONFIG_MAX_WIDTH);
}

/* All layers of a kind have heads of the same width. */
static void gemma4_rotation(struct reader *r, const struct json *ropes, const char *key,
			    uint32_t rope)
{
	struct config *c = r->config;
	const struct json *of = NULL;
	uint32_t dim = 0;
	if (!r->failed)
		r->failed = json_get_object(ropes, key, r->name, &of, r->e);
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const struct layer *l = &c->layer[layer];
		if (l->rope != rope)
			continue;
		if (dim && dim != l->head_dim)
			reader_unsupported(r, "per_layer_config", "of several head dims",
					   "one for each of layer_types");
		dim = l->head_dim;
	}
	if (dim)
		rope_read(r, of, of, dim, &c->rope[rope]);
}

static void gemma4_rotations(struct reader *r)
{
	const struct json *ropes = NULL;
	r->failed = json_get_object(r->json, "rope_parameters", r->name, &ropes, r->e);
	gemma4_rotation(r, ropes, "full_attention", ROPE_FULL);
	gemma4_rotation(r, ropes, "sliding_attention", ROPE_SLIDING);
}

/* ---- the rest ---- */

static void gemma4_experts(struct reader *r)
{
	struct config *c = r->config;
	bool routed = false;
	reader_bool(r, "enable_moe_block", &routed);
	reader_dense(r);
	if (!routed)
		return;
	reader_moe(r);
	if (c->layer[c->layers - 1].double_wide)
		reader_unsupported(r, "use_double_wide_mlp", "true beside routed experts", "false");
	for (uint32_t layer = 0; layer < c->layers; layer++)
		c->layer[layer].shared = true;
	c->shared_size = c->intermediate_size;
	c->feed_forwards_apart = c->expert_scale = c->normalise_top_k = true;
	c->router_multiplier = (float)(1 / sqrt(c->hidden_size));
}

#define L "model.layers.%u."
static const struct tensor_name names[] = {
	{TENSOR_MIXER_POST_NORM, L "post_attention_layernorm.weight", NULL},
	{TENSOR_FEED_FORWARD_NORM, L "pre_feedforward_layernorm.weight", NULL},
	{TENSOR_ROUTER, L "router.proj.weight", NULL},
	{TENSOR_SHARED_GATE, L "mlp.gate_proj.weight", NULL},
	{TENSOR_SHARED_UP, L "mlp.up_proj.weight", NULL},
	{TENSOR_SHARED_DOWN, L "mlp.down_proj.weight", NULL},
	{TENSOR_EXPERT_GATE, L "experts.gate_up_proj", view_stacked_gate},
	{TENSOR_EXPERT_UP, L "experts.gate_up_proj", view_stacked_up},
	{TENSOR_EXPERT_DOWN, L "experts.down_proj", view_stacked_down},
	{TENSOR_EXPERT_GATE, L "experts.switch_glu.gate_proj.weight", view_stacked_one},
	{TENSOR_EXPERT_UP, L "experts.switch_glu.up_proj.weight", view_stacked_one},
	{TENSOR_EXPERT_DOWN, L "experts.switch_glu.down_proj.weight", view_stacked_down},
	{0},
};

static const char *const types[] = {"gemma4", "gemma4_text", NULL};
static const char *const skipped[] = {
	"model.vision_tower.", "model.embed_vision.", "model.audio_tower.",
	"model.embed_audio.",  "vision_tower.",	      "embed_vision.",
	"audio_tower.",	       "embed_audio.",	      NULL,
};
const struct family family_gemma4 = {
	.model_types = types,
	.nested = true,
	.ropes = 1U << ROPE_PROPORTIONAL,
	.own_positions = true,
	.tied = true,
	.head_norms = HEAD_NORMS_EACH,
	.only = gemma4_only,
	.parts = {gemma4_switches, gemma4_windows, gemma4_heads, gemma4_shared_keys,
		  gemma4_rotations, gemma4_experts, gemma4_per_layer, reader_logit_cap},
	.names = names,
	.skipped = skipped,
	.gguf = &gguf_gemma4,
};
