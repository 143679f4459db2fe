/* moefs list: a line for each visible mount, with mountpoint, source, process, and models with
 * their states; then a line for each daemon without a visible mount. Or the same in JSON. */
#include "fs/commands/commands.h"
#include "fs/base/proc.h"
#include "fs/commands/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For people and for cut(1): fields separated by tabs, with no tab within a field. */

static void list_line(struct text *t, const struct mount_seen *m, const struct mount_look *l)
{
	const char *name, *state;
	size_t place = 0;
	text_line(t, m->point);
	text_string(t, "\t");
	text_line(t, m->source);
	text_format(t, l->process ? "\t%ld\t" : "\t-\t", l->process);
	if (l->failed)
		text_string(t, l->failed);
	while (!l->failed && mounts_next_model(l, &place, &name, &state)) {
		text_line(t, name);
		text_format(t, " (%s)  ", state);
	}
	while (t->length && t->data[t->length - 1] == ' ')
		text_cut(t, t->length - 1);
	text_string(t, "\n");
}

static void list_object(struct text *t, const struct mount_seen *m, const struct mount_look *l)
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
	if (l->failed) {
		text_string(t, ", \"error\": ");
		text_json(t, l->failed);
	}
	text_string(t, ", \"models\": [");
	while (!l->failed && mounts_next_model(l, &place, &name, &state)) {
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

struct list_output {
	struct text text;
	bool json;
	long *processes; /* processes of the mounts in the list */
	size_t count;
	const char *comma; /* before the next JSON object */
};

/* Whether a process runs moefs and has /dev/fuse open. False for other users' processes, except for
 * root. */
static bool list_is_daemon(pid_t id)
{
	char path[64], program[4096];
	(void)snprintf(path, sizeof path, "/proc/%ld/exe", (long)id);
	ssize_t n = readlink(path, program, sizeof program - 1);
	program[n > 0 ? n : 0] = 0;
	const char *name = strrchr(program, '/');
	return name && !strncmp(name, "/moefs", 6) && proc_has_open(id, "/dev/fuse");
}

static int list_unmounted(void *ctx, pid_t id)
{
	static const char why[] = "serves no mount that is visible here";
	struct list_output *o = ctx;
	for (size_t i = 0; i < o->count; i++)
		if (o->processes[i] == id)
			return 0;
	if (!list_is_daemon(id))
		return 0;
	if (o->json)
		text_format(&o->text,
			    "%s{\"mountpoint\": null, \"process\": %ld, \"error\": \"%s\", "
			    "\"models\": []}",
			    o->comma, (long)id, why);
	else
		text_format(&o->text, "-\t-\t%ld\t%s\n", (long)id, why);
	o->comma = ",\n";
	return 0;
}

/* ---- the command ---- */

static int list_all(struct list_output *o, const struct mounts_seen *mounts, struct err *e)
{
	for (size_t i = 0; i < mounts->count; i++) {
		const struct mount_seen *m = &mounts->list[i];
		struct mount_look look;
		int code = mounts_look(&look, m, e);
		if (code)
			return code;
		if (o->json) {
			text_string(&o->text, o->comma);
			list_object(&o->text, m, &look);
			o->comma = ",\n";
		} else {
			list_line(&o->text, m, &look);
		}
		o->processes[o->count++] = look.process;
		mounts_look_free(&look);
	}
	/* A daemon's mount may be in another mount namespace, or was unmounted lazily: the daemon
	 * and its memory stay until the last open file is closed. */
	int code = proc_each(list_unmounted, o);
	return code ? err_sys(e, -code, "cannot list the processes in /proc") : 0;
}

int list_run(int argc, char **argv, struct err *e)
{
	bool json = argc == 2 && !strcmp(argv[1], "--json");
	if (argc > 2 || (argc == 2 && !json))
		return COMMAND_WRONG;
	struct mounts_seen mounts;
	if (mounts_read(&mounts, NULL, e))
		return COMMAND_FAILED;
	struct list_output o = {
		.json = json, .comma = "", .processes = calloc(mounts.count + 1, sizeof(long))};
	text_string(&o.text, json ? "[\n" : "");
	int code = o.processes ? list_all(&o, &mounts, e) : -ENOMEM;
	text_string(&o.text, !json ? "" : *o.comma ? "\n]\n" : "]\n");
	if (!o.processes || (!code && o.text.failed))
		code = err_set(e, ENOMEM, "no memory for the list");
	if (!code && o.text.length)
		(void)fwrite(o.text.data, 1, o.text.length, stdout);
	text_free(&o.text);
	free(o.processes);
	mounts_free(&mounts);
	return code ? COMMAND_FAILED : 0;
}
