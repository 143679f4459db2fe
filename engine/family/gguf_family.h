/* A family's GGUF files: their keys instead of config.json, and their names of tensors.
 *
 * A file's keys are turned back into the config.json that they were made from (gguf_config.c), so
 * that one reader checks both. Tensors have the common names of gguf_tables.c, except those that a
 * family lists. If the published converter (llama.cpp's convert_hf_to_gguf.py) changes numbers or
 * moves rows, a view reverses this, or the config says that the numbers are used differently.
 */
#ifndef MOEFS_ENGINE_FAMILY_GGUF_FAMILY_H
#define MOEFS_ENGINE_FAMILY_GGUF_FAMILY_H

#include "engine/family/family.h"
#include "engine/source/gguf.h"
#include "engine/source/package.h"

#include <stdbool.h>
#include <stddef.h>

enum gguf_rule {
	GGUF_COPIED,  /* a number, or an array whose nonzero elements are equal */
	GGUF_REAL,    /* a real number */
	GGUF_FLAG,    /* a boolean */
	GGUF_ROPE,    /* a number of rope_scaling */
	GGUF_NEUTRAL, /* only 0 or `neutral` is supported */
	GGUF_KNOWN,   /* changes no text, or is read elsewhere */
};

/* A key after "ARCHITECTURE.", and its name in config.json. */
struct gguf_key {
	const char *suffix, *name;
	enum gguf_rule rule;
	double neutral;
};

struct gguf_writer;
enum { GGUF_KEY_TABLES = 4 };
struct gguf_family {
	const char *architecture; /* general.architecture */
	const char *second;	  /* another name with the same meaning, or NULL */
	bool routed;		  /* only files with experts; without, it is another family */
	/* Members of config.json that follow from the architecture, or NULL. */
	const char *also;
	const char *rope_also; /* the same for its rope_scaling */
	/* Not 0: if no key says which layers have a window, every `whole_every`-th layer has none,
	 * the others have one. */
	uint32_t whole_every;
	/* Tables that end with a row without a suffix, tried before the common one. */
	const struct gguf_key *keys[GGUF_KEY_TABLES];
	/* Names to try before the common ones; ends with a row without a name. */
	const struct tensor_name *names;
	/* Writes members that follow from several keys, or from tensors (gguf_writer.h); or NULL. */
	void (*put)(struct gguf_writer *w);
	bool norms_plus_one; /* 1 is added to all norms except those of delta nets */
	bool tiled_heads;    /* value heads of delta nets: config.h */
};

/* Tables of keys: for all families; for routed experts, whose size in config.json is
 * moe_intermediate_size or (routed_only) intermediate_size; for a shared expert; for delta nets and
 * a draft layer; for a router of sigmoids and related keys; for latent attention. */
extern const struct gguf_key gguf_keys_common[], gguf_keys_routed[], gguf_keys_routed_only[],
	gguf_keys_shared[], gguf_keys_hybrid[], gguf_keys_sigmoid[], gguf_keys_latent[];
/* Names of Mamba's tensors. */
#define GGUF_NAMES_MAMBA                                                             \
	{TENSOR_MAMBA_Z, "blk.%u.ssm_in.weight", view_mamba_z},                      \
	{TENSOR_MAMBA_XBC, "blk.%u.ssm_in.weight", view_mamba_xbc},                  \
	{TENSOR_MAMBA_DT, "blk.%u.ssm_in.weight", view_mamba_dt},                    \
	{TENSOR_MAMBA_CONV, "blk.%u.ssm_conv1d.weight", NULL},                       \
	{TENSOR_MAMBA_CONV_BIAS, "blk.%u.ssm_conv1d.bias", NULL},                    \
	{TENSOR_MAMBA_A_LOG, "blk.%u.ssm_a", view_mamba_negated}, /* -exp(A_log) */  \
	{TENSOR_MAMBA_D, "blk.%u.ssm_d", view_mamba_d_rows},                         \
	{TENSOR_MAMBA_DT_BIAS, "blk.%u.ssm_dt.bias", NULL},                          \
	{TENSOR_MAMBA_NORM, "blk.%u.ssm_norm.weight", view_mamba_norm_groups},       \
	{TENSOR_MAMBA_OUT, "blk.%u.ssm_out.weight", NULL}
/* Names of the tensors of Kimi's delta attention, except A_log. */
#define GGUF_NAMES_KIMI                                                                   \
	{TENSOR_KIMI_Q, "blk.%u.attn_q.weight", NULL},                                    \
	{TENSOR_KIMI_K, "blk.%u.attn_k.weight", NULL},                                    \
	{TENSOR_KIMI_V, "blk.%u.attn_v.weight", NULL},                                    \
	{TENSOR_KIMI_Q_CONV, "blk.%u.ssm_conv1d_q.weight", view_kimi_q_convolution},      \
	{TENSOR_KIMI_K_CONV, "blk.%u.ssm_conv1d_k.weight", view_kimi_k_convolution},      \
	{TENSOR_KIMI_V_CONV, "blk.%u.ssm_conv1d_v.weight", view_kimi_v_convolution},      \
	{TENSOR_KIMI_B, "blk.%u.ssm_beta.weight", NULL},                                  \
	{TENSOR_KIMI_DECAY_LOW, "blk.%u.ssm_f_a.weight", NULL},                           \
	{TENSOR_KIMI_DECAY, "blk.%u.ssm_f_b.weight", NULL},                               \
	{TENSOR_KIMI_GATE_LOW, "blk.%u.ssm_g_a.weight", NULL},                            \
	{TENSOR_KIMI_GATE, "blk.%u.ssm_g_b.weight", NULL},                                \
	{TENSOR_KIMI_DT_BIAS, "blk.%u.ssm_dt.bias", NULL},                                \
	{TENSOR_KIMI_NORM, "blk.%u.ssm_norm.weight", NULL},                               \
	{TENSOR_KIMI_OUT, "blk.%u.attn_output.weight", NULL}
/* Names of the tensors of mixed hyper-connections. */
#define GGUF_NAMES_MIXED                                                   \
	{TENSOR_MIXED_MIXER, "blk.%u.hc_attn_fn.weight", NULL},            \
	{TENSOR_MIXED_MIXER_BASE, "blk.%u.hc_attn_base.weight", NULL},     \
	{TENSOR_MIXED_MIXER_SCALE, "blk.%u.hc_attn_scale.weight", NULL},   \
	{TENSOR_MIXED_FEED, "blk.%u.hc_ffn_fn.weight", NULL},              \
	{TENSOR_MIXED_FEED_BASE, "blk.%u.hc_ffn_base.weight", NULL},       \
	{TENSOR_MIXED_FEED_SCALE, "blk.%u.hc_ffn_scale.weight", NULL}
/* Names of an index's tensors. */
#define GGUF_NAMES_INDEX                                         \
	{TENSOR_INDEX_Q, "blk.%u.indexer.attn_q_b.weight", NULL},    \
	{TENSOR_INDEX_K, "blk.%u.indexer.attn_k.weight", NULL},      \
	{TENSOR_INDEX_K_NORM, "blk.%u.indexer.k_norm.weight", NULL}, \
	{TENSOR_INDEX_K_BIAS, "blk.%u.indexer.k_norm.bias", NULL},   \
	{TENSOR_INDEX_WEIGHTS, "blk.%u.indexer.proj.weight", NULL}
/* The row of a key, in a family's tables or the common one; NULL: an unknown key. */
const struct gguf_key *gguf_key_find(const struct gguf_family *f, const char *suffix);

/* gemma4_gguf.c, qwen4_gguf.c, deepseek_v4_gguf.c */
extern const struct gguf_family gguf_gemma4, gguf_qwen4_exp, gguf_deepseek_v4;

/* Makes a config.json from a file's keys and the names of its tensors; the caller frees *text.
 * name: of the file, for messages. -ENOTSUP: an unknown architecture or key; the sentence names it.
 */
int gguf_config_text(const struct gguf *g, const struct package *p, const char *name, char **text,
		     size_t *length, struct err *e);
/* The same for the file, or the first part, at a path. */
int gguf_config_of(const char *path, char **text, size_t *length, struct err *e);

/* Tensors that are part of a config: factors of rotations (rope.h), for all texts, or for short and
 * for long ones. */
#define GGUF_ROPE_FACTORS "rope_freqs.weight"
#define GGUF_ROPE_SHORT "rope_factors_short.weight"
#define GGUF_ROPE_LONG "rope_factors_long.weight"
/* Whether the tensor with this name is part of the config. */
bool gguf_is_of_config(const struct config *c, const char *name);

/* Fills names[] with the names that a role may have, in the order in which to try them. Returns how
 * many. The first number of a name is the layer, the second the expert. */
uint32_t gguf_alternatives(const struct family *f, enum tensor_role role,
			   struct tensor_name names[FAMILY_ALTERNATIVES]);

#endif
