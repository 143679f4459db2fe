/* Builds a conversation's messages, in the form of messages.json, from the pieces of a request. All
 * text of one speaker in successive messages or blocks becomes one message, since many templates
 * require that speakers take turns. */
#ifndef MOEFS_FS_GATEWAY_BODY_DIALOG_H
#define MOEFS_FS_GATEWAY_BODY_DIALOG_H

#include "fs/base/text.h"

#include <json-c/json.h>
#include <regex.h>

struct dialog {
	json_object *list; /* the finished messages; owned */
	/* The message being built: */
	const char *role; /* NULL: no message is being built */
	struct text said, thought;
	json_object *calls; /* owned */
	/* Many templates accept a system message only at the beginning: later ones become the
	 * user's. */
	bool system_first;
	bool failed; /* out of memory */
};

/* Zero-initialised memory is an empty list. */
void dialog_free(struct dialog *t);
/* role: system, user or assistant. `between` separates the text from earlier text of the same
 * speaker. */
void dialog_say(struct dialog *t, const char *role, const char *text, size_t n,
		const char *between);
void dialog_think(struct dialog *t, const char *text, size_t n);
/* arguments: an object, or its JSON as a string; borrowed. */
void dialog_call(struct dialog *t, const char *id, const char *name, json_object *arguments);
void dialog_result(struct dialog *t, const char *id, const char *text, size_t n);
/* Appends the messages of an earlier request (borrowed). */
void dialog_append(struct dialog *t, json_object *list);
/* Ends the last message and returns the list, which the caller then owns. NULL: out of memory. */
json_object *dialog_take(struct dialog *t);

/* Returns a string (borrowed) without the lines that match `ignored`. If `ignored` is NULL, returns
 * another reference to the string. NULL: out of memory. */
json_object *dialog_drop_lines(json_object *string, const regex_t *ignored);

#endif
