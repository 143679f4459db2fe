/* An identity in a store's folder; see identity.h. */
#include "engine/source/identity.h"
#include "cache/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PIECE_RECORDS = 1024 };

/* ---- reading ---- */

static bool is_end(const struct identity *before, const struct identity *after)
{
	return (after->complete && !before->complete) || after->closed;
}

/* Records [1, …) of the file, in pieces. */
static int read_records(struct identity *out, int fd, uint64_t bytes, const char *folder,
			const char *name, struct err *e)
{
	uint8_t *piece = malloc((size_t)PIECE_RECORDS * IDENTITY_RECORD);
	uint64_t records = bytes / IDENTITY_RECORD;
	int failed = piece ? 0 : err_set(e, ENOMEM, "no memory for reading %s/%s", folder, name);
	out->end = IDENTITY_RECORD;
	for (uint64_t i = 1; i < records && !failed; i += PIECE_RECORDS) {
		uint64_t n = records - i < PIECE_RECORDS ? records - i : PIECE_RECORDS;
		failed = store_file_read(fd, piece, n * IDENTITY_RECORD, i * IDENTITY_RECORD,
					 folder, name, e);
		for (uint64_t k = 0; k < n && !failed; k++) {
			const struct identity before = *out;
			failed = identity_decode(out, piece + k * IDENTITY_RECORD, e);
			if (!is_end(&before, out))
				out->end = (i + k + 1) * IDENTITY_RECORD;
		}
	}
	free(piece);
	return failed;
}

int identity_read(struct identity *out, int dir, const char *folder, const char *name,
		  struct err *e)
{
	uint8_t head[IDENTITY_RECORD];
	*out = (struct identity){.partial = !strcmp(name, IDENTITY_PARTIAL)};
	int fd = store_file_open(dir, folder, name, O_RDONLY, e);
	if (fd < 0)
		return -ENOENT;
	int64_t bytes = store_file_size(fd, folder, name, e);
	int failed = bytes < IDENTITY_RECORD ? -ENOENT : 0;
	if (!failed && (store_file_read(fd, head, sizeof head, 0, folder, name, e) ||
			!identity_decode_head(out, head)))
		failed = -ENOENT;
	if (!failed)
		failed = read_records(out, fd, (uint64_t)bytes, folder, name, e);
	close(fd);
	if (failed)
		identity_free(out);
	return failed == -ENOMEM ? failed : failed ? -ENOENT : 0;
}

int identity_find(struct identity *out, const char *folder, const uint64_t name[2], struct err *e)
{
	static const char *const files[] = {IDENTITY_FILE, IDENTITY_PARTIAL};
	int found = -ENOENT, dir = store_folder_open(folder, e);
	if (dir < 0)
		return -ENOENT;
	for (size_t i = 0; i < 2 && found == -ENOENT; i++) {
		found = identity_read(out, dir, folder, files[i], e);
		if (!found && (!out->complete || memcmp(out->name, name, sizeof out->name) != 0)) {
			identity_free(out);
			found = -ENOENT;
		}
	}
	close(dir);
	return found;
}

/* ---- writing ---- */

static size_t encode_all(const struct identity *id, uint8_t *out)
{
	uint8_t *at = out;
	identity_encode_head(at, id);
	for (uint32_t i = 0; i < id->file_count; i++)
		identity_encode_file(at += IDENTITY_RECORD, id, i);
	for (size_t i = 0; i < id->range_count; i++)
		identity_encode_range(at += IDENTITY_RECORD, id, &id->ranges[i]);
	identity_encode_end(at += IDENTITY_RECORD, id, IDENTITY_COMPLETE);
	return (size_t)(at - out) + IDENTITY_RECORD;
}

/* Two mounts that come to it at once write the same. */
int identity_write(const struct identity *id, const char *folder, struct err *e)
{
	uint8_t *bytes = malloc((2 + id->file_count + id->range_count) * IDENTITY_RECORD);
	int dir = store_folder_open(folder, e);
	int fd = dir < 0 ? dir
			 : store_file_open(dir, folder, IDENTITY_FILE, O_RDWR | O_CREAT | O_TRUNC,
					   e);
	int failed = fd < 0 ? fd : 0;
	if (!failed && !bytes)
		failed = err_set(e, ENOMEM, "no memory for %s/" IDENTITY_FILE, folder);
	if (!failed)
		failed = store_file_write(fd, bytes, encode_all(id, bytes), 0, folder,
					  IDENTITY_FILE, e);
	if (!failed)
		failed = store_file_sync(fd, folder, IDENTITY_FILE, e);
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	free(bytes);
	return failed;
}

/* Behind the last whole record: a torn one is written over. */
static int append_stamps(const struct identity *id, int fd, const char *folder, const char *name,
			 struct err *e)
{
	uint8_t *bytes = malloc((size_t)id->file_count * IDENTITY_RECORD);
	if (!bytes)
		return err_set(e, ENOMEM, "no memory for %s/%s", folder, name);
	for (uint32_t i = 0; i < id->file_count; i++)
		identity_encode_file(bytes + (size_t)i * IDENTITY_RECORD, id, i);
	int64_t size = store_file_size(fd, folder, name, e);
	int failed = size < 0 ? (int)size : 0;
	if (!failed)
		failed = store_file_write(fd, bytes, (size_t)id->file_count * IDENTITY_RECORD,
					  (uint64_t)size / IDENTITY_RECORD * IDENTITY_RECORD,
					  folder, name, e);
	free(bytes);
	return failed;
}

int identity_keep_stamps(const struct identity *id, const char *folder, struct err *e)
{
	const char *name = id->partial ? IDENTITY_PARTIAL : IDENTITY_FILE;
	int dir = store_folder_open(folder, e);
	int fd = dir < 0 ? dir : store_file_open(dir, folder, name, O_RDWR, e);
	int failed = fd < 0 ? fd : 0;
	/* Of other mounts that keep theirs; the lock goes with the descriptor. */
	while (!failed && flock(fd, LOCK_EX))
		if (errno != EINTR)
			failed = err_sys(e, errno, "%s/%s: cannot be locked", folder, name);
	if (!failed)
		failed = append_stamps(id, fd, folder, name, e);
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	return failed;
}
