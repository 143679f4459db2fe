/* What of a model's trace is no file's: who waits for it (trace.c). */
#ifndef MOEFS_FS_TRACE_H
#define MOEFS_FS_TRACE_H

#include "fs/mount.h"

void trace_lists_init(struct mounted *model);
/* There are more lines, or nothing works any more: wakes who waits or polls. */
void trace_wake(struct mounted *model);

#endif
