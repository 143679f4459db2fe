/* Converting a checkpoint into a store while the model already answers.
 *
 * The dense part, which every token needs, is converted first, by all threads. Then the model is
 * ready with a store that grows (convert_view). An expert that is needed and not in the store yet
 * is made on demand (convert_make_expert). While nobody asks anything, threads of low priority make
 * the rest in the order of the file (convert_rest_start); the last of them publishes the store,
 * while readers use it. A failed publish is tried again when a turn has ended, or after a minute.
 *
 * Tensors stream through. In memory are, per thread, one unit (a row chunk or an expert's record)
 * and a MiB of its source, or two records where records are coded; and what the store's writer
 * holds (store_put_defer). An interrupted conversion resumes where it stopped.
 *
 * Locks: the converter has one. No lock that `report` takes may be held by a caller. Under the
 * converter's lock only the writer's own lock is taken, and its holder never waits for the writer.
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
	_Atomic bool stopped;	      /* the rest failed, and waits or has ended */
};

enum convert_event {
	CONVERT_COMPLETE, /* the store is published */
	CONVERT_TROUBLE,  /* a unit or the publishing failed; code 0: the trouble is over */
	/* This conversion has ended: close it and begin a new one. ERANGE: with a wider recipe;
	 * ESTALE: the checkpoint was changed meanwhile; other codes: a write failed so that nothing
	 * more can be written (the disk is faulty). */
	CONVERT_AGAIN,
};

enum { CODEC_WORDS = 96 };

struct moments;
struct store_put;

struct conversion {
	const char *directory; /* the checkpoint */
	const char *folder;    /* the store's */
	const struct config *config;
	/* kept and codec are found out; widened (recipe_widen) if numbers are known to be beyond it. */
	struct recipe recipe;
	uint64_t fingerprint[2]; /* the source's name, for the store's key: witness_name */
	/* Begun for this folder. The converter owns it from convert_begin on, also if that fails.
	 */
	struct witness *witness;
	uint32_t threads;
	const struct kernels *kernels; /* for quantising */
	/* Weights are rounded by moments of their inputs, which are known for some layers at a time
	 * (convert_layers); convert_begin converts nothing. */
	bool by_layers;
	const _Atomic bool *stop;      /* ends convert_begin and convert_finish with -ECANCELED */
	struct convert_progress *progress;
	/* From any thread, with no lock held; may be NULL if convert_rest_start is not called. */
	void (*report)(void *ctx, enum convert_event event, const struct err *e);
	void *ctx;
};

struct converter;

/* Checks all headers of the checkpoint, begins or resumes the store and converts the dense part, by
 * all threads. Makes *plan, which the caller frees. The strings of v, its config and *plan outlive
 * the converter. -EBUSY: another process is converting the checkpoint; -EEXIST: one just did. */
int convert_begin(struct converter **out, const struct conversion *v, struct plan *plan,
		  struct err *e);
/* The measurements by which the codec was chosen; empty if none were made. */
const char *convert_codec_words(const struct converter *c);
/* Opens a view of the unfinished store. Call it once. The caller closes *out, after the converter.
 */
int convert_view(struct converter *c, struct store **out, struct err *e);

/* What is known of the inputs of some layers. */
struct convert_known {
	/* Gives the moments of layer `layer` and of those up to moments_end, which stay until the
	 * next call, and those of a part of the text that was held back, or NULL. plan->layers:
	 * what occurs once. */
	int (*know)(void *ctx, uint32_t layer, const struct moments **out,
		    const struct moments **held, struct err *e);
	void *ctx;
};
/* If by_layers: converts all that is not in the store yet, by all threads, in the order of the
 * layers, rounded by what is known of each. -ECANCELED: stopped, also within a layer; may be called
 * again. */
int convert_layers(struct converter *c, const struct convert_known *k, struct err *e);
/* Whether rounding by moments has smaller errors than the nearest codes, by the part of the text
 * that was held back: what this converter has rounded, on the average of rows. True if none were
 * judged. */
bool convert_is_better(const struct converter *c);
/* Removes what was written, when the converter is closed. */
void convert_discard(struct converter *c);
/* Makes all experts, by all threads, and publishes: for models without a reader yet. */
int convert_finish(struct converter *c, struct err *e);

/* Fills record[plan->record[routed_layer].bytes] with the bytes that the store has or will have:
 * for an expert that the view lacks. After convert_view, from any number of threads; blocks for
 * reading and arithmetic. If *put is not NULL afterwards, the caller must call convert_keep_expert
 * with it and the same record, after handing the expert to the pager. convert_keep_expert writes,
 * and waits while the disk is slower than that (store_put_defer). A failed write is reported; the
 * store lacks the unit, which is made again later, and no answer fails. */
int convert_make_expert(struct converter *c, uint32_t routed_layer, uint32_t expert, void *record,
			struct store_put **put, struct err *e);
void convert_keep_expert(struct converter *c, uint32_t routed_layer, uint32_t expert,
			 const void *record, struct store_put *put);

/* Starts the threads that make the rest. They work only while the model has no turn, so that a turn
 * waits only for its own experts. */
int convert_rest_start(struct converter *c, struct err *e);
void convert_rest_allow(struct converter *c, bool work);
/* A turn has ended: a publish that failed is tried again when the rest may work. */
void convert_retry_publish(struct converter *c);

/* Ends the threads and frees. The next convert_begin resumes an unpublished store, unless it would
 * convert differently. No convert_make_expert or convert_keep_expert may be in progress.
 */
void convert_close(struct converter *c); /* NULL is fine */

/* ---- without converting ---- */

/* A checkpoint that is its own store: its weights are in the kernels' formats and lie as they want
 * it, so they are read from the published files (cache/store_in_place.h). Each part of each expert
 * must be as its record has it, and no dense matrix may need quantising. Other dense tensors are
 * read as a conversion reads them (encoder.h). */
struct convert_in_place {
	const char *directory;
	const struct config *config; /* outlives the store */
	struct recipe recipe;	     /* as published, with the formats found */
	const struct kernels *kernels;
	uint64_t number[2]; /* the source's; another one after any change (source.h) */
};

/* The caller frees *plan. -ENOTSUP: the checkpoint has to be converted; other codes: a tensor is
 * missing or cannot be read, as sources_check says. */
int convert_in_place_open(struct store **out, struct plan *plan, const struct convert_in_place *v,
			  struct err *e);

#endif
