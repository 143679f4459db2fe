/* An identity: its records, its comparison with a source, and its file. */
#include "engine/source/identity.h"
#include "cache/io.h"

#include "cache/store_files.h"
#include "engine/source/tensor_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

static const char magic[8] = "MOEFSSRC";
enum { VERSION = 1, SUM_AT = IDENTITY_RECORD - 8, HEAD_SUM_AT = 48 };
enum record_kind { KIND_FILE = 1, KIND_RANGE, KIND_COMPLETE, KIND_CLOSED };

void identity_free(struct identity *id)
{
	free(id->files);
	free(id->ranges);
	*id = (struct identity){0};
}

/* ---- bytes ---- */

static uint64_t identity_get(const uint8_t *in, unsigned bytes)
{
	uint64_t v = 0;
	while (bytes-- > 0)
		v = v << 8 | in[bytes];
	return v;
}

static void identity_put(uint8_t *out, uint64_t v, unsigned bytes)
{
	for (; bytes-- > 0; v >>= 8)
		*out++ = (uint8_t)v;
}

uint64_t identity_record_sum(const uint8_t record[IDENTITY_RECORD], const struct identity *id)
{
	return XXH3_64bits_withSeed(record, SUM_AT, id->name[0] ^ id->name[1]);
}

static void identity_begin_record(uint8_t out[IDENTITY_RECORD], enum record_kind kind,
				  uint32_t file)
{
	memset(out, 0, IDENTITY_RECORD);
	identity_put(out, kind, 4);
	identity_put(out + 4, file, 4);
}

static void identity_seal_record(uint8_t out[IDENTITY_RECORD], const struct identity *id)
{
	identity_put(out + SUM_AT, identity_record_sum(out, id), 8);
}

void identity_encode_head(uint8_t out[IDENTITY_RECORD], const struct identity *id)
{
	memset(out, 0, IDENTITY_RECORD);
	memcpy(out, magic, sizeof magic);
	identity_put(out + 8, VERSION, 4);
	for (size_t i = 0; i < 2; i++) {
		identity_put(out + 16 + 8 * i, id->name[i], 8);
		identity_put(out + 32 + 8 * i, id->sampled[i], 8);
	}
	identity_put(out + HEAD_SUM_AT, XXH3_64bits(out, HEAD_SUM_AT), 8);
}

bool identity_decode_head(struct identity *id, const uint8_t in[IDENTITY_RECORD])
{
	if (memcmp(in, magic, sizeof magic) != 0 || identity_get(in + 8, 4) != VERSION ||
	    identity_get(in + HEAD_SUM_AT, 8) != XXH3_64bits(in, HEAD_SUM_AT))
		return false;
	for (size_t i = 0; i < 2; i++) {
		id->name[i] = identity_get(in + 16 + 8 * i, 8);
		id->sampled[i] = identity_get(in + 32 + 8 * i, 8);
	}
	return true;
}

void identity_encode_file(uint8_t out[IDENTITY_RECORD], const struct identity *id, uint32_t file)
{
	const struct identity_file *f = &id->files[file];
	identity_begin_record(out, KIND_FILE, file);
	identity_put(out + 8, f->name_hash, 8);
	identity_put(out + 16, f->stamp.size, 8);
	identity_put(out + 24, (uint64_t)f->stamp.modified.tv_sec, 8);
	identity_put(out + 32, (uint64_t)f->stamp.changed.tv_sec, 8);
	identity_put(out + 40, (uint64_t)f->stamp.modified.tv_nsec, 4);
	identity_put(out + 44, (uint64_t)f->stamp.changed.tv_nsec, 4);
	identity_seal_record(out, id);
}

void identity_encode_range(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			   const struct identity_range *r)
{
	identity_begin_record(out, KIND_RANGE, r->file);
	identity_put(out + 8, r->offset, 8);
	identity_put(out + 16, r->bytes, 8);
	identity_put(out + 24, r->hash, 8);
	identity_seal_record(out, id);
}

void identity_encode_end(uint8_t out[IDENTITY_RECORD], const struct identity *id,
			 enum identity_end end)
{
	identity_begin_record(out, end == IDENTITY_COMPLETE ? KIND_COMPLETE : KIND_CLOSED, 0);
	identity_put(out + 8, id->kept, 8);
	identity_seal_record(out, id);
}

static struct identity_file identity_find_file(const uint8_t in[IDENTITY_RECORD])
{
	return (struct identity_file){
		.name_hash = identity_get(in + 8, 8),
		.stamp = {.size = identity_get(in + 16, 8),
			  .modified = {(time_t)identity_get(in + 24, 8),
				       (long)identity_get(in + 40, 4)},
			  .changed = {(time_t)identity_get(in + 32, 8),
				      (long)identity_get(in + 44, 4)}},
	};
}

/* Adds a new file, or gives a known one a newer stamp. */
static int identity_take_file(struct identity *id, uint32_t file, const struct identity_file *f,
			      struct err *e)
{
	if (f->stamp.size > INT64_MAX)
		return 0;
	if (file == id->file_count)
		return identity_add_file(id, f, e);
	struct identity_file *known = file < id->file_count ? &id->files[file] : NULL;
	if (known && known->name_hash == f->name_hash && known->stamp.size == f->stamp.size)
		known->stamp = f->stamp;
	return 0;
}

int identity_decode(struct identity *id, const uint8_t in[IDENTITY_RECORD], struct err *e)
{
	if (identity_get(in + SUM_AT, 8) != identity_record_sum(in, id))
		return 0;
	uint64_t kind = identity_get(in, 4), count = identity_get(in + 8, 8);
	const struct identity_file file = identity_find_file(in);
	const struct identity_range range = {(uint32_t)identity_get(in + 4, 4),
					     identity_get(in + 8, 8), identity_get(in + 16, 8),
					     identity_get(in + 24, 8)};
	id->closed = kind == KIND_CLOSED && count == id->kept;
	switch (kind) {
	case KIND_FILE:
		return identity_take_file(id, range.file, &file, e);
	case KIND_RANGE:
		id->complete = false;
		if (range.file >= id->file_count || !range.bytes ||
		    range.offset > id->files[range.file].stamp.size ||
		    range.bytes > id->files[range.file].stamp.size - range.offset)
			return 0;
		id->kept++;
		return identity_add_range(id, &range, e);
	case KIND_COMPLETE:
		id->complete = count == id->kept && id->file_count > 0;
		return 0;
	default:
		return 0;
	}
}

/* ---- lists ---- */

int identity_add_file(struct identity *id, const struct identity_file *f, struct err *e)
{
	struct identity_file *files =
		id->file_count < IDENTITY_MOST_FILES
			? list_grow(id->files, id->file_count, &id->file_room, sizeof *f)
			: NULL;
	if (!files)
		return err_set(e, ENOMEM, "out of memory for the list of a checkpoint's files");
	id->files = files;
	files[id->file_count++] = *f;
	return 0;
}

int identity_add_range(struct identity *id, const struct identity_range *r, struct err *e)
{
	struct identity_range *ranges =
		id->range_count < IDENTITY_MOST_RANGES
			? list_grow(id->ranges, id->range_count, &id->range_room, sizeof *r)
			: NULL;
	if (!ranges)
		return err_set(e, ENOMEM, "out of memory for the sums of a checkpoint's tensors");
	id->ranges = ranges;
	ranges[id->range_count++] = *r;
	return 0;
}

static int identity_compare_places(const void *a, const void *b)
{
	const struct identity_range *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int identity_sort(struct identity *id, struct err *e)
{
	struct identity_range *r = id->ranges;
	size_t kept = 0;
	if (id->range_count)
		qsort(r, id->range_count, sizeof *r, identity_compare_places);
	for (size_t i = 0; i < id->range_count; i++) {
		bool again = kept && !identity_compare_places(&r[kept - 1], &r[i]);
		if (again && r[kept - 1].hash != r[i].hash)
			return err_set(e, ESTALE,
				       "the checkpoint was changed while it was read; try again");
		if (!again)
			r[kept++] = r[i];
	}
	id->range_count = kept;
	return 0;
}

bool identity_next_gap(const struct identity *id, struct identity_gaps *at,
		       struct identity_range *gap)
{
	if (!at->begun)
		*at = (struct identity_gaps){.count = id->range_count, .begun = true};
	while (at->file < id->file_count) {
		uint64_t from = at->offset, to = id->files[at->file].stamp.size;
		const struct identity_range *r =
			at->next < at->count ? &id->ranges[at->next] : NULL;
		bool last = !r || r->file != at->file;
		*gap = (struct identity_range){.file = at->file, .offset = from};
		if (last) {
			at->file++;
			at->offset = 0;
		} else {
			uint64_t end = r->offset + r->bytes;
			to = r->offset;
			at->offset = end > from ? end : from;
			at->next++;
		}
		if (to > from) {
			gap->bytes = to - from;
			return true;
		}
	}
	return false;
}

/* ---- against a source ---- */

enum identity_says identity_compare(const struct identity *id, const struct source_state *now)
{
	enum identity_says says = IDENTITY_SAME;
	if (memcmp(id->sampled, now->sampled, sizeof id->sampled) != 0)
		return IDENTITY_OTHER;
	for (uint32_t i = 0; i < id->file_count; i++) {
		const struct identity_file *f = &id->files[i];
		const struct source_file *is = source_find(now, f->name_hash);
		if (!is || is->stamp.size != f->stamp.size)
			return IDENTITY_OTHER;
		if (!source_stamps_equal(&is->stamp, &f->stamp))
			says = IDENTITY_MAYBE;
	}
	return says;
}

/* ---- in a store's folder ---- */

enum { PIECE_RECORDS = 1024 };

/* ---- reading ---- */

/* Records [1, …) of the file, in pieces. */
static int identity_read_records(struct identity *out, int fd, uint64_t bytes, const char *folder,
				 const char *name, struct err *e)
{
	uint8_t *piece = malloc((size_t)PIECE_RECORDS * IDENTITY_RECORD);
	uint64_t records = bytes / IDENTITY_RECORD;
	int failed =
		piece ? 0 : err_set(e, ENOMEM, "out of memory for reading %s/%s", folder, name);
	out->end = IDENTITY_RECORD;
	for (uint64_t i = 1; i < records && !failed; i += PIECE_RECORDS) {
		uint64_t n = records - i < PIECE_RECORDS ? records - i : PIECE_RECORDS;
		failed = store_file_read(fd, piece, n * IDENTITY_RECORD, i * IDENTITY_RECORD,
					 folder, name, e);
		for (uint64_t k = 0; k < n && !failed; k++) {
			const struct identity before = *out;
			failed = identity_decode(out, piece + k * IDENTITY_RECORD, e);
			if (!out->closed && (!out->complete || before.complete))
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
		failed = identity_read_records(out, fd, (uint64_t)bytes, folder, name, e);
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

/* If two mounts write the file at the same time, they write the same bytes. */
int identity_write(const struct identity *id, const char *folder, struct err *e)
{
	uint8_t *bytes = malloc((2 + id->file_count + id->range_count) * IDENTITY_RECORD);
	int dir = store_folder_open(folder, e);
	int fd = dir < 0 ? dir
			 : store_file_open(dir, folder, IDENTITY_FILE, O_RDWR | O_CREAT | O_TRUNC,
					   e);
	int failed = fd < 0 ? fd : 0;
	if (!failed && !bytes)
		failed = err_set(e, ENOMEM, "out of memory for %s/" IDENTITY_FILE, folder);
	if (!failed) {
		uint8_t *at = bytes;
		identity_encode_head(at, id);
		for (uint32_t i = 0; i < id->file_count; i++)
			identity_encode_file(at += IDENTITY_RECORD, id, i);
		for (size_t i = 0; i < id->range_count; i++)
			identity_encode_range(at += IDENTITY_RECORD, id, &id->ranges[i]);
		identity_encode_end(at += IDENTITY_RECORD, id, IDENTITY_COMPLETE);
		failed = store_file_write(fd, bytes, (size_t)(at - bytes) + IDENTITY_RECORD, 0,
					  folder, IDENTITY_FILE, e);
	}
	if (!failed)
		failed = store_file_sync(fd, folder, IDENTITY_FILE, e);
	io_close(fd);
	io_close(dir);
	free(bytes);
	return failed;
}

/* Writes after the last whole record; a torn record is overwritten. */
static int identity_append_stamps(const struct identity *id, int fd, const char *folder,
				  const char *name, struct err *e)
{
	uint8_t *bytes = malloc((size_t)id->file_count * IDENTITY_RECORD);
	if (!bytes)
		return err_set(e, ENOMEM, "out of memory for %s/%s", folder, name);
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
	/* Other mounts may append, too. Closing the descriptor releases the lock. */
	while (!failed && flock(fd, LOCK_EX))
		if (errno != EINTR)
			failed = err_sys(e, errno, "%s/%s: cannot be locked", folder, name);
	if (!failed)
		failed = identity_append_stamps(id, fd, folder, name, e);
	io_close(fd);
	io_close(dir);
	return failed;
}
