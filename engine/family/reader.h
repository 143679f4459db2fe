/* Reading a config.json: functions for config.c and the families' files. Only for engine/family. */
#ifndef MOEFS_ENGINE_FAMILY_READER_H
#define MOEFS_ENGINE_FAMILY_READER_H

#include "engine/family/family.h"
#include "engine/json/json.h"

/* Reads a config.json and keeps its first error. After an error every function here does nothing
 * and returns the fallback (functions without a fallback leave *to unchanged). So check once after
 * a series of calls, or before using a value that must not be 0. */
struct reader {
	struct config *config;
	/* the object with the model's numbers: the file's, or its text_config */
	const struct json *json;
	const char *name;	 /* of the file, for messages */
	struct err *e;
	int failed; /* the first error: a negative errno, as in e; 0: none so far */
};

/* Read the value of a key in r->json. With _or, a missing or null key gives the fallback.
 * reader_bool leaves *to unchanged for such a key. In the other functions the key must exist; but
 * for integers the family may have a default (family.h). */
void reader_u32(struct reader *r, const char *key, uint32_t least, uint32_t most, uint32_t *to);
void reader_u32_or(struct reader *r, const char *key, uint32_t least, uint32_t most,
		   uint32_t fallback, uint32_t *to);
void reader_double(struct reader *r, const char *key, double least, double most, double *to);
void reader_double_or(struct reader *r, const char *key, double least, double most, double fallback,
		      double *to);
void reader_bool(struct reader *r, const char *key, bool *to);
const char *reader_string_or(struct reader *r, const char *key, const char *fallback);
/* NULL: the key is missing, or an error. */
const struct json *reader_list_or_null(struct reader *r, const char *key);
const struct json *reader_object_or_null(struct reader *r, const char *key);
/* Reads a positive factor; 1 if the key is missing. */
void reader_factor(struct reader *r, const char *key, float *to);

/* Reads several required numbers, from 1 to `most`. */
struct reader_number {
	const char *key;
	uint32_t *to, most;
};
void reader_numbers(struct reader *r, const struct reader_number *numbers, size_t count);

/* Sets the error "FILE: …" with this errno. */
__attribute__((format(printf, 3, 4))) void reader_refuse(struct reader *r, int code,
							 const char *format, ...);
/* "\"KEY\" is VALUE, but only SUPPORTED is supported" */
void reader_unsupported(struct reader *r, const char *key, const char *value,
			const char *supported);
/* Checks keys of which only one value is supported (family.h). A missing or null key is fine. */
void reader_only(struct reader *r, const struct only *keys);

/* layer_types: finds the layers with the type `other`; the rest must have full_attention. False:
 * the key is missing. */
bool reader_layer_types(struct reader *r, const char *other, bool is_other[CONFIG_MAX_LAYERS]);
/* Reads a list with one of several names for each layer; kind[] gets the numbers of the names.
 * False: the key is missing. names ends with a row without a name. */
struct reader_kind {
	const char *name;
	uint32_t kind;
};
bool reader_layer_kinds(struct reader *r, const char *key, const struct reader_kind *names,
			uint32_t kind[CONFIG_MAX_LAYERS]);
/* Checks that layer_types, if present, lists only full attention. */
void reader_only_full_attention(struct reader *r);
/* sliding_window, for the layers listed in layer_types, or for all layers if there is no list. */
void reader_windows(struct reader *r);

/* final_logit_softcapping: a cap on the logits. */
void reader_logit_cap(struct reader *r);

/* Checks the sizes of Mamba2 that the family has read. */
void reader_check_mamba(struct reader *r);
/* Check the heads of an index against the rotation; and the width of several streams. */
void reader_check_index(struct reader *r);
void reader_check_streams(struct reader *r);
/* Reads several residual streams with mixed hyper-connections. */
void reader_mixed_streams(struct reader *r);
/* Reads which layers are gated delta nets, and their sizes. Uses layer_types, or the older
 * full_attention_interval N: every N-th layer has attention. */
void reader_delta_nets(struct reader *r);
/* Kimi's delta attention; `keys` are the config's keys for heads, head size, and width of the
 * convolution. */
struct reader_kimi_keys {
	const char *heads, *dim, *width;
};
void reader_kimi(struct reader *r, struct reader_kimi_keys keys);

/* Reads the sizes of latent attention. The family reads its layers and the rotation. */
void reader_latent(struct reader *r);

/* swiglu_limit: gated linear units with a limit, 10 if the key is missing. */
void reader_limited_units(struct reader *r);
/* The dense feed-forward's size. */
void reader_dense(struct reader *r);
/* Read the numbers of routed experts and their size, from intermediate_size or
 * moe_intermediate_size. All layers become routed. */
void reader_experts(struct reader *r);
void reader_moe(struct reader *r);
/* decoder_sparse_step and mlp_only_layers: dense layers of a model with experts. */
void reader_sparse_layers(struct reader *r);
/* norm_topk_prob, with the family's default. */
void reader_normalisation(struct reader *r);
/* first_k_dense_replace: the number of first layers that are dense. */
void reader_first_dense(struct reader *r);
/* The same by another key. */
void reader_first_dense_by(struct reader *r, const char *key);
/* Groups of experts, by the keys of their number and of how many a token chooses. */
void reader_expert_groups(struct reader *r, const char *groups, const char *chosen);
/* mlp_layer_types, if present: which layers are dense and which sparse (routed). */
void reader_dense_or_sparse(struct reader *r);
/* A router with sigmoid scores, a correction for the choice, groups and a factor. */
void reader_sigmoid_router(struct reader *r);
/* A shared expert with its own gate, in every routed layer. */
void reader_shared(struct reader *r);
/* The same without a gate: n_shared_experts of the routed experts' size, combined to one. */
void reader_shared_experts(struct reader *r);
/* The same by another key. */
void reader_shared_experts_by(struct reader *r, const char *key);
/* num_nextn_predict_layers: draft layers, which the family leaves out by name. */
void reader_left_out(struct reader *r);

/* clang-format off: a row a line */
/* Rows of names: shared experts with these names. */
#define TENSOR_NAMES_SHARED_EXPERTS(before)                                          \
	{TENSOR_SHARED_GATE, before "shared_experts.gate_proj.weight", NULL},        \
		{TENSOR_SHARED_UP, before "shared_experts.up_proj.weight", NULL},    \
	{                                                                            \
		TENSOR_SHARED_DOWN, before "shared_experts.down_proj.weight", NULL   \
	}
/* A router and experts named block_sparse_moe. */
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
