/* The source as it is now: whether a store is of it, before anything of it is served, and its
 * config.json (model.h). */
#include "cache/clock.h"
#include "engine/family/gguf_family.h"
#include "engine/serve/internal.h"
#include "engine/serve/load.h"
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

static void checking(void *ctx, uint64_t bytes)
{
	struct model *m = ctx;
	atomic_store(&m->stored.progress.done, 0);
	atomic_store(&m->stored.progress.started_ns, clock_ns());
	atomic_store(&m->stored.checking, bytes > 0);
	atomic_store(&m->stored.progress.total, bytes);
}

static bool went(void *ctx, uint64_t bytes)
{
	struct model *m = ctx;
	if (atomic_load(&m->stored.checking)) /* else a conversion counts its own */
		atomic_fetch_add(&m->stored.progress.done, bytes);
	return !atomic_load(&m->schedule.leave);
}

struct witness_watch load_watch(struct model *m)
{
	return (struct witness_watch){.checking = checking, .went = went, .ctx = m};
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
	/* After the look, so that a change from now on is seen by the stamps. */
	if (!failed && sum != m->id.config_sum)
		failed = err_set(
			e, EINVAL,
			"%s%s: was changed since it was mounted; unmount it, then mount it again",
			m->id.directory, source_is_file(m->id.directory) ? "" : "/config.json");
	return failed;
}

/* ---- a store without an identity ---- */

static bool after(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* No file of the source was changed since the first data of the store was written. */
static bool made_after(const char *folder, const struct source_state *now)
{
	char path[4096];
	struct stat st;
	int n = snprintf(path, sizeof path, "%s/dense.safetensors", folder);
	if (n >= (int)sizeof path || stat(path, &st))
		return false;
	for (uint32_t i = 0; i < now->count; i++)
		if (after(now->files[i].stamp.modified, st.st_mtim) ||
		    after(now->files[i].stamp.changed, st.st_mtim))
			return false;
	return true;
}

/* Stores used to be named by the sum of samples alone, and nothing else is known of their source.
 * One whose data is younger than any change of the source is taken for a store of it, which is then
 * hashed whole, once, so that from now on copies of it are known; any other may be of what the
 * source was before, and is made anew: that takes minutes, and wrong weights would say nothing. (A
 * source that was edited, and then copied together with its old store, so that all is as young, is
 * taken for what it is not. No later version makes such stores.) */
static int adopt(struct model *m, const char *folder, const struct source_state *now, struct err *e)
{
	struct identity id;
	struct err ignored; /* a store that cannot be written is hashed by every mount */
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < now->count; i++)
		bytes += now->files[i].stamp.size;
	checking(m, bytes);
	int failed = identity_of_source(&id, now, went, m, e);
	checking(m, 0);
	if (failed)
		return failed;
	(void)identity_write(&id, folder, &ignored);
	identity_free(&id);
	return 0;
}

static int stale(const char *folder, struct err *e)
{
	return err_set(e, ESTALE, "%s: the store was made from another checkpoint", folder);
}

static int unread(const char *folder, struct err *e)
{
	return err_set(e, EAGAIN,
		       "%s: by their times, the checkpoint's files are not those the store was "
		       "made from; they must be read again",
		       folder);
}

static int check_without(struct model *m, const char *folder, const uint64_t name[2],
			 const struct source_state *now, bool read, struct err *e)
{
	uint64_t number[2];
	source_number(now, number);
	if (!memcmp(name, number, sizeof number)) /* the times are in it: somebody removed a file */
		return 0;
	if (memcmp(name, now->sampled, sizeof now->sampled) != 0 || !made_after(folder, now))
		return stale(folder, e);
	return read ? adopt(m, folder, now, e) : unread(folder, e);
}

/* ---- a store with one ---- */

static int verify(struct model *m, struct identity *id, const char *folder,
		  const struct source_state *now, struct err *e)
{
	struct err ignored; /* as above */
	checking(m, identity_bytes(id));
	int failed = identity_verify(id, now, went, m, e);
	checking(m, 0);
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
		return check_without(m, folder, name, now, read, e);
	if (failed)
		return failed;
	enum identity_says says = identity_compare(&id, now);
	if (says == IDENTITY_OTHER)
		failed = stale(folder, e);
	else if (says == IDENTITY_MAYBE)
		failed = read ? verify(m, &id, folder, now, e) : unread(folder, e);
	identity_free(&id);
	return failed;
}

int model_config(const struct model *m, char **text, size_t *length, struct timespec *modified,
		 struct err *e)
{
	enum { MOST = 4 << 20 };
	struct stat st = {0};
	bool gguf = source_is_file(m->id.directory);
	char *path =
		gguf ? strdup(m->id.directory) : source_file_path(m->id.directory, "config.json");
	int failed = path ? 0 : err_set(e, ENOMEM, "out of memory for the name of a file");
	if (!failed)
		failed = gguf ? gguf_config_of(path, text, length, e)
			      : json_read_file(text, length, path, MOST, e);
	if (!failed && !stat(path, &st))
		*modified = st.st_mtim;
	free(path);
	return failed;
}
