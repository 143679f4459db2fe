#include "engine/text/split_calls.h"

#include "engine/text/split_values.h"

#include <stdlib.h>
#include <string.h>

void calls_cut(struct calls *c, size_t count)
{
	while (c->count > count) {
		free(c->items[--c->count].name);
		free(c->items[c->count].arguments);
	}
}

void calls_free(struct calls *c)
{
	calls_cut(c, 0);
	free(c->items);
	*c = (struct calls){0};
}

/* Takes both texts over. */
static void append_call(struct calls *c, struct text_out *name, struct text_out *arguments)
{
	if (c->count == c->room) {
		size_t room = 2 * c->room + 4;
		struct call *items = reallocarray(c->items, room, sizeof *items);
		c->failed |= !items;
		c->items = items ? items : c->items;
		c->room = items ? room : c->room;
	}
	c->failed |= name->failed || arguments->failed;
	if (c->failed) {
		text_out_free(name);
		text_out_free(arguments);
		return;
	}
	c->items[c->count++] = (struct call){name->bytes, name->n, arguments->bytes, arguments->n};
}

/* ---- JSON ---- */

/* Makes a call of an object, which is JSON already. */
static bool call_of_json(const struct json *object, struct calls *calls)
{
	struct text_out name = {0}, arguments = {0};
	const struct json *given = json_find(object, "arguments"), *own = given;
	struct json *parsed = NULL;
	struct err ignored = {0};
	size_t n;
	const char *text = json_bytes(json_find(object, "name"), &n);
	char first;
	if (n == 0 || memchr(text, '\0', n))
		return false;
	text_out_add(&name, text, n);
	own = given ? given : json_find(object, "parameters");
	text = json_bytes(own, &n);
	if (json_kind(own) == JSON_TEXT) {
		bool good = is_json(text, n, &first) && first == '{' &&
			    json_parse_text(&parsed, text, n, "arguments", &ignored) == 0;
		own = good ? parsed : NULL;
		if (!good)
			own = json_find(object, "name"); /* no object */
	}
	bool good = json_kind(own) == JSON_NULL || json_kind(own) == JSON_OBJECT;
	if (json_kind(own) == JSON_NULL)
		text_out_string(&arguments, "{}");
	else if (good)
		json_write(&arguments, own);
	if (good)
		append_call(calls, &name, &arguments);
	else
		text_out_free(&name);
	json_free(parsed);
	return good;
}

static size_t scan_json_call(struct scan *s, size_t i, struct calls *calls)
{
	struct json *object = NULL;
	struct err ignored = {0};
	size_t from = i, end = scan_json(s, i);
	i = scan_space(s, end);
	bool closed = scan_word(s, i, CALL_END);
	if (!closed && scan_at(s, i) >= 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (json_parse_text(&object, s->bytes + from, end - from, "call", &ignored) < 0 ||
	    !call_of_json(object, calls))
		scan_fail(s);
	json_free(object);
	return closed ? i + strlen(CALL_END) : i;
}

/* ---- XML ---- */

/* The arguments of a function so far, as JSON's members, each under its key. */
struct argument {
	const char *key;
	size_t key_n;
	struct text_out value;
};
struct function {
	const struct json *properties;
	struct argument *items;
	size_t count, room;
	bool failed;
};

static void function_free(struct function *f)
{
	for (size_t i = 0; i < f->count; i++)
		text_out_free(&f->items[i].value);
	free(f->items);
}

static bool is_key(const struct argument *a, const char *key, size_t n)
{
	return a->key_n == n && memcmp(a->key, key, n) == 0;
}

static bool was_given(const struct function *f, const char *key, size_t n)
{
	for (size_t i = 0; i < f->count; i++)
		if (is_key(&f->items[i], key, n))
			return true;
	return false;
}

/* A key that comes twice: the last counts, at its place. */
static void give(struct function *f, const char *key, size_t key_n, const char *value, size_t n)
{
	for (size_t i = 0; i < f->count; i++)
		if (is_key(&f->items[i], key, key_n)) {
			text_out_free(&f->items[i].value);
			memmove(&f->items[i], &f->items[i + 1],
				(--f->count - i) * sizeof *f->items);
		}
	if (f->count == f->room) {
		size_t room = 2 * f->room + 4;
		struct argument *items = reallocarray(f->items, room, sizeof *items);
		f->failed |= !items;
		if (!items)
			return;
		f->items = items;
		f->room = room;
	}
	struct argument a = {.key = key, .key_n = key_n};
	write_by_schema(&a.value, value, n, property_schema(f->properties, key, key_n));
	f->items[f->count++] = a;
}

static void write_arguments(const struct function *f, struct text_out *o)
{
	text_out_string(o, "{");
	for (size_t i = 0; i < f->count; i++) {
		text_out_string(o, i > 0 ? ", " : "");
		json_write_text(o, f->items[i].key, f->items[i].key_n);
		text_out_string(o, ": ");
		text_out_add(o, f->items[i].value.bytes, f->items[i].value.n);
		o->failed |= f->items[i].value.failed;
	}
	text_out_string(o, "}");
}

/* Whether a <parameter=KEY> at i begins another argument of the call: its value's end was
 * forgotten. */
static bool begins_another(struct scan *s, size_t i, const struct function *f, const char *key,
			   size_t key_n)
{
	struct scan ahead = *s;
	size_t from = i + strlen(PARAMETER_BEGIN);
	size_t to = scan_until(&ahead, from, '>', "<\n");
	if (ahead.state == SCAN_MORE)
		s->state = SCAN_MORE;
	if (ahead.state != SCAN_GOOD)
		return false;
	const char *other = s->bytes + from;
	bool same = to - from == key_n && memcmp(other, key, key_n) == 0;
	return !same && property_schema(f->properties, other, to - from) &&
	       !was_given(f, other, to - from);
}

/* What a value itself opens: functions, and parameters of those. */
struct opened {
	size_t functions, parameters;
};

/* Whether the value ends at the closing tag of a parameter; sets where reading goes on. */
static bool closes_parameter(struct scan *s, size_t i, struct opened *o, size_t *next)
{
	if (o->parameters > 0) {
		o->parameters--;
		return false;
	}
	*next = scan_space(s, i + strlen(PARAMETER_END));
	return scan_word(s, *next, PARAMETER_BEGIN) || scan_word(s, *next, FUNCTION_END) ||
	       scan_word(s, *next, CALL_END);
}

static bool closes_function(struct scan *s, size_t i, struct opened *o, size_t *next)
{
	if (o->functions > 0) {
		o->functions--;
		return false;
	}
	*next = i;
	size_t behind = scan_space(s, i + strlen(FUNCTION_END));
	return scan_at(s, behind) < 0 || scan_word(s, behind, CALL_END);
}

/* The end of the value at i, and where reading goes on. */
static size_t scan_argument(struct scan *s, size_t i, const struct function *f, const char *key,
			    size_t key_n, size_t *next)
{
	struct opened o = {0};
	for (size_t start = i;; i++) {
		int c = scan_at(s, i);
		if (c < 0)
			scan_fail(s);
		if (s->state != SCAN_GOOD)
			return i;
		bool line = i == start || s->bytes[i - 1] == '\n', ends = false;
		if (c != '<')
			continue;
		if (scan_word(s, i, PARAMETER_END))
			ends = closes_parameter(s, i, &o, next);
		else if (scan_word(s, i, FUNCTION_END))
			ends = closes_function(s, i, &o, next);
		else if (line && scan_word(s, i, FUNCTION_BEGIN))
			o.functions++;
		else if (line && scan_word(s, i, PARAMETER_BEGIN)) {
			*next = i;
			if (o.functions > 0)
				o.parameters++;
			else
				ends = begins_another(s, i, f, key, key_n);
		}
		if (s->state != SCAN_GOOD || ends)
			return i;
	}
}

/* One newline is taken from each end. */
static void trim_lines(const char **value, size_t *n)
{
	size_t first = *n > 0 && (*value)[0] == '\n'			      ? 1
		       : *n > 1 && (*value)[0] == '\r' && (*value)[1] == '\n' ? 2
									      : 0;
	*value += first;
	*n -= first;
	if (*n > 0 && (*value)[*n - 1] == '\n')
		*n -= *n > 1 && (*value)[*n - 2] == '\r' ? 2 : 1;
}

static bool is_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= ' ' || strchr("<>{}\"'", name[i]))
			return false;
	return n > 0;
}

static size_t scan_parameters(struct scan *s, size_t i, struct function *f)
{
	while (scan_word(s, i, PARAMETER_BEGIN)) {
		size_t from = i + strlen(PARAMETER_BEGIN), to = scan_until(s, from, '>', "<\n");
		const char *key = s->bytes + from, *value = s->bytes + to + 1;
		if (to == from)
			scan_fail(s);
		size_t end = s->state == SCAN_GOOD ? scan_argument(s, to + 1, f, key, to - from, &i)
						   : to;
		if (s->state != SCAN_GOOD)
			return i;
		size_t n = end - (to + 1);
		trim_lines(&value, &n);
		give(f, key, to - from, value, n);
		i = scan_space(s, i);
	}
	return i;
}

/* <function=NAME>...</function>; inside a <tool_call> its end ends the function as well. */
static size_t scan_function(struct scan *s, size_t i, const struct json *tools, bool wrapped,
			    struct calls *calls)
{
	struct function f = {0};
	bool known;
	size_t from = i + strlen(FUNCTION_BEGIN), to = scan_until(s, from, '>', "<\n");
	if (s->state == SCAN_GOOD && !is_name(s->bytes + from, to - from))
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	f.properties = tool_properties(tools, s->bytes + from, to - from, &known);
	i = scan_parameters(s, scan_space(s, to + 1), &f);
	if (scan_word(s, i, FUNCTION_END))
		i += strlen(FUNCTION_END);
	else if (!wrapped || !scan_word(s, i, CALL_END))
		scan_fail(s);
	if (s->state == SCAN_GOOD) {
		struct text_out name = {0}, arguments = {0};
		text_out_add(&name, s->bytes + from, to - from);
		write_arguments(&f, &arguments);
		arguments.failed |= f.failed;
		append_call(calls, &name, &arguments);
	}
	function_free(&f);
	return i;
}

static size_t scan_functions(struct scan *s, size_t i, const struct json *tools,
			     struct calls *calls)
{
	do {
		if (!scan_word(s, i, FUNCTION_BEGIN))
			scan_fail(s);
		if (s->state == SCAN_GOOD)
			i = scan_space(s, scan_function(s, i, tools, true, calls));
		if (scan_word(s, i, CALL_END))
			return i + strlen(CALL_END);
	} while (s->state == SCAN_GOOD && scan_at(s, i) >= 0);
	return i;
}

size_t scan_call_block(struct scan *s, size_t i, const struct json *tools, struct calls *calls)
{
	size_t count = calls->count;
	i = scan_space(s, i + strlen(CALL_BEGIN));
	i = scan_at(s, i) == '{' ? scan_json_call(s, i, calls) : scan_functions(s, i, tools, calls);
	if (s->state != SCAN_GOOD)
		calls_cut(calls, count);
	return i;
}

size_t scan_bare_call(struct scan *s, size_t i, const struct json *tools, struct calls *calls)
{
	bool known;
	size_t count = calls->count, from = i + strlen(FUNCTION_BEGIN);
	size_t to = scan_until(s, from, '>', "<\n");
	if (s->state != SCAN_GOOD)
		return i;
	tool_properties(tools, s->bytes + from, to - from, &known);
	if (!known)
		scan_fail(s);
	i = s->state == SCAN_GOOD ? scan_function(s, i, tools, false, calls) : i;
	size_t behind = scan_space(s, i);
	bool closed = scan_word(s, behind, CALL_END);
	if (s->state != SCAN_GOOD)
		calls_cut(calls, count);
	return closed ? behind + strlen(CALL_END) : i;
}
