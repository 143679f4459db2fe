/* Reading a store: opens the three files, checks that they match the index, and finds, verifies and
 * decodes units. The pager reads experts by itself. For other readers of experts, which only
 * inspect them, the store keeps one decoded record. */
#include "cache/store.h"
#include "cache/io.h"

#include "cache/checksum.h"
#include "cache/codec.h"
#include "cache/store_files.h"
#include "cache/store_format.h"
#include "cache/store_in_place.h"
#include "cache/store_inside.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ---- */

/* Opens a data file and checks its size against the index. A file that still grows may be
 * larger. */
static int store_open_data(const struct store *s, int dir, const char *name, uint64_t expected,
			   bool grows, struct err *e)
{
	int fd = store_file_open(dir, s->folder, name, O_RDONLY, e);
	if (fd == -ENOENT) /* an index without data is damage, not the absence of a store */
		return err_damaged(e, "%s/%s: is missing; remove the folder to convert again",
				   s->folder, name);
	if (fd < 0)
		return fd;
	int64_t size = store_file_size(fd, s->folder, name, e);
	int rc = size < 0 ? (int)size : 0;
	if (!rc && ((uint64_t)size < expected || (!grows && (uint64_t)size > expected)))
		rc = err_damaged(e,
				 "%s/%s: is %lld bytes and should be %s%llu; remove the folder to "
				 "convert again",
				 s->folder, name, (long long)size, grows ? "at least " : "",
				 (unsigned long long)expected);
	if (rc)
		close(fd);
	return rc ? rc : fd;
}

static int store_open_once(struct store *s, int dir, const struct store_key *key, struct err *e)
{
	int rc = store_index_read(&s->index, dir, s->folder, e);
	const struct store_info *info = &s->index.info;
	if (!rc && key && !store_key_equal(key, &info->key))
		rc = err_set(e, ESTALE,
			     "%s: was made from another checkpoint or by another recipe (\"%s\" "
			     "instead of \"%.*s\")",
			     s->folder, info->key.recipe, (int)sizeof key->recipe, key->recipe);
	if (!rc) {
		s->experts = store_open_data(s, dir, STORE_EXPERTS, store_experts_size(&s->index),
					     false, e);
		rc = s->experts < 0 ? s->experts : 0;
	}
	if (!rc) {
		s->dense = store_open_data(s, dir, STORE_DENSE, store_dense_size(info), false, e);
		rc = s->dense < 0 ? s->dense : 0;
	}
	if (!rc)
		s->direct = store_file_open_direct(dir, STORE_EXPERTS, O_NOFOLLOW, s->experts,
						   &s->align);
	return rc;
}

static void store_close_files(struct store *s)
{
	int *fds[] = {&s->experts, &s->direct, &s->dense};
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
		io_close(*fds[i]);
		*fds[i] = -1;
	}
	store_index_free(&s->index);
}

/* Identifies the index file. When a store is replaced, its index is removed first, and the new
 * index is renamed last. */
static void store_stat_index(int dir, struct stat *st)
{
	if (fstatat(dir, STORE_INDEX, st, AT_SYMLINK_NOFOLLOW))
		*st = (struct stat){0};
}

/* Opens all files, and repeats that if the index changed meanwhile. So the files belong to the
 * index that was read. */
static int store_open_files(struct store *s, const struct store_key *key, struct err *e)
{
	int rc, dir = store_folder_open(s->folder, e);
	struct stat before, after;
	if (dir < 0)
		return dir;
	store_stat_index(dir, &after);
	do {
		before = after;
		store_close_files(s);
		rc = store_open_once(s, dir, key, e);
		store_stat_index(dir, &after);
	} while (before.st_ino != after.st_ino || before.st_ctim.tv_sec != after.st_ctim.tv_sec ||
		 before.st_ctim.tv_nsec != after.st_ctim.tv_nsec);
	close(dir);
	return rc;
}

struct store *store_new(const char *folder, struct err *e)
{
	struct store *s = calloc(1, sizeof *s);
	if (s) {
		s->experts = s->direct = s->dense = -1;
		s->folder = strdup(folder);
	}
	if (s && s->folder)
		return s;
	free(s);
	err_sys(e, ENOMEM, "%s", folder);
	return NULL;
}

int store_open(struct store **out, const char *folder, const struct store_key *key, struct err *e)
{
	*out = NULL;
	struct store *s = store_new(folder, e);
	if (!s)
		return -ENOMEM;
	int rc = store_open_files(s, key, e);
	if (rc) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_close_files(s);
	store_in_place_free(s->place);
	pthread_mutex_destroy(&s->look);
	free(s->looked);
	free((void *)s->state);
	free(s->folder);
	free(s);
}

int store_check(const struct store *s, const struct store_layout *layout, struct err *e)
{
	return store_index_check(&s->index, layout, s->folder, e);
}

const struct store_info *store_info(const struct store *s)
{
	return &s->index.info;
}

const char *store_folder(const struct store *s)
{
	return s->folder;
}

int store_in_place_open(struct store **out, const struct in_place_source *of, struct err *e)
{
	*out = NULL;
	struct store *s = store_new(of->name, e);
	if (!s)
		return -ENOMEM;
	int failed = store_in_place_attach(s, of, e);
	if (failed)
		store_close(s);
	else
		*out = s;
	return failed;
}

/* ---- experts ---- */

static uint32_t store_record_number(const struct store *s, uint32_t layer, uint32_t expert)
{
	assert(layer < s->index.info.layers && expert < s->index.info.experts);
	return layer * s->index.info.experts + expert;
}

static bool store_has_unit(const struct store *s, uint32_t unit)
{
	return !s->state || s->state[unit] == UNIT_DONE;
}

bool store_has_expert(const struct store *s, uint32_t layer, uint32_t expert)
{
	return store_has_unit(s, store_record_number(s, layer, expert));
}

static struct store_range store_record_range(const struct store *s, uint32_t unit)
{
	return s->index.stored ? s->index.stored[unit] : store_index_plain_range(&s->index, unit);
}

struct store_extent store_expert(const struct store *s, uint32_t layer, uint32_t expert)
{
	uint32_t unit = store_record_number(s, layer, expert);
	struct store_range r = store_record_range(s, unit);
	assert(!s->place);
	return (struct store_extent){
		.fd = s->experts,
		.direct_fd = s->direct,
		.offset = r.offset,
		.bytes = r.bytes,
		.align = s->align,
		.checksum = s->index.checksums[unit],
	};
}

void store_expert_extents(const struct store *s, uint32_t layer, uint32_t expert,
			  struct store_extents *out)
{
	if (s->place) {
		store_in_place_extents(s, store_record_number(s, layer, expert), out);
		return;
	}
	out->count = 1;
	out->extent[0] = store_expert(s, layer, expert);
}

uint64_t store_record_bytes(const struct store *s, uint32_t layer)
{
	return s->index.layers[layer].bytes;
}

uint64_t store_experts_bytes(const struct store *s)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < store_records(&s->index.info); i++)
		sum += store_record_range(s, i).bytes;
	return sum;
}

static int store_record_damaged(const struct store *s, uint32_t layer, uint32_t expert,
				struct err *e)
{
	return err_damaged(e,
			   "%s/" STORE_EXPERTS ": layer %u expert %u is damaged (its checksum does "
			   "not "
			   "match); remove the folder to convert again",
			   s->folder, layer, expert);
}

int store_verify_expert(const struct store *s, uint32_t layer, uint32_t expert, const void *stored,
			struct err *e)
{
	uint32_t unit = store_record_number(s, layer, expert);
	uint64_t sum = checksum_of(stored, store_record_range(s, unit).bytes);
	return sum == s->index.checksums[unit] ? 0 : store_record_damaged(s, layer, expert, e);
}

size_t store_scratch_bytes(const struct store *s)
{
	return s->index.stored ? s->index.info.record_bytes + CODEC_TEMP : 0;
}

int store_unpack_expert(const struct store *s, uint32_t layer, uint32_t expert, const void *stored,
			void *scratch, const void **record, struct err *e)
{
	size_t bytes = store_record_bytes(s, layer);
	int rc = store_verify_expert(s, layer, expert, stored, e);
	*record = stored;
	if (rc || !s->index.stored)
		return rc;
	rc = codec_decode(scratch, bytes, stored, store_expert(s, layer, expert).bytes,
			  (uint8_t *)scratch + bytes);
	*record = scratch;
	if (rc == -ENOMEM)
		return err_sys(e, ENOMEM, "%s: decoding layer %u expert %u", s->folder, layer,
			       expert);
	return rc ? store_record_damaged(s, layer, expert, e) : 0;
}

int store_unpack_pieces(const struct store *s, uint32_t layer, uint32_t expert,
			const struct store_pieces *stored, void *scratch,
			struct store_pieces *record, struct err *e)
{
	*record = *stored;
	if (s->place)
		return store_in_place_verify(s, store_record_number(s, layer, expert), stored, e);
	record->piece[0].bytes = store_record_bytes(s, layer);
	return store_unpack_expert(s, layer, expert, stored->piece[0].data, scratch,
				   &record->piece[0].data, e);
}

int store_read_failed(const struct store *s, uint32_t layer, uint32_t expert, int code,
		      struct err *e)
{
	if (s->place)
		return store_in_place_read_failed(s, store_record_number(s, layer, expert), code,
						  e);
	if (code == ENODATA)
		return err_damaged(e,
				   "%s/" STORE_EXPERTS ": ends before layer %u expert %u does; "
				   "remove "
				   "the folder to convert again",
				   s->folder, layer, expert);
	return err_sys(e, code,
		       "%s/" STORE_EXPERTS ": cannot read layer %u expert %u; try again, or remove "
		       "the folder to convert again",
		       s->folder, layer, expert);
}

/* Decodes a record into s->looked. Call with the mutex held. */
static int store_keep_decoded(struct store *s, uint32_t layer, uint32_t expert, struct err *e)
{
	const void *record;
	struct store_extent x = store_expert(s, layer, expert);
	void *stored = malloc(x.bytes);
	uint8_t *scratch = s->looked ? s->looked : malloc(store_scratch_bytes(s));
	s->looked = NULL; /* NULL until it holds a whole record again */
	int rc = stored && scratch ? 0
				   : err_sys(e, ENOMEM, "%s: reading layer %u expert %u", s->folder,
					     layer, expert);
	if (!rc)
		rc = store_file_read(x.fd, stored, x.bytes, x.offset, s->folder, STORE_EXPERTS, e);
	if (!rc)
		rc = store_unpack_expert(s, layer, expert, stored, scratch, &record, e);
	free(stored);
	if (rc) {
		free(scratch);
		return rc;
	}
	s->looked = scratch;
	s->looked_at = store_record_number(s, layer, expert);
	return 0;
}

int store_read_expert(struct store *s, uint32_t layer, uint32_t expert, uint64_t offset,
		      void *buffer, size_t bytes, struct err *e)
{
	uint64_t size = store_record_bytes(s, layer);
	if (offset > size || bytes > size - offset)
		return err_set(e, EINVAL, "%s: %zu bytes at %llu are not in an expert's %llu",
			       s->folder, bytes, (unsigned long long)offset,
			       (unsigned long long)size);
	if (s->place)
		return store_in_place_read_record(s, store_record_number(s, layer, expert), offset,
						  buffer, bytes, e);
	if (!s->index.stored)
		return store_file_read(s->experts, buffer, bytes,
				       store_expert(s, layer, expert).offset + offset, s->folder,
				       STORE_EXPERTS, e);
	pthread_mutex_lock(&s->look);
	int rc = 0;
	if (!s->looked || s->looked_at != store_record_number(s, layer, expert))
		rc = store_keep_decoded(s, layer, expert, e);
	if (!rc)
		memcpy(buffer, s->looked + offset, bytes);
	pthread_mutex_unlock(&s->look);
	return rc;
}

/* The error for a buffer that does not have the unit's size. */
static int store_wrong_size(const struct store *s, const char *name, uint64_t has, uint64_t wanted,
			    struct err *e)
{
	return err_damaged(
		e,
		"%s/%s: a unit has %llu bytes instead of %llu; remove the folder to convert again",
		s->folder, name, (unsigned long long)has, (unsigned long long)wanted);
}

int store_read_record(const struct store *s, uint32_t layer, uint32_t expert, void *record,
		      size_t bytes, struct err *e)
{
	const void *got;
	if (bytes != store_record_bytes(s, layer))
		return store_wrong_size(s, STORE_EXPERTS, store_record_bytes(s, layer), bytes, e);
	if (s->place) {
		const struct store_pieces whole = {1, {{record, bytes}}};
		uint32_t unit = store_record_number(s, layer, expert);
		int failed = store_in_place_read_record(s, unit, 0, record, bytes, e);
		return failed ? failed : store_in_place_verify(s, unit, &whole, e);
	}
	struct store_extent x = store_expert(s, layer, expert);
	size_t scratch_bytes = store_scratch_bytes(s);
	void *stored = malloc(x.bytes), *scratch = malloc(scratch_bytes + 1);
	int rc = stored && scratch ? 0
				   : err_sys(e, ENOMEM, "%s: reading layer %u expert %u", s->folder,
					     layer, expert);
	if (!rc)
		rc = store_file_read(x.fd, stored, x.bytes, x.offset, s->folder, STORE_EXPERTS, e);
	if (!rc)
		rc = store_unpack_expert(s, layer, expert, stored, scratch, &got, e);
	if (!rc)
		memcpy(record, got, bytes);
	free(stored);
	free(scratch);
	return rc;
}

/* ---- dense data ---- */

struct store_range store_dense_unit(const struct store *s, uint32_t unit)
{
	assert(unit < s->index.info.dense_units);
	const uint64_t *offset = s->index.dense_offsets + unit;
	return (struct store_range){offset[0], offset[1] - offset[0]};
}

int store_read_dense_bytes(const struct store *s, uint64_t offset, void *buffer, size_t bytes,
			   struct err *e)
{
	const struct store_info *info = &s->index.info;
	if (offset > info->dense_bytes || bytes > info->dense_bytes - offset)
		return err_set(e, EINVAL,
			       "%s/" STORE_DENSE ": %zu bytes at %llu are not in its %llu",
			       s->folder, bytes, (unsigned long long)offset,
			       (unsigned long long)info->dense_bytes);
	return store_file_read(s->dense, buffer, bytes, info->dense_base + offset, s->folder,
			       STORE_DENSE, e);
}

int store_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
		     struct err *e)
{
	struct store_range r = store_dense_unit(s, unit);
	if (r.bytes != bytes)
		return store_wrong_size(s, STORE_DENSE, r.bytes, bytes, e);
	if (s->place)
		return store_in_place_read_dense(s, unit, buffer, bytes, e);
	if (!store_has_unit(s, store_records(&s->index.info) + unit))
		return err_set(e, ENODATA, "%s/" STORE_DENSE ": unit %u is not converted yet",
			       s->folder, unit);
	int rc = store_read_dense_bytes(s, r.offset, buffer, bytes, e);
	if (rc)
		return rc;
	if (checksum_of(buffer, bytes) == s->index.checksums[store_records(&s->index.info) + unit])
		return 0;
	return err_damaged(e,
			   "%s/" STORE_DENSE
			   ": unit %u is damaged (its checksum does not match); remove "
			   "the folder to convert again",
			   s->folder, unit);
}

/* ---- the view of a conversion ---- */

int store_writer_view(struct store_writer *w, struct store **out, struct err *e)
{
	const struct writer_file *experts = &w->file[EXPERTS_FILE], *dense = &w->file[DENSE_FILE];
	*out = NULL;
	assert(!w->lent);
	struct store *s = store_new(w->folder, e);
	if (!s)
		return -ENOMEM;
	s->experts =
		store_open_data(s, w->lock.dir, experts->partial, experts->size, experts->grows, e);
	s->dense = s->experts < 0
			   ? s->experts
			   : store_open_data(s, w->lock.dir, dense->partial, dense->size, false, e);
	if (s->dense < 0) {
		int rc = s->dense;
		store_close(s);
		return rc;
	}
	s->direct = store_file_open_direct(w->lock.dir, experts->partial, O_NOFOLLOW, s->experts,
					   &s->align);
	/* The view shares these tables with the writer, so it sees each unit that the writer adds.
	 * From now on the view owns the tables. */
	s->index = w->index;
	s->state = w->state;
	w->lent = true;
	*out = s;
	return 0;
}
