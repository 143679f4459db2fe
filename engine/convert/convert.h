/* Converting a checkpoint into a store while it already answers.
 *
 * What every token needs, the dense part, is converted first, by all threads. Then the model is
 * ready with a store that grows (convert_view): an expert that is touched and not yet in it is made
 * on demand (convert_make_expert), and threads of low priority make the rest in the order of the
 * file (convert_rest_start), while nobody asks anything; the last of them publishes the store,
 * under the readers' feet and without their noticing. If that fails it is tried again when a turn
 * has ended, or after a minute.
 *
 * Tensors stream through: no more than a unit (a row chunk or one expert's record) and a MiB of its
 * source per thread are in memory, or two records where they are coded, and what is left to the
 * writer (store_put_behind). An interrupted conversion goes on where it stopped.
 *
 * Locks: the converter has one, taken under none of its caller's that `report` takes; nothing but
 * the writer's own is taken under it, and nobody who holds it waits for the writer.
 */
#ifndef MOEFS_ENGINE_CONVERT_CONVERT_H
#define MOEFS_ENGINE_CONVERT_CONVERT_H

#include "cache/err.h"
#include "engine/family/config.h"
#include "engine/family/plan.h"
#include "engine/source/witness.h"
#include "kernels/kernels.h"

#include <stdatomic.h>

struct convert_progress {
	_Atomic uint64_t done, total; /* bytes of the source; total 0 while none runs */
	_Atomic uint64_t started_ns;  /* CLOCK_MONOTONIC */
	_Atomic bool stopped;	      /* the rest meets something that it cannot do */
};

enum convert_event {
	CONVERT_COMPLETE, /* the store is published */
	CONVERT_TROUBLE,  /* the rest cannot go on, or not with all; code 0: it can again */
	/* This conversion is at its end: it has to be closed and begun anew. ERANGE: with norms in
	 * F32; ESTALE: the checkpoint was changed meanwhile; else a write failed so that nothing
	 * more can be written (a disk's fault). */
	CONVERT_AGAIN,
};

enum { CODEC_WORDS = 96 };

struct moments;
struct store_put;

struct conversion {
	const char *directory; /* the checkpoint */
	const char *folder;    /* the store's */
	const struct config *config;
	struct recipe
		recipe; /* kept and codec are found out; norms F32 if F16 is known not to do */
	uint64_t fingerprint[2]; /* the source's name, for the store's key: witness_name */
	/* Begun for this folder; the converter's from convert_begin on, which frees it also when it
	 * fails. */
	struct witness *witness;
	uint32_t threads;
	const struct kernels *kernels; /* for quantising */
	const struct moments *moments; /* what is known of inputs, for rounding; may be NULL */
	const _Atomic bool *stop;      /* ends convert_begin and convert_finish with -ECANCELED */
	struct convert_progress *progress;
	/* From any thread, with no lock held; may be NULL if convert_rest_start is not called. */
	void (*report)(void *ctx, enum convert_event event, const struct err *e);
	void *ctx;
};

struct converter;

/* Checks the whole checkpoint's headers, begins or takes up the store and converts the dense part,
 * by all threads. The strings of v, its config and *plan (which this makes, and the caller frees)
 * outlive the converter. -EBUSY: another process is converting it; -EEXIST: one just did. */
int convert_begin(struct converter **out, const struct conversion *v, struct plan *plan,
		  struct err *e);
/* What was measured to choose the codec; empty if nothing was. */
const char *convert_codec_words(const struct converter *c);
/* The store as far as it is; call it once. The caller closes it, after the converter. */
int convert_view(struct converter *c, struct store **out, struct err *e);

/* What is left, by all threads at once, and publishes: for models without experts. */
int convert_finish(struct converter *c, struct err *e);

/* Fills record[plan->record[routed_layer].bytes] with the bytes that the store has or will have.
 * ctx is the converter. For experts that the view does not have yet, from any number of threads;
 * blocks for the reading and the arithmetic. After convert_view. *put: NULL, or convert_keep_expert
 * follows with it and the same record, when who waited for that has it: it writes, and waits
 * while more is written than the disk takes (store_put_behind). What it meets is reported, and
 * costs the store a record that is made again, but no answer. */
int convert_make_expert(struct converter *c, uint32_t routed_layer, uint32_t expert, void *record,
			struct store_put **put, struct err *e);
void convert_keep_expert(struct converter *c, uint32_t routed_layer, uint32_t expert,
			 const void *record, struct store_put *put);

/* Starts the threads that make the rest. They begin as soon as they are let, which is while the
 * model has no turn: a turn on a new checkpoint is as fast as its own experts are read and made. */
int convert_rest_start(struct converter *c, struct err *e);
void convert_rest_let(struct converter *c, bool work);

/* Ends the threads and frees; what is not published is taken up by the next convert_begin, unless
 * that would do it differently. No convert_make_expert or convert_keep_expert may be in progress.
 */
void convert_close(struct converter *c); /* NULL is fine */

#endif
