/* moefs list: one line for each mount that is visible here, with its mountpoint, source, process
 * and models with their states, then one for each daemon that serves no visible mount; or the same
 * in JSON. */
#include "fs/commands/commands.h"
#include "fs/commands/look.h"
#include "fs/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- for people, and for cut: with tabs between, and as mountinfo has them none within ---- */

static void add_line(struct text *t, const struct mount_seen *m, const struct look *l)
{
	const char *name, *state;
	size_t place = 0;
	text_line(t, m->point);
	text_string(t, "\t");
	text_line(t, m->source);
	text_format(t, l->process ? "\t%ld\t" : "\t-\t", l->process);
	if (l->words)
		text_string(t, l->words);
	while (!l->words && look_next(l, &place, &name, &state)) {
		text_line(t, name);
		text_format(t, " (%s)  ", state);
	}
	while (t->length && t->data[t->length - 1] == ' ')
		text_cut(t, t->length - 1);
	text_string(t, "\n");
}

/* ---- for programs ---- */

static void add_object(struct text *t, const struct mount_seen *m, const struct look *l)
{
	const char *name, *state, *comma = "";
	size_t place = 0;
	text_string(t, "{\"mountpoint\": ");
	text_json(t, m->point);
	text_string(t, ", \"source\": ");
	text_json(t, m->source);
	text_format(t, ", \"user\": %u", (unsigned)m->uid);
	if (l->process)
		text_format(t, ", \"process\": %ld", l->process);
	if (l->words) {
		text_string(t, ", \"error\": ");
		text_json(t, l->words);
	}
	text_string(t, ", \"models\": [");
	while (!l->words && look_next(l, &place, &name, &state)) {
		text_format(t, "%s{\"name\": ", comma);
		text_json(t, name);
		text_string(t, ", \"state\": ");
		text_json(t, state);
		text_string(t, "}");
		comma = ", ";
	}
	text_string(t, "]}");
}

/* ---- daemons without a visible mount ---- */

struct list_daemons {
	long *shown; /* the processes of the mounts in the list */
	size_t count;
};

static bool list_has_shown(const struct list_daemons *d, long process)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->shown[i] == process)
			return true;
	return false;
}

/* Whether the process's program is moefs and one of its open files is /dev/fuse. False for another
 * user's, whose files only root can see. */
static bool list_is_daemon(const char *process)
{
	char path[512], target[4096];
	(void)snprintf(path, sizeof path, "/proc/%s/exe", process);
	ssize_t n = readlink(path, target, sizeof target - 1);
	target[n > 0 ? n : 0] = 0;
	const char *name = strrchr(target, '/');
	(void)snprintf(path, sizeof path, "/proc/%s/fd", process);
	DIR *files = name && !strncmp(name, "/moefs", 6) ? opendir(path) : NULL;
	if (!files)
		return false;
	bool found = false;
	for (const struct dirent *file; !found && (file = readdir(files));) {
		n = readlinkat(dirfd(files), file->d_name, target, sizeof target - 1);
		target[n > 0 ? n : 0] = 0;
		found = !strcmp(target, "/dev/fuse");
	}
	closedir(files);
	return found;
}

/* The mount may live on in another mount namespace, or was taken away lazily while files of the
 * tree are open: the daemon and its memory stay until these go. */
static int list_unmounted(struct text *t, const struct list_daemons *d, bool json,
			  const char *comma, struct err *e)
{
	static const char why[] = "serves no mount that is visible here";
	DIR *processes = opendir("/proc");
	if (!processes)
		return err_sys(e, errno, "cannot list the processes in /proc");
	for (const struct dirent *entry; (entry = readdir(processes));) {
		char *end;
		long process = strtol(entry->d_name, &end, 10);
		if (*end || process <= 0 || list_has_shown(d, process) ||
		    !list_is_daemon(entry->d_name))
			continue;
		if (json)
			text_format(t,
				    "%s{\"mountpoint\": null, \"process\": %ld, \"error\": \"%s\", "
				    "\"models\": []}",
				    comma, process, why);
		else
			text_format(t, "-\t-\t%ld\t%s\n", process, why);
		comma = ",\n";
	}
	closedir(processes);
	return 0;
}

/* ---- the command ---- */

static int list_mounts(struct text *t, const struct mounts_seen *mounts, bool json,
		       struct list_daemons *d, struct err *e)
{
	for (size_t i = 0; i < mounts->count; i++) {
		const struct mount_seen *m = &mounts->list[i];
		struct look look;
		int code = look_at_mount(&look, m, e);
		if (code)
			return code;
		if (json) {
			text_string(t, i ? ",\n" : "");
			add_object(t, m, &look);
		} else {
			add_line(t, m, &look);
		}
		d->shown[d->count++] = look.process;
		look_free(&look);
	}
	return 0;
}

static int list_all(struct text *t, const struct mounts_seen *mounts, bool json, struct err *e)
{
	struct list_daemons d = {.shown = calloc(mounts->count + 1, sizeof *d.shown)};
	if (!d.shown)
		return err_set(e, ENOMEM, "no memory for the list");
	int code = list_mounts(t, mounts, json, &d, e);
	if (!code)
		code = list_unmounted(t, &d, json, mounts->count ? ",\n" : "", e);
	free(d.shown);
	return code;
}

int list_run(int argc, char **argv, struct err *e)
{
	bool json = argc == 2 && !strcmp(argv[1], "--json");
	if (argc > 2 || (argc == 2 && !json))
		return COMMAND_WRONG;
	struct mounts_seen mounts;
	struct text t = {0};
	if (mounts_read(&mounts, NULL, e))
		return COMMAND_FAILED;
	text_string(&t, json ? "[\n" : "");
	int code = list_all(&t, &mounts, json, e);
	text_string(&t, json && t.length > 2 ? "\n" : "");
	text_string(&t, json ? "]\n" : "");
	if (!code && t.failed)
		code = err_set(e, ENOMEM, "no memory for the list");
	if (!code && t.length)
		(void)fwrite(t.data, 1, t.length, stdout);
	text_free(&t);
	mounts_free(&mounts);
	return code ? COMMAND_FAILED : 0;
}
