/* Text that is written and not submitted yet, which handles of prompt, questions and assembled
 * params collect, and what workers make of it: how much of it there may be at once.
 *
 * The bound. Each text is bounded by max_prompt_bytes, but not how many there are, and with
 * allow_other they are other users'. What all of them may take is a quarter of the contexts'
 * budget: a token is a few bytes of text and hundreds to a hundred thousand in a context, so text
 * beyond that could never be computed beside what is there, and who needs more has an option for
 * it (-o context_budget=); but never more than a sixteenth of the memory there is, which that
 * option need not heed. Half of it is the mount's owner's, whatever others write; of the others
 * none gets more than a quarter of all. However small that is, each of them can write the longest
 * prompt: eight times its length are allowed in any case, since a text that grows takes up to twice
 * its length. What is counted is the memory taken, not the length.
 *
 * The loop's, as everything in mount.h. */
#ifndef MOEFS_FS_UNSUBMITTED_H
#define MOEFS_FS_UNSUBMITTED_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct handle;

struct unsubmitted {
	struct unsubmitted_user {
		uid_t uid;
		uint64_t bytes; /* not 0 */
	} * users;
	size_t count, capacity;
};

/* Appends to h->written, or puts there at offset (zeros before it where the text was shorter).
 * -ENOSPC beyond the bound and -ENOMEM, in words, and then nothing of the text is kept. */
int unsubmitted_add(struct handle *h, const void *data, size_t size, struct err *e);
int unsubmitted_put(struct handle *h, size_t offset, const void *data, size_t size, struct err *e);
/* Counts so many bytes for the handle instead of its text, which is gone: what was made of it waits
 * to be read. -ENOSPC and -ENOMEM likewise, and then nothing is counted. */
int unsubmitted_count(struct handle *h, uint64_t bytes, struct err *e);
/* Frees h->written: it has been submitted, or never will be. */
void unsubmitted_drop(struct handle *h);

#endif
