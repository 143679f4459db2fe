/* The inside of a converter, shared by converter.c (units, progress, publishing), convert.c
 * (beginning and finishing) and convert_rest.c (experts on demand, and the threads that make the
 * rest). */
#ifndef MOEFS_ENGINE_CONVERT_CONVERTER_H
#define MOEFS_ENGINE_CONVERT_CONVERTER_H

#include "engine/convert/convert.h"
#include "engine/convert/encode.h"
#include "engine/family/published.h"

#include <pthread.h>

struct crew;
struct idle_encoder;

struct converter {
	struct conversion v;
	struct plan *plan;
	struct sources sources;
	struct published published; /* if the recipe keeps what is */
	char codec_words[CODEC_WORDS];
	uint32_t records;	  /* experts of all layers: units [0, records) */
	const struct store *view; /* the caller's; NULL before convert_view */
	_Atomic bool *in;	  /* [records] in the store, and counted as progress */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct store_writer *writer; /* NULL once all is in; constant while users > 0 */
	uint32_t users;		     /* threads that make something, and units left to it */
	/* Hears what came of a unit, but for its progress; the lock is held. */
	void (*note)(struct converter *c, uint32_t unit, int failed, const struct err *e);
	struct crew *crew;	    /* all threads at once, while they are */
	struct idle_encoder *idle;  /* for the makers to come */
	uint32_t reports, reported; /* that were begun, and that have ended: one after the other */
	bool over;		    /* a failure ended it, of which one thread reports */
	bool over_said;		    /* CONVERT_AGAIN was reported */
	bool differently;	    /* what is there is of no use to the next */

	/* The rest: */
	struct rest_thread *rest;
	uint32_t rest_count, rest_left; /* threads; those that have not ended */
	bool let, quit, finished, publishing;
	uint32_t next; /* the unit to look at next */
	bool *damaged; /* [records] its source is */
	uint32_t damaged_count;
	uint64_t retry_ns; /* nothing is tried before: a write failed; 0: it did not */

	/* Of the thread that publishes, and of convert_close: the writer when all is in, until the
	 * store is published. */
	struct store_writer *complete;
};

/* ---- converter.c ---- */

/* Nothing is converted of all that the plan names. */
void converter_begin_progress(struct converter *c);
/* Counts a chunk of a tensor that is in. */
void converter_count_chunk(struct converter *c, const struct plan_tensor *t, uint32_t chunk);
/* Counts an expert that is in, once. */
void converter_count(struct converter *c, uint32_t unit);

/* The writer is used, and stays, until converter_end_use, which is called with the lock held. */
void converter_use(struct converter *c);
void converter_end_use(struct converter *c);
/* The lock is held, and released meanwhile. */
void converter_wait_for_users(struct converter *c);

/* Makes one expert in record[], and begins to put it into the store. -EEXIST: it is in, or on its
 * way elsewhere. */
int converter_make_expert(struct converter *c, struct encoder *x, uint32_t unit, void *record,
			  struct store_put **put, struct err *e);
/* Writes a unit that was begun and leaves it to the writer. Both, or the writer later, end in
 * converter_committed, once. Without the lock. */
void converter_leave(struct converter *c, struct store_put *put, uint32_t unit, const void *data,
		     size_t bytes);
void converter_leave_expert(struct converter *c, struct store_put *put, uint32_t unit,
			    const void *record);
/* What came of it (store_done_fn). */
void converter_committed(void *ctx, uint32_t unit, int failed, const struct err *e);

/* All units are in: publishes, without the lock; by one thread. May be tried again after a failure,
 * unless c->complete says that it failed for good. */
int converter_publish(struct converter *c, struct err *e);
/* Closes the writer, which nobody uses, and with it the store's lock: for good, without c->lock.
 * keep: what is not published is for the next to go on with. */
void converter_close_writer(struct converter *c, struct store_writer *w, bool keep);
/* The same; what is there is kept unless the next would do it differently. */
void converter_let_go(struct converter *c, struct store_writer *w);

/* ---- convert_rest.c ---- */

/* The converter's `note` but while all threads are at it. */
void convert_rest_note(struct converter *c, uint32_t unit, int failed, const struct err *e);
/* Ends the rest's threads and frees the encoders. */
void converter_rest_end(struct converter *c);

#endif
