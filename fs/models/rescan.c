/* See rescan.h.
 *
 * One scan is at work at a time. Who asks while one is, or what is noticed, has another follow it,
 * since it may have looked before. */
#include "fs/models/rescan.h"
#include "cache/clock.h"
#include "fs/base/workers.h"
#include "fs/models/models.h"
#include "fs/models/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* How long until it is looked at what was noticed, so that many changes are one look; and until
 * what changed just now is looked at again, longer than a copy takes from one file to the next. */
enum { NOTICED_MS = 200, CHANGING_MS = 2000 };

struct asker {
	struct link link;
	fuse_req_t req;
	size_t size;
};

struct rescan {
	char **folders;
	size_t folder_count;
	int notices;
	bool running, stopped;
	bool wanted;		       /* by askers: another after the one that runs */
	uint64_t again_ns;	       /* when to look again; 0: not by itself */
	struct link asking, answering; /* askers: of the next scan, of this one */
};

struct scanning {
	struct job job;
	struct mount *mount;
	struct scan scan;
};

static int rescan_begin(struct mount *m, struct err *e)
{
	struct rescan *r = m->rescan ? NULL : calloc(1, sizeof *r);
	if (m->rescan)
		return 0;
	if (!r)
		return err_set(e, ENOMEM, "no memory for a folder of models");
	list_init(&r->asking);
	list_init(&r->answering);
	r->notices = inotify_init1(IN_NONBLOCK | IN_CLOEXEC); /* -1: it goes without */
	m->rescan = r;
	return 0;
}

/* ---- what a scan is given, and what becomes of it ---- */

static int list_known(const struct mount *m, struct scan *s, struct err *e)
{
	size_t count = models_count(m);
	s->known = calloc(count + 1, sizeof *s->known);
	for (struct mounted *x = NULL; s->known && (x = mounted_next(m, x));) {
		struct known *k = &s->known[s->known_count];
		k->index = x->index;
		if (!(k->path = strdup(x->path)))
			break;
		s->known_count++;
	}
	if (!s->known || s->known_count < count)
		return err_set(e, ENOMEM, "no memory to look for models");
	return 0;
}

static void take_away(struct mounted *model, const char *path, struct text *lines)
{
	struct err line; /* as an error's text it is one line, whatever is in a name */
	if (models_unused(model)) {
		models_leave(model);
		return;
	}
	err_set(&line, ENOENT,
		"gone: %s: nothing is at %s any more; it stays here until it is unloaded, has no "
		"session but an empty default, and no file of it is open",
		model->name, path);
	text_format(lines, "%s\n", line.text);
}

/* Puts what was found into the tree, and takes out of it what is gone and nobody uses. */
static void take(struct mount *m, struct scan *s)
{
	struct err why;
	for (size_t i = 0; i < s->known_count; i++)
		if (s->known[i].gone)
			take_away(m->models[s->known[i].index], s->known[i].path, &s->skipped);
	for (size_t i = 0; i < s->found_count; i++)
		if (models_take(m, &s->found[i], NULL, &why))
			text_format(&s->skipped, "skipped: %s\n", why.text);
}

int rescan_add_folder(struct mount *m, const char *folder, struct err *e)
{
	char *copy = strdup(folder);
	struct scan s = {.engine = m->engine, .folders = &copy, .folder_count = 1};
	size_t before = m->model_count;
	int failed = copy ? rescan_begin(m, e) : err_set(e, ENOMEM, "no memory for %s", folder);
	char **grown = failed ? NULL
			      : reallocarray(m->rescan->folders, m->rescan->folder_count + 1,
					     sizeof *grown);
	if (!failed && !grown)
		failed = err_set(e, ENOMEM, "no memory for %s", folder);
	if (failed) {
		free(copy);
		return failed;
	}
	m->rescan->folders = grown;
	grown[m->rescan->folder_count++] = copy;
	s.notices = m->rescan->notices;
	failed = list_known(m, &s, e);
	if (!failed) {
		scan_run(&s);
		take(m, &s);
		text_add(&m->skipped, s.skipped.data, s.skipped.length);
		*e = s.failed;
		failed = -s.failed.code;
	}
	if (!failed && m->model_count == before)
		failed = s.skipped.length ? err_set(e, EINVAL,
						    "%s: none of its models can be mounted", folder)
					  : -ENOENT;
	scan_free(&s);
	return failed;
}

/* ---- again ---- */

static void answer(struct link *askers, const struct err *e)
{
	while (!list_empty(askers)) {
		struct asker *a = LINK_OWNER(askers->next, struct asker, link);
		list_remove(&a->link);
		if (e->code)
			fuse_reply_err(a->req, e->code);
		else
			fuse_reply_write(a->req, a->size);
		free(a);
	}
}

static void look_in(struct rescan *r, unsigned milliseconds)
{
	uint64_t at = clock_ns() + milliseconds * UINT64_C(1000000);
	if (!r->again_ns || at < r->again_ns)
		r->again_ns = at;
}

static void start(struct mount *m);

static void scan_work(struct job *job)
{
	scan_run(&LINK_OWNER(job, struct scanning, job)->scan);
}

static void scan_finish(struct job *job)
{
	struct scanning *g = LINK_OWNER(job, struct scanning, job);
	struct mount *m = g->mount;
	struct rescan *r = m->rescan;
	if (!r->stopped) /* else the sessions have ended, and nobody sees the tree any more */
		take(m, &g->scan);
	skipped_replace(m, &g->scan.skipped);
	if (g->scan.failed.code)
		mount_failure(m, &g->scan.failed);
	answer(&r->answering, &g->scan.failed);
	if (g->scan.changing)
		look_in(r, CHANGING_MS);
	scan_free(&g->scan);
	free(g);
	r->running = false;
	if (r->wanted)
		start(m);
}

/* Who asks has what is there now; by itself only what is not being copied appears. */
static void start(struct mount *m)
{
	struct rescan *r = m->rescan;
	struct err e = {0};
	struct scanning *g = r->stopped ? NULL : calloc(1, sizeof *g);
	r->wanted = false;
	list_move_all(&r->answering, &r->asking);
	if (!g || list_known(m, &g->scan, &e)) {
		err_set(&e, g ? ENOMEM : EIO, "no memory to look for models");
		if (g)
			scan_free(&g->scan);
		free(g);
		answer(&r->answering, &e);
		return;
	}
	g->job = (struct job){.slow = true, .work = scan_work, .finish = scan_finish};
	g->mount = m;
	g->scan.engine = m->engine;
	g->scan.folders = r->folders;
	g->scan.folder_count = r->folder_count;
	g->scan.notices = r->notices;
	g->scan.patient = list_empty(&r->answering);
	text_add(&g->scan.before, m->skipped.data, m->skipped.length);
	r->running = true;
	r->again_ns = 0;
	workers_run(m->workers, &g->job);
}

static void want(struct mount *m)
{
	m->rescan->wanted = true;
	if (!m->rescan->running)
		start(m);
}

int rescan_ask(struct mount *m, fuse_req_t req, size_t size, struct err *e)
{
	struct asker *a = m->rescan ? malloc(sizeof *a) : NULL;
	if (!m->rescan) { /* models alone, and no folder of them */
		fuse_reply_write(req, size);
		return 0;
	}
	if (!a)
		return err_set(e, ENOMEM, "no memory to look for models");
	a->req = req;
	a->size = size;
	list_init(&a->link);
	list_append(&m->rescan->asking, &a->link);
	want(m);
	return 0;
}

int rescan_fd(const struct mount *m)
{
	return m->rescan ? m->rescan->notices : -1;
}

/* What it was does not matter. */
void rescan_noticed(struct mount *m)
{
	char notices[4096];
	bool any = false;
	while (read(m->rescan->notices, notices, sizeof notices) > 0)
		any = true;
	if (any)
		look_in(m->rescan, NOTICED_MS);
}

int rescan_timeout(const struct mount *m)
{
	if (!m->rescan || !m->rescan->again_ns || m->rescan->running)
		return -1;
	uint64_t now = clock_ns(), at = m->rescan->again_ns;
	return at > now ? (int)((at - now) / 1000000) + 1 : 0;
}

void rescan_expire(struct mount *m)
{
	if (rescan_timeout(m) == 0)
		want(m);
}

void rescan_stop(struct mount *m)
{
	static const struct err ends = {.code = EIO};
	if (!m->rescan)
		return;
	m->rescan->stopped = true;
	m->rescan->wanted = false;
	answer(&m->rescan->asking, &ends);
}

void rescan_free(struct mount *m)
{
	struct rescan *r = m->rescan;
	if (!r)
		return;
	for (size_t i = 0; i < r->folder_count; i++)
		free(r->folders[i]);
	free(r->folders);
	if (r->notices >= 0)
		close(r->notices);
	free(r);
	m->rescan = NULL;
}
