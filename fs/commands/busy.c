/* Who keeps a mount in use: by the links in /proc, which tell paths without a look at the mount. */
#include "fs/commands/busy.h"
#include "fs/base/mountinfo.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool link_is_in(const char *link, const char *point)
{
	char target[4096];
	ssize_t n = readlink(link, target, sizeof target - 1);
	size_t length = strlen(point);
	if (n < 0)
		return false;
	target[n] = 0;
	return !strncmp(target, point, length) && (!target[length] || target[length] == '/');
}

static bool has_open(const char *process, const char *point)
{
	char path[512];
	(void)snprintf(path, sizeof path, "/proc/%s/fd", process);
	DIR *folder = opendir(path);
	const struct dirent *d;
	bool found = false;
	while (folder && !found && (d = readdir(folder))) {
		(void)snprintf(path, sizeof path, "/proc/%s/fd/%s", process, d->d_name);
		found = link_is_in(path, point);
	}
	if (folder)
		(void)closedir(folder);
	return found;
}

static bool uses(const char *process, const char *point)
{
	static const char *const places[] = {"cwd", "root", "exe"};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		char path[512];
		(void)snprintf(path, sizeof path, "/proc/%s/%s", process, places[i]);
		if (link_is_in(path, point))
			return true;
	}
	return has_open(process, point);
}

static void add_process(const char *process, char *words, size_t size)
{
	char path[512], name[64] = "?";
	size_t used = strlen(words);
	(void)snprintf(path, sizeof path, "/proc/%s/comm", process);
	FILE *f = fopen(path, "re");
	if (f && fgets(name, sizeof name, f))
		name[strcspn(name, "\n")] = 0;
	if (f)
		(void)fclose(f);
	(void)snprintf(words + used, size - used, "%s%s (%s)", used ? ", " : "", name, process);
}

/* Adds all processes, but this one, of which `is` is true. */
static void add_those(bool (*is)(const char *process, const char *what), const char *what,
		      char *words, size_t size)
{
	DIR *folder = opendir("/proc");
	const struct dirent *d;
	*words = 0;
	while (folder && (d = readdir(folder)))
		if (strtol(d->d_name, NULL, 10) > 0 && strtol(d->d_name, NULL, 10) != getpid() &&
		    is(d->d_name, what) && strlen(words) + 1 < size)
			add_process(d->d_name, words, size);
	if (folder)
		(void)closedir(folder);
}

void busy_words(const char *point, char *words, size_t size)
{
	add_those(uses, point, words, size);
}

static int is_device(void *ctx, const struct mountinfo *m)
{
	return !strcmp(m->device, ctx);
}

static bool sees(const char *process, const char *device)
{
	char table[512], wanted[32];
	(void)snprintf(table, sizeof table, "/proc/%s/mountinfo", process);
	(void)snprintf(wanted, sizeof wanted, "%s", device);
	return mountinfo_each(table, is_device, wanted) > 0;
}

void busy_elsewhere(const char *device, char *words, size_t size)
{
	add_those(sees, device, words, size);
}
