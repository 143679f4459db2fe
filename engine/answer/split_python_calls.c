#include "engine/answer/split_python_calls.h"

#include "engine/answer/split_arguments.h"
#include "engine/answer/split_python.h"

#include <string.h>

static bool is_name_byte(int c)
{
	return is_key_byte(c) || c == '-' || c == '.';
}

static size_t scan_function_name(struct scan *s, size_t i)
{
	size_t from = i;
	while (is_name_byte(scan_at(s, i)))
		i++;
	if (i == from)
		scan_fail(s);
	return i;
}

/* KEY=VALUE and what separates it from the next. */
static size_t scan_keyword(struct scan *s, size_t i, struct arguments *a)
{
	size_t key = i, key_end = scan_function_name(s, i);
	i = scan_space(s, key_end);
	if (scan_at(s, i) != '=')
		scan_fail(s);
	i = scan_space(s, i + 1);
	struct text_out *o =
		s->state == SCAN_GOOD ? arguments_add(a, s->bytes + key, key_end - key) : NULL;
	if (!o)
		return i;
	i = begins_text(s, i, NULL) ? scan_text(s, i, NULL, true, o) : scan_python(s, i, NULL, o);
	i = scan_space(s, i);
	if (scan_at(s, i) == ',')
		return scan_space(s, i + 1);
	if (scan_at(s, i) != ')')
		scan_fail(s);
	return i;
}

/* NAME(...); `suffix`: what may stand behind the name and is none of it. */
static size_t scan_python_call(struct scan *s, size_t i, const char *suffix,
			       const struct json *tools, struct calls *calls)
{
	struct arguments a = {0};
	bool known = true;
	size_t name = i, n = (i = scan_function_name(s, i)) - name,
	       tail = suffix ? strlen(suffix) : 0;
	if (scan_at(s, i) != '(')
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (n > tail && tail > 0 && memcmp(s->bytes + i - tail, suffix, tail) == 0)
		n -= tail;
	if (tools)
		tool_properties(tools, s->bytes + name, n, &known);
	i = scan_space(s, i + 1);
	while (s->state == SCAN_GOOD && scan_at(s, i) != ')' && !a.failed)
		i = scan_keyword(s, i, &a);
	if (!known || (s->state == SCAN_GOOD && !arguments_call(&a, s->bytes + name, n, calls)))
		scan_fail(s);
	arguments_free(&a);
	return i + 1;
}

size_t read_python_calls(struct scan *s, size_t i, const struct call_way *way,
			 const struct json *tools, struct calls *calls)
{
	static const char FENCE[] = "```python", FENCE_END[] = "```";
	const struct python_words *w = way->python;
	bool marked = strcmp(way->begin, "[") != 0;
	i = scan_space(s, marked ? i + strlen(way->begin) : i);
	bool fenced = scan_word(s, i, FENCE);
	i = fenced ? scan_space(s, i + strlen(FENCE)) : i;
	bool list = scan_at(s, i) == '[';
	i = list ? scan_space(s, i + 1) : i;
	do {
		i = scan_space(s, scan_python_call(s, i, w->call, marked ? NULL : tools, calls));
		if (scan_at(s, i) == ',')
			i = scan_space(s, i + 1);
	} while (s->state == SCAN_GOOD && is_name_byte(scan_at(s, i)));
	if (list && scan_at(s, i) != ']')
		scan_fail(s);
	i = list ? scan_space(s, i + 1) : i;
	if (fenced && !scan_word(s, i, FENCE_END))
		scan_fail(s);
	i = fenced ? scan_space(s, i + strlen(FENCE_END)) : i;
	if (w->end && scan_end(s, i, w->end))
		return i + strlen(w->end);
	if (scan_at(s, i) >= 0)
		scan_fail(s);
	return i;
}

size_t read_brace_call(struct scan *s, size_t i, const struct call_way *way,
		       const struct json *tools, struct calls *calls)
{
	const struct python_words *w = way->python;
	struct text_out name = {0}, arguments = {0};
	(void)tools;
	i = scan_space(s, i + strlen(way->begin));
	if (!scan_word(s, i, w->call))
		scan_fail(s);
	size_t from = i + strlen(w->call);
	i = scan_function_name(s, from);
	if (scan_at(s, i) != '{')
		scan_fail(s);
	if (s->state == SCAN_GOOD)
		text_out_add(&name, s->bytes + from, i - from);
	i = scan_space(s, scan_python(s, i, w->quote, &arguments));
	bool closed = scan_end(s, i, w->end);
	if (!closed && scan_at(s, i) >= 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD) {
		text_out_free(&name);
		text_out_free(&arguments);
	} else if (!calls_append(calls, &name, &arguments))
		scan_fail(s);
	return closed ? i + strlen(w->end) : i;
}
