/* A model's weights on disk: where they are, whether they are complete, and the conversion that
 * makes them.
 *
 * The generation thread owns this and writes it while loading (model_open does before that thread
 * exists). The converter's threads write `progress`. Other threads read the atomics, and the fields
 * under `lock` after model_hold_store. */
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
	/* Folders where the store may be, in order of preference; then for each of these the folder
	 * of its refined store. Some may be NULL. */
	char *folders[2 * STORE_PLACES];
	_Atomic int folder; /* index of the folder that has the store, or is being written */
	struct published published; /* for plans, if the recipe keeps the published formats */

	/* Written under `lock` once has_store announces them. */
	pthread_rwlock_t lock;
	struct plan plan;
	struct store *store;
	struct source_state
		looked; /* the source when `store` was opened; empty if this mount made the store */
	struct store_loss loss;	       /* tokens 0: unknown */
	char codec_words[CODEC_WORDS]; /* measurement that chose the codec, if this mount made the
					  store */
	_Atomic bool has_store; /* plan, codec_words and store are set, and the store is complete */

	bool doubted;		     /* a load or a turn failed, so open the store again */
	struct converter *converter; /* NULL once the store is complete */
	struct convert_progress progress;
	_Atomic bool waiting;  /* waits for another process that makes the store */
	_Atomic bool checking; /* progress is that of checking whether the source has changed */
	_Atomic int widened;   /* how often the recipe was widened */
};

/* True: the complete store and its plan stay open until model_release_store. A holder that waits
 * for the disk delays loading, but no other holder. */
bool model_hold_store(const struct model_store *s);
void model_release_store(const struct model_store *s);

#endif
