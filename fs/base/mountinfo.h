/* What is mounted, as /proc/self/mountinfo tells this process (proc(5)). */
#ifndef MOEFS_FS_MOUNTINFO_H
#define MOEFS_FS_MOUNTINFO_H

struct mountinfo {
	char *point, *source; /* as they are, without the table's escapes */
	char *type, *options; /* the options are the file system's own */
	char *device;	      /* MAJOR:MINOR, the same in all mount namespaces */
};

/* Calls for each mount, the oldest first, until one returns other than 0, which is returned. table:
 * NULL is /proc/self/mountinfo. -errno where it cannot be read. */
int mountinfo_each(const char *table, int (*visit)(void *ctx, const struct mountinfo *m),
		   void *ctx);

#endif
