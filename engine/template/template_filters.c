/* Filters of texts, numbers and any value; those of lists are in template_list_filters.c. */
#include "engine/template/template_access.h"
#include "engine/template/template_call.h"
#include "engine/template/template_operators.h"
#include "engine/template/template_print.h"
#include "engine/template/template_texts.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

/* Python's str of anything; a mark as HTML stays. */
static struct value string(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	return value_string(r, v);
}

static struct value trim(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value text = value_string(r, v), set;
	if (r->failed || !a[0] || a[0]->kind == V_NONE)
		return r->failed ? NONE : text_strip(r, &text, NULL, AT_START | AT_END);
	return must_be_text(r, a[0], &set) ? text_strip(r, &text, &set, AT_START | AT_END) : NONE;
}

#define IN_CASE(name, to)                                              \
	static struct value name(struct run *r, const struct value *v, \
				 const struct value *const *a)         \
	{                                                              \
		(void)a;                                               \
		struct value text = value_string(r, v);                \
		return r->failed ? NONE : text_in_case(r, &text, to);  \
	}
IN_CASE(lower, LOWER)
IN_CASE(upper, UPPER)
IN_CASE(title, TITLE)
IN_CASE(capitalize, CAPITAL)

static struct value replace(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value text = value_string(r, v), old = value_string(r, a[0]),
		     new = value_string(r, a[1]);
	return r->failed ? NONE : text_replace(r, &text, &old, &new, integer_or(r, a[2], -1));
}

static struct value safe(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	struct value text = value_string(r, v);
	text.safe = true;
	return text;
}

static struct value escape(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	return escape_html(r, v);
}

/* Lines but the first, and but empty ones, further to the right. */
static struct value indent(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value text = value_string(r, v), by;
	struct writer w = {0}, margin = {0};
	bool first = truth_or(a[1], false), blank = truth_or(a[2], false);
	if (a[0] && a[0]->kind == V_TEXT)
		print_value(r, &margin, a[0]);
	else
		for (int64_t i = integer_or(r, a[0], 4); i > 0 && !r->failed; i--)
			write_text(r, &margin, " ");
	by = write_done(r, &margin);
	for (size_t at = 0; !r->failed && at <= text.n;) {
		const char *end = memchr(text.text.bytes + at, '\n', text.n - at);
		size_t to = end ? (size_t)(end - text.text.bytes) : text.n;
		if ((at > 0 || first) && (blank || to > at))
			print_value(r, &w, &by);
		to += end != NULL;
		write_bytes(r, &w, text.text.bytes + at, text.text.from + at, to - at);
		at = end ? to : text.n + 1;
	}
	return write_done(r, &w);
}

/* The arguments of json.dumps, but that ensure_ascii comes first. */
static struct value tojson(struct run *r, const struct value *v, const struct value *const *a)
{
	struct json_style style = {
		.indent = -1, .ascii = truth_or(a[0], false), .sort_keys = truth_or(a[3], false)};
	if (a[1] && a[1]->kind != V_NONE)
		style.indent = integer_or(r, a[1], 0);
	if (style.indent > 64)
		run_fail(r, EINVAL, "JSON indented by more than 64 spaces");
	if (a[2] && a[2]->kind != V_NONE) {
		bool two =
			(a[2]->kind == V_TUPLE || a[2]->kind == V_LIST) && a[2]->list->count == 2;
		if (!two)
			return run_fail(r, EINVAL, "separators of JSON are two texts");
		style.item_separator = &a[2]->list->items[0];
		style.key_separator = &a[2]->list->items[1];
	}
	return r->failed ? NONE : value_to_json(r, v, &style);
}

/* ---- numbers ---- */

static struct value absolute(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	if (v->kind == V_FLOAT)
		return value_float(fabs(v->number));
	if (v->kind == V_INT && v->integer < 0)
		return negate(r, v);
	return v->kind == V_INT || v->kind == V_BOOL
		       ? value_int(v->kind == V_BOOL ? v->truth : v->integer)
		       : run_fail(r, EINVAL, "%s has no absolute value", value_type_name(v));
}

/* Half to even, as Python rounds. */
static struct value round_to(struct run *r, const struct value *v, const struct value *const *a)
{
	double scale = pow(10, (double)integer_or(r, a[0], 0)), x = value_as_double(v);
	if (!value_is_number(v))
		return run_fail(r, EINVAL, "%s cannot be rounded", value_type_name(v));
	if (!a[1] || text_is(a[1], "common"))
		return value_float(nearbyint(x * scale) / scale);
	return value_float((text_is(a[1], "ceil") ? ceil(x * scale) : floor(x * scale)) / scale);
}

static bool parse_float(struct run *r, const struct value *text, double *out)
{
	struct value inside = text_strip(r, text, NULL, AT_START | AT_END);
	char digits[400], *end;
	if (inside.n == 0 || inside.n >= sizeof digits)
		return false;
	memcpy(digits, inside.text.bytes, inside.n);
	digits[inside.n] = '\0';
	*out = strtod(digits, &end);
	return *end == '\0' && !strpbrk(digits, "xXpP");
}

static struct value whole(double number, int64_t otherwise)
{
	bool fits = number > -9e18 && number < 9e18;
	return value_int(fits ? (int64_t)number : otherwise);
}

static struct value integer(struct run *r, const struct value *v, const struct value *const *a)
{
	int64_t otherwise = integer_or(r, a[0], 0), base = integer_or(r, a[1], 10), result;
	double number;
	if (v->kind == V_INT || v->kind == V_BIG)
		return *v;
	if (v->kind == V_BOOL)
		return value_int(v->truth);
	if (v->kind == V_FLOAT)
		return whole(v->number, otherwise);
	if (v->kind != V_TEXT || base < 2 || base > 36)
		return value_int(otherwise);
	if (text_as_integer(r, v, (int)base, &result))
		return value_int(result);
	return parse_float(r, v, &number) ? whole(number, otherwise) : value_int(otherwise);
}

static struct value number(struct run *r, const struct value *v, const struct value *const *a)
{
	double result = a[0] ? value_as_double(a[0]) : 0;
	if (value_is_number(v))
		return value_float(value_as_double(v));
	if (v->kind == V_TEXT)
		(void)parse_float(r, v, &result);
	return value_float(result);
}

/* ---- any value ---- */

static struct value otherwise(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)r;
	if (v->kind != V_UNDEFINED && (value_truth(v) || !truth_or(a[1], false)))
		return *v;
	return a[0] ? *a[0] : value_literal("");
}

static struct value length(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	run_work(r, v->kind == V_TEXT ? 1 + v->n / 64 : 1);
	switch (v->kind) {
	case V_UNDEFINED:
		return value_int(0);
	case V_TEXT:
		return value_int((int64_t)text_length(v));
	case V_LIST:
	case V_TUPLE:
		return value_int((int64_t)v->list->count);
	case V_DICT:
		return value_int((int64_t)v->dict->count);
	default:
		return run_fail(r, EINVAL, "%s has no length", value_type_name(v));
	}
}

static struct value attr(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value name;
	return must_be_text(r, a[0], &name) ? value_attribute(r, v, name.text.bytes, name.n) : NONE;
}

const struct function TEMPLATE_FILTERS[] = {
	{.name = "string", .call = string},
	{.name = "trim", .call = trim, .parameters = {"chars"}},
	{.name = "lower", .call = lower},
	{.name = "upper", .call = upper},
	{.name = "title", .call = title},
	{.name = "capitalize", .call = capitalize},
	{.name = "replace", .call = replace, .parameters = {"old", "new", "count"}, .least = 2},
	{.name = "safe", .call = safe},
	{.name = "escape", .call = escape},
	{.name = "e", .call = escape},
	{.name = "indent", .call = indent, .parameters = {"width", "first", "blank"}},
	{.name = "tojson",
	 .call = tojson,
	 .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
	{.name = "abs", .call = absolute},
	{.name = "round", .call = round_to, .parameters = {"precision", "method"}},
	{.name = "int", .call = integer, .parameters = {"default", "base"}},
	{.name = "float", .call = number, .parameters = {"default"}},
	{.name = "default", .call = otherwise, .parameters = {"default_value", "boolean"}},
	{.name = "d", .call = otherwise, .parameters = {"default_value", "boolean"}},
	{.name = "length", .call = length},
	{.name = "count", .call = length},
	{.name = "attr", .call = attr, .parameters = {"name"}, .least = 1},
	{.name = NULL}};
