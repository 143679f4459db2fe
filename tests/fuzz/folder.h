/* For fuzzers of file formats: a temporary folder, removed at the end (run.sh removes it after a
 * crash), and its files. */
#ifndef MOEFS_TESTS_FUZZ_FOLDER_H
#define MOEFS_TESTS_FUZZ_FOLDER_H

#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder_parent[128];

static int folder_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void folder_remove(void)
{
	(void)nftw(folder_parent, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The folder; made by the first call. */
static const char *folder_path(void)
{
	const char *tmp = getenv("TMPDIR");
	if (*folder_parent)
		return folder_parent;
	if (snprintf(folder_parent, sizeof folder_parent, "%s/moefs-fuzz-XXXXXX",
		     tmp ? tmp : "/tmp") >= (int)sizeof folder_parent ||
	    !mkdtemp(folder_parent) || atexit(folder_remove))
		abort();
	return folder_parent;
}

static inline void file_write(const char *folder, const char *name, const void *bytes, size_t size)
{
	char path[256];
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	close(fd);
}

#endif
