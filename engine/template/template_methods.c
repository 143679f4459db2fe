/* Methods of texts, lists and objects: those of Python's that leave them as they are. */
#include "engine/template/template_access.h"
#include "engine/template/template_call.h"
#include "engine/template/template_operators.h"
#include "engine/template/template_print.h"
#include "engine/template/template_texts.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <string.h>

/* ---- texts ---- */

static struct value strip_ends(struct run *r, const struct value *self, const struct value *set,
			       int ends)
{
	struct value text;
	if (!set || set->kind == V_NONE)
		return text_strip(r, self, NULL, ends);
	return must_be_text(r, set, &text) ? text_strip(r, self, &text, ends) : NONE;
}

static struct value strip(struct run *r, const struct value *self, const struct value *const *a)
{
	return strip_ends(r, self, a[0], AT_START | AT_END);
}

static struct value lstrip(struct run *r, const struct value *self, const struct value *const *a)
{
	return strip_ends(r, self, a[0], AT_START);
}

static struct value rstrip(struct run *r, const struct value *self, const struct value *const *a)
{
	return strip_ends(r, self, a[0], AT_END);
}

#define IN_CASE(name, to)                                                 \
	static struct value name(struct run *r, const struct value *self, \
				 const struct value *const *a)            \
	{                                                                 \
		(void)a;                                                  \
		return text_in_case(r, self, to);                         \
	}
IN_CASE(lower, LOWER)
IN_CASE(upper, UPPER)
IN_CASE(title, TITLE)
IN_CASE(capitalize, CAPITAL)

static struct value replace(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value old, new;
	if (!must_be_text(r, a[0], &old) || !must_be_text(r, a[1], &new))
		return NONE;
	return text_replace(r, self, &old, &new, integer_or(r, a[2], -1));
}

/* At runs of white space, none of which begin or end a part. */
static struct value split_words(struct run *r, const struct value *self, int64_t times)
{
	struct value parts = value_list(r, V_LIST), rest = text_strip(r, self, NULL, AT_START);
	while (!r->failed && rest.n > 0) {
		size_t end = 0, step;
		for (; times != 0 && end < rest.n; end += step)
			if (is_python_space(utf8_decode(rest.text.bytes + end, &step)))
				break;
		if (times == 0) {
			list_append(r, parts.list, text_strip(r, &rest, NULL, AT_END));
			break;
		}
		list_append(r, parts.list, text_slice(&rest, 0, end));
		rest = text_slice(&rest, end, rest.n);
		rest = text_strip(r, &rest, NULL, AT_START);
		times -= times > 0;
	}
	return parts;
}

static struct value split(struct run *r, const struct value *self, const struct value *const *a)
{
	int64_t times = integer_or(r, a[1], -1);
	struct value by, parts;
	if (!a[0] || a[0]->kind == V_NONE)
		return split_words(r, self, times);
	if (!must_be_text(r, a[0], &by))
		return NONE;
	if (by.n == 0)
		return run_fail(r, EINVAL, "a split at nothing");
	parts = value_list(r, V_LIST);
	size_t at = 0;
	for (; !r->failed && times != 0; times -= times > 0) {
		size_t found = text_find(r, self, at, &by);
		if (found == self->n)
			break;
		list_append(r, parts.list, text_slice(self, at, found));
		at = found + by.n;
	}
	list_append(r, parts.list, text_slice(self, at, self->n));
	return parts;
}

/* Where the last `by` in text[0 .. end) is; end if there is none. */
static size_t find_last(struct run *r, const struct value *text, size_t end, const struct value *by)
{
	size_t at = end >= by->n ? end - by->n + 1 : 0;
	for (; at > 0 && run_work(r, 1 + by->n / 64); at--)
		if (memcmp(text->text.bytes + at - 1, by->text.bytes, by->n) == 0)
			return at - 1;
	return end;
}

static struct value rsplit(struct run *r, const struct value *self, const struct value *const *a)
{
	int64_t times = integer_or(r, a[1], -1);
	struct value by, from_end, parts;
	if (!a[0] || a[0]->kind == V_NONE || times < 0)
		return split(r, self, a);
	if (!must_be_text(r, a[0], &by))
		return NONE;
	if (by.n == 0)
		return run_fail(r, EINVAL, "a split at nothing");
	from_end = value_list(r, V_LIST);
	parts = value_list(r, V_LIST);
	size_t end = self->n;
	for (; !r->failed && times > 0; times--) {
		size_t at = find_last(r, self, end, &by);
		if (at == end)
			break;
		list_append(r, from_end.list, text_slice(self, at + by.n, end));
		end = at;
	}
	list_append(r, parts.list, text_slice(self, 0, end));
	for (size_t i = r->failed ? 0 : from_end.list->count; i > 0; i--)
		list_append(r, parts.list, from_end.list->items[i - 1]);
	return parts;
}

/* At each end of a line: \n, \r, both, and what else Python takes for one. */
static struct value splitlines(struct run *r, const struct value *self,
			       const struct value *const *a)
{
	struct value lines = value_list(r, V_LIST);
	bool keep = truth_or(a[0], false);
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
		list_append(r, lines.list, text_slice(self, at, keep ? i + step : end));
		at = i + step;
	}
	if (at < self->n)
		list_append(r, lines.list, text_slice(self, at, self->n));
	return lines;
}

static bool is_text_at(struct run *r, const struct value *self, const struct value *what,
		       bool at_end)
{
	struct value text;
	if (!must_be_text(r, what, &text) || text.n > self->n || !run_work(r, 1 + text.n / 64))
		return false;
	const char *from = self->text.bytes + (at_end ? self->n - text.n : 0);
	return memcmp(from, text.text.bytes, text.n) == 0;
}

/* Whether a text, or one of several, is at an end. */
static struct value is_at(struct run *r, const struct value *self, const struct value *what,
			  bool at_end)
{
	if (what->kind == V_TUPLE) {
		for (size_t i = 0; !r->failed && i < what->list->count; i++)
			if (is_text_at(r, self, &what->list->items[i], at_end))
				return value_bool(true);
		return value_bool(false);
	}
	return value_bool(is_text_at(r, self, what, at_end));
}

static struct value startswith(struct run *r, const struct value *self,
			       const struct value *const *a)
{
	struct value rest = a[1] ? value_slice(r, self, a[1], NULL, NULL) : *self;
	return r->failed ? NONE : is_at(r, &rest, a[0], false);
}

static struct value endswith(struct run *r, const struct value *self, const struct value *const *a)
{
	return is_at(r, self, a[0], true);
}

static struct value find(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value part;
	if (!must_be_text(r, a[0], &part))
		return NONE;
	size_t at = text_find(r, self, 0, &part);
	struct value before = text_slice(self, 0, at);
	bool none = at == self->n && part.n > 0;
	return value_int(none ? -1 : (int64_t)text_length(&before));
}

static struct value count(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value part;
	int64_t n = 0;
	if (!must_be_text(r, a[0], &part))
		return NONE;
	if (part.n == 0)
		return value_int((int64_t)text_length(self) + 1);
	for (size_t at = 0; !r->failed && (at = text_find(r, self, at, &part)) < self->n;
	     at += part.n)
		n++;
	return value_int(n);
}

static struct value join(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value items = value_items(r, a[0]), text;
	for (size_t i = 0; !r->failed && i < items.list->count; i++)
		must_be_text(r, &items.list->items[i], &text);
	return r->failed ? NONE : texts_join(r, self, &items);
}

static struct value partition(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value by, parts = value_list(r, V_TUPLE);
	if (!must_be_text(r, a[0], &by))
		return NONE;
	size_t at = by.n > 0 ? text_find(r, self, 0, &by) : self->n;
	size_t end = at < self->n ? at + by.n : at;
	list_append(r, parts.list, text_slice(self, 0, at));
	list_append(r, parts.list, text_slice(self, at, end));
	list_append(r, parts.list, text_slice(self, end, self->n));
	return parts;
}

static struct value removeprefix(struct run *r, const struct value *self,
				 const struct value *const *a)
{
	bool there = is_at(r, self, a[0], false).truth;
	return there && !r->failed ? text_slice(self, a[0]->n, self->n) : *self;
}

static struct value removesuffix(struct run *r, const struct value *self,
				 const struct value *const *a)
{
	bool there = is_at(r, self, a[0], true).truth;
	return there && !r->failed ? text_slice(self, 0, self->n - a[0]->n) : *self;
}

static struct value isdigit_(struct run *r, const struct value *self, const struct value *const *a)
{
	(void)r;
	(void)a;
	bool all = self->n > 0;
	for (uint32_t i = 0; i < self->n; i++)
		all = all && self->text.bytes[i] >= '0' && self->text.bytes[i] <= '9';
	return value_bool(all);
}

/* So many of a character before and behind, so that it is as long as asked for. */
static struct value padded(struct run *r, const struct value *self, int64_t before, int64_t behind,
			   const struct value *with)
{
	struct writer w = {0};
	for (int64_t i = 0; i < before && !r->failed; i++)
		write_bytes(r, &w, with->text.bytes, with->text.from, with->n);
	write_bytes(r, &w, self->text.bytes, self->text.from, self->n);
	for (int64_t i = 0; i < behind && !r->failed; i++)
		write_bytes(r, &w, with->text.bytes, with->text.from, with->n);
	return write_done(r, &w);
}

static struct value pad(struct run *r, const struct value *self, const struct value *const *a,
			int half)
{
	struct value with = value_literal(" ");
	int64_t missing = integer_or(r, a[0], 0) - (int64_t)text_length(self);
	if (a[1] && !must_be_text(r, a[1], &with))
		return NONE;
	if (missing <= 0)
		return *self;
	int64_t before = half == 0 ? 0 : half == 2 ? missing : missing / 2;
	return padded(r, self, before, missing - before, &with);
}

static struct value center(struct run *r, const struct value *self, const struct value *const *a)
{
	return pad(r, self, a, 1);
}

static struct value ljust(struct run *r, const struct value *self, const struct value *const *a)
{
	return pad(r, self, a, 0);
}

static struct value rjust(struct run *r, const struct value *self, const struct value *const *a)
{
	return pad(r, self, a, 2);
}

static struct value zfill(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value zero = value_literal("0");
	int64_t missing = integer_or(r, a[0], 0) - (int64_t)text_length(self);
	bool sign = self->n > 0 && (self->text.bytes[0] == '-' || self->text.bytes[0] == '+');
	if (missing <= 0)
		return *self;
	struct value head = text_slice(self, 0, sign), rest = text_slice(self, sign, self->n);
	rest = padded(r, &rest, missing, 0, &zero);
	return concatenate(r, &head, &rest);
}

/* "{} {0} {name}" filled in; nothing more of Python's format. */
static struct value format(struct run *r, const struct value *self, const struct arguments *args)
{
	struct writer w = {0};
	size_t next = 0;
	for (uint32_t i = 0; i < self->n && !r->failed; i++) {
		const char *at = self->text.bytes + i;
		bool doubled = i + 1 < self->n && at[0] == at[1];
		if ((*at != '{' && *at != '}') || doubled) {
			write_bytes(r, &w, at, self->text.from + i, 1);
			i += doubled && (*at == '{' || *at == '}');
			continue;
		}
		const char *close = *at == '{' ? memchr(at, '}', self->n - i) : NULL;
		if (!close)
			return run_fail(r, EINVAL, "a single bracket in a format");
		size_t n = (size_t)(close - at - 1);
		const struct value *v = NULL;
		if (n == 0 && next < args->count)
			v = &args->items[next++];
		else if (n == 1 && at[1] >= '0' && at[1] <= '9' &&
			 (size_t)(at[1] - '0') < args->count)
			v = &args->items[at[1] - '0'];
		for (size_t k = 0; k < args->named_count && n > 0; k++)
			if (args->named[k].n == n && memcmp(args->named[k].name, at + 1, n) == 0)
				v = &args->named[k].value;
		if (!v)
			return run_fail(r, EINVAL, "nothing for {%.*s} of a format",
					(int)(n < 40 ? n : 40), at + 1);
		print_value(r, &w, v);
		i += (uint32_t)n + 1;
	}
	return write_done(r, &w);
}

const struct function TEXT_METHODS[] = {
	{.name = "strip", .call = strip, .parameters = {"chars"}},
	{.name = "lstrip", .call = lstrip, .parameters = {"chars"}},
	{.name = "rstrip", .call = rstrip, .parameters = {"chars"}},
	{.name = "split", .call = split, .parameters = {"sep", "maxsplit"}},
	{.name = "rsplit", .call = rsplit, .parameters = {"sep", "maxsplit"}},
	{.name = "splitlines", .call = splitlines, .parameters = {"keepends"}},
	{.name = "startswith", .call = startswith, .parameters = {"prefix", "start"}, .least = 1},
	{.name = "endswith", .call = endswith, .parameters = {"suffix"}, .least = 1},
	{.name = "replace", .call = replace, .parameters = {"old", "new", "count"}, .least = 2},
	{.name = "lower", .call = lower},
	{.name = "upper", .call = upper},
	{.name = "title", .call = title},
	{.name = "capitalize", .call = capitalize},
	{.name = "find", .call = find, .parameters = {"sub"}, .least = 1},
	{.name = "count", .call = count, .parameters = {"sub"}, .least = 1},
	{.name = "join", .call = join, .parameters = {"iterable"}, .least = 1},
	{.name = "partition", .call = partition, .parameters = {"sep"}, .least = 1},
	{.name = "removeprefix", .call = removeprefix, .parameters = {"prefix"}, .least = 1},
	{.name = "removesuffix", .call = removesuffix, .parameters = {"suffix"}, .least = 1},
	{.name = "isdigit", .call = isdigit_},
	{.name = "center", .call = center, .parameters = {"width", "fillchar"}, .least = 1},
	{.name = "ljust", .call = ljust, .parameters = {"width", "fillchar"}, .least = 1},
	{.name = "rjust", .call = rjust, .parameters = {"width", "fillchar"}, .least = 1},
	{.name = "zfill", .call = zfill, .parameters = {"width"}, .least = 1},
	{.name = "format", .call_any = format},
	{.name = NULL}};

/* ---- lists ---- */

static struct value list_count(struct run *r, const struct value *self,
			       const struct value *const *a)
{
	int64_t n = 0;
	for (size_t i = 0; !r->failed && i < self->list->count; i++)
		n += value_equal(r, &self->list->items[i], a[0]);
	return value_int(n);
}

static struct value list_index(struct run *r, const struct value *self,
			       const struct value *const *a)
{
	for (size_t i = 0; !r->failed && i < self->list->count; i++)
		if (value_equal(r, &self->list->items[i], a[0]))
			return value_int((int64_t)i);
	return run_fail(r, EINVAL, "what is looked for is not in the list");
}

static struct value copy(struct run *r, const struct value *self, const struct value *const *a)
{
	(void)r;
	(void)a;
	return *self; /* they never change */
}

const struct function LIST_METHODS[] = {
	{.name = "count", .call = list_count, .parameters = {"value"}, .least = 1},
	{.name = "index", .call = list_index, .parameters = {"value"}, .least = 1},
	{.name = "copy", .call = copy},
	{.name = NULL}};

/* ---- objects ---- */

static struct value get(struct run *r, const struct value *self, const struct value *const *a)
{
	const struct value *v = dict_find(r, self->dict, a[0]);
	return v ? *v : a[1] ? *a[1] : NONE;
}

static struct value items(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value list = value_list(r, V_LIST);
	(void)a;
	for (size_t i = 0; !r->failed && i < self->dict->count; i++)
		list_append(
			r, list.list,
			value_pair(r, self->dict->members[i].key, self->dict->members[i].value));
	return list;
}

static struct value keys(struct run *r, const struct value *self, const struct value *const *a)
{
	(void)a;
	return value_items(r, self);
}

static struct value values(struct run *r, const struct value *self, const struct value *const *a)
{
	struct value list = value_list(r, V_LIST);
	(void)a;
	for (size_t i = 0; !r->failed && i < self->dict->count; i++)
		list_append(r, list.list, self->dict->members[i].value);
	return list;
}

const struct function DICT_METHODS[] = {
	{.name = "get", .call = get, .parameters = {"key", "default"}, .least = 1},
	{.name = "items", .call = items},
	{.name = "keys", .call = keys},
	{.name = "values", .call = values},
	{.name = "copy", .call = copy},
	{.name = NULL}};
