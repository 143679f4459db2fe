#include "engine/template/template_operators.h"

#include "cache/utf8.h"
#include "engine/template/template_call.h"
#include "engine/template/template_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct value operator_refuse(struct template_run *r, const char *sign, const struct value *a,
				    const struct value *b)
{
	const struct value *missing = a->kind == V_UNDEFINED   ? a
				      : b->kind == V_UNDEFINED ? b
							       : NULL;
	if (missing)
		return template_fail_undefined(r, missing);
	return template_fail(r, EINVAL, "cannot compute %s %s %s", value_type_name(a), sign,
			     value_type_name(b));
}

struct value operator_concatenate(struct template_run *r, const struct value *a,
				  const struct value *b)
{
	struct writer w = {0};
	text_print(r, &w, a);
	text_print(r, &w, b);
	return value_written(r, &w);
}

/* ---- numbers ---- */

static int64_t operator_integer(const struct value *v)
{
	return v->kind == V_BOOL ? v->truth : v->integer;
}

static struct value operator_too_large(struct template_run *r)
{
	return template_fail(r, EINVAL, "a number exceeds 64 bits");
}

static struct value operator_power(struct template_run *r, int64_t base, int64_t exponent)
{
	int64_t result = 1;
	if (exponent < 0)
		return value_float(pow((double)base, (double)exponent));
	for (; exponent > 0; exponent--) {
		if (__builtin_mul_overflow(result, base, &result) || !template_work(r, 1))
			return operator_too_large(r);
		if (base == 0 || base == 1)
			break;
	}
	return value_int(result);
}

/* Floor division, or its remainder, which has the divisor's sign. */
static struct value operator_divide_down(struct template_run *r, int64_t a, int64_t b,
					 bool remainder)
{
	if (b == 0)
		return template_fail(r, EINVAL, "division by zero");
	if (b == -1) /* INT64_MIN / -1 overflows */
		return remainder	? value_int(0)
		       : a == INT64_MIN ? operator_too_large(r)
					: value_int(-a);
	int64_t quotient = a / b, rest = a % b;
	bool down = rest != 0 && (rest < 0) != (b < 0);
	return value_int(remainder ? rest + (down ? b : 0) : quotient - down);
}

static struct value operator_integers(struct template_run *r, enum operator_kind op, int64_t a,
				      int64_t b)
{
	int64_t result;
	switch (op) {
	case OP_ADD:
		return __builtin_add_overflow(a, b, &result) ? operator_too_large(r)
							     : value_int(result);
	case OP_SUBTRACT:
		return __builtin_sub_overflow(a, b, &result) ? operator_too_large(r)
							     : value_int(result);
	case OP_MULTIPLY:
		return __builtin_mul_overflow(a, b, &result) ? operator_too_large(r)
							     : value_int(result);
	case OP_POWER:
		return operator_power(r, a, b);
	default:
		return operator_divide_down(r, a, b, op == OP_MODULO);
	}
}

static struct value operator_floats(struct template_run *r, enum operator_kind op, double a,
				    double b)
{
	double rest;
	switch (op) {
	case OP_ADD:
		return value_float(a + b);
	case OP_SUBTRACT:
		return value_float(a - b);
	case OP_MULTIPLY:
		return value_float(a * b);
	case OP_POWER:
		return value_float(pow(a, b));
	default:
		break;
	}
	if (b == 0)
		return template_fail(r, EINVAL, "division by zero");
	if (op == OP_DIVIDE)
		return value_float(a / b);
	rest = fmod(a, b);
	rest += rest != 0 && (rest < 0) != (b < 0) ? b : 0;
	return value_float(op == OP_MODULO ? rest : floor((a - rest) / b + 0.5));
}

static struct value operator_numbers(struct template_run *r, enum operator_kind op,
				     const struct value *a, const struct value *b)
{
	if (a->kind == V_BIG || b->kind == V_BIG)
		return operator_too_large(r);
	if (a->kind == V_FLOAT || b->kind == V_FLOAT || op == OP_DIVIDE)
		return operator_floats(r, op, value_as_double(a), value_as_double(b));
	return operator_integers(r, op, operator_integer(a), operator_integer(b));
}

/* ---- texts ---- */

static struct value operator_add(struct template_run *r, const struct value *a,
				 const struct value *b)
{
	if (a->kind == V_TEXT && b->kind == V_TEXT) {
		bool safe = a->safe || b->safe;
		struct value x = safe ? text_escape_html(r, a) : *a,
			     y = safe ? text_escape_html(r, b) : *b;
		x = operator_concatenate(r, &x, &y);
		x.safe = safe;
		return x;
	}
	if (a->kind != b->kind || (a->kind != V_LIST && a->kind != V_TUPLE))
		return operator_refuse(r, "+", a, b);
	struct value both = value_list(r, (enum value_kind)a->kind);
	for (size_t i = 0; !r->failed && i < a->list->count; i++)
		value_append(r, both.list, a->list->items[i]);
	for (size_t i = 0; !r->failed && i < b->list->count; i++)
		value_append(r, both.list, b->list->items[i]);
	return both;
}

static struct value operator_repeat(struct template_run *r, const struct value *what,
				    const struct value *times)
{
	struct writer w = {0};
	struct value list = NONE;
	int64_t n = operator_integer(times);
	if (what->kind == V_TEXT) {
		for (int64_t i = 0; i < n && !r->failed && what->n > 0; i++)
			value_write_bytes(r, &w, what->text.bytes, what->text.from, what->n);
		return value_written(r, &w);
	}
	list = value_list(r, (enum value_kind)what->kind);
	for (int64_t i = 0; i < n && !r->failed && what->list->count > 0; i++)
		for (size_t k = 0; k < what->list->count && !r->failed; k++)
			value_append(r, list.list, what->list->items[k]);
	return list;
}

/* Formats one item of '%s %d' % items. */
static void operator_format_item(struct template_run *r, struct writer *w, char kind,
				 const struct value *v)
{
	char digits[512]; /* a double has at most 309 before the point */
	if (kind == 's' || ((kind == 'd' || kind == 'i') && (v->kind == V_INT || v->kind == V_BIG)))
		text_print(r, w, v);
	else if (kind != 'd' && kind != 'i')
		template_fail(r, ENOTSUP, "%%%c in a format is not supported", kind ? kind : ' ');
	else if (v->kind == V_BOOL)
		value_write_text(r, w, v->truth ? "1" : "0");
	else if (v->kind != V_FLOAT || !isfinite(v->number))
		template_fail(r, EINVAL, "%%d cannot format %s",
			      v->kind != V_FLOAT ? value_type_name(v)
			      : isnan(v->number) ? "NaN"
						 : "infinity");
	else { /* all digits, as Python: int64_t does not hold them; -0.0 + 0.0 is 0 */
		(void)snprintf(digits, sizeof digits, "%.0f", trunc(v->number) + 0.0);
		value_write_text(r, w, digits);
	}
}

static struct value operator_format(struct template_run *r, const struct value *text,
				    const struct value *given)
{
	const struct value *items = given->kind == V_TUPLE ? given->list->items : given;
	size_t count = given->kind == V_TUPLE ? given->list->count : 1, next = 0;
	struct writer w = {0};
	for (uint32_t i = 0; i < text->n && !r->failed; i++) {
		bool item = text->text.bytes[i] == '%' && i + 1 < text->n;
		if (item && text->text.bytes[++i] != '%') {
			if (next >= count)
				return template_fail(r, EINVAL, "too few values for a format");
			operator_format_item(r, &w, text->text.bytes[i], &items[next++]);
		} else
			value_write_bytes(r, &w, text->text.bytes + i, text->text.from + i, 1);
	}
	if (next < count && given->kind != V_DICT)
		return template_fail(r, EINVAL, "too many values for a format");
	return value_written(r, &w);
}

/* ---- all of them ---- */

static bool operator_is_whole(const struct value *v)
{
	return v->kind == V_INT || v->kind == V_BOOL;
}

static bool operator_repeats(const struct value *v)
{
	return v->kind == V_TEXT || v->kind == V_LIST || v->kind == V_TUPLE;
}

struct value operator_apply(struct template_run *r, enum operator_kind op, const struct value *a,
			    const struct value *b)
{
	static const char *const SIGNS[] = {
		[OP_ADD] = "+",	   [OP_SUBTRACT] = "-", [OP_MULTIPLY] = "*", [OP_DIVIDE] = "/",
		[OP_FLOOR] = "//", [OP_MODULO] = "%",	[OP_POWER] = "**"};
	if (!template_work(r, 1))
		return NONE;
	if (value_is_number(a) && value_is_number(b))
		return operator_numbers(r, op, a, b);
	if (op == OP_ADD)
		return operator_add(r, a, b);
	if (op == OP_MODULO && a->kind == V_TEXT && b->kind != V_UNDEFINED)
		return operator_format(r, a, b);
	if (op == OP_MULTIPLY && operator_repeats(a) && operator_is_whole(b))
		return operator_repeat(r, a, b);
	if (op == OP_MULTIPLY && operator_repeats(b) && operator_is_whole(a))
		return operator_repeat(r, b, a);
	return operator_refuse(r, SIGNS[op], a, b);
}

struct value operator_negate(struct template_run *r, const struct value *v)
{
	struct value zero = value_int(0);
	if (v->kind == V_FLOAT)
		return value_float(-v->number);
	return operator_apply(r, OP_SUBTRACT, &zero, v);
}

bool operator_compare(struct template_run *r, enum operator_kind op, const struct value *a,
		      const struct value *b)
{
	switch (op) {
	case OP_EQUAL:
		return value_equal(r, a, b);
	case OP_NOT_EQUAL:
		return !value_equal(r, a, b);
	case OP_IN:
		return value_contains(r, b, a);
	case OP_NOT_IN:
		return !value_contains(r, b, a);
	case OP_LESS:
		return value_compare(r, a, b) < 0;
	case OP_LESS_EQUAL:
		return value_compare(r, a, b) <= 0;
	case OP_GREATER:
		return value_compare(r, a, b) > 0;
	default:
		return value_compare(r, a, b) >= 0;
	}
}

/* ---- the variable loop ---- */

static struct value operator_loop_attribute(struct template_run *r, const struct loop *l,
					    const char *name, size_t n)
{
	const int64_t i = (int64_t)l->index, count = (int64_t)l->items->count;
	const struct value none = value_undefined(name, n);
	const struct {
		const char *name;
		struct value value;
	} attributes[] = {
		{"index", value_int(i + 1)},
		{"index0", value_int(i)},
		{"revindex", value_int(count - i)},
		{"revindex0", value_int(count - i - 1)},
		{"first", value_bool(i == 0)},
		{"last", value_bool(i + 1 == count)},
		{"length", value_int(count)},
		{"depth", value_int((int64_t)l->depth + 1)},
		{"depth0", value_int(l->depth)},
		{"previtem", i > 0 ? l->items->items[i - 1] : none},
		{"nextitem", i + 1 < count ? l->items->items[i + 1] : none},
	};
	template_work(r, 1);
	for (size_t k = 0; k < sizeof attributes / sizeof *attributes; k++)
		if (strlen(attributes[k].name) == n && memcmp(attributes[k].name, name, n) == 0)
			return attributes[k].value;
	return none;
}

static struct value operator_loop_cycle(struct template_run *r, const struct value *self,
					const struct call_arguments *args)
{
	if (args->count == 0)
		return template_fail(r, EINVAL, "loop.cycle without arguments");
	return args->items[self->loop->index % args->count];
}

static struct value operator_loop_changed(struct template_run *r, const struct value *self,
					  const struct call_arguments *args)
{
	struct loop *l = self->loop;
	struct value now = value_list(r, V_TUPLE);
	for (size_t i = 0; !r->failed && i < args->count; i++)
		value_append(r, now.list, args->items[i]);
	bool same = !r->failed && l->changed_any && value_equal(r, &now, &l->last);
	l->changed_any = true;
	l->last = now;
	return value_bool(!same);
}

const struct function LOOP_METHODS[] = {
	{.name = "cycle", .call_any = operator_loop_cycle},
	{.name = "changed", .call_any = operator_loop_changed},
	{.name = NULL},
};

/* ---- attributes, items and slices ---- */

/* Methods that would change a value exist in Python, but not here. */
static bool operator_is_forbidden(const char *name, size_t n)
{
	static const char *const NAMES[] = {"append",  "clear",	 "extend",     "insert", "pop",
					    "popitem", "remove", "setdefault", "sort",	 "update"};
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
		if (strlen(NAMES[i]) == n && memcmp(NAMES[i], name, n) == 0)
			return true;
	return false;
}

/* A method as a value; undefined if there is none. */
static struct value operator_method(struct template_run *r, const struct value *of,
				    const char *name, size_t n)
{
	const struct function *table = of->kind == V_TEXT   ? r->language->text_methods
				       : of->kind == V_DICT ? r->language->dict_methods
				       : of->kind == V_LOOP ? LOOP_METHODS
				       : of->kind == V_LIST || of->kind == V_TUPLE
					       ? r->language->list_methods
					       : NULL;
	const struct function *f = table ? call_find(table, name, n) : NULL;
	struct method *m = f ? template_allocate(r, sizeof *m) : NULL;
	if (!m)
		return value_undefined(name, n);
	*m = (struct method){*of, f};
	return (struct value){.kind = V_METHOD, .method = m};
}

struct value operator_attribute(struct template_run *r, const struct value *of, const char *name,
				size_t n)
{
	if (of->kind == V_UNDEFINED)
		return template_fail_undefined(r, of);
	if (of->kind == V_NAMESPACE) {
		const struct value *v = value_dict_find_name(r, of->dict, name, n);
		return v ? *v : value_undefined(name, n);
	}
	struct value v = operator_method(r, of, name, n);
	if (v.kind == V_UNDEFINED && of->kind == V_LOOP)
		return operator_loop_attribute(r, of->loop, name, n);
	bool hidden = (of->kind == V_DICT || of->kind == V_LIST) && operator_is_forbidden(name, n);
	if (v.kind == V_UNDEFINED && of->kind == V_DICT && !hidden) {
		const struct value *member = value_dict_find_name(r, of->dict, name, n);
		return member ? *member : v;
	}
	return v;
}

/* The start of the i-th character; the end of the text if there are fewer. */
static size_t operator_character_at(const struct value *text, int64_t i)
{
	size_t at = 0;
	for (; i > 0 && at < text->n; i--) {
		size_t step;
		utf8_decode(text->text.bytes + at, &step);
		at += step;
	}
	return at;
}

static struct value operator_text_item(struct template_run *r, const struct value *text, int64_t i)
{
	int64_t length = (int64_t)value_text_length(text);
	size_t step;
	template_work(r, 1 + text->n / 64);
	i += i < 0 ? length : 0;
	if (i < 0 || i >= length)
		return value_undefined(NULL, 0);
	size_t at = operator_character_at(text, i);
	utf8_decode(text->text.bytes + at, &step);
	return value_text_slice(text, at, at + step);
}

struct value operator_item(struct template_run *r, const struct value *of, const struct value *key)
{
	bool whole = key->kind == V_INT || key->kind == V_BOOL;
	int64_t i = key->kind == V_BOOL ? key->truth : key->kind == V_INT ? key->integer : 0;
	if (of->kind == V_UNDEFINED)
		return template_fail_undefined(r, of);
	if (of->kind == V_DICT) {
		const struct value *v = value_dict_find(r, of->dict, key);
		if (v)
			return *v;
		return key->kind == V_TEXT ? operator_method(r, of, key->text.bytes, key->n)
					   : value_undefined(NULL, 0);
	}
	if ((of->kind == V_LIST || of->kind == V_TUPLE) && whole) {
		int64_t count = (int64_t)of->list->count;
		i += i < 0 ? count : 0;
		return i >= 0 && i < count ? of->list->items[i] : value_undefined(NULL, 0);
	}
	if (of->kind == V_TEXT && whole)
		return operator_text_item(r, of, i);
	if (key->kind == V_TEXT)
		return operator_attribute(r, of, key->text.bytes, key->n);
	return value_undefined(NULL, 0);
}

/* ---- slices ---- */

/* Clips one end of a slice of `count` items, as Python does. */
static int64_t operator_clip(int64_t i, int64_t count, int64_t step)
{
	if (i < 0)
		i += count;
	if (i < 0)
		return step < 0 ? -1 : 0;
	if (i >= count)
		return step < 0 ? count - 1 : count;
	return i;
}

struct operator_range {
	int64_t start, stop, step;
};

static struct operator_range operator_slice_range(struct template_run *r, int64_t count,
						  const struct value *start,
						  const struct value *stop,
						  const struct value *step)
{
	struct operator_range s = {.step = call_integer_or(r, step, 1)};
	if (s.step == 0)
		template_fail(r, EINVAL, "a slice with step 0");
	bool from = start && start->kind != V_NONE, to = stop && stop->kind != V_NONE;
	s.start = from	       ? operator_clip(call_integer_or(r, start, 0), count, s.step)
		  : s.step < 0 ? count - 1
			       : 0;
	s.stop = to	      ? operator_clip(call_integer_or(r, stop, 0), count, s.step)
		 : s.step < 0 ? -1
			      : count;
	return s;
}

static bool operator_goes_on(const struct operator_range *s, int64_t i)
{
	return s->step > 0 ? i < s->stop : i > s->stop;
}

/* The next index; steps may be as large as an integer. */
static int64_t operator_next(const struct operator_range *s, int64_t i)
{
	return __builtin_add_overflow(i, s->step, &i) ? s->stop : i;
}

struct value operator_slice(struct template_run *r, const struct value *of,
			    const struct value *start, const struct value *stop,
			    const struct value *step)
{
	if (of->kind == V_UNDEFINED)
		return template_fail_undefined(r, of);
	bool text = of->kind == V_TEXT;
	if (!text && of->kind != V_LIST && of->kind != V_TUPLE)
		return template_fail(r, EINVAL, "%s cannot be sliced", value_type_name(of));
	template_work(r, text ? 1 + of->n / 64 : 0);
	size_t count = text ? value_text_length(of) : of->list->count;
	struct operator_range s = operator_slice_range(r, (int64_t)count, start, stop, step);
	if (text && s.step == 1 && s.start < s.stop)
		return value_text_slice(of, operator_character_at(of, s.start),
					operator_character_at(of, s.stop));
	struct value items = value_items(r, of), empty = value_literal("");
	struct value part = value_list(r, text ? V_LIST : (enum value_kind)of->kind);
	for (int64_t i = s.start; !r->failed && operator_goes_on(&s, i); i = operator_next(&s, i))
		value_append(r, part.list, items.list->items[i]);
	if (text && !r->failed)
		return text_join(r, &empty, &part);
	return part;
}
