/* Rules for tool calls: the tools on offer, each with the arguments that its schema allows. */
#include "engine/grammar/grammar_build.h"

#include "engine/answer/split_forms.h"

#include <errno.h>
#include <string.h>

bool calls_mark_is_token(const struct grammar_build *b, const char *text)
{
	char first[GRAMMAR_MAX_TOKEN];
	const struct tokenizer *t = b->request->tokenizer;
	size_t n = strcspn(text, ">]") + 1;
	if (!t || n > strlen(text) || n >= sizeof first)
		return false;
	memcpy(first, text, n);
	first[n] = '\0';
	return grammar_is_mark(t, b->writes, text) || grammar_is_mark(t, b->writes, first);
}

uint32_t calls_mark_expr(struct grammar_build *b, const char *text)
{
	uint32_t spelled = expr_word(&b->source, text);
	if (!calls_mark_is_token(b, text))
		return spelled;
	return expr_then(&b->source, expr_bytes(&b->source, GRAMMAR_MARK, GRAMMAR_MARK), spelled);
}

/* The same for a mark that a form may lack. */
static uint32_t calls_maybe_mark(struct grammar_build *b, const char *text)
{
	return text ? calls_mark_expr(b, text) : EMPTY;
}

struct tool {
	const char *name;
	const struct json *schema; /* of the arguments; NULL: none */
};

static bool calls_read_tool(struct grammar_source *s, const struct json *item, struct tool *t)
{
	const struct json *inside = call_tool_function(item);
	struct err e;
	if (json_get_string(inside, "name", "tools", &t->name, &e) ||
	    json_get_object_or_null(inside, "parameters", "tools", &t->schema, &e)) {
		grammar_fail(s, EINVAL, "%s", e.text);
		return false;
	}
	return true;
}

/* ---- {"name": NAME, "arguments": OBJECT} ---- */

/* Arguments are an object, even if the schema leaves that open. */
static uint32_t calls_arguments(struct schema_rules *r, const struct tool *t)
{
	struct schema_layers l = {0};
	r->root = t->schema;
	if (!t->schema)
		return expr_word(r->s, "{}");
	schema_layers_add(r, &l, t->schema);
	return l.none || r->s->failed ? NOTHING : schema_object(r, &l);
}

static uint32_t calls_json(struct grammar_build *b, struct schema_rules *r,
			   const struct json_words *w, const struct tool *t)
{
	struct grammar_source *s = &b->source;
	uint32_t gap = json_gap(s), colon = json_colon(s), name = json_quoted(s, t->name);
	if (!w->name)
		return SEQUENCE(s, expr_word(s, "{"), gap, name, colon, calls_arguments(r, t), gap,
				expr_word(s, "}"));
	return SEQUENCE(s, expr_word(s, "{"), gap, json_quoted(s, w->name), colon, name,
			expr_word(s, ","), gap, json_quoted(s, w->arguments[0]), colon,
			calls_arguments(r, t), gap, expr_word(s, "}"));
}

/* ---- functions in tags ---- */

/* Whether the value may be a string: then it is written without quotes. */
static bool calls_may_be_text(struct schema_rules *r, const struct schema_layers *l)
{
	static const char *const choices[] = {"anyOf", "oneOf"};
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < l->count; i++) {
			const struct json *list = schema_layer_get(&l->at[i], choices[k]),
					  *v = NULL;
			bool any = !list;
			while (list && !r->s->failed && (v = json_next(list, v))) {
				struct schema_layers one = {.depth = l->depth + 1};
				schema_layers_add(r, &one, v);
				any |= !one.none && (schema_types(r, &one) & TYPE_STRING);
			}
			if (!any)
				return false;
		}
	return schema_types(r, l) & TYPE_STRING;
}

static uint32_t calls_listed_texts(struct schema_rules *r, const struct json *list,
				   const struct json *one)
{
	size_t n;
	uint32_t any = NOTHING;
	const char *text;
	if (one && json_kind(one) == JSON_TEXT) {
		text = json_bytes(one, &n);
		return expr_text(r->s, text, n);
	}
	for (const struct json *v = NULL; list && (v = json_next(list, v));) {
		text = json_bytes(v, &n);
		if (json_kind(v) == JSON_TEXT)
			any = expr_either(r->s, any, expr_text(r->s, text, n));
	}
	return any;
}

/* A value and its end. A string without other bounds may hold no tag of a call. */
static uint32_t calls_parameter_value(struct schema_rules *r, const struct tag_words *w,
				      const struct json *schema)
{
	const char *const others[] = {w->function_end, w->end, w->parameter, w->function, NULL};
	struct grammar_source *s = r->s;
	struct schema_layers l = {0};
	uint32_t value, end = SEQUENCE(s, expr_word(s, w->lines ? "\n" : ""),
				       expr_word(s, w->parameter_end));
	schema_layers_add(r, &l, schema);
	if (l.none || s->failed)
		return NOTHING;
	if (!calls_may_be_text(r, &l))
		return expr_then(s, schema_layers_expr(r, &l), end);
	if (schema_layers_have(&l, "enum") || schema_layers_have(&l, "const"))
		value = calls_listed_texts(r, schema_layers_only(r, &l, "enum"),
					   schema_layers_only(r, &l, "const"));
	else if (schema_layers_have(&l, "pattern") || schema_layers_have(&l, "format") ||
		 schema_layers_have(&l, "minLength") || schema_layers_have(&l, "maxLength"))
		value = schema_string(r, &l, SPELL_XML);
	else
		return until_expr(s, w->parameter_end, others, true);
	return expr_then(s, value, end);
}

static bool calls_is_required(const struct json *schema, const char *name)
{
	const struct json *list = json_find(schema, "required");
	for (const struct json *v = NULL; list && (v = json_next(list, v));)
		if (json_is_text(v, name, strlen(name)))
			return true;
	return false;
}

static uint32_t calls_line(struct grammar_source *s)
{
	return expr_maybe(s, expr_word(s, "\n"));
}

/* TAG name STOP */
static uint32_t calls_opened(struct grammar_source *s, const struct tag_words *w, const char *tag,
			     const char *name)
{
	if (!call_is_name(name, strlen(name)))
		return grammar_fail(s, ENOTSUP,
				    "tools: \"%.60s\" cannot be a name in this model's calls",
				    name);
	return SEQUENCE(s, expr_word(s, tag), expr_word(s, name), expr_word(s, w->stop),
			expr_word(s, *w->stop == '>' ? "" : ">"));
}

/* The parameters, in the schema's order. */
static uint32_t calls_parameters(struct schema_rules *r, const struct tag_words *w,
				 const struct tool *t)
{
	struct grammar_source *s = r->s;
	const struct json *list = t->schema ? json_find(t->schema, "properties") : NULL;
	uint32_t all = EMPTY;
	r->root = t->schema;
	for (const struct json *v = NULL; list && !s->failed && (v = json_next(list, v));) {
		const char *name = json_key(v);
		uint32_t one = SEQUENCE(s, calls_opened(s, w, w->parameter, name),
					expr_word(s, w->lines ? "\n" : ""),
					calls_parameter_value(r, w, v), calls_line(s));
		bool required = calls_is_required(t->schema, name);
		all = expr_then(s, all, required ? one : expr_maybe(s, one));
	}
	return all;
}

static uint32_t calls_tag(struct schema_rules *r, const struct tag_words *w, const struct tool *t)
{
	struct grammar_source *s = r->s;
	return SEQUENCE(s, calls_opened(s, w, w->function, t->name), calls_line(s),
			calls_parameters(r, w, t), expr_word(s, w->function_end));
}

/* ---- a form's way ---- */

/* The first way of the form that is supported; if the form has both, tags if its template
 * teaches them. */
static const struct call_way *calls_way(const struct grammar_build *b)
{
	const struct call_way *found = NULL;
	for (int i = 0; i < FORM_WAYS_MAX && b->writes->ways[i].begin; i++) {
		const struct call_way *w = &b->writes->ways[i];
		bool tags = w->tags && !w->tags->as_text;
		if ((w->json && w->read != split_json_read_answer) || tags)
			if (!found || (b->request->tags && !found->tags && tags))
				found = w;
	}
	return found;
}

static uint32_t calls_any(struct grammar_build *b, struct schema_rules *schemas,
			  const struct call_way *w)
{
	struct grammar_source *s = &b->source;
	const struct grammar_request *r = b->request;
	uint32_t any = NOTHING;
	for (const struct json *v = NULL; !s->failed && (v = json_next(r->tools, v));) {
		struct tool t;
		if (!calls_read_tool(s, v, &t))
			return NOTHING;
		if (r->choice != CHOICE_NAMED || !strcmp(t.name, r->tool))
			any = expr_either(s, any,
					  w->tags ? calls_tag(schemas, w->tags, &t)
						  : calls_json(b, schemas, w->json, &t));
	}
	if (any == NOTHING && !s->failed)
		grammar_fail(s, EINVAL, "no tool is named \"%.60s\"", r->tool ? r->tool : "");
	return any;
}

/* BEGIN [call, call ...] END */
static uint32_t calls_list(struct grammar_build *b, const struct call_way *w, uint32_t call,
			   bool one)
{
	struct grammar_source *s = &b->source;
	uint32_t gap = json_gap(s), next = SEQUENCE(s, expr_word(s, ","), gap, call);
	uint32_t more = one ? EMPTY : expr_repeat(s, next, 0, REPEAT_ENDLESS);
	const char *fence = w->json->fence ? w->json->fence : "";
	return SEQUENCE(s, calls_mark_expr(b, w->begin), calls_line(s), expr_word(s, fence),
			calls_line(s), expr_word(s, "["), gap, call, more, gap, expr_word(s, "]"),
			calls_line(s), calls_maybe_mark(b, w->json->end));
}

/* [OPEN] BEGIN call END, and again, [CLOSE] */
static uint32_t calls_row(struct grammar_build *b, const struct call_way *w, uint32_t call,
			  bool one)
{
	struct grammar_source *s = &b->source;
	if (!w->tags || strcmp(w->begin, w->tags->function) != 0)
		call = SEQUENCE(s, calls_mark_expr(b, w->begin), calls_line(s), call, calls_line(s),
				calls_maybe_mark(b, w->tags ? w->tags->end : w->json->end));
	uint32_t next = expr_then(s, calls_line(s), call);
	uint32_t more = one ? EMPTY : expr_repeat(s, next, 0, REPEAT_ENDLESS);
	uint32_t open = w->open ? expr_then(s, calls_mark_expr(b, w->open), calls_line(s)) : EMPTY;
	uint32_t close =
		w->close ? expr_then(s, calls_line(s), calls_mark_expr(b, w->close)) : EMPTY;
	return SEQUENCE(s, open, call, more, close);
}

uint32_t calls_expr(struct grammar_build *b, struct schema_rules *schemas)
{
	const struct call_way *w = calls_way(b);
	bool one = b->request->choice == CHOICE_NAMED;
	if (!w)
		return grammar_fail(
			&b->source, ENOTSUP,
			"tool calls in this model's format (%s) cannot be constrained yet",
			b->writes->name);
	uint32_t call = calls_any(b, schemas, w);
	return w->json && w->json->list ? calls_list(b, w, call, one) : calls_row(b, w, call, one);
}

uint32_t calls_none_expr(struct grammar_build *b)
{
	const char *words[2 * FORM_WAYS_MAX + 1] = {0};
	size_t count = 0;
	for (int i = 0; i < FORM_WAYS_MAX && b->writes->ways[i].begin; i++) {
		const struct call_way *w = &b->writes->ways[i];
		if (w->whole)
			return grammar_fail(&b->source, ENOTSUP,
					    "tool calls in this model's format (%s) cannot be "
					    "excluded; write [] to tools.json instead",
					    b->writes->name);
		words[count++] = w->open ? w->open : w->begin;
	}
	if (!count) /* no mark is known: the usual one */
		words[0] = split_form_named(NULL)->ways[0].begin;
	return until_without_expr(&b->source, words);
}
