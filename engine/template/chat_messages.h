/* A conversation as a list of messages: reading, writing, and the form that templates receive. */
#ifndef MOEFS_ENGINE_TEMPLATE_CHAT_MESSAGES_H
#define MOEFS_ENGINE_TEMPLATE_CHAT_MESSAGES_H

#include "engine/answer/split_calls.h"

/* A conversation as a list of messages, as in messages.json:
 *
 *     {"role": "system" | "developer" | "user" | "assistant" | "tool",
 *      "content": a text, null, or a list of {"type": "text", "text": ...},
 *      "thinking": a text, of assistants only (reasoning_content is the same),
 *      "tool_calls": [{"id", "type", "function": {"name", "arguments"}}], of assistants only,
 *      "tool_call_id", "name": texts}
 *
 * A list is read whole or not at all, and what is written reads back the same. Writers are not
 * trusted: sizes and counts are bounded, and a refusal names the message and the key. */

enum { MESSAGES_MAX = 65536, MESSAGES_BYTES_MAX = 64 << 20, MESSAGE_CALLS_MAX = CALLS_MAX };

struct message {
	char *json; /* the message on one line; owned */
	size_t n;
	const char *role; /* the role in `json`; static */
};
struct messages { /* zero-initialise; freed by messages_free */
	struct message *items;
	size_t count, room;
};
void messages_free(struct messages *m);
/* Removes all but the first `count`. */
void messages_cut(struct messages *m, size_t count);

/* Replaces the list by one in JSON; an error changes nothing. -EINVAL: what is wrong, and where;
 * -EFBIG; -ENOMEM. */
int messages_read(struct messages *m, const char *text, size_t n, struct err *e);
/* Appends the list as JSON, one message per line, and a newline. */
void messages_write(const struct messages *m, struct text_out *out);

/* Appends a message of a role (static) and a text (valid UTF-8). */
int messages_add(struct messages *m, const char *role, const char *text, size_t n, struct err *e);
/* Appends an answer that was split. Calls keep the ids that the model gave them; others get one
 * from the turn. */
int messages_add_answer(struct messages *m, const char *content, size_t n, const char *thoughts,
			size_t thoughts_n, const struct calls *calls, uint32_t turn, struct err *e);
/* Writes the calls as in that message, as a list on one line. */
void messages_write_calls(struct text_out *out, const struct calls *calls, uint32_t turn);
/* A call's id: nine alphanumerics, as some templates insist, from turn and place. The first
 * CALL_ID_TURN come from the turn, of CALL_TURNS. */
enum { CALL_ID = 9, CALL_ID_TURN = 6, CALL_TURNS = 36 * 36 * 36 * 36 * 36 };
void message_call_id(char id[CALL_ID + 1], uint32_t turn, size_t place);
/* Appends a tool's result for a call. */
int messages_add_result(struct messages *m, const char *call_id, size_t call_id_n, const char *text,
			size_t n, struct err *e);

/* Appends the text of a message's content, a string or a list of parts. */
void message_join(const struct json *content, struct text_out *out);
/* Writes the list as templates receive it: content is one text, missing content is "", arguments
 * are objects, thinking has the names that templates know. */
void messages_for_template(const struct messages *m, struct text_out *out);

/* Checks tools.json: a list of {"type": "function", "function": {"name", ...}}. */
int message_check_tools(const struct json *tools, struct err *e);

/* Editing a list of messages in memory: copying, inserting, leaving out; and looking at one. */

/* Replaces `to` by a copy of `from`. -ENOMEM leaves it empty. */
int messages_copy(struct messages *to, const struct messages *from, struct err *e);
/* Moves the messages from index `first` on to the end of another list. -ENOMEM changes nothing. */
int messages_move(struct messages *to, struct messages *from, size_t first, struct err *e);
/* Removes `count` messages from `at` on. */
void messages_remove(struct messages *m, size_t at, size_t count);
/* messages_add at the front. */
int messages_add_first(struct messages *m, const char *role, const char *text, size_t n,
		       struct err *e);

bool message_is(const struct message *m, const char *role);
/* The content as one malloc'ed text of *n bytes and a NUL; NULL: out of memory. */
char *message_text(const struct message *m, size_t *n);

#endif
