/* The families of models: what differs between them, as data.
 *
 * A model is its config.json (struct config) and a list of layers, each a token mixer (softmax
 * attention so far) and a feed-forward (dense, or routed experts). A family is one row of the table
 * in architecture.c: which optional parts its layers have, how its router weighs, and what its
 * checkpoints call each tensor. A new family is a new row.
 */
#ifndef MOEFS_ENGINE_FAMILY_ARCHITECTURE_H
#define MOEFS_ENGINE_FAMILY_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a tensor is for. Shapes are [out, in] as published: y = W · x. */
enum tensor_role {
	TENSOR_EMBEDDING,      /* [vocabulary, hidden] */
	TENSOR_FINAL_NORM,     /* [hidden] */
	TENSOR_HEAD,	       /* [vocabulary, hidden]; absent where it is tied to the embedding */
	TENSOR_ATTENTION_NORM, /* [hidden]; this one and the following once per layer */
	TENSOR_Q,	       /* [heads · head_dim, hidden] */
	TENSOR_K,	       /* [kv_heads · head_dim, hidden] */
	TENSOR_V,
	TENSOR_O, /* [hidden, heads · head_dim] */
	TENSOR_Q_BIAS,
	TENSOR_K_BIAS,
	TENSOR_V_BIAS,
	TENSOR_O_BIAS,
	TENSOR_Q_NORM, /* [head_dim], of each head */
	TENSOR_K_NORM,
	TENSOR_FEED_FORWARD_NORM, /* [hidden] */
	TENSOR_GATE,		  /* [intermediate, hidden], a dense layer's */
	TENSOR_UP,
	TENSOR_DOWN,	    /* [hidden, intermediate] */
	TENSOR_ROUTER,	    /* [experts, hidden] */
	TENSOR_EXPERT_GATE, /* [expert size, hidden], once per layer and expert */
	TENSOR_EXPERT_UP,
	TENSOR_EXPERT_DOWN, /* [hidden, expert size] */
	TENSOR_ROLES
};

enum router_order { SOFTMAX_THEN_TOP_K, TOP_K_THEN_SOFTMAX };
/* Whether the chosen experts' weights are scaled to sum to 1. */
enum router_normalisation { NORMALISE_NEVER, NORMALISE_ALWAYS, NORMALISE_AS_CONFIGURED };

struct architecture {
	const char *model_type; /* of config.json */
	bool routed;	 /* layers have experts (where mlp_only_layers does not say otherwise) */
	bool qkv_bias;	 /* the q, k and v projections always have a bias */
	bool head_norms; /* an RMSNorm on each query and key head, before RoPE */
	enum router_order router_order;
	enum router_normalisation router_normalisation;
	/* printf patterns: layer is the first number, expert the second. */
	const char *const *names;
};

/* The row of that model_type, or NULL. */
const struct architecture *architecture_find(const char *model_type);
/* The model_types that there are, as one sentence part: "qwen2, qwen3, qwen3_moe". */
void architecture_list(char *text, size_t size);

struct tensor_id {
	enum tensor_role role;
	uint32_t layer, expert;
};
/* The checkpoint's name of a tensor; false if it does not fit. */
bool architecture_tensor_name(const struct architecture *a, struct tensor_id id, char *name,
			      size_t size);

#endif
