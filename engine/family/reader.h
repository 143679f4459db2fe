/* Reading a config.json: what config.c and the families' files share. Within engine/family only. */
#ifndef MOEFS_ENGINE_FAMILY_READER_H
#define MOEFS_ENGINE_FAMILY_READER_H

#include "engine/family/family.h"
#include "engine/json/json.h"

/* Reads a config.json, and keeps its first error. After an error every function here does nothing
 * and gives the fallback (without one *to stays), so a series of calls is checked once, at its end
 * or before a value is used that must not be 0. */
struct reader {
	struct config *config;
	const struct json *json; /* where the model's numbers are: the file, or its text_config */
	const char *name;	 /* of the file, for messages */
	struct err *e;
	int failed; /* the first error: a negative errno, as in e; 0: none so far */
};

/* The value of a key in r->json. With _or, and in reader_bool, a key that is missing or null has
 * the fallback; in reader_bool that is what *to holds before. Without, the key must be there. A
 * whole number that is missing has the family's default, if it has one (family.h). */
void reader_u32(struct reader *r, const char *key, uint32_t least, uint32_t most, uint32_t *to);
void reader_u32_or(struct reader *r, const char *key, uint32_t least, uint32_t most,
		   uint32_t fallback, uint32_t *to);
void reader_double(struct reader *r, const char *key, double least, double most, double *to);
void reader_double_or(struct reader *r, const char *key, double least, double most, double fallback,
		      double *to);
void reader_bool(struct reader *r, const char *key, bool *to);
const char *reader_string_or(struct reader *r, const char *key, const char *fallback);
/* NULL: the key is missing, or there was an error. */
const struct json *reader_list_or_null(struct reader *r, const char *key);
const struct json *reader_object_or_null(struct reader *r, const char *key);
/* A positive factor that is 1 where the key is missing. */
void reader_factor(struct reader *r, const char *key, float *to);

/* Several numbers that must be there, from 1 to `most`. */
struct reader_number {
	const char *key;
	uint32_t *to, most;
};
void reader_numbers(struct reader *r, const struct reader_number *numbers, size_t count);

/* Sets the error "FILE: …" with that errno. */
__attribute__((format(printf, 3, 4))) void reader_refuse(struct reader *r, int code,
							 const char *format, ...);
/* "\"KEY\" is VALUE, but only SUPPORTED is supported" */
void reader_unsupported(struct reader *r, const char *key, const char *value,
			const char *supported);
/* Checks keys that are computed for one value alone (family.h). A key that is missing or null says
 * nothing. */
void reader_only(struct reader *r, const struct only *keys);

/* layer_types: which layers have the type `other`; the rest must have full_attention. False: the
 * key is missing. */
bool reader_layer_types(struct reader *r, const char *other, bool is_other[CONFIG_MAX_LAYERS]);
/* A list with one of several names for each layer: kind[] has the numbers of these names. False: the
 * key is missing. names ends with a row without a name. */
struct reader_kind {
	const char *name;
	uint32_t kind;
};
bool reader_layer_kinds(struct reader *r, const char *key, const struct reader_kind *names,
			uint32_t kind[CONFIG_MAX_LAYERS]);
/* Checks that layer_types, if it is there, lists only full attention. */
void reader_only_full_attention(struct reader *r);
/* sliding_window, in the layers that layer_types names, or without it in all. */
void reader_windows(struct reader *r);

/* final_logit_softcapping: a cap on the logits. */
void reader_logit_cap(struct reader *r);

/* Checks the sizes of Mamba2, which the family has read. */
void reader_check_mamba(struct reader *r);
/* Checks what an index has of heads, against the rotation; and how wide several streams are. */
void reader_check_index(struct reader *r);
void reader_check_streams(struct reader *r);
/* Several residual streams with mixed hyper-connections. */
void reader_mixed_streams(struct reader *r);
/* Which layers are gated delta nets, by layer_types or in its older form, full_attention_interval N:
 * every N-th layer is one of attention; and their sizes. */
void reader_delta_nets(struct reader *r);
/* Kimi's delta attention: the keys of its heads, their size, and the width of the convolution. */
struct reader_kimi_keys {
	const char *heads, *dim, *width;
};
void reader_kimi(struct reader *r, struct reader_kimi_keys keys);

/* Sizes of latent attention. Its layers are the family's business, and the rotation. */
void reader_latent(struct reader *r);

/* swiglu_limit: gated linear units with a limit, which is 10 where the key is missing. */
void reader_limited_units(struct reader *r);
/* The dense feed-forward's size. */
void reader_dense(struct reader *r);
/* The numbers of routed experts and their size, which config.json calls intermediate_size or
 * moe_intermediate_size; all layers become routed. */
void reader_experts(struct reader *r);
void reader_moe(struct reader *r);
/* decoder_sparse_step and mlp_only_layers: layers that are dense although there are experts. */
void reader_sparse_layers(struct reader *r);
/* norm_topk_prob; the default is the family's. */
void reader_normalisation(struct reader *r);
/* first_k_dense_replace: the number of first layers that are dense. */
void reader_first_dense(struct reader *r);
/* The same by another key. */
void reader_first_dense_by(struct reader *r, const char *key);
/* Groups of experts, of which a token chooses some, by their two keys. */
void reader_expert_groups(struct reader *r, const char *groups, const char *chosen);
/* mlp_layer_types, if it is there: which layers are dense and which sparse, that is, routed. */
void reader_dense_or_sparse(struct reader *r);
/* A router whose scores are sigmoids, with a correction for the choice, groups and a factor. */
void reader_sigmoid_router(struct reader *r);
/* A shared expert beside the routed ones of every layer that has them, behind a gate of its own. */
void reader_shared(struct reader *r);
/* The same without a gate: n_shared_experts of the routed ones' size as one. */
void reader_shared_experts(struct reader *r);
/* The same by another key. */
void reader_shared_experts_by(struct reader *r, const char *key);
/* num_nextn_predict_layers: layers of a draft, which the family leaves out by their names. */
void reader_left_out(struct reader *r);

/* clang-format off: a row a line */
/* Rows of names: shared experts that are called so. */
#define TENSOR_NAMES_SHARED_EXPERTS(before)                                          \
	{TENSOR_SHARED_GATE, before "shared_experts.gate_proj.weight", NULL},        \
		{TENSOR_SHARED_UP, before "shared_experts.up_proj.weight", NULL},    \
	{                                                                            \
		TENSOR_SHARED_DOWN, before "shared_experts.down_proj.weight", NULL   \
	}
/* A router and experts that are called block_sparse_moe. */
#define BLOCK_SPARSE_MOE "model.layers.%u.block_sparse_moe."
#define TENSOR_NAMES_BLOCK_SPARSE_MOE                                                \
	{TENSOR_ROUTER, BLOCK_SPARSE_MOE "gate.weight", NULL},                       \
		{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "experts.%u.w1.weight", NULL}, \
		{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "experts.%u.w3.weight", NULL},   \
		{TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "experts.%u.w2.weight", NULL}, \
		{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "switch_mlp.gate_proj.weight", \
		 view_stacked_one},                                                  \
		{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "switch_mlp.up_proj.weight",     \
		 view_stacked_one},                                                  \
	{                                                                            \
		TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "switch_mlp.down_proj.weight",  \
			view_stacked_down                                            \
	}
/* clang-format on */

#endif
