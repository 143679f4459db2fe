/* The conversation of a session: its messages, and the other inputs of the chat template.
 *
 * The run's lock protects a session's dialogue. While a turn runs, only the turn writes it, with
 * the lock held, so the run's thread may read it without the lock. Other threads copy it with the
 * lock held and render the copy. */
#ifndef MOEFS_ENGINE_SESSION_DIALOGUE_H
#define MOEFS_ENGINE_SESSION_DIALOGUE_H

#include "engine/session/choices.h"
#include "engine/session/params.h"
#include "engine/template/chat_template.h"
#include "engine/template/chat_messages.h"

enum { DOCUMENT_BYTES_MAX = 4 << 20 };

struct document {   /* JSON written by a user */
	char *text; /* on one line, with a newline; NULL: none */
	size_t n;
	struct json *json; /* NULL: none, or empty */
};
struct dialogue { /* zero-initialise; freed by dialogue_free */
	struct messages messages;
	struct messages results; /* tool results that are not among the messages yet */
	struct document tools, variables;
	struct choices choices; /* for params/format=choices */
	struct tm clock;	/* time of the first turn */
	bool clock_set;
};
void dialogue_free(struct dialogue *c);
/* Copies everything except the results, without parsing, since the caller holds a lock. Call
 * dialogue_parse before rendering the copy. -ENOMEM: `to` is empty. */
int dialogue_copy(struct dialogue *to, const struct dialogue *from, struct err *e);
int dialogue_parse(struct dialogue *copy, struct err *e);

/* Replace tools.json and template.json. -EINVAL, -EFBIG, -ENOMEM; after an error nothing has
 * changed. */
int dialogue_set_tools(struct dialogue *c, const char *text, size_t n, struct err *e);
int dialogue_set_variables(struct dialogue *c, const char *text, size_t n, struct err *e);

/* The text of the first message if it is a system message, else empty; malloc'ed. -EINVAL: the text
 * is not valid for params/system; -ENOMEM. */
int dialogue_system(const struct messages *m, char **text, struct err *e);
/* Makes the text the system message, which is always the first. An empty text removes it. *added:
 * how many messages were added, -1 to 1. -ENOMEM, -EFBIG. */
int dialogue_set_system(struct dialogue *c, const char *text, int *added, struct err *e);

/* Finds a number that occurs in no call id of the messages. -ENOMEM. */
int dialogue_name_turn(const struct messages *m, uint32_t *turn, struct err *e);

/* Renders the conversation up to where the model answers. -EINVAL: the template does not support
 * the value of params/thinking; other errors as chat_render. */
int dialogue_render(const struct dialogue *c, const struct chat_template *t, const struct params *p,
		    const _Atomic bool *stop, struct template_text *out, struct err *e);
/* -EINVAL: the template does not read the variable of this thinking mode. */
int dialogue_check_thinking(const struct chat_template *t, enum thinking_mode mode, struct err *e);

#endif
