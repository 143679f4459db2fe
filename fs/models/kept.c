/* See kept.h: when sessions are written, and how they are restored. */
#include "fs/models/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the folder ---- */

int kept_open(struct mount *m, const char *folder, struct err *e)
{
	if (mkdir(folder, 0700) && errno != EEXIST)
		return err_sys(e, errno, "-o sessions=%s: cannot make this folder", folder);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "-o sessions=%s: cannot open this folder", folder);
	struct err why;
	int code = kept_check_folder(fd, folder, &why);
	if (code) {
		close(fd);
		return err_because(e, &why, why.code, "-o sessions=%s: %s", folder, why.text);
	}
	m->kept.folder = fd;
	m->kept.path = folder;
	m->kept.changed = kept_changed;
	return 0;
}

void kept_close(struct mount *m)
{
	if (m->kept.path)
		close(m->kept.folder);
	m->kept.path = NULL;
}

/* Reports a failure, once until something succeeds again. */
static void kept_failed(struct mount *m, const struct err *e)
{
	if (!m->kept.failed)
		failure_of_mount(m, e);
	m->kept.failed = true;
}

/* ---- writing ---- */

/* The state of a conversation's file. */
struct kept {
	struct job job;
	struct conversation *of;
	struct session *session; /* borrowed by the job; NULL: it removes the file */
	struct kept_head head;	 /* a copy, since a session may be renamed meanwhile */
	uint32_t number;
	bool running, again; /* again: the session has changed since the job began */
	bool gone;	     /* the session was removed */
	int code;
	struct err why;
};

static void kept_work(struct job *job)
{
	struct kept *k = LINK_OWNER(job, struct kept, job);
	const struct mounted *model = k->of->model;
	char name[16];
	int folder = kept_folder_open(model->mount->kept.folder, k->of->uid, model->name,
				      k->session, &k->why);
	k->code = folder < 0 ? folder : 0;
	if (folder < 0)
		return;
	(void)snprintf(name, sizeof name, "%" PRIu32, k->number);
	if (k->session)
		k->code = kept_file_write(folder, k->number, &k->head, k->session, &k->why);
	else if (unlinkat(folder, name, 0) && errno != ENOENT)
		k->code = err_sys(&k->why, errno, "cannot remove its file");
	close(folder);
}

static void kept_start(struct kept *k);

static void kept_finish(struct job *job)
{
	struct kept *k = LINK_OWNER(job, struct kept, job);
	struct conversation *c = k->of;
	struct mount *m = c->model->mount;
	struct err e;
	bool wrote = k->session;
	if (k->code && !(k->code == -ENOENT && !wrote)) {
		err_because(&e, &k->why, k->why.code, "%s/sessions/%s is not kept in %s: %s",
			    c->model->name, k->head.name, m->kept.path, k->why.text);
		kept_failed(m, &e);
	} else if (wrote)
		m->kept.failed = false;
	k->running = false;
	/* The session has ended but is still borrowed here, so its last change is not lost. */
	if (k->again && !k->gone && !c->session && wrote)
		kept_work(job);
	else if (k->again)
		kept_start(k);
	if (wrote)
		conversation_return(c);
	conversation_unref(c);
}

static void kept_start(struct kept *k)
{
	struct conversation *c = k->of;
	k->again = k->running;
	if (k->running || (!k->gone && !c->session))
		return;
	k->running = true;
	k->head.gid = c->gid;
	memcpy(k->head.name, c->name, sizeof k->head.name);
	conversation_ref(c);
	k->session = k->gone ? NULL : conversation_borrow(c);
	k->job = (struct job){.slow = true, .work = kept_work, .finish = kept_finish};
	workers_run(c->model->mount->workers, &k->job);
}

/* Sessions of single requests, recognised by moefs-http's names for them. */
static bool kept_passes(const struct conversation *c)
{
	return !c->id || c->passing || !strncmp(c->name, "http-", 5);
}

void kept_changed(struct conversation *c)
{
	struct mounted *model = c->model;
	if (!model->kept_lock || kept_passes(c) || session_working(c->session))
		return;
	if (!c->kept) {
		c->kept = calloc(1, sizeof *c->kept);
		if (!c->kept)
			return;
		c->kept->of = c;
		c->kept->number = ++model->kept_last;
	}
	kept_start(c->kept);
}

void kept_removed(struct conversation *c)
{
	if (!c->kept)
		return;
	c->kept->gone = true;
	kept_start(c->kept);
}

/* ---- reading ---- */

/* Takes a lock that no other mount holds. Before the tree answers, waits briefly for a mount that
 * is about to end: a killed mount holds the lock until its memory is freed. */
static bool kept_lock_file(const struct mount *m, int fd)
{
	enum { TRIES = 60, PAUSE_MS = 50 };
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK || m->ready || i == TRIES)
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return true;
}

/* Only one mount keeps a model's sessions at a time. */
static bool kept_lock(struct mounted *model)
{
	struct mount *m = model->mount;
	char name[NAME_SIZE + 8];
	struct err e;
	(void)snprintf(name, sizeof name, "%s.lock", model->name);
	int fd = openat(m->kept.folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && kept_lock_file(m, fd)) {
		model->kept_lock = fd;
		return true;
	}
	if (fd >= 0 && errno == EWOULDBLOCK)
		err_set(&e, EBUSY, "%s: another mount keeps its sessions in %s; this one does not",
			model->name, m->kept.path);
	else
		err_sys(&e, errno, "%s: its sessions are not kept in %s", model->name,
			m->kept.path);
	if (fd >= 0)
		close(fd);
	failure_of_mount(m, &e);
	return false;
}

/* The files of a model that has just entered the tree. They are read one after the other. */
struct kept_files {
	struct job job;
	struct mounted *model;
	bool (*skips)(const struct mount *m, size_t param);
	struct kept_place {
		uid_t uid;
		uint32_t number;
	} *places;
	size_t count, at; /* at: index of the file being read or applied */
	struct kept_head head;
	struct text text;
	int code;
	struct err why;
};

/* Renames a file that was applied only in part, since the next change of the session would replace
 * it. */
static void kept_put_aside(const struct mounted *model, const struct kept_place *place)
{
	char name[16], aside[32];
	struct err none;
	int folder = kept_folder_open(model->mount->kept.folder, place->uid, model->name, false,
				      &none);
	if (folder < 0)
		return;
	(void)snprintf(name, sizeof name, "%" PRIu32, place->number);
	(void)snprintf(aside, sizeof aside, "%" PRIu32 ".refused", place->number);
	(void)renameat(folder, name, folder, aside);
	close(folder);
}

static void kept_read(struct kept_files *f)
{
	const struct kept_place *place = &f->places[f->at];
	int folder = kept_folder_open(f->model->mount->kept.folder, place->uid, f->model->name,
				      false, &f->why);
	f->code = folder;
	if (folder >= 0) {
		f->code = kept_file_read(folder, place->number, &f->head, &f->text, &f->why);
		close(folder);
	}
}

/* Makes the session of the file that was read. Returns -errno with a sentence. */
static int kept_restore(struct kept_files *f, struct err *e)
{
	const struct kept_place *place = &f->places[f->at];
	struct mounted *model = f->model;
	const char *name = f->head.name;
	struct conversation *c = conversations_by_name(model, name);
	bool is_default = c && conversation_is_default(c) && place->uid == c->uid && !c->kept;
	if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
		return err_set(e, EINVAL, "a session cannot be called \"%.64s\"", name);
	if (c && !is_default)
		return err_set(e, EEXIST, "there is another session called %s", name);
	int code = c ? 0 : conversation_make(model, name, place->uid, f->head.gid, &c, e);
	if (code)
		return code;
	c->kept = calloc(1, sizeof *c->kept);
	if (!c->kept)
		return err_set(e, ENOMEM, "no memory for a session");
	*c->kept = (struct kept){.of = c, .number = place->number};
	const struct kept_target to = {c->session, is_default ? f->skips : NULL, model->mount};
	code = kept_file_apply(&f->text, &to, e);
	if (code)
		kept_put_aside(model, place);
	else /* the session equals its file: nothing to write */
		post_cancel(model->mount->posts, &c->news);
	return code;
}

/* Applies the file that was read, and continues with the next. */
static void kept_take_file(struct kept_files *f)
{
	const struct kept_place *place = &f->places[f->at];
	const struct mounted *model = f->model;
	struct err e, why = f->why;
	int code = f->code ? f->code : kept_restore(f, &why);
	text_free(&f->text);
	f->at++;
	if (!code)
		return;
	err_because(&e, &why, why.code, "%s: the session in %s/%" PRIu32 "/%s/%" PRIu32 ": %s",
		    model->name, model->mount->kept.path, (uint32_t)place->uid, model->name,
		    place->number, why.text);
	failure_of_mount(model->mount, &e);
}

static void kept_files_free(struct kept_files *f)
{
	text_free(&f->text);
	free(f->places);
	free(f);
}

static void kept_files_work(struct job *job)
{
	kept_read(LINK_OWNER(job, struct kept_files, job));
}

static void kept_files_finish(struct job *job)
{
	struct kept_files *f = LINK_OWNER(job, struct kept_files, job);
	const struct mounted *model = f->model;
	struct mount *m = model->mount;
	/* False: the model or the mount is about to end. */
	bool stays = m->models[model->index] == model && model->sessions[0]->session;
	if (stays)
		kept_take_file(f);
	if (stays && f->at < f->count)
		workers_run(m->workers, &f->job);
	else
		kept_files_free(f);
}

/* Reads a number in the form of file names; 0: it is not a number. */
static uint32_t kept_number(const char *name)
{
	unsigned long long n = strspn(name, "0123456789") == strlen(name) && *name != '0'
				       ? strtoull(name, NULL, 10)
				       : 0;
	return n < UINT32_MAX ? (uint32_t)n : 0;
}

static int kept_by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* The numbers among the names in a folder, in ascending order; at most SESSIONS_MAX. malloc'ed. */
static uint32_t *kept_list(int folder, size_t *count)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint32_t *all = d ? malloc(SESSIONS_MAX * sizeof *all) : NULL;
	*count = 0;
	for (const struct dirent *entry; all && *count < SESSIONS_MAX && (entry = readdir(d));)
		if (kept_number(entry->d_name))
			all[(*count)++] = kept_number(entry->d_name);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	if (all)
		qsort(all, *count, sizeof *all, kept_by_number);
	return all;
}

/* Adds the files of a user's sessions. */
static void kept_add_user(struct kept_files *f, uid_t uid)
{
	struct mounted *model = f->model;
	struct err e, why;
	size_t count;
	int folder = kept_folder_open(model->mount->kept.folder, uid, model->name, false, &why);
	if (folder < 0) {
		if (folder != -ENOENT) {
			err_because(&e, &why, why.code, "%s: sessions kept for user %" PRIu32 ": %s",
				    model->name, (uint32_t)uid, why.text);
			failure_of_mount(model->mount, &e);
		}
		return;
	}
	uint32_t *all = kept_list(folder, &count);
	struct kept_place *grown =
		reallocarray(f->places, f->count + count + 1, sizeof *f->places);
	if (grown)
		f->places = grown;
	for (size_t i = 0; all && grown && i < count; i++) {
		if (all[i] > model->kept_last)
			model->kept_last = all[i];
		f->places[f->count++] = (struct kept_place){uid, all[i]};
	}
	free(all);
	close(folder);
}

void kept_load(struct mounted *model, bool (*skips)(const struct mount *m, size_t param))
{
	struct mount *m = model->mount;
	size_t count;
	if (!m->kept.path || !kept_lock(model))
		return;
	struct kept_files *f = calloc(1, sizeof *f);
	if (!f)
		return;
	f->job = (struct job){.slow = true, .work = kept_files_work, .finish = kept_files_finish};
	f->model = model;
	f->skips = skips;
	uint32_t *users = kept_list(m->kept.folder, &count);
	/* User 0's folder is named 0, which is not the number of a session. */
	kept_add_user(f, 0);
	for (size_t i = 0; users && i < count; i++)
		kept_add_user(f, users[i]);
	free(users);
	while (!m->ready && f->at < f->count) {
		kept_read(f);
		kept_take_file(f);
	}
	if (f->at < f->count)
		workers_run(m->workers, &f->job);
	else
		kept_files_free(f);
}

void kept_unload(struct mounted *model)
{
	if (model->kept_lock)
		close(model->kept_lock);
	model->kept_lock = 0;
}
