/* Who polls an open file, and is to be told of news.
 *
 * A list of pollers stands beside whatever there is news of: a conversation, a model's trace. The
 * kernel asks with each poll to be told once; a poller that was told asks again. So whoever brings
 * news calls pollers_wake, and the loop looks at them, so many at a time: those are told whose file
 * has something to say, and the others go back to their list. */
#ifndef MOEFS_FS_POLLERS_H
#define MOEFS_FS_POLLERS_H

#include "fs/mount/call.h"

struct handle;

/* What can be done with it now without waiting: POLLIN and the like. */
unsigned poll_ready(struct handle *h);
/* Takes the kernel's wish to be told. */
void poll_later(struct handle *h, struct fuse_pollhandle *poll);
/* The place of its news is another now: whoever polls it already hears of it from there. */
void poll_moved(struct handle *h);
/* Tells who polls this file, whatever it has to say. */
void poll_tell(struct handle *h);
void pollers_wake(struct mount *m, struct link *pollers);

/* For the loop. */
void pollers_serve_woken(struct mount *m, unsigned most);

#endif
