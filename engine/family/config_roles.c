/* Which roles (role.h) the layers of a config have, and the shapes of their tensors. */
#include "engine/family/config.h"

/* Prefixes of the names in the list. */
#define L "model.layers.%u."
#define A L "self_attn."
#define D L "linear_attn."
#define M L "mamba."
#define F L "mlp."
#define I A "indexer."
#define P L "ple."
#define HM L "attn_hyper_connection."
#define HF L "mlp_hyper_connection."
#define HE "model.hyper_connection_mixer."

#define ROLE(role, place, presence, rows, cols, class, name)                       \
	[TENSOR_##role] = {PLACE_##place,    PRESENT_##presence, DIMENSION_##rows, \
			   DIMENSION_##cols, CLASS_##class,	 name},
const struct tensor_kind tensor_roles[TENSOR_ROLES] = {TENSOR_ROLE_LIST(ROLE)};

bool config_has_tensor(const struct config *c, enum tensor_role role, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	const bool attention = l->mixer == MIXER_ATTENTION, latent = l->mixer == MIXER_LATENT;
	const bool compressed = l->mixer == MIXER_COMPRESSED;
	const bool dense = l->feed_forward == FEED_FORWARD_DENSE;
	const bool routed = l->feed_forward == FEED_FORWARD_ROUTED;
	const bool mixes = config_has_part(l, PART_MIXER);
	const bool feeds = config_has_part(l, PART_FEED_FORWARD);
	const bool indexed = l->index == INDEX_OWN;
#define PRESENT(presence, condition) [PRESENT_##presence] = condition,
	const bool present[] = {TENSOR_PRESENCE_LIST(PRESENT)};
#undef PRESENT
	return present[tensor_roles[role].presence];
}

uint64_t config_kv_width(const struct config *c, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	switch (l->mixer) {
	case MIXER_ATTENTION:
		return l->keys_of ? 0 : 2 * (uint64_t)l->kv_heads * l->head_dim;
	case MIXER_LATENT:
	case MIXER_COMPRESSED:
		return (uint64_t)c->latent.rank + c->latent.rope;
	case MIXER_DELTA_NET:
	case MIXER_KIMI:
	case MIXER_MAMBA:
	case MIXER_CONVOLUTION:
	case MIXER_NONE:
	case MIXERS:
		break;
	}
	return 0;
}

/* One key per position, or per `ratio` positions. 64 is the kernels' KV_BLOCK; this file cannot
 * include the kernels' headers. */
enum { CONFIG_BLOCK = 64 };

uint64_t config_index_width(const struct config *c, uint32_t layer)
{
	if (c->layer[layer].index != INDEX_OWN)
		return 0;
	return (uint64_t)c->chooser.dim *
	       (config_pools(c) ? CONFIG_BLOCK / c->chooser.ratio : CONFIG_BLOCK);
}

uint64_t config_entries_width(const struct config *c, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	if (!l->pool)
		return 0;
	return l->head_dim * (uint64_t)(l->pool < CONFIG_BLOCK ? CONFIG_BLOCK / l->pool : 1);
}

uint64_t config_past_part(const struct config *c, const struct layer *l, enum past_part part)
{
	bool pools = l->index == INDEX_OWN && config_pools(c);
	if (part == PAST_NGRAMS)
		return l->ngrams ? config_stream_width(c) : 0;
	if (part == PAST_ENTRIES) /* keys, and gates */
		return l->pool ? 2 * (uint64_t)l->head_dim * l->pool_parts : 0;
	if (!pools)
		return 0;
	return (uint64_t)config_index_parts(c) * (c->chooser.entry == INDEX_POOLS ? 2 : 1);
}

uint64_t config_past_width(const struct config *c, uint32_t layer)
{
	uint64_t width = 0;
	for (enum past_part part = 0; part < PAST_PARTS; part++)
		width += config_past_part(c, &c->layer[layer], part);
	return width;
}

uint32_t config_past_window(const struct config *c, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	uint32_t window = l->ngrams ? (c->ngrams.width - 1) * c->ngrams.step + 1 : 0;
	uint32_t pool = c->chooser.ratio * (c->chooser.overlaps ? 2 : 1);
	if (l->index == INDEX_OWN && config_pools(c) && pool > window)
		window = pool;
	return l->pool * l->pool_parts > window ? l->pool * l->pool_parts : window;
}

static uint32_t config_dimension(const struct config *c, const struct layer *l,
				 enum tensor_dimension d)
{
	const struct delta_net *n = &c->delta_net;
	const bool together = c->head_norms == HEAD_NORMS_TOGETHER;
#define SIZE(dimension, size) [DIMENSION_##dimension] = size,
	const uint32_t sizes[] = {TENSOR_DIMENSION_LIST(SIZE)};
#undef SIZE
	return sizes[d];
}

void config_tensor_shape(const struct config *c, enum tensor_role role, uint32_t layer,
			 uint32_t *rows, uint32_t *cols)
{
	*rows = config_dimension(c, &c->layer[layer], tensor_roles[role].rows);
	*cols = config_dimension(c, &c->layer[layer], tensor_roles[role].cols);
}
