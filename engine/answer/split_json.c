/* Reads calls whose arguments are one JSON object: objects in JSON, and a name between marks before
 * an object (DeepSeek, Kimi, Mistral). */
#include "engine/answer/split_forms.h"

#include <string.h>

/* ---- JSON ---- */

/* Writes the arguments of a call, which must be an object, or an object as JSON text. *parsed is
 * freed by the caller. False: the arguments are something else. */
static bool split_json_arguments(const struct json *given, struct json **parsed,
				 struct text_out *out)
{
	struct err ignored = {0};
	size_t n;
	char first;
	const char *text = json_bytes(given, &n);
	if (json_kind(given) == JSON_TEXT) {
		bool good = scan_is_json(text, n, &first) && first == '{' &&
			    json_parse_text(parsed, text, n, "arguments", &ignored) == 0;
		given = *parsed;
		if (!good)
			return false;
	}
	if (json_kind(given) == JSON_NULL)
		text_out_string(out, "{}");
	else if (json_kind(given) == JSON_OBJECT)
		text_out_json(out, given);
	else
		return false;
	return true;
}

/* Appends the call that an object describes. False: the object is not a call. */
static bool split_json_call(const struct json *object, const struct json_words *w,
			    struct calls *calls)
{
	struct text_out name = {0}, arguments = {0};
	const struct json *given = NULL;
	struct json *parsed = NULL;
	size_t n = 0;
	const char *text = NULL;
	if (w->name)
		text = json_bytes(json_find(object, w->name), &n);
	else if (json_kind(object) == JSON_OBJECT && json_count(object) == 1) {
		given = json_next(object, NULL);
		text = json_key(given);
		n = strlen(text);
	}
	for (size_t i = 0; w->name && i < 2 && w->arguments[i] && !given; i++)
		given = json_find(object, w->arguments[i]);
	if (n == 0 || memchr(text, '\0', n))
		return false;
	text_out_add(&name, text, n);
	bool good = split_json_arguments(given, &parsed, &arguments);
	json_free(parsed);
	if (!good) {
		text_out_free(&name);
		text_out_free(&arguments);
		return false;
	}
	good = calls_append(calls, &name, &arguments);
	text = w->id ? json_bytes(json_find(object, w->id), &n) : "";
	if (good && w->id && call_is_short_id(text, n))
		calls_give_id(calls, text, n);
	return good;
}

/* Whether an object names a tool of the request and has arguments. */
static bool split_json_names_a_tool(const struct json *object, const struct json_words *w,
				    const struct json *tools)
{
	bool known, has = false;
	size_t n;
	const char *name = json_bytes(json_find(object, w->name), &n);
	calls_tool_properties(tools, name, n, &known);
	for (size_t i = 0; i < 2 && w->arguments[i]; i++)
		has |= json_kind(json_find(object, w->arguments[i])) == JSON_OBJECT;
	return known && has;
}

/* Parses text[n] and appends its calls. `tools`: only these may be called; NULL: any. */
static bool split_json_take(const char *text, size_t n, const struct json_words *w,
			    const struct json *tools, struct calls *calls)
{
	struct json *value = NULL;
	struct err ignored = {0};
	if (json_parse_text(&value, text, n, "call", &ignored) < 0)
		return false;
	bool list = json_kind(value) == JSON_LIST, good = true;
	if (!list)
		good = (!tools || split_json_names_a_tool(value, w, tools)) &&
		       split_json_call(value, w, calls);
	for (const struct json *v = NULL; list && good && (v = json_next(value, v));)
		good = split_json_call(v, w, calls);
	good &= !list || json_count(value) > 0;
	json_free(value);
	return good;
}

size_t split_json_read_calls(struct split_scan *s, size_t i, const struct call_way *way,
			     const struct json *tools, struct calls *calls)
{
	const struct json_words *w = way->json;
	(void)tools;
	i = scan_space(s, i + strlen(way->begin));
	if (w->fence && !scan_word(s, i, w->fence))
		scan_fail(s);
	if (w->fence)
		i = scan_space(s, i + strlen(w->fence));
	int c = scan_at(s, i);
	if (c != '{' && (c != '[' || !w->list))
		scan_fail(s);
	size_t from = i, end = scan_json(s, i), next = w->end ? scan_space(s, end) : end;
	bool closed = w->end && scan_end(s, next, w->end);
	if (w->end && !closed && !w->may_end && scan_at(s, next) >= 0)
		scan_fail(s);
	if (s->state == SCAN_GOOD && !split_json_take(s->bytes + from, end - from, w, NULL, calls))
		scan_fail(s);
	return closed ? next + strlen(w->end) : end;
}

size_t split_json_read_answer(struct split_scan *s, size_t i, const struct call_way *way,
			      const struct json *tools, struct calls *calls)
{
	const struct json_words *w = way->json;
	bool marked = strcmp(way->begin, "{") != 0;
	i = scan_space(s, marked ? i + strlen(way->begin) : i);
	do {
		size_t from = i;
		if (scan_at(s, i) != '{')
			scan_fail(s);
		i = scan_json(s, i);
		if (s->state == SCAN_GOOD &&
		    !split_json_take(s->bytes + from, i - from, w, marked ? NULL : tools, calls))
			scan_fail(s);
		i = scan_space(s, i);
		if (scan_at(s, i) == ';')
			i = scan_space(s, i + 1);
	} while (s->state == SCAN_GOOD && scan_at(s, i) >= 0);
	return i;
}

/* ---- a name and an object ---- */

struct split_json_part {
	size_t at, n;
};

/* The object at i, alone or in a fence after a name. */
static size_t split_json_named_object(struct split_scan *s, size_t i, const struct named_words *w,
				      struct split_json_part *name, struct split_json_part *object)
{
	static const char FENCE[] = "```json", FENCE_END[] = "```";
	bool fenced = w->fenced && scan_at(s, i) != '{';
	if (fenced) {
		name->at = i;
		i = scan_name(s, i);
		name->n = i - name->at;
		i = scan_space(s, scan_over(s, scan_space(s, i), FENCE));
	}
	if (scan_at(s, i) != '{')
		scan_fail(s);
	object->at = i;
	i = scan_json(s, i);
	object->n = i - object->at;
	return fenced ? scan_over(s, scan_space(s, i), FENCE_END) : i;
}

size_t split_json_read_named(struct split_scan *s, size_t i, const struct call_way *way,
			     const struct json *tools, struct calls *calls)
{
	const struct named_words *w = way->named;
	struct split_json_part name = {0}, object = {0}, id = {0};
	(void)tools;
	name.at = scan_space(s, i + strlen(way->begin));
	i = scan_name(s, name.at);
	name.n = i - name.at;
	i = scan_space(s, i);
	if (w->id && scan_word(s, i, w->id)) {
		id.at = i + strlen(w->id);
		i = scan_name(s, id.at);
		id.n = i - id.at;
	}
	i = scan_space(s, scan_over(s, i, w->separator));
	i = split_json_named_object(s, i, w, &name, &object);
	size_t next = w->end ? scan_space(s, i) : i;
	bool closed = w->end && scan_end(s, next, w->end);
	if (w->end && !closed && scan_at(s, next) >= 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (w->numbered) { /* functions.NAME:0 is the id, NAME the name */
		size_t kind = call_kind_length(s->bytes + name.at, name.n), n = name.n - kind;
		id = name;
		name.at += kind;
		name.n -= kind;
		while (n > 1 && strchr("0123456789", s->bytes[name.at + n - 1]))
			n--;
		if (n > 1 && n < name.n && s->bytes[name.at + n - 1] == ':')
			name.n = n - 1;
	}
	if (!calls_append_object(calls, s->bytes + name.at, name.n, s->bytes + object.at, object.n))
		scan_fail(s);
	else if (!calls->failed && (w->numbered || call_is_short_id(s->bytes + id.at, id.n)))
		calls_give_id(calls, s->bytes + id.at, id.n);
	return closed ? next + strlen(w->end) : i;
}
