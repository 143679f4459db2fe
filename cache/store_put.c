/* Writing a unit, and committing units in groups.
 *
 * A coded record is collected in memory. The thread that made it codes it; the thread that commits
 * its group writes it.
 *
 * Group commit: a finished unit joins a list. The first thread that finds no other thread syncing
 * becomes the leader. It takes the whole list, syncs the files that the units lie in, writes one
 * journal entry for each unit, and wakes the threads that wait. So all units that finish during one
 * sync share the next, and a journal entry is never written before its data is on disk. Journal
 * entries are synced with the next group: a power cut loses the last group; a killed process loses
 * only the units that were not committed.
 *
 * Deferred commit: a thread that must not wait (its batch waits for the record, or it has another
 * record to make) leaves its unit in the list, and the writer's own thread is the leader. The bytes
 * of deferred units are bounded; a thread that exceeds the bound waits.
 *
 * Coded records get their places, and are written, when their group is synced. Groups follow one
 * another, so the records of a file lie in the order of their journal entries, and a crash loses
 * only records at the end of the file.
 */
#include "cache/store_inside.h"

#include "cache/checksum.h"
#include "cache/codec.h"
#include "cache/io.h"
#include "cache/store_files.h"

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
	bool coded = store_unit_is_coded(w, unit);
	if (coded) {
		p->place = (struct writer_place){&w->file[EXPERTS_FILE], 0,
						 store_index_record_bytes(&w->index, unit)};
		p->record = malloc(p->place.bytes);
	} else {
		p->place = writer_unit_place(w, unit);
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
	const struct writer_file *f = p->place.file;
	if (bytes > p->place.bytes)
		return p->failed = err_set(e, EINVAL, "%s/%s: unit %u is longer than planned",
					   w->folder, f->partial, p->unit);
	if (p->record) {
		size_t done = store_index_record_bytes(&w->index, p->unit) - p->place.bytes;
		if (bytes)
			memcpy(p->record + done, data, bytes);
		p->place.bytes -= bytes;
		return 0;
	}
	int rc = store_file_write(f->fd, data, bytes, p->place.offset, w->folder, f->partial, e);
	if (rc)
		return p->failed = rc;
	checksum_update(p->hash, data, bytes);
	p->place.offset += bytes;
	p->place.bytes -= bytes;
	p->stored += bytes;
	return 0;
}

/* Encodes a whole record. */
static int put_code_record(struct store_put *p, struct err *e)
{
	const struct store_writer *w = p->writer;
	size_t bytes = store_index_record_bytes(&w->index, p->unit);
	p->coded = malloc(codec_most(bytes));
	int rc = p->coded ? codec_encode(p->coded, &p->stored, p->record, bytes) : -ENOMEM;
	if (rc)
		return err_sys(e, -rc, "%s: coding unit %u", w->folder, p->unit);
	checksum_update(p->hash, p->coded, p->stored);
	free(p->record); /* now: the group may be committed much later */
	p->record = NULL;
	return 0;
}

void put_end(struct store_put *p, enum unit_state state)
{
	writer_unit_end(p->writer, p->unit, state);
	put_free(p);
}

void store_put_abandon(struct store_put *p)
{
	put_end(p, UNIT_MISSING);
}

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
		rc = put_code_record(p, e);
	if (rc)
		put_end(p, UNIT_MISSING);
	return rc;
}

/* The bound for deferred records in bytes; a single larger record is allowed. They are written and
 * not synced or, if coded, in memory. 32 MiB are about ten records: as many as are made during a
 * sync of a disk that keeps up. A slower disk would fill any larger bound, too. */
enum { DEFERRED_MOST = 32 << 20 };

/* ---- a group ---- */

/* Places the coded records of a group one after the other, and writes them. */
static int put_write_coded(struct store_writer *w, struct store_put *group, struct err *e)
{
	const struct writer_file *f = &w->file[EXPERTS_FILE];
	for (struct store_put *p = group; p; p = p->next) {
		if (!p->coded)
			continue;
		struct store_range r = {store_range_next(w->experts_end), p->stored};
		int rc = store_file_write(f->fd, p->coded, r.bytes, r.offset, w->folder, f->partial,
					  e);
		if (rc)
			return rc;
		free(p->coded); /* now: the sync may take long */
		p->coded = NULL;
		w->index.stored[p->unit] = r;
		w->experts_end = r.offset + r.bytes;
	}
	return 0;
}

/* Syncs every file that has a unit of the group, and the journal entries of the group before. */
static int put_sync_group(struct store_writer *w, const struct store_put *group, struct err *e)
{
	for (int i = 0; i < DATA_FILES; i++) {
		const struct store_put *p = group;
		while (p && p->place.file != &w->file[i])
			p = p->next;
		int rc = p ? store_file_sync(w->file[i].fd, w->folder, w->file[i].partial, e) : 0;
		if (rc)
			return rc;
	}
	return w->journal_dirty ? store_file_sync(w->journal, w->folder, STORE_JOURNAL, e) : 0;
}

/* Writes a unit's journal entry. A failure costs only this unit: the next entry takes the place. */
static int put_write_journal_entry(struct store_writer *w, struct store_put *p)
{
	uint8_t bytes[JOURNAL_ENTRY];
	const struct writer_place place = writer_unit_place(w, p->unit);
	const struct store_journal_entry entry = {
		.unit = p->unit,
		.place = {place.offset, place.bytes},
		.checksum = XXH3_64bits_digest(p->hash),
	};
	w->index.checksums[p->unit] = entry.checksum;
	store_journal_encode_entry(bytes, w->digest, &entry);
	int rc = store_file_write(w->journal, bytes, sizeof bytes, w->journal_end, w->folder,
				  STORE_JOURNAL, &p->error);
	if (!rc)
		w->journal_end += sizeof bytes;
	return rc;
}

/* Commits a group. Called by the leader, without the mutex: while `syncing` is set, no other thread
 * uses the journal. Fails if a sync fails. */
static int put_commit_group(struct store_writer *w, struct store_put *group, struct err *e)
{
	int rc = put_write_coded(w, group, e);
	if (!rc)
		rc = put_sync_group(w, group, e);
	for (struct store_put *p = group; !rc && p; p = p->next)
		p->result = put_write_journal_entry(w, p);
	w->journal_dirty = true;
	return rc;
}

/* Call with the mutex held. Settles each unit of a group: wakes the waiting threads, and returns
 * the deferred units. */
static struct store_put *put_settle_group(struct store_writer *w, struct store_put *group)
{
	struct store_put *deferred = NULL, **last = &deferred, *next;
	for (struct store_put *p = group; p; p = next) {
		next = p->next; /* p may be freed once its thread wakes */
		if (w->failure.code)
			p->result = err_set(&p->error, w->failure.code, "%s", w->failure.text);
		p->settled = true;
		if (!p->deferred)
			continue;
		w->deferred_bytes -= p->stored;
		p->next = NULL;
		*last = p;
		last = &p->next;
	}
	pthread_cond_broadcast(&w->synced);
	return deferred;
}

static void put_end_deferred(struct store_writer *w, struct store_put *deferred)
{
	while (deferred) {
		struct store_put *p = deferred;
		const struct err error = p->error;
		const uint32_t unit = p->unit;
		const int result = p->result;
		deferred = p->next;
		put_end(p, result ? UNIT_MISSING : UNIT_DONE);
		w->done(w->done_ctx, unit, result, &error);
	}
}

/* Call with the mutex held; it is released meanwhile. After a failed sync the kernel may have
 * dropped data, also of later units, so no later sync can be trusted. */
static void put_lead_group(struct store_writer *w)
{
	struct err failure = w->failure;
	struct store_put *group = w->finished;
	w->finished = NULL;
	w->syncing = true;
	pthread_mutex_unlock(&w->mutex);
	if (!failure.code)
		(void)put_commit_group(w, group, &failure);
	pthread_mutex_lock(&w->mutex);
	w->syncing = false;
	w->failure = failure;
	struct store_put *deferred = put_settle_group(w, group);
	pthread_mutex_unlock(&w->mutex);
	put_end_deferred(w, deferred);
	pthread_mutex_lock(&w->mutex);
}

/* ---- commits that wait ---- */

/* Call with the mutex held. */
static void put_add_finished(struct store_writer *w, struct store_put *p)
{
	p->next = w->finished;
	w->finished = p;
}

int store_put_commit(struct store_put *p, struct err *e)
{
	struct store_writer *w = p->writer;
	int rc = put_seal(p, e);
	if (rc)
		return rc;
	pthread_mutex_lock(&w->mutex);
	put_add_finished(w, p);
	while (!p->settled) {
		if (w->syncing)
			pthread_cond_wait(&w->synced, &w->mutex);
		else
			put_lead_group(w);
	}
	pthread_mutex_unlock(&w->mutex);
	rc = p->result;
	if (rc && e)
		*e = p->error;
	put_end(p, rc ? UNIT_MISSING : UNIT_DONE);
	return rc;
}

/* ---- commits that do not wait ---- */

static void *put_deferred_main(void *arg)
{
	struct store_writer *w = arg;
	pthread_mutex_lock(&w->mutex);
	while (!w->ending || w->finished) {
		if (w->finished && !w->syncing)
			put_lead_group(w);
		else
			pthread_cond_wait(&w->synced, &w->mutex);
	}
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

int store_writer_defer(struct store_writer *w, store_done_fn *done, void *ctx, struct err *e)
{
	w->done = done;
	w->done_ctx = ctx;
	int code = pthread_create(&w->thread, NULL, put_deferred_main, w);
	w->has_thread = !code;
	return code ? err_sys(e, code, "%s: cannot start a thread for writing", w->folder) : 0;
}

int store_put_defer(struct store_put *p, struct err *e)
{
	struct store_writer *w = p->writer;
	int rc = put_seal(p, e);
	if (rc)
		return rc;
	const uint64_t most = p->stored > DEFERRED_MOST ? p->stored : DEFERRED_MOST;
	pthread_mutex_lock(&w->mutex);
	p->deferred = true;
	w->deferred_bytes += p->stored;
	put_add_finished(w, p);
	pthread_cond_broadcast(&w->synced);
	while (w->deferred_bytes > most)
		pthread_cond_wait(&w->synced, &w->mutex);
	pthread_mutex_unlock(&w->mutex);
	return 0;
}
