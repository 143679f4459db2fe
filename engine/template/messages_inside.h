/* What the files of messages.h share. */
#ifndef MOEFS_ENGINE_TEMPLATE_MESSAGES_INSIDE_H
#define MOEFS_ENGINE_TEMPLATE_MESSAGES_INSIDE_H

#include "engine/template/messages.h"

/* Whether it may be the i-th of a list; else -EINVAL, and what it is not. */
int message_check(const struct json *message, size_t i, struct err *e);
/* The role that a text is, which lasts; NULL: it is none. */
const char *message_role_of(const struct json *v);
/* Appends "key": "text" to an object that is being written. */
void message_write_member(struct text_out *o, const char *key, const char *text, size_t n);

#endif
