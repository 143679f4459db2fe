/* A conversion as a whole: where each unit lies, whether it is written, publishing, and the end.
 * store_resume.c begins or resumes a conversion, store_put.c writes units. These two do not use
 * each other. */
#include "cache/store_inside.h"

#include "cache/codec.h"
#include "cache/io.h"
#include "cache/store_files.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20 };

/* ---- a new writer ---- */

static int writer_check_plan(const struct store_plan *plan, struct store_info *info,
			     const char *folder, struct err *e)
{
	const struct store_layout *l = &plan->layout;
	*info = (struct store_info){
		.key = plan->key,
		.digest = l->digest,
		.codec = l->codec,
		.layers = l->layers,
		.experts = l->experts,
		.experts_base = plan->experts_header_bytes,
		.record_bytes = l->record_bytes,
		.mixed = l->layer_bytes != NULL,
		.dense_base = plan->dense_header_bytes,
		.dense_units = l->dense_units,
	};
	for (uint32_t i = 0; i < l->dense_units; i++) {
		if (l->dense[i].offset != info->dense_bytes)
			return err_set(e, EINVAL,
				       "%s: dense unit %u does not begin where the one before ends",
				       folder, i);
		if (__builtin_add_overflow(info->dense_bytes, l->dense[i].bytes,
					   &info->dense_bytes))
			return err_set(e, EINVAL, "%s: the dense data's size overflows", folder);
	}
	return store_info_check(info, folder, e);
}

/* The expected size of experts.safetensors. For a coded file this is an estimate; if the disk fills
 * up, the conversion ends with an error. */
static uint64_t writer_expected_bytes(const struct store_plan *plan, uint64_t size)
{
	uint64_t records = (uint64_t)plan->layout.layers * plan->layout.experts, bytes;
	if (plan->layout.codec != STORE_CODED)
		return size;
	if (__builtin_mul_overflow(records, store_range_next(plan->expected_bytes), &bytes) ||
	    __builtin_add_overflow(bytes, size, &bytes))
		return UINT64_MAX;
	return bytes;
}

int store_writer_new(struct store_writer **out, const char *folder, const struct store_plan *plan,
		     struct err *e)
{
	struct store_info info;
	int rc = writer_check_plan(plan, &info, folder, e);
	if (rc)
		return rc;
	struct store_writer *w = calloc(1, sizeof *w);
	if (!w)
		return err_sys(e, ENOMEM, "%s", folder);
	w->lock.dir = w->lock.fd = w->journal = -1;
	w->digest = store_plan_digest(plan);
	w->index.info = info;
	rc = store_index_allocate(&w->index)
		     ? err_sys(e, ENOMEM, "%s", folder)
		     : store_index_set_layers(&w->index, plan->layout.layer_bytes, folder, e);
	w->state = calloc((size_t)store_units(&info) + 1, sizeof *w->state);
	w->folder = strdup(folder);
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->synced, NULL);
	pthread_cond_init(&w->ended, NULL);
	w->file[EXPERTS_FILE] = (struct writer_file){
		.name = STORE_EXPERTS, .partial = STORE_EXPERTS STORE_PARTIAL, .fd = -1};
	w->file[DENSE_FILE] = (struct writer_file){
		.name = STORE_DENSE, .partial = STORE_DENSE STORE_PARTIAL, .fd = -1};
	if (!rc && (!w->state || !w->folder))
		rc = err_sys(e, ENOMEM, "%s", folder);
	if (rc) {
		store_writer_free(w);
		return rc;
	}
	w->file[EXPERTS_FILE].size = w->experts_end = store_experts_size(&w->index);
	w->file[EXPERTS_FILE].grows = w->index.stored;
	w->file[DENSE_FILE].size = store_dense_size(&info);
	w->expected_bytes = writer_expected_bytes(plan, w->file[EXPERTS_FILE].size);
	for (uint32_t i = 0; i < plan->layout.dense_units; i++)
		w->index.dense_offsets[i + 1] =
			plan->layout.dense[i].offset + plan->layout.dense[i].bytes;
	*out = w;
	return 0;
}

/* ---- units ---- */

uint32_t store_writer_units(const struct store_writer *w)
{
	return store_units(&w->index.info);
}

struct writer_place writer_unit_place(const struct store_writer *w, uint32_t unit)
{
	const struct store_info *info = &w->index.info;
	uint32_t records = store_records(info);
	if (store_unit_is_coded(w, unit))
		return (struct writer_place){&w->file[EXPERTS_FILE], w->index.stored[unit].offset,
					     w->index.stored[unit].bytes};
	if (unit < records) {
		struct store_range r = store_index_plain_range(&w->index, unit);
		return (struct writer_place){&w->file[EXPERTS_FILE], r.offset, r.bytes};
	}
	const uint64_t *offset = w->index.dense_offsets + (unit - records);
	return (struct writer_place){&w->file[DENSE_FILE], info->dense_base + offset[0],
				     offset[1] - offset[0]};
}

void writer_unit_end(struct store_writer *w, uint32_t unit, enum unit_state state)
{
	pthread_mutex_lock(&w->mutex);
	w->state[unit] = (uint8_t)state;
	pthread_cond_broadcast(&w->ended);
	pthread_mutex_unlock(&w->mutex);
}

/* True if the data in this place exists and has this checksum. */
static bool writer_place_intact(const struct store_writer *w, struct writer_place place,
				uint64_t checksum, void *buffer, XXH3_state_t *hash)
{
	XXH3_64bits_reset(hash);
	while (place.bytes > 0) {
		size_t n = place.bytes < COPY_BYTES ? place.bytes : COPY_BYTES;
		if (store_file_read(place.file->fd, buffer, n, place.offset, w->folder,
				    place.file->partial, NULL))
			return false;
		checksum_update(hash, buffer, n);
		place.offset += n;
		place.bytes -= n;
	}
	return XXH3_64bits_digest(hash) == checksum;
}

/* If the unit is LEFT, claims it, reads its data, and makes it DONE or MISSING. */
static void writer_check_left(struct store_writer *w, uint32_t unit)
{
	pthread_mutex_lock(&w->mutex);
	bool mine = w->state[unit] == UNIT_LEFT;
	if (mine)
		w->state[unit] = UNIT_OPEN;
	pthread_mutex_unlock(&w->mutex);
	if (!mine)
		return;
	void *buffer = malloc(COPY_BYTES);
	XXH3_state_t *hash = XXH3_createState();
	/* Without memory the unit counts as missing; writing it again reports the error. */
	bool intact = buffer && hash &&
		      writer_place_intact(w, writer_unit_place(w, unit), w->index.checksums[unit],
					  buffer, hash);
	XXH3_freeState(hash);
	free(buffer);
	if (!intact && store_unit_is_coded(w, unit))
		w->index.stored[unit] = (struct store_range){0};
	writer_unit_end(w, unit, intact ? UNIT_DONE : UNIT_MISSING);
}

bool store_writer_has(struct store_writer *w, uint32_t unit)
{
	assert(unit < store_writer_units(w));
	if (w->state[unit] == UNIT_LEFT)
		writer_check_left(w, unit);
	return w->state[unit] == UNIT_DONE;
}

bool store_writer_resumed(const struct store_writer *w)
{
	return w->resumed;
}

bool store_writer_failed(struct store_writer *w)
{
	pthread_mutex_lock(&w->mutex);
	bool failed = w->failure.code != 0;
	pthread_mutex_unlock(&w->mutex);
	return failed;
}

bool store_writer_wait(struct store_writer *w, uint32_t unit, unsigned milliseconds)
{
	struct timespec until;
	int rc = 0;
	(void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail for this clock */
	uint64_t ns = (uint64_t)until.tv_nsec + milliseconds * UINT64_C(1000000);
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	pthread_mutex_lock(&w->mutex);
	while (w->state[unit] == UNIT_OPEN && !rc)
		rc = pthread_cond_clockwait(&w->ended, &w->mutex, CLOCK_MONOTONIC, &until);
	bool open = w->state[unit] == UNIT_OPEN;
	pthread_mutex_unlock(&w->mutex);
	return !open;
}

/* ---- publishing ---- */

static int writer_rename_partial(const struct store_writer *w, const char *from, const char *to,
				 struct err *e)
{
	int rc = io_rename(w->lock.dir, from, to);
	return rc ? store_write_error(e, -rc, w->folder, to) : 0;
}

/* The old index is removed before the data that it describes is replaced. The new index is renamed
 * when the new data is in place for certain. So an index never lies beside data of another store.
 * After a failure this function is called again. The index's partial file has been written again
 * since then and has changed the folder, so a sync of the folder writes everything that an earlier
 * sync failed to write. */
static int writer_rename_files(struct store_writer *w, struct err *e)
{
	int rc = io_remove(w->lock.dir, STORE_INDEX);
	if (rc && rc != -ENOENT)
		return store_write_error(e, -rc, w->folder, STORE_INDEX);
	rc = store_folder_sync(w->lock.dir, w->folder, e);
	for (int i = 0; !rc && i < DATA_FILES; i++) {
		if (!w->renamed[i])
			rc = writer_rename_partial(w, w->file[i].partial, w->file[i].name, e);
		w->renamed[i] = !rc;
	}
	if (!rc)
		rc = store_folder_sync(w->lock.dir, w->folder, e);
	if (!rc)
		rc = writer_rename_partial(w, STORE_INDEX STORE_PARTIAL, STORE_INDEX, e);
	return rc ? rc : store_folder_sync(w->lock.dir, w->folder, e);
}

static int writer_publish(struct store_writer *w, struct err *e)
{
	uint32_t missing = 0;
	for (uint32_t i = 0; i < store_writer_units(w); i++)
		missing += !store_writer_has(w, i);
	if (missing)
		return err_set(e, EINVAL, "%s: %u of %u units are missing", w->folder, missing,
			       store_writer_units(w));
	if (w->failure.code)
		return err_set(e, w->failure.code, "%s", w->failure.text);
	for (int i = 0; i < DATA_FILES; i++) { /* a file with only a header is in no group */
		int rc = store_file_sync(w->file[i].fd, w->folder, w->file[i].partial, e);
		if (rc) { /* final: a second sync would succeed although data was lost */
			pthread_mutex_lock(&w->mutex);
			w->failure = *e;
			pthread_mutex_unlock(&w->mutex);
			return rc;
		}
	}
	int rc = store_index_write(w->lock.dir, w->folder, &w->index, e);
	return rc ? rc : writer_rename_files(w, e);
}

int store_writer_publish(struct store_writer *w, struct err *e)
{
	int rc = writer_publish(w, e);
	if (!rc) /* complete: a journal left behind does no harm */
		(void)io_remove(w->lock.dir, STORE_JOURNAL);
	return rc;
}

int store_writer_finish(struct store_writer *w, struct err *e)
{
	int rc = store_writer_publish(w, e);
	store_writer_close(w, true);
	return rc;
}

/* ---- the end ---- */

void store_remove_leftovers(const struct store_writer *w)
{
	static const char *const names[] = {STORE_JOURNAL, STORE_INDEX STORE_PARTIAL,
					    STORE_EXPERTS STORE_PARTIAL, STORE_DENSE STORE_PARTIAL};
	/* If a file cannot be removed, creating it again fails and reports that. */
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		(void)io_remove(w->lock.dir, names[i]);
}

void store_writer_free(struct store_writer *w)
{
	const int fds[] = {w->file[EXPERTS_FILE].fd, w->file[DENSE_FILE].fd, w->journal};
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
		io_close(fds[i]);
	store_lock_close(&w->lock);
	pthread_cond_destroy(&w->ended);
	pthread_cond_destroy(&w->synced);
	pthread_mutex_destroy(&w->mutex);
	if (!w->lent) {
		store_index_free(&w->index);
		free((void *)w->state);
	}
	free(w->folder);
	free(w);
}

void store_writer_close(struct store_writer *w, bool keep)
{
	if (w->has_thread) { /* the thread commits all deferred units first */
		pthread_mutex_lock(&w->mutex);
		w->ending = true;
		pthread_cond_broadcast(&w->synced);
		pthread_mutex_unlock(&w->mutex);
		pthread_join(w->thread, NULL);
	}
	if (!keep)
		store_remove_leftovers(w);
	store_lock_remove(&w->lock);
	if (!keep && w->lock.made_folder)
		(void)rmdir(w->folder); /* fails if the folder has other files */
	store_writer_free(w);
}
