/* Remembered answers: answers on disk that are reused without computing (-o remember=DIR).
 *
 * Each answer is one text file, readable with cat: first the question and the answer, then the data
 * that a turn needs to give the answer again, and last the key, which lists everything that the
 * answer depends on. engine/turn/recall.h makes the key. The file's name is a hash of the key, but
 * a file is used only if its key is equal byte for byte and its checksum is right.
 *
 *     DIR/1000/0123456789abcdef0123456789abcdef    of user 1000; DIR/all with -o share=all
 *
 * Folders have mode 0700, files 0600. Links are not followed. Damaged files and files of other
 * users are ignored. A file is written under a temporary name and renamed. DIR has a limit in
 * bytes; above it, the least recently used files (by modification time) are removed. A failure here
 * never fails a turn.
 *
 * Threads: any thread may call any function. Finding and writing block for the disk.
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
	REMEMBER_QUESTION, /* this and the next three: for people to read */
	REMEMBER_ANSWER,   /* for choices: also the chosen candidate */
	REMEMBER_THOUGHTS,
	REMEMBER_CALLS,
	REMEMBER_FINISH, /* a word of session_stats */
	REMEMBER_TOKENS, /* number of sampled tokens */
	REMEMBER_IDS,	 /* ids of the answer, after those in the key */
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

/* Makes the folder if it is missing, and counts the bytes in it. most: limit in bytes. all: users
 * share answers. Errors: not a folder, owned by another user, or not writable. */
int remember_open(struct remember **out, const char *folder, uint64_t most, bool all,
		  struct err *e);
/* Writes the answers that wait. NULL is fine. */
void remember_close(struct remember *r);

/* Fills the parts of an empty x from the file of this owner and key; false: there is no such file.
 */
bool remember_find(struct remember *r, uint32_t owner, const struct text_out *key,
		   struct remember_entry *x);
/* Queues x for writing and empties it. If too many bytes wait already, x is dropped. */
void remember_put(struct remember *r, struct remember_entry *x);
/* remember_waits: whether answers wait to be written. remember_write writes them. */
bool remember_waits(struct remember *r);
void remember_write(struct remember *r);

/* The limit and the used bytes. remember_failure: why the last answer was not written; code 0: it
 * was. */
uint64_t remember_most(const struct remember *r);
uint64_t remember_used(struct remember *r);
void remember_failure(struct remember *r, struct err *e);

#endif
