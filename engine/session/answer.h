/* Answers from the inside: how a turn writes one (session.h says how it is read).
 *
 * An answer has a lock of its own, the innermost of the engine's: nothing is taken under it. */
#ifndef MOEFS_ENGINE_SESSION_ANSWER_H
#define MOEFS_ENGINE_SESSION_ANSWER_H

#include "engine/session.h"

/* NULL: out of memory. stream: the text can be read while it grows. Otherwise it can be read when
 * it is complete, so that a reader gets it in as few pieces as the buffer allows. The answer owns
 * its thoughts and log-probabilities. */
struct answer *answer_create(bool stream);
/* An answer that is read exactly as it was appended: no newline is held back or added, and it may
 * be empty. It has neither thoughts nor log-probabilities. */
struct answer *answer_create_lines(bool stream);
/* Appends text. Newlines at the live end are held back until something follows, since a complete
 * answer ends in exactly one. Returns how many bytes became readable, or -ENOMEM. */
ssize_t answer_append(struct answer *a, const char *text, size_t bytes);
/* Completes the answer, its thoughts and its log-probabilities. Code 0: ends the text with a
 * newline (empty thoughts stay empty). A negative errno: the answer fails after the text so far.
 * Only the first call counts. */
void answer_finish(struct answer *a, int code);

/* The same for its thoughts: appends, completes. */
int answer_think(struct answer *a, const char *text, size_t bytes);
void answer_thought(struct answer *a);

#endif
