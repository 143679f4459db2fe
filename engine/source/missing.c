#include "engine/source/missing.h"
#include "engine/source/file.h"
#include "engine/source/gguf_split.h"
#include "engine/json/json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INDEX_BYTES = 64 << 20 };

struct telling {
	const char *folder;
	void (*each)(void *ctx, const char *name);
	void *ctx;
};

static void tell(const struct telling *t, const char *name)
{
	char *path = strchr(name, '/') ? NULL : source_file_path(t->folder, name);
	if (path && (access(path, F_OK) || source_is_pointer(path)))
		t->each(t->ctx, name);
	free(path);
}

static void tell_parts(const struct telling *t, const char *path)
{
	char name[NAME_MAX + 1];
	struct err none;
	struct gguf_split split = gguf_split_of(path);
	for (uint32_t i = 0; i < split.count; i++)
		if (!gguf_part_name(&split, i, name, sizeof name, &none))
			tell(t, name);
}

/* ---- shards ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What the index has for its tensors: the names of a few files, each many times. */
static void tell_shards(const struct telling *t, const struct json *map)
{
	size_t count = 0, n;
	const char **names = calloc(json_count(map) + 1, sizeof *names);
	for (const struct json *v = NULL; names && (v = json_next(map, v));)
		if (json_kind(v) == JSON_TEXT)
			names[count++] = json_bytes(v, &n);
	if (count)
		qsort(names, count, sizeof *names, by_name);
	for (size_t i = 0; i < count; i++)
		if (!i || strcmp(names[i - 1], names[i]) != 0)
			tell(t, names[i]);
	free(names);
}

static void tell_weights(const struct telling *t)
{
	struct err none;
	struct json *index;
	const struct json *map;
	char *path = source_file_path(t->folder, "model.safetensors.index.json");
	if (!path || access(path, F_OK)) {
		tell(t, "model.safetensors");
	} else if (source_is_pointer(path)) {
		tell(t, "model.safetensors.index.json");
	} else if (!json_parse_file(&index, path, MAX_INDEX_BYTES, &none)) {
		if (!json_get_object(index, "weight_map", path, &map, &none))
			tell_shards(t, map);
		json_free(index);
	}
	free(path);
}

void source_missing_files(const char *path, void (*each)(void *ctx, const char *name), void *ctx)
{
	bool file = source_is_file(path);
	char *folder = file ? source_folder(path) : strdup(path);
	const struct telling t = {folder, each, ctx};
	if (folder && file)
		tell_parts(&t, path);
	else if (folder)
		tell_weights(&t);
	free(folder);
}
