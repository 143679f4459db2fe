/* Checks at mount time, while the user is still there to read the message, what would fail when the
 * model is first loaded: missing files, placeholders of Git LFS, missing tensors, a store that
 * cannot be written or has no room. Reads names, a few bytes, and, if a store has to be made, the
 * headers of the weights. */
#include "engine/admin/check.h"
#include "engine/model/load.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include "cache/io.h"
#include "cache/store_files.h"
#include "engine/convert/store_folder.h"
#include "engine/family/sources.h"
#include "engine/source/source.h"
#include "engine/source/source_file.h"
#include "engine/source/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

static bool check_is_there(const char *directory, const char *name)
{
	char path[4096];
	int n = snprintf(path, sizeof path, "%s/%s", directory, name);
	return n < (int)sizeof path && !access(path, F_OK);
}

static bool check_is_pointer(const char *directory, const char *name)
{
	char path[4096];
	return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path &&
	       source_is_pointer(path);
}

bool check_has(const char *directory, const char *name)
{
	return check_is_there(directory, name) && !check_is_pointer(directory, name);
}

static int check_refuse_pointer(const char *directory, const char *name, struct err *e)
{
	return err_set(e, EINVAL,
		       "%s/%s is a git-lfs pointer, not the file itself: fetch the file with `git "
		       "lfs pull`",
		       directory, name);
}

/* Of a GGUF file: that its parts are there, and are not pointers. */
static int check_parts(const char *path, struct err *e)
{
	struct gguf_split split = gguf_split_of(path);
	char *folder = source_folder(path);
	int failed = folder ? 0 : err_set(e, ENOMEM, "out of memory for the name of a folder");
	for (uint32_t i = 0; i < split.count && !failed; i++) {
		char name[NAME_MAX + 1];
		failed = gguf_part_name(&split, i, name, sizeof name, e);
		if (!failed && check_is_pointer(folder, name))
			failed = check_refuse_pointer(folder, name, e);
		else if (!failed && !check_is_there(folder, name))
			failed = err_set(
				e, ENOENT,
				"%s/%s, part %u of %u, is missing: is the download complete?",
				folder, name, i + 1, split.count);
	}
	free(folder);
	return failed;
}

int check_files(const char *directory, struct err *e)
{
	if (source_is_file(directory))
		return check_parts(directory, e);
	static const char *const read[] = {
		"config.json",
		"generation_config.json",
		"tokenizer.json",
		"tokenizer_config.json",
		"tiktoken.model",
		"vocab.json",
		"merges.txt",
		"added_tokens.json",
		"special_tokens_map.json",
		"model.safetensors.index.json",
	};
	for (size_t i = 0; i < sizeof read / sizeof *read; i++)
		if (check_is_pointer(directory, read[i]))
			return check_refuse_pointer(directory, read[i], e);
	if (check_is_there(directory, "tokenizer.json") ||
	    check_is_there(directory, "tiktoken.model"))
		return 0;
	if (!check_is_there(directory, "vocab.json"))
		return err_set(e, ENOENT,
			       "%s has no tokenizer (tokenizer.json or vocab.json): is the "
			       "download complete?",
			       directory);
	static const char *const beside[] = {"merges.txt", "tokenizer_config.json"};
	for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
		if (!check_is_there(directory, beside[i]))
			return err_set(e, ENOENT,
				       "%s has a vocab.json but no %s: is the download complete?",
				       directory, beside[i]);
	return 0;
}

static int check_is_shard(const struct dirent *d)
{
	return source_stem(d->d_name, ".safetensors") != 0;
}

/* Why weights could not be opened, in better words than the error of the first file. */
static int check_explain_weights(const char *directory, struct err *e)
{
	struct dirent **names;
	if (source_is_file(directory))
		return -e->code;
	int code = -e->code, count = scandir(directory, &names, check_is_shard, alphasort);
	if (count < 0)
		return code;
	if (!count)
		code = err_set(e, ENOENT,
			       "%s has no weights (*.safetensors): is the download complete?",
			       directory);
	bool found = false;
	for (int i = 0; i < count; i++) {
		if (!found && (found = check_is_pointer(directory, names[i]->d_name)))
			code = check_refuse_pointer(directory, names[i]->d_name, e);
		free(names[i]);
	}
	free(names);
	return code;
}

/* ---- what a store takes ---- */

/* Bytes of a store by this plan, with its heads. Of a store that may be compressed, the smallest
 * size that is possible: the real one is measured and checked when the store is begun. */
static int check_store_bytes(const struct model *m, const struct plan *p, uint64_t *bytes,
			     struct err *e)
{
	enum { BYTES_PER_UNIT = 64 }; /* in the index and the journal */
	struct store_headers headers;
	uint64_t records = (uint64_t)p->routed_layers * p->experts;
	bool coded = recipe_can_code(&p->recipe) && m->id.recipe.codec != CODEC_NONE;
	int failed = store_headers_make(&headers, &m->id.config, p, e);
	if (failed)
		return failed;
	*bytes = headers.dense_bytes + (coded ? 0 : headers.experts_bytes) + p->dense_bytes +
		 plan_records_bytes(p) / (coded ? 2 : 1) +
		 BYTES_PER_UNIT * (records + p->unit_count);
	store_headers_free(&headers);
	return 0;
}

/* Opens the weights, which names what is missing of them, and fills in what is found out of the
 * recipe. */
static int check_look_at_weights(const struct model *m, struct recipe *r, struct err *e)
{
	struct sources sources;
	struct plan p = {0};
	int failed = sources_open(&sources, m->id.directory, &m->id.config, e);
	if (failed)
		return failed;
	r->draft = sources.draft;
	failed = plan_make(&p, &m->id.config, r, e);
	if (!failed)
		failed = sources_check(&sources, &p, e);
	if (!failed)
		recipe_keep(r, sources_kept_format(&sources), r->norms);
	plan_free(&p);
	sources_close(&sources);
	return failed;
}

/* And counts what their store takes. */
int check_weights(struct model *m, uint64_t *bytes, struct err *e)
{
	struct recipe r = m->id.recipe;
	struct plan p;
	int failed = check_look_at_weights(m, &r, e);
	if (failed)
		return check_explain_weights(m->id.directory, e);
	atomic_store(&m->id.drafts, r.draft);
	failed = plan_make(&p, &m->id.config, &r, e);
	if (!failed)
		failed = check_store_bytes(m, &p, bytes, e);
	plan_free(&p);
	return failed;
}

/* ---- where it goes ---- */

/* What an interrupted conversion has written in a folder: it is resumed, or removed. */
static uint64_t check_taken_in(int folder)
{
	static const char *const names[] = {STORE_EXPERTS STORE_PARTIAL, STORE_DENSE STORE_PARTIAL};
	struct stat st;
	uint64_t bytes = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!fstatat(folder, names[i], &st, AT_SYMLINK_NOFOLLOW))
			bytes += (uint64_t)st.st_blocks * 512;
	return bytes;
}

static int check_refuse_place(const char *path, int code, struct err *e)
{
	return err_sys(
		e, code,
		"%s: the store cannot be written there; choose another folder with -o store= or "
		"XDG_CACHE_HOME",
		path);
}

/* Opens the folder, or the nearest one above it that exists; it must be writable. */
static int check_open_nearest(const char *folder, struct err *e)
{
	char path[4096];
	if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
		return err_set(e, ENAMETOOLONG, "%.64s…: the path is too long", folder);
	int fd = store_folder_open(path, e);
	if (fd == -EACCES)
		return check_refuse_place(folder, EACCES, e);
	for (char *slash; fd == -ENOENT && (slash = strrchr(path, '/'));) {
		slash[slash == path] = 0;
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			fd = check_refuse_place(path, errno, e);
	}
	if (fd >= 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS)) {
		int code = check_refuse_place(path, errno, e);
		close(fd);
		return code;
	}
	return fd;
}

static int check_folder(const char *folder, uint64_t need, struct err *e)
{
	uint64_t have = 0;
	int fd = check_open_nearest(folder, e);
	if (fd < 0)
		return fd;
	int failed = io_free_space(fd, &have);
	uint64_t taken = check_taken_in(fd);
	close(fd);
	if (failed)
		return err_sys(e, -failed, "%s: the free space cannot be determined", folder);
	if (have >= need || need - have <= taken)
		return 0;
	need -= taken;
	return err_set(e, ENOSPC,
		       "%s: the store needs %.1f MB, but only %.1f MB are free (%.1f MB too few); "
		       "free some space, or choose another folder with -o store=",
		       folder, (double)need / 1e6, (double)have / 1e6, (double)(need - have) / 1e6);
}

/* Where the store would be made (load_convert.c): in the second folder if the first is read-only.
 */
static int check_place(const struct model *m, uint64_t need, struct err *e)
{
	int failed = -EACCES;
	for (int i = 0;
	     i < STORE_PLACES && load_may_write(m, i) && (failed == -EACCES || failed == -EROFS);
	     i++)
		failed = check_folder(m->stored.folders[i], need, e);
	return failed;
}

int check_store(struct model *m, struct err *e)
{
	uint64_t need = 0;
	if (atomic_load(&m->stored.has_store)) {
		atomic_store(&m->id.drafts, m->stored.plan.recipe.draft);
		return 0;
	}
	int failed = check_weights(m, &need, e);
	return failed ? failed : check_place(m, need, e);
}

int check_room(const struct model *m, const struct plan *p, const char *folder, struct err *e)
{
	uint64_t need = 0;
	int failed = check_store_bytes(m, p, &need, e);
	return failed ? failed : check_folder(folder, need, e);
}

/* ---- all that is missing ---- */

struct telling {
	void (*each)(void *ctx, const char *name);
	void *ctx;
	uint32_t count;
};

static void check_tell(void *ctx, const char *name)
{
	struct telling *t = ctx;
	t->each(t->ctx, name);
	t->count++;
}

/* As check_files wants them. */
static void check_tell_files(struct telling *t, const char *folder)
{
	static const char *const beside[] = {"merges.txt", "tokenizer_config.json"};
	if (!check_has(folder, "config.json"))
		check_tell(t, "config.json");
	if (check_has(folder, "tokenizer.json") || check_has(folder, "tiktoken.model"))
		return;
	if (!check_has(folder, "vocab.json")) {
		check_tell(t, "tokenizer.json");
		return;
	}
	for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
		if (!check_has(folder, beside[i]))
			check_tell(t, beside[i]);
}

/* Which tensors there must be is the same by every recipe. */
static void check_tell_tensors_of(struct telling *t, const struct sources *s,
				  const struct config *c)
{
	struct recipe r;
	struct plan p;
	struct err none;
	if (recipe_find(&r, NULL, &none))
		return;
	r.draft = s->draft;
	if (plan_make(&p, c, &r, &none))
		return;
	sources_missing(s, &p, check_tell, t);
	plan_free(&p);
}

static void check_tell_tensors(struct telling *t, const char *path)
{
	struct sources s;
	struct err none;
	struct config *c = malloc(sizeof *c);
	if (c && !config_read(c, path, &none) && !sources_open(&s, path, c, &none)) {
		check_tell_tensors_of(t, &s, c);
		sources_close(&s);
	}
	free(c);
}

void check_missing(const char *path, void (*each)(void *ctx, const char *name), void *ctx)
{
	struct telling files = {each, ctx, 0}, weights = {each, ctx, 0};
	if (!source_is_file(path))
		check_tell_files(&files, path);
	source_missing_files(path, check_tell, &weights);
	if (!weights.count)
		check_tell_tensors(&weights, path);
}
