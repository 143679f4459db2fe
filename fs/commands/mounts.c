/* What is mounted of ours, and what is read from it. See mounts.h. */
#include "fs/commands/mounts.h"
#include "fs/base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is mounted ---- */

static uid_t user_in(const char *options)
{
	static const char key[] = "user_id=";
	for (const char *at = options; (at = strstr(at, key)); at++)
		if (at == options || at[-1] == ',')
			return (uid_t)strtoul(at + sizeof key - 1, NULL, 10);
	return 0;
}

/* Whoever was mounted there before is not to be reached any more. */
static void hide(struct mounts_seen *m, const char *point)
{
	for (size_t i = 0; i < m->count; i++)
		m->list[i].hidden |= m->list[i].point && !strcmp(m->list[i].point, point);
}

static int add(void *ctx, const struct mountinfo *entry)
{
	struct mounts_seen *m = ctx;
	hide(m, entry->point);
	if (strcmp(entry->type, "fuse.moefs") != 0)
		return 0;
	struct mount_seen *grown = realloc(m->list, (m->count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	m->list = grown;
	struct mount_seen *new = &grown[m->count];
	*new = (struct mount_seen){.point = strdup(entry->point),
				   .source = strdup(entry->source),
				   .uid = user_in(entry->options)};
	(void)snprintf(new->device, sizeof new->device, "%s", entry->device);
	m->count++;
	return new->point &&new->source ? 0 : -ENOMEM;
}

int mounts_read(struct mounts_seen *out, const char *table, struct err *e)
{
	*out = (struct mounts_seen){0};
	int code = proc_each_mount(table, add, out);
	if (!code)
		return 0;
	mounts_free(out);
	return err_sys(e, -code, "cannot list the mounts of %s",
		       table ? table : "/proc/self/mountinfo");
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
