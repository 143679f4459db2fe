/* Editing a list of messages in memory: copying, inserting, leaving out; and looking at one. */
#ifndef MOEFS_ENGINE_TEMPLATE_MESSAGE_LIST_H
#define MOEFS_ENGINE_TEMPLATE_MESSAGE_LIST_H

#include "engine/template/messages.h"

/* Replaces `to` by a copy. -ENOMEM, and then it is empty. */
int messages_copy(struct messages *to, const struct messages *from, struct err *e);
/* Moves all from index `first` on of one list to the end of another. -ENOMEM changes nothing. */
int messages_move(struct messages *to, struct messages *from, size_t first, struct err *e);
/* Leaves `count` of them out from `at` on. */
void messages_remove(struct messages *m, size_t at, size_t count);
/* messages_add, in front of all others. */
int messages_add_first(struct messages *m, const char *role, const char *text, size_t n,
		       struct err *e);

bool message_is(const struct message *m, const char *role);
/* Its content as one text, malloc'ed, *n bytes and a NUL behind them; NULL: out of memory. */
char *message_text(const struct message *m, size_t *n);

#endif
