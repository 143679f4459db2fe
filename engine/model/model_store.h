/* A model's weights on disk: where they are, whether they are complete, and how they are made.
 *
 * The generation thread's, which writes it while it loads (model_open before there is one); the
 * converter's threads count `progress`. Others read the atomics, and of the rest only what
 * model_hold_store holds for them. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_STORE_H
#define MOEFS_ENGINE_MODEL_MODEL_STORE_H

#include "engine/convert/convert.h"
#include "engine/family/plan.h"
#include "engine/family/sources.h"
#include "engine/model/store_loss.h"
#include "engine/source/source.h"

#include <pthread.h>

enum { STORE_PLACES = 2 };

struct model_store {
	/* Where it may be, in order of preference, some of which may be NULL; then, for each, where
	 * what refining made of it is. */
	char *folders[2 * STORE_PLACES];
	_Atomic int folder;	    /* which of them has it, or is being written */
	struct published published; /* for plans, if the recipe is as published */

	/* Written under `lock` once has_store announces them. */
	pthread_rwlock_t lock;
	struct plan plan;
	struct store *store;
	struct source_state
		looked; /* as the source was when `store` was opened; none if it was made */
	struct store_loss loss; /* tokens 0: not known */
	char codec_words[CODEC_WORDS]; /* what was measured if this mount made the store */
	_Atomic bool has_store;	       /* plan, codec_words and store, which is complete */

	bool doubted;		     /* a load, or a turn, failed: the store is opened again */
	struct converter *converter; /* while the store is not complete */
	struct convert_progress progress;
	_Atomic bool waiting;  /* for another process, which makes the store */
	_Atomic bool checking; /* progress is of reading the source, which may be another */
	_Atomic int widened;   /* times that numbers were beyond the recipe */
};

/* True: the complete store and its plan stay until they are released. A reader that waits for the
 * disk delays a load, but no other reader. */
bool model_hold_store(const struct model_store *s);
void model_release_store(const struct model_store *s);

#endif
