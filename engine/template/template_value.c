#include "engine/template/template_value.h"

#include "engine/json/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct value NONE = {.kind = V_NONE};

struct value value_undefined(const char *what, size_t n)
{
	return (struct value){.kind = V_UNDEFINED, .n = (uint32_t)n, .text = {what, NULL}};
}

struct value value_bool(bool truth)
{
	return (struct value){.kind = V_BOOL, .truth = truth};
}

struct value value_int(int64_t integer)
{
	return (struct value){.kind = V_INT, .integer = integer};
}

struct value value_float(double number)
{
	return (struct value){.kind = V_FLOAT, .number = number};
}

static const uint8_t ALL_TEMPLATE[256];

struct value value_literal(const char *text)
{
	return (struct value){
		.kind = V_TEXT, .n = (uint32_t)strlen(text), .text = {text, ALL_TEMPLATE}};
}

struct value value_text(struct run *r, const char *bytes, size_t n, enum template_from from)
{
	char *copy = run_allocate(r, 2 * n + 1);
	if (!copy)
		return value_undefined(NULL, 0);
	if (n > 0)
		memcpy(copy, bytes, n);
	memset(copy + n, (int)from, n);
	return (struct value){
		.kind = V_TEXT, .n = (uint32_t)n, .text = {copy, (uint8_t *)copy + n}};
}

struct value value_list(struct run *r, enum value_kind kind)
{
	struct list *l = run_allocate(r, sizeof *l);
	if (!l)
		return value_undefined(NULL, 0);
	*l = (struct list){0};
	return (struct value){.kind = (uint8_t)kind, .list = l};
}

/* Room for one more of `size` bytes in an array, which may move. */
static void *grow(struct run *r, void *items, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return items;
	size_t larger = 2 * *room + 4;
	void *moved = run_allocate(r, larger * size);
	if (!moved)
		return NULL;
	if (count > 0)
		memcpy(moved, items, count * size);
	*room = larger;
	return moved;
}

void list_append(struct run *r, struct list *l, struct value v)
{
	if (!run_work(r, 1))
		return;
	struct value *items = grow(r, l->items, l->count, &l->room, sizeof *items);
	if (!items)
		return;
	l->items = items;
	l->items[l->count++] = v;
}

struct value value_pair(struct run *r, struct value first, struct value second)
{
	struct value pair = value_list(r, V_TUPLE);
	if (pair.kind == V_TUPLE) {
		list_append(r, pair.list, first);
		list_append(r, pair.list, second);
	}
	return pair;
}

struct value value_dict(struct run *r, enum value_kind kind)
{
	struct dict *d = run_allocate(r, sizeof *d);
	if (!d)
		return value_undefined(NULL, 0);
	*d = (struct dict){0};
	return (struct value){.kind = (uint8_t)kind, .dict = d};
}

/* ---- what values are, and which are equal ---- */

const char *value_type_name(const struct value *v)
{
	static const char *const NAMES[] = {[V_UNDEFINED] = "Undefined",
					    [V_NONE] = "NoneType",
					    [V_BOOL] = "bool",
					    [V_INT] = "int",
					    [V_BIG] = "int",
					    [V_FLOAT] = "float",
					    [V_TEXT] = "str",
					    [V_LIST] = "list",
					    [V_TUPLE] = "tuple",
					    [V_DICT] = "dict",
					    [V_NAMESPACE] = "Namespace",
					    [V_LOOP] = "LoopContext",
					    [V_MACRO] = "Macro",
					    [V_FUNCTION] = "function",
					    [V_METHOD] = "method"};
	return NAMES[v->kind];
}

bool value_is_number(const struct value *v)
{
	return v->kind == V_BOOL || v->kind == V_INT || v->kind == V_BIG || v->kind == V_FLOAT;
}

double value_as_double(const struct value *v)
{
	switch (v->kind) {
	case V_BOOL:
		return v->truth;
	case V_INT:
		return (double)v->integer;
	case V_FLOAT:
		return v->number;
	case V_BIG:
		return strtod(v->text.bytes, NULL);
	default:
		return NAN;
	}
}

static bool equal(struct run *r, const struct value *a, const struct value *b, int depth);

static bool equal_lists(struct run *r, const struct list *a, const struct list *b, int depth)
{
	bool same = a->count == b->count;
	for (size_t i = 0; same && i < a->count; i++)
		same = equal(r, &a->items[i], &b->items[i], depth);
	return same;
}

static bool equal_dicts(struct run *r, const struct dict *a, const struct dict *b, int depth)
{
	bool same = a->count == b->count;
	for (size_t i = 0; same && i < a->count; i++) {
		const struct value *other = dict_find(r, b, &a->members[i].key);
		same = other && equal(r, &a->members[i].value, other, depth);
	}
	return same;
}

static bool equal_numbers(const struct value *a, const struct value *b)
{
	if (a->kind == V_BIG && b->kind == V_BIG)
		return a->n == b->n && memcmp(a->text.bytes, b->text.bytes, a->n) == 0;
	if (a->kind == V_INT && b->kind == V_INT)
		return a->integer == b->integer;
	return value_as_double(a) == value_as_double(b);
}

static bool equal(struct run *r, const struct value *a, const struct value *b, int depth)
{
	if (!run_work(r, 1))
		return false;
	if (depth > TEMPLATE_VALUE_DEPTH) {
		run_fail(r, EINVAL, "values too deep within one another to be compared");
		return false;
	}
	if (value_is_number(a) && value_is_number(b))
		return equal_numbers(a, b);
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case V_UNDEFINED:
	case V_NONE:
		return true;
	case V_TEXT:
		return a->n == b->n && run_work(r, a->n / 64) &&
		       memcmp(a->text.bytes, b->text.bytes, a->n) == 0;
	case V_LIST:
	case V_TUPLE:
		return equal_lists(r, a->list, b->list, depth + 1);
	case V_DICT:
		return equal_dicts(r, a->dict, b->dict, depth + 1);
	case V_METHOD:
		return a->method == b->method;
	default:
		return a->list == b->list; /* the very same */
	}
}

bool value_equal(struct run *r, const struct value *a, const struct value *b)
{
	return equal(r, a, b, 0);
}

/* ---- texts ---- */

/* Every place where it may begin is work: a text can be made so that each is looked at for long. */
size_t text_find(struct run *r, const struct value *text, size_t from, const struct value *part)
{
	const char *at = text->text.bytes + from, *end = text->text.bytes + text->n;
	if (part->n == 0)
		return from;
	while (!r->failed && (size_t)(end - at) >= part->n) {
		const char *next = memchr(at, *part->text.bytes, (size_t)(end - at) - part->n + 1);
		run_work(r, 1 + (size_t)((next ? next : end) - at) / 64 + part->n / 64);
		if (!next)
			break;
		if (!memcmp(next, part->text.bytes, part->n))
			return (size_t)(next - text->text.bytes);
		at = next + 1;
	}
	return text->n;
}

/* ---- objects ---- */

struct value *dict_find(struct run *r, const struct dict *d, const struct value *key)
{
	if (!run_work(r, 1 + d->count / 16))
		return NULL;
	for (size_t i = 0; i < d->count; i++)
		if (value_equal(r, &d->members[i].key, key))
			return &d->members[i].value;
	return NULL;
}

struct value *dict_find_name(struct run *r, const struct dict *d, const char *name, size_t n)
{
	if (!run_work(r, 1 + d->count / 16))
		return NULL;
	for (size_t i = 0; i < d->count; i++) {
		const struct value *key = &d->members[i].key;
		if (key->kind == V_TEXT && key->n == n && memcmp(key->text.bytes, name, n) == 0)
			return &d->members[i].value;
	}
	return NULL;
}

void dict_put(struct run *r, struct dict *d, struct value key, struct value v)
{
	struct value *there = dict_find(r, d, &key);
	if (there) {
		*there = v;
		return;
	}
	struct member *members = grow(r, d->members, d->count, &d->room, sizeof *members);
	if (!members)
		return;
	d->members = members;
	d->members[d->count++] = (struct member){key, v};
}

/* ---- from JSON ---- */

/* Integers keep all their digits, and 1.0 is not 1. */
static struct value number_of_json(struct run *r, const struct json *json)
{
	char *end;
	if (strpbrk(json->text, ".eENI"))
		return value_float(strtod(json->text, NULL));
	errno = 0;
	long long integer = strtoll(json->text, &end, 10);
	if (errno == 0)
		return value_int(integer);
	struct value big = value_text(r, json->text, json->length, FROM_TEMPLATE);
	if (big.kind == V_TEXT)
		big.kind = V_BIG;
	return big;
}

static struct value object_of_json(struct run *r, const struct json *json, enum template_from from)
{
	struct value object = value_dict(r, V_DICT);
	for (const struct json *v = NULL; !r->failed && (v = json_next(json, v));) {
		const char *key = json_key(v);
		dict_put(r, object.dict, value_text(r, key, strlen(key), from),
			 value_of_json(r, v, from));
	}
	return object;
}

struct value value_of_json(struct run *r, const struct json *json, enum template_from from)
{
	struct value list;
	size_t n;
	const char *bytes;
	switch (json_kind(json)) {
	case JSON_NULL:
		return NONE;
	case JSON_BOOL:
		return value_bool(json->text[0] == 't');
	case JSON_NUMBER:
		return number_of_json(r, json);
	case JSON_TEXT:
		bytes = json_bytes(json, &n);
		return value_text(r, bytes, n, from);
	case JSON_OBJECT:
		return object_of_json(r, json, from);
	case JSON_LIST:
		break;
	}
	list = value_list(r, V_LIST);
	for (const struct json *v = NULL; !r->failed && (v = json_next(json, v));)
		list_append(r, list.list, value_of_json(r, v, from));
	return list;
}
