/* Tool calls as they are taken out of an answer, and those that are written as JSON. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_CALLS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_CALLS_H

#include "engine/answer/split_scan.h"

#include "engine/json/text_out.h"

enum { CALLS_MAX = 1024, CALL_ID_MAX = 256 };

struct call {
	char *name; /* owned, NUL-terminated, and so is what follows */
	size_t name_n;
	char *arguments; /* a JSON object */
	size_t arguments_n;
	char *id; /* as the model wrote it; NULL where it wrote none, or one that came before */
	size_t id_n;
};
struct calls { /* zero-initialise; freed by calls_free */
	struct call *items;
	size_t count, room;
	bool failed; /* memory was out */
};
void calls_free(struct calls *c);
/* Forgets those behind the first `count`. */
void calls_cut(struct calls *c, size_t count);
/* Appends a call and takes its texts over. False: there are CALLS_MAX. */
bool calls_append(struct calls *c, struct text_out *name, struct text_out *arguments);
/* Gives the last one an id, unless it is too long or another has it. */
void calls_give_id(struct calls *c, const char *id, size_t n);
/* Whether an id is what Mistral's templates take: nine letters and digits. */
bool call_is_short_id(const char *id, size_t n);

/* What an argument that was written as bare text means, by the tool's schema. */

/* The "properties" of the parameters of a tool by this name; NULL: none. *known: whether there is
 * such a tool. */
const struct json *calls_tool_properties(const struct json *tools, const char *name, size_t n,
					 bool *known);
/* The schema of a property; NULL: none. */
const struct json *calls_property_schema(const struct json *properties, const char *key, size_t n);
/* Writes the value as JSON of the first of the schema's types that accepts it; else as a text. */
void calls_write_by_schema(struct text_out *o, const char *value, size_t n,
			   const struct json *schema);

/* The arguments of a call that come one by one, each typed by the tool's schema. */

struct argument {
	const char *key;
	size_t key_n;
	struct text_out value; /* JSON */
};
struct arguments { /* zero-initialise; freed by call_arguments_free */
	const struct json *properties;
	struct argument *items;
	size_t count, room;
	bool failed; /* memory was out */
};
void call_arguments_free(struct arguments *a);
bool call_arguments_have(const struct arguments *a, const char *key, size_t n);
/* A place for the value of a key (borrowed), empty, to be written to as JSON; one that the key had
 * is forgotten. Borrowed until the next. NULL: out of memory, which is noted. */
struct text_out *call_arguments_add(struct arguments *a, const char *key, size_t n);
/* Appends the call that has them; false: there are CALLS_MAX. */
bool call_arguments_append(struct arguments *a, const char *name, size_t n, struct calls *calls);

/* Whether all of it may be a function's name: no white space, no bracket, no quote. */
bool call_is_name(const char *name, size_t n);

#endif
