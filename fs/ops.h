/* The operations that the kernel asks for: libfuse's low-level interface to the tree. Each
 * operation finds its node or its handle, or answers with the error, and calls what does the work;
 * only open and read may wait (call.h). */
#ifndef MOEFS_FS_OPS_H
#define MOEFS_FS_OPS_H

#include "fs/call.h"

extern const struct fuse_lowlevel_ops moefs_ops; /* user data: the struct mount */

/* ops_file.c: those on open files. */
void op_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
	     struct fuse_file_info *file);
void op_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *file);
void op_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_release(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file);
void op_poll(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file,
	     struct fuse_pollhandle *poll);
/* ftruncate's part of setattr; 0 or a negative errno. */
int file_truncate(struct fuse_file_info *file, uint64_t size);

#endif
