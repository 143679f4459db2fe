/* The end of a turn in its session: its answer becomes a message, or the turn was never there. */
#ifndef MOEFS_ENGINE_SESSION_ENDING_H
#define MOEFS_ENGINE_SESSION_ENDING_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

struct ending {
	const char *finish;  /* a word of session_stats */
	int failed;	     /* 0 or a negative errno */
	const struct err *e; /* its sentence */
	bool begun, chat;    /* the turn had begun to answer; its answer is a message */
	const uint32_t *ids; /* [count]: the answer, with what it continued */
	size_t count;
};
/* The session is at rest then, but for its turn, which is the caller's to free. */
void ending_apply(struct session *s, const struct ending *x);

#endif
