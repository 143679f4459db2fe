/* FUSE's operations on the tree, with libfuse's low-level interface.
 *
 * An operation finds its node or its handle, or answers with the error. Then it calls the function
 * that does the work. Only open and read may wait (mount/call.h). Work that takes long goes to a
 * worker. The behaviour of each file is in its row's struct file_ops (files/).
 */
#ifndef MOEFS_FS_REQUESTS_OPS_H
#define MOEFS_FS_REQUESTS_OPS_H

#include "fs/mount/handle.h"
#include "fs/tree/tree.h"

extern const struct fuse_lowlevel_ops moefs_ops; /* user data: the struct mount */

/* ---- ops_request.c: shared by the operations ---- */

struct mount *request_mount(fuse_req_t req);
uid_t request_caller(fuse_req_t req);
/* Finds the inode's node and checks that the caller has the access `wanted` (R_OK, W_OK, X_OK; 0:
 * no check). NULL: the request has been answered with the error. */
struct node *request_node(fuse_req_t req, fuse_ino_t inode, int wanted, struct node *n);
/* Fills in the answer of LOOKUP and similar requests for a node. */
void request_entry(const struct node *n, struct fuse_entry_param *entry);

/* A request for a folder, kept until the folder's names are known. */
struct prepared_request {
	fuse_req_t req;
	fuse_ino_t inode;	    /* inode of the folder */
	const char *name;	    /* the name that was looked up in the folder, or NULL */
	struct fuse_file_info file; /* for an open folder */
	void (*again)(const struct prepared_request *of);
};
/* True: the folder's names are not known yet (row.prepare). A worker finds them; then `again` is
 * called, or the request is answered with an error. */
bool request_prepare(const struct node *folder, const struct prepared_request *of);

/* ---- ops_splice.c: programs that copy files without reading them ---- */

/* Whether to refuse a read because it is for a page of a text that may still grow. */
bool splice_refused(const struct handle *h, const struct fuse_file_info *file);
/* Call before the answer to an open, and before an answer with the node's size. From then on the
 * kernel believes that a growing text is long. */
void splice_opened(const struct node *n);
void splice_looked(const struct node *n);

/* ---- ops_folder.c: open folders ---- */

void op_opendir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		struct fuse_file_info *file);
void op_readdirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		    struct fuse_file_info *file);
void op_releasedir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
/* Whether the calling process is removing the contents of this folder. */
bool folder_is_clearing(fuse_req_t req, fuse_ino_t inode);
/* Frees the open folders. Call this after the last request. */
void folders_release(struct mount *m);

/* ---- ops_names.c: creating, removing and renaming ---- */

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *file);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	       const char *new_name, unsigned flags);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t parent, const char *name);

/* ---- ops_file.c: open files ---- */

void op_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
	     struct fuse_file_info *file);
void op_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *file);
void op_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_fsync(fuse_req_t req, fuse_ino_t inode, int data_alone, struct fuse_file_info *file);
void op_release(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_poll(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file,
	     struct fuse_pollhandle *poll);
/* ftruncate's part of SETATTR. Returns 0 or a negative errno. */
int file_truncate(struct fuse_file_info *file, uint64_t size);

#endif
