/* What was mounted. model_open fills this before other threads see the model. From then on it is
 * constant, except `drafts`, and any thread may read it without a lock. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_IDENTITY_H
#define MOEFS_ENGINE_MODEL_MODEL_IDENTITY_H

#include "engine/family/config.h"
#include "engine/family/recipe.h"
#include "engine/source/model_place.h"
#include "kernels/kernels.h"

struct ollama_model;

struct model_identity {
	struct model_place place;
	struct ollama_model *ollama; /* ollama's data, for a model in its folder; else NULL */
	const char *directory; /* absolute path of the checkpoint's folder or of the GGUF file */
	const char *name;
	uint64_t config_sum; /* of config.json when `config` was read */
	uint64_t parameters, active_parameters;
	struct config config;
	struct recipe recipe; /* the engine's, or the one that auto stands for here */
	const char *encoding; /* encoding of the source's weights; NULL: 16 or 32 bits */
	uint32_t context;     /* positions that a session may use */
	enum kv_type kv;      /* of -o kv=; KV_TYPES: not given */
	_Atomic bool drafts;  /* the checkpoint has a draft layer, according to the last load */
};

/* The type of keys and values in all contexts of the model. */
static inline enum kv_type model_kv_type(const struct model_identity *id)
{
	if (id->kv != KV_TYPES)
		return id->kv;
	return id->recipe.exact ? KV_F32 : KV_F16;
}

#endif
