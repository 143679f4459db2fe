/* See scan.h. */
#include "fs/models/scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

enum { PATH_SIZE = 4096 + NAME_SIZE };

static int scan_is_visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int scan_folder(const char *folder, void (*visit)(void *ctx, const char *path, const char *name),
		void *ctx, struct err *e)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, scan_is_visible, alphasort);
	if (n < 0)
		return err_sys(e, errno, "cannot read the folder %s", folder);
	for (int i = 0; i < n; i++) {
		char path[PATH_SIZE];
		(void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
		visit(ctx, path, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

/* ---- noticing changes ---- */

/* If inotify does not work, the verb `rescan` remains. */
static void scan_watch(const struct scan *s, const char *path, uint32_t how)
{
	const uint32_t changes =
		IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB;
	if (s->notices >= 0)
		(void)inotify_add_watch(s->notices, path, changes | IN_ONLYDIR | how);
}

static void scan_watch_snapshot(void *ctx, const char *path, const char *name)
{
	(void)name;
	scan_watch(ctx, path, IN_ONESHOT);
}

/* Watches a folder for one change, which starts a scan. The scan watches the folder again if the
 * folder still is not a model. In the cache of huggingface_hub (models--ORG--NAME) a download ends
 * two folders deeper. */
static void scan_watch_inside(struct scan *s, const char *path, const char *name)
{
	char deeper[PATH_SIZE + 16];
	struct err none;
	scan_watch(s, path, IN_ONESHOT);
	if (strncmp(name, "models--", 8) != 0)
		return;
	(void)snprintf(deeper, sizeof deeper, "%s/blobs", path);
	scan_watch(s, deeper, IN_ONESHOT);
	(void)snprintf(deeper, sizeof deeper, "%s/snapshots", path);
	scan_watch(s, deeper, IN_ONESHOT);
	(void)scan_folder(deeper, scan_watch_snapshot, s, &none);
}

/* ---- models that are being copied ---- */

struct scan_age {
	struct timespec now;
	bool young;
};

static void scan_check_age(void *ctx, const char *path, const char *name)
{
	struct scan_age *a = ctx;
	struct stat st;
	(void)name;
	/* A time in the future comes from another clock and tells nothing. */
	if (!stat(path, &st) && st.st_mtim.tv_sec <= a->now.tv_sec &&
	    a->now.tv_sec - st.st_mtim.tv_sec < 2)
		a->young = true;
}

/* Compares the modification times of the folder and of its contents. A move keeps them, so a model
 * that was moved here is complete. */
static bool scan_is_changing(const char *path)
{
	struct scan_age a = {0};
	struct err none;
	clock_gettime(CLOCK_REALTIME, &a.now);
	scan_check_age(&a, path, NULL);
	(void)scan_folder(path, scan_check_age, &a, &none);
	return a.young;
}

/* ---- searching ---- */

/* Repeats the line that the last scan wrote for this name. */
static void scan_skip_again(struct scan *s, const char *name)
{
	struct err start;
	err_set(&start, EINVAL, "skipped: %s: ", name);
	size_t length = strlen(start.text);
	for (size_t at = 0, n; at < s->before.length; at += n) {
		const char *line = s->before.data + at;
		n = (size_t)((const char *)memchr(line, '\n', s->before.length - at) - line) + 1;
		if (n > length && !memcmp(line, start.text, length))
			text_add(&s->skipped, line, n);
	}
}

static int scan_open(struct scan *s, const char *path, enum models_reads reads, struct err *e)
{
	struct found_model *grown = reallocarray(s->found, s->found_count + 1, sizeof *grown);
	if (!grown)
		return err_set(e, ENOMEM, "no memory for %s", path);
	s->found = grown;
	int failed = models_find(&s->found[s->found_count], s->engine, path, reads, e);
	s->found_count += !failed;
	return failed;
}

static bool scan_knows(const struct scan *s, const char *path)
{
	for (size_t i = 0; i < s->known_count; i++)
		if (!strcmp(s->known[i].path, path))
			return true;
	return false;
}

static void scan_look(void *ctx, const char *path, const char *name)
{
	struct scan *s = ctx;
	struct err why;
	if (scan_knows(s, path))
		return;
	scan_watch_inside(s, path, name); /* before the check, so that no change is missed */
	int found = model_locate(path, &why);
	if (found == -ENOENT)
		return;
	if (s->patient && scan_is_changing(path)) {
		s->changing = true;
		scan_skip_again(s, name);
		return;
	}
	if (found || scan_open(s, path, MODELS_READS_VOCABULARY, &why)) {
		struct err line; /* an error's text is one line, even if a name has newlines */
		err_set(&line, why.code, "skipped: %s: %s", name, why.text);
		text_format(&s->skipped, "%s\n", line.text);
	}
}

/* Marks the known models of a readable folder whose paths no longer exist. deep: models may also be
 * in its subfolders. */
static void scan_find_gone(struct scan *s, const char *folder, bool deep)
{
	size_t n = strlen(folder);
	struct stat st;
	for (size_t i = 0; i < s->known_count; i++) {
		const char *path = s->known[i].path;
		bool inside = !strncmp(path, folder, n) && path[n] == '/' &&
			      (deep || !strchr(path + n + 1, '/'));
		s->known[i].gone |= inside && stat(path, &st) && errno == ENOENT;
	}
}

/* ---- folders of other programs ---- */

/* Checks one model of such a folder, with the name from the list. */
static void scan_look_at_other(struct scan *s, const struct library_model *other)
{
	struct err why, line;
	const char *shown = other->name ? other->name : other->path, *reason = other->why;
	if (scan_knows(s, other->path))
		return;
	if (!reason && s->patient && scan_is_changing(other->path)) {
		s->changing = true;
		scan_skip_again(s, shown);
		return;
	}
	char *name = reason ? NULL : strdup(other->name);
	if (!reason && (!name || scan_open(s, other->path, MODELS_READS_HEADERS, &why)))
		reason = name ? why.text : "out of memory for its name";
	if (!reason) {
		s->found[s->found_count - 1].name = name;
		return;
	}
	free(name);
	err_set(&line, EINVAL, "skipped: %s: %s", shown, reason);
	text_format(&s->skipped, "%s\n", line.text);
}

/* Names depend on all models in the list, so this runs once for all folders. */
static void scan_others(struct scan *s, struct library_list *others)
{
	struct err e;
	if (library_name(others, &e)) {
		s->failed = e;
		return;
	}
	for (size_t i = 0; i < others->folder_count; i++)
		scan_watch(s, others->folders[i], 0);
	for (size_t i = 0; i < others->count; i++)
		scan_look_at_other(s, &others->models[i]);
}

void scan_run(struct scan *s)
{
	struct library_list others = {0};
	for (size_t i = 0; i < s->folder_count; i++) {
		struct err e = {0};
		scan_watch(s, s->folders[i], 0);
		int other = library_look(&others, s->folders[i], &e);
		if (other && other != -ENOENT)
			s->failed = e;
		else if (!other || !scan_folder(s->folders[i], scan_look, s, &s->failed))
			scan_find_gone(s, s->folders[i], !other);
	}
	scan_others(s, &others);
	library_free(&others);
}

void scan_free(struct scan *s)
{
	for (size_t i = 0; i < s->found_count; i++)
		models_drop(&s->found[i]);
	for (size_t i = 0; i < s->known_count; i++)
		free(s->known[i].path);
	free(s->found);
	free(s->known);
	text_free(&s->skipped);
	text_free(&s->before);
	*s = (struct scan){0};
}
