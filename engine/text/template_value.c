#include "engine/text/template_value.h"

#include "engine/text/json_value.h"
#include "engine/text/stop.h"
#include "engine/text/utf8.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct value NONE = {.kind = V_NONE};

/* ---- the run ---- */

struct value run_fail(struct run *r, int code, const char *format, ...)
{
	char words[768];
	va_list args;
	if (!r->failed) {
		va_start(args, format);
		(void)vsnprintf(words, sizeof words, format, args);
		va_end(args);
		r->failed = true;
		if (code == EBADMSG)
			err_set(r->e, code, "%s", words);
		else
			err_set(r->e, code, "%s line %u: %s", r->name, r->line, words);
	}
	return value_undefined(NULL, 0);
}

bool run_work(struct run *r, uint64_t steps)
{
	if (r->failed)
		return false;
	if (steps > r->work_left)
		run_fail(r, EFBIG,
			 "the template takes more work than any conversation should need");
	else if (stop_asked(r->stop)) {
		r->failed = true;
		stop_error(r->e);
	} else
		r->work_left -= steps;
	return !r->failed;
}

struct block {
	struct block *next;
	size_t used, size;
	max_align_t bytes[];
};
enum { BLOCK_BYTES = 64 << 10 };

void *run_allocate(struct run *r, size_t bytes)
{
	size_t unit = sizeof(max_align_t), need = (bytes + unit - 1) / unit * unit;
	if (r->failed)
		return NULL;
	if (bytes > r->memory_left) {
		run_fail(r, EFBIG,
			 "the template takes more memory than any conversation should need");
		return NULL;
	}
	if (!r->blocks || need > r->blocks->size - r->blocks->used) {
		size_t size = need > BLOCK_BYTES / 4 ? need : BLOCK_BYTES;
		struct block *b = malloc(sizeof *b + size);
		if (!b) {
			run_fail(r, ENOMEM, "no memory to render it");
			return NULL;
		}
		*b = (struct block){.next = r->blocks, .size = size};
		r->blocks = b;
		r->memory_left -= size < r->memory_left ? size : r->memory_left;
	}
	void *p = (char *)r->blocks->bytes + r->blocks->used;
	r->blocks->used += need;
	return p;
}

void run_free(struct run *r)
{
	for (struct block *b = r->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	r->blocks = NULL;
}

/* ---- making values ---- */

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

/* ---- what all values have ---- */

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
		return a->n == b->n && memcmp(a->text.bytes, b->text.bytes, a->n) == 0;
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

static int compare_bytes(const struct value *a, const struct value *b)
{
	int order = memcmp(a->text.bytes, b->text.bytes, a->n < b->n ? a->n : b->n);
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
		return compare_bytes(a, b);
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
		run_work(r, 1 + in->n / 64);
		return v->n == 0 || memmem(in->text.bytes, in->n, v->text.bytes, v->n);
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

/* ---- building texts ---- */

static bool writer_room(struct run *r, struct writer *w, size_t n)
{
	if (n <= w->room - w->n)
		return true;
	size_t room = 2 * (w->n + n) + 64;
	char *bytes = room <= UINT32_MAX ? run_allocate(r, 2 * room) : NULL;
	if (!bytes) {
		run_fail(r, EFBIG, "a text of more than 2 GiB");
		return false;
	}
	if (w->n > 0) {
		memcpy(bytes, w->bytes, w->n);
		memcpy(bytes + room, w->from, w->n);
	}
	w->bytes = bytes;
	w->from = (uint8_t *)bytes + room;
	w->room = room;
	return true;
}

void write_bytes(struct run *r, struct writer *w, const char *bytes, const uint8_t *from, size_t n)
{
	if (n == 0 || !run_work(r, 1 + n / 64) || !writer_room(r, w, n))
		return;
	memcpy(w->bytes + w->n, bytes, n);
	memcpy(w->from + w->n, from, n);
	w->n += n;
}

void write_text(struct run *r, struct writer *w, const char *text)
{
	size_t n = strlen(text);
	while (n > 0 && !r->failed) {
		size_t step = n < sizeof ALL_TEMPLATE ? n : sizeof ALL_TEMPLATE;
		write_bytes(r, w, text, ALL_TEMPLATE, step);
		text += step;
		n -= step;
	}
}

struct value write_done(struct run *r, const struct writer *w)
{
	if (r->failed)
		return value_undefined(NULL, 0);
	if (w->n == 0)
		return value_literal("");
	return (struct value){.kind = V_TEXT, .n = (uint32_t)w->n, .text = {w->bytes, w->from}};
}

struct value text_slice(const struct value *text, size_t from, size_t to)
{
	return (struct value){.kind = V_TEXT,
			      .n = (uint32_t)(to - from),
			      .text = {text->text.bytes + from, text->text.from + from}};
}

size_t text_length(const struct value *text)
{
	size_t count = 0;
	for (uint32_t i = 0; i < text->n; i++)
		count += ((unsigned char)text->text.bytes[i] & 0xc0) != 0x80;
	return count;
}

bool text_is(const struct value *v, const char *text)
{
	return v->kind == V_TEXT && v->n == strlen(text) && memcmp(v->text.bytes, text, v->n) == 0;
}

bool is_python_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}
