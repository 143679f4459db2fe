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
/* One of lines, or of any text that is given as it was appended: no newline is held back or added,
 * and it may be empty. It has neither thoughts nor log-probabilities. */
struct answer *answer_create_lines(bool stream);
/* Appends text. Newlines at the live end are held back until something follows, since a complete
 * answer ends in exactly one. Returns how many bytes became readable, or -ENOMEM. */
ssize_t answer_append(struct answer *a, const char *text, size_t bytes);
/* Completes it, and what came with it before: code 0 ends the text with its newline, which thoughts
 * have only where there are any; a negative errno fails it after the text so far. Only the first
 * call counts. */
void answer_finish(struct answer *a, int code);

/* Appends to its thoughts; completes them. As the two above. */
int answer_think(struct answer *a, const char *text, size_t bytes);
void answer_thought(struct answer *a);

#endif
