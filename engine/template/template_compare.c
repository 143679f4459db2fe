/* What all values have: truth, order, items. (Equality is beside dicts, which look their keys up
 * by it.) */
#include "engine/template/template_value.h"

#include "engine/json/utf8.h"

#include <errno.h>
#include <string.h>

bool value_truth(const struct value *v)
{
	switch (v->kind) {
	case V_UNDEFINED:
	case V_NONE:
		return false;
	case V_BOOL:
		return v->truth;
	case V_INT:
		return v->integer != 0;
	case V_FLOAT:
		return v->number != 0;
	case V_TEXT:
		return v->n > 0;
	case V_LIST:
	case V_TUPLE:
		return v->list->count > 0;
	case V_DICT:
		return v->dict->count > 0;
	default:
		return true;
	}
}

static int compare_bytes(struct run *r, const struct value *a, const struct value *b)
{
	size_t n = a->n < b->n ? a->n : b->n;
	int order = run_work(r, n / 64) ? memcmp(a->text.bytes, b->text.bytes, n) : 0;
	return order ? order : (a->n > b->n) - (a->n < b->n);
}

static int compare(struct run *r, const struct value *a, const struct value *b, int depth)
{
	if (!run_work(r, 1))
		return 0;
	if (value_is_number(a) && value_is_number(b)) {
		double x = value_as_double(a), y = value_as_double(b);
		if (a->kind == V_INT && b->kind == V_INT)
			return (a->integer > b->integer) - (a->integer < b->integer);
		return (x > y) - (x < y);
	}
	if (a->kind == V_TEXT && b->kind == V_TEXT)
		return compare_bytes(r, a, b);
	bool lists = a->kind == b->kind && (a->kind == V_LIST || a->kind == V_TUPLE);
	if (!lists || depth > TEMPLATE_VALUE_DEPTH) {
		run_fail(r, EINVAL, "%s and %s have no order", value_type_name(a),
			 value_type_name(b));
		return 0;
	}
	for (size_t i = 0; i < a->list->count && i < b->list->count; i++) {
		int order = compare(r, &a->list->items[i], &b->list->items[i], depth + 1);
		if (order)
			return order;
	}
	return (a->list->count > b->list->count) - (a->list->count < b->list->count);
}

int value_compare(struct run *r, const struct value *a, const struct value *b)
{
	return compare(r, a, b, 0);
}

struct value value_items(struct run *r, const struct value *v)
{
	if (v->kind == V_LIST || v->kind == V_TUPLE)
		return *v;
	struct value items = value_list(r, V_LIST);
	if (r->failed)
		return items;
	if (v->kind == V_DICT)
		for (size_t i = 0; i < v->dict->count; i++)
			list_append(r, items.list, v->dict->members[i].key);
	else if (v->kind == V_TEXT)
		for (size_t i = 0, step; i < v->n; i += step) {
			utf8_decode(v->text.bytes + i, &step);
			list_append(r, items.list, text_slice(v, i, i + step));
		}
	else if (v->kind != V_UNDEFINED)
		return run_fail(r, EINVAL, "%s is not iterable", value_type_name(v));
	return items;
}

bool value_contains(struct run *r, const struct value *in, const struct value *v)
{
	switch (in->kind) {
	case V_UNDEFINED:
		return false;
	case V_TEXT:
		if (v->kind != V_TEXT)
			break;
		return v->n == 0 || text_find(r, in, 0, v) < in->n;
	case V_DICT:
		return dict_find(r, in->dict, v) != NULL;
	case V_LIST:
	case V_TUPLE:
		for (size_t i = 0; !r->failed && i < in->list->count; i++)
			if (value_equal(r, &in->list->items[i], v))
				return true;
		return false;
	default:
		break;
	}
	run_fail(r, EINVAL, "%s cannot be looked for in %s", value_type_name(v),
		 value_type_name(in));
	return false;
}
