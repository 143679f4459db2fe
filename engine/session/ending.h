/* The end of a turn: its answer becomes a message, or the session is as it was before the turn. */
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
/* Afterwards the session is at rest. The caller frees its turn. */
void ending_apply(struct session *s, const struct ending *x);

#endif
