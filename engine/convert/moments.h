/* Second moments of the inputs of a model's matrices: the sums of x x' over the tokens of a text,
 * by which weights are rounded (rounding.h).
 *
 * Each input of the plan's quantised matrices has one sum; matrices with the same input (q, k and
 * v; gate and up) share it. Experts share a sum for their layer, of all tokens, and each has its
 * own, of the tokens that were routed to it. A sum is of all pairs of columns (in blocks of 1024,
 * where there are more columns), of pairs within a group of TQ_GROUP, or of single columns: as much
 * as fits into the memory allowed.
 *
 * All sums are one piece of memory, which is also their file, kept beside the store:
 *
 *   header   struct moments_header
 *   table    struct moments_entry [count]
 *   sums     float: of each entry, block by block, the upper triangle row by row
 *   8 bytes  XXH3-64 of all before
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

/* The model and text that a file of moments belongs to. It is used for no others. */
struct moments_key {
	uint64_t model[2]; /* the source's name */
	uint64_t text[2];  /* the text, or how it was written */
};

/* Makes room for all sums, in at most `most` bytes, all zero. The plan outlives the moments. */
int moments_create(struct moments **out, const struct plan *p, const struct moments_key *key,
		   uint64_t most, struct err *e);
void moments_free(struct moments *m); /* NULL is fine */
uint64_t moments_bytes(const struct moments *m);

/* The index of the sum of a tensor's inputs; -1: the tensor is not quantised and has no sum.
 */
int64_t moments_find(const struct moments *m, struct tensor_id id);
/* True for one of the roles that share an input: the one at which the input is added. */
bool moments_counts(const struct moments *m, enum tensor_role role);
uint32_t moments_cols(const struct moments *m, int64_t sum);
/* Adds n inputs to rows [begin, end) of a sum: x[rows[i]][cols], or of the first n if rows is NULL.
 * The call that adds row 0 of a sum counts the tokens. Threads may add to different rows. */
void moments_add(struct moments *m, const struct kernels *k, int64_t sum, const float *x,
		 const uint32_t *rows, uint32_t n, uint32_t begin, uint32_t end);
uint64_t moments_tokens(const struct moments *m, int64_t sum);

/* Fills h[n][n] with the weight of errors in the columns [first, first + n) of a tensor's rows: the
 * mean moment of its inputs, drawn to that of its layer where an expert has few. False: nothing is
 * known. */
bool moments_weigh(const struct moments *m, struct tensor_id id, uint32_t first, uint32_t n,
		   float *h);
/* Columns of a block whose pairs are known; blocks begin at multiples of it. 0: nothing is known.
 * Tensors with the same sums get the same number in *same. */
uint32_t moments_block(const struct moments *m, struct tensor_id id, uint64_t *same);

/* How far the text was read; kept in the file. */
struct moments_read {
	uint64_t windows; /* of the text that are in the sums */
	uint64_t tokens;
	uint64_t whole; /* 1: the whole text was read; else 0 */
};
struct moments_read *moments_read_of(struct moments *m);

/* Reads the file in a folder, if it is of this plan and key. -ENOENT: there is none, or one of
 * another text, model or version; -EIO in words: it is damaged. After a failure the sums are zero.
 */
int moments_load(struct moments *m, const char *folder, struct err *e);
int moments_save(struct moments *m, const char *folder, struct err *e);
/* A checksum of all sums. */
uint64_t moments_sum(const struct moments *m);

#endif
