/* FUSE's operations on the tree, by libfuse's low-level interface.
 *
 * An operation finds its node or its handle, or answers with the error; then it calls what does the
 * work. Only open and read may wait (mount/call.h). What takes long goes to a worker. What a file
 * does is not known here: that is its row's struct file_ops (files/).
 */
#ifndef MOEFS_FS_REQUESTS_OPS_H
#define MOEFS_FS_REQUESTS_OPS_H

#include "fs/mount/handle.h"
#include "fs/tree/tree.h"

extern const struct fuse_lowlevel_ops moefs_ops; /* user data: the struct mount */

/* ---- ops_request.c: what the operations share ---- */

struct mount *request_mount(fuse_req_t req);
uid_t request_caller(fuse_req_t req);
/* Finds the inode's node and checks that the caller may access it so (R_OK, W_OK, X_OK; 0: not
 * checked). NULL: the request has been answered with the error. */
struct node *request_node(fuse_req_t req, fuse_ino_t inode, int wanted, struct node *n);
/* What LOOKUP and the like answer for a node. */
void request_entry(const struct node *n, struct fuse_entry_param *entry);

/* A request for a folder, kept until the folder's names are known. */
struct prepared_request {
	fuse_req_t req;
	fuse_ino_t inode;	    /* of the folder */
	const char *name;	    /* that was asked for in the folder, or NULL */
	struct fuse_file_info file; /* of an open folder */
	void (*again)(const struct prepared_request *of);
};
/* True: the folder's names are not known yet (row.prepare). A worker finds them out, and then
 * `again` is called or the request is answered with an error. */
bool request_prepare(const struct node *folder, const struct prepared_request *of);

/* ---- ops_splice.c: programs that copy files without reading them ---- */

/* Whether a read has to be refused, since it is for a page of a text that may still grow. */
bool splice_refused(const struct handle *h, const struct fuse_file_info *file);
/* To be called before the answer to an open, and before an answer with the node's size: from then
 * on the kernel takes a growing text for long. */
void splice_opened(const struct node *n);
void splice_looked(const struct node *n);

/* ---- ops_folder.c: open folders ---- */

void op_opendir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		struct fuse_file_info *file);
void op_readdirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		    struct fuse_file_info *file);
void op_releasedir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
/* Whether the calling process is removing what is in this folder. */
bool folder_is_clearing(fuse_req_t req, fuse_ino_t inode);
/* Frees the open folders, after the last request. */
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
/* ftruncate's part of SETATTR; 0 or a negative errno. */
int file_truncate(struct fuse_file_info *file, uint64_t size);

#endif
