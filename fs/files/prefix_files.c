/* prefixes/: a file for each kept prefix of a model. A node's item is the prefix's id.
 *
 * Looking takes a lock that is held only briefly, and never waits for a step. Only a prefix's owner
 * may read its text or change it. */
#include "fs/files/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

static uint64_t prefix_file_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	struct model_prefix p;
	if (!model_prefix_next(folder->model->model, after + 1, &p))
		return 0;
	(void)snprintf(name, NAME_SIZE, "%s", p.name);
	return p.id;
}

static uint64_t prefix_file_find(const struct node *folder, const char *name)
{
	struct model_prefix p;
	return model_prefix_named(folder->model->model, name, &p) ? p.id : 0;
}

static void prefix_file_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member;
}

const struct row_family prefix_family = {prefix_file_next, prefix_file_find, prefix_file_bind};

/* ---- contents and attributes ---- */

static bool prefix_of(const struct node *n, struct model_prefix *out)
{
	return model_prefix_next(n->model->model, n->item, out) && out->id == n->item;
}

/* Empty if the prefix no longer exists. */
void prefix_render(const struct node *n, struct text *out)
{
	char *text;
	size_t length;
	struct err e;
	int failed = model_prefix_text(n->model->model, n->item, &text, &length, &e);
	if (!failed)
		text_add(out, text, length);
	else if (failed != -ENOENT)
		out->failed = true;
	free(text);
}

static bool prefix_owner(const struct node *n, uid_t *owner)
{
	struct model_prefix p;
	if (!prefix_of(n, &p))
		return false;
	*owner = p.owner;
	return true;
}

static void prefix_attr(const struct node *n, struct stat *st)
{
	struct model_prefix p;
	if (!prefix_of(n, &p))
		return;
	st->st_mtim.tv_sec = (time_t)(p.used_ns / 1000000000);
	st->st_mtim.tv_nsec = (long)(p.used_ns % 1000000000);
	st->st_atim = st->st_ctim = st->st_mtim;
	st->st_blocks = (blkcnt_t)(p.own_bytes / 512);
	st->st_nlink = 1 + p.sessions;
	st->st_mode |= p.pinned ? S_ISVTX : 0;
}

/* ---- changes by the owner ---- */

static int prefix_chmod(const struct node *n, mode_t mode, mode_t changed, struct err *e)
{
	if (changed != S_ISVTX)
		return err_set(e, EPERM,
			       "only the sticky bit of a prefix can be changed: chmod +t pins it");
	return model_prefix_pin(n->model->model, n->item, mode & S_ISVTX, e);
}

static int prefix_touch(const struct node *n, struct err *e)
{
	return model_prefix_touch(n->model->model, n->item, e);
}

static int prefix_remove(const struct node *n, struct err *e)
{
	return model_prefix_remove(n->model->model, n->item, e);
}

const struct row_hooks prefix_hooks = {.attr = prefix_attr,
				       .chmod = prefix_chmod,
				       .owner = prefix_owner,
				       .touch = prefix_touch,
				       .remove = prefix_remove};
