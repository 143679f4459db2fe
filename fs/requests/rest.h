/* What a mount gives back to the system once it rests. All by the loop, but for rest_begin. */
#ifndef MOEFS_FS_REST_H
#define MOEFS_FS_REST_H

struct fuse_buf;
struct mount;

/* Has what is freed lie where it can be given back. Before there are threads. */
void rest_begin(void);
/* Something was done. */
void rest_stir(struct mount *m);
/* Milliseconds until rest_look has something to do; -1: nothing. */
int rest_timeout(const struct mount *m);
/* If it is time. What requests are received in goes, too; who receives the next makes another. */
void rest_look(struct mount *m, struct fuse_buf *buffer);

#endif
