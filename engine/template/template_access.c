#include "engine/template/template_access.h"

#include "engine/template/template_call.h"
#include "engine/template/template_loop.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <string.h>

static struct value fail_undefined(struct run *r, const struct value *v)
{
	int n = v->n < 64 ? (int)v->n : 64;
	return run_fail(r, EINVAL, "\"%.*s\" is undefined", n, v->text.bytes ? v->text.bytes : "");
}

/* What would change a value is there in Python, but not to be had. */
static bool is_forbidden(const char *name, size_t n)
{
	static const char *const NAMES[] = {"append",  "clear",	 "extend",     "insert", "pop",
					    "popitem", "remove", "setdefault", "sort",	 "update"};
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
		if (strlen(NAMES[i]) == n && memcmp(NAMES[i], name, n) == 0)
			return true;
	return false;
}

static const struct function *methods_of(const struct run *r, const struct value *v)
{
	switch (v->kind) {
	case V_TEXT:
		return r->language->text_methods;
	case V_DICT:
		return r->language->dict_methods;
	case V_LIST:
	case V_TUPLE:
		return r->language->list_methods;
	case V_LOOP:
		return LOOP_METHODS;
	default:
		return NULL;
	}
}

/* A method as a value; undefined where there is none. */
static struct value method_of(struct run *r, const struct value *of, const char *name, size_t n)
{
	const struct function *table = methods_of(r, of);
	const struct function *f = table ? function_find(table, name, n) : NULL;
	struct method *m = f ? run_allocate(r, sizeof *m) : NULL;
	if (!m)
		return value_undefined(name, n);
	*m = (struct method){*of, f};
	return (struct value){.kind = V_METHOD, .method = m};
}

struct value value_attribute(struct run *r, const struct value *of, const char *name, size_t n)
{
	if (of->kind == V_UNDEFINED)
		return fail_undefined(r, of);
	if (of->kind == V_NAMESPACE) {
		const struct value *v = dict_find_name(r, of->dict, name, n);
		return v ? *v : value_undefined(name, n);
	}
	struct value v = method_of(r, of, name, n);
	if (v.kind == V_UNDEFINED && of->kind == V_LOOP)
		return loop_attribute(r, of->loop, name, n);
	bool hidden = (of->kind == V_DICT || of->kind == V_LIST) && is_forbidden(name, n);
	if (v.kind == V_UNDEFINED && of->kind == V_DICT && !hidden) {
		const struct value *member = dict_find_name(r, of->dict, name, n);
		return member ? *member : v;
	}
	return v;
}

/* Where the i-th character of a text begins; its end from the last on. */
static size_t character_at(const struct value *text, int64_t i)
{
	size_t at = 0;
	for (; i > 0 && at < text->n; i--) {
		size_t step;
		utf8_decode(text->text.bytes + at, &step);
		at += step;
	}
	return at;
}

static struct value text_item(struct run *r, const struct value *text, int64_t i)
{
	int64_t length = (int64_t)text_length(text);
	size_t step;
	run_work(r, 1 + text->n / 64);
	i += i < 0 ? length : 0;
	if (i < 0 || i >= length)
		return value_undefined(NULL, 0);
	size_t at = character_at(text, i);
	utf8_decode(text->text.bytes + at, &step);
	return text_slice(text, at, at + step);
}

struct value value_item(struct run *r, const struct value *of, const struct value *key)
{
	bool whole = key->kind == V_INT || key->kind == V_BOOL;
	int64_t i = key->kind == V_BOOL ? key->truth : key->kind == V_INT ? key->integer : 0;
	if (of->kind == V_UNDEFINED)
		return fail_undefined(r, of);
	if (of->kind == V_DICT) {
		const struct value *v = dict_find(r, of->dict, key);
		if (v)
			return *v;
		return key->kind == V_TEXT ? method_of(r, of, key->text.bytes, key->n)
					   : value_undefined(NULL, 0);
	}
	if ((of->kind == V_LIST || of->kind == V_TUPLE) && whole) {
		int64_t count = (int64_t)of->list->count;
		i += i < 0 ? count : 0;
		return i >= 0 && i < count ? of->list->items[i] : value_undefined(NULL, 0);
	}
	if (of->kind == V_TEXT && whole)
		return text_item(r, of, i);
	if (key->kind == V_TEXT)
		return value_attribute(r, of, key->text.bytes, key->n);
	return value_undefined(NULL, 0);
}

/* ---- slices ---- */

/* One end of a slice, among `count` items; as Python clips it. */
static int64_t clip(int64_t i, int64_t count, int64_t step)
{
	if (i < 0)
		i += count;
	if (i < 0)
		return step < 0 ? -1 : 0;
	if (i >= count)
		return step < 0 ? count - 1 : count;
	return i;
}

struct range {
	int64_t start, stop, step;
};

static struct range slice_range(struct run *r, int64_t count, const struct value *start,
				const struct value *stop, const struct value *step)
{
	struct range s = {.step = integer_or(r, step, 1)};
	if (s.step == 0)
		run_fail(r, EINVAL, "a slice in steps of 0");
	bool from = start && start->kind != V_NONE, to = stop && stop->kind != V_NONE;
	s.start = from ? clip(integer_or(r, start, 0), count, s.step) : s.step < 0 ? count - 1 : 0;
	s.stop = to ? clip(integer_or(r, stop, 0), count, s.step) : s.step < 0 ? -1 : count;
	return s;
}

static bool goes_on(const struct range *s, int64_t i)
{
	return s->step > 0 ? i < s->stop : i > s->stop;
}

/* Steps may be as large as an integer. */
static int64_t next(const struct range *s, int64_t i)
{
	return __builtin_add_overflow(i, s->step, &i) ? s->stop : i;
}

static struct value text_range(struct run *r, const struct value *text, struct range s)
{
	struct writer w = {0};
	if (s.step == 1 && s.start >= s.stop)
		return value_literal("");
	if (s.step == 1)
		return text_slice(text, character_at(text, s.start), character_at(text, s.stop));
	struct value items = value_items(r, text);
	for (int64_t i = s.start; !r->failed && goes_on(&s, i); i = next(&s, i)) {
		const struct value *c = &items.list->items[i];
		write_bytes(r, &w, c->text.bytes, c->text.from, c->n);
	}
	return write_done(r, &w);
}

struct value value_slice(struct run *r, const struct value *of, const struct value *start,
			 const struct value *stop, const struct value *step)
{
	if (of->kind == V_UNDEFINED)
		return fail_undefined(r, of);
	if (of->kind == V_TEXT) {
		run_work(r, 1 + of->n / 64);
		struct range s = slice_range(r, (int64_t)text_length(of), start, stop, step);
		return r->failed ? NONE : text_range(r, of, s);
	}
	if (of->kind != V_LIST && of->kind != V_TUPLE)
		return run_fail(r, EINVAL, "%s has no slices", value_type_name(of));
	struct range s = slice_range(r, (int64_t)of->list->count, start, stop, step);
	struct value part = value_list(r, (enum value_kind)of->kind);
	for (int64_t i = s.start; !r->failed && goes_on(&s, i); i = next(&s, i))
		list_append(r, part.list, of->list->items[i]);
	return part;
}
