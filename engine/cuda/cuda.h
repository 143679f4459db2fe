/* The backend for NVIDIA GPUs (compute/backend.h), and a model's copy in GPU memory. */
#ifndef MOEFS_ENGINE_CUDA_CUDA_H
#define MOEFS_ENGINE_CUDA_CUDA_H

#include "engine/compute/backend.h"
#include "engine/gpu/gpu_budget.h"
#include "kernels/cuda/cuda_images.h"

extern const struct backend cuda_backend;

/* Of all models on a GPU; any thread may read them. */
struct cuda_counters {
	_Atomic uint64_t experts;    /* on the GPU now */
	_Atomic uint64_t hits;	     /* uses of experts that were there, each once a step and layer */
	_Atomic uint64_t promotions; /* experts that were copied there */
	_Atomic uint64_t copies;     /* of contexts, so far: their numbers */
};

struct cuda_model_options {
	int ordinal;		  /* of the GPU */
	enum kv_type kv;	  /* of the model's contexts */
	struct gpu_budget *budget; /* of all models on the GPU */
	struct cuda_counters *counters;
	const struct cuda_image *images;
};

/* Copies the dense weights of the environment's model to a GPU, as far as they are used there; experts
 * follow (cuda_experts_begin). The environment's config, plan and weights outlive the copy. -ENODEV:
 * there is no GPU; -ENOTSUP: the backend can compute no part of this model; -ENOMEM: it does not fit; in
 * words. */
int cuda_model_open(struct cuda_model **out, const struct environment *env,
		    const struct cuda_model_options *options, struct err *e);
struct card;
/* The opened GPU. */
const struct card *cuda_model_card(const struct cuda_model *m);
/* Says which parts of the model the GPU computes, which the CPU, and why. */
void cuda_model_print(const struct cuda_model *m, char *text, size_t size);
/* Frees the copy and all GPU memory of the model. NULL is fine. No stream or scratch of the backend
 * is left. */
void cuda_model_close(struct cuda_model *m);

/* ---- experts on the GPU ---- */

struct cuda_experts_state {
	uint32_t held, all; /* experts that the next step finds on the GPU; that it may have there */
	uint32_t copied;    /* experts held, and experts that arrived since the last step */
	uint64_t bytes;	    /* of experts copied */
	uint64_t held_bytes;
	uint64_t hits;	    /* uses of experts on the GPU */
	bool filling;	    /* more are being copied */
};

struct cuda_expert {
	uint64_t bytes; /* on the GPU; 0: it is not there */
	uint64_t uses;	/* while it was there, each once a step */
	/* Of its last use there; 0: never. As in struct pager_expert. */
	uint64_t last_token, last_used;
};

/* Begins to copy experts of a complete store to the GPU, in the background, as many as the budget
 * has room for. Experts of layers whose feed-forward the CPU computes stay in main memory. `source`
 * is the model's at the pager: what is on the GPU leaves main memory. */
int cuda_experts_begin(struct cuda_model *m, const struct store *store, struct pager_source *source,
		       struct err *e);
/* Any thread. */
void cuda_experts_look(const struct cuda_model *m, struct cuda_experts_state *out);
bool cuda_experts_held(const struct cuda_model *m, uint32_t routed, uint32_t expert);
void cuda_experts_look_at(const struct cuda_model *m, uint32_t routed, uint32_t expert,
			  struct cuda_expert *out);

/* Any thread. Keeps n experts on the GPU, whatever their heat. Experts that are elsewhere are copied in
 * the background, before others, and take the places of others between two steps. -ENOSPC: the GPU has
 * no room for these and the pinned ones; -ENOTSUP: the CPU computes the layer of one; none is pinned.
 * ids: with routed layers. */
int cuda_experts_pin(struct cuda_model *m, const struct pager_id *ids, size_t n, struct err *e);
void cuda_experts_unpin(struct cuda_model *m, const struct pager_id *ids, size_t n);

#endif
