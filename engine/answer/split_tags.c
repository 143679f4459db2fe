#include "engine/answer/split_tags.h"

#include "engine/answer/split_arguments.h"
#include "engine/answer/split_python.h"

#include <string.h>

/* Where a name or key is, and how its value is meant. */
struct head {
	const char *text;
	size_t n;
	enum { BY_SCHEMA, AS_TEXT, AS_VALUE } type;
};

static bool holds(const char *text, size_t n, const char *word)
{
	return word && memmem(text, n, word, strlen(word));
}

/* The name or key at i; returns the place behind its tag. */
static size_t scan_head(struct scan *s, size_t i, const struct tag_words *w, struct head *h)
{
	size_t to = scan_until(s, i, w->stop[0], "<\n");
	size_t end = w->stop[0] == '>' ? to : scan_until(s, to + 1, '>', "<\n");
	if (s->state != SCAN_GOOD || to == i) {
		scan_fail(s);
		return i;
	}
	*h = (struct head){.text = s->bytes + i, .n = to - i};
	const char *rest = s->bytes + to;
	h->type = holds(rest, end - to, w->as_text)    ? AS_TEXT
		  : holds(rest, end - to, w->as_value) ? AS_VALUE
						       : BY_SCHEMA;
	return end + 1;
}

/* A value that is all JSON is written as it is; one that is none is a text. */
static void write_value(struct text_out *o, const struct head *h, const char *value, size_t n,
			const struct tag_words *w, const struct json *schema)
{
	char first;
	if (h->type == AS_TEXT || (h->type == AS_VALUE && !is_json(value, n, &first)))
		text_out_json_text(o, value, n);
	else if (h->type == AS_VALUE)
		text_out_add(o, value, n);
	else if (!w->python || !write_python_by_schema(o, value, n, schema))
		write_by_schema(o, value, n, schema);
}

/* Whether a parameter at i begins another argument of the call: its value's end was forgotten. */
static bool begins_another(struct scan *s, size_t i, const struct tag_words *w,
			   const struct arguments *a, const struct head *h)
{
	struct scan ahead = *s;
	struct head other = {0};
	scan_head(&ahead, i + strlen(w->parameter), w, &other);
	if (ahead.state == SCAN_MORE)
		s->state = SCAN_MORE;
	if (ahead.state != SCAN_GOOD)
		return false;
	bool same = other.n == h->n && memcmp(other.text, h->text, h->n) == 0;
	return !same && property_schema(a->properties, other.text, other.n) &&
	       !arguments_have(a, other.text, other.n);
}

/* What a value itself opens: functions, and parameters of those. */
struct opened {
	size_t functions, parameters;
};

/* Whether the value ends at the closing tag of a parameter; sets where reading goes on. */
static bool closes_parameter(struct scan *s, size_t i, const struct tag_words *w, struct opened *o,
			     size_t *next)
{
	if (o->parameters > 0) {
		o->parameters--;
		return false;
	}
	*next = scan_space(s, i + strlen(w->parameter_end));
	return scan_word(s, *next, w->parameter) || scan_word(s, *next, w->function_end) ||
	       scan_word(s, *next, w->end);
}

static bool closes_function(struct scan *s, size_t i, const struct tag_words *w, struct opened *o,
			    size_t *next)
{
	if (o->functions > 0) {
		o->functions--;
		return false;
	}
	*next = i;
	size_t behind = scan_space(s, i + strlen(w->function_end));
	return (!s->cut && scan_at(s, behind) < 0) || scan_end(s, behind, w->end);
}

/* The end of the value at i, and where reading goes on. */
static size_t scan_argument(struct scan *s, size_t i, const struct tag_words *w,
			    const struct arguments *a, const struct head *h, size_t *next)
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
		if (scan_word(s, i, w->parameter_end))
			ends = closes_parameter(s, i, w, &o, next);
		else if (scan_word(s, i, w->function_end))
			ends = closes_function(s, i, w, &o, next);
		else if (line && scan_word(s, i, w->function))
			o.functions++;
		else if (line && scan_word(s, i, w->parameter)) {
			*next = i;
			if (o.functions > 0)
				o.parameters++;
			else
				ends = begins_another(s, i, w, a, h);
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

static size_t scan_parameters(struct scan *s, size_t i, const struct tag_words *w,
			      struct arguments *a)
{
	while (scan_word(s, i, w->parameter)) {
		struct head h = {0};
		size_t from = scan_head(s, i + strlen(w->parameter), w, &h);
		size_t end = s->state == SCAN_GOOD ? scan_argument(s, from, w, a, &h, &i) : from;
		if (s->state != SCAN_GOOD)
			return i;
		const char *value = s->bytes + from;
		size_t n = end - from;
		if (w->lines)
			trim_lines(&value, &n);
		struct text_out *o = arguments_add(a, h.text, h.n);
		if (o)
			write_value(o, &h, value, n, w,
				    property_schema(a->properties, h.text, h.n));
		i = scan_space(s, i);
	}
	return i;
}

/* FUNCTION ... FUNCTION_END; inside a block its end ends the function as well. */
static size_t scan_function(struct scan *s, size_t i, const struct tag_words *w,
			    const struct json *tools, bool wrapped, struct calls *calls)
{
	struct arguments a = {0};
	struct head h = {0};
	bool known;
	i = scan_head(s, i + strlen(w->function), w, &h);
	if (s->state == SCAN_GOOD && !is_call_name(h.text, h.n))
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	a.properties = tool_properties(tools, h.text, h.n, &known);
	i = scan_parameters(s, scan_space(s, i), w, &a);
	if (scan_word(s, i, w->function_end))
		i += strlen(w->function_end);
	else if (!wrapped || !scan_word(s, i, w->end))
		scan_fail(s);
	if (s->state == SCAN_GOOD && !arguments_call(&a, h.text, h.n, calls))
		scan_fail(s);
	arguments_free(&a);
	return i;
}

size_t read_functions(struct scan *s, size_t i, const struct call_way *way,
		      const struct json *tools, struct calls *calls)
{
	const struct tag_words *w = way->tags;
	i = scan_space(s, i + strlen(way->begin));
	do {
		if (!scan_word(s, i, w->function))
			scan_fail(s);
		if (s->state == SCAN_GOOD)
			i = scan_space(s, scan_function(s, i, w, tools, true, calls));
		if (scan_end(s, i, w->end))
			return i + strlen(w->end);
	} while (s->state == SCAN_GOOD && scan_at(s, i) >= 0);
	return i;
}

size_t read_bare_function(struct scan *s, size_t i, const struct call_way *way,
			  const struct json *tools, struct calls *calls)
{
	const struct tag_words *w = way->tags;
	struct head h = {0};
	bool known = false;
	scan_head(s, i + strlen(w->function), w, &h);
	if (s->state != SCAN_GOOD)
		return i;
	tool_properties(tools, h.text, h.n, &known);
	if (!known)
		scan_fail(s);
	i = s->state == SCAN_GOOD ? scan_function(s, i, w, tools, false, calls) : i;
	size_t behind = scan_space(s, i);
	bool closed = scan_end(s, behind, w->end);
	return closed ? behind + strlen(w->end) : i;
}

size_t read_function(struct scan *s, size_t i, const struct call_way *way, const struct json *tools,
		     struct calls *calls)
{
	return scan_function(s, i, way->tags, tools, true, calls);
}
