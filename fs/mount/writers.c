/* Conversations whose prompt, or whose last result, is being written, and those of them that are
 * about to begin a turn. */
#include "fs/mount/handle.h"

bool conversation_closing(const struct conversation *c)
{
	return c->writer && c->writer->flushed;
}

struct conversation *sessions_closing(const struct mounted *model)
{
	for (struct link *l = model->writing.next; l != &model->writing; l = l->next) {
		struct conversation *c = LINK_OWNER(l, struct conversation, writing);
		if (conversation_closing(c))
			return c;
	}
	return NULL;
}

void conversation_set_writer(struct conversation *c, struct handle *writer)
{
	c->writer = writer;
	list_remove(&c->writing);
	if (writer)
		list_append(&c->model->writing, &c->writing);
}
