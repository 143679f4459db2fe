/* A file system served by another process and used by this one: writes a prompt, reads its answer,
 * and measures each token's way to its reader. */
#ifndef MOEFS_TESTS_BENCH_FILES_ASKED_H
#define MOEFS_TESTS_BENCH_FILES_ASKED_H

#include "tests/bench/bench.h"
#include "tests/bench/files.h"

#include <stdio.h>
#include <sys/types.h>

enum { ASKS_MOST = 1000, DELAYS_MOST = 1 << 18 };

struct measured {
	double first[ASKS_MOST]; /* µs, without what the engine took */
	size_t firsts;
	double *delay; /* [DELAYS_MOST], µs, of tokens */
	size_t delays;
};

struct mounted {
	const char *model, *store;
	struct notes *notes;
	char folder[64], where[80], inside[96]; /* where prompt and output are */
	pid_t server;
};

/* A folder to mount on. mounted_free on every way, with what is zero fine. */
int mounted_create(struct mounted *a, struct err *e);
void mounted_free(struct mounted *a);
/* Serves the tree of a->model, or the bare echo, until mounted_end. */
int mounted_begin(struct mounted *a, bool tree, struct err *e);
void mounted_end(struct mounted *a);

/* Files by their names in a->inside. */
int mounted_open(const struct mounted *a, const char *name, int flags, struct err *e);
int mounted_put(const struct mounted *a, const char *name, const char *text, struct err *e);
/* Limits answers to a number of tokens and makes them deterministic. */
int mounted_short(const struct mounted *a, uint64_t tokens, struct err *e);

struct reads {
	size_t count;
	uint64_t bytes[NOTES_MOST], at_ns[NOTES_MOST]; /* read so far, and when that came back */
};
void reads_add(struct reads *r, uint64_t bytes, uint64_t at_ns);
/* To its end, piece by piece as they come. */
int mounted_read(const struct mounted *a, const char *name, struct reads *r, struct err *e);
/* An answer that was begun at `from` and whose notes are whole. */
void measured_add(struct measured *m, const struct notes *notes, const struct reads *r,
		  uint64_t from);
int measured_create(struct measured *m, struct err *e);
void measured_free(struct measured *m);
/* Median, 5th and 95th percentile: single hiccups of the machine do not count. Sorts. */
struct summary measured_spread(double *values, size_t n);
/* What a table has of each: its name, its first bytes, its tokens. */
#define MEASURED_COLUMNS                                                        \
	{"what", "what", -1}, {"first", "first byte, us beyond the engine", 0}, \
		{"token", "a token to its reader, us", 0},                      \
	{                                                                       \
		"tokens", "tokens", 0                                           \
	}
void measured_tell(struct measured *m, const char *name, struct table *t);

#endif
