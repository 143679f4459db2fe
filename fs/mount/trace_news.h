/* Who waits for a model's trace (trace.c), and hears of it. */
#ifndef MOEFS_FS_TRACE_NEWS_H
#define MOEFS_FS_TRACE_NEWS_H

#include "fs/mount/mount.h"

void trace_lists_init(struct mounted *model);
/* There are more lines, or nothing works any more: wakes who waits or polls. */
void trace_wake(struct mounted *model);
/* The engine's callback, from any thread: ctx is the struct mounted. */
void trace_told(void *ctx);

#endif
