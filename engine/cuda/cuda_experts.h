/* Between cuda_experts.c, cuda_fillers.c and cuda_changes.c: what they know of a model's experts. */
#ifndef MOEFS_ENGINE_CUDA_CUDA_EXPERTS_H
#define MOEFS_ENGINE_CUDA_CUDA_EXPERTS_H

#include "engine/cuda/cuda_model.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	FILLERS = 4,
	CHANGE_STEPS = 8,   /* between two looks for experts that should change places */
	CHANGES_MOST = 64,  /* on their way at once */
	CHANGE_SIGMAS = 3,  /* by which an expert must be hotter than another */
	SPARE = 8,	    /* pieces that stay free for changes, unless all experts find room */
	CONTEXTS_SHARE = 8, /* this part of what the dense weights leave is kept for contexts */
};

/* An expert that is to come, or has; NOBODY: none. */
enum { NOBODY = -1 };
struct cuda_change {
	int64_t expert, victim; /* routed layer · experts + expert */
	gpu_address piece;	/* 0: not yet */
};

/* Uses of an expert while it was on the GPU. Any thread may read them. */
struct cuda_use {
	_Atomic uint64_t count, last_token, last_used; /* as in struct cuda_expert */
};

struct cuda_experts {
	struct cuda_model *model;
	const struct store *store;
	struct pager_source *source;
	uint32_t layers, each; /* routed layers, experts of one */
	uint32_t all;	       /* experts of the layers that the GPU computes: no others come */
	gpu_address slots;     /* on the GPU: [layers][each] addresses */
	/* Of the thread that computes: */
	_Atomic gpu_address *at; /* [layers][each] as on the GPU; any thread may read */
	uint32_t *held;		 /* [layers] */
	float *heat;		 /* [layers][each], as of the last look */
	uint64_t looked;	 /* the step of the last look for changes */
	struct cuda_use *use;	 /* [layers][each] */
	uint64_t token, now;	 /* of the step, as in struct cuda_expert */
	_Atomic uint32_t count;
	_Atomic uint64_t hits; /* of the model */

	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t work;
	bool stop, full;
	bool broken;		  /* something could not be copied to the GPU: no more is */
	uint32_t *order;	  /* [layers * each]: of a filling, the hottest first */
	size_t next, next_pinned; /* in it, and of all: those before these have been looked at */
	bool *moving;		  /* [layers][each]: on its way, or to be replaced */
	bool *pinned;		  /* [layers][each] */
	bool repinned;		  /* some were pinned since the last look for changes */
	struct cuda_pool pool;
	struct cuda_change wanted[CHANGES_MOST];
	uint32_t wanted_count;
	struct cuda_change *arrived; /* room for all experts */
	size_t arrived_count;
	uint32_t busy; /* fillers with an expert in hand */

	pthread_t thread[FILLERS];
	uint32_t threads;
};

/* ---- cuda_fillers.c ---- */

/* May come, and is neither on the GPU nor on its way. The lock is held. */
bool cuda_experts_lacks(const struct cuda_experts *x, size_t expert);

/* Begins a filling. Without memory for sorting the order stays as it was. The lock is held, or nobody fills
 * yet. */
void cuda_experts_order(struct cuda_experts *x);
/* What a thread of FILLERS does, until `stop`. ctx: struct cuda_experts. */
void *cuda_experts_fill(void *ctx);

/* ---- cuda_changes.c ---- */

/* Has the fillers bring experts that should be on the GPU in the places of others: pinned ones before others.
 * By the thread that computes. The lock is held. */
void cuda_experts_look_for_changes(struct cuda_experts *x);

#endif
