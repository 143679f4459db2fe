/* Methods of texts, lists and objects: those of Python that do not change the value. */
#include "engine/template/template_operators.h"
#include "engine/template/template_call.h"
#include "engine/template/template_text.h"
#include "cache/utf8.h"

#include <errno.h>
#include <string.h>

/* ---- texts ---- */

CALL_OF(method_strip, text_strip(r, v, a[0], AT_START | AT_END))
CALL_OF(method_lstrip, text_strip(r, v, a[0], AT_START))
CALL_OF(method_rstrip, text_strip(r, v, a[0], AT_END))
CALL_OF(method_lower, text_in_case(r, v, LOWER))
CALL_OF(method_upper, text_in_case(r, v, UPPER))
CALL_OF(method_title, text_in_case(r, v, TITLE))
CALL_OF(method_capitalize, text_in_case(r, v, CAPITAL))

CALL(method_replace)
{
	struct value old, new;
	if (!call_text_argument(r, a[0], &old) || !call_text_argument(r, a[1], &new))
		return NONE;
	return text_replace(r, v, &old, &new, call_integer_or(r, a[2], -1));
}

/* Splits at runs of white space; none begins or ends a part. */
static struct value method_split_words(struct template_run *r, const struct value *self,
				       int64_t times)
{
	struct value parts = value_list(r, V_LIST), rest = text_strip(r, self, NULL, AT_START);
	while (!r->failed && rest.n > 0) {
		size_t end = 0, step;
		for (; times != 0 && end < rest.n; end += step)
			if (value_is_space(utf8_decode(rest.text.bytes + end, &step)))
				break;
		if (times == 0) {
			value_append(r, parts.list, text_strip(r, &rest, NULL, AT_END));
			break;
		}
		value_append(r, parts.list, value_text_slice(&rest, 0, end));
		rest = value_text_slice(&rest, end, rest.n);
		rest = text_strip(r, &rest, NULL, AT_START);
		times -= times > 0;
	}
	return parts;
}

CALL(method_split)
{
	int64_t times = call_integer_or(r, a[1], -1);
	struct value by, parts;
	if (!a[0] || a[0]->kind == V_NONE)
		return method_split_words(r, v, times);
	if (!call_text_argument(r, a[0], &by))
		return NONE;
	if (by.n == 0)
		return template_fail(r, EINVAL, "split with an empty separator");
	parts = value_list(r, V_LIST);
	size_t at = 0;
	for (; !r->failed && times != 0; times -= times > 0) {
		size_t found = value_text_find(r, v, at, &by);
		if (found == v->n)
			break;
		value_append(r, parts.list, value_text_slice(v, at, found));
		at = found + by.n;
	}
	value_append(r, parts.list, value_text_slice(v, at, v->n));
	return parts;
}

/* The place of the last `by` in text[0 .. end); `end` if there is none. */
static size_t method_find_last(struct template_run *r, const struct value *text, size_t end,
			       const struct value *by)
{
	size_t at = end >= by->n ? end - by->n + 1 : 0;
	for (; at > 0 && template_work(r, 1 + by->n / 64); at--)
		if (memcmp(text->text.bytes + at - 1, by->text.bytes, by->n) == 0)
			return at - 1;
	return end;
}

CALL(method_rsplit)
{
	int64_t times = call_integer_or(r, a[1], -1);
	struct value by, from_end, parts;
	if (!a[0] || a[0]->kind == V_NONE || times < 0)
		return method_split(r, v, a);
	if (!call_text_argument(r, a[0], &by))
		return NONE;
	if (by.n == 0)
		return template_fail(r, EINVAL, "split with an empty separator");
	from_end = value_list(r, V_LIST);
	parts = value_list(r, V_LIST);
	size_t end = v->n;
	for (; !r->failed && times > 0; times--) {
		size_t at = method_find_last(r, v, end, &by);
		if (at == end)
			break;
		value_append(r, from_end.list, value_text_slice(v, at + by.n, end));
		end = at;
	}
	value_append(r, parts.list, value_text_slice(v, 0, end));
	for (size_t i = r->failed ? 0 : from_end.list->count; i > 0; i--)
		value_append(r, parts.list, from_end.list->items[i - 1]);
	return parts;
}

/* Splits at line ends: \n, \r, both, and others that Python knows. */
CALL(method_splitlines)
{
	struct value lines = value_list(r, V_LIST);
	bool keep = call_truth_or(a[0], false);
	size_t at = 0;
	for (size_t i = 0, step; i < v->n && !r->failed; i += step) {
		uint32_t c = utf8_decode(v->text.bytes + i, &step);
		bool ends = (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
			    c == 0x2028 || c == 0x2029;
		if (!ends)
			continue;
		size_t end = i;
		if (c == '\r' && i + 1 < v->n && v->text.bytes[i + 1] == '\n')
			step = 2;
		value_append(r, lines.list, value_text_slice(v, at, keep ? i + step : end));
		at = i + step;
	}
	if (at < v->n)
		value_append(r, lines.list, value_text_slice(v, at, v->n));
	return lines;
}

static bool method_is_text_at(struct template_run *r, const struct value *self,
			      const struct value *what, bool at_end)
{
	struct value text;
	if (!call_text_argument(r, what, &text) || text.n > self->n ||
	    !template_work(r, 1 + text.n / 64))
		return false;
	const char *from = self->text.bytes + (at_end ? self->n - text.n : 0);
	return memcmp(from, text.text.bytes, text.n) == 0;
}

/* Whether the value begins or ends with a text, or with one of a tuple. */
static struct value method_is_at(struct template_run *r, const struct value *self,
				 const struct value *what, bool at_end)
{
	if (what->kind == V_TUPLE) {
		for (size_t i = 0; !r->failed && i < what->list->count; i++)
			if (method_is_text_at(r, self, &what->list->items[i], at_end))
				return value_bool(true);
		return value_bool(false);
	}
	return value_bool(method_is_text_at(r, self, what, at_end));
}

CALL(method_startswith)
{
	struct value rest = a[1] ? operator_slice(r, v, a[1], NULL, NULL) : *v;
	return r->failed ? NONE : method_is_at(r, &rest, a[0], false);
}

CALL_OF(method_endswith, method_is_at(r, v, a[0], true))

CALL(method_find)
{
	struct value part;
	if (!call_text_argument(r, a[0], &part))
		return NONE;
	size_t at = value_text_find(r, v, 0, &part);
	struct value before = value_text_slice(v, 0, at);
	bool none = at == v->n && part.n > 0;
	return value_int(none ? -1 : (int64_t)value_text_length(&before));
}

CALL(method_count)
{
	struct value part;
	int64_t n = 0;
	if (!call_text_argument(r, a[0], &part))
		return NONE;
	if (part.n == 0)
		return value_int((int64_t)value_text_length(v) + 1);
	for (size_t at = 0; !r->failed && (at = value_text_find(r, v, at, &part)) < v->n;
	     at += part.n)
		n++;
	return value_int(n);
}

CALL(method_join)
{
	struct value items = value_items(r, a[0]), text;
	for (size_t i = 0; !r->failed && i < items.list->count; i++)
		call_text_argument(r, &items.list->items[i], &text);
	return r->failed ? NONE : text_join(r, v, &items);
}

CALL(method_partition)
{
	struct value by, parts = value_list(r, V_TUPLE);
	if (!call_text_argument(r, a[0], &by))
		return NONE;
	size_t at = by.n > 0 ? value_text_find(r, v, 0, &by) : v->n;
	size_t end = at < v->n ? at + by.n : at;
	value_append(r, parts.list, value_text_slice(v, 0, at));
	value_append(r, parts.list, value_text_slice(v, at, end));
	value_append(r, parts.list, value_text_slice(v, end, v->n));
	return parts;
}

CALL(method_removeprefix)
{
	bool there = method_is_at(r, v, a[0], false).truth;
	return there && !r->failed ? value_text_slice(v, a[0]->n, v->n) : *v;
}

CALL(method_removesuffix)
{
	bool there = method_is_at(r, v, a[0], true).truth;
	return there && !r->failed ? value_text_slice(v, 0, v->n - a[0]->n) : *v;
}

CALL(method_isdigit)
{
	bool all = v->n > 0;
	for (uint32_t i = 0; i < v->n; i++)
		all = all && v->text.bytes[i] >= '0' && v->text.bytes[i] <= '9';
	return value_bool(all);
}

/* Pads with `before` and `behind` copies of a text. */
static struct value method_padded(struct template_run *r, const struct value *self, int64_t before,
				  int64_t behind, const struct value *with)
{
	struct writer w = {0};
	for (int64_t i = 0; i < before && !r->failed; i++)
		value_write_bytes(r, &w, with->text.bytes, with->text.from, with->n);
	value_write_bytes(r, &w, self->text.bytes, self->text.from, self->n);
	for (int64_t i = 0; i < behind && !r->failed; i++)
		value_write_bytes(r, &w, with->text.bytes, with->text.from, with->n);
	return value_written(r, &w);
}

static struct value method_pad(struct template_run *r, const struct value *self,
			       const struct value *const *a, int half)
{
	struct value with = value_literal(" ");
	int64_t missing = call_integer_or(r, a[0], 0) - (int64_t)value_text_length(self);
	if (a[1] && !call_text_argument(r, a[1], &with))
		return NONE;
	if (missing <= 0)
		return *self;
	int64_t before = half == 0 ? 0 : half == 2 ? missing : missing / 2;
	return method_padded(r, self, before, missing - before, &with);
}

CALL_OF(method_center, method_pad(r, v, a, 1))
CALL_OF(method_ljust, method_pad(r, v, a, 0))
CALL_OF(method_rjust, method_pad(r, v, a, 2))

CALL(method_zfill)
{
	struct value zero = value_literal("0");
	int64_t missing = call_integer_or(r, a[0], 0) - (int64_t)value_text_length(v);
	bool sign = v->n > 0 && (v->text.bytes[0] == '-' || v->text.bytes[0] == '+');
	if (missing <= 0)
		return *v;
	struct value head = value_text_slice(v, 0, sign), rest = value_text_slice(v, sign, v->n);
	rest = method_padded(r, &rest, missing, 0, &zero);
	return operator_concatenate(r, &head, &rest);
}

/* Fills in "{} {0} {name}"; nothing more of Python's format. */
static struct value method_format(struct template_run *r, const struct value *self,
				  const struct call_arguments *args)
{
	struct writer w = {0};
	size_t next = 0;
	for (uint32_t i = 0; i < self->n && !r->failed; i++) {
		const char *at = self->text.bytes + i;
		bool doubled = i + 1 < self->n && at[0] == at[1];
		if ((*at != '{' && *at != '}') || doubled) {
			value_write_bytes(r, &w, at, self->text.from + i, 1);
			i += doubled && (*at == '{' || *at == '}');
			continue;
		}
		const char *close = *at == '{' ? memchr(at, '}', self->n - i) : NULL;
		if (!close)
			return template_fail(r, EINVAL, "a single { or } in a format");
		size_t n = (size_t)(close - at - 1);
		const struct value *v = NULL;
		if (n == 0 && next < args->count)
			v = &args->items[next++];
		else if (n == 1 && at[1] >= '0' && at[1] <= '9' &&
			 (size_t)(at[1] - '0') < args->count)
			v = &args->items[at[1] - '0'];
		else if (n > 0)
			v = call_named(args, at + 1, n);
		if (!v)
			return template_fail(r, EINVAL, "no argument for {%.*s} of a format",
					     (int)(n < 40 ? n : 40), at + 1);
		text_print(r, &w, v);
		i += (uint32_t)n + 1;
	}
	return value_written(r, &w);
}

const struct function TEXT_METHODS[] = {
	FUNCTION("strip", method_strip, 0, "chars"),
	FUNCTION("lstrip", method_lstrip, 0, "chars"),
	FUNCTION("rstrip", method_rstrip, 0, "chars"),
	FUNCTION("split", method_split, 0, "sep", "maxsplit"),
	FUNCTION("rsplit", method_rsplit, 0, "sep", "maxsplit"),
	FUNCTION("splitlines", method_splitlines, 0, "keepends"),
	FUNCTION("startswith", method_startswith, 1, "prefix", "start"),
	FUNCTION("endswith", method_endswith, 1, "suffix"),
	FUNCTION("replace", method_replace, 2, "old", "new", "count"),
	FUNCTION("lower", method_lower, 0),
	FUNCTION("upper", method_upper, 0),
	FUNCTION("title", method_title, 0),
	FUNCTION("capitalize", method_capitalize, 0),
	FUNCTION("find", method_find, 1, "sub"),
	FUNCTION("count", method_count, 1, "sub"),
	FUNCTION("join", method_join, 1, "iterable"),
	FUNCTION("partition", method_partition, 1, "sep"),
	FUNCTION("removeprefix", method_removeprefix, 1, "prefix"),
	FUNCTION("removesuffix", method_removesuffix, 1, "suffix"),
	FUNCTION("isdigit", method_isdigit, 0),
	FUNCTION("center", method_center, 1, "width", "fillchar"),
	FUNCTION("ljust", method_ljust, 1, "width", "fillchar"),
	FUNCTION("rjust", method_rjust, 1, "width", "fillchar"),
	FUNCTION("zfill", method_zfill, 1, "width"),
	{.name = "format", .call_any = method_format},
	{.name = NULL},
};

/* ---- lists ---- */

CALL(method_list_count)
{
	int64_t n = 0;
	for (size_t i = 0; !r->failed && i < v->list->count; i++)
		n += value_equal(r, &v->list->items[i], a[0]);
	return value_int(n);
}

CALL(method_list_index)
{
	for (size_t i = 0; !r->failed && i < v->list->count; i++)
		if (value_equal(r, &v->list->items[i], a[0]))
			return value_int((int64_t)i);
	return template_fail(r, EINVAL, "index(): the item is not in the list");
}

CALL(method_copy)
{
	return *v; /* lists never change */
}

const struct function LIST_METHODS[] = {
	FUNCTION("count", method_list_count, 1, "value"),
	FUNCTION("index", method_list_index, 1, "value"),
	FUNCTION("copy", method_copy, 0),
	{.name = NULL},
};

/* ---- objects ---- */

CALL(method_dict_get)
{
	const struct value *found = value_dict_find(r, v->dict, a[0]);
	return found ? *found : a[1] ? *a[1] : NONE;
}

CALL(method_dict_items)
{
	struct value list = value_list(r, V_LIST);
	for (size_t i = 0; !r->failed && i < v->dict->count; i++)
		value_append(r, list.list,
			     value_pair(r, v->dict->members[i].key, v->dict->members[i].value));
	return list;
}

CALL_OF(method_dict_keys, value_items(r, v))

CALL(method_dict_values)
{
	struct value list = value_list(r, V_LIST);
	for (size_t i = 0; !r->failed && i < v->dict->count; i++)
		value_append(r, list.list, v->dict->members[i].value);
	return list;
}

const struct function DICT_METHODS[] = {
	FUNCTION("get", method_dict_get, 1, "key", "default"),
	FUNCTION("items", method_dict_items, 0),
	FUNCTION("keys", method_dict_keys, 0),
	FUNCTION("values", method_dict_values, 0),
	FUNCTION("copy", method_copy, 0),
	{.name = NULL},
};
