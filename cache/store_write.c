/* Writing a store: units by any number of threads, and publishing by renaming. store_commit.c makes
 * what is written durable, in groups.
 *
 * A coded record is collected in memory and coded by its own thread; it is written by who commits
 * it.
 */
#include "cache/store_writer.h"

#include "cache/checksum.h"
#include "cache/codec.h"
#include "cache/io.h"
#include "cache/store_files.h"
#include "cache/store_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- one unit ---- */

static void put_free(struct store_put *p)
{
	XXH3_freeState(p->hash);
	free(p->record);
	free(p->coded);
	free(p);
}

static struct store_put *put_new(struct store_writer *w, uint32_t unit)
{
	struct store_put *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->writer = w;
	p->unit = unit;
	bool coded = unit_is_coded(w, unit);
	if (coded) {
		p->place = (struct unit_place){&w->file[EXPERTS_FILE], 0,
					       index_record_bytes(&w->index, unit)};
		p->record = malloc(p->place.bytes);
	} else {
		p->place = unit_place(w, unit);
	}
	p->hash = XXH3_createState();
	if (!p->hash || (coded && !p->record)) {
		put_free(p);
		return NULL;
	}
	XXH3_64bits_reset(p->hash);
	return p;
}

int store_put_begin(struct store_writer *w, uint32_t unit, struct store_put **out, struct err *e)
{
	*out = NULL;
	if (unit >= store_writer_units(w))
		return err_set(e, EINVAL, "%s: has no unit %u", w->folder, unit);
	if (store_writer_has(w, unit))
		return err_set(e, EEXIST, "%s: unit %u is written already", w->folder, unit);
	struct store_put *p = put_new(w, unit);
	if (!p)
		return err_sys(e, ENOMEM, "%s: unit %u", w->folder, unit);
	int rc = 0;
	pthread_mutex_lock(&w->mutex);
	if (w->failure.code)
		rc = err_set(e, w->failure.code, "%s", w->failure.text);
	else if (w->state[unit] != UNIT_MISSING)
		rc = err_set(e, EEXIST, "%s: unit %u is written already", w->folder, unit);
	else
		w->state[unit] = UNIT_OPEN;
	pthread_mutex_unlock(&w->mutex);
	if (rc)
		put_free(p);
	else
		*out = p;
	return rc;
}

int store_put_bytes(struct store_put *p, const void *data, size_t bytes, struct err *e)
{
	const struct store_writer *w = p->writer;
	const struct data_file *f = p->place.file;
	if (bytes > p->place.bytes)
		return p->failed = err_set(e, EINVAL, "%s/%s: unit %u is longer than planned",
					   w->folder, f->partial, p->unit);
	if (p->record) {
		size_t done = index_record_bytes(&w->index, p->unit) - p->place.bytes;
		if (bytes)
			memcpy(p->record + done, data, bytes);
		p->place.bytes -= bytes;
		return 0;
	}
	int rc = store_file_write(f->fd, data, bytes, p->place.offset, w->folder, f->partial, e);
	if (rc)
		return p->failed = rc;
	checksum_add(p->hash, data, bytes);
	p->place.offset += bytes;
	p->place.bytes -= bytes;
	p->stored += bytes;
	return 0;
}

/* A whole record becomes what is stored of it. */
static int code_record(struct store_put *p, struct err *e)
{
	const struct store_writer *w = p->writer;
	size_t bytes = index_record_bytes(&w->index, p->unit);
	p->coded = malloc(codec_most(bytes));
	int rc = p->coded ? codec_encode(p->coded, &p->stored, p->record, bytes) : -ENOMEM;
	if (rc)
		return err_sys(e, -rc, "%s: coding unit %u", w->folder, p->unit);
	checksum_add(p->hash, p->coded, p->stored);
	free(p->record); /* a group may be long in coming */
	p->record = NULL;
	return 0;
}

void put_end(struct store_put *p, enum unit_state state)
{
	unit_end(p->writer, p->unit, state);
	put_free(p);
}

void store_put_abandon(struct store_put *p)
{
	put_end(p, UNIT_MISSING);
}

/* Whole, and as it is stored. Else it is ended. */
int put_seal(struct store_put *p, struct err *e)
{
	const struct store_writer *w = p->writer;
	int rc = p->failed;
	if (rc)
		rc = err_set(e, -rc, "%s/%s: unit %u could not be written", w->folder,
			     p->place.file->partial, p->unit);
	else if (p->place.bytes > 0)
		rc = err_set(e, EINVAL, "%s/%s: unit %u lacks its last %llu bytes", w->folder,
			     p->place.file->partial, p->unit, (unsigned long long)p->place.bytes);
	else if (p->record)
		rc = code_record(p, e);
	if (rc)
		put_end(p, UNIT_MISSING);
	return rc;
}

/* ---- the end ---- */

static int rename_partial(const struct store_writer *w, const char *from, const char *to,
			  struct err *e)
{
	int rc = io_rename(w->lock.dir, from, to);
	return rc ? store_write_error(e, -rc, w->folder, to) : 0;
}

/* A stale index goes before the data it describes is replaced, and the new one comes when the new
 * data is certainly in place: at no moment does an index stand beside data that is not its own.
 * After a failure it is called again: the index's partial file has changed the folder since, so
 * that a sync of it cannot pass over what an earlier one failed to write. */
static int rename_files(struct store_writer *w, struct err *e)
{
	int rc = io_remove(w->lock.dir, STORE_INDEX);
	if (rc && rc != -ENOENT)
		return store_write_error(e, -rc, w->folder, STORE_INDEX);
	rc = store_folder_sync(w->lock.dir, w->folder, e);
	for (int i = 0; !rc && i < DATA_FILES; i++) {
		if (!w->renamed[i])
			rc = rename_partial(w, w->file[i].partial, w->file[i].name, e);
		w->renamed[i] = !rc;
	}
	if (!rc)
		rc = store_folder_sync(w->lock.dir, w->folder, e);
	if (!rc)
		rc = rename_partial(w, STORE_INDEX STORE_PARTIAL, STORE_INDEX, e);
	return rc ? rc : store_folder_sync(w->lock.dir, w->folder, e);
}

/* A second sync would succeed, whatever became of the data. */
static void fail_for_good(struct store_writer *w, const struct err *why)
{
	pthread_mutex_lock(&w->mutex);
	w->failure = *why;
	pthread_mutex_unlock(&w->mutex);
}

static int publish(struct store_writer *w, struct err *e)
{
	uint32_t missing = 0;
	for (uint32_t i = 0; i < store_writer_units(w); i++)
		missing += !store_writer_has(w, i);
	if (missing)
		return err_set(e, EINVAL, "%s: %u of %u units are missing", w->folder, missing,
			       store_writer_units(w));
	if (w->failure.code)
		return err_set(e, w->failure.code, "%s", w->failure.text);
	for (int i = 0; i < DATA_FILES; i++) { /* a head alone is in no group */
		int rc = store_file_sync(w->file[i].fd, w->folder, w->file[i].partial, e);
		if (rc) {
			fail_for_good(w, e);
			return rc;
		}
	}
	int rc = index_write(w->lock.dir, w->folder, &w->index, e);
	return rc ? rc : rename_files(w, e);
}

int store_writer_publish(struct store_writer *w, struct err *e)
{
	int rc = publish(w, e);
	if (!rc) /* complete: a journal that stays behind would be harmless */
		(void)io_remove(w->lock.dir, STORE_JOURNAL);
	return rc;
}

int store_writer_finish(struct store_writer *w, struct err *e)
{
	int rc = store_writer_publish(w, e);
	store_writer_close(w, true);
	return rc;
}
