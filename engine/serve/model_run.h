/* What a loaded model computes with, and the memory that it takes. The generation thread's from
 * MODEL_LOADING on, and nobody else's but for the experts, which lookers ask while they hold
 * `looking`, and for the tokenizer and the template, once `speaks` announces them. What is observed
 * (observe.h) stays until the model is unloaded or loaded anew. Others who need the tokenizer alone
 * have it from load_tokenizer_once. */
#ifndef MOEFS_ENGINE_SERVE_MODEL_RUN_H
#define MOEFS_ENGINE_SERVE_MODEL_RUN_H

#include "cache/pager.h"
#include "engine/compute/drafter.h"
#include "engine/compute/forward.h"
#include "engine/compute/sampler.h"
#include "engine/memory/budgets.h"
#include "engine/serve/constrain.h"
#include "engine/serve/draft_meter.h"
#include "engine/template/chat_template.h"

#include <errno.h>
#include <pthread.h>

/* What was read of the checkpoint's small files (load_texts.c). */
enum load_text_of { LOAD_DEFAULTS = 1, LOAD_TOKENIZER = 2, LOAD_TEMPLATE = 4 };
enum { LOAD_TEXTS = 8 };
struct load_texts {
	unsigned known;		   /* of enum load_text_of: which have been read */
	uint64_t sums[LOAD_TEXTS]; /* of each as it then was; of a GGUF file its header alone */
};

struct model_run {
	pthread_mutex_t opening; /* of tokenizer and template, until they are there */
	_Atomic bool speaks;	 /* they are, and stay, whether the weights do or not */
	struct tokenizer *tokenizer;
	struct chat_template *chat; /* NULL: there is none that can be used, */
	struct err no_chat;	    /* and why. ENODATA: the model is not made for conversations */
	struct load_texts texts;    /* (opening) */
	struct weights weights;
	uint64_t weights_sum; /* of the store's key: other weights, another sum */

	pthread_rwlock_t looking;
	struct pager_source *experts;	   /* (looking) NULL in a dense model */
	struct pager_stats experts_before; /* (looking) what its predecessors had counted */
	uint64_t heat_uses, heat_ns; /* uses of experts when their heat was kept, and the time */

	struct forward forward;
	struct step_batch batch;	/* of the step at hand */
	struct draft_layer draft_layer; /* memory NULL: the model has none */
	struct draft_meter draft_meter;
	struct sampler sampler;
	struct constraints constraints;
	struct budget_need need;    /* the budgets' while the model is open */
	struct budget_need scratch; /* what its long steps take; bytes 0: they are short */
};

/* Whether prompts are turns of a conversation unless the session says otherwise: even a template
 * that cannot be used says that they were meant to be. */
static inline bool model_run_chats(const struct model_run *r)
{
	return r->chat || r->no_chat.code != ENODATA;
}

#endif
