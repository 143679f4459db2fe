/* The index as a file, and whether a store is the one that is wanted: the plan's digest, or, where
 * an index of an earlier version has none, the heads of the data files, which say the same at
 * length. */
#include "cache/store_inside.h"

#include "cache/io.h"
#include "cache/store_files.h"
#include "cache/store_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_PIECE = 1 << 16 }; /* of a head that is compared */

/* ---- the file ---- */

int index_read(struct store_index *out, int dir, const char *folder, struct err *e)
{
	char path[512];
	int fd = store_file_open(dir, folder, STORE_INDEX, O_RDONLY, e);
	if (fd < 0)
		return fd;
	(void)snprintf(path, sizeof path, "%s/" STORE_INDEX, folder);

	int64_t size = store_file_size(fd, folder, STORE_INDEX, e);
	int rc = size < 0 ? (int)size : 0;
	if (!rc && size > INDEX_MOST)
		rc = err_set(e, EINVAL,
			     "%s: is too large for an index; remove its folder to convert again",
			     path);
	uint8_t *bytes = rc ? NULL : malloc((size_t)size + 1);
	if (!rc && !bytes)
		rc = err_sys(e, ENOMEM, "%s", path);
	if (!rc)
		rc = store_file_read(fd, bytes, (size_t)size, 0, folder, STORE_INDEX, e);
	if (!rc)
		rc = index_decode(out, bytes, (size_t)size, path, e);
	free(bytes);
	close(fd);
	return rc;
}

int index_write(int dir, const char *folder, const struct store_index *index, struct err *e)
{
	static const char name[] = STORE_INDEX STORE_PARTIAL;
	size_t bytes = index_bytes(&index->info);
	uint8_t *encoded = malloc(bytes);
	if (!encoded)
		return err_sys(e, ENOMEM, "%s/%s", folder, name);
	index_encode(encoded, index);
	(void)io_remove(dir, name); /* of an earlier attempt; if it stays, O_EXCL reports it */
	int fd = store_file_open(dir, folder, name, O_RDWR | O_CREAT | O_EXCL, e);
	int rc = fd < 0 ? fd : store_file_write(fd, encoded, bytes, 0, folder, name, e);
	if (!rc)
		rc = store_file_sync(fd, folder, name, e);
	if (fd >= 0)
		close(fd);
	free(encoded);
	return rc;
}

/* ---- whose store it is ---- */

int store_check(const struct store *s, const struct store_layout *layout, struct err *e)
{
	return index_check(&s->index, layout, s->folder, e);
}
