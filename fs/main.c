/* moefs: mounts mixture-of-experts language models as files.
 *
 *     moefs [options] MODELDIR... MOUNTPOINT
 *     moefs --check [options] MODELDIR...
 *     moefs COMMAND ...
 *
 * The program's life: options, fork, engine, models, mount, loop, and all of that back. Only this
 * file prints and only main exits. What the tree contains is in tree.c. */
#include "fs/call.h"
#include "fs/check.h"
#include "fs/commands/commands.h"
#include "fs/daemon.h"
#include "fs/loop.h"
#include "fs/mountpoint.h"
#include "fs/ops.h"
#include "fs/options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program {
	struct options options;
	struct mount *mount;
	int parent;	 /* pipe to the process that waits for us; -1 in the foreground */
	bool show;	 /* progress on the terminal */
	bool line_begun; /* …with a line that is not ended yet */
};

static void started(void *ctx)
{
	struct program *p = ctx;
	if (p->parent >= 0)
		daemon_ready(p->parent);
	p->parent = -1;
}

static void tick(void *ctx, const struct mount *m)
{
	struct program *p = ctx;
	bool running = false;
	for (size_t i = 0; p->show && i < m->model_count && !running; i++) {
		struct model_progress progress;
		char words[256];
		model_progress(m->models[i]->model, &progress);
		running = progress.total != 0;
		if (running &&
		    model_fact(m->models[i]->model, FACT_PROGRESS, words, sizeof words) == 0)
			(void)fprintf(stderr, "\r\033[Kmoefs: %s: %s", m->models[i]->name, words);
	}
	if (p->line_begun && !running)
		(void)fputc('\n', stderr);
	p->line_begun = running;
}

/* What cannot be mounted is said before anything is begun. */
static int check(struct options *o, struct err *e)
{
	int code = mountpoint_prepare(&o->mountpoint, e);
	if (!code)
		code = mountpoint_check_fuse(o->mountpoint, o->allow_other || o->allow_root, e);
	for (size_t i = 0; i < o->model_count && !code; i++)
		code = mountpoint_check_model(o->mountpoint, o->models[i], e);
	return code;
}

/* Each line of a text that ends with one, as a sentence of ours. */
static void say_lines(const struct text *t)
{
	for (size_t at = 0; at < t->length;) {
		const char *line = t->data + at, *end = memchr(line, '\n', t->length - at);
		(void)fprintf(stderr, "moefs: %.*s\n", (int)(end - line), line);
		at = (size_t)(end + 1 - t->data);
	}
}

static int open_models(struct program *p, struct err *e)
{
	struct mount *m = p->mount;
	struct engine_options *engine = &p->options.engine;
	engine->changed = mount_changed;
	engine->ctx = m;
	int code = engine_create(&m->engine, engine, e);
	for (size_t i = 0; i < p->options.model_count && !code; i++)
		code = models_add(m, p->options.models[i], p->options.name, e);
	say_lines(&m->skipped);
	return code;
}

static int mount_and_serve(struct program *p, struct err *e)
{
	struct mount *m = p->mount;
	const char *where = p->options.mountpoint;
	m->fuse = fuse_session_new(&p->options.fuse, &moefs_ops, sizeof moefs_ops, m);
	if (!m->fuse)
		return err_set(e, EINVAL, "libfuse refuses these options; see moefs --help");
	int code = open_models(p, e);
	if (!code && fuse_session_mount(m->fuse, where))
		code = err_set(e, EPERM,
			       "cannot mount on %s: the system refuses it, though FUSE is here and "
			       "allowed (a security module such as AppArmor, or mount_max in "
			       "/etc/fuse.conf); what it said is above",
			       where);
	if (code)
		return code;
	struct loop_hooks hooks = {.started = started, .tick = tick, .ctx = p};
	code = loop_run(m, &hooks, e);
	if (!code && !m->ready)
		code = err_set(e, EIO, "%s was unmounted before it could be used", where);
	return code;
}

/* Sessions end first, so that whoever waits gets an answer; then the tree goes, so that nobody has
 * to wait for the workers and the models, which go last: they may be waiting for a disk. */
static int serve(struct program *p, struct err *e)
{
	loop_block_signals();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of the write, in words */
	int code = mount_create(&p->mount, e);
	if (code)
		return code;
	code = mount_and_serve(p, e);
	mount_stop(p->mount);
	struct fuse_session *fuse = p->mount->fuse;
	if (fuse) {
		fuse_session_exit(fuse); /* what the workers still answer goes nowhere, silently */
		fuse_session_unmount(fuse);
	}
	mount_destroy(p->mount);
	if (fuse)
		fuse_session_destroy(fuse);
	return code;
}

static int run(struct program *p, struct err *e)
{
	int code = check(&p->options, e);
	if (code)
		return 1;
	p->show = p->options.foreground && isatty(STDERR_FILENO);
	if (!p->options.foreground) {
		int status = daemon_begin(&p->parent, e);
		if (status >= 0)
			return status;
	}
	return serve(p, e) ? 1 : 0;
}

enum { CHECK_WRONG = 2 }; /* status of --check where it is itself what is wrong */

/* What is wrong with models goes where errors go, a line for each, so that scripts read tables. */
static int check_only(const struct options *o, struct err *e)
{
	struct text tables = {0}, wrong = {0};
	int status = check_models(o, &tables, &wrong, e) ? CHECK_WRONG : wrong.length > 0;
	if (fwrite(tables.data ? tables.data : "", 1, tables.length, stdout) != tables.length ||
	    fflush(stdout))
		status = CHECK_WRONG;
	say_lines(&wrong);
	text_free(&tables);
	text_free(&wrong);
	return status;
}

int main(int argc, char **argv)
{
	struct program p = {.parent = -1};
	struct err e = {0};
	int status = 1;
	const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;
	if (command) {
		status = command_run(command, argc - 1, argv + 1, &e);
	} else if (options_parse(&p.options, argc, argv, &e) == 0) {
		if (p.options.help)
			status = fputs(options_help, stdout) < 0;
		else if (p.options.version)
			status = printf("moefs %s\n", MOEFS_VERSION) < 0;
		else
			status = p.options.check ? check_only(&p.options, &e) : run(&p, &e);
	} else if (p.options.check) {
		status = CHECK_WRONG;
	}
	if (status && e.code) /* of what was looked for in vain it may speak, too */
		(void)fprintf(stderr, "moefs: %s\n", e.text);
	options_free(&p.options);
	return status;
}
