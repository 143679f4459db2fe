/* Files that are asked: ask, score, tokenizer/encode and decode. Opened to read and write, each
 * open file is a question and its answer of its own: write the question, read the answer; the first
 * read submits. After the answer's end a write begins the next question, before it it is EBUSY.
 *
 * What is a kind's own is a struct question, which the row of the tree names: how much it takes,
 * and who answers. That is a session of its own, which ends with the file, or a worker. */
#ifndef MOEFS_FS_QUESTION_H
#define MOEFS_FS_QUESTION_H

#include "fs/base/workers.h"
#include "fs/mount/handle.h"

#include <stdatomic.h>

struct question {
	/* To a file opened to read and write; NULL: nothing is to be done. */
	int (*open)(struct handle *h, struct err *e);
	uint64_t (*most)(const struct handle *h); /* bytes of a question */
	const char *why; /* no more, for a sentence: "do not fit into …" */
	/* Of h->written, which is not empty: makes h->answer, which may have to grow, or h->task.
	 */
	int (*submit)(struct handle *h, struct err *e);
};

/* A conversation of the handle's own, which question_ops ends with it; for open. */
int question_session(struct handle *h, struct err *e);

/* What a worker does for a handle: makes the answer to its question. */
struct task {
	struct job job;
	struct model *model;
	struct text text; /* the question */
	struct answer *(*answer)(struct model *m, const char *text, size_t length,
				 const _Atomic bool *stop, struct err *e);
	struct err why;
	/* The loop's: */
	struct handle *handle; /* NULL: it was closed meanwhile */
	struct answer *made;
	_Atomic bool stop; /* nobody waits for it any more */
};

/* Hands the handle's question to a worker; for submit. -ENOMEM. */
int question_work(struct handle *h,
		  struct answer *(*answer)(struct model *m, const char *text, size_t length,
					   const _Atomic bool *stop, struct err *e),
		  struct err *e);
/* The mount ends: whoever waits for a task is woken, and it stops. */
void question_give_up(struct handle *h);

#endif
