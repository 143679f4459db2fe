/* What a loaded model computes with, and the memory that it takes. It belongs to the run's thread
 * from MODEL_LOADING on, with two exceptions: anybody asks the experts while holding `looking`, and
 * any thread reads the tokenizer and the template once `speaks` is true. A thread that needs only
 * the tokenizer calls load_tokenizer_once. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_LOADED_H
#define MOEFS_ENGINE_MODEL_MODEL_LOADED_H

#include "cache/pager.h"
#include "engine/compute/drafter.h"
#include "engine/compute/forward.h"
#include "engine/compute/ngrams.h"
#include "engine/compute/sampler.h"
#include "engine/memory/budgets.h"
#include "engine/template/chat_template.h"

#include <errno.h>
#include <pthread.h>

/* What was read of the checkpoint's small files (load_texts.c). */
enum load_text_of { LOAD_DEFAULTS = 1, LOAD_TOKENIZER = 2, LOAD_TEMPLATE = 4 };
enum { LOAD_TEXTS = 9 };
struct load_texts {
	unsigned known;		   /* of enum load_text_of: which have been read */
	uint64_t sums[LOAD_TEXTS]; /* of each as it then was; of a GGUF file its header alone */
};

struct model_loaded {
	pthread_mutex_t opening; /* of tokenizer and template, until they are there */
	_Atomic bool speaks;	 /* they are, and stay, whether the weights do or not */
	struct tokenizer *tokenizer;
	struct chat_template *chat; /* NULL: there is none that can be used, */
	struct err no_chat;	    /* and why. ENODATA: the model is not made for conversations */
	struct load_texts texts;    /* (opening) */
	struct weights weights;
	struct ngram_tables *ngrams; /* NULL in a model without */
	char left_out[1024]; /* (looking) as left_out_print; "" until the first load */
	_Atomic uint64_t
		weights_sum; /* of the store's key: other weights, another sum; 0: unknown */

	pthread_rwlock_t looking;
	struct pager_source *experts;	   /* (looking) NULL in a dense model */
	struct pager_stats experts_before; /* (looking) what its predecessors had counted */
	uint64_t heat_uses, heat_ns; /* uses of experts when their heat was kept, and the time */

	struct threads *threads; /* the model's place at the engine's compute threads */
	struct forward forward;
	struct forward_pass pass; /* of a prompt that waits between layers; forward.chunk rows */
	struct draft_layer draft_layer; /* forward NULL: the model has none */
	/* One for each thread that takes logits at once. */
	struct sampler samplers[HEAD_ROWS];
	uint32_t sampler_count;
	struct budget_need need;    /* the budgets' while the model is open */
	struct budget_need scratch; /* what its long steps take; bytes 0: they are short */
};

/* Whether prompts are turns of a conversation unless the session says otherwise: even a template
 * that cannot be used says that they were meant to be. */
static inline bool model_loaded_chats(const struct model_loaded *r)
{
	return r->chat || r->no_chat.code != ENODATA;
}

#endif
