/* Second moments of the inputs of a model's matrices: the sums of x x' over the tokens of a text,
 * for whoever rounds weights by them (rounding.h).
 *
 * One sum for each input that matrices of the plan which are quantised have: those with the same
 * input (q, k and v; gate and up) share it. Experts share a sum for their layer, of all tokens, and
 * each has one of its own, of the tokens that it met. A sum is of all pairs of columns (in blocks
 * of 1024, where there are more), of those within a group of TQ_GROUP, or of single columns: as
 * much as the bytes allow.
 *
 * All of it is one piece of memory, which is also its file, kept beside the store:
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

enum { MOMENTS_ALL = UINT32_MAX }; /* in place of an expert: all of its layer */

struct moments;

/* What a file of moments is of; it is good for nothing else. */
struct moments_key {
	uint64_t model[2]; /* the source's name */
	uint64_t text[2];  /* what was read, or how it was written */
};

/* Room for all sums, in `most` bytes, all zero. The plan outlives it. */
int moments_create(struct moments **out, const struct plan *p, const struct moments_key *key,
		   uint64_t most, struct err *e);
void moments_free(struct moments *m); /* NULL is fine */
uint64_t moments_bytes(const struct moments *m);

/* The sum that a tensor's inputs go to; -1: there is none, since it is not quantised. */
int64_t moments_find(const struct moments *m, struct tensor_id id);
/* Whether it is this tensor of those with one input by which that is counted. */
bool moments_counts(enum tensor_role role);
uint32_t moments_cols(const struct moments *m, int64_t sum);
/* Adds n inputs to rows [begin, end) of a sum: x[rows[i]][cols], or of the first n if rows is NULL.
 * Whoever adds the first row of a sum counts the tokens. Threads may add to different rows. */
void moments_add(struct moments *m, const struct kernels *k, int64_t sum, const float *x,
		 const uint32_t *rows, uint32_t n, uint32_t begin, uint32_t end);
uint64_t moments_tokens(const struct moments *m, int64_t sum);

/* How errors weigh in the columns [first, first + n) of a tensor's rows, h[n][n]: the mean moment
 * of its inputs, where they are few drawn to that of its layer. False: nothing is known. */
bool moments_weigh(const struct moments *m, struct tensor_id id, uint32_t first, uint32_t n,
		   float *h);
/* Columns whose pairs are known, from a multiple of it on; tensors with the same sums have the same
 * number `same`. */
uint32_t moments_block(const struct moments *m, struct tensor_id id, uint64_t *same);

/* How far the text was read: kept in the file. */
struct moments_read {
	uint64_t windows; /* of it that are in the sums */
	uint64_t tokens;
	uint64_t whole; /* 1: there is no more of it, else 0 */
};
struct moments_read *moments_read_of(struct moments *m);

/* Reads what is kept in a folder, of this plan and key. -ENOENT: nothing, or of another text, model
 * or version; -EIO in words: it is damaged. After a failure the sums are zero. */
int moments_load(struct moments *m, const char *folder, struct err *e);
int moments_save(struct moments *m, const char *folder, struct err *e);
/* Of the sums: the same moments, the same number. */
uint64_t moments_sum(const struct moments *m);

#endif
