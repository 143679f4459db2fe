/* How a turn writes an answer. session.h says how to read one.
 *
 * Each answer has its own lock. It is the innermost lock of the engine: no other is taken under it.
 */
#ifndef MOEFS_ENGINE_SESSION_ANSWER_H
#define MOEFS_ENGINE_SESSION_ANSWER_H

#include "engine/session.h"

/* NULL: out of memory. Creates the answer of a turn, with its thoughts and log-probabilities, which
 * it owns. stream: the text can be read while it grows. Otherwise it can be read only when it is
 * complete, so that a reader gets it in as few pieces as possible. */
struct answer *answer_create(bool stream);
/* Creates an answer that is read exactly as it was appended: no newline is held back or added, and
 * it may be empty. It has neither thoughts nor log-probabilities. */
struct answer *answer_create_lines(bool stream);
/* Appends text. Newlines at the end are held back until more text follows, since a complete answer
 * ends in exactly one. Returns how many bytes became readable, or -ENOMEM. */
ssize_t answer_append(struct answer *a, const char *text, size_t bytes);
/* Completes the answer, its thoughts and its log-probabilities. Code 0: ends the text with a
 * newline (empty thoughts stay empty). A negative errno: the answer fails after the text so far.
 * Only the first call counts. */
void answer_finish(struct answer *a, int code);

/* The same for its thoughts: answer_think appends, answer_thought completes. */
int answer_think(struct answer *a, const char *text, size_t bytes);
void answer_thought(struct answer *a);

#endif
