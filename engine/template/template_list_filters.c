/* Filters of lists and objects. */
#include "engine/template/template_access.h"
#include "engine/template/template_call.h"
#include "engine/template/template_operators.h"
#include "engine/template/template_texts.h"

#include <errno.h>
#include <string.h>

/* A path of keys: "a.b.0"; what is missing is `fallback`, where there is one. */
static struct value by_path(struct run *r, const struct value *v, const struct value *path,
			    const struct value *fallback)
{
	struct value at = *v;
	if (path->kind != V_TEXT)
		return value_item(r, v, path);
	for (size_t i = 0; i <= path->n && !r->failed;) {
		const char *dot = memchr(path->text.bytes + i, '.', path->n - i);
		size_t end = dot ? (size_t)(dot - path->text.bytes) : path->n;
		struct value key = text_slice(path, i, end);
		int64_t place;
		if (text_as_integer(r, &key, 10, &place))
			key = value_int(place);
		at = value_item(r, &at, &key);
		if (at.kind == V_UNDEFINED && fallback)
			return *fallback;
		i = end + 1;
	}
	return at;
}

/* ---- lists ---- */

static struct value list(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	struct value items = value_items(r, v);
	items.kind = r->failed ? items.kind : V_LIST;
	return items;
}

static struct value first(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	struct value items = value_items(r, v);
	return r->failed || items.list->count == 0 ? value_undefined(NULL, 0)
						   : items.list->items[0];
}

static struct value last(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	struct value items = value_items(r, v);
	return r->failed || items.list->count == 0 ? value_undefined(NULL, 0)
						   : items.list->items[items.list->count - 1];
}

static struct value items_of(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	if (v->kind == V_UNDEFINED)
		return value_list(r, V_LIST);
	if (v->kind != V_DICT)
		return run_fail(r, EINVAL, "%s has no items", value_type_name(v));
	return function_call(r, function_find(r->language->dict_methods, "items", 5), v,
			     &(struct arguments){0});
}

static struct value join(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value items = value_items(r, v), between = a[0] ? *a[0] : value_literal("");
	struct value parts = value_list(r, V_LIST);
	for (size_t i = 0; !r->failed && i < items.list->count; i++)
		list_append(r, parts.list,
			    a[1] ? by_path(r, &items.list->items[i], a[1], NULL)
				 : items.list->items[i]);
	return r->failed ? NONE : texts_join(r, &between, &parts);
}

static struct value reverse(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value step = value_int(-1), items;
	(void)a;
	if (v->kind == V_TEXT)
		return value_slice(r, v, NULL, NULL, &step);
	items = value_items(r, v);
	return r->failed ? NONE : value_slice(r, &items, NULL, NULL, &step);
}

/* What an item is sorted by. */
struct sorted {
	struct value key, item;
};

/* Stable: halves first, then what is smaller of their heads. */
static void merge_sort(struct run *r, struct sorted *items, struct sorted *spare, size_t n,
		       bool down)
{
	if (n < 2 || r->failed)
		return;
	size_t half = n / 2, i = 0, k = half;
	merge_sort(r, items, spare, half, down);
	merge_sort(r, items + half, spare, n - half, down);
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

static struct value in_lower_case(struct run *r, struct value v, bool case_sensitive)
{
	return v.kind == V_TEXT && !case_sensitive ? text_in_case(r, &v, LOWER) : v;
}

static struct value in_order(struct run *r, struct sorted *items, size_t n, bool down)
{
	struct sorted *spare = run_allocate(r, (n + 1) * sizeof *spare);
	struct value result = value_list(r, V_LIST);
	if (!spare || r->failed)
		return NONE;
	merge_sort(r, items, spare, n, down);
	for (size_t i = 0; i < n && !r->failed; i++)
		list_append(r, result.list, items[i].item);
	return result;
}

static struct value sort(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value items = value_items(r, v);
	size_t n = r->failed ? 0 : items.list->count;
	struct sorted *keyed = run_allocate(r, (n + 1) * sizeof *keyed);
	for (size_t i = 0; keyed && i < n && !r->failed; i++) {
		struct value item = items.list->items[i];
		struct value key =
			a[2] && a[2]->kind != V_NONE ? by_path(r, &item, a[2], NULL) : item;
		keyed[i] = (struct sorted){in_lower_case(r, key, truth_or(a[1], false)), item};
	}
	return r->failed ? NONE : in_order(r, keyed, n, truth_or(a[0], false));
}

static struct value dictsort(struct run *r, const struct value *v, const struct value *const *a)
{
	if (v->kind != V_DICT)
		return run_fail(r, EINVAL, "%s has no keys to sort", value_type_name(v));
	size_t n = v->dict->count;
	struct sorted *keyed = run_allocate(r, (n + 1) * sizeof *keyed);
	bool by_value = a[1] && text_is(a[1], "value");
	for (size_t i = 0; keyed && i < n && !r->failed; i++) {
		const struct member *m = &v->dict->members[i];
		keyed[i].key =
			in_lower_case(r, by_value ? m->value : m->key, truth_or(a[0], false));
		keyed[i].item = value_pair(r, m->key, m->value);
	}
	return r->failed ? NONE : in_order(r, keyed, n, truth_or(a[2], false));
}

static struct value extreme(struct run *r, const struct value *v, const struct value *const *a,
			    int sign)
{
	struct value items = value_items(r, v), best = value_undefined(NULL, 0), best_key = best;
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		struct value key = a[1] ? by_path(r, &item, a[1], NULL) : item;
		key = in_lower_case(r, key, truth_or(a[0], false));
		if (i > 0 && (r->failed || value_compare(r, &key, &best_key) * sign <= 0))
			continue;
		best = item;
		best_key = key;
	}
	return best;
}

static struct value max(struct run *r, const struct value *v, const struct value *const *a)
{
	return extreme(r, v, a, 1);
}

static struct value min(struct run *r, const struct value *v, const struct value *const *a)
{
	return extreme(r, v, a, -1);
}

static struct value sum(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value items = value_items(r, v), total = a[1] ? *a[1] : value_int(0);
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		if (a[0] && a[0]->kind != V_NONE)
			item = by_path(r, &item, a[0], NULL);
		if (!r->failed)
			total = operate(r, OP_ADD, &total, &item);
	}
	return total;
}

static struct value unique(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value items = value_items(r, v), kept = value_list(r, V_LIST);
	struct value keys = value_list(r, V_LIST);
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		struct value key = a[1] ? by_path(r, &item, a[1], NULL) : item;
		key = in_lower_case(r, key, truth_or(a[0], false));
		if (r->failed || value_contains(r, &keys, &key))
			continue;
		list_append(r, keys.list, key);
		list_append(r, kept.list, item);
	}
	return kept;
}

static struct value batch(struct run *r, const struct value *v, const struct value *const *a)
{
	struct value items = value_items(r, v), rows = value_list(r, V_LIST), row = NONE;
	int64_t size = integer_or(r, a[0], 0);
	if (size <= 0)
		return run_fail(r, EINVAL, "batches of %lld", (long long)size);
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		if (i % (size_t)size == 0)
			list_append(r, rows.list, row = value_list(r, V_LIST));
		if (!r->failed)
			list_append(r, row.list, items.list->items[i]);
	}
	while (!r->failed && a[1] && row.kind == V_LIST && row.list->count < (size_t)size)
		list_append(r, row.list, *a[1]);
	return rows;
}

/* ---- what filters and tests do to each item ---- */

static const struct value *argument_named(const struct arguments *args, const char *name)
{
	for (size_t i = 0; i < args->named_count; i++)
		if (args->named[i].n == strlen(name) &&
		    memcmp(args->named[i].name, name, args->named[i].n) == 0)
			return &args->named[i].value;
	return NULL;
}

/* Arguments behind the first `n`. */
static struct arguments behind(const struct arguments *args, size_t n)
{
	struct arguments rest = *args;
	rest.items += n;
	rest.count -= n;
	return rest;
}

static struct value map(struct run *r, const struct value *v, const struct arguments *args)
{
	struct value items = value_items(r, v), mapped = value_list(r, V_LIST), name;
	const struct value *attribute = argument_named(args, "attribute");
	if (!attribute && (args->count == 0 || !must_be_text(r, &args->items[0], &name)))
		return run_fail(r, EINVAL, "map wants a filter's name, or attribute=");
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		const struct value *item = &items.list->items[i];
		struct arguments rest = attribute ? *args : behind(args, 1);
		list_append(r, mapped.list,
			    attribute ? by_path(r, item, attribute, argument_named(args, "default"))
				      : filter_call(r, name.text.bytes, name.n, item, &rest));
	}
	return mapped;
}

/* Items for which a test, named first, says so; without one, those that are true. */
static struct value selected(struct run *r, const struct value *v, const struct value *attribute,
			     const struct arguments *args, bool wanted)
{
	struct value items = value_items(r, v), kept = value_list(r, V_LIST), name;
	bool named = args->count > 0;
	struct arguments rest = named ? behind(args, 1) : *args;
	if (named && !must_be_text(r, &args->items[0], &name))
		return NONE;
	for (size_t i = 0; !r->failed && i < items.list->count; i++) {
		struct value item = items.list->items[i];
		struct value of = attribute ? by_path(r, &item, attribute, NULL) : item;
		struct value test = r->failed ? NONE
				    : named   ? test_call(r, name.text.bytes, name.n, &of, &rest)
					      : value_bool(value_truth(&of));
		if (!r->failed && value_truth(&test) == wanted)
			list_append(r, kept.list, item);
	}
	return kept;
}

static struct value select_items(struct run *r, const struct value *v, const struct arguments *args)
{
	return selected(r, v, NULL, args, true);
}

static struct value reject(struct run *r, const struct value *v, const struct arguments *args)
{
	return selected(r, v, NULL, args, false);
}

static struct value by_attribute(struct run *r, const struct value *v, const struct arguments *args,
				 bool wanted)
{
	if (args->count == 0)
		return run_fail(r, EINVAL, "the name of an attribute is missing");
	struct arguments rest = behind(args, 1);
	return selected(r, v, &args->items[0], &rest, wanted);
}

static struct value selectattr(struct run *r, const struct value *v, const struct arguments *args)
{
	return by_attribute(r, v, args, true);
}

static struct value rejectattr(struct run *r, const struct value *v, const struct arguments *args)
{
	return by_attribute(r, v, args, false);
}

const struct function TEMPLATE_LIST_FILTERS[] = {
	{.name = "list", .call = list},
	{.name = "first", .call = first},
	{.name = "last", .call = last},
	{.name = "items", .call = items_of},
	{.name = "join", .call = join, .parameters = {"d", "attribute"}},
	{.name = "reverse", .call = reverse},
	{.name = "sort", .call = sort, .parameters = {"reverse", "case_sensitive", "attribute"}},
	{.name = "dictsort", .call = dictsort, .parameters = {"case_sensitive", "by", "reverse"}},
	{.name = "max", .call = max, .parameters = {"case_sensitive", "attribute"}},
	{.name = "min", .call = min, .parameters = {"case_sensitive", "attribute"}},
	{.name = "sum", .call = sum, .parameters = {"attribute", "start"}},
	{.name = "unique", .call = unique, .parameters = {"case_sensitive", "attribute"}},
	{.name = "batch", .call = batch, .parameters = {"linecount", "fill_with"}, .least = 1},
	{.name = "map", .call_any = map},
	{.name = "select", .call_any = select_items},
	{.name = "reject", .call_any = reject},
	{.name = "selectattr", .call_any = selectattr},
	{.name = "rejectattr", .call_any = rejectattr},
	{.name = NULL}};
