/* Committing in groups, for those who wait and behind those who do not.
 *
 * Group commit: a unit that is finished joins a list; the first thread that finds nobody syncing
 * takes the whole list, syncs the files it touched, writes one journal entry for each, and wakes
 * the others, whose units are then in. So a sync is shared by all that finish during the one
 * before, and a journal entry never precedes its data. Journal entries are themselves synced with
 * the next group: a power cut costs the last group, and a killed process nothing but the units that
 * were not committed.
 *
 * Behind: who has somebody waiting for a record, or another one to make, leaves his unit in the
 * list, and a thread of the writer's own leads the groups. What is left so is bounded, and who goes
 * beyond that waits.
 *
 * Coded records get their places, and are written, when their group is synced: groups follow one
 * another, so the records of a file lie in the order of their journal entries, and whatever a crash
 * cuts off is at the file's end.
 */
#include "cache/store_writer.h"

#include "cache/store_files.h"

#include <stdlib.h>

/* Bytes of records that are left behind, or one record if that is more: written and not synced, or,
 * where they are coded, in memory. Some ten of them are as many as are made during a sync of a disk
 * that keeps up, and one that does not only fills whatever there is. */
enum { BEHIND_MOST = 32 << 20 };

/* ---- a group ---- */

/* Gives the coded records of a group their places, one after the other, and writes them there. */
static int write_coded(struct store_writer *w, struct store_put *group, struct err *e)
{
	const struct data_file *f = &w->file[EXPERTS_FILE];
	for (struct store_put *p = group; p; p = p->next) {
		if (!p->coded)
			continue;
		struct store_range r = {stored_range_next(w->experts_end), p->stored};
		int rc = store_file_write(f->fd, p->coded, r.bytes, r.offset, w->folder, f->partial,
					  e);
		if (rc)
			return rc;
		free(p->coded); /* a sync may be long */
		p->coded = NULL;
		w->index.stored[p->unit] = r;
		w->experts_end = r.offset + r.bytes;
	}
	return 0;
}

/* Syncs every file that a unit of the group lies in, and the entries of the group before. */
static int sync_group(struct store_writer *w, const struct store_put *group, struct err *e)
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

/* An entry that cannot be written costs its unit alone: the next one takes its place. */
static int write_entry(struct store_writer *w, struct store_put *p)
{
	uint8_t bytes[JOURNAL_ENTRY];
	const struct unit_place place = unit_place(w, p->unit);
	const struct journal_entry entry = {
		.unit = p->unit,
		.place = {place.offset, place.bytes},
		.checksum = XXH3_64bits_digest(p->hash),
	};
	w->index.checksums[p->unit] = entry.checksum;
	journal_encode_entry(bytes, w->digest, &entry);
	int rc = store_file_write(w->journal, bytes, sizeof bytes, w->journal_end, w->folder,
				  STORE_JOURNAL, &p->error);
	if (!rc)
		w->journal_end += sizeof bytes;
	return rc;
}

/* The leader's part, without the mutex; `syncing` makes the journal this thread's alone. Fails if
 * a sync does. */
static int commit_group(struct store_writer *w, struct store_put *group, struct err *e)
{
	int rc = write_coded(w, group, e);
	if (!rc)
		rc = sync_group(w, group, e);
	for (struct store_put *p = group; !rc && p; p = p->next)
		p->result = write_entry(w, p);
	w->journal_dirty = true;
	return rc;
}

/* The mutex is held. What became of each of a group: who waits is told, and those that were left
 * behind are returned. */
static struct store_put *settle(struct store_writer *w, struct store_put *group)
{
	struct store_put *behind = NULL, **last = &behind, *next;
	for (struct store_put *p = group; p; p = next) {
		next = p->next; /* who waits frees his own */
		if (w->failure.code)
			p->result = err_set(&p->error, w->failure.code, "%s", w->failure.text);
		p->settled = true;
		if (!p->behind)
			continue;
		w->behind -= p->stored;
		p->next = NULL;
		*last = p;
		last = &p->next;
	}
	pthread_cond_broadcast(&w->synced);
	return behind;
}

static void end_behind(struct store_writer *w, struct store_put *behind)
{
	while (behind) {
		struct store_put *p = behind;
		const struct err error = p->error;
		const uint32_t unit = p->unit;
		const int result = p->result;
		behind = p->next;
		put_end(p, result ? UNIT_MISSING : UNIT_DONE);
		w->done(w->done_ctx, unit, result, &error);
	}
}

/* The mutex is held, and released meanwhile. After a failed sync the kernel may have dropped data,
 * also of units that were finished since: no other can be believed. */
static void lead(struct store_writer *w)
{
	struct err failure = w->failure;
	struct store_put *group = w->finished;
	w->finished = NULL;
	w->syncing = true;
	pthread_mutex_unlock(&w->mutex);
	if (!failure.code)
		(void)commit_group(w, group, &failure);
	pthread_mutex_lock(&w->mutex);
	w->syncing = false;
	w->failure = failure;
	struct store_put *behind = settle(w, group);
	pthread_mutex_unlock(&w->mutex);
	end_behind(w, behind);
	pthread_mutex_lock(&w->mutex);
}

/* ---- who waits ---- */

/* The mutex is held. */
static void finished(struct store_writer *w, struct store_put *p)
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
	finished(w, p);
	while (!p->settled) {
		if (w->syncing)
			pthread_cond_wait(&w->synced, &w->mutex);
		else
			lead(w);
	}
	pthread_mutex_unlock(&w->mutex);
	rc = p->result;
	if (rc && e)
		*e = p->error;
	put_end(p, rc ? UNIT_MISSING : UNIT_DONE);
	return rc;
}

/* ---- who does not ---- */

static void *behind_main(void *arg)
{
	struct store_writer *w = arg;
	pthread_mutex_lock(&w->mutex);
	while (!w->ending || w->finished) {
		if (w->finished && !w->syncing)
			lead(w);
		else
			pthread_cond_wait(&w->synced, &w->mutex);
	}
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

int store_writer_behind(struct store_writer *w, store_done_fn *done, void *ctx, struct err *e)
{
	w->done = done;
	w->done_ctx = ctx;
	int code = pthread_create(&w->thread, NULL, behind_main, w);
	w->has_thread = !code;
	return code ? err_sys(e, code, "%s: cannot start a thread for writing", w->folder) : 0;
}

int store_put_behind(struct store_put *p, struct err *e)
{
	struct store_writer *w = p->writer;
	int rc = put_seal(p, e);
	if (rc)
		return rc;
	const uint64_t most = p->stored > BEHIND_MOST ? p->stored : BEHIND_MOST;
	pthread_mutex_lock(&w->mutex);
	p->behind = true;
	w->behind += p->stored;
	finished(w, p);
	pthread_cond_broadcast(&w->synced);
	while (w->behind > most)
		pthread_cond_wait(&w->synced, &w->mutex);
	pthread_mutex_unlock(&w->mutex);
	return 0;
}
