/* What a loaded model computes with, and its memory. From MODEL_LOADING on only the run's thread
 * uses it, with two exceptions: any thread may inspect the experts while holding `looking`, and any
 * thread may read the tokenizer and the template once `speaks` is true. A thread that needs only
 * the tokenizer calls load_tokenizer_once. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_LOADED_H
#define MOEFS_ENGINE_MODEL_MODEL_LOADED_H

#include "cache/pager.h"
#include "engine/compute/drafter.h"
#include "engine/compute/forward.h"
#include "engine/compute/ngrams.h"
#include "engine/compute/sampler.h"
#include "engine/cuda/cuda.h"
#include "engine/memory/budgets.h"
#include "engine/template/chat_template.h"

#include <errno.h>
#include <pthread.h>

/* Checksums of the checkpoint's small files (load_texts.c). */
enum load_text_of { LOAD_DEFAULTS = 1, LOAD_TOKENIZER = 2, LOAD_TEMPLATE = 4 };
enum { LOAD_TEXTS = 9 };
struct load_texts {
	unsigned known;		   /* set of enum load_text_of: files that have been read */
	uint64_t sums[LOAD_TEXTS]; /* of each file when it was read; of a GGUF file only of its
				      header */
};

struct model_loaded {
	pthread_mutex_t opening; /* held while tokenizer and template are opened */
	_Atomic bool speaks;	 /* they are open, and stay open after the weights are unloaded */
	struct tokenizer *tokenizer;
	struct chat_template *chat; /* NULL: there is no usable template, */
	struct err no_chat; /* for this reason. ENODATA: the model is not made for conversations */
	struct load_texts texts;    /* (opening) */
	struct weights weights;
	struct ngram_tables *ngrams; /* NULL: the model has none */
	char left_out[1024];	     /* (looking) text of left_out_print; "" until the first load */
	_Atomic uint64_t
		weights_sum; /* checksum of the weights, from the store's key; 0: unknown */

	pthread_rwlock_t looking;
	struct pager_source *experts;	   /* (looking) NULL in a dense model */
	struct pager_stats experts_before; /* (looking) counts from before the last unload */
	uint64_t heat_uses, heat_ns; /* number of uses, and the time, when heat was last saved */

	struct threads *threads; /* the model's handle to the engine's compute threads */
	struct forward forward;
	struct forward_pass pass; /* of a prompt that pauses between layers; forward.chunk rows */
	struct draft_layer draft_layer; /* forward NULL: the model has no draft layer */
	struct cuda_model *on_card; /* NULL: the CPU computes, */
	struct err no_card;	    /* (looking) for this reason; also after the GPU has failed */
	struct cuda_model *shown_card;	/* (looking) on_card, once its experts can be looked at */
	uint64_t gpu_hits_before; /* (looking) uses of experts on it before the last unload */
	/* One for each thread that samples. */
	struct sampler samplers[HEAD_ROWS];
	uint32_t sampler_count;
	struct budget_need need;    /* in the budgets' list while the model is open */
	struct budget_need scratch; /* memory of long steps; bytes 0: steps are short */
};

/* Whether prompts are turns of a conversation by default. Also true if there is a template that
 * cannot be used, since such a model is made for conversations. */
static inline bool model_loaded_chats(const struct model_loaded *r)
{
	return r->chat || r->no_chat.code != ENODATA;
}

#endif
