/* How fast a device reads, measured on a file that is there: a tenth of a second of O_DIRECT reads
 * as large as experts, several in flight. For decisions that need no better than a few percent. The
 * pager finds its own depth, and moefs-bench measures properly. */
#ifndef MOEFS_CACHE_DEVICE_H
#define MOEFS_CACHE_DEVICE_H

/* Bytes per second when reading from the device of this file; 0 if unknown: O_DIRECT is refused,
 * the file is below 1 MiB, or a read failed. */
double device_read_speed(const char *path);

#endif
