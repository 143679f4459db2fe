/* Helpers of files.c: two file systems, each served by its own process, and the times that this
 * process notes for each token. */
#ifndef MOEFS_TESTS_BENCH_FILES_H
#define MOEFS_TESTS_BENCH_FILES_H

#include "cache/err.h"

#include <stdatomic.h>
#include <stdint.h>

enum { NOTES_MOST = 4096 };

/* In memory that both processes share. An answer's notes are whole once its reader has read it to
 * the end; the reader then sets count to 0 for the next. */
struct notes {
	_Atomic uint32_t count;
	_Atomic uint64_t engine_ns; /* from a prompt's submission to its answer's first byte */
	struct {
		uint64_t bytes; /* of the answer, from here on */
		uint64_t at_ns; /* CLOCK_MONOTONIC */
	} note[NOTES_MOST];
};
void notes_add(struct notes *n, uint64_t bytes);
void notes_clear(struct notes *n);

/* Each serves `where` until SIGTERM, and writes a byte to `started` once that answers. What it
 * shows is prompt and output: in the folder itself, or in that of the model. */
int echo_serve(const char *where, struct notes *notes, int started, struct err *e);
int tree_serve(const char *model, const char *store, const char *where, struct notes *notes,
	       int started, struct err *e);

#endif
