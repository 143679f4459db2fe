/* Rounding that knows its inputs: which codes a row of weights gets where an error costs more in
 * some directions than in others.
 *
 * A row w is used as w · x, so codes q cost (w - q)' H (w - q) with H = E[x x'], the second moment
 * of the inputs (moments.h). With H = U D U', U unit upper triangular, that is a sum over positions
 * of d times the square of (the error there + what U says of the errors before): positions are
 * rounded one after the other, and what one loses the later ones make up for as far as they can
 * (LDLQ: Chee et al. 2023, "QuIP"; the same as GPTQ). All of it in the rotated basis of TQ's groups
 * (kernels/tq.h), for which H is rotated alike.
 *
 * With H a multiple of the identity this is rounding to the nearest. What is made depends on the
 * moments and the weights alone: not on the processor, nor on the number of threads.
 */
#ifndef MOEFS_ENGINE_CONVERT_ROUNDING_H
#define MOEFS_ENGINE_CONVERT_ROUNDING_H

#include "cache/err.h"
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rounding; /* of matrices of one width that have the same inputs; for one thread */

/* For codes of TQ or TC, of rows of `cols` weights whose errors are made up for within blocks of
 * `block` columns: a multiple of TQ_GROUP, or all of them. */
int rounding_create(struct rounding **out, const struct kernels *k, enum format format,
		    uint32_t cols, uint32_t block, struct err *e);
void rounding_free(struct rounding *r); /* NULL is fine */
uint32_t rounding_block(const struct rounding *r);
/* *stop ends what follows, within a step of it: both below are false then. NULL: nothing does. */
void rounding_heed(struct rounding *r, const _Atomic bool *stop);

/* Takes the second moment of the columns [first, first + n) of one block, h[n][n], full, in the
 * basis of the weights; n is the block's width, or what is left of the row. Where it is all zero
 * errors weigh alike. */
bool rounding_weigh(struct rounding *r, uint32_t first, const float *h);

/* One row; false if it holds what is no number: as tq_quantise_row, but for norms, which are those
 * that a store keeps: numbers of F16 if `half`. */
bool rounding_row(struct rounding *r, uint8_t *packed, float *norms, const float *row, bool half);

#endif
