/* The encoder: rows of a source become rows of a store.
 *
 * Reads rows of the source a piece at a time, checks that they are numbers, and copies, widens or
 * quantises them in memory. Knows nothing of a store's files, of order or of threads: each thread
 * has its own encoder.
 */
#ifndef MOEFS_ENGINE_CONVERT_ENCODER_H
#define MOEFS_ENGINE_CONVERT_ENCODER_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "engine/family/sources.h"
#include "kernels/kernels.h"

#include <stdatomic.h>

struct encoder; /* about a MiB of buffers; with moments, more */
struct moments;

/* Plan, sources and kernels outlive the encoder; the plan must not change. */
int encoder_create(struct encoder **out, const struct plan *p, const struct sources *s,
		   const struct kernels *k, struct err *e);
void encoder_free(struct encoder *x); /* NULL is fine */
/* From now on rounds by these moments (rounding.h); NULL: to the nearest. Rounding takes long, so
 * *stop ends it between two rows, with -ECANCELED. held: of the same layers, of a part of the text
 * that the others do not know, by which some rows are judged; NULL: none are. */
void encoder_know(struct encoder *x, const struct moments *m, const struct moments *held,
		  const _Atomic bool *stop);
/* Rows that were judged, and the sum of ln(the error of a rounded row / of its nearest codes), by
 * the moments that were held back. */
struct encoder_verdict {
	uint64_t rows;
	double sum;
};
/* Adds the encoder's rows to a verdict. */
void encoder_judge(const struct encoder *x, struct encoder_verdict *v);

/* The functions below fail with -EINVAL, naming a tensor that holds a NaN or an infinity; -ERANGE,
 * naming a tensor whose norms F16 does not hold where the plan stores them as F16; -EIO, naming a
 * file that cannot be read. */

/* record[plan->record[routed_layer].bytes] */
int encoder_expert(struct encoder *x, uint32_t routed_layer, uint32_t expert, void *record,
		   struct err *e);
/* A row chunk of a dense tensor, one piece after the other: chunk[encoder_chunk_bytes]. */
int encoder_chunk(struct encoder *x, const struct plan_tensor *t, uint32_t number, void *chunk,
		  struct err *e);
/* Rows [row0, row0 + s->rows) of a source, one piece after the other: out[bytes of all pieces]. */
int encoder_rows(struct encoder *x, const struct shape *s, const struct source *source,
		 uint32_t row0, uint8_t *out, struct err *e);
/* True if rows of this shape are the source's bytes: quantised, and in the same format. */
bool encoder_copies(const struct shape *s, const struct source *from);
/* Bytes of a plan's largest chunk. */
size_t encoder_chunk_bytes(const struct plan *p);

#endif
