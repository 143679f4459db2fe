/* How fast a device reads, measured on an existing file: O_DIRECT reads as large as experts for a
 * tenth of a second, several in flight. The result is good to a few percent. The pager does not use
 * it (depth.h), and moefs-bench measures more exactly. */
#ifndef MOEFS_CACHE_DEVICE_H
#define MOEFS_CACHE_DEVICE_H

/* Bytes per second when reading from the device of this file. 0 if unknown: O_DIRECT is refused,
 * the file is below 1 MiB, or a read failed. */
double device_read_speed(const char *path);

#endif
