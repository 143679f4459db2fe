/* What a session says with its model: the messages, which are the truth, and what templates are
 * given beside them.
 *
 * A session's dialogue is under the run's lock. While a turn runs, only the turn writes it, under
 * the lock, so the run's thread reads it without. Other threads copy it under the lock and render
 * the copy. */
#ifndef MOEFS_ENGINE_SESSION_DIALOGUE_H
#define MOEFS_ENGINE_SESSION_DIALOGUE_H

#include "engine/session/choices.h"
#include "engine/session/params.h"
#include "engine/template/chat_template.h"
#include "engine/template/chat_messages.h"

enum { DOCUMENT_BYTES_MAX = 4 << 20 };

struct document {   /* JSON that somebody wrote */
	char *text; /* on one line, with a newline; NULL: none */
	size_t n;
	struct json *json; /* NULL: none, or empty */
};
struct dialogue { /* zero-initialise; freed by dialogue_free */
	struct messages messages;
	struct messages results; /* of tools, not yet among the messages */
	struct document tools, variables;
	struct choices choices; /* for params/format=choices */
	struct tm clock; /* of its first turn */
	bool clock_set;
};
void dialogue_free(struct dialogue *c);
/* Copies everything except the results, without parsing, since a lock is held. Before the copy is
 * rendered, dialogue_parse parses it. -ENOMEM: `to` is empty. */
int dialogue_copy(struct dialogue *to, const struct dialogue *from, struct err *e);
int dialogue_parse(struct dialogue *copy, struct err *e);

/* Replace tools.json, template.json. -EINVAL, -EFBIG, -ENOMEM, and then nothing is changed. */
int dialogue_set_tools(struct dialogue *c, const char *text, size_t n, struct err *e);
int dialogue_set_variables(struct dialogue *c, const char *text, size_t n, struct err *e);

/* The text of the first message if it is a system's, else empty; malloc'ed. -EINVAL: params/system
 * could not hold it; -ENOMEM. */
int dialogue_system(const struct messages *m, char **text, struct err *e);
/* Makes this text the system message, which is the first one; empty: removes it. *added: how many
 * messages were added, -1 to 1. -ENOMEM, -EFBIG. */
int dialogue_set_system(struct dialogue *c, const char *text, int *added, struct err *e);

/* A number that is in no call's id in these messages. -ENOMEM. */
int dialogue_name_turn(const struct messages *m, uint32_t *turn, struct err *e);

/* Renders it, up to where the model answers. -EINVAL: params/thinking says what the template never
 * reads; else as chat_render. */
int dialogue_render(const struct dialogue *c, const struct chat_template *t, const struct params *p,
		    const _Atomic bool *stop, struct template_text *out, struct err *e);
/* -EINVAL where the template never reads what this is told by. */
int dialogue_check_thinking(const struct chat_template *t, enum thinking_mode mode, struct err *e);

#endif
