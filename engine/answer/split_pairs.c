#include "engine/answer/split_pairs.h"

#include "engine/answer/split_arguments.h"

#include <string.h>

/* Behind a word that has to stand at i. */
static size_t scan_over(struct scan *s, size_t i, const char *word)
{
	if (!scan_word(s, i, word))
		scan_fail(s);
	return i + strlen(word);
}

/* Behind the name at i: up to white space, or what no name has in it. */
static size_t scan_name(struct scan *s, size_t i)
{
	size_t from = i;
	for (int c; (c = scan_at(s, i)) > ' ' && !strchr("<>{}[]\"'", c);)
		i++;
	if (i == from)
		scan_fail(s);
	return i;
}

/* ---- GLM's keys and values ---- */

/* The end of the value at i: what closes it, and a key, the call's end or the text's follows. */
static size_t scan_pair_value(struct scan *s, size_t i, size_t *next)
{
	for (int c; (c = scan_at(s, i)) >= 0; i++) {
		if (c != '<' || !scan_word(s, i, PAIRS_VALUE_END))
			continue;
		*next = scan_space(s, i + strlen(PAIRS_VALUE_END));
		if (scan_word(s, *next, PAIRS_KEY) || scan_word(s, *next, PAIRS_END) ||
		    scan_at(s, *next) < 0)
			return i;
	}
	scan_fail(s);
	return i;
}

static size_t scan_pair(struct scan *s, size_t i, struct arguments *a)
{
	size_t key = i + strlen(PAIRS_KEY), key_end = scan_until(s, key, '<', "\n");
	size_t value =
		scan_over(s, scan_space(s, scan_over(s, key_end, PAIRS_KEY_END)), PAIRS_VALUE);
	size_t end = scan_pair_value(s, value, &i);
	if (key_end == key)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	const char *name = s->bytes + key;
	struct text_out *o = arguments_add(a, name, key_end - key);
	if (o)
		write_by_schema(o, s->bytes + value, end - value,
				property_schema(a->properties, name, key_end - key));
	return i;
}

/* A beginning of it that no key has is enough for a text that was cut off. */
static bool scan_end_of_pairs(struct scan *s, size_t i)
{
	return s->n > i + 1 ? scan_end(s, i, PAIRS_END) : scan_word(s, i, PAIRS_END);
}

size_t read_pairs(struct scan *s, size_t i, const struct call_way *way, const struct json *tools,
		  struct calls *calls)
{
	struct arguments a = {0};
	bool known;
	size_t name = scan_space(s, i + strlen(way->begin)), name_end = scan_name(s, name);
	i = scan_space(s, name_end);
	if (scan_word(s, i, PAIRS_SEPARATOR))
		i = scan_space(s, i + strlen(PAIRS_SEPARATOR));
	if (s->state == SCAN_GOOD)
		a.properties = tool_properties(tools, s->bytes + name, name_end - name, &known);
	while (scan_word(s, i, PAIRS_KEY))
		i = scan_pair(s, i, &a);
	/* Of a text that was cut off, another argument may have followed. */
	if (a.count == 0 || s->cut || scan_at(s, i) >= 0) {
		if (!scan_end_of_pairs(s, i))
			scan_fail(s);
		i += strlen(PAIRS_END);
	}
	if (s->state == SCAN_GOOD && !arguments_call(&a, s->bytes + name, name_end - name, calls))
		scan_fail(s);
	arguments_free(&a);
	return i;
}

/* ---- a name and an object ---- */

struct part {
	size_t at, n;
};

/* The object at i, alone or in a fence behind a name. */
static size_t scan_named_object(struct scan *s, size_t i, const struct named_words *w,
				struct part *name, struct part *object)
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

/* Of functions.NAME:0 the NAME. */
static void strip_number(const char *text, struct part *name)
{
	static const char KIND[] = "functions.";
	size_t kind = sizeof KIND - 1, end = name->n;
	if (name->n > kind && memcmp(text + name->at, KIND, kind) == 0) {
		name->at += kind;
		name->n -= kind;
		end -= kind;
	}
	while (end > 1 && strchr("0123456789", text[name->at + end - 1]))
		end--;
	if (end > 1 && end < name->n && text[name->at + end - 1] == ':')
		name->n = end - 1;
}

static bool append_named(const char *text, struct part name, struct part object, struct part id,
			 bool numbered, struct calls *calls)
{
	struct text_out named = {0}, arguments = {0};
	struct json *parsed = NULL;
	struct err ignored = {0};
	if (json_parse_text(&parsed, text + object.at, object.n, "arguments", &ignored) < 0)
		return false;
	text_out_add(&named, text + name.at, name.n);
	text_out_json(&arguments, parsed);
	json_free(parsed);
	if (!calls_append(calls, &named, &arguments))
		return false;
	if (!calls->failed && (numbered || is_short_id(text + id.at, id.n)))
		calls_give_id(calls, text + id.at, id.n);
	return true;
}

size_t read_named_call(struct scan *s, size_t i, const struct call_way *way,
		       const struct json *tools, struct calls *calls)
{
	const struct named_words *w = way->named;
	struct part name = {0}, object = {0}, id = {0};
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
	i = scan_named_object(s, i, w, &name, &object);
	size_t next = w->end ? scan_space(s, i) : i;
	bool closed = w->end && scan_end(s, next, w->end);
	if (w->end && !closed && scan_at(s, next) >= 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (w->numbered) {
		id = name;
		strip_number(s->bytes, &name);
	}
	if (!append_named(s->bytes, name, object, id, w->numbered, calls))
		scan_fail(s);
	return closed ? next + strlen(w->end) : i;
}
