/* See models.h. */
#include "fs/models/models.h"
#include "fs/mount/handle.h"
#include "fs/models/kept.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t models_count(const struct mount *m)
{
	size_t count = 0;
	for (struct mounted *x = NULL; (x = mount_next_model(m, x));)
		count++;
	return count;
}

struct mounted *models_named(const struct mount *m, const char *name, size_t length)
{
	struct mounted *x = NULL;
	while ((x = mount_next_model(m, x)) &&
	       (strlen(x->name) != length || memcmp(x->name, name, length)))
		;
	return x;
}

bool models_name_fits(const char *name)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < n; i++)
		if (name[i] == '/' || iscntrl((unsigned char)name[i]))
			return false;
	return n > 0 && n <= MODEL_NAME_MOST && name[0] != '.';
}

static bool models_name_is_taken(const struct mount *m, const char *name)
{
	static const char *const ours[] = {"README",	 "version", "pid", "error",
					   "error.json", "kept",    "ctl", "cache"};
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (strcmp(ours[i], name) == 0)
			return true;
	return models_named(m, name, strlen(name));
}

/* ---- opening ---- */

int models_find(struct found_model *f, struct engine *g, const char *path, enum models_reads reads,
		struct err *e)
{
	*f = (struct found_model){.path = strdup(path)};
	int failed = f->path ? model_open(&f->model, g, path, e)
			     : err_set(e, ENOMEM, "no memory for %s", path);
	if (!failed && reads != MODELS_READS_HEADERS)
		failed = model_check_tokenizer(f->model, reads == MODELS_READS_ALL, e);
	if (!failed) /* read once: config.json shows what the model was made from */
		failed = model_config(f->model, &f->config, &f->config_length, &f->config_time, e);
	if (!failed) {
		f->examples = model_examples(f->model);
		failed = f->examples ? 0 : err_set(e, ENOMEM, "no memory for %s", path);
	}
	if (!failed)
		failed = model_refine_idle(f->model, e);
	if (failed)
		models_drop(f);
	return failed;
}

void models_drop(struct found_model *f)
{
	model_close(f->model);
	free(f->config);
	free(f->examples);
	free(f->path);
	free(f->name);
	*f = (struct found_model){0};
}

void models_params_given(const struct mount *m, struct text *out)
{
	for (size_t i = 0; i < m->param_count; i++)
		text_format(out, "%s %s (-o %s=)\n", params_name(m->params[i].param),
			    m->params[i].value, params_name(m->params[i].param));
}

/* Params from the command line take precedence over the saved ones of sessions/default. */
static bool models_param_is_given(const struct mount *m, size_t param)
{
	size_t i = 0;
	while (i < m->param_count && m->params[i].param != param)
		i++;
	return i < m->param_count;
}

/* Indices are never reused: the place of a removed model stays empty, so a name that a program
 * looked up there never leads to another model. */
static int models_enter(struct mount *m, struct mounted *model, struct err *e)
{
	if (m->model_count == MODELS_MAX)
		return err_set(e, ENOSPC,
			       "cannot mount %s: the mount has had %d models already; unmount it "
			       "and mount again",
			       model->path, MODELS_MAX);
	struct mounted **grown =
		reallocarray(m->models, m->model_count + 1, sizeof(struct mounted *));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for %s", model->path);
	m->models = grown;
	model->index = (uint32_t)m->model_count;
	int failed = conversation_make(model, "default", m->uid, m->gid, NULL, e);
	/* All other sessions copy their params from sessions/default. */
	for (size_t i = 0; i < m->param_count && !failed; i++) {
		const struct param_given *given = &m->params[i];
		struct err why;
		failed = session_param_set(model->sessions[0]->session, given->param, given->value,
					   strlen(given->value), &why);
		if (failed)
			err_set(e, -failed, "-o %s=%s: %s", params_name(given->param), given->value,
				why.text);
	}
	if (failed)
		return failed;
	m->models[m->model_count++] = model;
	kept_load(model, models_param_is_given);
	return 0;
}

int models_take(struct mount *m, struct found_model *f, const char *name, struct err *e)
{
	struct mounted *model = calloc(1, sizeof *model);
	if (!model) {
		err_set(e, ENOMEM, "no memory for %s", f->path);
		models_drop(f);
		return -ENOMEM;
	}
	char *own = f->name;
	model->mount = m;
	model->model = f->model;
	model->path = f->path;
	model->config = f->config;
	model->config_length = f->config_length;
	model->examples = f->examples;
	model->config_time = f->config_time;
	*f = (struct found_model){0};
	list_init(&model->asks);
	list_init(&model->nameless);
	list_init(&model->writing);
	pollers_trace_init(model);
	/* NAME, or NAME-2, NAME-3 … if NAME is taken. */
	const char *wanted = name ? name : own ? own : model_name(model->model);
	const int size = sizeof model->name;
	(void)snprintf(model->name, size, "%s", wanted);
	for (unsigned n = 2; models_name_is_taken(m, model->name); n++)
		(void)snprintf(model->name, size, "%.*s-%u", size - 12, wanted, n);
	free(own);
	int failed = models_enter(m, model, e);
	if (failed)
		models_free(model);
	return failed;
}

/* ---- closing ---- */

void models_free(struct mounted *model)
{
	while (!list_empty(&model->asks))
		asks_remove(LINK_OWNER(model->asks.next, struct conversation, in_asks));
	while (model->session_count)
		conversation_remove(model->sessions[model->session_count - 1]);
	post_cancel(model->mount->posts, &model->traced);
	kept_unload(model);
	model_close(model->model);
	free(model->sessions);
	free(model->named);
	free(model->config);
	free(model->examples);
	free(model->path);
	free(model);
}

void models_close(struct mount *m)
{
	for (struct mounted *x; (x = mount_next_model(m, NULL));) {
		m->models[x->index] = NULL;
		models_free(x);
	}
}

bool models_unused(const struct mounted *model)
{
	enum model_state state = model_state(model->model);
	const struct conversation *c = model->sessions[0];
	if ((state != MODEL_UNLOADED && state != MODEL_FAILED) || model->session_count > 1 ||
	    !list_empty(&model->asks) || c->references > 1 || session_working(c->session) ||
	    session_log_size(c->session))
		return false;
	for (struct link *l = model->mount->handles.next; l != &model->mount->handles; l = l->next)
		if (LINK_OWNER(l, struct handle, all)->node.model == model)
			return false;
	return true;
}

static void models_leave_work(struct job *job)
{
	struct mounted *model = LINK_OWNER(job, struct mounted, leaving);
	model_close(model->model);
	model->model = NULL;
}

static void models_leave_finish(struct job *job)
{
	models_free(LINK_OWNER(job, struct mounted, leaving));
}

/* The model is closed after all jobs that workers have now: a job may be using the model for a
 * request that looked up a name and opened nothing. Everything is closed: a thread, a tokenizer,
 * and open files, which would otherwise keep disk space of deleted files. When models come and go
 * for a long time, each piece left behind would keep a page. */
void models_leave(struct mounted *model)
{
	model->mount->models[model->index] = NULL;
	while (model->session_count)
		conversation_remove(model->sessions[model->session_count - 1]);
	model->leaving = (struct job){
		.slow = true, .work = models_leave_work, .finish = models_leave_finish};
	workers_run_after(model->mount->workers, &model->leaving);
}

/* ---- failures ---- */

/* A kind of failure of a model: the words before the reason. */
struct trouble {
	const char *words;
	void (*reason)(const struct model *m, struct err *why);
};

static const struct trouble *models_trouble(const struct model *m)
{
	static const struct trouble load = {"", model_failure},
				    convert = {"the conversion has stopped; it continues after a "
					       "prompt or at the next mount, when the cause is "
					       "gone: ",
					       model_failure},
				    refine = {
					    "refining has stopped; it continues in a later pause, "
					    "when the cause is gone, and the present store is used "
					    "meanwhile: ",
					    model_refining_failure};
	struct model_progress progress;
	char why[sizeof((struct err *)0)->text];
	model_progress(m, &progress);
	model_refining_error(m, why, sizeof why);
	if (model_state(m) == MODEL_FAILED)
		return &load;
	if (!strcmp(progress.doing, "stopped"))
		return &convert;
	return *why ? &refine : NULL;
}

static void models_watch_gpu(struct mount *m)
{
	struct err e, why;
	if (m->gpu_told)
		return;
	engine_gpu_failure(m->engine, &why);
	if (!why.code)
		return;
	err_because(&e, &why, why.code,
		    "the GPU is off until the next mount, and the CPU computes: %s", why.text);
	failure_of_mount(m, &e);
	m->gpu_told = true;
}

bool models_watch(struct mount *m)
{
	bool loading = false;
	models_watch_gpu(m);
	for (struct mounted *model = NULL; (model = mount_next_model(m, model));) {
		const struct trouble *t = models_trouble(model->model);
		struct err e, why;
		loading |= model_state(model->model) == MODEL_LOADING;
		if (!t) {
			model->failure_told = false;
			continue;
		}
		t->reason(model->model, &why);
		if (model->failure_told || !*why.text) /* told, or the reason is not known yet */
			continue;
		err_because(&e, &why, EIO, "%s: %s%s", model->name, t->words, why.text);
		failure_of_mount(m, &e);
		model->failure_told = true;
	}
	return loading;
}

/* ---- progress ---- */

void models_progress_words(const struct model *m, char *words, size_t size)
{
	uint32_t done, total;
	if (model_fact(m, FACT_PROGRESS, words, size))
		*words = 0;
	if (strcmp(words, "idle") != 0)
		return;
	model_warming(m, &done, &total);
	if (total)
		(void)snprintf(words, size, "warming %u %% %u/%u experts",
			       (unsigned)(100 * (uint64_t)done / total), done, total);
}

static bool models_print_progress(const struct model *m, const char *name, char *line, size_t size)
{
	enum { BAR = 24 }; /* characters of the bar */
	char bar[BAR + 1] = "", words[256];
	struct model_progress p;
	model_progress(m, &p);
	uint64_t done = p.done, total = p.total;
	if (!total) { /* warming comes after a conversion, which begins when experts are first
			 needed */
		uint32_t warm, all;
		model_warming(m, &warm, &all);
		done = warm;
		total = all;
	}
	if (!total)
		return false;
	double share = done < total ? (double)done / (double)total : 1;
	for (int i = 0; i < BAR; i++)
		bar[i] = i < (int)(share * BAR) ? '#' : '.';
	models_progress_words(m, words, sizeof words);
	(void)snprintf(line, size, "%s: [%s] %s", name, bar, words);
	return true;
}

bool models_progress_of(const struct model *m, char *line, size_t size)
{
	return models_print_progress(m, model_name(m), line, size);
}

bool models_progress_line(const struct mount *m, char *line, size_t size)
{
	const struct mounted *x = NULL;
	while ((x = mount_next_model(m, x)) &&
	       !models_print_progress(x->model, x->name, line, size))
		;
	return x;
}
