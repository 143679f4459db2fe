#include "engine/template/template.h"

#include "engine/template/template_call.h"
#include "engine/template/template_eval.h"
#include "engine/template/template_parse.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct template
{
	char *source;
	struct template_run memory; /* the tree's memory; nothing runs in it */
	struct template_node *tree;
};

void template_close(struct template *t)
{
	if (!t)
		return;
	template_free_memory(&t->memory);
	free(t->source);
	free(t);
}

/* Copies the source with all line ends as \n, without the last one. */
static size_t template_copy_source(char *to, const char *text, size_t n)
{
	size_t used = 0;
	for (size_t i = 0; i < n; i++) {
		bool carriage = text[i] == '\r';
		to[used++] = carriage ? '\n' : text[i];
		i += carriage && i + 1 < n && text[i + 1] == '\n';
	}
	used -= used > 0 && to[used - 1] == '\n';
	to[used] = '\0';
	return used;
}

int template_open(struct template **out, const char *text, size_t n, const char *name,
		  struct err *e)
{
	if (n > TEMPLATE_BYTES_MAX)
		return err_set(e, EFBIG, "%s: the template has %zu bytes; at most %d are allowed",
			       name, n, TEMPLATE_BYTES_MAX);
	size_t valid = utf8_valid_length(text, n);
	if (valid < n || memchr(text, '\0', n))
		return err_set(e, EINVAL, "%s: a NUL or invalid UTF-8 at byte %zu", name,
			       valid < n ? valid : strlen(text));
	struct template *t = calloc(1, sizeof *t);
	char *source = malloc(n + 4); /* the lexer looks up to three bytes ahead */
	if (!t || !source) {
		free(t);
		free(source);
		return err_set(e, ENOMEM, "%s: out of memory for the template", name);
	}
	struct err own = {0};
	memset(source, 0, n + 4);
	t->source = source;
	t->memory = (struct template_run){.name = name,
					  .e = &own,
					  .memory_left = TEMPLATE_MEMORY_MAX,
					  .work_left = TEMPLATE_WORK_MAX};
	t->tree = template_parse(&t->memory, source, template_copy_source(source, text, n));
	t->memory.e = NULL;
	if (!t->memory.failed) {
		*out = t;
		return 0;
	}
	template_close(t);
	return err_set(e, own.code, "%s", own.text);
}

static bool template_tree_reads(const struct template_node *n, const char *variable, size_t length)
{
	for (; n; n = n->next) {
		const struct template_node *children[] = {n->a, n->b, n->c, n->d, n->e};
		if (n->kind == N_NAME && n->name_n == length &&
		    memcmp(n->name, variable, length) == 0)
			return true;
		for (size_t i = 0; i < sizeof children / sizeof *children; i++)
			if (template_tree_reads(children[i], variable, length))
				return true;
	}
	return false;
}

bool template_reads(const struct template *t, const char *variable)
{
	return template_tree_reads(t->tree, variable, strlen(variable));
}

/* ---- rendering ---- */

/* The model's messages have an origin of their own; texts of tokens count as the template's. */
static struct value template_variable(struct template_run *r, const struct json *v)
{
	const char *key = json_key(v);
	size_t n = strlen(key);
	bool token = n > 6 && strcmp(key + n - 6, "_token") == 0;
	if (strcmp(key, "messages") != 0 || json_kind(v) != JSON_LIST)
		return value_of_json(r, v, token ? FROM_TEMPLATE : FROM_TEXT);
	struct value list = value_list(r, V_LIST);
	for (const struct json *m = NULL; !r->failed && (m = json_next(v, m));) {
		bool assistant = json_is_text(json_find(m, "role"), "assistant", 9);
		value_append(r, list.list,
			     value_of_json(r, m, assistant ? FROM_ASSISTANT : FROM_TEXT));
	}
	return list;
}

static int template_hand_over(struct template_run *r, const struct writer *w,
			      struct template_text *out)
{
	if (w->n > TEMPLATE_OUTPUT_MAX)
		template_fail(r, EFBIG, "the rendered text has %zu bytes; at most %d are allowed",
			      w->n, TEMPLATE_OUTPUT_MAX);
	char *bytes = r->failed ? NULL : malloc(2 * w->n + 1);
	if (!bytes)
		template_fail(r, ENOMEM, "out of memory for %zu bytes", w->n);
	if (r->failed)
		return -r->e->code;
	if (w->n > 0) {
		memcpy(bytes, w->bytes, w->n);
		memcpy(bytes + w->n, w->from, w->n);
	}
	*out = (struct template_text){bytes, (uint8_t *)bytes + w->n, w->n};
	return 0;
}

int template_render(const struct template *t, const struct json *variables, const struct tm *clock,
		    const _Atomic bool *stop, struct template_text *out, struct err *e)
{
	struct err own = {0};
	struct template_run r = {.name = t->memory.name,
				 .e = &own,
				 .memory_left = TEMPLATE_MEMORY_MAX,
				 .work_left = TEMPLATE_WORK_MAX,
				 .stop = stop,
				 .clock = clock,
				 .language = &TEMPLATE_LANGUAGE};
	struct writer w = {0};
	struct value given = value_dict(&r, V_DICT);
	for (const struct json *v = NULL; !r.failed && (v = json_next(variables, v));)
		value_dict_put(&r, given.dict,
			       value_text(&r, json_key(v), strlen(json_key(v)), FROM_TEMPLATE),
			       template_variable(&r, v));
	if (!r.failed)
		template_run(&r, t->tree, given.dict, &w);
	int rc = template_hand_over(&r, &w, out);
	template_free_memory(&r);
	return rc < 0 ? err_set(e, own.code, "%s", own.text) : 0;
}

void template_text_free(struct template_text *t)
{
	free(t->bytes);
	*t = (struct template_text){0};
}
