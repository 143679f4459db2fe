/* moefs: mounts mixture-of-experts language models as files.
 *
 *     moefs [options] MODELDIR... MOUNTPOINT
 *     moefs --check [options] MODELDIR...
 *     moefs --refine [--text FILE] [options] MODELDIR...
 *     moefs COMMAND ...
 *
 * The program's life: options, fork, engine, models, mount, loop, and all of that back. Only this
 * file prints and only main exits. What the tree contains is in tree.c. */
#include "fs/base/daemon_log.h"
#include "fs/base/standard.h"
#include "fs/commands/commands.h"
#include "fs/models/model_folders.h"
#include "fs/models/models.h"
#include "fs/mount/call.h"
#include "fs/program/check.h"
#include "fs/program/daemon.h"
#include "fs/program/http.h"
#include "fs/program/mount_helper.h"
#include "fs/program/mounter.h"
#include "fs/program/mountpoint.h"
#include "fs/base/systemd.h"
#include "fs/program/options.h"
#include "fs/program/privilege.h"
#include "fs/program/refine.h"
#include "fs/program/unmount.h"
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
	struct http http;	/* the gateway that serves it, if one does */
	struct mounter mounter; /* where the daemon is not to be root */
	int parent;		/* pipe to the process that waits for us; -1 in the foreground */
	bool show;		/* progress on the terminal */
};

/* In the background the said is for the log, and until the tree answers there is a terminal. */
static void say(const struct program *p, const char *sentence)
{
	if (!p->options.foreground)
		(void)fprintf(stderr, "moefs: %s\n", sentence);
	daemon_log_say(p->log, sentence);
}

/* The URL is what a script asks for: url=$(moefs -o http MODEL MNT). */
static void serve_http(struct program *p)
{
	char url[300];
	struct err e;
	http_url(&p->http, url, sizeof url);
	if (http_begin(&p->http, p->options.mountpoint, p->log, &e))
		say(p, e.text);
	else if (*url)
		(void)printf("%s\n", url);
	(void)fflush(stdout);
}

static void started(void *ctx)
{
	struct program *p = ctx;
	char words[128];
	(void)snprintf(words, sizeof words, "moefs %s has begun: process %d, %zu model%s",
		       MOEFS_VERSION, (int)getpid(), p->mount->model_count,
		       p->mount->model_count == 1 ? "" : "s");
	daemon_log_note(p->log, words);
	serve_http(p);
	systemd_notify("READY=1");
	if (p->parent >= 0)
		daemon_ready(p->parent);
	p->parent = -1;
}

static bool tick(void *ctx, const struct mount *m)
{
	struct program *p = ctx;
	char line[512];
	if (!p->show)
		return false;
	daemon_log_progress(p->log, models_progress_line(m, line, sizeof line) ? line : "");
	return true; /* the next conversion begins without a word */
}

/* What cannot be mounted is said before anything is begun. */
static int check(struct options *o, struct err *e)
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

/* Each line of a text that ends with one, as a sentence of ours. */
static void say_lines(const struct program *p, const struct text *t)
{
	char line[sizeof((struct err *)0)->text];
	for (size_t at = 0; at < t->length;) {
		const char *begin = t->data + at, *end = memchr(begin, '\n', t->length - at);
		(void)snprintf(line, sizeof line, "%.*s", (int)(end - begin), begin);
		say(p, line);
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
	say_lines(p, &m->skipped);
	return code;
}

static int mount_it(struct program *p)
{
	char where[sizeof "/dev/fd/" + 12];
	struct err ignored; /* libfuse, over there or here, has said it on the terminal */
	int device;
	if (p->mounter.socket < 0)
		return fuse_session_mount(p->mount->fuse, p->options.mountpoint);
	int code = mounter_mount(&p->mounter, &device, &ignored);
	mounter_end(&p->mounter);
	if (code)
		return code;
	(void)snprintf(where, sizeof where, "/dev/fd/%d", device);
	return fuse_session_mount(p->mount->fuse, where);
}

/* What another process has mounted libfuse leaves where it is. */
static void unmount_it(struct program *p)
{
	struct fuse_session *fuse = p->mount->fuse;
	struct err e;
	fuse_session_exit(fuse); /* what the workers still answer goes nowhere, silently */
	bool ours = p->options.whose.changes && fuse_session_fd(fuse) >= 0;
	if (!ours)
		fuse_session_unmount(fuse);
	else if (!mounter_is_gone(fuse_session_fd(fuse)) &&
		 unmount(p->options.mountpoint, true, &e))
		say(p, e.text);
}

static int mount_and_serve(struct program *p, struct err *e)
{
	struct mount *m = p->mount;
	const char *where = p->options.mountpoint;
	m->fuse = fuse_session_new(&p->options.fuse, &moefs_ops, sizeof moefs_ops, m);
	if (!m->fuse)
		return err_set(e, EINVAL, "libfuse refuses these options; see moefs --help");
	int code = open_models(p, e);
	if (!code && mount_it(p))
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
	int code = mount_create(&p->mount, e);
	if (code)
		return code;
	struct mount *m = p->mount;
	m->umask = p->options.umask;
	m->verbose = p->options.verbose;
	m->log = p->log;
	m->params = p->options.params;
	m->param_count = p->options.param_count;
	code = mount_and_serve(p, e);
	daemon_log_note(p->log, code ? e->text : "unmounted");
	systemd_notify("STOPPING=1");
	http_end(&p->http);
	mount_stop(m);
	struct fuse_session *fuse = m->fuse;
	if (fuse)
		unmount_it(p);
	http_wait(&p->http);
	mount_destroy(m);
	if (fuse)
		fuse_session_destroy(fuse);
	return code;
}

/* It is an error of the write then, in words. */
static void ignore_size_limit(void)
{
	(void)signal(SIGXFSZ, SIG_IGN);
}

/* As the user whose mount it is, before anything of his is opened. */
static int serve_as_user(struct program *p, struct err *e)
{
	const struct options *o = &p->options;
	int code = 0;
	loop_share_heap();
	loop_block_signals();
	(void)signal(SIGPIPE, SIG_IGN);
	ignore_size_limit();
	if (o->whose.changes)
		code = mounter_begin(&p->mounter, &p->options.fuse, o->mountpoint, &o->whose, e);
	if (!code)
		code = privilege_drop(&o->whose, e);
	if (!code && (o->log || o->foreground))
		code = daemon_log_begin(&p->log, o->log, o->foreground, e);
	if (!code)
		code = serve(p, e);
	daemon_log_end(p->log);
	mounter_end(&p->mounter);
	return code;
}

static int run(struct program *p, struct err *e)
{
	int code = check(&p->options, e);
	if (!code)
		code = http_listen(&p->http, p->options.http, p->options.key_file, e);
	if (code)
		return 1;
	p->show = p->options.foreground && isatty(STDERR_FILENO);
	if (!p->options.foreground) {
		int status = daemon_begin(&p->parent, e);
		if (status >= 0)
			return status;
	}
	return serve_as_user(p, e) ? 1 : 0;
}

enum { CHECK_WRONG = 2 }; /* status of --check where it is itself what is wrong */

/* What is wrong with models goes where errors go, a line for each, so that scripts read tables. */
static int check_only(const struct program *p, struct err *e)
{
	struct text tables = {0}, wrong = {0};
	int status = check_models(&p->options, &tables, &wrong, e) ? CHECK_WRONG : wrong.length > 0;
	struct err lost;
	(void)fwrite(tables.data ? tables.data : "", 1, tables.length, stdout);
	if (standard_written(&lost)) { /* before what is said of the models */
		say(p, lost.text);
		status = CHECK_WRONG;
	}
	say_lines(p, &wrong);
	text_free(&tables);
	text_free(&wrong);
	return status;
}

static void say_refined(const char *sentence, bool failed)
{
	(void)fprintf(failed ? stderr : stdout, "moefs: %s\n", sentence);
	(void)fflush(stdout); /* the next one may take hours */
}

static int print_help(void)
{
	const struct command *c;
	(void)fputs(options_help, stdout);
	for (unsigned i = 0; (c = command_row(i)); i++)
		(void)printf("  moefs %s %s\n      %s\n", c->name, c->usage, c->what);
	return 0;
}

static int mount_or_tell(struct program *p, int argc, char **argv, bool lenient, bool fake,
			 struct err *e)
{
	const struct options *o = &p->options;
	if (options_parse(&p->options, argc, argv, lenient, e))
		return o->check ? CHECK_WRONG : 1;
	if (o->help)
		return print_help();
	if (o->version) {
		(void)printf("moefs %s\n", MOEFS_VERSION);
		return 0;
	}
	if (fake)
		return 0;
	if (o->refine) {
		ignore_size_limit();
		return refine_models(o, say_refined, e) != 0;
	}
	return o->check ? check_only(p, e) : run(p, e);
}

/* mount(8) reads the status, of which it makes its own. */
static int help_mount(struct program *p, int argc, char **argv, struct err *e)
{
	struct mount_helper h;
	if (mount_helper_read(&h, argc, argv, e))
		return 1;
	return mount_or_tell(p, h.count, h.arguments, h.lenient, h.fake, e);
}

static int run_words(struct program *p, int argc, char **argv, struct err *e)
{
	const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;
	if (command)
		return command_run(command, argc - 1, argv + 1, e);
	if (argc > 1 && command_check_word(argv[1], e))
		return 1;
	return mount_or_tell(p, argc, argv, false, false, e);
}

int main(int argc, char **argv)
{
	struct program p = {.parent = -1, .mounter.socket = -1, .http.socket = -1};
	struct err e = {0};
	int status;
	standard_begin();
	if (mount_helper_is(*argv))
		status = help_mount(&p, argc, argv, &e);
	else
		status = run_words(&p, argc, argv, &e);
	if (status && e.code) /* of what was looked for in vain it may speak, too */
		(void)fprintf(stderr, "moefs: %s\n", e.text);
	if (standard_written(&e)) {
		(void)fprintf(stderr, "moefs: %s\n", e.text);
		status = p.options.check ? CHECK_WRONG : status ? status : 1;
	}
	options_free(&p.options);
	return status;
}
