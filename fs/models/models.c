/* Which models are mounted: opening them, naming their folders, and noticing when one of them fails
 * to load. What comes and goes in folders of them is rescan.c's. */
#include "fs/models/models.h"
#include "fs/models/param_defaults.h"
#include "fs/mount/handle.h"
#include "fs/mount/trace_news.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t models_count(const struct mount *m)
{
	size_t count = 0;
	for (struct mounted *x = NULL; (x = mounted_next(m, x));)
		count++;
	return count;
}

static bool name_taken(const struct mount *m, const char *name)
{
	static const char *const ours[] = {"README", "version", "pid", "error", "ctl", "cache"};
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (strcmp(ours[i], name) == 0)
			return true;
	return models_named(m, name, strlen(name));
}

bool models_name_fits(const char *name)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < n; i++)
		if (name[i] == '/' || iscntrl((unsigned char)name[i]))
			return false;
	return n > 0 && n <= MODEL_NAME_MOST && name[0] != '.';
}

/* The model's own name, or the one that was asked for; NAME-2, NAME-3 … where that is taken
 * already. */
static void choose_name(const struct mount *m, const char *wanted, char *name, size_t size)
{
	(void)snprintf(name, size, "%s", wanted);
	for (unsigned n = 2; name_taken(m, name); n++)
		(void)snprintf(name, size, "%.*s-%u", (int)size - 12, wanted, n);
}

void models_free(struct mounted *model)
{
	while (!list_empty(&model->asks))
		asks_remove(LINK_OWNER(model->asks.next, struct conversation, in_asks));
	while (model->session_count)
		sessions_remove(model->sessions[model->session_count - 1]);
	post_cancel(model->mount->posts, &model->traced);
	model_close(model->model);
	free(model->sessions);
	free(model->named);
	free(model->config);
	free(model->path);
	free(model);
}

/* ---- coming and going ---- */

int models_find(struct found *f, struct engine *g, const char *path, bool load, struct err *e)
{
	*f = (struct found){.path = strdup(path)};
	int failed = f->path ? model_open(&f->model, g, path, e)
			     : err_set(e, ENOMEM, "no memory for %s", path);
	if (!failed)
		failed = model_check_tokenizer(f->model, load, e);
	if (!failed) /* once: what the file shows is what the model was made from */
		failed = model_config(f->model, &f->config, &f->config_length, &f->config_time, e);
	if (!failed)
		failed = model_refine_idle(f->model, e);
	if (failed)
		models_drop(f);
	return failed;
}

void models_drop(struct found *f)
{
	model_close(f->model);
	free(f->config);
	free(f->path);
	*f = (struct found){0};
}

/* The index is never another model's: the places of those that are gone stay empty. */
static int add(struct mount *m, struct mounted *model, struct err *e)
{
	if (m->model_count == MODELS_MAX)
		return err_set(e, ENOSPC, "%s: %d models were mounted already", model->path,
			       MODELS_MAX);
	struct mounted **grown =
		reallocarray(m->models, m->model_count + 1, sizeof(struct mounted *));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for %s", model->path);
	m->models = grown;
	model->index = (uint32_t)m->model_count;
	int failed = sessions_make(model, "default", m->uid, m->gid, NULL, e);
	if (!failed)
		failed = param_defaults_set(model, e);
	if (!failed)
		m->models[m->model_count++] = model;
	return failed;
}

int models_take(struct mount *m, struct found *f, const char *name, struct err *e)
{
	struct mounted *model = calloc(1, sizeof *model);
	if (!model) {
		err_set(e, ENOMEM, "no memory for %s", f->path);
		models_drop(f);
		return -ENOMEM;
	}
	model->mount = m;
	model->model = f->model;
	model->path = f->path;
	model->config = f->config;
	model->config_length = f->config_length;
	model->config_time = f->config_time;
	*f = (struct found){0};
	list_init(&model->asks);
	list_init(&model->nameless);
	list_init(&model->writing);
	trace_lists_init(model);
	choose_name(m, name ? name : model_name(model->model), model->name, sizeof model->name);
	int failed = add(m, model, e);
	if (failed)
		models_free(model);
	return failed;
}

/* Who opened one of its files, or has said anything to it, uses it. */
bool models_unused(const struct mounted *model)
{
	enum model_state state = model_state(model->model);
	const struct conversation *c = model->sessions[0];
	for (struct link *l = model->mount->handles.next; l != &model->mount->handles; l = l->next)
		if (LINK_OWNER(l, struct handle, all)->node.model == model)
			return false;
	return (state == MODEL_UNLOADED || state == MODEL_FAILED) && model->session_count == 1 &&
	       list_empty(&model->asks) && c->references == 1 && !session_working(c->session) &&
	       !session_log_size(c->session);
}

struct mounted *models_named(const struct mount *m, const char *name, size_t length)
{
	struct mounted *x = NULL;
	while ((x = mounted_next(m, x)) &&
	       (strlen(x->name) != length || memcmp(x->name, name, length)))
		;
	return x;
}

void models_close(struct mount *m)
{
	for (struct mounted *x; (x = mounted_next(m, NULL));) {
		m->models[x->index] = NULL;
		models_free(x);
	}
}

/* What is wrong with a model, or with what is done for it: the words that go before the reason. */
struct trouble {
	const char *words;
	void (*reason)(const struct model *m, struct err *why);
};

static bool is_troubled(const struct mounted *model, struct trouble *t)
{
	static const struct trouble load = {"", model_failure},
				    convert = {"converting it has stopped, and goes on after a "
					       "prompt or with the next mount once it can: ",
					       model_failure},
				    refine = {"refining it has stopped, and goes on in a later "
					      "pause once it can, while the store that is there "
					      "serves: ",
					      model_refining_failure};
	struct model_progress progress;
	char why[sizeof((struct err *)0)->text];
	model_progress(model->model, &progress);
	model_refining_error(model->model, why, sizeof why);
	if (model_state(model->model) == MODEL_FAILED)
		*t = load;
	else if (!strcmp(progress.doing, "stopped"))
		*t = convert;
	else if (*why)
		*t = refine;
	else
		return false;
	return true;
}

/* Tells it once. A reason that is not there yet is told by the next look. */
static void tell(struct mounted *model, const struct trouble *t)
{
	struct err e, why;
	t->reason(model->model, &why);
	if (model->failure_told || !*why.text)
		return;
	err_because(&e, &why, EIO, "%s: %s%s", model->name, t->words, why.text);
	mount_failure(model->mount, &e);
	model->failure_told = true;
}

bool models_watch(struct mount *m)
{
	bool loading = false;
	for (struct mounted *model = NULL; (model = mounted_next(m, model));) {
		struct trouble t;
		loading |= model_state(model->model) == MODEL_LOADING;
		if (is_troubled(model, &t))
			tell(model, &t);
		else
			model->failure_told = false;
	}
	return loading;
}
