/* The tree of moefs, in a process that notes when the engine has a token: what the program does,
 * without its command line. */
#include "cache/clock.h"
#include "fs/models/model_folders.h"
#include "fs/requests/mount_loop.h"
#include "fs/requests/ops.h"
#include "tests/bench/files.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct serving {
	struct mount *mount;
	struct notes *notes;
	int started;
	/* Of the turn in progress: */
	double first_token; /* seconds from its submission; another turn's is another */
	uint64_t submitted_ns;
};

/* From the submission to the first byte of the answer, which may be a later token's: spaces at the
 * beginning are no part of it. */
static void note_first(struct serving *v, const struct conversation *c)
{
	struct session_stats stats;
	session_stats(c->session, &stats);
	if (stats.first_token_seconds != v->first_token) {
		v->first_token = stats.first_token_seconds;
		v->submitted_ns = clock_ns() - (uint64_t)(v->first_token * 1e9);
	}
	if (atomic_load(&v->notes->count) == 1)
		atomic_store(&v->notes->engine_ns, v->notes->note[0].at_ns - v->submitted_ns);
}

/* As the engine calls it: before anyone who reads is told. */
static void changed(void *ctx, void *user)
{
	struct serving *v = ctx;
	const struct conversation *c = user;
	bool complete;
	struct answer *a = session_answer(c->session);
	if (a) {
		notes_add(v->notes, answer_size(a, &complete));
		answer_unref(a);
		note_first(v, c);
	}
	mount_changed(v->mount, user);
}

static void started(void *ctx)
{
	const struct serving *v = ctx;
	(void)!write(v->started, "", 1);
}

static bool tick(void *ctx, const struct mount *m)
{
	(void)ctx;
	(void)m;
	return false;
}

static int serve(struct serving *v, const char *model, const char *store, const char *where,
		 struct err *e)
{
	struct mount *m = v->mount;
	char *argv[] = {"moefs", "-o", "default_permissions", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	const struct engine_options options = {.store = store, .changed = changed, .ctx = v};
	const struct loop_hooks hooks = {.started = started, .tick = tick, .ctx = v};
	m->fuse = fuse_session_new(&args, &moefs_ops, sizeof moefs_ops, m);
	fuse_opt_free_args(&args);
	if (!m->fuse)
		return err_set(e, EINVAL, "libfuse refuses to begin");
	int rc = engine_create(&m->engine, &options, e);
	if (rc == 0)
		rc = models_add(m, model, "model", e);
	if (rc == 0 && fuse_session_mount(m->fuse, where))
		rc = err_set(e, EPERM, "cannot mount on %s", where);
	return rc ? rc : loop_run(m, &hooks, e);
}

int tree_serve(const char *model, const char *store, const char *where, struct notes *notes,
	       int started_fd, struct err *e)
{
	struct serving v = {.notes = notes, .started = started_fd};
	loop_block_signals();
	int rc = mount_create(&v.mount, e);
	if (rc)
		return rc;
	rc = serve(&v, model, store, where, e);
	mount_stop(v.mount);
	struct fuse_session *fuse = v.mount->fuse;
	if (fuse) {
		fuse_session_exit(fuse);
		fuse_session_unmount(fuse);
	}
	mount_destroy(v.mount);
	if (fuse)
		fuse_session_destroy(fuse);
	return rc;
}
