/* Encoding: a checkpoint's rows as a store has them.
 *
 * Reads rows of the source a piece at a time, checks that they are numbers, and copies, widens or
 * quantises them into memory. Knows nothing of files of a store, of order or of threads: each
 * thread has an encoder of its own.
 */
#ifndef MOEFS_ENGINE_CONVERT_ENCODE_H
#define MOEFS_ENGINE_CONVERT_ENCODE_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "engine/family/sources.h"
#include "kernels/kernels.h"

#include <stdatomic.h>

struct encoder; /* about a MiB of buffers; with moments, more */
struct moments;

/* All three outlive it; the plan must not change. */
int encoder_create(struct encoder **out, const struct plan *p, const struct sources *s,
		   const struct kernels *k, struct err *e);
void encoder_free(struct encoder *x); /* NULL is fine */
/* From now on what is quantised is rounded by what is known of its inputs, which takes so long that
 * *stop ends it between two rows, with -ECANCELED. NULL: to the nearest. */
void encoder_know(struct encoder *x, const struct moments *m, const _Atomic bool *stop);

/* All below: -EINVAL names a tensor that holds what is no number; -ERANGE one whose norms F16 does
 * not hold, where the plan stores them so; -EIO a file that cannot be read. */

/* record[plan->record[routed_layer].bytes] */
int encode_expert(struct encoder *x, uint32_t routed_layer, uint32_t expert, void *record,
		  struct err *e);
/* A row chunk of a dense tensor, one piece after the other: chunk[encode_chunk_bytes] */
int encode_chunk(struct encoder *x, const struct plan_tensor *t, uint32_t number, void *chunk,
		 struct err *e);
/* s->rows rows of a source from row0 on, one piece after the other: out[], of what these take */
int encode_rows(struct encoder *x, const struct shape *s, const struct source *source,
		uint32_t row0, uint8_t *out, struct err *e);
/* Whether rows of such a shape are the bytes that are there: quantised ones of the same format. */
bool encode_copies(const struct shape *s, const struct source *from);
/* What the largest chunk of a plan takes. */
size_t encode_chunk_bytes(const struct plan *p);

#endif
