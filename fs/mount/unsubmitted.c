/* The bound on text that is not submitted yet. See unsubmitted.h. */
#include "fs/mount/unsubmitted.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdlib.h>

/* What everybody together may have. */
static uint64_t most_of_all(const struct mount *m)
{
	uint64_t longest = 0, share = engine_context_budget(m->engine) / 4;
	if (m->memory && share > m->memory / 16)
		share = m->memory / 16;
	for (struct mounted *x = NULL; (x = mounted_next(m, x));) {
		uint64_t bytes = model_max_prompt_bytes(x->model);
		longest = bytes > longest ? bytes : longest;
	}
	return share > 8 * longest ? share : 8 * longest;
}

static struct unsubmitted_user *find(struct unsubmitted *u, uid_t uid)
{
	for (size_t i = 0; i < u->count; i++)
		if (u->users[i].uid == uid)
			return &u->users[i];
	return NULL;
}

/* The user, with 0 bytes if he had none. NULL: out of memory. */
static struct unsubmitted_user *find_or_make(struct unsubmitted *u, uid_t uid)
{
	struct unsubmitted_user *user = find(u, uid);
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

static int refuse(const struct handle *h, const char *whose, uint64_t have, uint64_t most,
		  struct err *e)
{
	return err_set(
		e, ENOSPC,
		"%s: %s text that is written and not submitted takes %.2f MB already, and may "
		"take %.2f MB; submit or close what is open, or mount with a larger "
		"-o context_budget=",
		h->node.row->name, whose, (double)have / 1e6, (double)most / 1e6);
}

/* Whether the handle's user may have so many bytes more. */
static int check(const struct handle *h, uint64_t more, struct err *e)
{
	const struct mount *m = h->node.mount;
	uint64_t most = most_of_all(m), mine = 0, others = 0, all = 0;
	for (size_t i = 0; i < m->unsubmitted.count; i++) {
		const struct unsubmitted_user *user = &m->unsubmitted.users[i];
		mine += user->uid == h->node.viewer ? user->bytes : 0;
		others += user->uid != m->uid ? user->bytes : 0;
		all += user->bytes;
	}
	if (h->node.viewer != m->uid && mine + more > most / 4)
		return refuse(h, "your", mine, most / 4, e);
	if (h->node.viewer != m->uid && others + more > most / 2)
		return refuse(h, "the users'", others, most / 2, e);
	return all + more > most ? refuse(h, "the users'", all, most, e) : 0;
}

/* Counts so many bytes for the handle, if it has less. */
static int count(struct handle *h, size_t room, struct err *e)
{
	if (room <= h->counted)
		return 0;
	int code = check(h, room - h->counted, e);
	if (code)
		return code;
	struct unsubmitted_user *user = find_or_make(&h->node.mount->unsubmitted, h->node.viewer);
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
		return err_set(e, EFBIG, "%s: longer than any text", h->node.row->name);
	/* As much as its text will take when it is so long. */
	int code = count(h, text_room(&h->written, end > length ? end : length), e);
	if (!code && !text_put(&h->written, offset, data, size))
		code = err_set(e, ENOMEM, "%s: no memory for this text", h->node.row->name);
	if (code)
		unsubmitted_drop(h);
	return code;
}

int unsubmitted_count(struct handle *h, uint64_t bytes, struct err *e)
{
	unsubmitted_drop(h);
	return count(h, bytes, e);
}

int unsubmitted_add(struct handle *h, const void *data, size_t size, struct err *e)
{
	return unsubmitted_put(h, h->written.length, data, size, e);
}

void unsubmitted_drop(struct handle *h)
{
	struct unsubmitted *u = &h->node.mount->unsubmitted;
	struct unsubmitted_user *user = h->counted ? find(u, h->node.viewer) : NULL;
	text_free(&h->written);
	if (user && !(user->bytes -= h->counted))
		*user = u->users[--u->count];
	h->counted = 0;
}
