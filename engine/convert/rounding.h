/* Rounding by moments: chooses the codes of a row of weights so that the error is small for the
 * inputs that the row really gets.
 *
 * A row w is used as w · x, so codes q cost (w - q)' H (w - q) with H = E[x x'], the second moment
 * of the inputs (moments.h). With H = U D U', U unit upper triangular, that is the sum over
 * positions of d times the square of (the error there + what U adds for the errors before).
 * Positions are rounded one after the other, and later ones compensate for the errors of earlier
 * ones as far as possible (LDLQ: Chee et al. 2023, "QuIP"; equivalent to GPTQ). All computation
 * uses the rotated basis of TQ's groups (kernels/tq.h); H is rotated, too.
 *
 * If H is a multiple of the identity, this is rounding to nearest. The result depends only on
 * moments and weights, not on the processor or the number of threads.
 */
#ifndef MOEFS_ENGINE_CONVERT_ROUNDING_H
#define MOEFS_ENGINE_CONVERT_ROUNDING_H

#include "cache/err.h"
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rounding; /* for matrices of one width and with the same inputs; for one thread */

/* For TQ or TC codes of rows of `cols` weights. Errors are compensated within blocks of `block`
 * columns: a multiple of TQ_GROUP, or all columns. */
int rounding_create(struct rounding **out, const struct kernels *k, enum format format,
		    uint32_t cols, uint32_t block, struct err *e);
void rounding_free(struct rounding *r); /* NULL is fine */
/* When *stop is set, rounding_weigh and rounding_rows soon return false. NULL: they are never
 * stopped.
 */
void rounding_heed(struct rounding *r, const _Atomic bool *stop);

/* Takes the second moment h[n][n] of one whole block, columns [first, first + n), in the basis of
 * the weights. n is the block's width, or the rest of the row. If h is all zero, all errors have
 * equal weight. */
bool rounding_weigh(struct rounding *r, uint32_t first, const float *h);

/* Most rows per call of rounding_rows. */
enum { ROUNDING_ROWS = 16 };
/* Rounds rows[n][cols], with results as of tq_quantise_row. half: norms are rounded to F16, as in
 * the store. A row's codes do not depend on the other rows. False: a row has a NaN or an infinity.
 */
bool rounding_rows(struct rounding *r, uint8_t *packed, float *norms, const float *rows, uint32_t n,
		   bool half);

#endif
