/* The end of a turn: its answer becomes a message, or the turn's changes are undone. */
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
	const struct err *e; /* the error, if failed */
	bool begun, chat;    /* the turn had begun to answer; the answer becomes a message */
	const uint32_t *ids; /* [count]: the answer's, including an answer that it continued */
	size_t count;
};
/* Afterwards the session has no turn in progress. The caller frees the turn. */
void ending_apply(struct session *s, const struct ending *x);

#endif
