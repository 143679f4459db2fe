/* What all models of an engine share. engine_create sets it. Later only the budgets, the pager and
 * the threads change, protected by their own locks, and the atomics. */
#ifndef MOEFS_ENGINE_MODEL_ENGINE_STATE_H
#define MOEFS_ENGINE_MODEL_ENGINE_STATE_H

#include "engine/compute/threads.h"
#include "engine/family/recipe.h"
#include "engine/memory/budgets.h"
#include "engine/memory/context_budget.h"
#include "engine/model/engine_gpu.h"
#include "engine/model.h"
#include "engine/prefixes/offload.h"
#include "engine/prefixes/remember.h"
#include "kernels/kernels.h"

struct engine {
	struct engine_options options; /* strings are owned copies */
	char *template_text;	       /* of options.template_file; NULL: none */
	bool chunk_automatic;	       /* options.chunk was not given: long steps are allowed */
	struct recipe recipe;
	enum kv_type kv; /* of options.kv; KV_TYPES: not given */
	struct pager *pager;
	struct threads *threads;
	const struct backend *backend; /* of all models' steps */
	const struct kernels *kernels;
	struct gpu gpu;
	struct context_budget context_budget;
	struct offload_room offload;	 /* limit of contexts on disk */
	struct remember *remember;	 /* answers on disk; NULL: none */
	struct budgets budgets;		 /* limits of the pager and the contexts */
	/* See struct engine_totals. */
	_Atomic uint64_t turns, turns_remembered, prompt_tokens, cached_tokens, output_tokens;
	_Atomic uint64_t largest_expert; /* bytes in memory of the largest expert of all models
					    opened so far */
};

#endif
