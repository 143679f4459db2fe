#include "engine/template/template_value.h"

#include "engine/json/json.h"
#include "cache/utf8.h"
#include "engine/tokenizer/token.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory, work and failure of a rendering ---- */

struct value template_fail(struct template_run *r, int code, const char *format, ...)
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
	return (struct value){.kind = V_UNDEFINED};
}

struct value template_fail_undefined(struct template_run *r, const struct value *v)
{
	return template_fail(r, EINVAL, "\"%.*s\" is undefined", (int)(v->n < 64 ? v->n : 64),
			     v->text.bytes ? v->text.bytes : "");
}

bool template_work(struct template_run *r, uint64_t steps)
{
	if (r->failed)
		return false;
	if (steps > r->work_left)
		template_fail(r, EFBIG, "the template takes too many steps; is it damaged?");
	else if (token_stop_asked(r->stop)) {
		r->failed = true;
		token_stop_error(r->e);
	} else
		r->work_left -= steps;
	return !r->failed;
}

struct template_block {
	struct template_block *next;
	size_t used, size;
	max_align_t bytes[];
};
enum { BLOCK_BYTES = 64 << 10 };

void *template_allocate(struct template_run *r, size_t bytes)
{
	size_t unit = sizeof(max_align_t), need = (bytes + unit - 1) / unit * unit;
	if (r->failed)
		return NULL;
	if (bytes > r->memory_left) {
		template_fail(r, EFBIG, "the template needs too much memory; is it damaged?");
		return NULL;
	}
	if (!r->blocks || need > r->blocks->size - r->blocks->used) {
		size_t size = need > BLOCK_BYTES / 4 ? need : BLOCK_BYTES;
		struct template_block *b = malloc(sizeof *b + size);
		if (!b) {
			template_fail(r, ENOMEM, "out of memory for rendering");
			return NULL;
		}
		*b = (struct template_block){.next = r->blocks, .size = size};
		r->blocks = b;
		r->memory_left -= size < r->memory_left ? size : r->memory_left;
	}
	void *p = (char *)r->blocks->bytes + r->blocks->used;
	r->blocks->used += need;
	return p;
}

void *template_grow(struct template_run *r, void *items, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return items;
	size_t larger = 2 * *room + 4;
	void *moved = template_allocate(r, larger * size);
	if (!moved)
		return NULL;
	if (count > 0)
		memcpy(moved, items, count * size);
	*room = larger;
	return moved;
}

void template_free_memory(struct template_run *r)
{
	for (struct template_block *b = r->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	r->blocks = NULL;
}

/* ---- making values ---- */

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

struct value value_text(struct template_run *r, const char *bytes, size_t n,
			enum template_from from)
{
	char *copy = template_allocate(r, 2 * n + 1);
	if (!copy)
		return value_undefined(NULL, 0);
	if (n > 0)
		memcpy(copy, bytes, n);
	memset(copy + n, (int)from, n);
	return (struct value){
		.kind = V_TEXT, .n = (uint32_t)n, .text = {copy, (uint8_t *)copy + n}};
}

struct value value_list(struct template_run *r, enum value_kind kind)
{
	struct list *l = template_allocate(r, sizeof *l);
	if (!l)
		return value_undefined(NULL, 0);
	*l = (struct list){0};
	return (struct value){.kind = (uint8_t)kind, .list = l};
}

void value_append(struct template_run *r, struct list *l, struct value v)
{
	if (!template_work(r, 1))
		return;
	struct value *items = template_grow(r, l->items, l->count, &l->room, sizeof *items);
	if (!items)
		return;
	l->items = items;
	l->items[l->count++] = v;
}

struct value value_pair(struct template_run *r, struct value first, struct value second)
{
	struct value pair = value_list(r, V_TUPLE);
	if (pair.kind == V_TUPLE) {
		value_append(r, pair.list, first);
		value_append(r, pair.list, second);
	}
	return pair;
}

struct value value_dict(struct template_run *r, enum value_kind kind)
{
	struct dict *d = template_allocate(r, sizeof *d);
	if (!d)
		return value_undefined(NULL, 0);
	*d = (struct dict){0};
	return (struct value){.kind = (uint8_t)kind, .dict = d};
}

/* ---- types and equality ---- */

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

static bool value_equal_deep(struct template_run *r, const struct value *a, const struct value *b,
			     int depth)
{
	bool same;
	if (!template_work(r, 1))
		return false;
	if (depth > TEMPLATE_VALUE_DEPTH) {
		template_fail(r, EINVAL, "values are nested too deeply to be compared");
		return false;
	}
	if (a->kind != b->kind)
		return value_is_number(a) && value_is_number(b) &&
		       value_as_double(a) == value_as_double(b);
	switch (a->kind) {
	case V_BOOL:
	case V_FLOAT:
		return value_as_double(a) == value_as_double(b);
	case V_INT:
		return a->integer == b->integer;
	case V_UNDEFINED:
	case V_NONE:
		return true;
	case V_BIG:
	case V_TEXT:
		return a->n == b->n && template_work(r, a->n / 64) &&
		       memcmp(a->text.bytes, b->text.bytes, a->n) == 0;
	case V_LIST:
	case V_TUPLE:
		same = a->list->count == b->list->count;
		for (size_t i = 0; same && i < a->list->count; i++)
			same = value_equal_deep(r, &a->list->items[i], &b->list->items[i],
						depth + 1);
		return same;
	case V_DICT:
		same = a->dict->count == b->dict->count;
		for (size_t i = 0; same && i < a->dict->count; i++) {
			const struct member *m = &a->dict->members[i];
			const struct value *other = value_dict_find(r, b->dict, &m->key);
			same = other && value_equal_deep(r, &m->value, other, depth + 1);
		}
		return same;
	case V_METHOD:
		return a->method == b->method;
	default:
		return a->list == b->list; /* the very same */
	}
}

bool value_equal(struct template_run *r, const struct value *a, const struct value *b)
{
	return value_equal_deep(r, a, b, 0);
}

/* ---- texts ---- */

/* Every place where `part` may begin counts as work: a text can be made so that each takes long. */
size_t value_text_find(struct template_run *r, const struct value *text, size_t from,
		       const struct value *part)
{
	const char *at = text->text.bytes + from, *end = text->text.bytes + text->n;
	if (part->n == 0)
		return from;
	while (!r->failed && (size_t)(end - at) >= part->n) {
		const char *next = memchr(at, *part->text.bytes, (size_t)(end - at) - part->n + 1);
		template_work(r, 1 + (size_t)((next ? next : end) - at) / 64 + part->n / 64);
		if (!next)
			break;
		if (!memcmp(next, part->text.bytes, part->n))
			return (size_t)(next - text->text.bytes);
		at = next + 1;
	}
	return text->n;
}

/* ---- objects ---- */

struct value *value_dict_find(struct template_run *r, const struct dict *d, const struct value *key)
{
	if (!template_work(r, 1 + d->count / 16))
		return NULL;
	for (size_t i = 0; i < d->count; i++)
		if (value_equal(r, &d->members[i].key, key))
			return &d->members[i].value;
	return NULL;
}

struct value *value_dict_find_name(struct template_run *r, const struct dict *d, const char *name,
				   size_t n)
{
	if (!template_work(r, 1 + d->count / 16))
		return NULL;
	for (size_t i = 0; i < d->count; i++) {
		const struct value *key = &d->members[i].key;
		if (key->kind == V_TEXT && key->n == n && memcmp(key->text.bytes, name, n) == 0)
			return &d->members[i].value;
	}
	return NULL;
}

void value_dict_put(struct template_run *r, struct dict *d, struct value key, struct value v)
{
	struct value *there = value_dict_find(r, d, &key);
	if (there) {
		*there = v;
		return;
	}
	struct member *members = template_grow(r, d->members, d->count, &d->room, sizeof *members);
	if (!members)
		return;
	d->members = members;
	d->members[d->count++] = (struct member){key, v};
}

/* ---- from JSON ---- */

/* Integers keep all their digits, and 1.0 stays a float. */
static struct value value_number_of_json(struct template_run *r, const struct json *json)
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

struct value value_of_json(struct template_run *r, const struct json *json, enum template_from from)
{
	struct value made;
	size_t n;
	const char *bytes;
	switch (json_kind(json)) {
	case JSON_NULL:
		return NONE;
	case JSON_BOOL:
		return value_bool(json->text[0] == 't');
	case JSON_NUMBER:
		return value_number_of_json(r, json);
	case JSON_TEXT:
		bytes = json_bytes(json, &n);
		return value_text(r, bytes, n, from);
	case JSON_OBJECT:
		made = value_dict(r, V_DICT);
		for (const struct json *v = NULL; !r->failed && (v = json_next(json, v));) {
			bytes = json_key(v);
			value_dict_put(r, made.dict, value_text(r, bytes, strlen(bytes), from),
				       value_of_json(r, v, from));
		}
		return made;
	case JSON_LIST:
		break;
	}
	made = value_list(r, V_LIST);
	for (const struct json *v = NULL; !r->failed && (v = json_next(json, v));)
		value_append(r, made.list, value_of_json(r, v, from));
	return made;
}

/* ---- building texts ---- */

static bool value_writer_room(struct template_run *r, struct writer *w, size_t n)
{
	if (n <= w->room - w->n)
		return true;
	size_t room = 2 * (w->n + n) + 64;
	char *bytes = room <= UINT32_MAX ? template_allocate(r, 2 * room) : NULL;
	if (!bytes) {
		template_fail(r, EFBIG, "a text of more than 2 GiB");
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

void value_write_bytes(struct template_run *r, struct writer *w, const char *bytes,
		       const uint8_t *from, size_t n)
{
	if (n == 0 || !template_work(r, 1 + n / 64) || !value_writer_room(r, w, n))
		return;
	memcpy(w->bytes + w->n, bytes, n);
	memcpy(w->from + w->n, from, n);
	w->n += n;
}

void value_write_text(struct template_run *r, struct writer *w, const char *text)
{
	size_t n = strlen(text);
	while (n > 0 && !r->failed) {
		size_t step = n < sizeof ALL_TEMPLATE ? n : sizeof ALL_TEMPLATE;
		value_write_bytes(r, w, text, ALL_TEMPLATE, step);
		text += step;
		n -= step;
	}
}

struct value value_written(struct template_run *r, const struct writer *w)
{
	if (r->failed)
		return value_undefined(NULL, 0);
	if (w->n == 0)
		return value_literal("");
	return (struct value){.kind = V_TEXT, .n = (uint32_t)w->n, .text = {w->bytes, w->from}};
}

struct value value_text_slice(const struct value *text, size_t from, size_t to)
{
	return (struct value){.kind = V_TEXT,
			      .n = (uint32_t)(to - from),
			      .text = {text->text.bytes + from, text->text.from + from}};
}

size_t value_text_length(const struct value *text)
{
	size_t count = 0;
	for (uint32_t i = 0; i < text->n; i++)
		count += !utf8_goes_on(text->text.bytes[i]);
	return count;
}

bool value_is_text(const struct value *v, const char *text)
{
	return v->kind == V_TEXT && v->n == strlen(text) && memcmp(v->text.bytes, text, v->n) == 0;
}

bool value_is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

/* ---- comparing ---- */

/* Truth, order and items of values. (Equality is above, since dictionaries use it.) */

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

static int value_compare_deep(struct template_run *r, const struct value *a, const struct value *b,
			      int depth)
{
	if (!template_work(r, 1))
		return 0;
	if (value_is_number(a) && value_is_number(b)) {
		double x = value_as_double(a), y = value_as_double(b);
		if (a->kind == V_INT && b->kind == V_INT)
			return (a->integer > b->integer) - (a->integer < b->integer);
		return (x > y) - (x < y);
	}
	if (a->kind == V_TEXT && b->kind == V_TEXT) {
		size_t n = a->n < b->n ? a->n : b->n;
		int order = template_work(r, n / 64) ? memcmp(a->text.bytes, b->text.bytes, n) : 0;
		return order ? order : (a->n > b->n) - (a->n < b->n);
	}
	bool lists = a->kind == b->kind && (a->kind == V_LIST || a->kind == V_TUPLE);
	if (!lists || depth > TEMPLATE_VALUE_DEPTH) {
		template_fail(r, EINVAL, "%s and %s cannot be ordered", value_type_name(a),
			      value_type_name(b));
		return 0;
	}
	for (size_t i = 0; i < a->list->count && i < b->list->count; i++) {
		int order =
			value_compare_deep(r, &a->list->items[i], &b->list->items[i], depth + 1);
		if (order)
			return order;
	}
	return (a->list->count > b->list->count) - (a->list->count < b->list->count);
}

int value_compare(struct template_run *r, const struct value *a, const struct value *b)
{
	return value_compare_deep(r, a, b, 0);
}

struct value value_items(struct template_run *r, const struct value *v)
{
	if (v->kind == V_LIST || v->kind == V_TUPLE)
		return *v;
	struct value items = value_list(r, V_LIST);
	if (r->failed)
		return items;
	if (v->kind == V_DICT)
		for (size_t i = 0; i < v->dict->count; i++)
			value_append(r, items.list, v->dict->members[i].key);
	else if (v->kind == V_TEXT)
		for (size_t i = 0, step; i < v->n; i += step) {
			utf8_decode(v->text.bytes + i, &step);
			value_append(r, items.list, value_text_slice(v, i, i + step));
		}
	else if (v->kind != V_UNDEFINED)
		return template_fail(r, EINVAL, "%s is not iterable", value_type_name(v));
	return items;
}

bool value_contains(struct template_run *r, const struct value *in, const struct value *v)
{
	switch (in->kind) {
	case V_UNDEFINED:
		return false;
	case V_TEXT:
		if (v->kind != V_TEXT)
			break;
		return v->n == 0 || value_text_find(r, in, 0, v) < in->n;
	case V_DICT:
		return value_dict_find(r, in->dict, v) != NULL;
	case V_LIST:
	case V_TUPLE:
		for (size_t i = 0; !r->failed && i < in->list->count; i++)
			if (value_equal(r, &in->list->items[i], v))
				return true;
		return false;
	default:
		break;
	}
	template_fail(r, EINVAL, "%s cannot be searched for in %s", value_type_name(v),
		      value_type_name(in));
	return false;
}
