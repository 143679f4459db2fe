/* A model's config.json and generation_config.json as one struct.
 *
 * Both published forms are read: the older (rope_theta, num_experts, torch_dtype at the top) and
 * the newer (rope_parameters, num_local_experts, dtype). What this program does not compute (a rope
 * scaling, a sliding window, another activation) is an error that names the key, not ignored.
 */
#ifndef MOEFS_ENGINE_FAMILY_CONFIG_H
#define MOEFS_ENGINE_FAMILY_CONFIG_H

#include "cache/err.h"
#include "engine/family/architecture.h"
#include "engine/family/generation.h"

enum {
	CONFIG_MAX_LAYERS = 1024,
	CONFIG_MAX_EXPERTS = 4096,
	CONFIG_MAX_WIDTH = 1 << 20, /* of any matrix but the vocabulary's */
	CONFIG_MAX_VOCABULARY = 1 << 24,
	CONFIG_MAX_POSITIONS = 1 << 24,
};

struct config {
	const struct architecture *architecture;
	uint32_t hidden_size, layers, vocabulary, max_positions;
	uint32_t heads, kv_heads, head_dim;
	uint32_t intermediate_size; /* of a dense layer */
	uint32_t experts, experts_per_token, expert_size;
	bool normalise_top_k; /* the chosen experts' weights sum to 1 */
	bool attention_bias;  /* q, k, v and o have biases, by configuration */
	bool tied_head;
	float rms_eps;
	double rope_theta;
	uint8_t dense_layer[CONFIG_MAX_LAYERS]; /* 1: a layer of a routed family without experts */

	struct generation generation;
};

/* Reads both files of a checkpoint's directory; the second may be missing. */
int config_read(struct config *c, const char *directory, struct err *e);
/* The same from texts in memory (name is for messages; generation may be NULL). */
int config_parse(struct config *c, const char *text, size_t length, const char *name,
		 struct err *e);
int config_parse_generation(struct config *c, const char *text, size_t length, const char *name,
			    struct err *e);

/* True if the layer's feed-forward is routed experts. */
static inline bool config_routed(const struct config *c, uint32_t layer)
{
	return c->architecture->routed && !c->dense_layer[layer];
}
bool config_has_tensor(const struct config *c, enum tensor_role role, uint32_t layer);
/* rows and cols of a tensor; cols is 0 for a vector. */
void config_tensor_shape(const struct config *c, enum tensor_role role, uint32_t *rows,
			 uint32_t *cols);

#endif
