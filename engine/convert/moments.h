/* Second moments of the inputs of a model's matrices: the sums of x x' over the tokens of a text,
 * by which weights are rounded (rounding.h).
 *
 * Each input of the plan's quantised matrices has one sum; matrices with the same input (q, k and
 * v; gate and up) share it. Experts share a sum for their layer, of all tokens, and each has its
 * own, of the tokens that were routed to it. A sum is of all pairs of columns (in blocks of 2048,
 * where there are more columns), of pairs within a group of TQ_GROUP, or of single columns: as much
 * as fits into the memory allowed.
 *
 * The sums of several layers are gathered at a time, as many as fit into the memory allowed. They
 * are never on the disk.
 */
#ifndef MOEFS_ENGINE_CONVERT_MOMENTS_H
#define MOEFS_ENGINE_CONVERT_MOMENTS_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

enum { MOMENTS_ALL = UINT32_MAX }; /* instead of an expert: all experts of its layer */

struct moments;

/* Makes room for the sums of layer `first` and as many of the next as fit into `most` bytes, all
 * zero. plan->layers stands for what occurs once and comes after all layers. The plan outlives the
 * moments. */
int moments_create(struct moments **out, const struct plan *p, uint32_t first, uint64_t most,
		   struct err *e);
void moments_free(struct moments *m); /* NULL is fine */
uint64_t moments_bytes(const struct moments *m);
/* How many sums there are. */
uint32_t moments_count(const struct moments *m);
/* The layer after the last one, at most plan->layers + 1. */
uint32_t moments_end(const struct moments *m);

/* The index of the sum of a tensor's inputs; -1: the tensor is not quantised or of another layer, and
 * has no sum.
 */
int64_t moments_find(const struct moments *m, struct tensor_id id);
/* True for one of the roles that share an input: the one at which the input is added. */
bool moments_counts(const struct moments *m, enum tensor_role role);
/* Adds x[n][cols] to rows [begin, end) of a sum. The call that adds row 0 counts the tokens. Threads
 * may add to different rows, which are faster in multiples of MOMENTS_ROWS. */
enum { MOMENTS_ROWS = 48 };
void moments_add(struct moments *m, const struct kernels *k, int64_t sum, const float *x,
		 uint32_t n, uint32_t begin, uint32_t end);
uint64_t moments_tokens(const struct moments *m, int64_t sum);

/* Fills h[n][n] with the weight of errors in the columns [first, first + n) of a tensor's rows: the
 * mean moment of its inputs, drawn to that of its layer where an expert has few. False: nothing is
 * known. */
bool moments_weigh(const struct moments *m, struct tensor_id id, uint32_t first, uint32_t n,
		   float *h);
/* Columns of a block whose pairs are known; blocks begin at multiples of it. 0: nothing is known.
 * Tensors with the same sums get the same number in *same. */
uint32_t moments_block(const struct moments *m, struct tensor_id id, uint64_t *same);

#endif
