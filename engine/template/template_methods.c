/* Methods of texts, lists and objects: those of Python that do not change the value. */
#include "engine/template/template_operators.h"
#include "engine/template/template_call.h"
#include "engine/template/template_text.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <string.h>

/* ---- texts ---- */

static struct value method_strip_ends(struct template_run *r, const struct value *self,
				      const struct value *set, int ends)
{
	struct value text;
	if (!set || set->kind == V_NONE)
		return text_strip(r, self, NULL, ends);
	return call_text_argument(r, set, &text) ? text_strip(r, self, &text, ends) : NONE;
}

static struct value method_strip(struct template_run *r, const struct value *self,
				 const struct value *const *a)
{
	return method_strip_ends(r, self, a[0], AT_START | AT_END);
}

static struct value method_lstrip(struct template_run *r, const struct value *self,
				  const struct value *const *a)
{
	return method_strip_ends(r, self, a[0], AT_START);
}

static struct value method_rstrip(struct template_run *r, const struct value *self,
				  const struct value *const *a)
{
	return method_strip_ends(r, self, a[0], AT_END);
}

#define IN_CASE(name, to)                                                          \
	static struct value name(struct template_run *r, const struct value *self, \
				 const struct value *const *a)                     \
	{                                                                          \
		(void)a;                                                           \
		return text_in_case(r, self, to);                                  \
	}
IN_CASE(method_lower, LOWER)
IN_CASE(method_upper, UPPER)
IN_CASE(method_title, TITLE)
IN_CASE(method_capitalize, CAPITAL)

static struct value method_replace(struct template_run *r, const struct value *self,
				   const struct value *const *a)
{
	struct value old, new;
	if (!call_text_argument(r, a[0], &old) || !call_text_argument(r, a[1], &new))
		return NONE;
	return text_replace(r, self, &old, &new, call_integer_or(r, a[2], -1));
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

static struct value method_split(struct template_run *r, const struct value *self,
				 const struct value *const *a)
{
	int64_t times = call_integer_or(r, a[1], -1);
	struct value by, parts;
	if (!a[0] || a[0]->kind == V_NONE)
		return method_split_words(r, self, times);
	if (!call_text_argument(r, a[0], &by))
		return NONE;
	if (by.n == 0)
		return template_fail(r, EINVAL, "split with an empty separator");
	parts = value_list(r, V_LIST);
	size_t at = 0;
	for (; !r->failed && times != 0; times -= times > 0) {
		size_t found = value_text_find(r, self, at, &by);
		if (found == self->n)
			break;
		value_append(r, parts.list, value_text_slice(self, at, found));
		at = found + by.n;
	}
	value_append(r, parts.list, value_text_slice(self, at, self->n));
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

static struct value method_rsplit(struct template_run *r, const struct value *self,
				  const struct value *const *a)
{
	int64_t times = call_integer_or(r, a[1], -1);
	struct value by, from_end, parts;
	if (!a[0] || a[0]->kind == V_NONE || times < 0)
		return method_split(r, self, a);
	if (!call_text_argument(r, a[0], &by))
		return NONE;
	if (by.n == 0)
		return template_fail(r, EINVAL, "split with an empty separator");
	from_end = value_list(r, V_LIST);
	parts = value_list(r, V_LIST);
	size_t end = self->n;
	for (; !r->failed && times > 0; times--) {
		size_t at = method_find_last(r, self, end, &by);
		if (at == end)
			break;
		value_append(r, from_end.list, value_text_slice(self, at + by.n, end));
		end = at;
	}
	value_append(r, parts.list, value_text_slice(self, 0, end));
	for (size_t i = r->failed ? 0 : from_end.list->count; i > 0; i--)
		value_append(r, parts.list, from_end.list->items[i - 1]);
	return parts;
}

/* Splits at line ends: \n, \r, both, and others that Python knows. */
static struct value method_splitlines(struct template_run *r, const struct value *self,
				      const struct value *const *a)
{
	struct value lines = value_list(r, V_LIST);
	bool keep = call_truth_or(a[0], false);
	size_t at = 0;
	for (size_t i = 0, step; i < self->n && !r->failed; i += step) {
		uint32_t c = utf8_decode(self->text.bytes + i, &step);
		bool ends = (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
			    c == 0x2028 || c == 0x2029;
		if (!ends)
			continue;
		size_t end = i;
		if (c == '\r' && i + 1 < self->n && self->text.bytes[i + 1] == '\n')
			step = 2;
		value_append(r, lines.list, value_text_slice(self, at, keep ? i + step : end));
		at = i + step;
	}
	if (at < self->n)
		value_append(r, lines.list, value_text_slice(self, at, self->n));
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

static struct value method_startswith(struct template_run *r, const struct value *self,
				      const struct value *const *a)
{
	struct value rest = a[1] ? operator_slice(r, self, a[1], NULL, NULL) : *self;
	return r->failed ? NONE : method_is_at(r, &rest, a[0], false);
}

static struct value method_endswith(struct template_run *r, const struct value *self,
				    const struct value *const *a)
{
	return method_is_at(r, self, a[0], true);
}

static struct value method_find(struct template_run *r, const struct value *self,
				const struct value *const *a)
{
	struct value part;
	if (!call_text_argument(r, a[0], &part))
		return NONE;
	size_t at = value_text_find(r, self, 0, &part);
	struct value before = value_text_slice(self, 0, at);
	bool none = at == self->n && part.n > 0;
	return value_int(none ? -1 : (int64_t)value_text_length(&before));
}

static struct value method_count(struct template_run *r, const struct value *self,
				 const struct value *const *a)
{
	struct value part;
	int64_t n = 0;
	if (!call_text_argument(r, a[0], &part))
		return NONE;
	if (part.n == 0)
		return value_int((int64_t)value_text_length(self) + 1);
	for (size_t at = 0; !r->failed && (at = value_text_find(r, self, at, &part)) < self->n;
	     at += part.n)
		n++;
	return value_int(n);
}

static struct value method_join(struct template_run *r, const struct value *self,
				const struct value *const *a)
{
	struct value items = value_items(r, a[0]), text;
	for (size_t i = 0; !r->failed && i < items.list->count; i++)
		call_text_argument(r, &items.list->items[i], &text);
	return r->failed ? NONE : text_join(r, self, &items);
}

static struct value method_partition(struct template_run *r, const struct value *self,
				     const struct value *const *a)
{
	struct value by, parts = value_list(r, V_TUPLE);
	if (!call_text_argument(r, a[0], &by))
		return NONE;
	size_t at = by.n > 0 ? value_text_find(r, self, 0, &by) : self->n;
	size_t end = at < self->n ? at + by.n : at;
	value_append(r, parts.list, value_text_slice(self, 0, at));
	value_append(r, parts.list, value_text_slice(self, at, end));
	value_append(r, parts.list, value_text_slice(self, end, self->n));
	return parts;
}

static struct value method_removeprefix(struct template_run *r, const struct value *self,
					const struct value *const *a)
{
	bool there = method_is_at(r, self, a[0], false).truth;
	return there && !r->failed ? value_text_slice(self, a[0]->n, self->n) : *self;
}

static struct value method_removesuffix(struct template_run *r, const struct value *self,
					const struct value *const *a)
{
	bool there = method_is_at(r, self, a[0], true).truth;
	return there && !r->failed ? value_text_slice(self, 0, self->n - a[0]->n) : *self;
}

static struct value method_isdigit(struct template_run *r, const struct value *self,
				   const struct value *const *a)
{
	(void)r;
	(void)a;
	bool all = self->n > 0;
	for (uint32_t i = 0; i < self->n; i++)
		all = all && self->text.bytes[i] >= '0' && self->text.bytes[i] <= '9';
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

static struct value method_center(struct template_run *r, const struct value *self,
				  const struct value *const *a)
{
	return method_pad(r, self, a, 1);
}

static struct value method_ljust(struct template_run *r, const struct value *self,
				 const struct value *const *a)
{
	return method_pad(r, self, a, 0);
}

static struct value method_rjust(struct template_run *r, const struct value *self,
				 const struct value *const *a)
{
	return method_pad(r, self, a, 2);
}

static struct value method_zfill(struct template_run *r, const struct value *self,
				 const struct value *const *a)
{
	struct value zero = value_literal("0");
	int64_t missing = call_integer_or(r, a[0], 0) - (int64_t)value_text_length(self);
	bool sign = self->n > 0 && (self->text.bytes[0] == '-' || self->text.bytes[0] == '+');
	if (missing <= 0)
		return *self;
	struct value head = value_text_slice(self, 0, sign),
		     rest = value_text_slice(self, sign, self->n);
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

static struct value method_list_count(struct template_run *r, const struct value *self,
				      const struct value *const *a)
{
	int64_t n = 0;
	for (size_t i = 0; !r->failed && i < self->list->count; i++)
		n += value_equal(r, &self->list->items[i], a[0]);
	return value_int(n);
}

static struct value method_list_index(struct template_run *r, const struct value *self,
				      const struct value *const *a)
{
	for (size_t i = 0; !r->failed && i < self->list->count; i++)
		if (value_equal(r, &self->list->items[i], a[0]))
			return value_int((int64_t)i);
	return template_fail(r, EINVAL, "index(): the item is not in the list");
}

static struct value method_copy(struct template_run *r, const struct value *self,
				const struct value *const *a)
{
	(void)r;
	(void)a;
	return *self; /* lists never change */
}

const struct function LIST_METHODS[] = {
	FUNCTION("count", method_list_count, 1, "value"),
	FUNCTION("index", method_list_index, 1, "value"),
	FUNCTION("copy", method_copy, 0),
	{.name = NULL},
};

/* ---- objects ---- */

static struct value method_dict_get(struct template_run *r, const struct value *self,
				    const struct value *const *a)
{
	const struct value *v = value_dict_find(r, self->dict, a[0]);
	return v ? *v : a[1] ? *a[1] : NONE;
}

static struct value method_dict_items(struct template_run *r, const struct value *self,
				      const struct value *const *a)
{
	struct value list = value_list(r, V_LIST);
	(void)a;
	for (size_t i = 0; !r->failed && i < self->dict->count; i++)
		value_append(
			r, list.list,
			value_pair(r, self->dict->members[i].key, self->dict->members[i].value));
	return list;
}

static struct value method_dict_keys(struct template_run *r, const struct value *self,
				     const struct value *const *a)
{
	(void)a;
	return value_items(r, self);
}

static struct value method_dict_values(struct template_run *r, const struct value *self,
				       const struct value *const *a)
{
	struct value list = value_list(r, V_LIST);
	(void)a;
	for (size_t i = 0; !r->failed && i < self->dict->count; i++)
		value_append(r, list.list, self->dict->members[i].value);
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
