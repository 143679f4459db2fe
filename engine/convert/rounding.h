/* Rounding that knows its inputs: chooses the codes of a row of weights where an error costs more
 * in some directions than in others.
 *
 * A row w is used as w · x, so codes q cost (w - q)' H (w - q) with H = E[x x'], the second moment
 * of the inputs (moments.h). With H = U D U', U unit upper triangular, that is the sum over
 * positions of d times the square of (the error there + what U adds for the errors before).
 * Positions are rounded one after the other, and later ones make up for the errors of earlier ones
 * as far as they can (LDLQ: Chee et al. 2023, "QuIP"; the same as GPTQ). All of it happens in the
 * rotated basis of TQ's groups (kernels/tq.h); H is rotated likewise.
 *
 * With H a multiple of the identity this is rounding to the nearest. The result depends on moments
 * and weights alone, not on the processor or the number of threads.
 */
#ifndef MOEFS_ENGINE_CONVERT_ROUNDING_H
#define MOEFS_ENGINE_CONVERT_ROUNDING_H

#include "cache/err.h"
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rounding; /* for matrices of one width that have the same inputs; used by one thread */

/* For codes of TQ or TC, of rows of `cols` weights. Errors are made up for within blocks of `block`
 * columns: a multiple of TQ_GROUP, or all columns. */
int rounding_create(struct rounding **out, const struct kernels *k, enum format format,
		    uint32_t cols, uint32_t block, struct err *e);
void rounding_free(struct rounding *r); /* NULL is fine */
/* When *stop is set, rounding_weigh and rounding_rows return false soon. NULL: nothing stops them.
 */
void rounding_heed(struct rounding *r, const _Atomic bool *stop);

/* Takes the second moment h[n][n] of the columns [first, first + n) of one block, all of it, in the
 * basis of the weights. n is the block's width, or what is left of the row. Where h is all zero,
 * errors weigh alike. */
bool rounding_weigh(struct rounding *r, uint32_t first, const float *h);

/* Rows that are rounded side by side, at most. */
enum { ROUNDING_ROWS = 16 };
/* Rounds rows[n][cols], as tq_quantise_row does each but for norms: with `half` each is a number of
 * F16, as a store keeps it. A row's codes do not depend on the other rows. False: one holds a NaN
 * or an infinity. */
bool rounding_rows(struct rounding *r, uint8_t *packed, float *norms, const float *rows, uint32_t n,
		   bool half);

#endif
