/* Attributes of nodes, and who may do what with them. */
#include "fs/tree/tree.h"
#include "fs/mount/handle.h"

#include <unistd.h>

/* Settings and facts belong to the mount's user, what a conversation holds to the session's. */
static void set_owner(const struct node *n, struct stat *st)
{
	const struct conversation *c = n->conversation;
	st->st_uid = c ? c->uid : n->mount->uid;
	st->st_gid = c ? c->gid : n->mount->gid;
}

static uint64_t file_size(const struct node *n)
{
	if (n->row->ops->size)
		return n->row->ops->size(n);
	struct text t = {0};
	n->row->render(n, &t);
	uint64_t size = t.length;
	text_free(&t);
	return size;
}

/* Every mode in the tree has the same bits for the group as for the others, but for umask's. */
static mode_t mode_of(const struct node *n)
{
	return n->row->mode & ~n->mount->umask;
}

/* How long another's texts are, and when they grew, is nobody's business. */
void node_attr(const struct node *n, struct stat *st)
{
	bool shown = node_may(n, n->viewer, R_OK);
	*st = (struct stat){
		.st_ino = tree_inode(n),
		.st_mode = mode_of(n),
		.st_nlink = 1, /* for folders: no promise about how many folders are in them */
		.st_blksize = 4096,
	};
	set_owner(n, st);
	st->st_mtim = n->mount->began;
	if (n->conversation)
		st->st_mtim = node_is_folder(n) || !shown ? n->conversation->made
							  : n->conversation->changed;
	if (!node_is_folder(n) && shown) {
		st->st_size = (off_t)file_size(n);
		if (n->row->caching == CACHING_STATIC)
			st->st_mtim = n->model->config_time;
	}
	st->st_atim = st->st_ctim = st->st_mtim;
	st->st_blocks = (st->st_size + STAT_BLOCK - 1) / STAT_BLOCK;
	if (n->row->hooks && n->row->hooks->attr)
		n->row->hooks->attr(n, st);
	if (st->st_blocks == 0) /* tar -S stores zeros for a file without blocks */
		st->st_blocks = 1;
	if (n->row->flags & ROW_IN_MODEL && sessions_is_default(n->conversation))
		st->st_nlink = 2;
}

/* The groups of whoever asks are the kernel's to look at, which has done so: nobody but root comes
 * here with less. */
bool node_may(const struct node *n, uid_t uid, int what)
{
	struct stat st = {0};
	if (what & W_OK && !node_is_folder(n) && n->row->effect == EFFECT_NONE)
		return false;
	set_owner(n, &st);
	mode_t mode = mode_of(n);
	unsigned bits = (uid == st.st_uid ? mode >> 6 : mode >> 3 | mode) & 7;
	return (bits & (unsigned)what) == (unsigned)what;
}

double node_attr_seconds(const struct node *n)
{
	if (n->row->flags & ROW_FRESH)
		return 0;
	if (node_is_folder(n))
		return 1;
	return n->row->caching == CACHING_STATIC ? 3600 : 0;
}
