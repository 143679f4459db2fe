/* Operations on extended attributes. A node has those that its row's hooks list, to be read alone.
 *
 * The kernel asks for others of its own accord: security.capability where a file is opened with
 * truncation, and the lists of access rights. To refuse the operations altogether (ENOSYS) would
 * spare that, but for every file of the mount. */
#include "fs/mount/handle.h"
#include "fs/requests/ops.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define OUR_NAMES "user.moefs."

static const struct xattr *xattrs_of(const struct node *n)
{
	static const struct xattr none[1];
	return n->row->hooks && n->row->hooks->xattrs ? n->row->hooks->xattrs : none;
}

static const struct xattr *find(const struct node *n, const char *name)
{
	size_t prefix = strlen(OUR_NAMES);
	if (strncmp(name, OUR_NAMES, prefix) != 0)
		return NULL;
	const struct xattr *x = xattrs_of(n);
	while (x->name && strcmp(x->name, name + prefix) != 0)
		x++;
	return x->name ? x : NULL;
}

/* A caller that brings no room asks how much it needs. */
static void reply(fuse_req_t req, struct text *t, size_t room)
{
	if (t->failed)
		fuse_reply_err(req, ENOMEM);
	else if (room == 0)
		fuse_reply_xattr(req, t->length);
	else if (t->length > room)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, t->data, t->length);
	text_free(t);
}

void op_getxattr(fuse_req_t req, fuse_ino_t inode, const char *name, size_t size)
{
	struct node n;
	struct text value = {0};
	if (!node_or_error(req, inode, 0, &n))
		return;
	const struct xattr *x = find(&n, name);
	if (!x || !node_may(&n, n.viewer, R_OK)) {
		fuse_reply_err(req, x ? EACCES : ENODATA);
		return;
	}
	x->render(&n, &value);
	reply(req, &value, size);
}

void op_listxattr(fuse_req_t req, fuse_ino_t inode, size_t size)
{
	struct node n;
	struct text names = {0};
	if (!node_or_error(req, inode, 0, &n))
		return;
	for (const struct xattr *x = xattrs_of(&n); x->name; x++) {
		text_format(&names, OUR_NAMES "%s", x->name);
		text_add(&names, "", 1);
	}
	reply(req, &names, size);
}

/* None can be set. Of other names there can be none here, which programs that copy a file with all
 * that it has (cp -a) take as it is meant. */
static void refuse(fuse_req_t req, fuse_ino_t inode, const char *name, int other)
{
	struct node n;
	struct err e;
	if (!node_or_error(req, inode, 0, &n))
		return;
	bool ours = !strncmp(name, OUR_NAMES, strlen(OUR_NAMES));
	if (strncmp(name, "user.", strlen("user.")) != 0) { /* a program's own, nobody's typing */
		fuse_reply_err(req, other);
		return;
	}
	err_set(&e, ours ? EPERM : other, "%.64s: %s", name,
		ours ? "extended attributes are for reading; chmod +t pins an expert"
		     : "files here have no extended attributes but user.moefs.*, which are read");
	node_denied(&n, &e);
	fuse_reply_err(req, ours ? EPERM : other);
}

void op_setxattr(fuse_req_t req, fuse_ino_t inode, const char *name, const char *value, size_t size,
		 int flags)
{
	(void)value;
	(void)size;
	(void)flags;
	refuse(req, inode, name, EOPNOTSUPP);
}

void op_removexattr(fuse_req_t req, fuse_ino_t inode, const char *name)
{
	refuse(req, inode, name, ENODATA);
}
