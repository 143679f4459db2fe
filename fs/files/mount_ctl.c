/* MOUNT/ctl: verbs about models, one a write. What has to wait for threads or the disk is a
 * worker's, and answers the write when it is done. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/models/models.h"
#include "fs/models/rescan.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct asked {		       /* by a write */
	struct handle *handle; /* is released after the answer */
	fuse_req_t req;
	size_t size;
	struct mounted *model; /* that it names; NULL: none */
};

static int load(const struct asked *a, struct err *e)
{
	(void)e;
	model_load(a->model->model);
	a->handle->node.mount->load_asked = true;
	fuse_reply_write(a->req, a->size);
	return 0;
}

/* ---- unload ---- */

struct unloading {
	struct job job;
	struct asked asked;
	struct err why;
	int code;
};

static void unload_work(struct job *job)
{
	struct unloading *u = LINK_OWNER(job, struct unloading, job);
	u->code = model_unload(u->asked.model->model, &u->why);
}

static void unload_finish(struct job *job)
{
	struct unloading *u = LINK_OWNER(job, struct unloading, job);
	if (u->code) {
		node_failure(&u->asked.handle->node, &u->why);
		fuse_reply_err(u->asked.req, -u->code);
	} else {
		fuse_reply_write(u->asked.req, u->asked.size);
	}
	free(u);
}

static int unload(const struct asked *a, struct err *e)
{
	struct unloading *u = malloc(sizeof *u);
	if (!u)
		return err_set(e, ENOMEM, "no memory to unload %s", a->model->name);
	*u = (struct unloading){
		.job = {.slow = true, .work = unload_work, .finish = unload_finish},
		.asked = *a,
	};
	workers_run(a->handle->node.mount->workers, &u->job);
	return 0;
}

static int rescan(const struct asked *a, struct err *e)
{
	return rescan_ask(a->handle->node.mount, a->req, a->size, e);
}

/* ---- verbs ---- */

static const struct verb {
	const char *name;
	int (*run)(const struct asked *a, struct err *e); /* 0, and it answers the write */
	bool of_model;
	const char *about;
} verbs[] = {
	{"load", load, true, "NAME: read its weights now, not with its first prompt"},
	{"unload", unload, true, "NAME: give back its memory; the next prompt loads it again"},
	{"rescan", rescan, false, "look for models that came into a mounted folder, or went"},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

void mount_ctl_render(const struct node *n, struct text *out)
{
	(void)n;
	for (size_t i = 0; i < VERBS; i++)
		text_format(out, "%s\t%s\n", verbs[i].name, verbs[i].about);
}

static int run(const struct verb *v, struct asked *a, const char *name, size_t length,
	       struct err *e)
{
	if (!v->of_model && length)
		return err_set(e, EINVAL, "ctl: %s takes no name", v->name);
	if (v->of_model && !length)
		return err_set(e, EINVAL, "ctl: %s which model? `%s NAME`", v->name, v->name);
	if (v->of_model && !(a->model = models_named(a->handle->node.mount, name, length)))
		return err_set(e, ENOENT, "ctl: no model here is called '%.*s'",
			       (int)(length < NAME_SIZE ? length : NAME_SIZE), name);
	return v->run(a, e);
}

/* VERB or VERB NAME, where a name may have blanks in it. */
static int ctl_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
		     uint64_t offset, struct err *e)
{
	struct asked a = {.handle = h, .req = req, .size = size};
	(void)offset;
	size_t length = size;
	while (length && strchr(" \n", data[length - 1]) && data[length - 1])
		length--;
	const char *blank = memchr(data, ' ', length);
	size_t verb = blank ? (size_t)(blank - data) : length;
	size_t name = verb;
	while (name < length && data[name] == ' ')
		name++;
	for (size_t i = 0; i < VERBS; i++)
		if (strlen(verbs[i].name) == verb && !memcmp(verbs[i].name, data, verb))
			return run(&verbs[i], &a, data + name, length - name, e);
	return err_set(e, EINVAL, "ctl: '%.*s' is not a verb; `cat ctl` lists them",
		       (int)(length < 64 ? length : 64), data);
}

static ssize_t ctl_read(struct handle *h, struct call *c, char *buffer)
{
	return live_ops.read(h, c, buffer);
}

const struct file_ops mount_ctl_ops = {
	.read = ctl_read,
	.write_later = ctl_write,
};
