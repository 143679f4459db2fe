/* Makes a tokenizer from a GGUF file's keys tokenizer.ggml.*, and opens its chat template. */
#include "engine/family/source_text.h"

#include "engine/source/gguf.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_gguf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* Reads the parts of a tokenizer and owns their memory. Keeps its first error; after an error
 * nothing more is read. */
struct source_reader {
	const struct gguf *g;
	const char *name; /* of the file, for messages */
	struct err *e;
	int failed; /* a negative errno, as in e; 0: none so far */
	struct tokenizer_gguf parts;
	char *model, *pre;
	struct tokenizer_gguf_text *tokens, *merges;
	int32_t *kinds;
	float *scores;
};

/* Allocates memory for count + 1 items. */
static void *source_allocate(struct source_reader *r, size_t count, size_t bytes)
{
	void *items = r->failed ? NULL : calloc(count + 1, bytes);
	if (!items && !r->failed)
		r->failed = err_set(r->e, ENOMEM, "%s: out of memory for its vocabulary", r->name);
	return items;
}

/* Reads a name as a NUL-terminated string; NULL: no such key. A string that contains a NUL is not a
 * name. */
static char *source_read_name(struct source_reader *r, const char *key)
{
	const char *text;
	size_t n;
	if (r->failed || !gguf_has(r->g, key))
		return NULL;
	r->failed = gguf_get_string(r->g, key, r->name, &text, &n, r->e);
	char *name = source_allocate(r, r->failed ? 0 : n, 1);
	return name ? memcpy(name, text, n) : NULL;
}

static struct tokenizer_gguf_text *source_read_texts(struct source_reader *r, const char *key,
						     size_t *count)
{
	const struct gguf_value *v = NULL;
	if (!r->failed)
		r->failed = gguf_get_array(r->g, key, r->name, GGUF_STRING, &v, r->e);
	/* Each takes eight bytes of the file. */
	struct tokenizer_gguf_text text,
		*texts = source_allocate(r, r->failed ? 0 : v->count, sizeof *texts);
	for (size_t at = 0;
	     texts && *count < v->count && gguf_next_string(v, &at, &text.bytes, &text.length);)
		texts[(*count)++] = text;
	return texts;
}

/* Finds an array with a number for each token; NULL: no such key. */
static const struct gguf_value *source_numbers(struct source_reader *r, const char *key)
{
	const struct gguf_value *v = r->failed ? NULL : gguf_find(r->g, key);
	size_t count = r->parts.token_count;
	if (!v || (v->kind == GGUF_ARRAY && v->element != GGUF_STRING && v->count >= count))
		return v;
	r->failed = err_set(r->e, EINVAL, "%s: %s must have a number for each of the %zu tokens",
			    r->name, key, count);
	return NULL;
}

static void source_read_kinds(struct source_reader *r)
{
	const struct gguf_value *v = source_numbers(r, KEY("token_type"));
	uint64_t kind;
	if (!v)
		return;
	r->kinds = source_allocate(r, r->parts.token_count, sizeof *r->kinds);
	for (size_t i = 0; r->kinds && i < r->parts.token_count; i++)
		r->kinds[i] = gguf_uint(v, i, &kind) && kind <= KIND_BYTE ? (int32_t)kind
									  : KIND_UNDEFINED;
}

static void source_read_scores(struct source_reader *r)
{
	const struct gguf_value *v = source_numbers(r, KEY("scores"));
	double score;
	if (!v)
		return;
	r->scores = source_allocate(r, r->parts.token_count, sizeof *r->scores);
	for (size_t i = 0; r->scores && i < r->parts.token_count; i++)
		r->scores[i] = gguf_double(v, i, &score) ? (float)score : NAN;
}

/* -1: none. */
static int64_t source_read_id(struct source_reader *r, const char *key)
{
	uint64_t id = UINT32_MAX; /* some files use this for "none" */
	if (!r->failed && gguf_has(r->g, key))
		r->failed = gguf_get_uint(r->g, key, r->name, 0, UINT32_MAX, &id, r->e);
	return id == UINT32_MAX ? -1 : (int64_t)id;
}

static int source_read_said(struct source_reader *r, const char *key)
{
	bool yes = false;
	if (r->failed || !gguf_has(r->g, key))
		return NOT_SAID;
	r->failed = gguf_get_bool(r->g, key, r->name, &yes, r->e);
	return yes ? SAID_YES : SAID_NO;
}

static void source_read_parts(struct source_reader *r)
{
	static const char *const ends[MARKED_ENDS] = {KEY("eot_token_id"), KEY("eom_token_id")};
	struct tokenizer_gguf *p = &r->parts;
	p->name = r->name;
	if (!gguf_has(r->g, KEY("tokens"))) {
		r->failed = err_set(r->e, ENOENT,
				    "%s: it has no vocabulary (tokenizer.ggml.tokens)", r->name);
		return;
	}
	p->model = r->model = source_read_name(r, KEY("model"));
	p->pre = r->pre = source_read_name(r, KEY("pre"));
	p->tokens = r->tokens = source_read_texts(r, KEY("tokens"), &p->token_count);
	source_read_kinds(r);
	p->kinds = r->kinds;
	source_read_scores(r);
	p->scores = r->scores;
	if (gguf_has(r->g, KEY("merges")))
		r->merges = source_read_texts(r, KEY("merges"), &p->merge_count);
	p->merges = r->merges;
	p->bos = source_read_id(r, KEY("bos_token_id"));
	p->eos = source_read_id(r, KEY("eos_token_id"));
	for (int i = 0; i < MARKED_ENDS; i++)
		p->ends[i] = ends[i] ? source_read_id(r, ends[i]) : -1;
	p->add_bos = source_read_said(r, KEY("add_bos_token"));
	p->add_eos = source_read_said(r, KEY("add_eos_token"));
	p->space_prefix = source_read_said(r, KEY("add_space_prefix"));
}

int source_tokenizer_open_gguf(struct tokenizer **out, const struct gguf *g, const char *name,
			       struct err *e)
{
	struct source_reader r = {.g = g, .name = name, .e = e};
	source_read_parts(&r);
	if (!r.failed)
		r.failed = tokenizer_open_gguf(out, &r.parts, e);
	free(r.model);
	free(r.pre);
	free(r.tokens);
	free(r.merges);
	free(r.kinds);
	free(r.scores);
	return r.failed;
}

int source_tokenizer_open(struct tokenizer **out, const char *path, struct err *e)
{
	struct gguf *g;
	if (!gguf_is(path))
		return tokenizer_open(out, path, e);
	int rc = gguf_open(&g, path, 0, e);
	if (rc < 0)
		return rc;
	rc = source_tokenizer_open_gguf(out, g, path, e);
	gguf_close(g);
	return rc;
}

/* ---- the chat template ---- */

#define TEMPLATE_KEY "tokenizer.chat_template"

/* Reads a template as a NUL-terminated string; NULL: no such key. */
static int source_read_template(const struct gguf *g, const char *key, const char *name, char **out,
				struct err *e)
{
	const char *text;
	size_t n;
	*out = NULL;
	if (!gguf_has(g, key))
		return 0;
	int rc = gguf_get_string(g, key, name, &text, &n, e);
	if (rc < 0)
		return rc;
	if (n > TEMPLATE_BYTES_MAX || memchr(text, 0, n))
		return err_set(e, EINVAL, "%s: %s must be a text without NULs of at most %d bytes",
			       name, key, TEMPLATE_BYTES_MAX);
	*out = strndup(text, n);
	return *out ? 0 : err_set(e, ENOMEM, "%s: out of memory for its chat template", name);
}

int source_template_open(struct chat_template **out, const char *path,
			 const struct source_template *instead, const struct tokenizer *t,
			 struct err *e)
{
	struct gguf *g;
	char *plain = NULL, *with_tools = NULL;
	if (!gguf_is(path))
		return chat_template_open(out, path, t, e);
	int rc = gguf_open(&g, path, 0, e);
	if (rc < 0)
		return rc;
	rc = source_read_template(g, TEMPLATE_KEY, path, &plain, e);
	if (rc == 0)
		rc = source_read_template(g, TEMPLATE_KEY ".tool_use", path, &with_tools, e);
	if (rc == 0 && instead && !plain && !with_tools)
		rc = chat_template_open_text(out, instead->text, NULL, instead->origin, t, e);
	else if (rc == 0)
		rc = chat_template_open_text(out, plain, with_tools, "GGUF " TEMPLATE_KEY, t, e);
	gguf_close(g);
	free(plain);
	free(with_tools);
	return rc;
}
