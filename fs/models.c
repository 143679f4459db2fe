/* Which models are mounted: finding them, reading their config.json, naming their folders, and
 * noticing when one of them fails to load. */
#include "fs/mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads config.json once, at mount: what the file shows is what the model was made from. */
static int read_config(struct mounted *model, struct err *e)
{
	char path[4096 + 16];
	(void)snprintf(path, sizeof path, "%s/config.json", model_directory(model->model));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "cannot open %s", path);
	struct stat st;
	int code = fstat(fd, &st) ? err_sys(e, errno, "cannot look at %s", path) : 0;
	if (!code && (!S_ISREG(st.st_mode) || st.st_size > CONFIG_MAX_BYTES))
		code = err_set(e, EFBIG, "%s is not a file of at most %d MiB", path,
			       CONFIG_MAX_BYTES >> 20);
	if (!code && !(model->config = malloc((size_t)st.st_size + 1)))
		code = err_set(e, ENOMEM, "no memory for %s", path);
	while (!code && model->config_length < (size_t)st.st_size) {
		ssize_t n = read(fd, model->config + model->config_length,
				 (size_t)st.st_size - model->config_length);
		if (n < 0 && errno != EINTR)
			code = err_sys(e, errno, "cannot read %s", path);
		if (n == 0)
			break;
		model->config_length += n > 0 ? (size_t)n : 0;
	}
	if (!code)
		model->config_time = st.st_mtim;
	close(fd);
	return code;
}

static bool name_taken(const struct mount *m, const char *name)
{
	static const char *const ours[] = {"README", "version", "error", "ctl", "cache"};
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (strcmp(ours[i], name) == 0)
			return true;
	for (size_t i = 0; i < m->model_count; i++)
		if (strcmp(m->models[i]->name, name) == 0)
			return true;
	return false;
}

/* The directory's name; NAME-2, NAME-3 … where that is taken already. */
static void choose_name(const struct mount *m, const char *wanted, char *name, size_t size)
{
	(void)snprintf(name, size, "%s", wanted);
	for (unsigned n = 2; name_taken(m, name); n++)
		(void)snprintf(name, size, "%.*s-%u", (int)size - 12, wanted, n);
}

static void mounted_free(struct mounted *model)
{
	while (model->session_count)
		sessions_remove(model->sessions[model->session_count - 1]);
	if (model->model)
		model_close(model->model);
	free(model->sessions);
	free(model->config);
	free(model);
}

static int mounted_create(struct mount *m, const char *path, struct mounted **out, struct err *e)
{
	struct mounted *model = calloc(1, sizeof *model);
	if (!model)
		return err_set(e, ENOMEM, "no memory for %s", path);
	model->mount = m;
	model->index = (uint32_t)m->model_count;
	int code = model_open(&model->model, m->engine, path, e);
	if (!code)
		code = read_config(model, e);
	if (!code) {
		choose_name(m, model_name(model->model), model->name, sizeof model->name);
		code = sessions_make(model, "default", m->uid, m->gid, NULL, e);
	}
	if (code)
		mounted_free(model);
	else
		*out = model;
	return code;
}

static int add_one(struct mount *m, const char *path, bool load, struct err *e)
{
	if (m->model_count == MODELS_MAX)
		return err_set(e, ENOSPC, "%s: %d models are mounted already", path, MODELS_MAX);
	struct mounted **grown =
		reallocarray(m->models, m->model_count + 1, sizeof(struct mounted *));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for %s", path);
	m->models = grown;
	struct mounted *model = NULL;
	int code = mounted_create(m, path, &model, e);
	if (code)
		return code;
	m->models[m->model_count++] = model;
	if (load)
		model_load(model->model);
	return 0;
}

/* ---- what is no checkpoint ---- */

static bool ends_in(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n > k && !strcmp(name + n - k, ending);
}

static bool is_gguf(const char *path)
{
	char head[4];
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is = fd >= 0 && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
		  !memcmp(head, "GGUF", sizeof head);
	if (fd >= 0)
		close(fd);
	return is;
}

/* What a file is, and what to give instead. */
static int refuse_file(const char *path, struct err *e)
{
	if (is_gguf(path))
		return err_set(
			e, ENOTSUP,
			"%s is a GGUF file, which this version does not read: give the folder "
			"of a checkpoint (config.json, *.safetensors, tokenizer.json)",
			path);
	if (ends_in(path, ".safetensors"))
		return err_set(e, ENOTDIR,
			       "%s is one file of a checkpoint: give the folder that it is in",
			       path);
	return err_set(e, ENOTDIR,
		       "%s is a file: give the folder of a checkpoint (config.json, *.safetensors, "
		       "tokenizer.json)",
		       path);
}

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int is_weights(const struct dirent *d)
{
	return ends_in(d->d_name, ".safetensors") || ends_in(d->d_name, ".gguf");
}

/* Whether something without a config.json was meant to be a model, and then why it is none. */
static bool looks_like_a_model(const char *path, struct err *e)
{
	struct dirent **names;
	if (!is_folder(path)) {
		bool gguf = ends_in(path, ".gguf") && is_gguf(path);
		if (gguf)
			refuse_file(path, e);
		return gguf;
	}
	int n = scandir(path, &names, is_weights, alphasort);
	for (int i = 0; i < n; i++) {
		if (i == 0)
			err_set(e, ENOENT,
				"%s has %s and no config.json: is the download complete?", path,
				names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return n > 0;
}

/* ---- folders ---- */

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
	if (model_is_directory(path))
		return add_one(m, path, false, why) != 0;
	return looks_like_a_model(path, why);
}

static int add_folder(struct mount *m, const char *path, struct err *e)
{
	struct dirent **entries;
	int n = scandir(path, &entries, visible, alphasort);
	if (n < 0)
		return err_sys(e, errno, "cannot look into %s", path);
	size_t before = m->model_count;
	unsigned skipped = 0;
	for (int i = 0; i < n; i++) {
		char inside[4096 + NAME_SIZE];
		struct err why;
		(void)snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
		if (add_inside(m, inside, &why)) {
			skip(m, entries[i]->d_name, &why);
			skipped++;
		}
		free(entries[i]);
	}
	free(entries);
	if (m->model_count > before)
		return 0;
	if (skipped)
		return err_set(e, EINVAL, "%s: none of its models can be mounted", path);
	if (looks_like_a_model(path, e))
		return -e->code;
	return err_set(e, ENOENT,
		       "%s is no checkpoint and holds none: there is no config.json in it or in a "
		       "folder of it",
		       path);
}

int models_add(struct mount *m, const char *path, struct err *e)
{
	if (model_is_directory(path))
		return add_one(m, path, true, e);
	return is_folder(path) ? add_folder(m, path, e) : refuse_file(path, e);
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
