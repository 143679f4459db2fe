/* A family of models: how its config.json and its checkpoints differ from those of others.
 *
 * A family is a struct of data: its model_types, the values that follow from the family alone, the
 * functions that read what is special in its config (most are in reader.h), and the names that
 * differ from the common ones (role.h). README.md says how to add one. What a model computes
 * follows from struct config alone, so nothing outside this folder asks which family it is.
 */
#ifndef MOEFS_ENGINE_FAMILY_FAMILY_H
#define MOEFS_ENGINE_FAMILY_FAMILY_H

#include "engine/family/config.h"
#include "engine/family/view.h"

struct reader;
struct gguf_family;

/* A key that is computed for one value alone, as a config writes it. */
struct only {
	const char *key, *value;
};

/* A name of a role's tensor, and how the role lies in that tensor; NULL: it is all of it. */
struct tensor_name {
	enum tensor_role role;
	const char *name;
	view_fn *view;
};

/* The value of a whole number that a config leaves out. */
struct family_default {
	const char *key;
	uint32_t value;
};

enum { FAMILY_PARTS = 10 };
struct family {
	const char *const *model_types; /* NULL-terminated */
	/* The config may be the text part of a model that also sees: then the numbers are in
	 * "text_config", and the tensors below model.language_model. */
	bool nested;
	bool bare; /* names of tensors do not begin with "model." */
	bool partial_rotary; /* partial_rotary_factor may be less than 1 */
	unsigned ropes;	     /* 1 << ROPE_…: scalings that it may have besides the default */
	bool own_positions;  /* parts fill rope, and head_dim and kv_heads of the layers */
	double rms_eps;	     /* the default of rms_norm_eps; 0: 1e-6 */
	const char *activation; /* what hidden_act may be besides silu; NULL: nothing */
	const struct family_default *defaults; /* ends with a row without a key; may be NULL */

	/* What it calls max_position_embeddings, and the list with an item for each layer whose
	 * length stands for a missing num_hidden_layers; NULL: it does not. */
	const char *positions, *layers_list;

	/* Values of the config that follow from the family alone. */
	bool tied; /* the default of tie_word_embeddings */
	bool qkv_bias, normalise_top_k;
	enum head_norms head_norms;
	enum router_order router_order;

	/* Keys that must have one value, or be missing or null; ends with a row without a key. */
	const struct only *only;
	/* Called in this order; each reads a part of what is special into a config that has the
	 * common values: the layers' mixers and feed-forwards, and what else differs. */
	void (*parts[FAMILY_PARTS])(struct reader *r);
	/* Tried in this order, before the common name; ends with a row without a name. */
	const struct tensor_name *names;
	/* Beginnings of the names of tensors that are known and left out; NULL-terminated, or NULL:
	 * nothing is. */
	const char *const *skipped;
	/* A tensor that a layer may have and nothing uses, where a list of experts takes the place of the
	 * choice; NULL: there is none. */
	const char *beside_list;
	/* What the names of all tensors of a draft begin with, and the pattern that stands for
	 * model.layers.%u. in its own layer; NULL: there is never one. */
	const char *draft, *draft_layer;
	const struct gguf_family *gguf; /* gguf_family.h; NULL: no GGUF file is read as this */
};

/* The family of a model_type, or NULL; *copy is the model_type as a static string. */
const struct family *family_find(const char *model_type, const char **copy);
/* The family of a GGUF file's architecture, with (routed) or without experts; NULL: not supported.
 */
const struct family *family_of_gguf(const char *architecture, bool routed);
/* Lists all model_types: "qwen2, qwen3, qwen3_moe". */
void family_list(char *text, size_t size);
/* Lists the supported architectures of GGUF files in the same way. */
void family_list_gguf(char *text, size_t size);

enum { FAMILY_ALTERNATIVES = 6 };
/* The names that a role may have in safetensors, in the order in which they are tried: how many. */
uint32_t family_alternatives(const struct family *f, enum tensor_role role,
			     struct tensor_name names[FAMILY_ALTERNATIVES]);
/* A name of a tensor: the pattern with its numbers, "model." replaced by stem. False if it does not
 * fit. */
bool family_tensor_name(const struct config *c, const char *pattern, const char *stem,
			struct tensor_id id, char *name, size_t size);
/* The same of a GGUF file's patterns, whose first number is the layer and whose second the expert.
 */
bool family_gguf_name(const char *pattern, struct tensor_id id, char *name, size_t size);

/* What a store calls a tensor: the family's own name of it, or the common one where a checkpoint
 * has it only within another tensor. False if it does not fit. */
bool family_store_name(const struct config *c, struct tensor_id id, char *name, size_t size);

/* Whether a tensor's name is of a draft layer that is not computed (config.layers_left_out). */
bool family_leaves_out(const struct config *c, const char *name);

extern const struct family family_lfm2, family_lfm2_moe, family_granitemoehybrid,
	family_nemotron_h, family_kimi_linear;
extern const struct family family_qwen2, family_qwen3, family_qwen3_moe, family_qwen2_moe,
	family_granitemoe, family_mixtral, family_olmoe, family_qwen3_5, family_qwen3_5_moe,
	family_qwen3_next, family_glm4_moe, family_minimax_m2, family_gpt_oss, family_llama,
	family_mistral, family_gemma4, family_deepseek_v3, family_qwen4_exp, family_glm_moe_dsa, family_minimax_m3, family_glm5_next, family_deepseek_v4, family_smollm3,
	family_gemma3, family_phi3;

#endif
