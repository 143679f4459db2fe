/* The texts of a conversation that are read and written whole (session.h). */
#ifndef MOEFS_ENGINE_SESSION_TEXTS_H
#define MOEFS_ENGINE_SESSION_TEXTS_H

#include "engine/json/text_out.h"
#include "engine/session.h"
#include "engine/session/dialogue.h"

struct model;

/* A copy of everything that rendering needs, so that the lock is free while it is rendered. */
struct texts_copy {
	struct dialogue dialogue;
	struct params params;
};
/* -EAGAIN, -ENOTSUP as session_text_get; -ENOMEM. */
int texts_copy(const struct session *s, struct texts_copy *c, struct err *e);
void texts_copy_free(struct texts_copy *c);
/* What the model would read next; count: how many tokens that is, in decimal. */
int texts_render(const struct model *m, struct texts_copy *c, bool count, struct text_out *out,
		 struct err *e);

/* Any other text, as it is. */
void texts_write(const struct session *s, enum session_text what, struct text_out *out);

/* Reads messages.json, and the text of the system's message in it. */
int texts_read_messages(struct messages *read, char **system, const char *text, size_t length,
			struct err *e);
/* Replaces the session's messages by those that were read. */
void texts_take_messages(struct session *s, struct messages *read, char *system);
/* Exchanges the tools, the template's variables or the choices with those of `with`. */
void texts_swap(struct session *s, enum session_text what, struct dialogue *with);

#endif
