/* A converter's fields, shared by convert.c (beginning, converting with all threads, ending) and
 * convert_experts.c (units, experts on demand, background threads, publishing). Also the choice of
 * a codec (codec_choice.c). */
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

	pthread_mutex_t lock; /* of the fields below */
	pthread_cond_t changed;
	struct store_writer *writer; /* NULL once all units are in; constant while users > 0 */
	uint32_t users; /* of the writer: threads that make a unit, and units that are being written
			 */
	/* Called with each unit's result, with the lock held, after progress is counted. */
	void (*note)(struct converter *c, uint32_t unit, int failed, const struct err *e);
	struct convert_crew *crew;     /* while all threads convert together */
	const struct moments *moments; /* of the layers that are being converted; NULL: unknown */
	const struct moments *held;    /* the same of the held-back part of the text */
	struct encoder_verdict verdict;
	uint32_t *jobs; /* of the layers that are being converted: records, then chunks of dense
			   tensors */
	struct convert_idle_encoder *idle;
	uint32_t reports, reported; /* reports begun and ended; they are made one at a time */
	bool over;		    /* a failure ended the conversion; one thread reports it */
	bool over_reported;	    /* as CONVERT_AGAIN */
	bool differently;	    /* the next conversion cannot use the files in the folder */

	/* Background threads: */
	struct convert_rest_thread *rest;
	uint32_t rest_count, rest_left; /* threads; threads that have not ended */
	bool allowed, quit, finished, publishing;
	uint32_t next; /* unit to look at next */
	bool *damaged; /* [records]: the record's source is damaged */
	uint32_t damaged_count;
	uint64_t retry_ns; /* a write failed: try again at this time; 0: no failure */

	/* The writer from when all units are in until the store is published. For the publishing
	 * thread and convert_close. */
	struct store_writer *complete;
};

/* Sets the progress to 0 of all tensors of the plan. */
void convert_begin_progress(struct converter *c);
/* Counts a chunk of a tensor as converted. */
void convert_count_chunk(struct converter *c, const struct plan_tensor *t, uint32_t chunk);
/* Counts an expert as converted, once. */
void convert_count_expert(struct converter *c, uint32_t unit);

/* Waits until the writer has no users. The lock is held, and released while waiting. */
void convert_wait_for_users(struct converter *c);

/* Makes an expert in record[] and begins to put it into the store. -EEXIST: it is in the store, or
 * being written. */
int convert_begin_expert(struct converter *c, struct encoder *x, uint32_t unit, void *record,
			 struct store_put **put, struct err *e);
/* Passes the data of a begun unit to the writer, without the lock. convert_committed is called
 * once, by this function or later by the writer. */
void convert_put_unit(struct converter *c, struct store_put *put, uint32_t unit, const void *data,
		      size_t bytes);
void convert_put_expert(struct converter *c, struct store_put *put, uint32_t unit,
			const void *record);
/* Reports a unit's result to the converter; a store_done_fn. */
void convert_committed(void *ctx, uint32_t unit, int failed, const struct err *e);

/* The converter's `note`, except while a crew works. */
void convert_rest_note(struct converter *c, uint32_t unit, int failed, const struct err *e);
/* Ends the background threads and frees all encoders. */
void convert_rest_end(struct converter *c);

/* Publishes the store when all units are in. Called by one thread, without the lock. May be tried
 * again after an error, unless store_writer_failed(c->complete). */
int convert_publish(struct converter *c, struct err *e);
/* Closes a writer without users and releases the store's lock. Without c->lock. keep: keep the
 * unpublished files, so that the next conversion can resume. */
void convert_close_writer(struct converter *c, struct store_writer *w, bool keep);

/* ---- codec_choice.c ---- */

/* The measurements that decide `codec=auto`. Speeds are in bytes of decoded records per second,
 * except `device`.
 */
struct codec_figures {
	double share;	 /* compressed size / size */
	double device;	 /* bytes per second that the device reads; 0: unknown */
	double one, all; /* decoding speed of one thread, and of `threads` together */
	uint32_t threads;
	uint32_t missing; /* records that a layer waits for at the same time */
};
bool codec_pays(const struct codec_figures *f);

struct codec_choice {
	enum recipe_codec codec; /* CODEC_NONE or CODEC_ZSTD */
	/* Of a stored record; 0: the disk space was checked when the conversion began. */
	uint64_t expected_bytes;
	char words[CODEC_WORDS]; /* the measurements; empty: none */
};

/* Chooses the codec for a conversion by this plan, whose recipe has the requested codec. With auto,
 * a conversion that was begun in the same folder keeps its codec without measuring again. The
 * device is measured on the checkpoint's files if they are on the store's device; else its speed is
 * unknown, and auto means none. Blocks: reads a few experts and computes for a tenth of a second.
 * Fails if they cannot be read. */
int codec_choose(struct codec_choice *out, const struct conversion *v,
		 const struct sources *sources, const struct plan *p, struct err *e);

#endif
