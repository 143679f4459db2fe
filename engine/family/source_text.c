/* From a GGUF file's keys tokenizer.ggml.* to the parts of a tokenizer, and its chat template. */
#include "engine/family/source_text.h"

#include "engine/source/gguf.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_gguf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* The parts of a tokenizer, and the memory that they refer to. */
struct source_tokenizer_parts {
	struct tokenizer_gguf parts;
	char *model, *pre;
	struct tokenizer_gguf_text *tokens, *merges;
	int32_t *kinds;
	float *scores;
};

static int source_no_memory(const char *name, struct err *e)
{
	return err_set(e, ENOMEM, "%s: no memory for its vocabulary", name);
}

/* Reads a terminated text; *out stays as it is without the key. A text that holds a NUL names
 * nothing. */
static int source_read_name(const struct gguf *g, const char *key, const char *name, char **out,
			    struct err *e)
{
	const char *text;
	size_t n;
	if (!gguf_has(g, key))
		return 0;
	int rc = gguf_get_string(g, key, name, &text, &n, e);
	if (rc < 0)
		return rc;
	*out = strndup(text, n);
	return *out ? 0 : source_no_memory(name, e);
}

static int source_read_texts(const struct gguf *g, const char *key, const char *name,
			     struct tokenizer_gguf_text **out, size_t *count, struct err *e)
{
	const struct gguf_value *v = NULL;
	int rc = gguf_get_array(g, key, name, GGUF_STRING, &v, e);
	if (rc < 0)
		return rc;
	*out = calloc(v->count + 1, sizeof **out); /* each takes eight bytes of the file */
	if (!*out)
		return source_no_memory(name, e);
	struct tokenizer_gguf_text text;
	for (size_t at = 0;
	     *count < v->count && gguf_next_string(v, &at, &text.bytes, &text.length);)
		(*out)[(*count)++] = text;
	return 0;
}

/* Finds an array with a number for each token; NULL without the key. */
static const struct gguf_value *source_numbers(const struct gguf *g, const char *key, size_t count,
					       const char *name, int *rc, struct err *e)
{
	const struct gguf_value *v = gguf_find(g, key);
	if (!v || (v->kind == GGUF_ARRAY && v->element != GGUF_STRING && v->count >= count))
		return v;
	*rc = err_set(e, EINVAL, "%s: %s must have a number for each of the %zu tokens", name, key,
		      count);
	return NULL;
}

static int source_read_kinds(const struct gguf *g, const char *name,
			     struct source_tokenizer_parts *h, struct err *e)
{
	int rc = 0;
	size_t count = h->parts.token_count;
	const struct gguf_value *v = source_numbers(g, KEY("token_type"), count, name, &rc, e);
	if (!v)
		return rc;
	h->kinds = calloc(count + 1, sizeof *h->kinds);
	for (size_t i = 0; h->kinds && i < count; i++) {
		uint64_t kind;
		h->kinds[i] = gguf_uint(v, i, &kind) && kind <= KIND_BYTE ? (int32_t)kind
									  : KIND_UNDEFINED;
	}
	h->parts.kinds = h->kinds;
	return h->kinds ? 0 : source_no_memory(name, e);
}

static int source_read_scores(const struct gguf *g, const char *name,
			      struct source_tokenizer_parts *h, struct err *e)
{
	int rc = 0;
	size_t count = h->parts.token_count;
	const struct gguf_value *v = source_numbers(g, KEY("scores"), count, name, &rc, e);
	if (!v)
		return rc;
	h->scores = calloc(count + 1, sizeof *h->scores);
	for (size_t i = 0; h->scores && i < count; i++) {
		double score;
		h->scores[i] = gguf_double(v, i, &score) ? (float)score : NAN;
	}
	h->parts.scores = h->scores;
	return h->scores ? 0 : source_no_memory(name, e);
}

static int source_read_id(const struct gguf *g, const char *key, const char *name, int64_t *id,
			  struct err *e)
{
	uint64_t value = 0;
	*id = -1;
	if (!gguf_has(g, key))
		return 0;
	int rc = gguf_get_uint(g, key, name, 0, UINT32_MAX, &value, e);
	if (rc == 0 && value != UINT32_MAX) /* some files have it for none */
		*id = (int64_t)value;
	return rc;
}

static int source_read_said(const struct gguf *g, const char *key, const char *name, int *said,
			    struct err *e)
{
	bool yes = false;
	*said = NOT_SAID;
	if (!gguf_has(g, key))
		return 0;
	int rc = gguf_get_bool(g, key, name, &yes, e);
	*said = yes ? SAID_YES : SAID_NO;
	return rc;
}

static int source_read_marks(const struct gguf *g, const char *name, struct tokenizer_gguf *p,
			     struct err *e)
{
	static const char *const ENDS[MARKED_ENDS] = {KEY("eot_token_id"), KEY("eom_token_id")};
	int rc = source_read_id(g, KEY("bos_token_id"), name, &p->bos, e);
	if (rc == 0)
		rc = source_read_id(g, KEY("eos_token_id"), name, &p->eos, e);
	for (int i = 0; i < MARKED_ENDS; i++)
		p->ends[i] = -1;
	for (int i = 0; rc == 0 && i < MARKED_ENDS && ENDS[i]; i++)
		rc = source_read_id(g, ENDS[i], name, &p->ends[i], e);
	if (rc == 0)
		rc = source_read_said(g, KEY("add_bos_token"), name, &p->add_bos, e);
	return rc < 0 ? rc
		      : source_read_said(g, KEY("add_space_prefix"), name, &p->space_prefix, e);
}

static int source_read_parts(const struct gguf *g, const char *name,
			     struct source_tokenizer_parts *h, struct err *e)
{
	h->parts.name = name;
	if (!gguf_has(g, KEY("tokens")))
		return err_set(e, ENOENT, "%s: it has no vocabulary (tokenizer.ggml.tokens)", name);
	int rc = source_read_name(g, KEY("model"), name, &h->model, e);
	if (rc == 0)
		rc = source_read_name(g, KEY("pre"), name, &h->pre, e);
	if (rc == 0)
		rc = source_read_texts(g, KEY("tokens"), name, &h->tokens, &h->parts.token_count,
				       e);
	if (rc == 0)
		rc = source_read_kinds(g, name, h, e);
	if (rc == 0)
		rc = source_read_scores(g, name, h, e);
	if (rc == 0 && gguf_has(g, KEY("merges")))
		rc = source_read_texts(g, KEY("merges"), name, &h->merges, &h->parts.merge_count,
				       e);
	h->parts.model = h->model;
	h->parts.pre = h->pre;
	h->parts.tokens = h->tokens;
	h->parts.merges = h->merges;
	return rc < 0 ? rc : source_read_marks(g, name, &h->parts, e);
}

int source_tokenizer_open_gguf(struct tokenizer **out, const struct gguf *g, const char *name,
			       struct err *e)
{
	struct source_tokenizer_parts h = {0};
	int rc = source_read_parts(g, name, &h, e);
	if (rc == 0)
		rc = tokenizer_open_gguf(out, &h.parts, e);
	free(h.model);
	free(h.pre);
	free(h.tokens);
	free(h.merges);
	free(h.kinds);
	free(h.scores);
	return rc;
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

/* Reads a terminated text; NULL without the key. */
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
	return *out ? 0 : err_set(e, ENOMEM, "%s: no memory for its chat template", name);
}

int source_template_open(struct chat_template **out, const char *path, const struct tokenizer *t,
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
	if (rc == 0)
		rc = chat_template_open_text(out, plain, with_tools, "GGUF " TEMPLATE_KEY, t, e);
	gguf_close(g);
	free(plain);
	free(with_tools);
	return rc;
}
