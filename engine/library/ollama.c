/* See ollama.h: a manifest, and the files that it names. ollama_params.c has what becomes of
 * params, ollama_forms.c the templates. */
#include "engine/library/ollama.h"

#include "cache/utf8.h"
#include "engine/json/json.h"
#include "engine/source/gguf.h"
#include "engine/source/source_file.h"
#include "engine/template/template.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MANIFEST_MOST = 1 << 20, /* bytes; published ones take about one KiB */
	LAYERS_MOST = 1024,
	TEXT_MOST = 1 << 20, /* of a system message or params */
	DIGITS = 64,	     /* of a SHA-256 */
};
static const char manifests[] = "manifests", blobs[] = "blobs", prefix[] = "sha256-";

/* ---- a manifest ---- */

/* What becomes of a layer: it is read as one of enum ollama_layer, or else as follows. */
enum { LAYER_CHANGES_NOTHING = OLLAMA_LAYERS, LAYER_MESSAGES, LAYER_REFUSED };
static const struct ollama_media {
	const char *type;
	int as;
	const char *why; /* of one that is refused */
} media[] = {
	{"model", OLLAMA_WEIGHTS, NULL},
	{"template", OLLAMA_TEMPLATE, NULL},
	{"prompt", OLLAMA_TEMPLATE, NULL}, /* what ollama called it before 0.1.24 */
	{"system", OLLAMA_SYSTEM, NULL},
	{"params", OLLAMA_PARAMS, NULL},
	{"messages", LAYER_MESSAGES, NULL},
	{"license", LAYER_CHANGES_NOTHING, NULL},
	{"projector", LAYER_CHANGES_NOTHING, NULL}, /* images; texts do without */
	{"adapter", LAYER_REFUSED, "it has an adapter, which is not supported"},
	{"tensor", LAYER_REFUSED, "its weights are in a file per tensor, not in a GGUF file"},
};

/* The row of a media type "application/vnd.ollama.image.TYPE", perhaps with parameters behind. */
static const struct ollama_media *ollama_media_of(const char *type)
{
	static const char beginning[] = "application/vnd.ollama.image.";
	size_t begin = sizeof beginning - 1;
	if (strncmp(type, beginning, begin) != 0)
		return NULL;
	size_t n = strcspn(type + begin, "; ");
	for (size_t i = 0; i < sizeof media / sizeof *media; i++)
		if (strlen(media[i].type) == n && !strncmp(media[i].type, type + begin, n))
			return &media[i];
	return NULL;
}

/* "sha256:HEX" as the name of a file. */
static int ollama_read_digest(char out[OLLAMA_DIGEST], const struct json *layer, const char *name,
			      struct err *e)
{
	const char *digest;
	int failed = json_get_string(layer, "digest", name, &digest, e);
	if (failed)
		return failed;
	const char *hex = digest + sizeof prefix - 1;
	if (strncmp(digest, "sha256:", sizeof prefix - 1) != 0 || strlen(hex) != DIGITS ||
	    strspn(hex, "0123456789abcdef") != DIGITS)
		return json_wrong(json_find(layer, "digest"), "digest", name,
				  "sha256: and 64 hexadecimal digits", e);
	(void)snprintf(out, OLLAMA_DIGEST, "%s%s", prefix, hex);
	return 0;
}

static int ollama_read_layer(struct ollama_manifest *m, const struct json *layer, const char *name,
			     struct err *e)
{
	const char *type;
	int failed = json_get_string(layer, "mediaType", name, &type, e);
	if (failed)
		return failed;
	const struct ollama_media *known = ollama_media_of(type);
	if (!known)
		return err_set(e, ENOTSUP, "%s: the layer \"%.100s\" is not known", name, type);
	if (known->as == LAYER_REFUSED)
		return err_set(e, ENOTSUP, "%s: %s", name, known->why);
	m->messages |= known->as == LAYER_MESSAGES;
	if (known->as >= OLLAMA_LAYERS)
		return 0;
	if (*m->file[known->as])
		return err_set(e, ENOTSUP, "%s: it has two layers \"%s\"", name, known->type);
	return ollama_read_digest(m->file[known->as], layer, name, e);
}

static int ollama_read_layers(struct ollama_manifest *m, const struct json *json, const char *name,
			      struct err *e)
{
	const struct json *layers;
	int failed = json_get_list(json, "layers", name, &layers, e);
	if (!failed && json_count(layers) > LAYERS_MOST)
		failed = err_set(e, EINVAL, "%s: %zu layers; at most %d are allowed", name,
				 json_count(layers), LAYERS_MOST);
	for (const struct json *v = NULL; !failed && (v = json_next(layers, v));)
		failed = ollama_read_layer(m, v, name, e);
	if (!failed && !*m->file[OLLAMA_WEIGHTS])
		failed = err_set(e, ENOTSUP,
				 "%s: it has no weights: ollama runs this model elsewhere", name);
	return failed;
}

int ollama_manifest_read(struct ollama_manifest *m, const char *text, size_t n, const char *name,
			 struct err *e)
{
	struct json *json;
	*m = (struct ollama_manifest){0};
	int failed = json_parse_text(&json, text, n, name, e);
	if (failed)
		return failed;
	failed = ollama_read_layers(m, json, name, e);
	json_free(json);
	return failed;
}

/* ---- paths ---- */

/* The parts of ROOT/manifests/HOST/NAMESPACE/MODEL/TAG, in a copy of the path. */
struct ollama_path {
	char *root, *model, *tag;
};

static char *ollama_cut_last(char *path)
{
	char *slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	return slash + 1;
}

static bool ollama_split(struct ollama_path *p, char *path)
{
	p->root = path;
	p->tag = ollama_cut_last(path);
	p->model = p->tag ? ollama_cut_last(path) : NULL;
	const char *above = p->model && ollama_cut_last(path) && ollama_cut_last(path)
				    ? ollama_cut_last(path)
				    : NULL;
	return above && !strcmp(above, manifests) && *p->model && *p->tag;
}

/* Before links are followed: a manifest may be one, its place counts. malloc'ed; NULL: there is no
 * such folder. */
static char *ollama_absolute(const char *given)
{
	const char *slash = strrchr(given, '/');
	char *folder = slash ? source_folder(given) : NULL, *out = NULL;
	char *real = folder ? realpath(folder, NULL) : NULL;
	if (real && asprintf(&out, "%s%s", real, slash) < 0)
		out = NULL;
	free(folder);
	free(real);
	return out;
}

static bool ollama_has_blobs(const char *root)
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s/%s", root, blobs) < (int)sizeof path &&
	       !access(path, F_OK);
}

bool ollama_is_manifest(const char *path)
{
	struct ollama_path p;
	if (!strstr(path, manifests) || !source_is_file(path))
		return false;
	char *own = ollama_absolute(path);
	bool is = own && ollama_split(&p, own) && ollama_has_blobs(p.root);
	free(own);
	return is;
}

bool ollama_is_blob(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t folder = sizeof blobs; /* and its slash */
	return name && (size_t)(name - path) >= folder && name[-(long)folder] == '/' &&
	       !strncmp(name + 1 - folder, blobs, folder - 1) &&
	       !strncmp(name + 1, prefix, sizeof prefix - 1) &&
	       strspn(name + sizeof prefix, "0123456789abcdef") == DIGITS &&
	       strlen(name + sizeof prefix) == DIGITS;
}

/* ---- opening ---- */

struct ollama_opening {
	struct ollama_model *model;
	struct ollama_manifest manifest;
	const char *root, *path; /* of the folder, of the manifest */
	struct err *e;
};

/* The path of a layer's file, malloc'ed. */
static char *ollama_layer_path(const struct ollama_opening *o, enum ollama_layer layer)
{
	char *path;
	int n = asprintf(&path, "%s/%s/%s", o->root, blobs, o->manifest.file[layer]);
	if (n >= 0)
		return path;
	err_set(o->e, ENOMEM, "%s: out of memory for a path", o->path);
	return NULL;
}

/* A layer as UTF-8 text without NULs, malloc'ed; *out stays NULL where there is none. */
static int ollama_read_text(const struct ollama_opening *o, enum ollama_layer layer, size_t most,
			    char **out)
{
	size_t n;
	if (!*o->manifest.file[layer])
		return 0;
	char *path = ollama_layer_path(o, layer);
	if (!path)
		return -ENOMEM;
	int failed = json_read_file(out, &n, path, most, o->e);
	struct err why;
	if (!failed && (utf8_check(*out, n, &why) || strlen(*out) != n))
		failed = err_set(o->e, EINVAL, "%s: must be UTF-8 text without NULs", path);
	free(path);
	return failed;
}

static int ollama_find_weights(struct ollama_opening *o)
{
	struct ollama_model *m = o->model;
	m->weights = ollama_layer_path(o, OLLAMA_WEIGHTS);
	if (!m->weights)
		return -ENOMEM;
	if (access(m->weights, R_OK))
		return err_sys(o->e, errno, "%s: its weights, %s, cannot be read", o->path,
			       m->weights);
	if (!gguf_is(m->weights))
		return err_set(o->e, EINVAL, "%s: its weights, %s, are not a GGUF file", o->path,
			       m->weights);
	return 0;
}

static int ollama_read_system(struct ollama_opening *o)
{
	int failed = ollama_read_text(o, OLLAMA_SYSTEM, TEXT_MOST, &o->model->system);
	size_t n = failed || !o->model->system ? 0 : strlen(o->model->system);
	if (n && o->model->system[n - 1] == '\n')
		o->model->system[n - 1] = 0;
	return failed;
}

static int ollama_read_params(struct ollama_opening *o)
{
	char *text = NULL;
	int failed = ollama_read_text(o, OLLAMA_PARAMS, TEXT_MOST, &text);
	if (!failed && text)
		failed = json_parse_text(&o->model->params, text, strlen(text), o->path, o->e);
	if (!failed && text)
		failed = ollama_stops(&o->model->stop, o->model->params, o->path, o->e);
	free(text);
	return failed;
}

static int ollama_refuse_template(const struct ollama_opening *o)
{
	return err_set(o->e, ENOTSUP,
		       "%s: the GGUF file has no chat template, and ollama's (%s/%s/%s) is of no "
		       "known form: give one with -o template=",
		       o->path, o->root, blobs, o->manifest.file[OLLAMA_TEMPLATE]);
}

/* The GGUF file's own template counts; whether it has one is looked up only where that decides. */
static int ollama_read_template(struct ollama_opening *o)
{
	char *text = NULL;
	struct gguf *g;
	int failed = ollama_read_text(o, OLLAMA_TEMPLATE, TEMPLATE_BYTES_MAX, &text);
	if (failed || !text)
		return failed;
	o->model->form = ollama_form_of(text);
	free(text);
	if (o->model->form)
		return 0;
	failed = gguf_open(&g, o->model->weights, 0, o->e);
	if (failed)
		return failed;
	if (!gguf_has(g, "tokenizer.chat_template"))
		failed = ollama_refuse_template(o);
	gguf_close(g);
	return failed;
}

static int ollama_read_manifest(struct ollama_opening *o)
{
	char *text;
	size_t n;
	int failed = json_read_file(&text, &n, o->path, MANIFEST_MOST, o->e);
	if (failed)
		return failed;
	failed = ollama_manifest_read(&o->manifest, text, n, o->path, o->e);
	free(text);
	o->model->messages = o->manifest.messages;
	return failed;
}

static int ollama_name(struct ollama_opening *o, const struct ollama_path *p)
{
	bool latest = !strcmp(p->tag, "latest");
	if (asprintf(&o->model->name, "%s%s%s", p->model, latest ? "" : ":",
		     latest ? "" : p->tag) >= 0)
		return 0;
	o->model->name = NULL;
	return err_set(o->e, ENOMEM, "%s: out of memory for its name", o->path);
}

static int ollama_read_all(struct ollama_opening *o, const struct ollama_path *p)
{
	int failed = ollama_name(o, p);
	if (!failed)
		failed = ollama_read_manifest(o);
	if (!failed)
		failed = ollama_find_weights(o);
	if (!failed)
		failed = ollama_read_system(o);
	if (!failed)
		failed = ollama_read_params(o);
	return failed ? failed : ollama_read_template(o);
}

int ollama_open(struct ollama_model **out, const char *manifest, struct err *e)
{
	struct ollama_path p;
	char *own = ollama_absolute(manifest);
	struct ollama_opening o = {.model = calloc(1, sizeof *o.model), .path = manifest, .e = e};
	int failed = !own || !o.model ? err_set(e, ENOMEM, "%s: out of memory for it", manifest)
		     : !ollama_split(&p, own)
			     ? err_set(e, EINVAL, "%s: is not in a manifests folder", manifest)
			     : 0;
	if (!failed) {
		o.root = p.root;
		failed = ollama_read_all(&o, &p);
	}
	free(own);
	if (failed)
		ollama_close(o.model);
	else
		*out = o.model;
	return failed;
}

void ollama_close(struct ollama_model *m)
{
	if (!m)
		return;
	free(m->name);
	free(m->weights);
	free(m->system);
	free(m->stop);
	json_free(m->params);
	free(m);
}
