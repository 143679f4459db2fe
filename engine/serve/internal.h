/* A model, by who owns what of it. Each part's header says who may touch it:
 *
 *     model_identity.h   what was mounted        stays as it is: anybody reads it
 *     model_store.h      its weights on disk     the generation thread's; others hold it to look
 *     model_run.h        what it computes with   the generation thread's
 *     wishes.h           what users want pinned  anybody's, under its lock
 *     schedule.h         whose turn it is        anybody's, under its lock
 *     model_tensors.h    its published tensors   anybody's, once the list is made
 *     refine.h           its store made better   its thread's, or model_refine's caller's
 *     tracing.h          what its tokens pass    the generation thread's; its ring anybody's
 *
 * Besides: engine_state.h, what all models share; session_state.h and turn.h, a conversation and
 * its turn in progress.
 *
 * Locks, in the order in which they may be taken:
 *     schedule.notify   held while `changed` is called, so that session_end can wait for the call
 *     a restored's lock inside its own functions (state_restore.c), which take the next
 *     schedule.lock     every field marked (lock) of the schedule and of the sessions
 *     run.opening       read and written, under none, while the tokenizer is opened
 *     budgets' lock     inside its own functions, which take the pager's
 *     converter's lock, pager's lock, answer's lock, the trace ring's   inside their own
 *                       functions; under the last `told` is called
 *     wishes.lock       while experts are asked for, and while the pager gets a source with them
 *     run.looking       read, under any other, while somebody looks at the experts in memory;
 *                       written, under none but wishes.lock, when these come and go: a model may
 *                       be loaded anew
 *     stored.lock       the same of the complete store and its plan
 *     tensors.opening   while the list of tensors is made; nothing is taken under it
 * The generation thread computes without any of them: the fields marked (turn) belong to it while
 * session.stepping is set and the session is not queued, to the holder of the lock else.
 */
#ifndef MOEFS_ENGINE_SERVE_INTERNAL_H
#define MOEFS_ENGINE_SERVE_INTERNAL_H

#include "engine/serve/engine_state.h"
#include "engine/serve/model_identity.h"
#include "engine/serve/model_run.h"
#include "engine/serve/model_store.h"
#include "engine/serve/model_tensors.h"
#include "engine/serve/refine.h"
#include "engine/serve/schedule.h"
#include "engine/serve/tracing.h"
#include "engine/serve/wishes.h"

struct model {
	struct engine *engine;
	struct model_identity id;
	struct model_store stored;
	struct model_run run;
	struct schedule schedule;
	struct model_tensors tensors;
	struct tracing tracing;
	struct wishes wishes;
	struct refining refining;
};

/* model.c: where its template comes from, or why it has none; once the tokenizer is loaded. As
 * snprintf. */
int model_template_words(const struct model *m, char *text, size_t size);

/* ends.c: whether a token ends an answer; chat: a conversation's. */
bool model_ends(const struct model *m, bool chat, uint32_t id);

#endif
