/* The GPU of an engine: which one, its memory, whether it is used, and counters. All models share
 * it. The backend opens it when the first model is loaded, not engine_create: the driver does not
 * survive the fork of a daemon. */
#ifndef MOEFS_ENGINE_MODEL_ENGINE_GPU_H
#define MOEFS_ENGINE_MODEL_ENGINE_GPU_H

#include "engine/cuda/cuda.h"
#include "engine/gpu/card_find.h"
#include "engine/gpu/gpu_budget.h"
#include "engine/model.h"

#include <stdatomic.h>

struct gpu {
	int ordinal;	  /* the driver's number of the GPU; -1: none may be used (gpu=off) */
	struct card_find find; /* what GPU there is, for facts */
	_Atomic bool off; /* nothing is computed on the GPU: gpu=off, or it failed. Stays true. */
	struct gpu_budget budget; /* its lock also protects the next two members */
	struct card_facts facts;  /* of the card that was opened; memory 0: none was yet */
	struct err why;		  /* why `off` is set; code 0: it is not */
	struct cuda_counters counters; /* written by the backend */
};

void engine_gpu_init(struct gpu *u, const struct engine_options *o);
void engine_gpu_free(struct gpu *u);

/* The backend opened the card: c->facts say what it is. The budget knows it already. */
void engine_gpu_found(struct engine *g, const struct card *c);
/* The GPU cannot be used, for this reason: it is off until the engine ends. Only the first reason
 * is kept. Callable from any thread; the budget's lock must not be held. */
void engine_gpu_fail(struct engine *g, const struct err *why);

#endif
