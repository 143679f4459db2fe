#include "engine/template/message_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for a conversation's messages");
}

static int reserve(struct messages *m, size_t more, struct err *e)
{
	if (m->room - m->count >= more)
		return 0;
	size_t room = m->count + more;
	struct message *items = reallocarray(m->items, room, sizeof *items);
	if (!items)
		return no_memory(e);
	m->items = items;
	m->room = room;
	return 0;
}

int messages_copy(struct messages *to, const struct messages *from, struct err *e)
{
	messages_cut(to, 0);
	int rc = reserve(to, from->count, e);
	for (size_t i = 0; rc == 0 && i < from->count; i++) {
		const struct message *m = &from->items[i];
		char *json = malloc(m->n + 1);
		if (!json) {
			messages_free(to);
			return no_memory(e);
		}
		memcpy(json, m->json, m->n + 1);
		to->items[to->count++] = (struct message){json, m->n, m->role};
	}
	return rc;
}

int messages_move(struct messages *to, struct messages *from, size_t first, struct err *e)
{
	size_t count = from->count - first;
	int rc = reserve(to, count, e);
	if (rc < 0 || count == 0)
		return rc;
	memcpy(to->items + to->count, from->items + first, count * sizeof *to->items);
	to->count += count;
	from->count = first;
	return 0;
}

void messages_remove(struct messages *m, size_t at, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(m->items[at + i].json);
	m->count -= count;
	if (m->count > at)
		memmove(m->items + at, m->items + at + count, (m->count - at) * sizeof *m->items);
}

int messages_add_first(struct messages *m, const char *role, const char *text, size_t n,
		       struct err *e)
{
	int rc = messages_add(m, role, text, n, e);
	if (rc < 0)
		return rc;
	struct message added = m->items[m->count - 1];
	memmove(m->items + 1, m->items, (m->count - 1) * sizeof *m->items);
	m->items[0] = added;
	return 0;
}

/* ---- looking ---- */

/* NULL: out of memory, since it was read or written here. */
static struct json *parse(const struct message *m)
{
	struct json *parsed = NULL;
	struct err ignored = {0};
	return json_parse_text(&parsed, m->json, m->n, "message", &ignored) < 0 ? NULL : parsed;
}

bool message_is(const struct message *m, const char *role)
{
	return strcmp(m->role, role) == 0;
}

char *message_text(const struct message *m, size_t *n)
{
	struct json *parsed = parse(m);
	struct text_out out = {0};
	if (!parsed)
		return NULL;
	message_join(json_find(parsed, "content"), &out);
	json_free(parsed);
	text_out_add(&out, "", 0); /* a NUL, also where there is nothing */
	if (out.failed)
		text_out_free(&out);
	*n = out.n;
	return out.bytes;
}
