#include "engine/source/model_place.h"
#include "engine/source/source_file.h"
#include "engine/source/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char gguf_ending[] = ".gguf", incomplete_ending[] = ".incomplete";
static const char hub_beginning[] = "models--", snapshots[] = "snapshots";
static const char hub_keeper[] = "a hub's cache";

void place_free(struct model_place *p)
{
	free(p->path);
	free(p->name);
	*p = (struct model_place){0};
}

static int place_out_of_memory(struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for the name of a model");
}

/* ---- names ---- */

static bool place_begins_with(const char *name, const char *beginning)
{
	return !strncmp(name, beginning, strlen(beginning));
}

static const char *place_last_component(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* A GGUF file's name without its extension and part number. */
static char *place_name_of_gguf(const char *path)
{
	struct gguf_split s = gguf_split_of(path);
	size_t n = s.stem;
	if (!s.name[n] && source_stem(s.name, gguf_ending))
		n -= sizeof gguf_ending - 1;
	return strndup(s.name, n);
}

/* NAME of a path …/models--ORG--NAME/snapshots/HASH; NULL: another path. */
static char *place_name_in_hub(const char *path)
{
	const char *at = place_last_component(path);
	size_t k = sizeof snapshots; /* and a slash */
	if (at - path <= (long)k || strncmp(at - k, snapshots, k - 1) != 0 ||
	    at[-(long)k - 1] != '/')
		return NULL;
	char *model = strndup(path, (size_t)(at - path) - k - 1);
	const char *last = model ? place_last_component(model) : "";
	char *name = NULL;
	if (place_begins_with(last, hub_beginning)) {
		for (const char *next; (next = strstr(last, "--"));)
			last = next + 2;
		name = *last ? strdup(last) : NULL;
	}
	free(model);
	return name;
}

/* ---- folders ---- */

static bool place_has_file(const char *folder, const char *name)
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
	       !access(path, F_OK);
}

static int place_is_safetensors(const struct dirent *d)
{
	return source_stem(d->d_name, ".safetensors");
}

/* Endings of unfinished downloads of Hugging Face clients and browsers. */
static int place_is_incomplete(const struct dirent *d)
{
	return source_stem(d->d_name, incomplete_ending) || source_stem(d->d_name, ".part") ||
	       source_stem(d->d_name, ".crdownload");
}

bool place_is_gguf_model(const char *name)
{
	return source_stem(name, gguf_ending) && name[0] != '.' && !strcasestr(name, "mmproj") &&
	       !gguf_split_of(name).part;
}

static int place_is_model_gguf(const struct dirent *d)
{
	return place_is_gguf_model(d->d_name);
}

/* Whether an entry is a folder that may contain models, not a store. Needs d_type, which all common
 * file systems support; without it no folder is found. */
static int place_is_other_folder(const struct dirent *d)
{
	return d->d_type == DT_DIR && d->d_name[0] != '.' && !source_stem(d->d_name, ".moefs");
}

/* Counts the files; *first, if not NULL, becomes the name of the first, malloc'ed. */
static int place_count_files(const char *folder, int (*is)(const struct dirent *), char **first)
{
	struct dirent **names;
	int count = scandir(folder, &names, is, alphasort);
	for (int i = 0; i < count; i++) {
		if (!i && first)
			*first = strdup(names[i]->d_name);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
	return count < 0 ? 0 : count;
}

static int place_take_gguf(struct model_place *out, char *path, struct err *e)
{
	char *folder = path ? source_folder(path) : NULL,
	     *model = folder ? place_name_in_hub(folder) : NULL;
	out->path = path;
	out->name = path ? place_name_of_gguf(path) : NULL;
	out->keeper = model ? hub_keeper : NULL;
	free(folder);
	free(model);
	return out->name ? 0 : place_out_of_memory(e);
}

static int place_take_folder(struct model_place *out, const char *folder, struct err *e)
{
	out->path = strdup(folder);
	out->name = place_name_in_hub(folder);
	out->keeper = out->name ? hub_keeper : NULL;
	if (!out->name)
		out->name = strdup(place_last_component(folder));
	return out->path && out->name ? 0 : place_out_of_memory(e);
}

/* Explains why a folder without a config.json and without a GGUF file is not a model. */
static int place_explain_folder(const char *folder, struct err *e)
{
	char *file = NULL;
	int failed = 0;
	if (place_count_files(folder, place_is_incomplete, &file) && file)
		failed = err_set(e, EINVAL,
				 "%s has %s, an unfinished download, and no config.json: wait "
				 "until the download is complete",
				 folder, file);
	else if (place_count_files(folder, place_is_safetensors, &file) && file)
		failed = err_set(e, EINVAL,
				 "%s has %s and no config.json: is the download complete?", folder,
				 file);
	else
		failed = err_set(e, ENOENT, "%s has no config.json and no GGUF file", folder);
	free(file);
	return failed;
}

static int place_find_in_folder(struct model_place *out, const char *folder, struct err *e)
{
	char *file = NULL;
	int files = place_count_files(folder, place_is_model_gguf, &file), failed;
	bool weights = place_has_file(folder, "model.safetensors.index.json") ||
		       place_count_files(folder, place_is_safetensors, NULL);
	if (place_has_file(folder, "config.json") && (!files || weights))
		failed = place_take_folder(out, folder, e);
	else if (files && place_count_files(folder, place_is_other_folder, NULL))
		failed = err_set(e, ENOENT, "%s has GGUF files and folders: choose one of them",
				 folder);
	else if (files == 1)
		failed = file ? place_take_gguf(out, source_file_path(folder, file, e), e)
			      : place_out_of_memory(e);
	else if (files)
		failed = err_set(e, EINVAL,
				 "%s has %d models in GGUF files: choose one of them, such as %s",
				 folder, files, file ? file : "a file");
	else
		failed = place_explain_folder(folder, e);
	free(file);
	return failed;
}

/* ---- the hub's cache ---- */

char *place_hub_snapshot(const char *folder)
{
	char path[PATH_MAX], hash[128] = "", *only = NULL;
	FILE *f = snprintf(path, sizeof path, "%s/refs/main", folder) < (int)sizeof path
			  ? fopen(path, "re")
			  : NULL;
	bool read = f && fgets(hash, sizeof hash, f);
	if (f)
		(void)fclose(f);
	hash[strcspn(hash, "\r\n")] = 0;
	if (read && *hash && !strchr(hash, '/') && hash[0] != '.' &&
	    snprintf(path, sizeof path, "%s/%s", snapshots, hash) < (int)sizeof path &&
	    place_has_file(folder, path))
		return source_file_path(folder, path, NULL);
	struct dirent **names;
	if (snprintf(path, sizeof path, "%s/%s", folder, snapshots) >= (int)sizeof path)
		return NULL;
	int count = scandir(path, &names, NULL, alphasort), seen = 0;
	for (int i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.' && !seen++)
			only = source_file_path(path, names[i]->d_name, NULL);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
	if (seen > 1) {
		free(only);
		return NULL;
	}
	return only;
}

static bool place_is_hub_model(const char *folder)
{
	return place_begins_with(place_last_component(folder), hub_beginning) &&
	       place_has_file(folder, snapshots);
}

static int place_find_in_hub(struct model_place *out, const char *folder, struct err *e)
{
	char *snapshot = place_hub_snapshot(folder);
	if (!snapshot)
		return err_set(e, EINVAL,
			       "%s: refs/main names no snapshot, and there is not exactly one: is "
			       "the download complete?",
			       folder);
	int failed = place_find_in_folder(out, snapshot, e);
	free(snapshot);
	if (failed == -ENOENT) /* only unusable files so far */
		failed = err_set(e, EINVAL,
				 "%s has no config.json and no GGUF file in its snapshot: is the "
				 "download complete?",
				 folder);
	return failed;
}

/* ---- files ---- */

static bool place_is_gguf_name(const char *path)
{
	return source_stem(path, gguf_ending);
}

static int place_explain_file(const char *path, struct err *e)
{
	if (access(path, R_OK))
		return err_sys(e, errno, "%s: cannot be opened", path);
	if (place_is_gguf_name(path))
		return err_set(e, EINVAL,
			       "%s is not a GGUF file, whatever its name says: was the download "
			       "cut short?",
			       path);
	if (source_stem(path, ".safetensors"))
		return err_set(e, ENOENT, "%s is one file of a checkpoint: give its folder", path);
	return err_set(
		e, ENOENT,
		"%s is a file: give a GGUF file, or the folder of a checkpoint (config.json, "
		"*.safetensors, tokenizer.json)",
		path);
}

/* Links in the folder's path are resolved, but the file keeps its name, since in a Hugging Face
 * cache links lead to names that are hashes. */
static int place_find_file(struct model_place *out, const char *given, struct err *e)
{
	struct gguf_split split = gguf_split_of(given);
	char *folder = source_folder(given), *real = folder ? realpath(folder, NULL) : NULL;
	int failed = 0;
	if (place_is_gguf_name(given) && source_is_pointer(given))
		failed = err_set(e, EINVAL,
				 "%s is a git-lfs pointer, not the file itself: fetch the file "
				 "with `git lfs pull`",
				 given);
	else if (source_stem(given, incomplete_ending))
		failed = err_set(e, EINVAL,
				 "%s is an unfinished download: wait until it is complete", given);
	else if (!gguf_is(given))
		failed = place_explain_file(given, e);
	else if (split.part)
		failed = err_set(e, ENOENT, "%s is part %u of %u of a model: give the first part",
				 given, split.part + 1, split.count);
	else
		failed = real ? place_take_gguf(out, source_file_path(real, split.name, e), e)
			      : err_sys(e, errno, "%s: cannot be opened", given);
	free(real);
	free(folder);
	return failed;
}

int place_find(struct model_place *out, const char *given, struct err *e)
{
	*out = (struct model_place){0};
	if (source_is_file(given))
		return place_find_file(out, given, e);
	char *real = realpath(given, NULL);
	if (!real)
		return err_sys(e, errno, "%s: cannot be opened", given);
	int failed = place_is_hub_model(real) ? place_find_in_hub(out, real, e)
					      : place_find_in_folder(out, real, e);
	free(real);
	if (failed)
		place_free(out);
	return failed;
}
