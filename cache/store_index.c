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

/* Whether the first `bytes` of a file, which its data follows, are this head. */
static int check_head(const struct store *s, int fd, const char *name, const void *head,
		      size_t bytes, uint64_t data_begins, struct err *e)
{
	uint8_t piece[HEAD_PIECE];
	bool same = bytes == data_begins;
	for (size_t at = 0; same && at < bytes; at += sizeof piece) {
		size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
		int rc = store_file_read(fd, piece, n, at, s->folder, name, e);
		if (rc)
			return rc;
		same = memcmp(piece, (const uint8_t *)head + at, n) == 0;
	}
	return same ? 0
		    : err_set(e, ESTALE, "%s/%s: lists other tensors; the store is made anew",
			      s->folder, name);
}

int store_matches(const struct store *s, const struct store_plan *plan, struct err *e)
{
	const struct store_info *info = &s->index.info;
	int rc = store_check(s, &plan->layout, e);
	if (rc || info->identified)
		return rc;
	rc = check_head(s, s->experts, STORE_EXPERTS, plan->experts_header,
			plan->experts_header_bytes, info->experts_base, e);
	if (!rc)
		rc = check_head(s, s->dense, STORE_DENSE, plan->dense_header,
				plan->dense_header_bytes, info->dense_base, e);
	return rc;
}

/* ---- upgrading ---- */

/* Puts `index` in the place of the one that this store was opened with, if that is still there. */
static int replace_index(const struct store *s, int dir, const struct store_index *index)
{
	struct store_index there;
	int rc = index_read(&there, dir, s->folder, NULL);
	if (rc)
		return rc;
	bool same = there.sum == s->index.sum;
	index_free(&there);
	if (!same)
		return -ESTALE;
	rc = index_write(dir, s->folder, index, NULL);
	if (!rc)
		rc = io_rename(dir, STORE_INDEX STORE_PARTIAL, STORE_INDEX);
	if (rc)
		(void)io_remove(dir, STORE_INDEX STORE_PARTIAL);
	return rc ? rc : store_folder_sync(dir, s->folder, NULL);
}

int store_upgrade(struct store *s, const struct store_plan *plan, struct err *e)
{
	struct store_lock lock;
	int rc = store_matches(s, plan, e);
	if (rc || s->index.info.identified)
		return rc;
	struct store_index identified = s->index;
	identified.info.identified = true;
	identified.info.digest = plan->layout.digest;
	rc = store_lock_try(&lock, s->folder, NULL);
	if (!rc) {
		rc = replace_index(s, lock.dir, &identified);
		store_lock_remove(&lock);
	}
	store_lock_close(&lock);
	if (!rc)
		s->index.info = identified.info;
	return 0;
}
