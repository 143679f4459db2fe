/* Programs that copy files without reading them: splice and sendfile, which the cat of busybox and
 * of uutils and Python's shutil begin with.
 *
 * Since Linux 6.5 the kernel serves these from its pages, and only as far as the size that it was
 * told last, files with direct I/O among them (filemap_splice_read in mm/filemap.c looks at nothing
 * else). Of a text that is still to come that size is 0, and such a program would take it for
 * empty. So a read for a page of it is refused, after which they read as others do; and so that
 * the kernel asks at all, it is made to think such files long, while whoever looks still sees 0.
 */
#ifndef MOEFS_FS_PAGES_H
#define MOEFS_FS_PAGES_H

#include "fs/mount/handle.h"

/* Whether a read is for a page of a text that may still grow, or has to be read; `file` is its
 * request's. */
bool pages_refused(const struct handle *h, const struct fuse_file_info *file);

/* Before who opens or looks is answered: the kernel thinks the file long from now on, and what the
 * answer says of its size is for who asked alone (an answer that was under way when a size changed
 * is no news: fuse_change_attributes in fs/fuse/inode.c). */
void pages_opened(const struct node *n);
void pages_looked(const struct node *n);

#endif
