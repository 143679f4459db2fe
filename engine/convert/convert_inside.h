/* The inside of a converter, shared by convert.c (beginning, all threads at once, the end) and
 * convert_experts.c (units, experts on demand, the rest's threads, publishing); and the choice of a
 * codec (codec_choice.c). */
#ifndef MOEFS_ENGINE_CONVERT_CONVERT_INSIDE_H
#define MOEFS_ENGINE_CONVERT_CONVERT_INSIDE_H

#include "engine/convert/convert.h"
#include "engine/convert/encoder.h"
#include "engine/family/sources.h"

#include <pthread.h>

struct convert_crew;
struct convert_idle_encoder;

struct converter {
	struct conversion v;
	struct plan *plan;
	struct sources sources;
	struct published published; /* if the recipe keeps published formats */
	char codec_words[CODEC_WORDS];
	uint32_t records;	  /* experts of all layers: units [0, records) */
	const struct store *view; /* the caller's; NULL before convert_view */
	_Atomic bool *in;	  /* [records]: in the store, and counted as progress */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct store_writer *writer; /* NULL once all units are in; constant while users > 0 */
	uint32_t users; /* of the writer: threads that make a unit, and units on their way */
	/* Hears each unit's result, under the lock, after progress was counted. */
	void (*note)(struct converter *c, uint32_t unit, int failed, const struct err *e);
	struct convert_crew *crew; /* while all threads are at once at work */
	const struct moments *moments; /* of the layers that are converted; NULL: none are known */
	const struct moments *held;    /* the same of what was held back */
	struct encoder_verdict verdict;
	uint32_t *jobs; /* of the layers that are converted: records, then chunks of dense tensors */
	struct convert_idle_encoder *idle;
	uint32_t reports, reported; /* begun and ended; reports are made one after the other */
	bool over;		    /* a failure ended the conversion; one thread reports it */
	bool over_reported;	    /* as CONVERT_AGAIN */
	bool differently;	    /* the next conversion cannot use what is there */

	/* The rest: */
	struct convert_rest_thread *rest;
	uint32_t rest_count, rest_left; /* threads; threads that have not ended */
	bool allowed, quit, finished, publishing;
	uint32_t next; /* unit to look at next */
	bool *damaged; /* [records]: its source is damaged */
	uint32_t damaged_count;
	uint64_t retry_ns; /* a write failed; nothing is tried before; 0: none failed */

	/* Used by the thread that publishes, and by convert_close: the writer when all units are
	 * in, until the store is published. */
	struct store_writer *complete;
};

/* Sets the progress to nothing of all tensors of the plan. */
void convert_begin_progress(struct converter *c);
/* Counts a chunk of a tensor as converted. */
void convert_count_chunk(struct converter *c, const struct plan_tensor *t, uint32_t chunk);
/* Counts an expert as converted, once. */
void convert_count_expert(struct converter *c, uint32_t unit);

/* The lock is held, and released while waiting. */
void convert_wait_for_users(struct converter *c);

/* Makes an expert in record[] and begins to put it into the store. -EEXIST: it is in the store, or
 * on its way there. */
int convert_begin_expert(struct converter *c, struct encoder *x, uint32_t unit, void *record,
			 struct store_put **put, struct err *e);
/* Writes a unit that was begun and leaves it to the writer, without the lock. convert_committed is
 * called once, by this function or by the writer later. */
void convert_put_unit(struct converter *c, struct store_put *put, uint32_t unit, const void *data,
		      size_t bytes);
void convert_put_expert(struct converter *c, struct store_put *put, uint32_t unit,
			const void *record);
/* Tells the converter a unit's result; a store_done_fn. */
void convert_committed(void *ctx, uint32_t unit, int failed, const struct err *e);

/* The converter's `note`, except while a crew is at work. */
void convert_rest_note(struct converter *c, uint32_t unit, int failed, const struct err *e);
/* Ends the rest's threads and frees all encoders. */
void convert_rest_end(struct converter *c);

/* Publishes when all units are in, without the lock, by one thread. May be tried again after a
 * failure, unless store_writer_failed(c->complete). */
int convert_publish(struct converter *c, struct err *e);
/* Closes a writer that nobody uses, and gives up the store's lock, without c->lock. keep: what is
 * not published is for the next conversion to resume. */
void convert_close_writer(struct converter *c, struct store_writer *w, bool keep);

/* ---- codec_choice.c ---- */

/* The measurements that decide `codec=auto`. Speeds are in bytes of decoded records per second,
 * except `device`.
 */
struct codec_figures {
	double share;	 /* of a record's bytes that are stored */
	double device;	 /* bytes that the device reads per second; 0: unknown */
	double one, all; /* decoding by one thread, and by `threads` together */
	uint32_t threads;
	uint32_t missing; /* records that a layer waits for at once */
};
bool codec_pays(const struct codec_figures *f);

struct codec_choice {
	enum recipe_codec codec; /* CODEC_NONE or CODEC_ZSTD */
	/* Of a stored record; 0: the space was checked when the conversion was begun. */
	uint64_t expected_bytes;
	char words[CODEC_WORDS]; /* what was measured; empty if nothing was */
};

/* Chooses the codec for a conversion by this plan, whose recipe has what was asked for. A
 * conversion that was begun in the same folder keeps its codec, if auto was asked for, and is not
 * measured again. The store's device is measured on the checkpoint's files if they lie on it; else
 * its speed is unknown, and auto is none. Blocks (reads a few experts and computes for a tenth of a
 * second); fails if they cannot be read. */
int codec_choose(struct codec_choice *out, const struct conversion *v,
		 const struct sources *sources, const struct plan *p, struct err *e);

#endif
