/* A client of moefs-http that streams chats over one connection, and the server beside it. Of HTTP
 * it knows what moefs-http says: chunks of events, each a line. */
#ifndef MOEFS_TESTS_BENCH_HTTP_STREAM_H
#define MOEFS_TESTS_BENCH_HTTP_STREAM_H

#include "tests/bench/files_asked.h"

struct gateway_process {
	pid_t pid;
	int port;
};
/* program: NULL: beside this one. It ends with gateway_end, 0 is fine. */
int gateway_begin(struct gateway_process *s, const char *program, const char *tree, struct err *e);
void gateway_end(struct gateway_process *s);

/* A connection. */
int gateway_connect(const struct gateway_process *s, struct err *e);
/* Asks the model for an answer of so many tokens, at most, and reads it to its end. r: the bytes of
 * text, as they came. */
int gateway_ask(int connection, const char *model, const char *question, uint64_t tokens,
		struct reads *r, struct err *e);

#endif
