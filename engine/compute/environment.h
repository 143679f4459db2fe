/* What stays the same from step to step of a model's forward pass, and what a test or a tool sees
 * of one. */
#ifndef MOEFS_ENGINE_COMPUTE_ENVIRONMENT_H
#define MOEFS_ENGINE_COMPUTE_ENVIRONMENT_H

#include "cache/pager.h"
#include "engine/compute/threads.h"
#include "engine/compute/weights.h"

/* Where a test or a tool may look. rows is [tokens][width], those of a step that
 * belong to one context; position is the first one's. */
enum tap_point {
	TAP_STATE,	    /* the residual stream; layer 0 is the embedding, l + 1 after layer l */
	TAP_NORMED,	    /* after the final norm */
	TAP_ROUTER_LOGITS,  /* layer counts the routed layers, as it does in the next two */
	TAP_ROUTER_WEIGHTS, /* the router's choice, before any of it is dropped */
	TAP_ROUTER_EXPERTS, /* as floats, in descending order of weight */
};
typedef void tap_fn(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
		    uint32_t tokens, uint32_t width, const float *rows);

struct observer;
struct picks;

struct environment {
	const struct config *config;
	const struct plan *plan;
	const struct weights *weights;
	const struct kernels *kernels;
	struct threads *threads;
	struct pager_source *experts; /* NULL in a model without */
	/* These may change between steps. */
	const _Atomic bool *stop; /* becomes true: the step ends with -ECANCELED; may be NULL */
	tap_fn *tap;		  /* may be NULL */
	void *tap_ctx;
	void (*picked)(void *ctx, const struct picks *p); /* picks.h; may be NULL */
	void *picked_ctx;
	const struct observer *observer; /* observer.h; may be NULL */
};

#endif
