#include "engine/answer/split_calls.h"

#include "engine/answer/split_forms.h"
#include "engine/answer/split_values.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void calls_cut(struct calls *c, size_t count)
{
	while (c->count > count) {
		struct call *last = &c->items[--c->count];
		free(last->name);
		free(last->arguments);
		free(last->id);
	}
}

void calls_free(struct calls *c)
{
	calls_cut(c, 0);
	free(c->items);
	*c = (struct calls){0};
}

bool calls_append(struct calls *c, struct text_out *name, struct text_out *arguments)
{
	bool room = c->count < CALLS_MAX;
	if (c->count == c->room && room) {
		size_t more = 2 * c->room + 4;
		struct call *items = reallocarray(c->items, more, sizeof *items);
		c->failed |= !items;
		c->items = items ? items : c->items;
		c->room = items ? more : c->room;
	}
	c->failed |= name->failed || arguments->failed;
	if (c->failed || !room) {
		text_out_free(name);
		text_out_free(arguments);
		return room;
	}
	c->items[c->count++] = (struct call){.name = name->bytes,
					     .name_n = name->n,
					     .arguments = arguments->bytes,
					     .arguments_n = arguments->n};
	return true;
}

void calls_give_id(struct calls *c, const char *id, size_t n)
{
	if (n == 0 || n > CALL_ID_MAX || c->count == 0 || memchr(id, '\0', n))
		return;
	for (size_t i = 0; i + 1 < c->count; i++)
		if (c->items[i].id_n == n && memcmp(c->items[i].id, id, n) == 0)
			return;
	struct call *last = &c->items[c->count - 1];
	last->id = strndup(id, n);
	last->id_n = last->id ? n : 0;
	c->failed |= !last->id;
}

/* ---- JSON ---- */

/* What the arguments of a call are, an object; *parsed: freed by the caller. False: they are none.
 */
static bool arguments_of(const struct json *given, struct json **parsed, struct text_out *out)
{
	struct err ignored = {0};
	size_t n;
	char first;
	const char *text = json_bytes(given, &n);
	if (json_kind(given) == JSON_TEXT) {
		bool good = is_json(text, n, &first) && first == '{' &&
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

bool is_short_id(const char *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)id[i]))
			return false;
	return n == 9;
}

/* Makes a call of an object, which is JSON already. */
static bool call_of_json(const struct json *object, const struct json_words *w, struct calls *calls)
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
	bool good = arguments_of(given, &parsed, &arguments);
	json_free(parsed);
	if (!good) {
		text_out_free(&name);
		text_out_free(&arguments);
		return false;
	}
	good = calls_append(calls, &name, &arguments);
	text = w->id ? json_bytes(json_find(object, w->id), &n) : "";
	if (good && w->id && is_short_id(text, n))
		calls_give_id(calls, text, n);
	return good;
}

/* Whether an object names a tool on offer and has arguments for it. */
static bool calls_a_tool(const struct json *object, const struct json_words *w,
			 const struct json *tools)
{
	bool known, has = false;
	size_t n;
	const char *name = json_bytes(json_find(object, w->name), &n);
	tool_properties(tools, name, n, &known);
	for (size_t i = 0; i < 2 && w->arguments[i]; i++)
		has |= json_kind(json_find(object, w->arguments[i])) == JSON_OBJECT;
	return known && has;
}

/* Parses what was scanned, and takes its calls. `tools`: only those count, or NULL. */
static bool take_json(const char *text, size_t n, const struct json_words *w,
		      const struct json *tools, struct calls *calls)
{
	struct json *value = NULL;
	struct err ignored = {0};
	if (json_parse_text(&value, text, n, "call", &ignored) < 0)
		return false;
	bool list = json_kind(value) == JSON_LIST, good = true;
	if (!list)
		good = (!tools || calls_a_tool(value, w, tools)) && call_of_json(value, w, calls);
	for (const struct json *v = NULL; list && good && (v = json_next(value, v));)
		good = call_of_json(v, w, calls);
	good &= !list || json_count(value) > 0;
	json_free(value);
	return good;
}

size_t read_json_calls(struct scan *s, size_t i, const struct call_way *way,
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
	if (s->state == SCAN_GOOD && !take_json(s->bytes + from, end - from, w, NULL, calls))
		scan_fail(s);
	return closed ? next + strlen(w->end) : end;
}

size_t read_json_answer(struct scan *s, size_t i, const struct call_way *way,
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
		    !take_json(s->bytes + from, i - from, w, marked ? NULL : tools, calls))
			scan_fail(s);
		i = scan_space(s, i);
		if (scan_at(s, i) == ';')
			i = scan_space(s, i + 1);
	} while (s->state == SCAN_GOOD && scan_at(s, i) >= 0);
	return i;
}
