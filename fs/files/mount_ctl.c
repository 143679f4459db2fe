/* MOUNT/ctl: verbs about models, one a write. What has to wait for threads or the disk is a
 * worker's, and answers the write when it is done. */
#include "fs/files/files.h"
#include "fs/files/late.h"
#include "fs/files/live.h"
#include "fs/files/verbs.h"
#include "fs/models/models.h"
#include "fs/models/model_folders.h"

#include <errno.h>
#include <string.h>

struct asked {		       /* by a write */
	struct handle *handle; /* is released after the answer */
	fuse_req_t req;
	const char *words; /* [size] */
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

static int unload_take(struct late_write *w, struct err *e)
{
	return model_unload(((struct mounted *)w->of)->model, e);
}

static int unload(const struct asked *a, struct err *e)
{
	const struct late_write w = {
		.req = a->req,
		.handle = a->handle,
		.size = a->size,
		.take = unload_take,
		.of = a->model,
	};
	return late_write(&w, a->words, true, e);
}

static int rescan(const struct asked *a, struct err *e)
{
	return model_folders_rescan(a->handle->node.mount, a->req, a->size, e);
}

/* ---- verbs ---- */

static const struct mount_verb {
	struct verb verb;
	int (*run)(const struct asked *a, struct err *e); /* 0, and it answers the write */
	bool of_model;
} rows[] = {
	{{"load", NULL, "NAME: read its weights now, not with its first prompt"}, load, true},
	{{"unload", NULL, "NAME: give back its memory; the next prompt loads it again"},
	 unload,
	 true},
	{{"rescan", NULL, "look for models that came into a mounted folder, or went"},
	 rescan,
	 false},
};
const struct verbs mount_verbs = VERBS("ctl", rows);

static int run(const struct mount_verb *v, struct asked *a, const char *name, size_t length,
	       struct err *e)
{
	if (!v->of_model && length)
		return err_set(e, EINVAL, "ctl: %s takes no name", v->verb.name);
	if (v->of_model && !length && !a->model)
		return err_set(e, EINVAL, "ctl: %s which model? `%s NAME`", v->verb.name,
			       v->verb.name);
	if (v->of_model && !a->model)
		a->model = models_named(a->handle->node.mount, name, length);
	if (v->of_model && !a->model)
		return err_set(e, ENOENT,
			       "ctl: no model here is called '%.*s'; `ls` names those that are",
			       (int)(length < NAME_SIZE ? length : NAME_SIZE), name);
	return v->run(a, e);
}

/* A name may begin or end with blanks and hold newlines: first all that stands behind the verb's
 * blank is looked for, but for the newline that a shell adds, and then that newline, too. NULL: no
 * model is called so to the byte. */
static struct mounted *named_exactly(struct mount *m, const char *name, size_t length)
{
	struct mounted *found = NULL;
	if (length && name[length - 1] == '\n')
		found = models_named(m, name, length - 1);
	return found ? found : models_named(m, name, length);
}

/* VERB or VERB NAME. Blanks around the name that are not the model's are nothing. */
static int ctl_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
		     uint64_t offset, struct err *e)
{
	struct asked a = {.handle = h, .req = req, .words = data, .size = size};
	(void)offset;
	size_t length = size;
	while (length && strchr(" \n", data[length - 1]) && data[length - 1])
		length--;
	const char *blank = memchr(data, ' ', size);
	size_t verb = blank && blank < data + length ? (size_t)(blank - data) : length;
	size_t name = verb;
	if (blank)
		a.model = named_exactly(h->node.mount, blank + 1, size - (size_t)(blank + 1 - data));
	while (name < length && data[name] == ' ')
		name++;
	const struct mount_verb *v = verbs_find(&mount_verbs, data, verb, e);
	return v ? run(v, &a, data + name, name < length ? length - name : 0, e) : -e->code;
}

const struct file_ops mount_ctl_ops = {
	.read = live_read,
	.write_later = ctl_write,
};
