/* Writes the lines of experts/trace: one for each token and layer with experts, with the experts
 * that the router picked.
 *
 * The lines of a prompt's step are written layer by layer while the step is computed. The lines of
 * an answer are written when its drafts are verified, so every token of the answer has its lines,
 * drafted or not. If there is no reader, a step only reads one atomic.
 */
#ifndef MOEFS_ENGINE_RUN_TRACING_H
#define MOEFS_ENGINE_RUN_TRACING_H

#include "engine/compute/step.h"
#include "engine/run/trace_ring.h"
#include "engine/json/text_out.h"

struct session;

enum { TRACE_NAME_BYTES = 1280 }; /* 255 bytes, each written as four, and the folder's name */

struct trace_pick;

struct tracing {
	struct trace_ring ring;
	struct text_out lines; /* for the run's thread: lines that are not in the ring yet */
};

/* The trace of one session's current step. For the run's thread. Zero-initialise. */
struct tracing_span {
	struct tracing *to;
	enum row_kind kind;
	uint32_t owner;
	char name[TRACE_NAME_BYTES];
	struct trace_pick *picks; /* [room]: the first `count` are not in the ring yet */
	size_t count, room;
	uint64_t missed; /* lines lost because memory ran out */
};

void tracing_init(struct tracing *t);
void tracing_free(struct tracing *t);
void tracing_span_free(struct tracing_span *t);
/* Call these before and after the forward pass of a session's step. */
void tracing_begin(struct tracing_span *t, struct session *s, enum row_kind kind);
void tracing_end(struct session *s);
/* Call this after an answer's step. stood: how many drafts were accepted. */
void tracing_settle(struct tracing_span *t, uint32_t stood);

#endif
