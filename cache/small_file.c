#include "cache/small_file.h"

#include "cache/io.h"
#include "cache/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int read_file(uint8_t **out, size_t *bytes, size_t most, int dir, const char *folder,
		     const char *name, struct err *e)
{
	int fd = store_file_open(dir, folder, name, O_RDONLY, e);
	if (fd < 0)
		return fd;
	int64_t size = store_file_size(fd, folder, name, e);
	int failed = size < 0 ? (int)size : 0;
	*bytes = (uint64_t)size < most ? (size_t)size : most;
	*out = failed ? NULL : malloc(most + 1);
	if (!failed && !*out)
		failed = err_sys(e, ENOMEM, "%s/%s", folder, name);
	if (!failed)
		failed = store_file_read(fd, *out, *bytes, 0, folder, name, e);
	close(fd);
	return failed;
}

int small_file_read(uint8_t **out, size_t *bytes, size_t most, const char *folder, const char *name,
		    struct err *e)
{
	int dir = store_folder_open(folder, e);
	*out = NULL;
	if (dir < 0)
		return dir;
	int failed = read_file(out, bytes, most, dir, folder, name, e);
	close(dir);
	if (failed) {
		free(*out);
		*out = NULL;
	}
	return failed;
}

static int write_file(const void *data, size_t bytes, int dir, const char *folder, const char *name,
		      const char *partial, struct err *e)
{
	int fd = store_file_open(dir, folder, partial, O_RDWR | O_CREAT | O_TRUNC, e);
	if (fd < 0)
		return fd;
	int failed = store_file_write(fd, data, bytes, 0, folder, partial, e);
	close(fd);
	if (!failed && (failed = io_rename(dir, partial, name)))
		failed = err_sys(e, -failed, "%s/%s: cannot be written", folder, name);
	if (failed)
		(void)io_remove(dir, partial); /* else the next attempt begins it anew */
	return failed;
}

int small_file_write(const void *data, size_t bytes, const char *folder, const char *name,
		     const char *partial, struct err *e)
{
	int dir = store_folder_open(folder, e);
	if (dir < 0)
		return dir;
	int failed = write_file(data, bytes, dir, folder, name, partial, e);
	close(dir);
	return failed;
}
