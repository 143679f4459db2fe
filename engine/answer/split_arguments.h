/* The arguments of a call that come one by one, each typed by the tool's schema. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_ARGUMENTS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_ARGUMENTS_H

#include "engine/answer/split_calls.h"
#include "engine/answer/split_values.h"

struct argument {
	const char *key;
	size_t key_n;
	struct text_out value; /* JSON */
};
struct arguments { /* zero-initialise; freed by arguments_free */
	const struct json *properties;
	struct argument *items;
	size_t count, room;
	bool failed; /* memory was out */
};
void arguments_free(struct arguments *a);
bool arguments_have(const struct arguments *a, const char *key, size_t n);
/* A place for the value of a key (borrowed), empty, to be written to as JSON; one that the key had
 * is forgotten. Borrowed until the next. NULL: out of memory, which is noted. */
struct text_out *arguments_add(struct arguments *a, const char *key, size_t n);
/* Appends the call that has them; false: there are CALLS_MAX. */
bool arguments_call(struct arguments *a, const char *name, size_t n, struct calls *calls);

/* Whether all of it may be a function's name: no white space, no bracket, no quote. */
bool is_call_name(const char *name, size_t n);

#endif
