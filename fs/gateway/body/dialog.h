/* Builds a conversation's messages, as messages.json holds them, from the pieces of a request. What
 * one speaker says in several messages or blocks becomes one message: many templates want speakers
 * to take turns. */
#ifndef MOEFS_FS_GATEWAY_BODY_DIALOG_H
#define MOEFS_FS_GATEWAY_BODY_DIALOG_H

#include "fs/base/text.h"

#include <json-c/json.h>
#include <regex.h>

struct dialog {
	json_object *list; /* the finished messages; owned */
	/* The message that is being built: */
	const char *role; /* NULL: there is none */
	struct text said, thought;
	json_object *calls; /* owned */
	/* Many templates take a system message only at the beginning: later ones become the
	 * user's. */
	bool system_first;
	bool failed; /* out of memory */
};

/* Zero-initialised memory is an empty list. */
void dialog_free(struct dialog *t);
/* role: system, user or assistant. `between` separates the text from what the same speaker said
 * before. */
void dialog_say(struct dialog *t, const char *role, const char *text, size_t n,
		const char *between);
void dialog_think(struct dialog *t, const char *text, size_t n);
/* The arguments are an object, or its JSON as a string; borrowed. */
void dialog_call(struct dialog *t, const char *id, const char *name, json_object *arguments);
void dialog_result(struct dialog *t, const char *id, const char *text, size_t n);
/* Appends the messages of an earlier request (borrowed). */
void dialog_append(struct dialog *t, json_object *list);
/* Ends the last message. The list is the caller's; NULL: out of memory. */
json_object *dialog_take(struct dialog *t);

/* A string (borrowed) without the lines that match `ignored`; if that is NULL, another reference
 * to the string. NULL: out of memory. */
json_object *dialog_drop_lines(json_object *string, const regex_t *ignored);

#endif
