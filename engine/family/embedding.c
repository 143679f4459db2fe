#include "engine/family/embedding.h"

#include "engine/json/json.h"
#include "engine/source/package.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBEDDING_FILE = 1 << 20 };

/* Opens a file of the folder; *out NULL: there is no such file. */
static int embedding_open(struct json **out, const char *directory, const char *file, struct err *e)
{
	char path[4096], *text;
	size_t n;
	*out = NULL;
	if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path)
		return err_set(e, ENAMETOOLONG, "%.64s…: the path is too long", directory);
	int failed = json_read_file(&text, &n, path, EMBEDDING_FILE, e);
	if (failed)
		return failed == -ENOENT ? 0 : failed;
	failed = json_parse_text(out, text, n, path, e);
	free(text);
	return failed;
}

/* ---- pooling ---- */

static const struct {
	const char *key, *mode; /* in older files; in newer files */
	enum pooling pooling;
	bool known;
} poolings[] = {
	{"pooling_mode_cls_token", "cls", POOL_FIRST, true},
	{"pooling_mode_mean_tokens", "mean", POOL_MEAN, true},
	{"pooling_mode_lasttoken", "lasttoken", POOL_LAST, true},
	{"pooling_mode_max_tokens", "max", POOL_MEAN, false},
	{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", POOL_MEAN, false},
	{"pooling_mode_weightedmean_tokens", "weightedmean", POOL_MEAN, false},
};

static void embedding_refuse(struct embedding *x, const char *file, const char *what,
			     const char *name)
{
	err_set(&x->refused, ENOTSUP, "%s: %s \"%s\" is not supported", file, what, name);
}

static bool embedding_is_true(const struct json *object, const char *key)
{
	struct err ignored;
	bool is = false;
	return !json_get_bool_or(object, key, "", false, &is, &ignored) && is;
}

/* Reads "pooling_mode" of newer files, a name. False: no such key. */
static bool embedding_take_mode(struct embedding *x, const struct json *config, const char *file)
{
	size_t n;
	const char *mode = json_bytes(json_find(config, "pooling_mode"), &n);
	if (!n)
		return false;
	for (size_t i = 0; i < sizeof poolings / sizeof *poolings; i++)
		if (poolings[i].known && !strcmp(poolings[i].mode, mode)) {
			x->pooling = poolings[i].pooling;
			return true;
		}
	embedding_refuse(x, file, "pooling", mode);
	return true;
}

static void embedding_take_pooling(struct embedding *x, const struct json *config, const char *file)
{
	unsigned modes = 0;
	if (embedding_take_mode(x, config, file))
		return;
	for (size_t i = 0; i < sizeof poolings / sizeof *poolings; i++) {
		if (!embedding_is_true(config, poolings[i].key))
			continue;
		x->pooling = poolings[i].pooling;
		if (!poolings[i].known)
			embedding_refuse(x, file, "pooling", poolings[i].key);
		if (modes++)
			err_set(&x->refused, ENOTSUP, "%s: more than one pooling is not supported",
				file);
	}
	if (!modes)
		err_set(&x->refused, ENOTSUP, "%s: it names no pooling that is known", file);
}

/* ---- modules.json ---- */

/* The last word of "sentence_transformers.models.Pooling". */
static const char *embedding_module_name(const struct json *module)
{
	size_t n;
	const char *type = json_bytes(json_find(module, "type"), &n), *dot = strrchr(type, '.');
	return dot ? dot + 1 : type;
}

static int embedding_read_pooling(struct embedding *x, const char *directory,
				  const struct json *module, struct err *e)
{
	struct json *config;
	char file[256];
	size_t n;
	const char *path = json_bytes(json_find(module, "path"), &n);
	if (!n || strstr(path, "..") || *path == '/')
		path = "1_Pooling";
	(void)snprintf(file, sizeof file, "%.200s/config.json", path);
	int failed = embedding_open(&config, directory, file, e);
	if (failed)
		return failed;
	if (config)
		embedding_take_pooling(x, config, file);
	else
		err_set(&x->refused, ENOENT, "%s is missing", file);
	json_free(config);
	return 0;
}

static int embedding_take_modules(struct embedding *x, const char *directory,
				  const struct json *modules, struct err *e)
{
	int failed = 0;
	bool pools = false;
	x->from = "modules.json";
	for (const struct json *v = NULL; !failed && (v = json_next(modules, v));) {
		const char *name = embedding_module_name(v);
		if (!strcmp(name, "Pooling")) {
			failed = embedding_read_pooling(x, directory, v, e);
			pools = true;
		} else if (!strcmp(name, "Normalize")) {
			x->normalised = true;
		} else if (strcmp(name, "Transformer") != 0) {
			embedding_refuse(x, "modules.json", "the module", name);
		}
	}
	if (!pools && !x->refused.code)
		err_set(&x->refused, ENOTSUP, "modules.json: it has no Pooling");
	return failed;
}

/* Reads the default prompt. */
static int embedding_read_prompt(struct embedding *x, const char *directory, struct err *e)
{
	struct json *config;
	size_t n;
	int failed = embedding_open(&config, directory, "config_sentence_transformers.json", e);
	if (failed || !config)
		return failed;
	const char *name = json_bytes(json_find(config, "default_prompt_name"), &n);
	const char *prompt =
		n ? json_bytes(json_find(json_find(config, "prompts"), name), &n) : "";
	if (strlen(prompt) >= sizeof x->prompt)
		err_set(&x->refused, ENOTSUP,
			"config_sentence_transformers.json: its prompt has more than %zu bytes",
			sizeof x->prompt - 1);
	(void)snprintf(x->prompt, sizeof x->prompt, "%s", prompt);
	json_free(config);
	return 0;
}

static int embedding_look_for_head(struct embedding *x, const char *directory, struct err *e)
{
	struct package *weights;
	int failed = package_open(&weights, directory, e);
	if (failed)
		return failed;
	x->headless = !package_find(weights, "lm_head.weight");
	package_close(weights);
	return 0;
}

int embedding_read(struct embedding *x, const char *directory, struct err *e)
{
	struct json *modules;
	int failed = embedding_open(&modules, directory, "modules.json", e);
	if (failed || !modules)
		return failed;
	failed = embedding_take_modules(x, directory, modules, e);
	json_free(modules);
	if (!failed)
		failed = embedding_look_for_head(x, directory, e);
	return failed ? failed : embedding_read_prompt(x, directory, e);
}

/* ---- GGUF ---- */

void embedding_take_gguf(struct embedding *x, unsigned type)
{
	enum { NONE, MEAN, CLS, LAST };
	static const enum pooling known[] = {[MEAN] = POOL_MEAN, [CLS] = POOL_FIRST,
					     [LAST] = POOL_LAST};
	if (type == NONE)
		return;
	x->from = "pooling_type";
	x->normalised = true;
	if (type <= LAST)
		x->pooling = known[type];
	else
		err_set(&x->refused, ENOTSUP, "pooling_type %u%s is not supported", type,
			type == LAST + 1 ? " (of a reranker)" : "");
}

/* ---- words ---- */

void embedding_print(const struct embedding *x, char *text, size_t size)
{
	static const char *const words[] = {[POOL_MEAN] = "mean of the tokens",
					    [POOL_FIRST] = "first token",
					    [POOL_LAST] = "last token"};
	if (x->refused.code)
		(void)snprintf(text, size, "not possible: %s", x->refused.text);
	else
		(void)snprintf(text, size, "%s%s (%s)", words[x->pooling],
			       x->normalised ? ", normalised" : "",
			       x->from ? x->from : "the checkpoint says nothing of embeddings");
}
