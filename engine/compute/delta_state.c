#include "engine/compute/delta_state.h"

size_t delta_matrix_floats(const struct config *c)
{
	const struct delta_net *n = &c->delta_net;
	return (size_t)n->value_heads * n->key_dim * n->value_dim;
}

size_t delta_row_floats(const struct config *c)
{
	return 2 * ((size_t)config_delta_channels(c) + c->delta_net.value_heads);
}

/* Of a layer: its matrices and the convolution's inputs. */
static size_t moved_floats(const struct config *c)
{
	return delta_matrix_floats(c) + (size_t)(c->delta_net.width - 1) * config_delta_channels(c);
}

size_t delta_layer_floats(const struct config *c)
{
	return moved_floats(c) + DELTA_BEHIND * delta_row_floats(c);
}

size_t delta_state_floats(const struct config *c)
{
	return c->mixers[MIXER_DELTA_NET] * delta_layer_floats(c);
}

size_t delta_moved_floats(const struct config *c)
{
	return c->mixers[MIXER_DELTA_NET] * moved_floats(c);
}
