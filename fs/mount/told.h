/* A line for each answered prompt (-v): how much, how fast and from where, and nothing of its text.
 */
#ifndef MOEFS_FS_TOLD_H
#define MOEFS_FS_TOLD_H

#include "fs/mount/mount.h"

/* After news of a conversation: says the line if a turn has ended that was not told of. */
void told_turn(struct conversation *c);
void told_forget(struct conversation *c);

#endif
