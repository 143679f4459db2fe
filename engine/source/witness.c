#include "engine/source/witness.h"
#include "cache/io.h"
#include "cache/store_files.h"
#include "engine/source/source_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct witness {
	const char *folder;
	struct witness_watch watch;
	struct source_state source; /* a copy of the source_state at the beginning */
	const struct files *files;  /* owned by the caller */
	uint32_t *file_of;	    /* [files_count] number in the identity */
	bool taken_up; /* the identity was read from the folder; its records there end at
			  identity.end */
	bool unsure;   /* … and may lack the last reads */
	int dir, fd;   /* descriptors of the folder and of the file in it; -1: not open */

	pthread_mutex_t lock; /* of the fields below; no lock is taken under it */
	struct identity identity;
	size_t written;	     /* how many of its ranges are written */
	bool finished, over; /* over: published or closed; nothing is noted any more */
};

/* ---- beginning ---- */

static int witness_copy_source(struct source_state *out, const struct source_state *s,
			       struct err *e)
{
	*out = *s;
	out->files = calloc((size_t)s->count + 1, sizeof *out->files);
	out->count = 0;
	out->path = strdup(s->path);
	out->directory = strdup(s->directory);
	if (!out->path || !out->directory)
		return err_set(e, ENOMEM, "out of memory for the name of a folder");
	for (uint32_t i = 0; i < s->count && out->files; i++) {
		out->files[i] = s->files[i];
		out->files[i].name = strdup(s->files[i].name);
		if (!out->files[i].name)
			return err_set(e, ENOMEM, "out of memory for the names of files");
		out->count++;
	}
	return out->files ? 0 : err_set(e, ENOMEM, "out of memory for the names of files");
}

/* Whether the notes of an interrupted conversion are of this source; a negative errno: unknown. */
static int witness_is_of_source(struct witness *w, struct identity *id, struct err *e)
{
	enum identity_says says = identity_compare(id, &w->source);
	if (says != IDENTITY_MAYBE)
		return says == IDENTITY_SAME;
	if (!id->closed && !id->complete)
		return false;
	w->watch.checking(w->watch.ctx, identity_bytes(id));
	int failed = identity_verify(id, &w->source, w->watch.went, w->watch.ctx, e);
	w->watch.checking(w->watch.ctx, 0);
	return failed == -ESTALE ? false : failed ? failed : true;
}

/* Resumes the identity in the folder, if there is a usable one (with this name, if not NULL).
 */
static int witness_take_up(struct witness *w, const uint64_t name[2], struct err *e)
{
	struct err none;
	struct identity id;
	int dir = store_folder_open(w->folder, &none);
	int found = dir < 0 ? -ENOENT : identity_read(&id, dir, w->folder, IDENTITY_PARTIAL, &none);
	io_close(dir);
	if (found == -ENOMEM)
		*e = none;
	if (found)
		return found == -ENOENT ? 0 : found;
	bool named = !name || !memcmp(id.name, name, sizeof id.name);
	/* Without a range nothing was converted, and the list of files may be incomplete. */
	int right = id.range_count && named ? witness_is_of_source(w, &id, e) : false;
	if (right > 0) {
		identity_free(&w->identity);
		w->identity = id;
		w->taken_up = true;
		w->unsure = !id.closed && !id.complete;
	} else {
		identity_free(&id);
	}
	return right < 0 ? right : 0;
}

int witness_begin(struct witness **out, const struct source_state *now, const uint64_t name[2],
		  const char *folder, const struct witness_watch *watch, struct err *e)
{
	struct witness *w = calloc(1, sizeof *w);
	*out = NULL;
	if (!w)
		return err_set(e, ENOMEM, "out of memory for converting the checkpoint");
	*w = (struct witness){.folder = folder, .watch = *watch, .dir = -1, .fd = -1};
	pthread_mutex_init(&w->lock, NULL);
	int failed = witness_copy_source(&w->source, now, e);
	if (!failed) {
		memcpy(w->identity.sampled, now->sampled, sizeof now->sampled);
		source_number(now, w->identity.name);
		if (name)
			memcpy(w->identity.name, name, sizeof w->identity.name);
		failed = witness_take_up(w, name, e);
	}
	if (failed)
		witness_free(w);
	else
		*out = w;
	return failed;
}

static void witness_close_files(struct witness *w)
{
	io_close(w->fd);
	io_close(w->dir);
	w->fd = w->dir = -1;
}

void witness_free(struct witness *w)
{
	if (!w)
		return;
	witness_close_files(w);
	identity_free(&w->identity);
	source_forget(&w->source);
	free(w->file_of);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

const uint64_t *witness_name(const struct witness *w)
{
	return w->identity.name;
}

/* ---- the source's files ---- */

static int witness_changed(const struct witness *w, const char *name, struct err *e)
{
	return err_set(e, ESTALE, "%s/%s: was changed while it was converted; try again",
		       w->source.directory, name);
}

/* Returns the number of a file in the identity, and adds a new file. */
static int witness_enter(struct witness *w, const char *name, uint32_t *number, struct err *e)
{
	struct identity *id = &w->identity;
	const struct source_file *f = source_find(&w->source, source_name_hash(name));
	if (!f)
		return witness_changed(w, name, e);
	for (*number = 0; *number < id->file_count; ++*number)
		if (id->files[*number].name_hash == f->name_hash)
			return 0;
	if (w->taken_up) /* cannot happen unless the file is forged: the samples cover the list of
			    tensors */
		return witness_changed(w, name, e);
	return identity_add_file(id, &(struct identity_file){f->name_hash, f->stamp}, e);
}

/* Checks that the open file is the one that source_look saw. */
static int witness_compare_open(const struct witness *w, uint32_t shard, struct err *e)
{
	struct stat st;
	const char *name = files_name(w->files, shard);
	int failed = files_stat(w->files, shard, &st, e);
	if (failed)
		return failed;
	struct source_stamp is = source_stamp_of(&st);
	const struct source_file *f = source_find(&w->source, source_name_hash(name));
	/* Removing a file changes its ctime. The mount continues with it, but the store is not
	 * published. */
	if (f && !st.st_nlink)
		is.changed = f->stamp.changed;
	return f && source_stamps_equal(&is, &f->stamp) ? 0 : witness_changed(w, name, e);
}

/* ---- the file ---- */

static int witness_append(struct witness *w, const uint8_t *records, size_t count, struct err *e)
{
	int failed = store_file_write(w->fd, records, count * IDENTITY_RECORD, w->identity.end,
				      w->folder, IDENTITY_PARTIAL, e);
	if (!failed)
		w->identity.end += count * IDENTITY_RECORD;
	return failed;
}

/* Writes head and files; after a resumed identity, only the files' stamps. */
static int witness_write_files(struct witness *w, struct err *e)
{
	struct identity *id = &w->identity;
	uint8_t record[IDENTITY_RECORD];
	int failed = 0;
	if (!w->taken_up) {
		id->end = 0;
		identity_encode_head(record, id);
		failed = witness_append(w, record, 1, e);
	}
	for (uint32_t i = 0; i < id->file_count && !failed; i++) {
		identity_encode_file(record, id, i);
		failed = witness_append(w, record, 1, e);
	}
	return failed;
}

/* Writes the ranges that are only in memory. */
static int witness_write_ranges(struct witness *w, struct err *e)
{
	uint8_t record[IDENTITY_RECORD];
	int failed = 0;
	while (w->written < w->identity.range_count && !failed) {
		identity_encode_range(record, &w->identity, &w->identity.ranges[w->written]);
		failed = witness_append(w, record, 1, e);
		w->written += !failed;
		w->identity.kept += !failed;
	}
	return failed;
}

static int witness_sync_file(const struct witness *w, struct err *e)
{
	return store_file_sync(w->fd, w->folder, IDENTITY_PARTIAL, e);
}

/* Whether the file is unchanged since witness_begin read it. */
static bool witness_still_there(const struct witness *w)
{
	struct err none;
	struct identity now;
	if (identity_read(&now, w->dir, w->folder, IDENTITY_PARTIAL, &none))
		return false;
	bool same =
		!memcmp(now.name, w->identity.name, sizeof now.name) && now.end == w->identity.end;
	identity_free(&now);
	return same;
}

int witness_open(struct witness *w, struct err *e)
{
	w->dir = store_folder_open(w->folder, e);
	if (w->dir < 0)
		return w->dir;
	if (w->taken_up && !witness_still_there(w))
		return err_set(e, EBUSY, "%s: another process is converting this checkpoint",
			       w->folder);
	w->fd = store_file_open(w->dir, w->folder, IDENTITY_PARTIAL,
				O_RDWR | O_CREAT | (w->taken_up ? 0 : O_TRUNC), e);
	if (w->fd < 0)
		return w->fd;
	w->identity.complete = w->identity.closed = w->over = false;
	w->written = w->taken_up ? w->identity.range_count : 0;
	w->identity.kept = w->taken_up ? w->identity.kept : 0;
	int failed = 0;
	/* Cuts off the record CLOSED or COMPLETE: more records will follow. */
	while (w->taken_up && !failed && ftruncate(w->fd, (off_t)w->identity.end))
		if (errno != EINTR)
			failed = store_write_error(e, errno, w->folder, IDENTITY_PARTIAL);
	if (!failed)
		failed = witness_write_files(w, e);
	if (!failed)
		failed = witness_write_ranges(w, e);
	if (!failed && w->taken_up)
		failed = witness_sync_file(w, e);
	return failed;
}

/* ---- notes ---- */

/* The lock is held. A range that cannot be written is dropped from memory, too: its bytes are read
 * again. */
static int witness_note(struct witness *w, const struct identity_range *r, struct err *e)
{
	if (w->over)
		return 0;
	int failed = identity_add_range(&w->identity, r, e);
	if (failed || w->fd < 0)
		return failed;
	failed = witness_write_ranges(w, e);
	if (failed)
		w->identity.range_count--;
	return failed;
}

/* A files_note. -ESTALE, with a sentence: the file has changed since it was looked at, so the data
 * read must not be used. Other errors: the record cannot be saved, so the data must not be used
 * either. Before witness_open it is kept in memory. */
static int witness_hear(void *witness, uint32_t shard, uint64_t offset, uint64_t bytes,
			uint64_t hash, struct err *e)
{
	struct witness *w = witness;
	const struct identity_range r = {w->file_of[shard], offset, bytes, hash};
	/* After the reading: a writer's ctime changes before its data does. */
	int failed = witness_compare_open(w, shard, e);
	if (failed || !bytes)
		return failed;
	pthread_mutex_lock(&w->lock);
	failed = witness_note(w, &r, e);
	pthread_mutex_unlock(&w->lock);
	return failed;
}

int witness_attach(struct witness *w, struct files *f, struct err *e)
{
	static const char *const besides[] = {"config.json", "tq_config.json", "tc_config.json",
					      "model.safetensors.index.json"};
	uint32_t shards = files_count(f), number;
	int failed = 0;
	w->files = f;
	w->file_of = calloc((size_t)shards + 1, sizeof *w->file_of);
	if (!w->file_of)
		return err_set(e, ENOMEM, "out of memory for the list of files");
	for (size_t i = 0; i < sizeof besides / sizeof *besides && !failed; i++)
		if (source_find(&w->source, source_name_hash(besides[i])))
			failed = witness_enter(w, besides[i], &number, e);
	for (uint32_t i = 0; i < shards && !failed; i++) {
		failed = witness_enter(w, files_name(f, i), &w->file_of[i], e);
		if (!failed)
			failed = witness_compare_open(w, i, e);
	}
	files_set_note(f, witness_hear, w);
	return failed;
}

/* ---- the end ---- */

/* Hashes a gap, which is within one file. Opens the file for each gap, since there are only about
 * as many gaps as files. */
static int witness_hash_gap(struct witness *w, struct identity_range *gap, struct err *e)
{
	uint64_t size;
	const struct source_file *f =
		source_find(&w->source, w->identity.files[gap->file].name_hash);
	char *path = source_file_path(w->source.directory, f->name, e);
	if (!path)
		return -ENOMEM;
	int fd = source_file_open(path, &size, e), failed = fd < 0 ? fd : 0;
	if (!failed)
		failed = identity_hash(gap, fd, path, w->watch.went, w->watch.ctx, e);
	if (!failed)
		failed = witness_note(w, gap, e);
	io_close(fd);
	free(path);
	return failed;
}

/* The lock is held. */
static int witness_finish_files(struct witness *w, struct err *e)
{
	uint8_t record[IDENTITY_RECORD];
	struct identity_gaps at = {0};
	struct identity_range gap;
	int failed = identity_sort(&w->identity, e);
	w->written = w->identity.range_count;
	/* From here on no thread adds notes, which would change the order of the ranges. */
	while (!failed && identity_next_gap(&w->identity, &at, &gap))
		failed = witness_hash_gap(w, &gap, e);
	for (uint32_t i = 0; i < files_count(w->files) && !failed; i++)
		failed = witness_compare_open(w, i, e);
	if (failed)
		return failed;
	identity_encode_end(record, &w->identity, IDENTITY_COMPLETE);
	failed = store_file_write(w->fd, record, sizeof record, w->identity.end, w->folder,
				  IDENTITY_PARTIAL, e);
	return failed ? failed : witness_sync_file(w, e);
}

int witness_finish(struct witness *w, struct err *e)
{
	pthread_mutex_lock(&w->lock);
	int failed = w->finished ? 0 : witness_finish_files(w, e);
	w->finished = !failed;
	for (uint32_t i = 0; i < w->identity.file_count && !failed; i++)
		failed = source_compare(&w->source,
					source_find(&w->source, w->identity.files[i].name_hash), e);
	pthread_mutex_unlock(&w->lock);
	return failed;
}

void witness_publish(struct witness *w)
{
	struct err none; /* a mount finds the identity under either name */
	if (!io_rename(w->dir, IDENTITY_PARTIAL, IDENTITY_FILE))
		(void)store_folder_sync(w->dir, w->folder, &none);
	pthread_mutex_lock(&w->lock);
	witness_close_files(w);
	w->over = true;
	pthread_mutex_unlock(&w->lock);
}

void witness_close(struct witness *w, bool keep)
{
	uint8_t record[IDENTITY_RECORD];
	struct err none; /* without the record, the next conversion may have to start over */
	pthread_mutex_lock(&w->lock);
	if (w->fd >= 0 && keep && !w->finished && !w->unsure && !witness_sync_file(w, &none)) {
		identity_encode_end(record, &w->identity, IDENTITY_CLOSED);
		(void)witness_append(w, record, 1, &none);
	}
	if (w->fd >= 0 && !keep) {
		(void)io_remove(w->dir, IDENTITY_PARTIAL);
		w->taken_up = w->unsure = false;
	}
	witness_close_files(w);
	w->over = true;
	pthread_mutex_unlock(&w->lock);
}
