/* The filters ({{ value | filter }}). Each is a row of a table at the end of its section. */
#include "cache/utf8.h"
#include "engine/template/template_operators.h"
#include "engine/template/template_call.h"
#include "engine/template/template_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

/* str() of any value; a text marked as safe stays so. */
CALL_OF(filter_string, text_of(r, v))

CALL(filter_trim)
{
	struct value text = text_of(r, v);
	return r->failed ? NONE : text_strip(r, &text, a[0], AT_START | AT_END);
}

static struct value filter_in_case(struct template_run *r, const struct value *v, enum text_case to)
{
	struct value text = text_of(r, v);
	return r->failed ? NONE : text_in_case(r, &text, to);
}
CALL_OF(filter_lower, filter_in_case(r, v, LOWER))
CALL_OF(filter_upper, filter_in_case(r, v, UPPER))
CALL_OF(filter_title, filter_in_case(r, v, TITLE))
CALL_OF(filter_capitalize, filter_in_case(r, v, CAPITAL))

CALL(filter_replace)
{
	struct value text = text_of(r, v), old = text_of(r, a[0]), new = text_of(r, a[1]);
	return r->failed ? NONE : text_replace(r, &text, &old, &new, call_integer_or(r, a[2], -1));
}

CALL(filter_safe)
{
	struct value text = text_of(r, v);
	text.safe = true;
	return text;
}

CALL_OF(filter_escape, text_escape_html(r, v))

/* Indents lines; the first line and empty lines only if asked. */
CALL(filter_indent)
{
	struct value text = text_of(r, v), by;
	struct writer w = {0}, margin = {0};
	bool first = call_truth_or(a[1], false), blank = call_truth_or(a[2], false);
	if (a[0] && a[0]->kind == V_TEXT)
		text_print(r, &margin, a[0]);
	else
		for (int64_t i = call_integer_or(r, a[0], 4); i > 0 && !r->failed; i--)
			value_write_text(r, &margin, " ");
	by = value_written(r, &margin);
	for (size_t at = 0; !r->failed && at <= text.n;) {
		const char *end = memchr(text.text.bytes + at, '\n', text.n - at);
		size_t to = end ? (size_t)(end - text.text.bytes) : text.n;
		if ((at > 0 || first) && (blank || to > at))
			text_print(r, &w, &by);
		to += end != NULL;
		value_write_bytes(r, &w, text.text.bytes + at, text.text.from + at, to - at);
		at = end ? to : text.n + 1;
	}
	return value_written(r, &w);
}

/* The arguments of json.dumps, except that ensure_ascii comes first. */
CALL(filter_tojson)
{
	struct json_style style = {.indent = -1,
				   .ascii = call_truth_or(a[0], false),
				   .sort_keys = call_truth_or(a[3], false)};
	if (a[1] && a[1]->kind != V_NONE)
		style.indent = call_integer_or(r, a[1], 0);
	if (style.indent > 64)
		template_fail(r, EINVAL, "tojson: indent must be at most 64");
	if (a[2] && a[2]->kind != V_NONE) {
		bool two =
			(a[2]->kind == V_TUPLE || a[2]->kind == V_LIST) && a[2]->list->count == 2;
		if (!two)
			return template_fail(r, EINVAL, "tojson: separators must be two texts");
		style.item_separator = &a[2]->list->items[0];
		style.key_separator = &a[2]->list->items[1];
	}
	return r->failed ? NONE : text_to_json(r, v, &style);
}

/* ---- numbers ---- */

CALL(filter_absolute)
{
	if (v->kind == V_FLOAT)
		return value_float(fabs(v->number));
	if (v->kind == V_INT && v->integer < 0)
		return operator_negate(r, v);
	return v->kind == V_INT || v->kind == V_BOOL
		       ? value_int(v->kind == V_BOOL ? v->truth : v->integer)
		       : template_fail(r, EINVAL, "%s has no absolute value", value_type_name(v));
}

/* Rounds half to even, as Python does. */
CALL(filter_round)
{
	double scale = pow(10, (double)call_integer_or(r, a[0], 0)), x = value_as_double(v);
	if (!value_is_number(v))
		return template_fail(r, EINVAL, "%s cannot be rounded", value_type_name(v));
	if (!a[1] || value_is_text(a[1], "common"))
		return value_float(nearbyint(x * scale) / scale);
	return value_float((value_is_text(a[1], "ceil") ? ceil(x * scale) : floor(x * scale)) /
			   scale);
}

static bool filter_parse_float(struct template_run *r, const struct value *text, double *out)
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

static struct value filter_whole(double number, int64_t otherwise)
{
	bool fits = number > -9e18 && number < 9e18;
	return value_int(fits ? (int64_t)number : otherwise);
}

CALL(filter_integer)
{
	int64_t otherwise = call_integer_or(r, a[0], 0), base = call_integer_or(r, a[1], 10),
		result;
	double number;
	if (v->kind == V_INT || v->kind == V_BIG)
		return *v;
	if (v->kind == V_BOOL)
		return value_int(v->truth);
	if (v->kind == V_FLOAT)
		return filter_whole(v->number, otherwise);
	if (v->kind != V_TEXT || base < 2 || base > 36)
		return value_int(otherwise);
	if (text_as_integer(r, v, (int)base, &result))
		return value_int(result);
	return filter_parse_float(r, v, &number) ? filter_whole(number, otherwise)
						 : value_int(otherwise);
}

CALL(filter_number)
{
	double result = a[0] ? value_as_double(a[0]) : 0;
	if (value_is_number(v))
		return value_float(value_as_double(v));
	if (v->kind == V_TEXT)
		(void)filter_parse_float(r, v, &result);
	return value_float(result);
}

/* ---- any value ---- */

CALL(filter_default)
{
	if (v->kind != V_UNDEFINED && (value_truth(v) || !call_truth_or(a[1], false)))
		return *v;
	return a[0] ? *a[0] : value_literal("");
}

CALL(filter_length)
{
	template_work(r, v->kind == V_TEXT ? 1 + v->n / 64 : 1);
	switch (v->kind) {
	case V_UNDEFINED:
		return value_int(0);
	case V_TEXT:
		return value_int((int64_t)value_text_length(v));
	case V_LIST:
	case V_TUPLE:
		return value_int((int64_t)v->list->count);
	case V_DICT:
		return value_int((int64_t)v->dict->count);
	default:
		return template_fail(r, EINVAL, "%s has no length", value_type_name(v));
	}
}

CALL(filter_attr)
{
	struct value name;
	return call_text_argument(r, a[0], &name)
		       ? operator_attribute(r, v, name.text.bytes, name.n)
		       : NONE;
}

const struct function TEMPLATE_FILTERS[] = {
	FUNCTION("string", filter_string, 0),
	FUNCTION("trim", filter_trim, 0, "chars"),
	FUNCTION("lower", filter_lower, 0),
	FUNCTION("upper", filter_upper, 0),
	FUNCTION("title", filter_title, 0),
	FUNCTION("capitalize", filter_capitalize, 0),
	FUNCTION("replace", filter_replace, 2, "old", "new", "count"),
	FUNCTION("safe", filter_safe, 0),
	FUNCTION("escape", filter_escape, 0),
	FUNCTION("e", filter_escape, 0),
	FUNCTION("indent", filter_indent, 0, "width", "first", "blank"),
	FUNCTION("tojson", filter_tojson, 0, "ensure_ascii", "indent", "separators", "sort_keys"),
	FUNCTION("abs", filter_absolute, 0),
	FUNCTION("round", filter_round, 0, "precision", "method"),
	FUNCTION("int", filter_integer, 0, "default", "base"),
	FUNCTION("float", filter_number, 0, "default"),
	FUNCTION("default", filter_default, 0, "default_value", "boolean"),
	FUNCTION("d", filter_default, 0, "default_value", "boolean"),
	FUNCTION("length", filter_length, 0),
	FUNCTION("count", filter_length, 0),
	FUNCTION("attr", filter_attr, 1, "name"),
	{.name = NULL},
};

/* ---- filters of lists and objects ---- */

/* Follows a path of keys such as "a.b.0"; a missing part gives `fallback`, if there is one. */
static struct value filter_by_path(struct template_run *r, const struct value *v,
				   const struct value *path, const struct value *fallback)
{
	struct value at = *v;
	if (path->kind != V_TEXT)
		return operator_item(r, v, path);
	for (size_t i = 0; i <= path->n && !r->failed;) {
		const char *dot = memchr(path->text.bytes + i, '.', path->n - i);
		size_t end = dot ? (size_t)(dot - path->text.bytes) : path->n;
		struct value key = value_text_slice(path, i, end);
		int64_t place;
		if (text_as_integer(r, &key, 10, &place))
			key = value_int(place);
		at = operator_item(r, &at, &key);
		if (at.kind == V_UNDEFINED && fallback)
			return *fallback;
		i = end + 1;
	}
	return at;
}

/* ---- lists ---- */

CALL(filter_list)
{
	struct value items = value_items(r, v);
	items.kind = r->failed ? items.kind : V_LIST;
	return items;
}

static struct value filter_end(struct template_run *r, const struct value *v, bool last)
{
	struct value items = value_items(r, v);
	size_t count = r->failed ? 0 : items.list->count;
	return count > 0 ? items.list->items[last ? count - 1 : 0] : value_undefined(NULL, 0);
}
CALL_OF(filter_first, filter_end(r, v, false))
CALL_OF(filter_last, filter_end(r, v, true))

CALL(filter_items)
{
	if (v->kind == V_UNDEFINED)
		return value_list(r, V_LIST);
	if (v->kind != V_DICT)
		return template_fail(r, EINVAL, "%s has no items", value_type_name(v));
	return call_function(r, call_find(r->language->dict_methods, "items", 5), v,
			     &(struct call_arguments){0});
}

CALL(filter_join)
{
	struct value items = value_items(r, v), between = a[0] ? *a[0] : value_literal("");
	struct value parts = value_list(r, V_LIST);
	for (size_t i = 0; !r->failed && i < items.list->count; i++)
		value_append(r, parts.list,
			     a[1] ? filter_by_path(r, &items.list->items[i], a[1], NULL)
				  : items.list->items[i]);
	return r->failed ? NONE : text_join(r, &between, &parts);
}

CALL(filter_reverse)
{
	struct value step = value_int(-1), items;
	if (v->kind == V_TEXT)
		return operator_slice(r, v, NULL, NULL, &step);
	items = value_items(r, v);
	return r->failed ? NONE : operator_slice(r, &items, NULL, NULL, &step);
}

/* An item and its sort key. */
struct sorted {
	struct value key, item;
};

/* A stable merge sort. */
static void filter_merge_sort(struct template_run *r, struct sorted *items, struct sorted *spare,
			      size_t n, bool down)
{
	if (n < 2 || r->failed)
		return;
	size_t half = n / 2, i = 0, k = half;
	filter_merge_sort(r, items, spare, half, down);
	filter_merge_sort(r, items + half, spare, n - half, down);
	for (size_t to = 0; to < n && !r->failed; to++) {
		bool right = i == half;
		if (!right && k < n) {
			int order = value_compare(r, &items[k].key, &items[i].key);
			right = down ? order > 0 : order < 0;
		}
		spare[to] = right ? items[k++] : items[i++];
	}
	if (!r->failed)
		memcpy(items, spare, n * sizeof *items);
}

/* The value that an item is sorted and compared by: the item, or what a path in it leads to. */
static struct value filter_key(struct template_run *r, struct value item, const struct value *path,
			       const struct value *case_sensitive)
{
	if (path && path->kind != V_NONE)
		item = filter_by_path(r, &item, path, NULL);
	return item.kind == V_TEXT && !call_truth_or(case_sensitive, false)
		       ? text_in_case(r, &item, LOWER)
		       : item;
}

static struct value filter_sorted(struct template_run *r, struct sorted *items, size_t n, bool down)
{
	struct sorted *spare = template_allocate(r, (n + 1) * sizeof *spare);
	struct value result = value_list(r, V_LIST);
	if (!spare || r->failed)
		return NONE;
	filter_merge_sort(r, items, spare, n, down);
	for (size_t i = 0; i < n && !r->failed; i++)
		value_append(r, result.list, items[i].item);
	return result;
}

CALL(filter_sort)
{
	struct value items = value_items(r, v);
	size_t n = r->failed ? 0 : items.list->count;
	struct sorted *keyed = template_allocate(r, (n + 1) * sizeof *keyed);
	for (size_t i = 0; keyed && i < n && !r->failed; i++) {
		struct value item = items.list->items[i];
		keyed[i] = (struct sorted){filter_key(r, item, a[2], a[1]), item};
	}
	return r->failed ? NONE : filter_sorted(r, keyed, n, call_truth_or(a[0], false));
}

CALL(filter_dictsort)
{
	if (v->kind != V_DICT)
		return template_fail(r, EINVAL, "%s has no keys to sort", value_type_name(v));
	size_t n = v->dict->count;
	struct sorted *keyed = template_allocate(r, (n + 1) * sizeof *keyed);
	bool by_value = a[1] && value_is_text(a[1], "value");
	for (size_t i = 0; keyed && i < n && !r->failed; i++) {
		const struct member *m = &v->dict->members[i];
		keyed[i].key = filter_key(r, by_value ? m->value : m->key, NULL, a[0]);
		keyed[i].item = value_pair(r, m->key, m->value);
	}
	return r->failed ? NONE : filter_sorted(r, keyed, n, call_truth_or(a[2], false));
}

static struct value filter_extreme(struct template_run *r, const struct value *v,
				   const struct value *const *a, int sign)
{
	struct value items = value_items(r, v), best = value_undefined(NULL, 0), best_key = best;
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		struct value key = filter_key(r, item, a[1], a[0]);
		if (i > 0 && (r->failed || value_compare(r, &key, &best_key) * sign <= 0))
			continue;
		best = item;
		best_key = key;
	}
	return best;
}

CALL_OF(filter_max, filter_extreme(r, v, a, 1))
CALL_OF(filter_min, filter_extreme(r, v, a, -1))

CALL(filter_sum)
{
	struct value items = value_items(r, v), total = a[1] ? *a[1] : value_int(0);
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		if (a[0] && a[0]->kind != V_NONE)
			item = filter_by_path(r, &item, a[0], NULL);
		if (!r->failed)
			total = operator_apply(r, OP_ADD, &total, &item);
	}
	return total;
}

CALL(filter_unique)
{
	struct value items = value_items(r, v), kept = value_list(r, V_LIST);
	struct value keys = value_list(r, V_LIST);
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		struct value key = filter_key(r, item, a[1], a[0]);
		if (r->failed || value_contains(r, &keys, &key))
			continue;
		value_append(r, keys.list, key);
		value_append(r, kept.list, item);
	}
	return kept;
}

CALL(filter_batch)
{
	struct value items = value_items(r, v), rows = value_list(r, V_LIST), row = NONE;
	int64_t size = call_integer_or(r, a[0], 0);
	if (size <= 0)
		return template_fail(r, EINVAL, "batch: the size must be at least 1, not %lld",
				     (long long)size);
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		if (i % (size_t)size == 0)
			value_append(r, rows.list, row = value_list(r, V_LIST));
		if (!r->failed)
			value_append(r, row.list, items.list->items[i]);
	}
	while (!r->failed && a[1] && row.kind == V_LIST && row.list->count < (size_t)size)
		value_append(r, row.list, *a[1]);
	return rows;
}

/* ---- filters and tests of each item ---- */

/* The arguments after the first n. */
static struct call_arguments filter_rest(const struct call_arguments *args, size_t n)
{
	struct call_arguments rest = *args;
	rest.items += n;
	rest.count -= n;
	return rest;
}

static struct value filter_map(struct template_run *r, const struct value *v,
			       const struct call_arguments *args)
{
	struct value items = value_items(r, v), mapped = value_list(r, V_LIST), name;
	const struct value *attribute = call_named(args, "attribute", 9);
	if (!attribute && (args->count == 0 || !call_text_argument(r, &args->items[0], &name)))
		return template_fail(r, EINVAL, "map needs a filter's name or attribute=");
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		const struct value *item = &items.list->items[i];
		struct call_arguments rest = attribute ? *args : filter_rest(args, 1);
		value_append(r, mapped.list,
			     attribute ? filter_by_path(r, item, attribute,
							call_named(args, "default", 7))
				       : call_filter(r, name.text.bytes, name.n, item, &rest));
	}
	return mapped;
}

/* Items for which the test named first is `wanted`; without a test, items by their truth. */
static struct value filter_selected(struct template_run *r, const struct value *v,
				    const struct value *attribute,
				    const struct call_arguments *args, bool wanted)
{
	struct value items = value_items(r, v), kept = value_list(r, V_LIST), name;
	bool named = args->count > 0;
	struct call_arguments rest = named ? filter_rest(args, 1) : *args;
	if (named && !call_text_argument(r, &args->items[0], &name))
		return NONE;
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		struct value of = attribute ? filter_by_path(r, &item, attribute, NULL) : item;
		struct value test = r->failed ? NONE
				    : named   ? call_test(r, name.text.bytes, name.n, &of, &rest)
					      : value_bool(value_truth(&of));
		if (!r->failed && value_truth(&test) == wanted)
			value_append(r, kept.list, item);
	}
	return kept;
}

static struct value filter_select(struct template_run *r, const struct value *v,
				  const struct call_arguments *args)
{
	return filter_selected(r, v, NULL, args, true);
}

static struct value filter_reject(struct template_run *r, const struct value *v,
				  const struct call_arguments *args)
{
	return filter_selected(r, v, NULL, args, false);
}

static struct value filter_by_attribute(struct template_run *r, const struct value *v,
					const struct call_arguments *args, bool wanted)
{
	if (args->count == 0)
		return template_fail(r, EINVAL,
				     "selectattr and rejectattr need the name of an attribute");
	struct call_arguments rest = filter_rest(args, 1);
	return filter_selected(r, v, &args->items[0], &rest, wanted);
}

static struct value filter_selectattr(struct template_run *r, const struct value *v,
				      const struct call_arguments *args)
{
	return filter_by_attribute(r, v, args, true);
}

static struct value filter_rejectattr(struct template_run *r, const struct value *v,
				      const struct call_arguments *args)
{
	return filter_by_attribute(r, v, args, false);
}

const struct function TEMPLATE_LIST_FILTERS[] = {
	FUNCTION("list", filter_list, 0),
	FUNCTION("first", filter_first, 0),
	FUNCTION("last", filter_last, 0),
	FUNCTION("items", filter_items, 0),
	FUNCTION("join", filter_join, 0, "d", "attribute"),
	FUNCTION("reverse", filter_reverse, 0),
	FUNCTION("sort", filter_sort, 0, "reverse", "case_sensitive", "attribute"),
	FUNCTION("dictsort", filter_dictsort, 0, "case_sensitive", "by", "reverse"),
	FUNCTION("max", filter_max, 0, "case_sensitive", "attribute"),
	FUNCTION("min", filter_min, 0, "case_sensitive", "attribute"),
	FUNCTION("sum", filter_sum, 0, "attribute", "start"),
	FUNCTION("unique", filter_unique, 0, "case_sensitive", "attribute"),
	FUNCTION("batch", filter_batch, 1, "linecount", "fill_with"),
	{.name = "map", .call_any = filter_map},
	{.name = "select", .call_any = filter_select},
	{.name = "reject", .call_any = filter_reject},
	{.name = "selectattr", .call_any = filter_selectattr},
	{.name = "rejectattr", .call_any = filter_rejectattr},
	{.name = NULL},
};
