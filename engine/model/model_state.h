/* A model, divided into parts by owner. Each part's header says who may use it:
 *
 *     model_identity.h   what was mounted        constant: any thread
 *     model_store.h      its weights on disk     the run's thread; others after model_hold_store
 *     model_loaded.h     what it computes with   the run's thread
 *     model_pins.h       pinned experts          any thread, with the pins' lock held
 *     model_tensors.h    its published tensors   any thread, once the list is made
 *     run/run.h          its run: the thread that computes, and the queues of turns
 *
 * engine_state.h is what all models share.
 */
#ifndef MOEFS_ENGINE_MODEL_MODEL_STATE_H
#define MOEFS_ENGINE_MODEL_MODEL_STATE_H

#include "engine/model/engine_state.h"
#include "engine/model/model_identity.h"
#include "engine/model/model_loaded.h"
#include "engine/model/model_store.h"
#include "engine/model/model_tensors.h"
#include "engine/model/model_pins.h"

struct run;

struct model {
	struct engine *engine;
	struct model_identity id;
	struct model_store stored;
	struct model_loaded loaded;
	struct model_pins pins;
	struct model_tensors tensors;

	_Atomic int state;  /* enum model_state; READY announces what loading made */
	_Atomic bool leave; /* stop loading: the model is being closed or unloaded */
	/* Called from any thread with events of a conversion that continues while the model
	 * answers. */
	void (*converted)(void *model, enum convert_event event, const struct err *e);
	/* Called once in the run's thread, with the run's lock held, when the model has answered
	 * and then was not used for RUN_REST_NS. */
	void (*rests)(struct model *model);
	struct run *run;
};

/* model_query.c: writes where the template comes from, or why there is none. Call it once the
 * tokenizer is loaded. Returns as snprintf. */
int model_template_words(const struct model *m, char *text, size_t size);
/* Whether a token ends an answer; chat: an answer in a conversation. */
bool model_ends(const struct model *m, bool chat, uint32_t id);

#endif
