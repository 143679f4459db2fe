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

static int visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int scan_inside(const char *folder, void (*visit)(void *ctx, const char *path, const char *name),
		void *ctx, struct err *e)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, visible, alphasort);
	if (n < 0)
		return err_sys(e, errno, "cannot look into %s", folder);
	for (int i = 0; i < n; i++) {
		char inside[PATH_SIZE];
		(void)snprintf(inside, sizeof inside, "%s/%s", folder, entries[i]->d_name);
		visit(ctx, inside, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

/* ---- noticing changes ---- */

static void watch(const struct scan *s, const char *path, uint32_t how)
{
	const uint32_t changes =
		IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB;
	if (s->notices >= 0) /* where that fails, there is `rescan` */
		(void)inotify_add_watch(s->notices, path, changes | IN_ONLYDIR | how);
}

static void watch_snapshot(void *ctx, const char *path, const char *name)
{
	(void)name;
	watch(ctx, path, IN_ONESHOT);
}

/* One that was noticed is looked at by the scan that follows, which watches it again if it is no
 * model still. In a hub's cache a download ends two folders deeper. */
static void watch_inside(struct scan *s, const char *path, const char *name)
{
	char deeper[PATH_SIZE + 16];
	struct err none;
	watch(s, path, IN_ONESHOT);
	if (strncmp(name, "models--", 8) != 0)
		return;
	(void)snprintf(deeper, sizeof deeper, "%s/blobs", path);
	watch(s, deeper, IN_ONESHOT);
	(void)snprintf(deeper, sizeof deeper, "%s/snapshots", path);
	watch(s, deeper, IN_ONESHOT);
	(void)scan_inside(deeper, watch_snapshot, s, &none);
}

/* ---- what is being copied ---- */

struct age {
	struct timespec now;
	bool young;
};

static void look_at_age(void *ctx, const char *path, const char *name)
{
	struct age *a = ctx;
	struct stat st;
	(void)name;
	/* One from the future has a clock of its own, and says nothing. */
	if (!stat(path, &st) && st.st_mtim.tv_sec <= a->now.tv_sec &&
	    a->now.tv_sec - st.st_mtim.tv_sec < 2)
		a->young = true;
}

/* By the times of the folder and of what is in it: what was moved here is as old as it was. */
static bool is_changing(const char *path)
{
	struct age a = {0};
	struct err none;
	clock_gettime(CLOCK_REALTIME, &a.now);
	look_at_age(&a, path, NULL);
	(void)scan_inside(path, look_at_age, &a, &none);
	return a.young;
}

/* ---- looking ---- */

/* As an error's text it is one line, whatever is in a name. */
static void skip(struct scan *s, const char *name, const struct err *why)
{
	struct err line;
	err_set(&line, why->code, "skipped: %s: %s", name, why->text);
	text_format(&s->skipped, "%s\n", line.text);
}

/* What the last look said of it. */
static void skip_still(struct scan *s, const char *name)
{
	struct err start;
	err_set(&start, EINVAL, "skipped: %s: ", name);
	size_t length = strlen(start.text);
	for (size_t at = 0; at < s->before.length;) {
		const char *line = s->before.data + at;
		size_t n =
			(size_t)((const char *)memchr(line, '\n', s->before.length - at) - line) +
			1;
		if (n > length && !memcmp(line, start.text, length))
			text_add(&s->skipped, line, n);
		at += n;
	}
}

static bool is_known(const struct scan *s, const char *path)
{
	for (size_t i = 0; i < s->known_count; i++)
		if (!strcmp(s->known[i].path, path))
			return true;
	return false;
}

static int open_one(struct scan *s, const char *path, struct err *e)
{
	struct found *grown = reallocarray(s->found, s->found_count + 1, sizeof *grown);
	if (!grown)
		return err_set(e, ENOMEM, "no memory for %s", path);
	s->found = grown;
	int failed = models_find(&s->found[s->found_count], s->engine, path, false, e);
	s->found_count += !failed;
	return failed;
}

static void look(void *ctx, const char *path, const char *name)
{
	struct scan *s = ctx;
	struct err why;
	if (is_known(s, path))
		return;
	watch_inside(s, path, name); /* before the look, so that nothing comes between */
	int found = model_locate(path, &why);
	if (found == -ENOENT)
		return;
	if (s->patient && is_changing(path)) {
		s->changing = true;
		skip_still(s, name);
		return;
	}
	if (found || open_one(s, path, &why))
		skip(s, name, &why);
}

static bool is_in(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	return !strncmp(path, folder, n) && path[n] == '/' && !strchr(path + n + 1, '/');
}

/* Of a folder that could be looked into. */
static void find_gone(struct scan *s, const char *folder)
{
	struct stat st;
	for (size_t i = 0; i < s->known_count; i++)
		s->known[i].gone |= is_in(s->known[i].path, folder) &&
				    stat(s->known[i].path, &st) && errno == ENOENT;
}

void scan_run(struct scan *s)
{
	for (size_t i = 0; i < s->folder_count; i++) {
		watch(s, s->folders[i], 0);
		if (!scan_inside(s->folders[i], look, s, &s->failed))
			find_gone(s, s->folders[i]);
	}
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
