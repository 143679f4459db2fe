/* Checks of the current source: whether a store was made from it, and whether its config.json has
 * changed. */
#include "cache/clock.h"
#include "engine/family/gguf_family.h"
#include "engine/model/model_state.h"
#include "engine/model/load.h"
#include "engine/source/source_file.h"
#include "engine/json/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- progress ---- */

static void load_show_checking(void *ctx, uint64_t bytes)
{
	struct model *m = ctx;
	atomic_store(&m->stored.progress.done, 0);
	atomic_store(&m->stored.progress.started_ns, clock_ns());
	atomic_store(&m->stored.checking, bytes > 0);
	atomic_store(&m->stored.progress.total, bytes);
}

static bool load_checking_went(void *ctx, uint64_t bytes)
{
	struct model *m = ctx;
	if (atomic_load(&m->stored.checking)) /* else a conversion counts the progress */
		atomic_fetch_add(&m->stored.progress.done, bytes);
	return !atomic_load(&m->leave);
}

struct witness_watch load_watch(struct model *m)
{
	return (struct witness_watch){
		.checking = load_show_checking, .went = load_checking_went, .ctx = m};
}

/* ---- looking ---- */

int load_config_sum(const struct model *m, uint64_t *sum, struct err *e)
{
	char *text;
	size_t length;
	struct timespec modified;
	int failed = model_config(m, &text, &length, &modified, e);
	if (failed)
		return failed;
	*sum = XXH3_64bits(text, length);
	free(text);
	return 0;
}

int load_look(const struct model *m, struct source_state *now, struct err *e)
{
	uint64_t sum;
	int failed = source_look(now, m->id.directory, e);
	if (!failed)
		failed = load_config_sum(m, &sum, e);
	/* Checked after source_look, so that later changes are noticed by the stamps. */
	if (!failed && sum != m->id.config_sum)
		failed = err_set(
			e, EINVAL,
			"%s%s: was changed since it was mounted; unmount it, then mount it again",
			m->id.directory, source_is_file(m->id.directory) ? "" : "/config.json");
	return failed;
}

/* ---- a store without an identity ---- */

static bool load_is_after(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* Whether no file of the source has changed since the first data of the store was written. */
static bool load_made_after(const char *folder, const struct source_state *now)
{
	char path[4096];
	struct stat st;
	int n = snprintf(path, sizeof path, "%s/dense.safetensors", folder);
	if (n >= (int)sizeof path || stat(path, &st))
		return false;
	for (uint32_t i = 0; i < now->count; i++)
		if (load_is_after(now->files[i].stamp.modified, st.st_mtim) ||
		    load_is_after(now->files[i].stamp.changed, st.st_mtim))
			return false;
	return true;
}

/* For stores of old versions, which have only the checksum of samples in their name and no
 * identity. If the store's data is newer than every change of the source, the store is accepted,
 * and the whole source is hashed once, so that copies of it are recognised later. Any other store
 * may come from an earlier state of the source, and is made again: this takes minutes, but wrong
 * weights would go unnoticed. (A source that was edited and then copied together with its old store
 * is accepted wrongly, since all times are equal. Current versions do not make such stores.) */
static int load_adopt_store(struct model *m, const char *folder, const struct source_state *now,
			    struct err *e)
{
	struct identity id;
	struct err ignored; /* with a read-only store, every mount hashes the source */
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < now->count; i++)
		bytes += now->files[i].stamp.size;
	load_show_checking(m, bytes);
	int failed = identity_of_source(&id, now, load_checking_went, m, e);
	load_show_checking(m, 0);
	if (failed)
		return failed;
	(void)identity_write(&id, folder, &ignored);
	identity_free(&id);
	return 0;
}

static int load_refuse_stale(const char *folder, struct err *e)
{
	return err_set(e, ESTALE, "%s: the store was made from another checkpoint", folder);
}

static int load_refuse_unread(const char *folder, struct err *e)
{
	return err_set(e, EAGAIN,
		       "%s: the checkpoint's files have other times than when the store "
		       "was made; they must be read again",
		       folder);
}

static int load_check_without_identity(struct model *m, const char *folder, const uint64_t name[2],
				       const struct source_state *now, bool read, struct err *e)
{
	uint64_t number[2];
	source_number(now, number);
	/* The number includes times, so the source is unchanged: the identity's file was removed. */
	if (!memcmp(name, number, sizeof number))
		return 0;
	if (memcmp(name, now->sampled, sizeof now->sampled) != 0 || !load_made_after(folder, now))
		return load_refuse_stale(folder, e);
	return read ? load_adopt_store(m, folder, now, e) : load_refuse_unread(folder, e);
}

/* ---- a store with one ---- */

static int load_verify_identity(struct model *m, struct identity *id, const char *folder,
				const struct source_state *now, struct err *e)
{
	struct err ignored; /* as above */
	load_show_checking(m, identity_bytes(id));
	int failed = identity_verify(id, now, load_checking_went, m, e);
	load_show_checking(m, 0);
	if (!failed)
		(void)identity_keep_stamps(id, folder, &ignored);
	return failed;
}

int load_check_source(struct model *m, const char *folder, const uint64_t name[2],
		      const struct source_state *now, bool read, struct err *e)
{
	struct identity id;
	int failed = identity_find(&id, folder, name, e);
	if (failed == -ENOENT)
		return load_check_without_identity(m, folder, name, now, read, e);
	if (failed)
		return failed;
	enum identity_says says = identity_compare(&id, now);
	if (says == IDENTITY_OTHER)
		failed = load_refuse_stale(folder, e);
	else if (says == IDENTITY_MAYBE)
		failed = read ? load_verify_identity(m, &id, folder, now, e)
			      : load_refuse_unread(folder, e);
	identity_free(&id);
	return failed;
}
