/* Messages put together from the pieces that a request brings them in: what one speaker says in
 * several messages or blocks becomes one message, since many templates take speakers only in turn.
 */
#ifndef MOEFS_FS_GATEWAY_BODY_DIALOG_H
#define MOEFS_FS_GATEWAY_BODY_DIALOG_H

#include "fs/base/text.h"

#include <json-c/json.h>

struct dialog {
	json_object *list; /* owned; the finished ones */
	const char *role;  /* of the one that is put together; NULL: none */
	struct text said, thought;
	json_object *calls; /* owned */
	/* The template has a system's message only at the beginning: later ones are the user's. */
	bool system_first;
	bool failed; /* out of memory */
};

/* Zero-initialised memory is an empty list. */
void dialog_free(struct dialog *t);
/* Roles: system, user, assistant. Behind what that speaker said before, with `between`. */
void dialog_say(struct dialog *t, const char *role, const char *text, size_t n,
		const char *between);
void dialog_think(struct dialog *t, const char *text, size_t n);
/* The arguments are an object, or the text of one; borrowed. */
void dialog_call(struct dialog *t, const char *id, const char *name, json_object *arguments);
void dialog_result(struct dialog *t, const char *id, const char *text, size_t n);
/* Behind all that the list has (borrowed): messages of an earlier request. */
void dialog_append(struct dialog *t, json_object *list);
/* The list, which is the caller's; NULL: out of memory. */
json_object *dialog_take(struct dialog *t);

#endif
