/* moefs list: the mounts that can be seen from here, a line each: where, of what, its process, and
 * its models with their states; or the same in JSON. */
#include "fs/commands/commands.h"
#include "fs/commands/look.h"
#include "fs/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

/* ---- the command ---- */

static int list(struct text *t, const struct mounts_seen *mounts, bool json, struct err *e)
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
		look_free(&look);
	}
	return 0;
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
	int code = list(&t, &mounts, json, e);
	text_string(&t, json && mounts.count ? "\n" : "");
	text_string(&t, json ? "]\n" : "");
	if (!code && t.failed)
		code = err_set(e, ENOMEM, "no memory for the list");
	if (!code && t.length)
		(void)fwrite(t.data, 1, t.length, stdout);
	text_free(&t);
	mounts_free(&mounts);
	return code ? COMMAND_FAILED : 0;
}
