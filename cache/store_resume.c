/* Begins or resumes a conversion: opens the folder, takes the lock, resumes or removes an earlier
 * conversion, checks the free space, and creates the files.
 *
 * A journal of the same plan is resumed. Each of its entries names a unit whose data was synced
 * before the entry was written. The data is still read again and compared with the entry's
 * checksum, so that damage costs only that unit. This check is made when the unit is first asked
 * for, so that a large store that is nearly complete opens at once. All other files of a conversion
 * are removed. A published store stays for its users until the new one replaces it.
 */
#include "cache/store_inside.h"

#include "cache/io.h"
#include "cache/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- an earlier conversion ---- */

/* Opens a partial file. A crash while publishing may have left the file under its final name; then
 * it is renamed back, but only if there is no index, which would make the file part of a complete
 * store. */
static int resume_reopen_partial(struct store_writer *w, struct writer_file *f, struct err *e)
{
	if (faccessat(w->lock.dir, f->partial, F_OK, AT_SYMLINK_NOFOLLOW) &&
	    faccessat(w->lock.dir, STORE_INDEX, F_OK, AT_SYMLINK_NOFOLLOW))
		(void)io_rename(w->lock.dir, f->name, f->partial);
	f->fd = store_file_open(w->lock.dir, w->folder, f->partial, O_RDWR, e);
	if (f->fd < 0)
		return f->fd;
	int64_t size = store_file_size(f->fd, w->folder, f->partial, e);
	if (size < 0 || (f->grows ? (uint64_t)size < f->size : (uint64_t)size != f->size))
		return -ESTALE;
	return 0;
}

/* Whether the plan has this unit and the unit may lie there. Only the entry knows the place of a
 * coded record. The record was in the file (now of `experts_bytes`) before the entry was
 * written. */
static bool resume_entry_valid(const struct store_writer *w,
			       const struct store_journal_entry *entry, uint64_t experts_bytes)
{
	struct store_range r = entry->place;
	if (entry->unit >= store_units(&w->index.info))
		return false;
	if (store_unit_is_coded(w, entry->unit))
		return store_range_valid(&w->index, entry->unit, r) &&
		       r.offset + r.bytes <= experts_bytes;
	const struct writer_place planned = writer_unit_place(w, entry->unit);
	return r.offset == planned.offset && r.bytes == planned.bytes;
}

/* Marks a unit of the journal as LEFT, without checking its data yet. */
static void resume_take_unit(struct store_writer *w, const struct store_journal_entry *entry)
{
	uint32_t unit = entry->unit;
	if (store_unit_is_coded(w, unit)) {
		uint64_t end = entry->place.offset + entry->place.bytes;
		w->index.stored[unit] = entry->place; /* a unit's last entry is valid */
		w->experts_end = end > w->experts_end ? end : w->experts_end;
	}
	w->index.checksums[unit] = entry->checksum;
	w->state[unit] = UNIT_LEFT;
	w->resumed = true;
}

/* Resumes every whole and valid entry. Skips torn and damaged entries, each of which costs a unit.
 * New entries begin after the last whole entry. */
static int resume_read_journal(struct store_writer *w, int64_t size)
{
	const struct writer_file *experts = &w->file[EXPERTS_FILE];
	uint8_t bytes[JOURNAL_ENTRY];
	uint64_t at = JOURNAL_HEAD;
	struct store_journal_entry entry;
	int64_t experts_bytes = store_file_size(experts->fd, w->folder, experts->partial, NULL);
	if (experts_bytes < 0)
		return (int)experts_bytes;
	if ((uint64_t)size > store_journal_most(&w->index.info))
		return -ESTALE;

	for (; at + JOURNAL_ENTRY <= (uint64_t)size; at += JOURNAL_ENTRY) {
		int rc = store_file_read(w->journal, bytes, sizeof bytes, at, w->folder,
					 STORE_JOURNAL, NULL);
		if (rc)
			return rc;
		if (store_journal_decode_entry(&entry, bytes, w->digest) &&
		    resume_entry_valid(w, &entry, (uint64_t)experts_bytes))
			resume_take_unit(w, &entry);
	}
	w->journal_end = at;
	return 0;
}

/* Reads the journal's header, and leaves the journal open in *fd. */
static int resume_read_head(int dir, const char *folder, int *fd, int64_t *size,
			    struct store_journal_head *head)
{
	uint8_t bytes[JOURNAL_HEAD];
	*fd = store_file_open(dir, folder, STORE_JOURNAL, O_RDWR, NULL);
	if (*fd < 0)
		return *fd;
	*size = store_file_size(*fd, folder, STORE_JOURNAL, NULL);
	if (*size < JOURNAL_HEAD)
		return -ESTALE;
	int rc = store_file_read(*fd, bytes, sizeof bytes, 0, folder, STORE_JOURNAL, NULL);
	return rc ? rc : store_journal_decode_head(head, bytes) ? 0 : -ESTALE;
}

/* Reads the header of the folder's journal. -ENOENT: no journal, or it cannot be read. */
static int resume_find_head(const char *folder, struct store_journal_head *head)
{
	int64_t size;
	int fd = -1, dir = store_folder_open(folder, NULL);
	int rc = dir < 0 ? dir : resume_read_head(dir, folder, &fd, &size, head);
	io_close(fd);
	io_close(dir);
	return rc ? -ENOENT : 0;
}

int store_unfinished(const char *folder, struct store_key *key)
{
	struct store_journal_head head;
	if (resume_find_head(folder, &head) || head.key.recipe[sizeof head.key.recipe - 1])
		return -ENOENT;
	*key = head.key;
	return 0;
}

bool store_interrupted(const char *folder, const struct store_plan *plan)
{
	struct store_journal_head head;
	struct store_digest digest = store_plan_digest(plan);
	return !resume_find_head(folder, &head) && store_digest_equal(head.digest, digest);
}

/* Returns 0 if it resumes an earlier conversion by the same plan; otherwise begin a new one. */
static int resume_earlier(struct store_writer *w, struct err *e)
{
	struct store_journal_head head;
	int64_t size;
	int rc = resume_read_head(w->lock.dir, w->folder, &w->journal, &size, &head);
	if (!rc && !store_digest_equal(head.digest, w->digest))
		rc = -ESTALE;
	for (int i = 0; !rc && i < DATA_FILES; i++)
		rc = resume_reopen_partial(w, &w->file[i], e);
	if (!rc)
		rc = resume_read_journal(w, size);
	/* Cut a coded file after the last resumed record: no entry covers the bytes beyond. */
	while (!rc && w->index.stored && ftruncate(w->file[EXPERTS_FILE].fd, (off_t)w->experts_end))
		rc = errno == EINTR ? 0 : -errno;
	return rc;
}

/* ---- the new files ---- */

static int resume_check_space(struct store_writer *w, struct err *e)
{
	/* Each part is below 2^63, and STORE_MAX_UNITS bounds the index and the journal. */
	const uint64_t sizes[DATA_FILES] = {
		[EXPERTS_FILE] = w->expected_bytes,
		[DENSE_FILE] = w->file[DENSE_FILE].size,
	};
	uint64_t need, have;
	uint64_t tables = store_index_bytes(&w->index.info) + JOURNAL_HEAD +
			  (uint64_t)JOURNAL_ENTRY * store_units(&w->index.info);
	if (__builtin_add_overflow(sizes[EXPERTS_FILE], sizes[DENSE_FILE], &need) ||
	    __builtin_add_overflow(need, tables, &need))
		need = UINT64_MAX;
	for (int i = 0; i < DATA_FILES; i++) {
		struct stat st; /* space that an earlier conversion already uses */
		if (w->file[i].fd >= 0 && fstat(w->file[i].fd, &st) == 0) {
			uint64_t taken = (uint64_t)st.st_blocks * 512;
			need -= taken < sizes[i] ? taken : sizes[i];
		}
	}
	int rc = io_free_space(w->lock.dir, &have);
	if (rc)
		return err_sys(e, -rc, "%s: cannot tell the free space", w->folder);
	if (have >= need)
		return 0;
	return err_set(
		e, ENOSPC,
		"%s: the store needs %.1f MB and %.1f MB are free, %.1f MB too few; free some "
		"space, or choose another folder with -o store=",
		w->folder, (double)need / 1e6, (double)have / 1e6, (double)(need - have) / 1e6);
}

static int resume_create_files(struct store_writer *w, struct err *e)
{
	uint8_t head[JOURNAL_HEAD];
	const struct store_journal_head values = {w->digest, w->index.info.key};
	const int flags = O_RDWR | O_CREAT | O_EXCL;
	for (int i = 0; i < DATA_FILES; i++) {
		struct writer_file *f = &w->file[i];
		f->fd = store_file_open(w->lock.dir, w->folder, f->partial, flags, e);
		if (f->fd < 0)
			return f->fd;
		/* A reserved file has its full size from the start. The journal says which parts
		 * are data, and only an index makes it a store. */
		int rc = store_file_reserve(f->fd, f->size, w->folder, f->partial, e);
		if (rc)
			return rc;
	}
	w->journal = store_file_open(w->lock.dir, w->folder, STORE_JOURNAL, flags, e);
	if (w->journal < 0)
		return w->journal;
	store_journal_encode_head(head, &values);
	w->journal_end = JOURNAL_HEAD;
	w->journal_dirty = true;
	return store_file_write(w->journal, head, sizeof head, 0, w->folder, STORE_JOURNAL, e);
}

/* Every run writes the headers again, since no checksum covers them. */
static int resume_write_heads(struct store_writer *w, const struct store_plan *plan, struct err *e)
{
	const struct writer_file *experts = &w->file[EXPERTS_FILE], *dense = &w->file[DENSE_FILE];
	int rc = store_file_write(experts->fd, plan->experts_header, plan->experts_header_bytes, 0,
				  w->folder, experts->partial, e);
	if (!rc)
		rc = store_file_write(dense->fd, plan->dense_header, plan->dense_header_bytes, 0,
				      w->folder, dense->partial, e);
	return rc ? rc : store_folder_sync(w->lock.dir, w->folder, e);
}

static void resume_forget_files(struct store_writer *w)
{
	int *fds[] = {&w->journal, &w->file[EXPERTS_FILE].fd, &w->file[DENSE_FILE].fd};
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
		io_close(*fds[i]);
		*fds[i] = -1;
	}
	for (uint32_t i = 0; i < store_units(&w->index.info); i++)
		w->state[i] = UNIT_MISSING;
	for (uint32_t i = 0; w->index.stored && i < store_records(&w->index.info); i++)
		w->index.stored[i] = (struct store_range){0};
	w->experts_end = w->index.info.experts_base;
	w->resumed = false;
}

/* Call with the lock held. *keep: whether to keep the folder's files if this fails. */
static int resume_or_begin(struct store_writer *w, const struct store_plan *plan, bool *keep,
			   struct err *e)
{
	struct store *s;
	*keep = true;
	if (!store_open(&s, w->folder, &plan->key, NULL)) {
		bool published = !store_check(s, &plan->layout, NULL);
		store_close(s);
		if (published)
			return err_set(e, EEXIST, "%s: holds this store already", w->folder);
	}
	int rc;
	bool anew = resume_earlier(w, NULL) != 0;
	if (anew) {
		*keep = false;
		resume_forget_files(w);
		store_remove_leftovers(w);
	}
	rc = resume_check_space(w, e);
	if (!rc && anew)
		rc = resume_create_files(w, e);
	if (!rc)
		rc = resume_write_heads(w, plan, e);
	return rc;
}

int store_writer_open(struct store_writer **out, const char *folder, const struct store_plan *plan,
		      struct err *e)
{
	struct store_writer *w = NULL;
	bool keep;
	*out = NULL;
	int rc = store_writer_new(&w, folder, plan, e);
	if (rc)
		return rc;
	rc = store_lock_take(&w->lock, folder, e);
	if (rc) {
		store_writer_free(w);
		return rc;
	}
	rc = resume_or_begin(w, plan, &keep, e);
	if (rc) {
		store_writer_close(w, keep);
		return rc;
	}
	*out = w;
	return 0;
}
