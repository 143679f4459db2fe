/* Programs that copy files with splice(2) or sendfile(2) instead of read(2): the cat of busybox and
 * of uutils, and Python's shutil.
 *
 * Since Linux 6.5 the kernel serves splice from its page cache, and only up to the size that it was
 * last told, also for files with direct I/O (filemap_splice_read in mm/filemap.c checks nothing
 * else). A text that is not complete has size 0, so such a program would take it for empty.
 * Therefore a read for a page of such a text is refused, and these programs fall back to read(2).
 * So that the kernel asks at all, it is made to believe that the file is long; stat(2) still gives
 * 0.
 */
#include "fs/requests/ops.h"

#define LONG_BYTES (INT64_C(1) << 40) /* longer than any text */

static bool splice_is_stream(const struct node *n)
{
	return n->mount->copies_by_pages && !node_is_folder(n) && n->row->caching == CACHING_STREAM;
}

/* A process's read has a lock owner; the kernel's read for a page has none. A name that disappears
 * after it was read to its end (ROW_PASSING) needs real reads. */
bool splice_refused(const struct handle *h, const struct fuse_file_info *file)
{
	const struct node *n = &h->node;
	return !file->lock_owner && !handle_ended(h) && splice_is_stream(n) &&
	       (n->row->flags & ROW_PASSING || n->row->ops->size(n) == 0);
}

/* Stores a byte far beyond all others, so the kernel takes its offset for the file's size. Each
 * call uses another offset, since the same size would not be a change. If the kernel does not know
 * the inode yet, or has no memory for a page, nothing changes. */
static void splice_make_long(const struct node *n)
{
	struct mount *m = n->mount;
	struct fuse_bufvec byte = FUSE_BUFVEC_INIT(1);
	byte.buf[0].mem = "";
	off_t offset = LONG_BYTES + (off_t)m->made_long++;
	(void)fuse_lowlevel_notify_store(m->fuse, tree_inode(n), offset, &byte, 0);
}

/* Before the answer: an answer that was on its way when the size changed no longer counts as news
 * (fuse_change_attributes in fs/fuse/inode.c), so only the caller sees its size. */
void splice_opened(const struct node *n)
{
	if (splice_is_stream(n))
		splice_make_long(n);
}

void splice_looked(const struct node *n)
{
	const struct conversation *c = n->conversation;
	if (!splice_is_stream(n) || !tree_allows(n, n->viewer, R_OK) || (c && !c->session))
		return;
	/* The texts of an idle session do not grow. */
	if ((!c || session_working(c->session) || conversation_closing(c)) &&
	    n->row->ops->size(n) == 0)
		splice_make_long(n);
}
