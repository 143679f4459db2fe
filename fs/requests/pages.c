#include "fs/requests/pages.h"
#include "fs/tree/tree.h"

/* Longer than any text. */
#define LONG_BYTES (INT64_C(1) << 40)

static bool is_stream(const struct node *n)
{
	return n->mount->copies_by_pages && !node_is_folder(n) && n->row->caching == CACHING_STREAM;
}

static bool is_unknown(const struct node *n)
{
	return n->row->ops->size(n) == 0;
}

/* A read by a process says whose locks it respects, and one for a page is nobody's. What goes once
 * it was read to its end has to see that. */
bool pages_refused(const struct handle *h, const struct fuse_file_info *file)
{
	const struct node *n = &h->node;
	return !file->lock_owner && !handle_ended(h) && is_stream(n) &&
	       (n->row->flags & ROW_PASSING || is_unknown(n));
}

/* A byte far behind all others is stored, and with it a size: each time another, or nothing would
 * have changed. A kernel that does not know the inode yet, or has no memory for a page, thinks as
 * it did. */
static void make_long(const struct node *n)
{
	struct mount *m = n->mount;
	struct fuse_bufvec byte = FUSE_BUFVEC_INIT(1);
	byte.buf[0].mem = "";
	off_t further = LONG_BYTES + (off_t)m->made_long++;
	(void)fuse_lowlevel_notify_store(m->fuse, tree_inode(n), further, &byte, 0);
}

void pages_opened(const struct node *n)
{
	if (is_stream(n))
		make_long(n);
}

/* What an idle session has said does not grow. */
void pages_looked(const struct node *n)
{
	const struct conversation *c = n->conversation;
	if (!is_stream(n) || !node_may(n, n->viewer, R_OK) || (c && !c->session))
		return;
	if ((!c || session_working(c->session) || conversation_closing(c)) && is_unknown(n))
		make_long(n);
}
