/* moefs: mounts mixture-of-experts language models as files.
 *
 *     moefs [options] MODELDIR... MOUNTPOINT
 *     moefs --check [options] MODELDIR...
 *     moefs --refine [--text FILE] [options] MODELDIR...
 *     moefs --loss [options] MODELDIR...
 *     moefs -a [options] [MODELDIR...] [MOUNTPOINT]
 *     moefs COMMAND ...
 *
 * The program's life: options, fork, engine, models, mount, loop, and then the reverse. For
 * mounting, only this file prints and only main exits. tree/rows.c lists the files in the tree. */
#include "fs/base/daemon_log.h"
#include "fs/base/standard.h"
#include "fs/base/systemd.h"
#include "fs/commands/commands.h"
#include "fs/models/model_folders.h"
#include "fs/models/models.h"
#include "fs/models/kept.h"
#include "fs/program/daemon.h"
#include "fs/program/http.h"
#include "fs/program/mountpoint.h"
#include "fs/program/offline.h"
#include "fs/program/options.h"
#include "fs/program/privilege.h"
#include "fs/requests/mount_loop.h"
#include "fs/requests/ops.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program {
	struct options options;
	struct mount *mount;
	struct daemon_log *log;
	struct http http;
	struct privilege_mounter mounter; /* if the daemon does not run as root */
	int parent;    /* pipe to the waiting parent process; -1 in the foreground */
	bool progress; /* show it on the terminal */
};

/* In the background `log` has no terminal, but until the tree answers there is one. */
static void main_say(const struct program *p, const char *sentence)
{
	if (!p->options.foreground)
		(void)fprintf(stderr, "moefs: %s\n", sentence);
	daemon_log_say(p->log, sentence);
}

/* Prints each line of a text that ends with a newline. */
static void main_say_lines(const struct program *p, const struct text *t)
{
	char line[sizeof((struct err *)0)->text];
	for (size_t at = 0; at < t->length;) {
		const char *begin = t->data + at, *end = memchr(begin, '\n', t->length - at);
		(void)snprintf(line, sizeof line, "%.*s", (int)(end - begin), begin);
		main_say(p, line);
		at = (size_t)(end + 1 - t->data);
	}
}

/* ---- the loop's hooks ---- */

static void main_on_started(void *ctx)
{
	struct program *p = ctx;
	char line[128], url[300];
	struct err e;
	(void)snprintf(line, sizeof line, "moefs %s has begun: process %d, %zu model%s",
		       MOEFS_VERSION, (int)getpid(), p->mount->model_count,
		       p->mount->model_count == 1 ? "" : "s");
	daemon_log_note(p->log, line);
	http_url(&p->http, url, sizeof url);
	if (http_begin(&p->http, p->options.mountpoint, p->log, &e))
		main_say(p, e.text);
	else if (*url)
		(void)printf("%s\n", url); /* for scripts: url=$(moefs -o http MODEL MNT) */
	(void)fflush(stdout);
	systemd_notify("READY=1");
	if (p->parent >= 0)
		daemon_ready(p->parent);
	p->parent = -1;
}

static bool main_on_tick(void *ctx, const struct mount *m)
{
	struct program *p = ctx;
	char line[512];
	if (!p->progress)
		return false;
	daemon_log_progress(p->log, models_progress_line(m, line, sizeof line) ? line : "");
	return true; /* the next conversion begins without news */
}

/* ---- mounting ---- */

/* Reports everything that makes mounting impossible, before anything begins. */
static int main_check_mountpoint(struct options *o, struct err *e)
{
	int code = mountpoint_prepare(&o->mountpoint, e);
	if (!code)
		code = mountpoint_check_fuse(o->mountpoint, o->allow_other || o->allow_root, e);
	for (size_t i = 0; i < o->model_count && !code; i++)
		code = mountpoint_check_model(o->mountpoint, o->models[i], e);
	if (!code && !o->nonempty)
		code = mountpoint_check_empty(o->mountpoint, e);
	if (!code && o->log)
		code = mountpoint_check_log(o->mountpoint, o->log, e);
	return code;
}

static int main_mount(struct program *p)
{
	char where[sizeof "/dev/fd/" + 12];
	struct err ignored; /* libfuse, here or in the mounter, has printed the reason */
	int device;
	if (p->mounter.socket < 0)
		return fuse_session_mount(p->mount->fuse, p->options.mountpoint);
	int code = privilege_mount(&p->mounter, &device, &ignored);
	privilege_end_mounter(&p->mounter);
	if (code)
		return code;
	(void)snprintf(where, sizeof where, "/dev/fd/%d", device);
	return fuse_session_mount(p->mount->fuse, where);
}

/* libfuse does not unmount a mount that another process made. */
static void main_unmount(struct program *p)
{
	struct fuse_session *fuse = p->mount->fuse;
	struct err e;
	fuse_session_exit(fuse); /* from now on replies of the workers are dropped silently */
	if (!p->options.whose.changes || fuse_session_fd(fuse) < 0)
		fuse_session_unmount(fuse);
	else if (!privilege_is_unmounted(fuse_session_fd(fuse)) &&
		 mountpoint_unmount(p->options.mountpoint, true, &e))
		main_say(p, e.text);
}

static int main_mount_and_serve(struct program *p, struct err *e)
{
	struct mount *m = p->mount;
	const char *where = p->options.mountpoint;
	m->fuse = fuse_session_new(&p->options.fuse, &moefs_ops, sizeof moefs_ops, m);
	if (!m->fuse)
		return err_set(e, EINVAL, "libfuse refuses these options; see moefs --help");
	struct engine_options *engine = &p->options.engine;
	engine->changed = mount_changed;
	engine->ctx = m;
	int code = engine_create(&m->engine, engine, e);
	for (size_t i = 0; i < p->options.model_count && !code; i++)
		code = models_add(m, p->options.models[i], p->options.name, e);
	if (!code && p->options.all)
		code = models_add_others(m, e);
	main_say_lines(p, &m->skipped);
	if (!code && main_mount(p))
		code = err_set(e, EPERM,
			       "cannot mount on %s: the system refuses although FUSE is there and "
			       "allowed (a security module such as AppArmor, or mount_max in "
			       "/etc/fuse.conf); its "
			       "message is above",
			       where);
	if (code)
		return code;
	struct loop_hooks hooks = {.started = main_on_started, .tick = main_on_tick, .ctx = p};
	code = loop_run(m, &hooks, e);
	if (!code && !m->ready)
		code = err_set(e, EIO, "%s was unmounted before it could be used", where);
	return code;
}

/* The order of the end: first sessions, so that every waiting request gets an answer; then the
 * tree, so that nobody waits for workers and models; these last, since they may be waiting for a
 * disk. */
static int main_serve(struct program *p, struct err *e)
{
	int code = mount_create(&p->mount, e);
	if (code)
		return code;
	struct mount *m = p->mount;
	m->umask = p->options.umask;
	m->verbose = p->options.verbose;
	m->log = p->log;
	m->params = p->options.params;
	m->param_count = p->options.param_count;
	code = p->options.sessions ? kept_open(m, p->options.sessions, e) : 0;
	if (!code)
		code = main_mount_and_serve(p, e);
	daemon_log_note(p->log, code ? e->text : "unmounted");
	systemd_notify("STOPPING=1");
	http_end(&p->http);
	mount_stop(m);
	struct fuse_session *fuse = m->fuse;
	if (fuse)
		main_unmount(p);
	http_wait(&p->http);
	mount_destroy(m);
	if (fuse)
		fuse_session_destroy(fuse);
	return code;
}

/* A write beyond the limit of file sizes then fails with EFBIG, which has its own sentence. */
static void main_ignore_size_limit(void)
{
	(void)signal(SIGXFSZ, SIG_IGN);
}

/* Becomes the mount's user before any of that user's files is opened, and serves. */
static int main_serve_as_user(struct program *p, struct err *e)
{
	const struct options *o = &p->options;
	int code = 0;
	loop_share_heap();
	loop_block_signals();
	(void)signal(SIGPIPE, SIG_IGN);
	main_ignore_size_limit();
	if (o->whose.changes)
		code = privilege_begin_mounter(&p->mounter, &p->options.fuse, o->mountpoint,
					       &o->whose, e);
	if (!code)
		code = privilege_drop(&o->whose, e);
	if (!code && (o->log || o->foreground))
		code = daemon_log_begin(&p->log, o->log, o->foreground, e);
	if (!code)
		code = main_serve(p, e);
	daemon_log_end(p->log);
	privilege_end_mounter(&p->mounter);
	return code;
}

static int main_begin_mount(struct program *p, struct err *e)
{
	int code = main_check_mountpoint(&p->options, e);
	if (!code)
		code = engine_gpu_check(p->options.engine.gpu, e);
	if (!code)
		code = http_listen(&p->http, p->options.http, p->options.key_file, e);
	if (code)
		return 1;
	p->progress = p->options.foreground && isatty(STDERR_FILENO);
	if (!p->options.foreground) {
		int status = daemon_begin(&p->parent, e);
		if (status >= 0)
			return status;
	}
	return main_serve_as_user(p, e) ? 1 : 0;
}

/* ---- -a, --check, --refine, --loss, --help ---- */

enum { CHECK_WRONG = 2 }; /* exit status if --check itself failed or its output is lost */

/* Prints tables to standard output, for scripts, and a line for each wrong model to standard
 * error. */
static int main_check(const struct program *p, struct err *e)
{
	struct text tables = {0}, wrong = {0};
	int status =
		offline_check(&p->options, &tables, &wrong, e) ? CHECK_WRONG : wrong.length > 0;
	struct err lost;
	(void)fwrite(tables.data ? tables.data : "", 1, tables.length, stdout);
	if (standard_written(&lost)) {
		main_say(p, lost.text);
		status = CHECK_WRONG;
	}
	main_say_lines(p, &wrong);
	text_free(&tables);
	text_free(&wrong);
	return status;
}

static int main_list_others(struct err *e)
{
	struct text table = {0};
	int failed = offline_list_others(&table, e);
	if (!failed)
		(void)fwrite(table.data, 1, table.length, stdout);
	text_free(&table);
	return failed != 0;
}

static void main_report_model(const char *sentence, bool failed)
{
	(void)fprintf(failed ? stderr : stdout, "moefs: %s\n", sentence);
	(void)fflush(stdout); /* now: the next model may take hours */
}

/* ---- the command line ---- */

/* fake: mount(8)'s -f, which does not mount. */
static int main_with_options(struct program *p, int argc, char **argv, bool lenient, bool fake,
			     struct err *e)
{
	const struct options *o = &p->options;
	if (options_parse(&p->options, argc, argv, lenient, e))
		return o->check ? CHECK_WRONG : 1;
	if (o->help) {
		const struct command *c;
		(void)fputs(options_help, stdout);
		for (unsigned i = 0; (c = command_row(i)); i++)
			(void)printf("  moefs %s %s\n      %s\n", c->name, c->usage, c->what);
	} else if (o->version) {
		(void)printf("moefs %s\n", MOEFS_VERSION);
	}
	if (o->help || o->version || fake)
		return 0;
	if (o->refine) {
		main_ignore_size_limit();
		return offline_refine(o, main_report_model, e) != 0;
	}
	if (o->loss)
		return offline_loss(o, main_report_model, e) != 0;
	if (o->all && !o->mountpoint)
		return main_list_others(e);
	return o->check ? main_check(p, e) : main_begin_mount(p, e);
}

int main(int argc, char **argv)
{
	struct program p = {.parent = -1, .mounter.socket = -1, .http.socket = -1};
	struct err e = {0};
	struct options_helper h;
	const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;
	int status = 1;
	standard_begin();
	if (engine_gpu_serve(argc, argv, &status))
		return status;
	if (options_is_helper(*argv)) {
		if (!options_read_helper(&h, argc, argv, &e))
			status = main_with_options(&p, h.count, h.arguments, h.lenient, h.fake, &e);
	} else if (command) {
		status = command_run(command, argc - 1, argv + 1, &e);
	} else if (argc < 2 || !command_check_word(argv[1], &e)) {
		status = main_with_options(&p, argc, argv, false, false, &e);
	}
	if (status && e.code) /* e may also have an error that was handled */
		(void)fprintf(stderr, "moefs: %s\n", e.text);
	if (standard_written(&e)) {
		(void)fprintf(stderr, "moefs: %s\n", e.text);
		status = p.options.check ? CHECK_WRONG : status ? status : 1;
	}
	options_free(&p.options);
	return status;
}
