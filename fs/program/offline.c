/* See offline.h. */
#include "fs/program/offline.h"
#include "cache/store_inspect.h"
#include "cache/utf8.h"
#include "fs/models/models.h"
#include "fs/models/scan.h"
#include "fs/mount/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- moefs --check ---- */

struct offline_checking {
	struct engine *engine;
	struct text *tables, *wrong;
	size_t models; /* number found at the present path */
};

static void offline_check_model(struct offline_checking *c, const char *path)
{
	struct err why = {0};
	char *text;
	size_t length;
	int failed = model_check(c->engine, path, &text, &length, &why);
	if (c->tables->length)
		text_string(c->tables, "\n");
	if (text)
		text_add(c->tables, text, length);
	if (failed)
		text_format(c->wrong, "%s\n", why.text);
	free(text);
	c->models++;
}

static void offline_check_inside(void *ctx, const char *path, const char *name)
{
	struct err why;
	(void)name;
	if (model_locate(path, &why) != -ENOENT)
		offline_check_model(ctx, path);
}

int offline_check(const struct options *o, struct text *tables, struct text *wrong, struct err *e)
{
	struct offline_checking c = {.tables = tables, .wrong = wrong};
	int failed = engine_create(&c.engine, &o->engine, e);
	if (failed)
		return failed;
	for (size_t i = 0; i < o->model_count; i++) {
		struct err ignored;
		c.models = 0;
		/* A folder that is not a model may have models in it. */
		if (model_locate(o->models[i], &ignored))
			(void)scan_folder(o->models[i], offline_check_inside, &c, &ignored);
		if (!c.models)
			offline_check_model(&c, o->models[i]);
	}
	engine_destroy(c.engine);
	return tables->failed || wrong->failed ? err_set(e, ENOMEM, "no memory for the tables") : 0;
}

/* ---- moefs -a ---- */

static void offline_list_one(struct text *table, const struct library_model *m)
{
	struct err why;
	const char *reason = m->why;
	if (!reason && model_glance(m->path, &why))
		reason = why.text;
	text_line(table, m->name ? m->name : "-");
	text_string(table, "\t");
	text_line(table, m->path);
	if (reason) {
		text_string(table, "\t");
		text_line(table, reason);
	}
	text_string(table, "\n");
}

int offline_list_others(struct text *table, struct err *e)
{
	struct library_list folders = {0}, models = {0};
	int failed = library_folders(&folders, e);
	for (size_t i = 0; i < folders.folder_count && !failed; i++)
		failed = library_look(&models, folders.folders[i], e);
	if (!failed)
		failed = library_name(&models, e);
	for (size_t i = 0; i < models.count && !failed; i++)
		offline_list_one(table, &models.models[i]);
	if (!failed && table->failed)
		failed = err_set(e, ENOMEM, "no memory for the list");
	if (!failed && !models.count)
		failed = err_set(e, ENOENT,
				 "no model of another program is here (ollama, LM Studio, "
				 "llama.cpp, a hub's cache)");
	library_free(&folders);
	library_free(&models);
	return failed;
}

/* ---- which stores are moefs' own ---- */

void offline_cache_folder(char path[PATH_MAX])
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (cache && *cache == '/')
		(void)snprintf(path, PATH_MAX, "%s/moefs", cache);
	else
		(void)snprintf(path, PATH_MAX, "%s/.cache/moefs", home ? home : "");
}

bool offline_store_is_own(const char *folder)
{
	static const char end[] = ".moefs";
	char real[PATH_MAX], cache[PATH_MAX], real_cache[PATH_MAX];
	if (!realpath(folder, real))
		return false;
	/* MODEL.moefs/RECIPE, where MODEL is not empty. */
	const char *slash = strrchr(real, '/'), *name = slash;
	while (name > real && name[-1] != '/')
		name--;
	if ((size_t)(slash - name) > sizeof end - 1 &&
	    !strncmp(slash - (sizeof end - 1), end, sizeof end - 1))
		return true;
	offline_cache_folder(cache);
	if (!realpath(cache, real_cache))
		return false;
	size_t length = strlen(real_cache);
	return !strncmp(real, real_cache, length) && real[length] == '/';
}

/* ---- moefs --refine: the text that a model reads ---- */

enum {
	TEXT_MOST = 64 << 20,	/* most bytes of a file */
	READ_TOKENS = 131072,	/* from a file: more tokens did not improve the store */
	WRITTEN_TOKENS = 32768, /* from a text that the model writes, one token at a time */
};

static int offline_read_file(int fd, const char *path, char **text, size_t *length, struct err *e)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL,
			       "--text %s is not a regular file; write the output of a pipe to a "
			       "file first",
			       path);
	if (st.st_size == 0)
		return err_set(e, EINVAL, "--text %s is empty", path);
	size_t size = st.st_size < TEXT_MOST ? (size_t)st.st_size : TEXT_MOST;
	*text = malloc(size);
	if (!*text)
		return err_set(e, ENOMEM, "--text %s: no memory for this text", path);
	for (*length = 0; *length < size;) {
		ssize_t n = read(fd, *text + *length, size - *length);
		if (n < 0)
			return err_sys(e, errno, "%s", path);
		if (n == 0)
			break;
		*length += (size_t)n;
	}
	if (st.st_size > TEXT_MOST && *length) /* the last character may be incomplete */
		*length = utf8_begin(*text, *length - 1);
	return 0;
}

static int offline_read_text(const char *path, char **text, size_t *length, struct err *e)
{
	/* Nonblocking, so that a pipe is refused, not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "--text %s", path);
	int failed = offline_read_file(fd, path, text, length, e);
	close(fd);
	return failed;
}

/* ---- moefs --refine and --loss: a model ---- */

struct offline_progress {
	const struct model *model;
	_Atomic bool over;
};

static void *offline_show_progress(void *ctx)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	const struct offline_progress *p = ctx;
	char line[512];
	while (!atomic_load(&p->over)) {
		if (models_progress_of(p->model, line, sizeof line))
			(void)fprintf(stderr, "\r%.100s\033[K", line);
		nanosleep(&pause, NULL);
	}
	(void)fputs("\r\033[K", stderr);
	return NULL;
}

/* Only the user deletes the old store, since it could be made again only from the checkpoint. */
static void offline_describe_refined(const struct model *m, const struct model_refining *r,
				     struct text *sentence)
{
	struct store_seen seen;
	char store[4096];
	text_format(sentence, "%s is refined; the next mount uses the refined store",
		    model_name(m));
	if (!model_fact(m, FACT_STORE, store, sizeof store) && !store_inspect(store, &seen, NULL) &&
	    (r->quant || store_superseded(store, &seen))) {
		text_string(sentence, r->quant ? ". Another store read the text; if you do not use "
						 "it, free its space"
					       : ". To free the space of the other one");
		text_string(sentence, ": `moefs stores --delete ");
		text_string(sentence, offline_store_is_own(store) ? "" : "--anywhere ");
		text_word(sentence, store);
		text_string(sentence, "`");
	}
	text_add(sentence, "", 1);
}

static int offline_describe_loss(const struct model *m, struct text *sentence, struct err *e)
{
	char facts[256];
	int failed = model_fact(m, FACT_LOSS, facts, sizeof facts);
	if (failed)
		return err_set(e, -failed, "%s: its loss is too long to print", model_name(m));
	for (char *line = facts; (line = strchr(line, '\n'));)
		*line = ' ';
	text_format(sentence, "%s: %s", model_name(m), facts);
	text_add(sentence, "", 1);
	return 0;
}

/* Refines a model, or if `r` is NULL measures its loss. Shows progress on a terminal. */
static int offline_work_on(struct model *m, const struct model_refining *r, struct text *sentence,
			   struct err *e)
{
	pthread_t thread;
	struct offline_progress p = {.model = m};
	bool shown =
		isatty(STDERR_FILENO) && !pthread_create(&thread, NULL, offline_show_progress, &p);
	int failed = r ? model_refine(m, r, e) : model_measure_loss(m, false, e);
	atomic_store(&p.over, true);
	if (shown)
		pthread_join(thread, NULL);
	if (!failed && r)
		offline_describe_refined(m, r, sentence);
	else if (!failed)
		failed = offline_describe_loss(m, sentence, e);
	return failed;
}

/* The model opened with the recipe `reader` reads and writes the text for a store by the recipe
 * `quant`. */
static int offline_refine_by(const struct engine_options *options, const char *path,
			     const char *reader, const struct model_refining *r,
			     struct text *sentence, struct err *e)
{
	struct engine_options own = *options;
	struct engine *g;
	struct model *m;
	own.quant = reader;
	int failed = engine_create(&g, &own, e);
	if (!failed)
		failed = model_open(&m, g, path, e);
	if (!failed) {
		failed = offline_work_on(m, r, sentence, e);
		model_close(m);
	}
	engine_destroy(g);
	return failed;
}

static int offline_work_on_model(const struct options *o, struct engine *g, const char *path,
				 const struct model_refining *r, struct text *sentence,
				 struct err *e)
{
	struct model_refining other = r ? *r : (struct model_refining){0};
	struct model *m;
	int failed = model_open(&m, g, path, e);
	if (failed)
		return failed;
	const char *reader = r ? model_refining_reader(m, &other.quant) : NULL;
	if (!reader)
		failed = offline_work_on(m, r, sentence, e);
	model_close(m);
	return reader ? offline_refine_by(&o->engine, path, reader, &other, sentence, e) : failed;
}

/* Works on one model after the other. A failure does not stop the others. */
static int offline_work_on_all(const struct options *o, struct engine *g,
			       const struct model_refining *r, offline_report *report)
{
	int worst = 0;
	for (size_t i = 0; i < o->model_count; i++) {
		struct text sentence = {0};
		struct err own = {0};
		int failed = offline_work_on_model(o, g, o->models[i], r, &sentence, &own);
		if (failed || sentence.data)
			report(failed ? own.text : sentence.data, failed);
		text_free(&sentence);
		worst = failed ? failed : worst;
	}
	return worst;
}

int offline_refine(const struct options *o, offline_report *report, struct err *e)
{
	struct engine *g = NULL;
	struct err why;
	char *text = NULL;
	struct model_refining r = {.tokens = o->text ? READ_TOKENS : WRITTEN_TOKENS};
	int failed = o->text ? offline_read_text(o->text, &text, &r.length, e) : 0;
	r.text = text;
	if (!failed && (failed = model_refining_check(&r, &why)))
		err_set(e, -failed, "--text %s: %s", o->text, why.text);
	if (!failed)
		failed = engine_create(&g, &o->engine, e);
	if (!failed)
		failed = offline_work_on_all(o, g, &r, report);
	engine_destroy(g);
	free(text);
	return failed;
}

int offline_loss(const struct options *o, offline_report *report, struct err *e)
{
	struct engine *g;
	int failed = engine_create(&g, &o->engine, e);
	if (failed)
		return failed;
	failed = offline_work_on_all(o, g, NULL, report);
	engine_destroy(g);
	return failed;
}
