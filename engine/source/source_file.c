#include "engine/source/source_file.h"
#include "cache/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *source_file_path(const char *directory, const char *file, struct err *e)
{
	char *path;
	if (asprintf(&path, "%s/%s", directory, file) >= 0)
		return path;
	err_set(e, ENOMEM, "out of memory for the name of a file");
	return NULL;
}

size_t source_stem(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n > k && !strcmp(name + n - k, ending) ? n - k : 0;
}

bool source_is_file(const char *path)
{
	struct stat st;
	return !stat(path, &st) && S_ISREG(st.st_mode);
}

char *source_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!source_is_file(path))
		return strdup(path);
	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int source_file_read(int fd, void *buffer, size_t bytes, uint64_t offset, const char *path,
		     struct err *e)
{
	for (size_t done = 0; done < bytes;) {
		int64_t got = io_pread(fd, (char *)buffer + done, bytes - done, offset + done);
		if (got == -EINTR)
			continue;
		if (got < 0)
			return err_sys(e, (int)-got, "%s: cannot be read", path);
		if (!got)
			return err_damaged(e,
					   "%s ends at byte %llu, %zu bytes too early; was it "
					   "changed or cut short?",
					   path, (unsigned long long)offset + done, bytes - done);
		done += (size_t)got;
	}
	return 0;
}

int source_file_open(const char *path, uint64_t *size, struct err *e)
{
	struct stat st;
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "%s: cannot be opened", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(e, EINVAL, "%s: not a regular file", path);
	}
	*size = (uint64_t)st.st_size;
	return fd;
}

bool source_file_begins_with(const char *path, const char *bytes, size_t n)
{
	char head[64];
	struct err none;
	uint64_t size = 0;
	int fd = source_file_open(path, &size, &none);
	bool does = fd >= 0 && n <= sizeof head && size >= n &&
		    !source_file_read(fd, head, n, 0, path, &none) && !memcmp(head, bytes, n);
	io_close(fd);
	return does;
}

bool source_is_pointer(const char *path)
{
	static const char head[] = "version https://git-lfs";
	return source_file_begins_with(path, head, sizeof head - 1);
}
