/* See model_folders.h.
 *
 * One scan runs at a time. A request for a scan during a scan makes another one follow, since the
 * running scan may already have passed the place that changed. */
#include "fs/models/model_folders.h"
#include "cache/clock.h"
#include "fs/base/daemon_log.h"
#include "fs/base/workers.h"
#include "fs/models/models.h"
#include "fs/models/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NOTICED_MS = 200,    /* from a change to the scan, so that many changes cause one scan */
	CHANGING_MS = 2000,  /* until a model that just changed is checked again: longer than a copy
				takes from one file to the next */
	LINGERING_MS = 2000, /* longest time between the loop's checks whether a removed model is
				still used: nothing wakes the loop after idle= has unloaded one */
};

struct rescan_asker {
	struct link link;
	fuse_req_t req;
	size_t size;
};

struct rescan {
	char **folders;
	size_t folder_count;
	int notices; /* an inotify descriptor; -1: none */
	bool running, stopped;
	bool wanted;		       /* run another scan after the present one */
	bool lingers;		       /* a model whose files are gone is still used */
	uint64_t again_ns;	       /* CLOCK_MONOTONIC of the next scan; 0: none is planned */
	struct link asking, answering; /* struct rescan_asker: for the next scan, for this scan */
};

struct scanning {
	struct job job;
	struct mount *mount;
	struct scan scan;
};

/* ---- the input and the results of a scan ---- */

static int model_folders_list_known(const struct mount *m, struct scan *s, struct err *e)
{
	size_t count = models_count(m);
	s->known = calloc(count + 1, sizeof *s->known);
	for (struct mounted *x = NULL; s->known && (x = mount_next_model(m, x));) {
		struct known_model *k = &s->known[s->known_count];
		k->index = x->index;
		if (!(k->path = strdup(x->path)))
			break;
		s->known_count++;
	}
	if (!s->known || s->known_count < count)
		return err_set(e, ENOMEM, "no memory to look for models");
	return 0;
}

/* Puts the models found into the tree and removes those whose files are gone, if they are unused. A
 * model that could not be mounted gets a line in s->skipped. */
static void model_folders_take(struct mount *m, struct scan *s)
{
	struct err line; /* an error's text is one line, whatever bytes a name has */
	m->rescan->lingers = false;
	for (size_t i = 0; i < s->known_count; i++) {
		struct mounted *model = m->models[s->known[i].index];
		if (!model || !(model->gone = s->known[i].gone))
			continue;
		if (models_unused(model)) {
			models_leave(model);
			continue;
		}
		m->rescan->lingers = true;
		err_set(&line, ENOENT,
			"gone: %s: nothing is at %s any more; the model stays until it is "
			"unloaded, "
			"none of its files is open, and its only session is an empty default",
			model->name, s->known[i].path);
		text_format(&s->skipped, "%s\n", line.text);
	}
	for (size_t i = 0; i < s->found_count; i++)
		if (models_take(m, &s->found[i], NULL, &line))
			text_format(&s->skipped, "skipped: %s\n", line.text);
}

/* Whether `line`, which ends in a newline, is one of the lines of t. */
static bool model_folders_has_line(const struct text *t, const char *line, size_t length)
{
	if (!t->data)
		return false;
	for (const char *at = t->data, *end = at + t->length; at < end;) {
		const char *next = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
		if ((size_t)(next - at) == length && !memcmp(at, line, length))
			return true;
		at = next;
	}
	return false;
}

/* Replaces m->skipped by these lines, and logs the new ones. */
static void model_folders_replace_skipped(struct mount *m, struct text *lines)
{
	char sentence[sizeof((struct err *)0)->text];
	for (size_t at = 0, length; at < lines->length; at += length) {
		const char *line = lines->data + at;
		length = (size_t)((const char *)memchr(line, '\n', lines->length - at) - line) + 1;
		(void)snprintf(sentence, sizeof sentence, "%.*s", (int)length - 1, line);
		if (!model_folders_has_line(&m->skipped, line, length))
			daemon_log_say(m->log, sentence);
	}
	text_free(&m->skipped);
	m->skipped = *lines;
	*lines = (struct text){0};
}

/* ---- the command line ---- */

/* Adds a folder to the list. Takes the string, also after a failure. */
static int model_folders_remember(struct mount *m, char *folder, struct err *e)
{
	struct rescan *r = m->rescan;
	if (!r && (r = calloc(1, sizeof *r))) {
		list_init(&r->asking);
		list_init(&r->answering);
		r->notices = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		m->rescan = r;
	}
	char **grown =
		r && folder ? reallocarray(r->folders, r->folder_count + 1, sizeof *grown) : NULL;
	if (!grown) {
		free(folder);
		return err_set(e, ENOMEM, "no memory for a folder of models");
	}
	r->folders = grown;
	grown[r->folder_count++] = folder;
	return 0;
}

/* Adds the folders and mounts their models; `shown` is their name in messages. -ENOENT, without a
 * sentence: there is nothing in them that could be a model. */
static int model_folders_add(struct mount *m, char *const *folders, size_t count, const char *shown,
			     struct err *e)
{
	struct scan s = {.engine = m->engine, .folders = folders, .folder_count = count};
	size_t before = m->model_count;
	int failed = 0;
	for (size_t i = 0; i < count && !failed; i++)
		failed = model_folders_remember(m, strdup(folders[i]), e);
	if (failed)
		return failed;
	s.notices = m->rescan->notices;
	failed = model_folders_list_known(m, &s, e);
	if (!failed) {
		scan_run(&s);
		model_folders_take(m, &s);
		text_add(&m->skipped, s.skipped.data, s.skipped.length);
		*e = s.failed;
		failed = -s.failed.code;
	}
	if (!failed && m->model_count == before)
		failed = s.skipped.length ? err_set(e, EINVAL,
						    "%s: none of its models can be mounted", shown)
					  : -ENOENT;
	scan_free(&s);
	return failed;
}

int models_add(struct mount *m, const char *path, const char *name, struct err *e)
{
	struct found_model f;
	struct stat st;
	int failed = model_locate(path, e);
	if (failed && name) {
		struct err why = *e;
		return err_set(e, EINVAL, "-o name=%s is for a single model: %s", name, why.text);
	}
	if (failed && !stat(path, &st) && S_ISDIR(st.st_mode)) {
		char *folder = strdup(path);
		failed = folder ? model_folders_add(m, &folder, 1, path, e)
				: err_set(e, ENOMEM, "no memory for a folder of models");
		free(folder);
		if (failed == -ENOENT)
			failed = model_locate(path, e);
		return failed != -ENOENT
			       ? failed
			       : err_set(e, ENOENT,
					 "%s is not a model and contains none: neither the folder "
					 "nor a folder in it has a config.json or a GGUF file",
					 path);
	}
	if (!failed)
		failed = models_find(&f, m->engine, path, MODELS_READS_ALL, e);
	if (!failed)
		failed = models_take(m, &f, name, e);
	if (!failed)
		model_load(m->models[m->model_count - 1]->model);
	return failed;
}

int models_add_others(struct mount *m, struct err *e)
{
	struct library_list others = {0};
	int failed = library_folders(&others, e);
	if (!failed)
		failed = others.folder_count
				 ? model_folders_add(m, others.folders, others.folder_count,
						     "the folders of other programs", e)
				 : -ENOENT;
	library_free(&others);
	return failed != -ENOENT ? failed
				 : err_set(e, ENOENT,
					   "no model of another program is here (ollama, LM "
					   "Studio, llama.cpp, "
					   "a hub's cache)");
}

/* ---- scanning again ---- */

/* Answers the writes that waited for a scan. */
static void model_folders_answer(struct link *askers, const struct err *e)
{
	while (!list_empty(askers)) {
		struct rescan_asker *a = LINK_OWNER(askers->next, struct rescan_asker, link);
		list_remove(&a->link);
		if (e->code)
			fuse_reply_err(a->req, e->code);
		else
			fuse_reply_write(a->req, a->size);
		free(a);
	}
}

/* Plans a scan after this time at the latest. */
static void model_folders_scan_in(struct rescan *r, unsigned milliseconds)
{
	uint64_t at = clock_ns() + milliseconds * UINT64_C(1000000);
	if (!r->again_ns || at < r->again_ns)
		r->again_ns = at;
}

static void model_folders_start_scan(struct mount *m);

static void model_folders_scan_work(struct job *job)
{
	scan_run(&LINK_OWNER(job, struct scanning, job)->scan);
}

static void model_folders_scan_finish(struct job *job)
{
	struct scanning *g = LINK_OWNER(job, struct scanning, job);
	struct mount *m = g->mount;
	struct rescan *r = m->rescan;
	if (!r->stopped) /* afterwards all sessions have ended and nobody sees the tree */
		model_folders_take(m, &g->scan);
	model_folders_replace_skipped(m, &g->scan.skipped);
	if (g->scan.failed.code)
		failure_of_mount(m, &g->scan.failed);
	model_folders_answer(&r->answering, &g->scan.failed);
	if (g->scan.changing)
		model_folders_scan_in(r, CHANGING_MS);
	scan_free(&g->scan);
	free(g);
	r->running = false;
	if (r->wanted)
		model_folders_start_scan(m);
}

/* A scan on request takes all models that are there now. A scan that the loop starts leaves alone
 * models that are still being copied. */
static void model_folders_start_scan(struct mount *m)
{
	struct rescan *r = m->rescan;
	struct err e = {0};
	struct scanning *g = r->stopped ? NULL : calloc(1, sizeof *g);
	r->wanted = false;
	list_move_all(&r->answering, &r->asking);
	if (!g || model_folders_list_known(m, &g->scan, &e)) {
		err_set(&e, g ? ENOMEM : EIO, "no memory to look for models");
		if (g)
			scan_free(&g->scan);
		free(g);
		model_folders_answer(&r->answering, &e);
		return;
	}
	g->job = (struct job){
		.slow = true, .work = model_folders_scan_work, .finish = model_folders_scan_finish};
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

static void model_folders_want_scan(struct mount *m)
{
	m->rescan->wanted = true;
	if (!m->rescan->running)
		model_folders_start_scan(m);
}

int model_folders_rescan(struct mount *m, fuse_req_t req, size_t size, struct err *e)
{
	struct rescan_asker *a = m->rescan ? malloc(sizeof *a) : NULL;
	if (!m->rescan) { /* only single models are mounted: there is nothing to scan */
		fuse_reply_write(req, size);
		return 0;
	}
	if (!a)
		return err_set(e, ENOMEM, "no memory to look for models");
	a->req = req;
	a->size = size;
	list_init(&a->link);
	list_append(&m->rescan->asking, &a->link);
	model_folders_want_scan(m);
	return 0;
}

int model_folders_fd(const struct mount *m)
{
	return m->rescan ? m->rescan->notices : -1;
}

/* The events are dropped: a scan checks everything. */
void model_folders_changed(struct mount *m)
{
	char notices[4096];
	bool any = false;
	while (read(m->rescan->notices, notices, sizeof notices) > 0)
		any = true;
	if (any)
		model_folders_scan_in(m->rescan, NOTICED_MS);
}

int model_folders_timeout(const struct mount *m)
{
	const struct rescan *r = m->rescan;
	if (!r || r->running)
		return -1;
	if (!r->again_ns)
		return r->lingers ? LINGERING_MS : -1;
	uint64_t now = clock_ns(), at = r->again_ns;
	return at > now ? (int)((at - now) / 1000000) + 1 : 0;
}

/* Whether a model that was still used when its files were gone is unused now. Its last file's
 * RELEASE may come long after the close, and after every scan that a change or a `rescan`
 * started. */
static bool model_folders_can_let_go(const struct mount *m)
{
	struct mounted *x = NULL;
	if (!m->rescan || m->rescan->running || !m->rescan->lingers)
		return false;
	while ((x = mount_next_model(m, x)) && !(x->gone && models_unused(x)))
		;
	return x;
}

/* Removes the model by a scan, since there may be a model at its path again. */
void model_folders_expire(struct mount *m)
{
	if (model_folders_timeout(m) == 0 || model_folders_can_let_go(m))
		model_folders_want_scan(m);
}

void model_folders_stop(struct mount *m)
{
	static const struct err ends = {.code = EIO};
	if (!m->rescan)
		return;
	m->rescan->stopped = true;
	m->rescan->wanted = false;
	model_folders_answer(&m->rescan->asking, &ends);
}

void model_folders_free(struct mount *m)
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
