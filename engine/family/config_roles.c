/* Which roles (role.h) the layers of a config have, and the shapes of their tensors. */
#include "engine/family/config.h"

/* The beginnings of the names in the list. */
#define L "model.layers.%u."
#define A L "self_attn."
#define D L "linear_attn."
#define F L "mlp."

#define ROLE(role, place, presence, rows, cols, class, name)                       \
	[TENSOR_##role] = {PLACE_##place,    PRESENT_##presence, DIMENSION_##rows, \
			   DIMENSION_##cols, CLASS_##class,	 name},
const struct tensor_kind tensor_roles[TENSOR_ROLES] = {TENSOR_ROLE_LIST(ROLE)};

bool config_has_tensor(const struct config *c, enum tensor_role role, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	bool attention = l->mixer == MIXER_ATTENTION;
	switch (tensor_roles[role].presence) {
	case PRESENT_ALWAYS:
		return true;
	case PRESENT_ATTENTION:
		return attention;
	case PRESENT_POST_NORMS:
		return c->post_norms;
	case PRESENT_LAYER_SCALE:
		return c->layer_scale;
	case PRESENT_VALUES:
		return attention && !l->keys_as_values;
	case PRESENT_QKV_BIAS:
		return attention && c->qkv_bias;
	case PRESENT_OUTPUT_BIAS:
		return attention && c->output_bias;
	case PRESENT_HEAD_NORMS:
		return attention && c->head_norms != HEAD_NORMS_NONE;
	case PRESENT_SINKS:
		return attention && c->sinks;
	case PRESENT_LATENT:
		return l->mixer == MIXER_LATENT;
	case PRESENT_LATENT_LOW:
		return l->mixer == MIXER_LATENT && c->latent.query_rank > 0;
	case PRESENT_DELTA_NET:
		return l->mixer == MIXER_DELTA_NET;
	case PRESENT_DENSE:
		return l->feed_forward == FEED_FORWARD_DENSE;
	case PRESENT_ROUTED:
		return l->feed_forward == FEED_FORWARD_ROUTED;
	case PRESENT_ROUTER_BIAS:
		return l->feed_forward == FEED_FORWARD_ROUTED && c->router_bias;
	case PRESENT_EXPERT_BIAS:
		return l->feed_forward == FEED_FORWARD_ROUTED && c->expert_bias;
	case PRESENT_ROUTER_CORRECTION:
		return l->feed_forward == FEED_FORWARD_ROUTED && c->router_correction;
	case PRESENT_APART:
		return l->feed_forward == FEED_FORWARD_ROUTED && c->feed_forwards_apart;
	case PRESENT_EXPERT_SCALE:
		return l->feed_forward == FEED_FORWARD_ROUTED && c->expert_scale;
	case PRESENT_SHARED:
		return l->shared;
	case PRESENT_SHARED_GATE:
		return l->shared && c->shared_gate;
	}
	return false;
}

uint64_t config_kv_width(const struct config *c, uint32_t layer)
{
	const struct layer *l = &c->layer[layer];
	switch (l->mixer) {
	case MIXER_ATTENTION:
		return 2 * (uint64_t)l->kv_heads * l->head_dim;
	case MIXER_LATENT:
		return (uint64_t)c->latent.rank + c->latent.rope;
	case MIXER_DELTA_NET:
	case MIXERS:
		break;
	}
	return 0;
}

static uint32_t config_dimension(const struct config *c, const struct layer *l,
				 enum tensor_dimension d)
{
	const struct delta_net *n = &c->delta_net;
	bool whole = c->head_norms == HEAD_NORMS_TOGETHER;
	switch (d) {
	case DIMENSION_NONE:
		return 0;
	case DIMENSION_ONE:
		return 1;
	case DIMENSION_VOCABULARY:
		return c->vocabulary;
	case DIMENSION_HIDDEN:
		return c->hidden_size;
	case DIMENSION_HIDDEN_TWICE:
		return 2 * c->hidden_size;
	case DIMENSION_QUERIES:
		return c->heads * l->head_dim * (c->query_gate ? 2 : 1);
	case DIMENSION_KEYS:
		return l->kv_heads * l->head_dim;
	case DIMENSION_ATTENDED:
		return c->heads * l->head_dim;
	case DIMENSION_Q_NORMED:
		return l->head_dim * (whole ? c->heads : 1);
	case DIMENSION_K_NORMED:
		return l->head_dim * (whole ? l->kv_heads : 1);
	case DIMENSION_LATENT_LOW:
		return c->latent.query_rank;
	case DIMENSION_LATENT_QUERIES:
		return c->heads * (c->latent.nope + c->latent.rope);
	case DIMENSION_LATENT_Q_INPUT:
		return c->latent.query_rank ? c->latent.query_rank : c->hidden_size;
	case DIMENSION_LATENT_WIDTH:
		return c->latent.rank + c->latent.rope;
	case DIMENSION_LATENT_RANK:
		return c->latent.rank;
	case DIMENSION_LATENT_NOPE:
		return c->latent.nope;
	case DIMENSION_LATENT_HEADS:
		return c->heads * c->latent.rank;
	case DIMENSION_LATENT_VALUES:
		return c->heads * c->latent.value;
	case DIMENSION_DELTA_CHANNELS:
		return config_delta_channels(c);
	case DIMENSION_DELTA_VALUES:
		return n->value_heads * n->value_dim;
	case DIMENSION_DELTA_HEADS:
		return n->value_heads;
	case DIMENSION_DELTA_HEAD:
		return n->value_dim;
	case DIMENSION_DELTA_WIDTH:
		return n->width;
	case DIMENSION_INTERMEDIATE:
		return c->intermediate_size;
	case DIMENSION_HEADS:
		return c->heads;
	case DIMENSION_EXPERTS:
		return c->experts;
	case DIMENSION_EXPERT:
		return c->expert_size;
	case DIMENSION_SHARED:
		return c->shared_size;
	}
	return 0;
}

void config_tensor_shape(const struct config *c, enum tensor_role role, uint32_t layer,
			 uint32_t *rows, uint32_t *cols)
{
	*rows = config_dimension(c, &c->layer[layer], tensor_roles[role].rows);
	*cols = config_dimension(c, &c->layer[layer], tensor_roles[role].cols);
}
