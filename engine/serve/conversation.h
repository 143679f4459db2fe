/* What a session says with its model: the messages, which are the truth, and what templates are
 * given beside them.
 *
 * A session's is the holder's of the schedule's lock, and nobody writes it while a turn runs but
 * the turn itself, under the lock; so the generation thread reads it without. Who renders it
 * elsewhere takes a copy under the lock and renders that without. */
#ifndef MOEFS_ENGINE_SERVE_CONVERSATION_H
#define MOEFS_ENGINE_SERVE_CONVERSATION_H

#include "engine/serve/params.h"
#include "engine/template/chat_template.h"
#include "engine/template/chat_messages.h"

enum { DOCUMENT_BYTES_MAX = 4 << 20 };

struct document {   /* JSON that somebody wrote */
	char *text; /* on one line, with a newline; NULL: none */
	size_t n;
	struct json *json; /* NULL: none, or empty */
};
struct conversation { /* zero-initialise; freed by conversation_free */
	struct messages messages;
	struct messages results; /* of tools, not yet among the messages */
	struct document tools, variables;
	struct tm clock; /* of its first turn */
	bool clock_set;
};
void conversation_free(struct conversation *c);
/* A copy of all but the results, for which no time is taken but to copy; conversation_parse makes
 * it one that can be rendered. -ENOMEM; after it `to` is empty. */
int conversation_copy(struct conversation *to, const struct conversation *from, struct err *e);
int conversation_parse(struct conversation *copy, struct err *e);

/* Replace tools.json, template.json. -EINVAL, -EFBIG, -ENOMEM, and then nothing is changed. */
int conversation_set_tools(struct conversation *c, const char *text, size_t n, struct err *e);
int conversation_set_variables(struct conversation *c, const char *text, size_t n, struct err *e);

/* The text of the first message if it is a system's, else empty; malloc'ed. -EINVAL: params/system
 * could not hold it; -ENOMEM. */
int conversation_system(const struct messages *m, char **text, struct err *e);
/* Makes the first message say this as the system's; empty: there is none. *added: by how many the
 * messages grew, -1 to 1. -ENOMEM, -EFBIG. */
int conversation_set_system(struct conversation *c, const char *text, int *added, struct err *e);

/* A number that no call of these messages is named by. -ENOMEM. */
int conversation_name_turn(const struct messages *m, uint32_t *turn, struct err *e);

/* Renders it, up to where the model answers. -EINVAL: params/thinking says what the template never
 * reads; else as chat_render. */
int conversation_render(const struct conversation *c, const struct chat_template *t,
			const struct params *p, const _Atomic bool *stop, struct template_text *out,
			struct err *e);
/* -EINVAL where the template never reads what this is told by. */
int conversation_check_thinking(const struct chat_template *t, enum thinking_mode mode,
				struct err *e);

#endif
