/* Conversations whose prompt, or whose last result, is being written, and those of them that are
 * about to begin a turn. */
#include "fs/mount/handle.h"

bool conversation_closing(const struct conversation *c)
{
	return c->relayed || c->passed_on || c->taking || (c->writer && c->writer->flushed);
}

unsigned conversation_closing_ms(const struct conversation *c)
{
	return c->relayed || c->taking ? RELAY_WAIT_MS : RELEASE_WAIT_MS;
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

void handle_relayed(struct handle *h)
{
	enum effect effect = h->node.row->effect;
	bool later = effect == EFFECT_ASSEMBLED || effect == EFFECT_RELEASE;
	if (h->relayed || !later || !h->node.conversation || !process_relays(&h->opener))
		return;
	h->relayed = true;
	h->node.conversation->relayed++;
}

void handle_flushed(struct handle *h, bool by_opener)
{
	h->flushed |= by_opener;
	if (!h->dirty || !h->flushed || by_opener)
		return;
	h->node.conversation->passed_on += !h->passed_on;
	h->passed_on = true;
}

void handle_relayed_no_more(struct handle *h)
{
	if (!h->relayed && !h->passed_on)
		return;
	h->node.conversation->relayed -= h->relayed;
	h->node.conversation->passed_on -= h->passed_on;
	h->relayed = h->passed_on = false;
	calls_wake(h->node.mount, &h->node.conversation->for_release);
}

void conversation_set_writer(struct conversation *c, struct handle *writer)
{
	c->writer = writer;
	list_remove(&c->writing);
	if (writer)
		list_append(&c->model->writing, &c->writing);
}
