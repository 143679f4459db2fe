/* What is mounted of ours, and what is read from it. See mounts.h. */
#include "fs/commands/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- mountinfo ---- */

void mounts_unescape(char *text)
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

/* A line of mountinfo (proc(5)): point is its fifth field; type, source and the kernel's options
 * follow a lone hyphen. They point into the line, with its escapes. */
struct entry {
	char *point, *type, *source, *options;
};

static bool split(char *line, struct entry *out)
{
	enum { POINT = 4 };
	char *save = NULL, *field = strtok_r(line, " \n", &save);
	*out = (struct entry){0};
	for (int i = 0; field && strcmp(field, "-") != 0; i++) {
		if (i == POINT)
			out->point = field;
		field = strtok_r(NULL, " \n", &save);
	}
	out->type = strtok_r(NULL, " \n", &save);
	out->source = strtok_r(NULL, " \n", &save);
	out->options = strtok_r(NULL, " \n", &save);
	return out->point && out->options;
}

static uid_t user_in(const char *options)
{
	static const char key[] = "user_id=";
	for (const char *at = options; (at = strstr(at, key)); at++)
		if (at == options || at[-1] == ',')
			return (uid_t)strtoul(at + sizeof key - 1, NULL, 10);
	return 0;
}

static int add(struct mounts_seen *m, const struct entry *entry)
{
	struct mount_seen *grown = realloc(m->list, (m->count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	m->list = grown;
	struct mount_seen *new = &grown[m->count];
	*new = (struct mount_seen){.point = strdup(entry->point),
				   .source = strdup(entry->source),
				   .uid = user_in(entry->options)};
	m->count++;
	return new->point &&new->source ? 0 : -ENOMEM;
}

/* Whoever was mounted there before is not to be reached any more. */
static void hide(struct mounts_seen *m, const char *point)
{
	for (size_t i = 0; i < m->count; i++)
		m->list[i].hidden |= m->list[i].point && !strcmp(m->list[i].point, point);
}

int mounts_read(struct mounts_seen *out, const char *table, struct err *e)
{
	const char *path = table ? table : "/proc/self/mountinfo";
	FILE *f = fopen(path, "re");
	*out = (struct mounts_seen){0};
	if (!f)
		return err_sys(e, errno, "cannot read %s", path);
	char *line = NULL;
	size_t size = 0;
	int code = 0;
	while (!code && getline(&line, &size, f) > 0) {
		struct entry entry;
		if (!split(line, &entry))
			continue;
		mounts_unescape(entry.point);
		mounts_unescape(entry.source);
		hide(out, entry.point);
		if (!strcmp(entry.type, "fuse.moefs"))
			code = add(out, &entry);
	}
	free(line);
	(void)fclose(f);
	if (code) {
		mounts_free(out);
		return err_set(e, -code, "no memory for the list of mounts");
	}
	return 0;
}

void mounts_free(struct mounts_seen *m)
{
	while (m->count) {
		m->count--;
		free(m->list[m->count].point);
		free(m->list[m->count].source);
	}
	free(m->list);
	m->list = NULL;
}

/* ---- a mount's tree ---- */

int mounts_value(const char *folder, const char *file, char *value, size_t size)
{
	char path[4096];
	int n = snprintf(path, sizeof path, "%s/%s", folder, file);
	if (n < 0 || n >= (int)sizeof path)
		return -ENAMETOOLONG;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t length = read(fd, value, size - 1);
	int code = length < 0 ? -errno : 0;
	close(fd);
	if (code)
		return code;
	value[length] = 0;
	value[strcspn(value, "\n")] = 0;
	return 0;
}

/* A model's folder is what has facts in it. */
static int is_model(const struct dirent *entry)
{
	return entry->d_type == DT_DIR && *entry->d_name != '.';
}

int mounts_models(const struct mount_seen *m,
		  int (*visit)(void *ctx, const char *folder, const char *name), void *ctx)
{
	struct dirent **entries;
	int count = m->hidden ? -1 : scandir(m->point, &entries, is_model, alphasort);
	int result = 0;
	if (count < 0)
		return m->hidden ? -EACCES : -errno;
	for (int i = 0; i < count; i++) {
		char folder[4096], state[4096];
		const char *name = entries[i]->d_name;
		int n = snprintf(folder, sizeof folder, "%s/%s", m->point, name);
		int code = snprintf(state, sizeof state, "%s/info/state", folder);
		if (!result && n < (int)sizeof folder && code < (int)sizeof state &&
		    access(state, F_OK) == 0)
			result = visit(ctx, folder, name);
		free(entries[i]);
	}
	free(entries);
	return result;
}
