/* FUSE's operations on open folders, and which process is removing a folder's contents. See
 * ops.h. */
#include "fs/base/proc.h"
#include "fs/requests/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An open folder of a session. Other folders need no state. */
struct open_folder {
	struct link link; /* on mount.folders */
	uint64_t inode;
	pid_t opener; /* the process */
	bool listed;
};

static struct open_folder *folder_of(const struct fuse_file_info *file)
{
	return (struct open_folder *)(uintptr_t)file->fh; // NOLINT(performance-no-int-to-ptr)
}

static void folder_free(struct open_folder *f)
{
	if (f)
		list_remove(&f->link);
	free(f);
}

void folders_release(struct mount *m)
{
	while (!list_empty(&m->folders))
		folder_free(LINK_OWNER(m->folders.next, struct open_folder, link));
}

bool folder_is_clearing(fuse_req_t req, fuse_ino_t inode)
{
	const struct mount *m = request_mount(req);
	pid_t process = proc_of_thread(fuse_req_ctx(req)->pid);
	for (struct link *l = m->folders.next; l != &m->folders; l = l->next) {
		const struct open_folder *f = LINK_OWNER(l, struct open_folder, link);
		if (f->inode == inode && f->opener == process && f->listed)
			return true;
	}
	return false;
}

static void folder_open_again(const struct prepared_request *of)
{
	struct fuse_file_info file = of->file;
	op_opendir(of->req, of->inode, &file);
}

void op_opendir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct node n;
	struct open_folder *f = NULL;
	const struct prepared_request of = {
		.req = req, .inode = inode, .file = *file, .again = folder_open_again};
	if (!request_node(req, inode, R_OK, &n) || request_prepare(&n, &of))
		return;
	if (n.conversation) {
		f = calloc(1, sizeof *f);
		if (!f) {
			fuse_reply_err(req, ENOMEM);
			return;
		}
		f->inode = inode;
		f->opener = proc_of_thread(fuse_req_ctx(req)->pid);
		list_append(&request_mount(req)->folders, &f->link);
	}
	file->fh = (uintptr_t)f;
	/* -ENOENT: the process was killed in the meantime, so there will be no RELEASEDIR. */
	if (fuse_reply_open(req, file) == -ENOENT)
		folder_free(f);
}

void op_releasedir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	folder_free(folder_of(file));
	fuse_reply_err(req, 0);
}

/* ---- listing ---- */

/* The offsets of "." and "..". The tree's own offsets are above 255 (tree_next). */
enum { PLACE_DOT = 1, PLACE_DOTDOT = 2 };

static size_t folder_add_entry(fuse_req_t req, char *buffer, size_t left, const char *name,
			       const struct node *n, uint64_t place, bool plus)
{
	struct fuse_entry_param entry = {
		.attr = {.st_ino = tree_inode(n), .st_mode = n->row->mode}};
	if (!plus)
		return fuse_add_direntry(req, buffer, left, name, &entry.attr, (off_t)place);
	if (place > PLACE_DOTDOT)
		request_entry(n, &entry);
	return fuse_add_direntry_plus(req, buffer, left, name, &entry, (off_t)place);
}

/* The entry after *place. False: there are no more. */
static bool folder_next_entry(const struct node *folder, uint64_t *place, struct node *n,
			      char name[NAME_SIZE])
{
	if (*place == PLACE_DOTDOT)
		*place = 0; /* the tree's first entry */
	else if (*place <= PLACE_DOT) {
		*n = *folder;
		if (*place == PLACE_DOT)
			tree_parent(folder, n);
		memcpy(name, "..", 3);
		name[*place + 1] = 0;
		++*place;
		return true;
	}
	return tree_next(folder, place, n, name);
}

static void folder_list(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
			const struct fuse_file_info *file, bool plus)
{
	struct node folder, n;
	char name[NAME_SIZE];
	if (!request_node(req, inode, R_OK, &folder))
		return;
	if (folder_of(file))
		folder_of(file)->listed = true;
	char *buffer = request_mount(req)->scratch;
	size = size < READ_MAX_BYTES ? size : READ_MAX_BYTES;
	size_t used = 0;
	uint64_t place = (uint64_t)offset;
	while (folder_next_entry(&folder, &place, &n, name)) {
		size_t more =
			folder_add_entry(req, buffer + used, size - used, name, &n, place, plus);
		if (more > size - used)
			break;
		used += more;
	}
	fuse_reply_buf(req, buffer, used);
}

void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		struct fuse_file_info *file)
{
	folder_list(req, inode, size, offset, file, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		    struct fuse_file_info *file)
{
	folder_list(req, inode, size, offset, file, true);
}
