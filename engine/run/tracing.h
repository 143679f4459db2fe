/* What experts/trace shows of a model: a line for each token and layer with experts, as the router
 * picks them.
 *
 * The lines of a prompt's step come layer by layer, while it is computed. Those of an answer come
 * once its drafts are verified, so each token of the answer has its lines, drafted or not. Without
 * readers a step reads one atomic and does nothing else.
 */
#ifndef MOEFS_ENGINE_RUN_TRACING_H
#define MOEFS_ENGINE_RUN_TRACING_H

#include "engine/compute/step.h"
#include "engine/run/trace_ring.h"
#include "engine/json/text_out.h"

struct session;

enum { TRACE_NAME_BYTES = 1280 }; /* 255 bytes, each as four, and the folder before them */

struct trace_pick;

struct tracing {
	struct trace_ring ring;
	struct text_out lines; /* the run's thread's: those that are not in the ring yet */
};

/* What is to be shown of one session in the step at hand; the run's thread's. Zero-initialise. */
struct tracing_span {
	struct tracing *to;
	enum row_kind kind;
	uint32_t owner;
	char name[TRACE_NAME_BYTES];
	struct trace_pick *picks; /* [room]: `count` of them are not in the ring yet */
	size_t count, room;
	uint64_t missed; /* lines for which there was no memory */
};

void tracing_init(struct tracing *t);
void tracing_free(struct tracing *t);
void tracing_span_free(struct tracing_span *t);
/* Around the forward pass of a session's step. */
void tracing_begin(struct tracing_span *t, struct session *s, enum row_kind kind);
void tracing_end(struct session *s);
/* After an answer's step. stood: how many of its drafts were accepted. */
void tracing_settle(struct tracing_span *t, uint32_t stood);

#endif
