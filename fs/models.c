/* Which models are mounted: finding them, reading their config.json, naming their folders, and
 * noticing when one of them fails to load. */
#include "fs/mount.h"
#include "fs/param_defaults.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool name_taken(const struct mount *m, const char *name)
{
	static const char *const ours[] = {"README", "version", "pid", "error", "ctl", "cache"};
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (strcmp(ours[i], name) == 0)
			return true;
	for (size_t i = 0; i < m->model_count; i++)
		if (strcmp(m->models[i]->name, name) == 0)
			return true;
	return false;
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

static void mounted_free(struct mounted *model)
{
	while (!list_empty(&model->asks))
		asks_remove(LINK_OWNER(model->asks.next, struct conversation, in_asks));
	while (model->session_count)
		sessions_remove(model->sessions[model->session_count - 1]);
	if (model->model)
		model_close(model->model);
	free(model->sessions);
	free(model->config);
	free(model);
}

static int mounted_create(struct mount *m, const char *path, const char *name, struct mounted **out,
			  struct err *e)
{
	struct mounted *model = calloc(1, sizeof *model);
	if (!model)
		return err_set(e, ENOMEM, "no memory for %s", path);
	model->mount = m;
	list_init(&model->asks);
	model->index = (uint32_t)m->model_count;
	int code = model_open(&model->model, m->engine, path, e);
	if (!code) /* once, at mount: what the file shows is what the model was made from */
		code = model_config(model->model, &model->config, &model->config_length,
				    &model->config_time, e);
	if (!code) {
		choose_name(m, name ? name : model_name(model->model), model->name,
			    sizeof model->name);
		code = sessions_make(model, "default", m->uid, m->gid, NULL, e);
	}
	if (!code)
		code = param_defaults_set(model, e);
	if (code)
		mounted_free(model);
	else
		*out = model;
	return code;
}

static int add_one(struct mount *m, const char *path, const char *name, bool load, struct err *e)
{
	if (m->model_count == MODELS_MAX)
		return err_set(e, ENOSPC, "%s: %d models are mounted already", path, MODELS_MAX);
	struct mounted **grown =
		reallocarray(m->models, m->model_count + 1, sizeof(struct mounted *));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for %s", path);
	m->models = grown;
	struct mounted *model = NULL;
	int code = mounted_create(m, path, name, &model, e);
	if (code)
		return code;
	m->models[m->model_count++] = model;
	if (load)
		model_load(model->model);
	return 0;
}

/* ---- folders ---- */

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* As an error's text it is one line, whatever is in a name. */
static void skip(struct mount *m, const char *name, const struct err *why)
{
	struct err line;
	err_set(&line, why->code, "skipped: %s: %s", name, why->text);
	text_format(&m->skipped, "%s\n", line.text);
}

/* Adds what is a model; true if it was meant to be one, and *why says why it is not mounted. */
static bool add_inside(struct mount *m, const char *path, struct err *why)
{
	int found = model_locate(path, why);
	return found ? found != -ENOENT : add_one(m, path, NULL, false, why) != 0;
}

int models_inside(const char *folder, void (*visit)(void *ctx, const char *path, const char *name),
		  void *ctx, struct err *e)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, visible, alphasort);
	if (n < 0)
		return err_sys(e, errno, "cannot look into %s", folder);
	for (int i = 0; i < n; i++) {
		char inside[4096 + NAME_SIZE];
		(void)snprintf(inside, sizeof inside, "%s/%s", folder, entries[i]->d_name);
		visit(ctx, inside, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

struct adding {
	struct mount *mount;
	unsigned skipped;
};

static void add_or_skip(void *ctx, const char *path, const char *name)
{
	struct adding *a = ctx;
	struct err why;
	if (add_inside(a->mount, path, &why)) {
		skip(a->mount, name, &why);
		a->skipped++;
	}
}

static int add_folder(struct mount *m, const char *path, struct err *e)
{
	struct adding a = {.mount = m};
	size_t before = m->model_count;
	int failed = models_inside(path, add_or_skip, &a, e);
	if (failed || m->model_count > before)
		return failed;
	if (a.skipped)
		return err_set(e, EINVAL, "%s: none of its models can be mounted", path);
	int found = model_locate(path, e);
	if (found != -ENOENT)
		return found;
	return err_set(e, ENOENT,
		       "%s is no checkpoint and holds none: there is no config.json and no GGUF "
		       "file in it or in a folder of it",
		       path);
}

int models_add(struct mount *m, const char *path, const char *name, struct err *e)
{
	int found = model_locate(path, e);
	if (!found)
		return add_one(m, path, name, true, e);
	if (name) {
		struct err why = *e;
		return err_set(e, EINVAL, "-o name=%s is for one model: %s", name, why.text);
	}
	return is_folder(path) ? add_folder(m, path, e) : found;
}

void models_close(struct mount *m)
{
	while (m->model_count)
		mounted_free(m->models[--m->model_count]);
}

/* What is wrong with a model, in the words that go before the reason; NULL: nothing is. */
static const char *trouble(const struct mounted *model)
{
	struct model_progress progress;
	if (model_state(model->model) == MODEL_FAILED)
		return "";
	model_progress(model->model, &progress);
	if (strcmp(progress.doing, "stopped") != 0)
		return NULL;
	return "converting it has stopped, and goes on after a prompt or with the next mount once "
	       "it can: ";
}

/* Tells it once. A reason that is not there yet is told by the next look. */
static void tell(struct mounted *model, const char *words)
{
	struct err e;
	char why[sizeof e.text];
	model_error(model->model, why, sizeof why);
	if (model->failure_told || !*why)
		return;
	err_set(&e, EIO, "%s: %s%s", model->name, words, why);
	mount_failure(model->mount, &e);
	model->failure_told = true;
}

bool models_watch(struct mount *m)
{
	bool loading = false;
	for (size_t i = 0; i < m->model_count; i++) {
		struct mounted *model = m->models[i];
		const char *words = trouble(model);
		loading |= model_state(model->model) == MODEL_LOADING;
		if (words)
			tell(model, words);
		else
			model->failure_told = false;
	}
	return loading;
}
