/* A family of models: how its config.json and its checkpoints differ from those of others.
 *
 * A family is a struct of data: its model_types, the values that follow from the family, the
 * functions that read its special config keys (most are in reader.h), and the tensor names that
 * differ from the common ones (role.h). README.md says how to add a family. Struct config alone
 * determines what a model computes, so no code outside this folder needs to know the family.
 */
#ifndef MOEFS_ENGINE_FAMILY_FAMILY_H
#define MOEFS_ENGINE_FAMILY_FAMILY_H

#include "engine/family/config.h"
#include "engine/family/view.h"

struct reader;
struct gguf_family;

/* A key of which only one value is supported, as written in a config. */
struct only {
	const char *key, *value;
};

/* A name of a role's tensor, and the view of the role in that tensor; NULL: the whole tensor. */
struct tensor_name {
	enum tensor_role role;
	const char *name;
	view_fn *view;
};

/* The default of an integer that a config may leave out. */
struct family_default {
	const char *key;
	uint32_t value;
};

enum { FAMILY_PARTS = 10 };
struct family {
	const char *const *model_types; /* NULL-terminated */
	/* The config may be that of a multimodal model: then its numbers are in "text_config", and
	 * its tensors under model.language_model. */
	bool nested;
	bool bare; /* names of tensors do not begin with "model." */
	bool partial_rotary; /* partial_rotary_factor may be less than 1 */
	unsigned ropes;	     /* bits 1 << ROPE_…: supported scalings besides the default */
	bool own_positions;  /* `parts` fill rope, and the layers' head_dim and kv_heads */
	double rms_eps;	     /* the default of rms_norm_eps; 0: 1e-6 */
	const char *activation;		       /* a supported hidden_act besides silu; NULL: none */
	const struct family_default *defaults; /* ends with a row without a key; may be NULL */

	/* The family's key for max_position_embeddings; and the key of a list with an item per
	 * layer, whose length replaces a missing num_hidden_layers. NULL: the usual key; no such
	 * list. */
	const char *positions, *layers_list;

	/* Values of the config that follow from the family. */
	bool tied; /* the default of tie_word_embeddings */
	bool qkv_bias, normalise_top_k;
	enum head_norms head_norms;
	enum router_order router_order;

	/* Keys that must have a given value, or be missing or null; ends with a row without a key.
	 */
	const struct only *only;
	/* Called in this order, after the common values are read. Each reads some of the family's
	 * special values, such as the layers' mixers and feed-forwards. */
	void (*parts[FAMILY_PARTS])(struct reader *r);
	/* Tried in this order, before the common name; ends with a row without a name. */
	const struct tensor_name *names;
	/* Beginnings of the names of known tensors that are left out; NULL-terminated. NULL: none.
	 */
	const char *const *skipped;
	/* A tensor that is not used in layers whose experts are listed in a table; NULL: none. */
	const char *beside_list;
	/* The beginning of the names of all draft tensors, and the pattern that replaces
	 * model.layers.%u. in the draft layer; NULL: never a draft layer. */
	const char *draft, *draft_layer;
	const struct gguf_family *gguf; /* gguf_family.h; NULL: GGUF files are not supported */
};

/* The family of a model_type, or NULL; *copy gets the model_type as a static string. */
const struct family *family_find(const char *model_type, const char **copy);
/* The family of a GGUF file's architecture, with (routed) or without experts; NULL: not supported.
 */
const struct family *family_of_gguf(const char *architecture, bool routed);
/* Lists all model_types: "qwen2, qwen3, qwen3_moe". */
void family_list(char *text, size_t size);
/* Lists the supported architectures of GGUF files in the same way. */
void family_list_gguf(char *text, size_t size);

enum { FAMILY_ALTERNATIVES = 6 };
/* The names that a role may have in safetensors, in the order in which to try them. Returns how
 * many. */
uint32_t family_alternatives(const struct family *f, enum tensor_role role,
			     struct tensor_name names[FAMILY_ALTERNATIVES]);
/* Makes a tensor's name from a pattern and its numbers; stem replaces "model.". False: name[size]
 * is too small. */
bool family_tensor_name(const struct config *c, const char *pattern, const char *stem,
			struct tensor_id id, char *name, size_t size);
/* The same for patterns of GGUF files: the first number is the layer, the second the expert.
 */
bool family_gguf_name(const char *pattern, struct tensor_id id, char *name, size_t size);

/* A tensor's name in a store: the family's name, or the common one if a checkpoint has it only as a
 * part of another tensor. False: name[size] is too small. */
bool family_store_name(const struct config *c, struct tensor_id id, char *name, size_t size);

/* Whether the name is that of a tensor in a draft layer that is not computed
 * (config.layers_left_out). */
bool family_leaves_out(const struct config *c, const char *name);

extern const struct family family_lfm2, family_lfm2_moe, family_granitemoehybrid,
	family_nemotron_h, family_kimi_linear;
extern const struct family family_qwen2, family_qwen3, family_qwen3_moe, family_qwen2_moe,
	family_granitemoe, family_mixtral, family_olmoe, family_qwen3_5, family_qwen3_5_moe,
	family_qwen3_next, family_glm4_moe, family_minimax_m2, family_gpt_oss, family_llama,
	family_mistral, family_gemma4, family_deepseek_v3, family_qwen4_exp, family_glm_moe_dsa, family_minimax_m3, family_glm5_next, family_deepseek_v4, family_smollm3,
	family_gemma3, family_phi3;

#endif
