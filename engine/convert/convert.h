/* Converting a checkpoint into a store while the model already answers.
 *
 * All threads first convert the dense part, which every token needs. Then the model is ready, with
 * a store that grows (convert_view). An expert that is needed but not in the store yet is made on
 * demand (convert_make_expert). While the model has no turn, low-priority threads make the
 * remaining experts in file order (convert_rest_start). The last of them publishes the store while
 * readers use it. If publishing fails, it is tried again after a turn, or after a minute.
 *
 * Memory per thread: one unit (a row chunk or an expert's record) and a MiB of its source, or two
 * records if they are compressed; and the data that the store's writer holds (store_put_defer). An
 * interrupted conversion resumes where it stopped.
 *
 * Locks: the converter has one lock. Callers must not hold a lock that `report` takes. Under the
 * converter's lock only the writer's lock is taken, and its holder never waits for the writer.
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
	_Atomic uint64_t done, total; /* bytes of the source; total 0: no conversion is running */
	_Atomic uint64_t started_ns;  /* CLOCK_MONOTONIC */
	_Atomic bool stopped;	      /* the background conversion failed; it waits or has ended */
};

enum convert_event {
	CONVERT_COMPLETE, /* the store is published */
	CONVERT_TROUBLE,  /* a unit or publishing failed; code 0: the problem is solved */
	/* This conversion has ended: close it and begin a new one. ERANGE: with a wider recipe;
	 * ESTALE: the checkpoint has changed; other codes: the disk failed, and nothing more can be
	 * written. */
	CONVERT_AGAIN,
};

enum { CODEC_WORDS = 96 };

struct moments;
struct store_put;

struct conversion {
	const char *directory; /* the checkpoint */
	const char *folder;    /* the store's */
	const struct config *config;
	/* The conversion sets kept and codec. Widen it before (recipe_widen) if numbers are known
	 * not to fit. */
	struct recipe recipe;
	uint64_t fingerprint[2]; /* the source's name, for the store's key: witness_name */
	/* Begun for this folder. convert_begin takes ownership, also if it fails.
	 */
	struct witness *witness;
	uint32_t threads;
	const struct kernels *kernels; /* for quantising */
	/* Refining: weights are rounded by the moments of their inputs, which are known for some
	 * layers at a time (convert_layers); convert_begin converts nothing. */
	bool by_layers;
	const _Atomic bool *stop; /* makes convert_begin and convert_finish end with -ECANCELED */
	struct convert_progress *progress;
	/* Called from any thread, with no lock held. May be NULL if convert_rest_start is not
	 * called. */
	void (*report)(void *ctx, enum convert_event event, const struct err *e);
	void *ctx;
};

struct converter;

/* Checks all headers of the checkpoint, begins or resumes the store, and converts the dense part
 * with all threads. Makes *plan, which the caller frees. The strings of v, its config and *plan
 * must outlive the converter. -EBUSY: another process is converting the checkpoint; -EEXIST:
 * another process has just finished it. */
int convert_begin(struct converter **out, const struct conversion *v, struct plan *plan,
		  struct err *e);
/* The measurements that decided the codec; empty: none were made. */
const char *convert_codec_words(const struct converter *c);
/* Opens the unfinished store for reading. Call it once. Close *out after the converter.
 */
int convert_view(struct converter *c, struct store **out, struct err *e);

/* Provides the moments of the inputs of some layers. */
struct convert_known {
	/* Returns the moments of layer `layer` and the next ones, up to moments_end, valid until
	 * the next call; and the moments of a held-back part of the text, or NULL. layer ==
	 * plan->layers: the tensors that occur once. */
	int (*know)(void *ctx, uint32_t layer, const struct moments **out,
		    const struct moments **held, struct err *e);
	void *ctx;
};
/* For by_layers: converts with all threads everything that is not in the store yet, layer by layer,
 * rounding by the layers' moments. -ECANCELED: stopped, perhaps within a layer. May be called
 * again. */
int convert_layers(struct converter *c, const struct convert_known *k, struct err *e);
/* Whether rounding by moments gave smaller errors than rounding to nearest, on average over the
 * rows that this converter rounded, judged on the held-back part of the text. True if no rows were
 * judged. */
bool convert_is_better(const struct converter *c);
/* Makes convert_close remove everything that was written. */
void convert_discard(struct converter *c);
/* Makes all experts with all threads and publishes the store. For conversions without readers. */
int convert_finish(struct converter *c, struct err *e);

/* Makes an expert that the view does not have: fills record[plan->record[routed_layer].bytes] with
 * the bytes that the store has or will have. Call it after convert_view, from any number of
 * threads. Blocks: reads and computes. If *put is not NULL afterwards, give the expert to the pager
 * and then call convert_keep_expert with *put and the same record. convert_keep_expert writes the
 * record, and waits if the disk is too slow (store_put_defer). A failed write is reported and fails
 * no answer; the unit is made again later. */
int convert_make_expert(struct converter *c, uint32_t routed_layer, uint32_t expert, void *record,
			struct store_put **put, struct err *e);
void convert_keep_expert(struct converter *c, uint32_t routed_layer, uint32_t expert,
			 const void *record, struct store_put *put);

/* convert_rest_start starts the threads that make the remaining experts. convert_rest_allow lets
 * them work or pauses them: they must pause during a turn, so that the turn waits only for its own
 * experts. */
int convert_rest_start(struct converter *c, struct err *e);
void convert_rest_allow(struct converter *c, bool work);
/* Call this when a turn has ended: a failed publish is tried again when the threads may work. */
void convert_retry_publish(struct converter *c);

/* Ends the threads and frees the converter. The next convert_begin resumes an unpublished store,
 * unless its conversion differs. No convert_make_expert or convert_keep_expert may be in progress.
 */
void convert_close(struct converter *c); /* NULL is fine */

/* ---- without converting ---- */

/* A checkpoint that is its own store: its weights have kernel formats and the right layout, so they
 * are read from the published files (cache/store_in_place.h). Each part of each expert must equal
 * that of its record, and no dense matrix may need quantising. Other dense tensors are read as in a
 * conversion (encoder.h). */
struct convert_in_place {
	const char *directory;
	const struct config *config; /* must outlive the store */
	struct recipe recipe;	     /* as published, with the formats found */
	const struct kernels *kernels;
	uint64_t number[2]; /* source_number of the source (source.h) */
};

/* The caller frees *plan. -ENOTSUP: the checkpoint must be converted; other codes: a tensor is
 * missing or cannot be read, as in sources_check. */
int convert_in_place_open(struct store **out, struct plan *plan, const struct convert_in_place *v,
			  struct err *e);

#endif
