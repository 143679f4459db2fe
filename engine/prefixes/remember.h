/* Answers on disk, which are given again without computing (-o remember=DIR).
 *
 * An answer is one plain file, to be read with cat: the question and the answer first, then what a
 * turn needs to give it again, and last the key: everything that the answer depends on, in words.
 * engine/turn/recall.h makes the key. The file's name is a hash of the key, but a file counts
 * only if its key is the same byte for byte, and a checksum says that nothing else has changed.
 *
 *     DIR/1000/0123456789abcdef0123456789abcdef    of user 1000; DIR/all with -o share=all
 *
 * Folders are 0700, files 0600. Links are not followed, and what belongs to another user than the
 * process is ignored, as is what is damaged. A file is written under another name and renamed.
 * All of DIR takes at most a number of bytes: then the files that were used longest ago (by their
 * modification time) are removed. No failure here is a turn's.
 *
 * Threads: any may call any function. Finding and writing block for the disk.
 */
#ifndef MOEFS_ENGINE_PREFIXES_REMEMBER_H
#define MOEFS_ENGINE_PREFIXES_REMEMBER_H

#include "cache/err.h"
#include "engine/json/text_out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct remember;

enum remember_part {
	REMEMBER_QUESTION, /* this and the next three: for people */
	REMEMBER_ANSWER,   /* of choices also the one that was taken */
	REMEMBER_THOUGHTS,
	REMEMBER_CALLS,
	REMEMBER_FINISH, /* a word of session_stats */
	REMEMBER_TOKENS, /* how many were drawn */
	REMEMBER_IDS,	 /* of the answer, behind those of the key */
	REMEMBER_LOGPROBS,
	REMEMBER_CHOICES, /* choices.tsv */
	REMEMBER_KEY,
	REMEMBER_PARTS,
};
struct remember_entry { /* zero-initialise; freed by remember_entry_free */
	uint32_t owner;
	struct text_out parts[REMEMBER_PARTS];
};
void remember_entry_free(struct remember_entry *x);

/* Makes the folder, unless it is there, and looks how much is in it. most: bytes. all: users share.
 * In words: it is no folder, belongs to another user, or cannot be written. */
int remember_open(struct remember **out, const char *folder, uint64_t most, bool all,
		  struct err *e);
/* Writes what waits. NULL is fine. */
void remember_close(struct remember *r);

/* Fills the parts of an empty x from the file of this owner and key; false: there is none. */
bool remember_find(struct remember *r, uint32_t owner, const struct text_out *key,
		   struct remember_entry *x);
/* Takes x, which is empty then, to be written. If too much waits already, x is forgotten. */
void remember_put(struct remember *r, struct remember_entry *x);
/* Whether something waits; writes all of it. */
bool remember_waits(struct remember *r);
void remember_write(struct remember *r);

/* Bytes that it may take, and takes; why the last one was not written, empty if it was. */
uint64_t remember_most(const struct remember *r);
uint64_t remember_used(struct remember *r);
void remember_failure(struct remember *r, struct err *e);

#endif
