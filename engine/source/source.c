#include "engine/source/source.h"

#include "engine/json/json.h"
#include "engine/source/source_file.h"
#include "engine/source/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { SAMPLES = 16, SAMPLE_BYTES = 4096, HEAD_BYTES = 1 << 20 };

static const int64_t second_ns = 1000000000;

/* ---- stamps ---- */

static bool source_same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool source_stamps_equal(const struct source_stamp *a, const struct source_stamp *b)
{
	return a->size == b->size && source_same_time(a->modified, b->modified) &&
	       source_same_time(a->changed, b->changed);
}

struct source_stamp source_stamp_of(const struct stat *st)
{
	return (struct source_stamp){(uint64_t)st->st_size, st->st_mtim, st->st_ctim};
}

static int source_stamp_file(const char *directory, struct source_file *f, struct err *e)
{
	struct stat st;
	char *path = source_file_path(directory, f->name, e);
	int failed = path ? 0 : -ENOMEM;
	if (!failed && stat(path, &st))
		failed = err_sys(e, errno, "%s: cannot be looked at", path);
	if (!failed)
		f->stamp = source_stamp_of(&st);
	free(path);
	return failed;
}

/* How long to wait until another change would give the file a different time. */
static int64_t source_unsettled_ns(const struct source_stamp *s)
{
	/* The kernel's slowest tick is 10 ms. File systems without fractional times have steps of
	 * one or two seconds. */
	bool whole = !s->changed.tv_nsec && !s->modified.tv_nsec;
	int64_t tick = whole ? 2 * second_ns : second_ns / 50;
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
	if (s->changed.tv_sec < now.tv_sec - 3 || s->changed.tv_sec > now.tv_sec + 3)
		return 0; /* long ago; or in the future, where waiting is pointless */
	int64_t age =
		(now.tv_sec - s->changed.tv_sec) * second_ns + (now.tv_nsec - s->changed.tv_nsec);
	return age < tick ? tick - age : 0;
}

static void source_settle(const struct source_state *s)
{
	int64_t wait = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		int64_t one = source_unsettled_ns(&s->files[i].stamp);
		wait = one > wait ? one : wait;
	}
	struct timespec pause = {.tv_sec = wait / second_ns, .tv_nsec = wait % second_ns};
	while (wait && nanosleep(&pause, &pause) && errno == EINTR)
		;
}

int source_compare(const struct source_state *s, const struct source_file *f, struct err *e)
{
	struct source_file now = {.name = f->name};
	int failed = source_stamp_file(s->directory, &now, e);
	if (!failed && !source_stamps_equal(&now.stamp, &f->stamp))
		failed = err_set(e, ESTALE, "%s/%s: was changed while it was read; try again",
				 s->directory, f->name);
	return failed;
}

/* ---- samples ---- */

/* Hashes a small file completely; of a large file its size, its head (for safetensors: all names,
 * shapes and places) and evenly spaced samples. */
static int source_hash_file(XXH3_state_t *hash, const char *path, struct err *e)
{
	uint64_t size = 0;
	int fd = source_file_open(path, &size, e);
	if (fd < 0)
		return fd;
	uint8_t *buffer = malloc(HEAD_BYTES);
	int failed = buffer ? 0 : err_set(e, ENOMEM, "out of memory for reading %s", path);
	size_t head = size < HEAD_BYTES ? (size_t)size : HEAD_BYTES;
	XXH3_128bits_update(hash, &size, sizeof size);
	if (!failed)
		failed = source_file_read(fd, buffer, head, 0, path, e);
	if (!failed)
		XXH3_128bits_update(hash, buffer, head);
	for (uint64_t i = 0; i < SAMPLES && size > HEAD_BYTES && !failed; i++) {
		failed = source_file_read(fd, buffer, SAMPLE_BYTES,
					  (size - SAMPLE_BYTES) / SAMPLES * (i + 1), path, e);
		if (!failed)
			XXH3_128bits_update(hash, buffer, SAMPLE_BYTES);
	}
	free(buffer);
	close(fd);
	return failed;
}

static int source_sample(struct source_state *s, struct err *e)
{
	XXH3_state_t *hash = XXH3_createState();
	if (!hash)
		return err_set(e, ENOMEM, "out of memory for sums of files");
	XXH3_128bits_reset(hash);
	int failed = 0;
	for (uint32_t i = 0; i < s->count && !failed; i++) {
		const char *name = s->files[i].name;
		char *path = source_file_path(s->directory, name, e);
		XXH3_128bits_update(hash, name, strlen(name) + 1);
		failed = path ? source_hash_file(hash, path, e) : -ENOMEM;
		free(path);
	}
	XXH128_hash_t digest = XXH3_128bits_digest(hash);
	s->sampled[0] = digest.low64;
	s->sampled[1] = digest.high64;
	XXH3_freeState(hash);
	return failed;
}

/* ---- the list ---- */

static int source_is_of_checkpoint(const struct dirent *d)
{
	return !strcmp(d->d_name, "config.json") || !strcmp(d->d_name, "tq_config.json") ||
	       !strcmp(d->d_name, "tc_config.json") ||
	       !strcmp(d->d_name, "model.safetensors.index.json") ||
	       source_stem(d->d_name, ".safetensors");
}

uint64_t source_name_hash(const char *name)
{
	return XXH3_64bits(name, strlen(name));
}

static int source_add_file(struct source_state *s, const char *name, struct err *e)
{
	struct source_file *f = &s->files[s->count];
	*f = (struct source_file){.name = strdup(name), .name_hash = source_name_hash(name)};
	if (!f->name)
		return err_set(e, ENOMEM, "out of memory for the names of files");
	s->count++;
	return source_stamp_file(s->directory, f, e);
}

static int source_list_folder(struct source_state *s, struct err *e)
{
	struct dirent **names;
	int count = scandir(s->directory, &names, source_is_of_checkpoint, alphasort);
	if (count < 0)
		return err_sys(e, errno, "%s: cannot be listed", s->directory);
	s->files = calloc((size_t)count + 1, sizeof *s->files);
	int failed = s->files ? 0 : err_set(e, ENOMEM, "out of memory for the names of files");
	for (int i = 0; i < count; i++) {
		if (!failed)
			failed = source_add_file(s, names[i]->d_name, e);
		free(names[i]);
	}
	free(names);
	return failed;
}

/* The parts of a GGUF file, by their names. */
static int source_list_parts(struct source_state *s, struct err *e)
{
	struct gguf_split split = gguf_split_of(s->path);
	s->files = calloc(split.count, sizeof *s->files);
	int failed = s->files ? 0 : err_set(e, ENOMEM, "out of memory for the names of files");
	for (uint32_t i = 0; i < split.count && !failed; i++) {
		char name[NAME_MAX + 1];
		failed = gguf_part_name(&split, i, name, sizeof name, e);
		if (!failed)
			failed = source_add_file(s, name, e);
	}
	return failed;
}

static int source_list(struct source_state *s, const char *path, struct err *e)
{
	*s = (struct source_state){.path = strdup(path), .directory = source_folder(path)};
	if (!s->path || !s->directory)
		return err_set(e, ENOMEM, "out of memory for the name of a folder");
	return source_is_file(path) ? source_list_parts(s, e) : source_list_folder(s, e);
}

int source_look(struct source_state *out, const char *path, struct err *e)
{
	int failed = source_list(out, path, e);
	if (failed)
		return failed;
	/* before reading, so that these times belong to the bytes that are read */
	source_settle(out);
	return source_sample(out, e);
}

void source_forget(struct source_state *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		free(s->files[i].name);
	free(s->files);
	free(s->path);
	free(s->directory);
	*s = (struct source_state){0};
}

const struct source_file *source_find(const struct source_state *s, uint64_t name_hash)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->files[i].name_hash == name_hash)
			return &s->files[i];
	return NULL;
}

void source_number(const struct source_state *s, uint64_t out[2])
{
	XXH128_hash_t sum = XXH3_128bits(s->sampled, sizeof s->sampled);
	for (uint32_t i = 0; i < s->count; i++) {
		const struct source_stamp *t = &s->files[i].stamp;
		const uint64_t words[] = {
			sum.low64,
			sum.high64,
			s->files[i].name_hash,
			t->size,
			(uint64_t)t->modified.tv_sec,
			(uint64_t)t->modified.tv_nsec,
			(uint64_t)t->changed.tv_sec,
			(uint64_t)t->changed.tv_nsec,
		};
		sum = XXH3_128bits(words, sizeof words);
	}
	out[0] = sum.low64;
	out[1] = sum.high64;
}

bool source_unchanged(const struct source_state *s)
{
	struct err none;
	struct source_state now;
	bool same = !source_list(&now, s->path, &none) && now.count == s->count;
	for (uint32_t i = 0; i < s->count && same; i++)
		same = now.files[i].name_hash == s->files[i].name_hash &&
		       source_stamps_equal(&now.files[i].stamp, &s->files[i].stamp);
	source_forget(&now);
	return same;
}

/* ---- files that are missing ---- */

enum { MAX_INDEX_BYTES = 64 << 20 };

struct source_missing {
	const char *folder;
	void (*each)(void *ctx, const char *name);
	void *ctx;
};

static void source_tell_missing(const struct source_missing *t, const char *name)
{
	char *path = strchr(name, '/') ? NULL : source_file_path(t->folder, name, NULL);
	if (path && (access(path, F_OK) || source_is_pointer(path)))
		t->each(t->ctx, name);
	free(path);
}

/* ---- shards ---- */

static int source_compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The index has a file name for each tensor, so the same few names occur many times. */
static void source_tell_missing_shards(const struct source_missing *t, const struct json *map)
{
	size_t count = 0, n;
	const char **names = calloc(json_count(map) + 1, sizeof *names);
	for (const struct json *v = NULL; names && (v = json_next(map, v));)
		if (json_kind(v) == JSON_TEXT)
			names[count++] = json_bytes(v, &n);
	if (count)
		qsort(names, count, sizeof *names, source_compare_names);
	for (size_t i = 0; i < count; i++)
		if (!i || strcmp(names[i - 1], names[i]) != 0)
			source_tell_missing(t, names[i]);
	free(names);
}

static void source_tell_missing_weights(const struct source_missing *t)
{
	struct err none;
	struct json *index;
	const struct json *map;
	char *path = source_file_path(t->folder, "model.safetensors.index.json", NULL);
	if (!path || access(path, F_OK)) {
		source_tell_missing(t, "model.safetensors");
	} else if (source_is_pointer(path)) {
		source_tell_missing(t, "model.safetensors.index.json");
	} else if (!json_parse_file(&index, path, MAX_INDEX_BYTES, &none)) {
		if (!json_get_object(index, "weight_map", path, &map, &none))
			source_tell_missing_shards(t, map);
		json_free(index);
	}
	free(path);
}

void source_missing_files(const char *path, void (*each)(void *ctx, const char *name), void *ctx)
{
	char name[NAME_MAX + 1], *folder = source_folder(path);
	const struct source_missing t = {folder, each, ctx};
	const struct gguf_split split = gguf_split_of(path);
	if (folder && !source_is_file(path))
		source_tell_missing_weights(&t);
	else if (folder)
		for (uint32_t i = 0; i < split.count; i++)
			if (!gguf_part_name(&split, i, name, sizeof name, NULL))
				source_tell_missing(&t, name);
	free(folder);
}
