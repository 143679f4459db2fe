/* Tool calls as a grammar: the tools on offer, each with what its schema admits. */
#include "engine/text/grammar_schema.h"

#include "engine/text/json_write.h"

#include <errno.h>
#include <string.h>

/* A mark of a call: its token where the vocabulary has one. */
static uint32_t mark(struct grammar_build *b, const char *text)
{
	uint32_t spelled = expr_word(&b->source, text);
	if (!b->tokenizer || !grammar_is_mark(b->tokenizer, text))
		return spelled;
	return expr_then(&b->source, expr_bytes(&b->source, GRAMMAR_MARK, GRAMMAR_MARK), spelled);
}

static uint32_t sequence(struct grammar_source *s, const uint32_t *parts, size_t count)
{
	uint32_t all = EMPTY;
	for (size_t i = 0; i < count; i++)
		all = expr_then(s, all, parts[i]);
	return all;
}
#define SEQUENCE(s, ...)                             \
	sequence(s, (const uint32_t[]){__VA_ARGS__}, \
		 sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

struct tool {
	const char *name;
	const struct json *schema; /* of its arguments; NULL: none */
};

/* {"type": "function", "function": {...}}, or what stands inside by itself. */
static bool read_tool(struct grammar_source *s, const struct json *item, struct tool *t)
{
	const struct json *inside = json_find(item, "function");
	struct err e;
	inside = inside ? inside : item;
	if (json_get_string(inside, "name", "tools", &t->name, &e) ||
	    json_get_object_or_null(inside, "parameters", "tools", &t->schema, &e)) {
		source_fail(s, EINVAL, "%s", e.text);
		return false;
	}
	return true;
}

/* ---- Hermes: {"name": NAME, "arguments": OBJECT} ---- */

static uint32_t json_text(struct grammar_source *s, const char *text)
{
	struct text_out out = {0};
	json_write_text(&out, text, strlen(text));
	uint32_t expr = out.failed ? source_fail(s, ENOMEM, "out of memory for a grammar")
				   : expr_text(s, out.bytes, out.n);
	text_out_free(&out);
	return expr;
}

/* An object, whatever the schema says or leaves open. */
static uint32_t arguments(struct schema_rules *r, const struct tool *t)
{
	struct layers l = {0};
	r->root = t->schema;
	if (!t->schema)
		return expr_word(r->s, "{}");
	layers_add(r, &l, t->schema);
	return l.none || r->s->failed ? NOTHING : schema_object(r, &l);
}

static uint32_t hermes_call(struct grammar_build *b, struct schema_rules *r, const struct tool *t)
{
	struct grammar_source *s = &b->source;
	uint32_t gap = json_gap(s), colon = json_colon(s);
	return SEQUENCE(s, expr_word(s, "{"), gap, expr_word(s, "\"name\""), colon,
			json_text(s, t->name), expr_word(s, ","), gap,
			expr_word(s, "\"arguments\""), colon, arguments(r, t), gap,
			expr_word(s, "}"));
}

/* ---- Qwen's coders: <function=NAME>, <parameter=KEY> ---- */

/* Whether a text may be a value of it: then it stands as it is. */
static bool may_be_text(struct schema_rules *r, const struct layers *l)
{
	static const char *const choices[] = {"anyOf", "oneOf"};
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < l->count; i++) {
			const struct json *list = layer_get(&l->at[i], choices[k]), *v = NULL;
			bool any = !list;
			while (list && !r->s->failed && (v = json_next(list, v))) {
				struct layers one = {.depth = l->depth + 1};
				layers_add(r, &one, v);
				any |= !one.none && (schema_types(r, &one) & TYPE_STRING);
			}
			if (!any)
				return false;
		}
	return schema_types(r, l) & TYPE_STRING;
}

static uint32_t listed_texts(struct schema_rules *r, const struct json *list,
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

/* A value with what ends it. A text that is not bound by more may hold no tag of a call. */
static uint32_t parameter_value(struct schema_rules *r, const struct json *schema)
{
	static const char *const others[] = {
		"</function>", "</tool_call>", "<parameter=", "<function=", "<tool_call>", NULL};
	struct grammar_source *s = r->s;
	struct layers l = {0};
	uint32_t end = expr_word(s, "\n</parameter>"), value;
	layers_add(r, &l, schema);
	if (l.none || s->failed)
		return NOTHING;
	if (!may_be_text(r, &l))
		return expr_then(s, layers_expr(r, &l), end);
	if (layers_have(&l, "enum") || layers_have(&l, "const"))
		value = listed_texts(r, layers_only(r, &l, "enum"), layers_only(r, &l, "const"));
	else if (layers_have(&l, "pattern") || layers_have(&l, "format") ||
		 layers_have(&l, "minLength") || layers_have(&l, "maxLength"))
		value = schema_string(r, &l, SPELL_XML);
	else
		return until_expr(s, "</parameter>", others, true);
	return expr_then(s, value, end);
}

static bool is_required(const struct json *schema, const char *name)
{
	const struct json *list = json_find(schema, "required");
	size_t n;
	for (const struct json *v = NULL; list && (v = json_next(list, v));)
		if (json_kind(v) == JSON_TEXT && !strcmp(json_bytes(v, &n), name))
			return true;
	return false;
}

static bool is_plain(const char *name, const char *none)
{
	return *name && !name[strcspn(name, none)];
}

/* Parameters in the schema's order. */
static uint32_t parameters(struct schema_rules *r, const struct tool *t)
{
	struct grammar_source *s = r->s;
	const struct json *list = t->schema ? json_find(t->schema, "properties") : NULL;
	uint32_t all = EMPTY;
	r->root = t->schema;
	for (const struct json *v = NULL; list && !s->failed && (v = json_next(list, v));) {
		const char *name = json_key(v);
		if (!is_plain(name, "<>\n"))
			return source_fail(s, ENOTSUP,
					   "tools: \"%.60s\" cannot be a parameter's name in this "
					   "model's calls",
					   name);
		uint32_t one =
			SEQUENCE(s, expr_word(s, "<parameter="), expr_word(s, name),
				 expr_word(s, ">\n"), parameter_value(r, v), expr_word(s, "\n"));
		bool required = is_required(t->schema, name);
		all = expr_then(s, all, required ? one : expr_maybe(s, one));
	}
	return all;
}

static uint32_t xml_call(struct grammar_build *b, struct schema_rules *r, const struct tool *t)
{
	struct grammar_source *s = &b->source;
	if (!is_plain(t->name, "<>{}\"' \t\r\n"))
		return source_fail(s, ENOTSUP,
				   "tools: \"%.60s\" cannot be a tool's name in this model's calls",
				   t->name);
	return SEQUENCE(s, expr_word(s, "<function="), expr_word(s, t->name), expr_word(s, ">\n"),
			parameters(r, t), expr_word(s, "</function>"));
}

/* ---- all of them ---- */

uint32_t calls_expr(struct grammar_build *b, struct schema_rules *schemas,
		    const struct grammar_request *r)
{
	struct grammar_source *s = &b->source;
	uint32_t any = NOTHING, line = expr_maybe(s, expr_word(s, "\n"));
	for (const struct json *v = NULL; !s->failed && (v = json_next(r->tools, v));) {
		struct tool t;
		if (!read_tool(s, v, &t))
			return NOTHING;
		if (r->choice != CHOICE_NAMED || !strcmp(t.name, r->tool))
			any = expr_either(s, any,
					  r->xml ? xml_call(b, schemas, &t)
						 : hermes_call(b, schemas, &t));
	}
	uint32_t call =
		SEQUENCE(s, mark(b, "<tool_call>"), line, any, line, mark(b, "</tool_call>"));
	if (r->choice == CHOICE_NAMED)
		return call;
	return expr_then(s, call, expr_repeat(s, expr_then(s, line, call), 0, REPEAT_ENDLESS));
}
