/* Lists of tool calls that were found in an answer, and the arguments of a call, typed by the
 * tool's schema. Not here: reading calls (split_json.c, split_tags.c, split_python.c). */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_CALLS_H
#define MOEFS_ENGINE_ANSWER_SPLIT_CALLS_H

#include "engine/answer/split_scan.h"

#include "engine/json/text_out.h"

enum { CALLS_MAX = 1024, CALL_ID_MAX = 256 };

struct call {
	char *name; /* owned and NUL-terminated, as are the other texts */
	size_t name_n;
	char *arguments; /* a JSON object */
	size_t arguments_n;
	char *id; /* as the model wrote it; NULL: none, or an id that an earlier call has */
	size_t id_n;
};
struct calls { /* zero-initialise; freed by calls_free */
	struct call *items;
	size_t count, room;
	bool failed; /* out of memory */
};
void calls_free(struct calls *c);
/* Removes all but the first `count` calls. */
void calls_cut(struct calls *c, size_t count);
/* Appends a call and takes over both texts. False: the list has CALLS_MAX calls. */
bool calls_append(struct calls *c, struct text_out *name, struct text_out *arguments);
/* Appends a call whose arguments are written as a JSON object. False: the object is not JSON, or
 * the list has CALLS_MAX calls. */
bool calls_append_object(struct calls *c, const char *name, size_t n, const char *object,
			 size_t object_n);
/* The bytes of "functions." before a name, which some families write; 0: none. */
size_t call_kind_length(const char *name, size_t n);
/* Gives the last call an id, unless the id has more than CALL_ID_MAX bytes or an earlier call has
 * it. */
void calls_give_id(struct calls *c, const char *id, size_t n);
/* Whether an id has the form that Mistral's templates require: nine letters and digits. */
bool call_is_short_id(const char *id, size_t n);

/* ---- arguments that were written as plain text, typed by the tool's schema ---- */

/* The object that describes a tool of the request: of {"type": "function", "function": {...}} the
 * inner one, which may also be given alone. */
const struct json *call_tool_function(const struct json *tool);
/* The "properties" of a tool's parameters; NULL: none. *known: whether a tool has this name. */
const struct json *calls_tool_properties(const struct json *tools, const char *name, size_t n,
					 bool *known);
/* The schema of a property; NULL: none. */
const struct json *calls_property_schema(const struct json *properties, const char *key, size_t n);
/* Writes value[n] as JSON, in the first of the schema's types that accepts the value; as a string
 * if none does. */
void calls_write_by_schema(struct text_out *o, const char *value, size_t n,
			   const struct json *schema);

/* ---- arguments of a call, collected one by one ---- */

struct argument {
	const char *key;
	size_t key_n;
	struct text_out value; /* JSON */
};
struct arguments { /* zero-initialise; freed by call_arguments_free */
	const struct json *properties;
	struct argument *items;
	size_t count, room;
	bool failed; /* out of memory */
};
void call_arguments_free(struct arguments *a);
bool call_arguments_have(const struct arguments *a, const char *key, size_t n);
/* Adds an argument and returns its empty value, to which the caller writes JSON. An earlier value
 * of the same key is removed. `key` is borrowed; the result is borrowed until the next call. NULL:
 * out of memory, and `failed` is set. */
struct text_out *call_arguments_add(struct arguments *a, const char *key, size_t n);
/* Appends the call `name` with these arguments. False: the list has CALLS_MAX calls. */
bool call_arguments_append(struct arguments *a, const char *name, size_t n, struct calls *calls);

/* Whether name[n] can be the name of a function: no white space, bracket or quote. */
bool call_is_name(const char *name, size_t n);

#endif
