/* See proc.h. */
#include "fs/base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	READ_BYTES = 512, /* enough: in these files a program's name has at most 64 bytes */
	PATH_BYTES = 4096,
};

/* ---- processes that make requests ---- */

/* Reads the beginning of /proc/ID/NAME as a string. */
static bool proc_read(pid_t id, const char *name, char text[READ_BYTES])
{
	char path[64];
	(void)snprintf(path, sizeof path, "/proc/%ld/%s", (long)id, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, READ_BYTES - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

pid_t proc_of_thread(pid_t thread)
{
	static const char *const relays[] = {"Name:\tsftp-server\n", "Name:\tsshd\n",
					     "Name:\tsshd-session\n"};
	static const char label[] = "\nTgid:"; /* a newline in the program's name is escaped */
	char text[READ_BYTES];
	if (thread <= 0 || !proc_read(thread, "status", text))
		return thread;
	for (size_t i = 0; i < sizeof relays / sizeof *relays; i++)
		if (!strncmp(text, relays[i], strlen(relays[i])))
			return PROC_RELAY;
	const char *found = strstr(text, label);
	long id = found ? strtol(found + sizeof label - 1, NULL, 10) : 0;
	return id > 0 ? (pid_t)id : thread;
}

/* Fields of /proc/ID/stat, counted from 1 as in proc(5). */
enum { STAT_STATE = 3, STAT_PARENT = 4, STAT_BEGAN = 22 };

/* False: there is no such process, or it has ended and its parent has not yet waited for it. */
static bool proc_stat(pid_t id, struct process *out, pid_t *parent)
{
	char text[READ_BYTES];
	*out = (struct process){.id = id};
	*parent = 0;
	if (!proc_read(id, "stat", text))
		return false;
	char *field = strrchr(text, ')'); /* the program's name may contain blanks and brackets */
	char state = 0;
	for (int i = STAT_STATE; field && i <= STAT_BEGAN; i++) {
		field = strchr(field + 1, ' ');
		if (field && i == STAT_STATE)
			state = field[1];
		if (field && i == STAT_PARENT)
			*parent = (pid_t)strtol(field, NULL, 10);
		if (field && i == STAT_BEGAN)
			out->began = strtoull(field, NULL, 10);
	}
	return state && state != 'Z' && state != 'X';
}

void proc_lineage(pid_t thread, unsigned most, struct lineage *out)
{
	pid_t id = proc_of_thread(thread);
	out->count = id == PROC_RELAY;
	out->of[0] = (struct process){.id = PROC_RELAY};
	while (id > 0 && out->count < most && out->count < LINEAGE_MOST) {
		pid_t parent;
		bool there = proc_stat(id, &out->of[out->count], &parent);
		if (!there && out->count)
			return;
		out->count++;
		id = parent;
	}
}

bool proc_lives(const struct process *p)
{
	struct process now;
	pid_t parent;
	return p->id == PROC_RELAY || (proc_stat(p->id, &now, &parent) && proc_same(&now, p));
}

/* ---- any process ---- */

int proc_each(int (*visit)(void *ctx, pid_t id), void *ctx)
{
	DIR *folder = opendir("/proc");
	int code = 0;
	if (!folder)
		return -errno;
	for (const struct dirent *d; !code && (d = readdir(folder));) {
		char *end;
		long id = strtol(d->d_name, &end, 10);
		if (!*end && id > 0)
			code = visit(ctx, (pid_t)id);
	}
	(void)closedir(folder);
	return code;
}

bool proc_name(pid_t id, char *name, size_t size)
{
	char text[READ_BYTES] = "?";
	bool read = proc_read(id, "comm", text);
	text[strcspn(text, "\n")] = 0;
	(void)snprintf(name, size, "%s", text);
	return read;
}

static bool proc_link_is_in(int folder, const char *link, const char *path)
{
	char target[PATH_BYTES];
	ssize_t n = readlinkat(folder, link, target, sizeof target - 1);
	size_t length = strlen(path);
	if (n < 0)
		return false;
	target[n] = 0;
	return !strncmp(target, path, length) && (!target[length] || target[length] == '/');
}

bool proc_has_open(pid_t id, const char *path)
{
	char name[64];
	(void)snprintf(name, sizeof name, "/proc/%ld/fd", (long)id);
	DIR *files = opendir(name);
	bool found = false;
	for (const struct dirent *d; files && !found && (d = readdir(files));)
		found = proc_link_is_in(dirfd(files), d->d_name, path);
	if (files)
		(void)closedir(files);
	return found;
}

bool proc_uses(pid_t id, const char *path)
{
	static const char *const links[] = {"cwd", "root", "exe"};
	for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
		char link[64];
		(void)snprintf(link, sizeof link, "/proc/%ld/%s", (long)id, links[i]);
		if (proc_link_is_in(AT_FDCWD, link, path))
			return true;
	}
	return proc_has_open(id, path);
}

/* ---- mounts ---- */

/* Decodes blanks and so on, which the table has as a backslash and three octal digits. */
static void proc_unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from; from++, to++) {
		*to = *from;
		if (*from != '\\' || strspn(from + 1, "01234567") < 3)
			continue;
		*to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
		from += 3;
	}
	*to = 0;
}

/* The device is the third field, the mountpoint the fifth. Type, source and options follow a lone
 * hyphen. */
static bool proc_split_mount(char *line, struct mountinfo *out)
{
	enum { DEVICE = 2, POINT = 4 };
	char *save = NULL, *field = strtok_r(line, " \n", &save);
	*out = (struct mountinfo){0};
	for (int i = 0; field && strcmp(field, "-") != 0; i++) {
		if (i == DEVICE)
			out->device = field;
		if (i == POINT)
			out->point = field;
		field = strtok_r(NULL, " \n", &save);
	}
	out->type = strtok_r(NULL, " \n", &save);
	out->source = strtok_r(NULL, " \n", &save);
	out->options = strtok_r(NULL, " \n", &save);
	if (!out->point || !out->options)
		return false;
	proc_unescape(out->point);
	proc_unescape(out->source);
	return true;
}

int proc_each_mount(const char *table, int (*visit)(void *ctx, const struct mountinfo *m),
		    void *ctx)
{
	FILE *f = fopen(table ? table : "/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int code = 0;
	if (!f)
		return -errno;
	while (!code && getline(&line, &size, f) > 0) {
		struct mountinfo m;
		if (proc_split_mount(line, &m))
			code = visit(ctx, &m);
	}
	if (!code && !feof(f))
		code = -errno;
	free(line);
	(void)fclose(f);
	return code;
}

static int proc_is_device(void *ctx, const struct mountinfo *m)
{
	return !strcmp(m->device, ctx);
}

bool proc_has_mounted(pid_t id, const char *device)
{
	char table[64], wanted[32];
	(void)snprintf(table, sizeof table, "/proc/%ld/mountinfo", (long)id);
	(void)snprintf(wanted, sizeof wanted, "%s", device);
	return proc_each_mount(table, proc_is_device, wanted) > 0;
}
