/* How fast a device reads, measured on a file that is there: a tenth of a second of O_DIRECT reads
 * as large as experts, several in flight. For decisions that need no better than a few percent; the
 * pager finds its own depth, and moefs-bench measures properly. */
#ifndef MOEFS_CACHE_DEVICE_H
#define MOEFS_CACHE_DEVICE_H

/* Bytes per second of reading from this file's device; 0 if that cannot be told: no O_DIRECT there,
 * a file below 1 MiB, a failing read. */
double device_read_speed(const char *path);

#endif
