/* The bound on unsubmitted text: text collected by handles of prompt, questions and assembled
 * params, and what workers make of it.
 *
 * max_prompt_bytes bounds each text, but not the number of texts, and with allow_other other users
 * write them. All of them together may take a quarter of the contexts' budget: a token is a few
 * bytes of text and hundreds to a hundred thousand bytes in a context, so more text could not be
 * computed anyway, and -o context_budget= raises the bound. The bound never exceeds a sixteenth of
 * the machine's memory, although the contexts' budget may. Half of the bound is reserved for the
 * mount's owner. No other user gets more than a quarter of the bound. However small the bound,
 * everybody can write the longest prompt: eight times its length are always allowed, since a
 * growing text takes up to twice its length. What counts is the memory taken, not the length. */
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdlib.h>

/* The bound for all users together, in bytes. */
static uint64_t unsubmitted_most(const struct mount *m)
{
	uint64_t longest = 0, share = engine_context_budget(m->engine) / 4;
	if (m->memory && share > m->memory / 16)
		share = m->memory / 16;
	for (struct mounted *x = NULL; (x = mount_next_model(m, x));) {
		uint64_t bytes = model_max_prompt_bytes(x->model);
		longest = bytes > longest ? bytes : longest;
	}
	return share > 8 * longest ? share : 8 * longest;
}

static struct unsubmitted_user *unsubmitted_find(struct unsubmitted *u, uid_t uid)
{
	for (size_t i = 0; i < u->count; i++)
		if (u->users[i].uid == uid)
			return &u->users[i];
	return NULL;
}

/* Finds a user, or adds one with 0 bytes. NULL: out of memory. */
static struct unsubmitted_user *unsubmitted_find_or_make(struct unsubmitted *u, uid_t uid)
{
	struct unsubmitted_user *user = unsubmitted_find(u, uid);
	if (user)
		return user;
	if (u->count == u->capacity) {
		size_t capacity = u->capacity ? 2 * u->capacity : 8;
		struct unsubmitted_user *grown =
			reallocarray(u->users, capacity, sizeof(struct unsubmitted_user));
		if (!grown)
			return NULL;
		u->users = grown;
		u->capacity = capacity;
	}
	u->users[u->count] = (struct unsubmitted_user){.uid = uid};
	return &u->users[u->count++];
}

/* bytes: what the text would have taken. */
static int unsubmitted_refuse(const struct handle *h, const char *whose, uint64_t bytes,
			      uint64_t most, struct err *e)
{
	return err_set(
		e, ENOSPC,
		"%s: %s unsubmitted text would take %.2f MB, but may take %.2f MB; submit or close "
		"what is open, or mount with a larger -o context_budget=",
		h->node.row->name, whose, (double)bytes / 1e6, (double)most / 1e6);
}

/* Whether the handle's user may have `more` additional bytes. */
static int unsubmitted_check(const struct handle *h, uint64_t more, struct err *e)
{
	const struct mount *m = h->node.mount;
	uint64_t most = unsubmitted_most(m), mine = 0, others = 0, all = 0;
	for (size_t i = 0; i < m->unsubmitted.count; i++) {
		const struct unsubmitted_user *user = &m->unsubmitted.users[i];
		mine += user->uid == h->node.viewer ? user->bytes : 0;
		others += user->uid != m->uid ? user->bytes : 0;
		all += user->bytes;
	}
	if (h->node.viewer != m->uid && mine + more > most / 4)
		return unsubmitted_refuse(h, "your", mine + more, most / 4, e);
	if (h->node.viewer != m->uid && others + more > most / 2)
		return unsubmitted_refuse(h, "the users'", others + more, most / 2, e);
	return all + more > most ? unsubmitted_refuse(h, "the users'", all + more, most, e) : 0;
}

/* Raises the bytes counted for the handle to `room`. */
static int unsubmitted_reserve(struct handle *h, size_t room, struct err *e)
{
	if (room <= h->counted)
		return 0;
	int code = unsubmitted_check(h, room - h->counted, e);
	if (code)
		return code;
	struct unsubmitted_user *user =
		unsubmitted_find_or_make(&h->node.mount->unsubmitted, h->node.viewer);
	if (!user)
		return err_set(e, ENOMEM, "%s: no memory for this text", h->node.row->name);
	user->bytes += room - h->counted;
	h->counted = room;
	return 0;
}

int unsubmitted_put(struct handle *h, size_t offset, const void *data, size_t size, struct err *e)
{
	size_t end, length = h->written.length;
	if (__builtin_add_overflow(offset, size, &end))
		return err_set(e, EFBIG, "%s: the offset is beyond any text", h->node.row->name);
	/* The memory that the text will take at its new length. */
	int code = unsubmitted_reserve(h, text_room(&h->written, end > length ? end : length), e);
	if (!code && !text_put(&h->written, offset, data, size))
		code = err_set(e, ENOMEM, "%s: no memory for this text", h->node.row->name);
	if (code)
		unsubmitted_drop(h);
	return code;
}

int unsubmitted_count(struct handle *h, uint64_t bytes, struct err *e)
{
	unsubmitted_drop(h);
	return unsubmitted_reserve(h, bytes, e);
}

int unsubmitted_add(struct handle *h, const void *data, size_t size, struct err *e)
{
	return unsubmitted_put(h, h->written.length, data, size, e);
}

void unsubmitted_drop(struct handle *h)
{
	struct unsubmitted *u = &h->node.mount->unsubmitted;
	struct unsubmitted_user *user = h->counted ? unsubmitted_find(u, h->node.viewer) : NULL;
	text_free(&h->written);
	if (user && !(user->bytes -= h->counted))
		*user = u->users[--u->count];
	h->counted = 0;
}
