/* What all models of an engine share. Set by engine_create; what changes after that is the
 * budgets', the pager's and the threads' own, behind their locks. */
#ifndef MOEFS_ENGINE_MODEL_ENGINE_STATE_H
#define MOEFS_ENGINE_MODEL_ENGINE_STATE_H

#include "engine/compute/threads.h"
#include "engine/family/recipe.h"
#include "engine/memory/budgets.h"
#include "engine/memory/context_budget.h"
#include "engine/model.h"
#include "engine/prefixes/offload.h"
#include "engine/prefixes/remember.h"
#include "kernels/kernels.h"

struct engine {
	struct engine_options options; /* strings are owned copies */
	char *template_text;	       /* of options.template_file; NULL: none */
	bool chunk_automatic; /* options.chunk was not asked for: longer steps are allowed */
	struct recipe recipe;
	enum kv_type kv; /* of options.kv; KV_TYPES: nothing was asked for */
	struct pager *pager;
	struct threads *threads;
	const struct backend *backend; /* of all models' steps */
	const struct kernels *kernels;
	struct context_budget context_budget;
	struct offload_room offload;	 /* what contexts may take on disk */
	struct remember *remember;	 /* answers on disk; NULL: none */
	struct budgets budgets;		 /* what the pager and the contexts may take */
	/* See struct engine_totals. */
	_Atomic uint64_t turns, turns_remembered, prompt_tokens, cached_tokens, output_tokens;
	_Atomic uint64_t largest_expert; /* in memory, of any model that was opened */
};

#endif
