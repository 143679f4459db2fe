/* moefs demo: a first answer, right after installation. The demonstration model, and the script
 * that mounts it and asks a question, are installed together: in PREFIX/share/moefs for
 * PREFIX/bin/moefs, in examples/ for a build in a clone. They are found relative to the program
 * itself, so any PREFIX works. */
#include "fs/commands/commands.h"
#include "fs/base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Relative to the program's folder: installed; build/moefs; build/asan/moefs. */
static const char *const places[] = {"../share/moefs", "../examples", "../../examples"};

struct demo {
	char program[PATH_MAX]; /* the folder of the program */
	char script[PATH_MAX];
	char model[PATH_MAX];
};

static bool demo_path(const char *folder, const char *name, char out[PATH_MAX])
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
	       realpath(path, out);
}

static int demo_find(struct demo *d, struct err *e)
{
	char place[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", d->program, sizeof d->program - 1);
	if (length < 0)
		return err_sys(e, errno, "cannot find this program by /proc/self/exe");
	d->program[length] = 0;
	*strrchr(d->program, '/') = 0; /* readlink returns an absolute path */
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (demo_path(d->program, places[i], place) &&
		    demo_path(place, "demo.sh", d->script) &&
		    demo_path(place, "models/fable-moe-15m", d->model))
			return 0;
	return err_set(e, ENOENT,
		       "the demonstration is not installed: there is no %s/%s with demo.sh and "
		       "models/fable-moe-15m",
		       d->program, places[0]);
}

/* The script calls moefs by name, so put the program's folder first in PATH. */
static int demo_exec(const struct demo *d, struct err *e)
{
	struct text path = {0};
	const char *before = getenv("PATH");
	text_format(&path, "%s:%s", d->program, before ? before : "/usr/local/bin:/usr/bin:/bin");
	text_add(&path, "", 1);
	if (path.failed || setenv("PATH", path.data, 1))
		err_set(e, ENOMEM, "no memory for PATH");
	else {
		(void)execl("/bin/sh", "sh", d->script, d->model, (char *)NULL);
		err_sys(e, errno, "cannot run /bin/sh");
	}
	text_free(&path);
	return COMMAND_FAILED;
}

int demo_run(int argc, char **argv, struct err *e)
{
	static struct demo d;
	bool path = argc == 2 && !strcmp(argv[1], "--path");
	if (argc != 1 && !path)
		return COMMAND_WRONG;
	if (demo_find(&d, e))
		return COMMAND_FAILED;
	if (!path)
		return demo_exec(&d, e);
	(void)printf("%s\n", d.model); /* main reports a failed write: standard_written */
	return 0;
}
