/* The operations that the kernel asks for: libfuse's low-level interface to the tree. Each
 * operation finds its node or its handle, or answers with the error, and calls what does the work;
 * only open and read may wait (call.h). */
#ifndef MOEFS_FS_OPS_H
#define MOEFS_FS_OPS_H

#include "fs/mount/call.h"

extern const struct fuse_lowlevel_ops moefs_ops; /* user data: the struct mount */

/* ops_folder.c: those on open folders. */
void op_opendir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		struct fuse_file_info *file);
void op_readdirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		    struct fuse_file_info *file);
void op_releasedir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
/* Whether the process that asks is clearing this folder. */
bool folder_is_clearing(fuse_req_t req, fuse_ino_t inode);
/* After the last request: those that are still open. */
void folders_release(struct mount *m);

/* ops_names.c: those on what is in them. */
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	       const char *new_name, unsigned flags);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t parent, const char *name);

/* ops_ask.c: those on names in ask.d. */
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *file);
/* True if that is where it was; then it is answered. */
bool ask_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);

/* ops_mode.c: has the row's hook change a mode, and the request answered then: MODE_CHANGES, or a
 * negative errno where there is no hook, or not for this viewer. */
struct node;
enum { MODE_CHANGES = 1 };
int mode_change(fuse_req_t req, const struct node *n, mode_t mode, mode_t changed);

/* ops_xattr.c: those on extended attributes. */
void op_getxattr(fuse_req_t req, fuse_ino_t inode, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t inode, size_t size);
void op_setxattr(fuse_req_t req, fuse_ino_t inode, const char *name, const char *value, size_t size,
		 int flags);
void op_removexattr(fuse_req_t req, fuse_ino_t inode, const char *name);

/* ops_file.c: those on open files. */
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
/* ftruncate's part of setattr; 0 or a negative errno. */
int file_truncate(struct fuse_file_info *file, uint64_t size);

#endif
