/* Second moments of the inputs of a model's matrices: sums of x x' over the tokens of a text.
 * Weights are rounded by these (rounding.h).
 *
 * Each input of the plan's quantised matrices has one sum; matrices with the same input (q, k and
 * v; gate and up) share it. The experts of a layer share a sum over all tokens, and each expert has
 * its own sum over the tokens routed to it. Depending on the memory allowed, a sum covers all pairs
 * of columns (in blocks of 2048 columns), pairs within a group of TQ_GROUP, or only single columns.
 *
 * The sums of as many layers as fit into the memory allowed are gathered at the same time. They are
 * never written to disk.
 */
#ifndef MOEFS_ENGINE_CONVERT_MOMENTS_H
#define MOEFS_ENGINE_CONVERT_MOMENTS_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

enum { MOMENTS_ALL = UINT32_MAX }; /* instead of an expert's number: all experts of the layer */

struct moments;

/* Allocates zeroed sums for layer `first` and as many of the following layers as fit into `most`
 * bytes. Layer plan->layers has the tensors that occur once. The plan must outlive the moments. */
int moments_create(struct moments **out, const struct plan *p, uint32_t first, uint64_t most,
		   struct err *e);
void moments_free(struct moments *m); /* NULL is fine */
uint64_t moments_bytes(const struct moments *m);
/* The number of sums. */
uint32_t moments_count(const struct moments *m);
/* One more than the last layer; at most plan->layers + 1. */
uint32_t moments_end(const struct moments *m);

/* The index of the sum of a tensor's inputs; -1: no sum, since the tensor is not quantised or is in
 * another layer.
 */
int64_t moments_find(const struct moments *m, struct tensor_id id);
/* Of the roles that share an input, exactly one returns true: add the input for this role. */
bool moments_counts(const struct moments *m, enum tensor_role role);
/* Adds x[n][cols] to rows [begin, end) of a sum. The call with row 0 counts the tokens. Threads may
 * add to different rows at the same time; multiples of MOMENTS_ROWS are fastest. */
enum { MOMENTS_ROWS = 48 };
void moments_add(struct moments *m, const struct kernels *k, int64_t sum, const float *x,
		 uint32_t n, uint32_t begin, uint32_t end);
uint64_t moments_tokens(const struct moments *m, int64_t sum);

/* Fills h[n][n] with the weights of errors in columns [first, first + n) of a tensor's rows: the
 * mean moment of its inputs. For experts with few tokens this is mixed with the moment of the
 * layer. False: nothing is known. */
bool moments_weigh(const struct moments *m, struct tensor_id id, uint32_t first, uint32_t n,
		   float *h);
/* The size of blocks of columns whose pairs are known; blocks begin at multiples of it. 0: nothing
 * is known. *same gets a number that is equal for tensors with the same sums. */
uint32_t moments_block(const struct moments *m, struct tensor_id id, uint64_t *same);

#endif
