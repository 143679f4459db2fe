/* The encoder: converts rows of a source into rows of a store.
 *
 * Reads rows of the source a piece at a time, checks that they are finite, and copies, widens or
 * quantises them in memory. Does not know a store's files, the order of units, or threads: each
 * thread has its own encoder.
 */
#ifndef MOEFS_ENGINE_CONVERT_ENCODER_H
#define MOEFS_ENGINE_CONVERT_ENCODER_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "engine/family/sources.h"
#include "kernels/kernels.h"

#include <stdatomic.h>

struct encoder; /* has about 1 MiB of buffers; more with moments */
struct moments;

/* Plan, sources and kernels must outlive the encoder, and the plan must not change. */
int encoder_create(struct encoder **out, const struct plan *p, const struct sources *s,
		   const struct kernels *k, struct err *e);
void encoder_free(struct encoder *x); /* NULL is fine */
/* From now on the encoder rounds by these moments (rounding.h); NULL: to nearest. Rounding takes
 * long; *stop ends it between two rows, with -ECANCELED. held: moments of the same layers from a
 * held-back part of the text, to judge some rows; NULL: judge none. */
void encoder_know(struct encoder *x, const struct moments *m, const struct moments *held,
		  const _Atomic bool *stop);
/* The number of judged rows, and the sum of ln(error with rounding by moments / error with rounding
 * to nearest), computed with the held-back moments. */
struct encoder_verdict {
	uint64_t rows;
	double sum;
};
/* Adds the encoder's judged rows to a verdict. */
void encoder_judge(const struct encoder *x, struct encoder_verdict *v);

/* Errors of the functions below: -EINVAL: a tensor has a NaN or an infinity; -ERANGE: the plan
 * stores norms as F16, but a tensor's norms do not fit; -EIO: a file cannot be read. The sentence
 * names the tensor or file. */

/* record[plan->record[routed_layer].bytes] */
int encoder_expert(struct encoder *x, uint32_t routed_layer, uint32_t expert, void *record,
		   struct err *e);
/* A row chunk of a dense tensor, one piece after the other: chunk[encoder_chunk_bytes]. */
int encoder_chunk(struct encoder *x, const struct plan_tensor *t, uint32_t number, void *chunk,
		  struct err *e);
/* Rows [row0, row0 + s->rows) of a source, one piece after the other: out[bytes of all pieces]. */
int encoder_rows(struct encoder *x, const struct shape *s, const struct source *source,
		 uint32_t row0, uint8_t *out, struct err *e);
/* Whether rows of this shape are copied from the source, since it is quantised in the same format.
 */
bool encoder_copies(const struct shape *s, const struct source *from);
/* Bytes of a plan's largest chunk. */
size_t encoder_chunk_bytes(const struct plan *p);

#endif
