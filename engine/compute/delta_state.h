/* What gated delta nets keep in a context.
 *
 * The state of a layer is its value heads' matrices, [value_heads][key_dim][value_dim]; then what
 * its convolution has yet to see again, the last width - 1 inputs, [width - 1][channels]; then what
 * is yet to be done of tokens that the state is behind (recurrent.h): for each of up to
 * DELTA_BEHIND its input and its queries, keys and values after the convolution, [channels] each,
 * and its gates, [2][value_heads]. All layers' states lie one after the other in the context's
 * recurrent state.
 */
#ifndef MOEFS_ENGINE_COMPUTE_DELTA_STATE_H
#define MOEFS_ENGINE_COMPUTE_DELTA_STATE_H

#include "engine/family/config.h"

enum { DELTA_BEHIND = 4 }; /* tokens that a step may draft */

/* Floats of one layer's matrices; of what a token leaves that the state is behind; and of all its
 * state. */
size_t delta_matrix_floats(const struct config *c);
size_t delta_row_floats(const struct config *c);
size_t delta_layer_floats(const struct config *c);
/* Floats of a context's state; 0 in a model without delta nets. */
size_t delta_state_floats(const struct config *c);
/* Those of a context's that each step reads and writes, drafts or none. */
size_t delta_moved_floats(const struct config *c);

#endif
