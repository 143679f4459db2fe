/* What was mounted. model_open finds it out before anybody else sees the model; from then on
 * anybody reads it, without a lock, and nobody writes it but for `drafts`. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_IDENTITY_H
#define MOEFS_ENGINE_MODEL_MODEL_IDENTITY_H

#include "engine/family/config.h"
#include "engine/family/recipe.h"
#include "engine/source/model_place.h"
#include "kernels/kernels.h"

struct ollama_model;

struct model_identity {
	struct model_place place;
	struct ollama_model *ollama; /* what ollama says of a model that it keeps; else NULL */
	const char *directory;	     /* the checkpoint's, absolute, or a GGUF file */
	const char *name;
	uint64_t config_sum; /* of config.json as it was when `config` was read */
	uint64_t parameters, active_parameters;
	struct config config;
	struct recipe recipe; /* the engine's, or what auto comes to here */
	const char *encoding; /* what the source's weights are in; NULL: 16 or 32 bits */
	uint32_t context;     /* positions that a session may use */
	enum kv_type kv;      /* what -o kv= asks for; KV_TYPES: nothing */
	_Atomic bool drafts;  /* the checkpoint has a draft layer; as the last load found it */
};

/* In what all contexts of the model keep keys and values. */
static inline enum kv_type model_kv_type(const struct model_identity *id)
{
	if (id->kv != KV_TYPES)
		return id->kv;
	return id->recipe.exact ? KV_F32 : KV_F16;
}

#endif
