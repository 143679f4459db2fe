/* Reads calls in tags: functions with parameters (Qwen and similar families), and keys and values
 * (GLM). */
#include "engine/answer/split_forms.h"

#include "engine/answer/split_calls.h"

#include <string.h>

/* A name or key, and the type that its attributes give the value. */
struct tags_head {
	const char *text;
	size_t n;
	enum { BY_SCHEMA, AS_TEXT, AS_VALUE } type;
};

static bool tags_holds(const char *text, size_t n, const char *word)
{
	return word && memmem(text, n, word, strlen(word));
}

/* Reads the name or key at i and returns the offset after its tag. */
static size_t tags_read_head(struct split_scan *s, size_t i, const struct tag_words *w,
			     struct tags_head *h)
{
	size_t to = scan_until(s, i, w->stop[0], "<\n");
	size_t end = w->stop[0] == '>' ? to : scan_until(s, to + 1, '>', "<\n");
	if (s->state != SCAN_GOOD || to == i) {
		scan_fail(s);
		return i;
	}
	*h = (struct tags_head){.text = s->bytes + i, .n = to - i};
	const char *rest = s->bytes + to;
	h->type = tags_holds(rest, end - to, w->as_text)    ? AS_TEXT
		  : tags_holds(rest, end - to, w->as_value) ? AS_VALUE
							    : BY_SCHEMA;
	return end + 1;
}

/* Writes a value as JSON, by the attributes of its tag or by the schema. */
static void tags_write_value(struct text_out *o, const struct tags_head *h, const char *value,
			     size_t n, const struct tag_words *w, const struct json *schema)
{
	char first;
	if (h->type == AS_TEXT || (h->type == AS_VALUE && !scan_is_json(value, n, &first)))
		text_out_json_text(o, value, n);
	else if (h->type == AS_VALUE)
		text_out_add(o, value, n);
	else if (!w->python || !python_write_by_schema(o, value, n, schema))
		calls_write_by_schema(o, value, n, schema);
}

/* Whether the parameter at i is another argument of the call, so that the model forgot the end tag
 * of the value before. */
static bool tags_begins_another(struct split_scan *s, size_t i, const struct tag_words *w,
				const struct arguments *a, const struct tags_head *h)
{
	struct split_scan ahead = *s;
	struct tags_head other = {0};
	tags_read_head(&ahead, i + strlen(w->parameter), w, &other);
	if (ahead.state == SCAN_MORE)
		s->state = SCAN_MORE;
	if (ahead.state != SCAN_GOOD)
		return false;
	bool same = other.n == h->n && memcmp(other.text, h->text, h->n) == 0;
	return !same && calls_property_schema(a->properties, other.text, other.n) &&
	       !call_arguments_have(a, other.text, other.n);
}

/* Tags that are open inside a value: functions and their parameters. */
struct tags_opened {
	size_t functions, parameters;
};

/* Whether the end tag of a parameter at i ends the value; *next: the offset to read on from. */
static bool tags_closes_parameter(struct split_scan *s, size_t i, const struct tag_words *w,
				  struct tags_opened *o, size_t *next)
{
	if (o->parameters > 0) {
		o->parameters--;
		return false;
	}
	*next = scan_space(s, i + strlen(w->parameter_end));
	return scan_word(s, *next, w->parameter) || scan_word(s, *next, w->function_end) ||
	       scan_word(s, *next, w->end);
}

static bool tags_closes_function(struct split_scan *s, size_t i, const struct tag_words *w,
				 struct tags_opened *o, size_t *next)
{
	if (o->functions > 0) {
		o->functions--;
		return false;
	}
	*next = i;
	size_t behind = scan_space(s, i + strlen(w->function_end));
	return (!s->cut && scan_at(s, behind) < 0) || scan_end(s, behind, w->end);
}

/* Returns the end of the value at i; *next: the offset to read on from. */
static size_t tags_argument(struct split_scan *s, size_t i, const struct tag_words *w,
			    const struct arguments *a, const struct tags_head *h, size_t *next)
{
	struct tags_opened o = {0};
	for (size_t start = i;; i++) {
		int c = scan_at(s, i);
		if (c < 0)
			scan_fail(s);
		if (s->state != SCAN_GOOD)
			return i;
		bool line = i == start || s->bytes[i - 1] == '\n', ends = false;
		if (c != '<')
			continue;
		if (scan_word(s, i, w->parameter_end))
			ends = tags_closes_parameter(s, i, w, &o, next);
		else if (scan_word(s, i, w->function_end))
			ends = tags_closes_function(s, i, w, &o, next);
		else if (line && scan_word(s, i, w->function))
			o.functions++;
		else if (line && scan_word(s, i, w->parameter)) {
			*next = i;
			if (o.functions > 0)
				o.parameters++;
			else
				ends = tags_begins_another(s, i, w, a, h);
		}
		if (s->state != SCAN_GOOD || ends)
			return i;
	}
}

/* Removes one newline from each end. */
static void tags_trim_lines(const char **value, size_t *n)
{
	size_t first = *n > 0 && (*value)[0] == '\n'			      ? 1
		       : *n > 1 && (*value)[0] == '\r' && (*value)[1] == '\n' ? 2
									      : 0;
	*value += first;
	*n -= first;
	if (*n > 0 && (*value)[*n - 1] == '\n')
		*n -= *n > 1 && (*value)[*n - 2] == '\r' ? 2 : 1;
}

static size_t tags_parameters(struct split_scan *s, size_t i, const struct tag_words *w,
			      struct arguments *a)
{
	while (scan_word(s, i, w->parameter)) {
		struct tags_head h = {0};
		size_t from = tags_read_head(s, i + strlen(w->parameter), w, &h);
		size_t end = s->state == SCAN_GOOD ? tags_argument(s, from, w, a, &h, &i) : from;
		if (s->state != SCAN_GOOD)
			return i;
		const char *value = s->bytes + from;
		size_t n = end - from;
		if (w->lines)
			tags_trim_lines(&value, &n);
		struct text_out *o = call_arguments_add(a, h.text, h.n);
		if (o)
			tags_write_value(o, &h, value, n, w,
					 calls_property_schema(a->properties, h.text, h.n));
		i = scan_space(s, i);
	}
	return i;
}

/* Reads FUNCTION ... FUNCTION_END. In a block (`wrapped`) the block's end also ends the function.
 */
static size_t tags_function(struct split_scan *s, size_t i, const struct tag_words *w,
			    const struct json *tools, bool wrapped, struct calls *calls)
{
	struct arguments a = {0};
	struct tags_head h = {0};
	bool known;
	i = tags_read_head(s, i + strlen(w->function), w, &h);
	if (s->state == SCAN_GOOD && !call_is_name(h.text, h.n))
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	a.properties = calls_tool_properties(tools, h.text, h.n, &known);
	i = tags_parameters(s, scan_space(s, i), w, &a);
	if (scan_word(s, i, w->function_end))
		i += strlen(w->function_end);
	else if (!wrapped || !scan_word(s, i, w->end))
		scan_fail(s);
	if (s->state == SCAN_GOOD && !call_arguments_append(&a, h.text, h.n, calls))
		scan_fail(s);
	call_arguments_free(&a);
	return i;
}

size_t tags_read_functions(struct split_scan *s, size_t i, const struct call_way *way,
			   const struct json *tools, struct calls *calls)
{
	const struct tag_words *w = way->tags;
	i = scan_space(s, i + strlen(way->begin));
	do {
		if (!scan_word(s, i, w->function))
			scan_fail(s);
		if (s->state == SCAN_GOOD)
			i = scan_space(s, tags_function(s, i, w, tools, true, calls));
		if (scan_end(s, i, w->end))
			return i + strlen(w->end);
	} while (s->state == SCAN_GOOD && scan_at(s, i) >= 0);
	return i;
}

size_t tags_read_bare_function(struct split_scan *s, size_t i, const struct call_way *way,
			       const struct json *tools, struct calls *calls)
{
	const struct tag_words *w = way->tags;
	struct tags_head h = {0};
	bool known = false;
	tags_read_head(s, i + strlen(w->function), w, &h);
	if (s->state != SCAN_GOOD)
		return i;
	calls_tool_properties(tools, h.text, h.n, &known);
	if (!known)
		scan_fail(s);
	i = s->state == SCAN_GOOD ? tags_function(s, i, w, tools, false, calls) : i;
	size_t behind = scan_space(s, i);
	bool closed = scan_end(s, behind, w->end);
	return closed ? behind + strlen(w->end) : i;
}

size_t tags_read_function(struct split_scan *s, size_t i, const struct call_way *way,
			  const struct json *tools, struct calls *calls)
{
	return tags_function(s, i, way->tags, tools, true, calls);
}

/* ---- GLM's keys and values ---- */

/* The end of the value at i: an end tag that is followed by a key, the call's end or the text's
 * end. */
static size_t tags_pair_value(struct split_scan *s, size_t i, size_t *next)
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

static size_t tags_pair(struct split_scan *s, size_t i, struct arguments *a)
{
	size_t key = i + strlen(PAIRS_KEY), key_end = scan_until(s, key, '<', "\n");
	size_t value =
		scan_over(s, scan_space(s, scan_over(s, key_end, PAIRS_KEY_END)), PAIRS_VALUE);
	size_t end = tags_pair_value(s, value, &i);
	if (key_end == key)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	const char *name = s->bytes + key;
	struct text_out *o = call_arguments_add(a, name, key_end - key);
	if (o)
		calls_write_by_schema(o, s->bytes + value, end - value,
				      calls_property_schema(a->properties, name, key_end - key));
	return i;
}

size_t tags_read_pairs(struct split_scan *s, size_t i, const struct call_way *way,
		       const struct json *tools, struct calls *calls)
{
	struct arguments a = {0};
	bool known;
	size_t name = scan_space(s, i + strlen(way->begin)), name_end = scan_name(s, name);
	i = scan_space(s, name_end);
	if (scan_word(s, i, PAIRS_SEPARATOR))
		i = scan_space(s, i + strlen(PAIRS_SEPARATOR));
	if (s->state == SCAN_GOOD)
		a.properties =
			calls_tool_properties(tools, s->bytes + name, name_end - name, &known);
	while (scan_word(s, i, PAIRS_KEY))
		i = tags_pair(s, i, &a);
	/* Of a text that was cut off, another argument may have followed. */
	if (a.count == 0 || s->cut || scan_at(s, i) >= 0) {
		/* In a text that was cut off, a beginning of the end mark is enough, but not of one
		 * byte: a key begins with the same byte. */
		if (!(s->n > i + 1 ? scan_end(s, i, PAIRS_END) : scan_word(s, i, PAIRS_END)))
			scan_fail(s);
		i += strlen(PAIRS_END);
	}
	if (s->state == SCAN_GOOD &&
	    !call_arguments_append(&a, s->bytes + name, name_end - name, calls))
		scan_fail(s);
	call_arguments_free(&a);
	return i;
}
