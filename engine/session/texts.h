/* The texts of a session that are read or written as a whole (enum session_text). */
#ifndef MOEFS_ENGINE_SESSION_TEXTS_H
#define MOEFS_ENGINE_SESSION_TEXTS_H

#include "engine/json/text_out.h"
#include "engine/session.h"
#include "engine/session/dialogue.h"

struct model;

/* A copy of everything that rendering needs, so that no lock is held while rendering. */
struct texts_copy {
	struct dialogue dialogue;
	struct params params;
};
/* -EAGAIN, -ENOTSUP as session_text_get; -ENOMEM. */
int texts_copy(const struct session *s, struct texts_copy *c, struct err *e);
void texts_copy_free(struct texts_copy *c);
/* Renders the text that the model would read next; count: writes its number of tokens instead, in
 * decimal. */
int texts_render(const struct model *m, struct texts_copy *c, bool count, struct text_out *out,
		 struct err *e);

/* Writes any other text. */
void texts_write(const struct session *s, enum session_text what, struct text_out *out);

/* Parses messages.json; *system gets the text of its system message. */
int texts_read_messages(struct messages *read, char **system, const char *text, size_t length,
			struct err *e);
/* Replaces the session's messages by parsed ones. */
void texts_take_messages(struct session *s, struct messages *read, char *system);
/* Swaps the tools, the template variables or the choices with those of `with`. */
void texts_swap(struct session *s, enum session_text what, struct dialogue *with);

#endif
