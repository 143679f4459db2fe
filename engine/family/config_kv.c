/* Quantised keys and values: whether a model can have them, and their size. */
#include "engine/family/config.h"

#include <errno.h>

/* Bytes of a layer's keys and values per block of 64 positions. */
static uint64_t config_codes_bytes(const struct config *c, uint32_t layer, enum kv_type type)
{
	const struct layer *l = &c->layer[layer];
	if (l->keys_of || !config_kv_width(c, layer))
		return 0;
	if (l->mixer == MIXER_LATENT)
		return kv_key_bytes(type, c->latent.rank + c->latent.rope, c->latent.rank);
	if (l->mixer == MIXER_ATTENTION)
		return (uint64_t)l->kv_heads *
		       (kv_key_bytes(type, l->head_dim, 0) + kv_value_bytes(type, l->head_dim));
	return 0;
}

/* Why a layer's keys and values cannot be quantised; NULL: they can, or there are none. */
static const char *config_no_codes(const struct config *c, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	const struct latent *latent = &c->latent;
	uint32_t width = l->mixer == MIXER_LATENT ? latent->rank + latent->rope : l->head_dim;
	if (!config_kv_width(c, layer))
		return NULL;
	if (l->mixer != MIXER_ATTENTION && l->mixer != MIXER_LATENT)
		return "its keys are of another kind";
	if (l->index != INDEX_UNUSED)
		return "its attention chooses among its keys";
	if (width > KV_CODES_WIDEST)
		return "its heads are too wide";
	if (l->mixer == MIXER_LATENT && latent->rank % KV_CODES_LATENT)
		return "its latents are no multiple of 16 wide";
	return NULL;
}

int config_check_kv(const struct config *c, enum kv_type type, struct err *e)
{
	bool codes = type < KV_TYPES && kv_type_codes(type); /* KV_TYPES: not given */
	for (uint32_t i = 0; i < c->layers + c->draft && codes; i++) {
		const char *why = config_no_codes(c, i);
		if (why)
			return err_set(
				e, EINVAL,
				"models of type %s keep keys and values in 16 bits alone (%s); "
				"mount without -o kv=%s",
				c->model_type, why, kv_type_name(type));
	}
	return 0;
}

void config_place_codes(struct config *c, uint32_t layer)
{
	struct layer *l = &c->layer[layer];
	for (enum kv_type type = 0; type < KV_TYPES && !config_no_codes(c, layer); type++) {
		uint64_t *bytes = &c->codes_bytes[config_kv_kind(l)][type];
		if (!kv_type_codes(type))
			continue;
		l->codes_at[type] = l->keys_of ? c->layer[l->keys_of - 1].codes_at[type] : *bytes;
		*bytes += config_codes_bytes(c, layer, type);
	}
}

uint64_t config_draft_codes(const struct config *c, enum kv_type type)
{
	return config_no_codes(c, c->layers) ? 0 : config_codes_bytes(c, c->layers, type);
}
