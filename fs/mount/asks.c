/* The names in ask.d and embed.d: making and removing them, and how many a user may have. */
#include "cache/clock.h"
#include "fs/mount/mount.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint64_t unused_ns = 3600U * 1000000000ULL;

static struct conversation *ask_from(struct link *l)
{
	return LINK_OWNER(l, struct conversation, in_asks);
}

static const char *asks_folder(bool embeds)
{
	return embeds ? "embed.d" : "ask.d";
}

struct conversation *asks_by_name(const struct mounted *model, bool embeds, const char *name)
{
	for (struct link *l = model->asks.next; l != &model->asks; l = l->next)
		if (ask_from(l)->embeds == embeds && strcmp(ask_from(l)->name, name) == 0)
			return ask_from(l);
	return NULL;
}

struct conversation *asks_after(const struct mounted *model, bool embeds, uint32_t id)
{
	for (struct link *l = model->asks.next; l != &model->asks; l = l->next)
		if (ask_from(l)->embeds == embeds && ask_from(l)->id > id)
			return ask_from(l);
	return NULL;
}

static unsigned asks_count(const struct mount *m, uid_t uid)
{
	unsigned count = 0;
	for (struct mounted *x = NULL; (x = mount_next_model(m, x));)
		for (struct link *l = x->asks.next; l != &x->asks; l = l->next)
			count += ask_from(l)->uid == uid;
	return count;
}

static int asks_check(const struct mounted *model, bool embeds, const char *name, uid_t uid,
		      struct err *e)
{
	const char *folder = asks_folder(embeds);
	if (asks_by_name(model, embeds, name))
		return err_set(e, EEXIST, "%s/%s exists", folder, name);
	if (model->next_id == UINT32_MAX)
		return err_set(e, ENOSPC,
			       "%s: this mount has used up its ids: unmount and mount again",
			       folder);
	if (asks_count(model->mount, uid) >= ASKS_PER_USER)
		return err_set(e, EDQUOT,
			       "%s: you have %d names whose answers were not read to the end, "
			       "which is the limit: read "
			       "or remove one",
			       folder, ASKS_PER_USER);
	return conversation_check_name(model, folder, name, e);
}

int asks_make(struct mounted *model, bool embeds, const char *name, uid_t uid, gid_t gid,
	      struct conversation **out, struct err *e)
{
	asks_expire(model->mount);
	struct conversation *c;
	int code = asks_check(model, embeds, name, uid, e);
	if (!code)
		code = conversation_make_private(model, uid, name, &c, e);
	if (code)
		return code;
	c->id = ++model->next_id;
	c->gid = gid;
	c->passing = true;
	c->embeds = embeds;
	char traced[NAME_SIZE + 8]; /* the name in the trace; a session's name has no slash */
	(void)snprintf(traced, sizeof traced, "%s/%s", asks_folder(embeds), name);
	session_name(c->session, uid, traced);
	list_append(&model->asks, &c->in_asks);
	*out = c;
	return 0;
}

void asks_forget(struct conversation *c)
{
	if (list_empty(&c->in_asks))
		return;
	list_remove(&c->in_asks);
	if (c->session)
		list_append(&c->model->nameless, &c->in_nameless);
	conversation_unref(c);
}

void asks_remove(struct conversation *c)
{
	conversation_end(c);
	asks_forget(c);
}

void asks_expire(struct mount *m)
{
	for (struct mounted *x = NULL; (x = mount_next_model(m, x));) {
		struct link *next, *asks = &x->asks;
		uint64_t now = list_empty(asks) ? 0 : clock_ns();
		for (struct link *l = asks->next; l != asks; l = next) {
			struct conversation *c = ask_from(l);
			bool open = c->references > 1;
			next = l->next;
			if (!open && c->session && !session_working(c->session) &&
			    now - c->used >= unused_ns)
				asks_remove(c);
		}
	}
}

int asks_timeout(const struct mount *m)
{
	enum { MINUTE_MS = 60000 };
	for (struct mounted *x = NULL; (x = mount_next_model(m, x));)
		if (!list_empty(&x->asks))
			return MINUTE_MS;
	return -1;
}
