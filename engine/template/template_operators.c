#include "engine/template/template_operators.h"

#include "engine/template/template_print.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct value not_for(struct run *r, const char *what, const struct value *a,
			    const struct value *b)
{
	const struct value *missing = a->kind == V_UNDEFINED   ? a
				      : b->kind == V_UNDEFINED ? b
							       : NULL;
	if (missing)
		return run_fail(r, EINVAL, "\"%.*s\" is undefined",
				(int)(missing->n < 64 ? missing->n : 64),
				missing->text.bytes ? missing->text.bytes : "");
	return run_fail(r, EINVAL, "%s cannot be %s %s", value_type_name(a), what,
			value_type_name(b));
}

struct value escape_html(struct run *r, const struct value *v)
{
	static const struct {
		char c;
		const char *text;
	} ESCAPES[] = {
		{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
	struct value text = value_string(r, v);
	struct writer w = {0};
	if (r->failed || text.safe)
		return text;
	for (uint32_t i = 0; i < text.n && !r->failed; i++) {
		const char *escaped = NULL;
		for (size_t k = 0; k < sizeof ESCAPES / sizeof *ESCAPES; k++)
			if (text.text.bytes[i] == ESCAPES[k].c)
				escaped = ESCAPES[k].text;
		if (escaped)
			write_text(r, &w, escaped);
		else
			write_bytes(r, &w, text.text.bytes + i, text.text.from + i, 1);
	}
	text = write_done(r, &w);
	text.safe = true;
	return text;
}

struct value concatenate(struct run *r, const struct value *a, const struct value *b)
{
	struct writer w = {0};
	print_value(r, &w, a);
	print_value(r, &w, b);
	return write_done(r, &w);
}

static struct value join_lists(struct run *r, const struct value *a, const struct value *b)
{
	struct value both = value_list(r, (enum value_kind)a->kind);
	for (size_t i = 0; !r->failed && i < a->list->count; i++)
		list_append(r, both.list, a->list->items[i]);
	for (size_t i = 0; !r->failed && i < b->list->count; i++)
		list_append(r, both.list, b->list->items[i]);
	return both;
}

/* ---- numbers ---- */

static int64_t integer_of(const struct value *v)
{
	return v->kind == V_BOOL ? v->truth : v->integer;
}

static struct value too_large(struct run *r)
{
	return run_fail(r, EINVAL, "a number beyond 64 bits");
}

static struct value power(struct run *r, int64_t base, int64_t exponent)
{
	int64_t result = 1;
	if (exponent < 0)
		return value_float(pow((double)base, (double)exponent));
	for (; exponent > 0; exponent--) {
		if (__builtin_mul_overflow(result, base, &result) || !run_work(r, 1))
			return too_large(r);
		if (base == 0 || base == 1)
			break;
	}
	return value_int(result);
}

/* Rounded down, as the remainder has the divisor's sign. */
static struct value divide_down(struct run *r, int64_t a, int64_t b, bool remainder)
{
	if (b == 0)
		return run_fail(r, EINVAL, "a division by zero");
	if (b == -1) /* the one that overflows */
		return remainder ? value_int(0) : a == INT64_MIN ? too_large(r) : value_int(-a);
	int64_t quotient = a / b, rest = a % b;
	bool down = rest != 0 && (rest < 0) != (b < 0);
	return value_int(remainder ? rest + (down ? b : 0) : quotient - down);
}

static struct value integers(struct run *r, enum operator_kind op, int64_t a, int64_t b)
{
	int64_t result;
	switch (op) {
	case OP_ADD:
		return __builtin_add_overflow(a, b, &result) ? too_large(r) : value_int(result);
	case OP_SUBTRACT:
		return __builtin_sub_overflow(a, b, &result) ? too_large(r) : value_int(result);
	case OP_MULTIPLY:
		return __builtin_mul_overflow(a, b, &result) ? too_large(r) : value_int(result);
	case OP_POWER:
		return power(r, a, b);
	default:
		return divide_down(r, a, b, op == OP_MODULO);
	}
}

static struct value floats(struct run *r, enum operator_kind op, double a, double b)
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
		return run_fail(r, EINVAL, "a division by zero");
	if (op == OP_DIVIDE)
		return value_float(a / b);
	rest = fmod(a, b);
	rest += rest != 0 && (rest < 0) != (b < 0) ? b : 0;
	return value_float(op == OP_MODULO ? rest : floor((a - rest) / b + 0.5));
}

static struct value numbers(struct run *r, enum operator_kind op, const struct value *a,
			    const struct value *b)
{
	if (a->kind == V_BIG || b->kind == V_BIG)
		return too_large(r);
	if (a->kind == V_FLOAT || b->kind == V_FLOAT || op == OP_DIVIDE)
		return floats(r, op, value_as_double(a), value_as_double(b));
	return integers(r, op, integer_of(a), integer_of(b));
}

/* ---- texts ---- */

static struct value add(struct run *r, const struct value *a, const struct value *b)
{
	if (a->kind == V_TEXT && b->kind == V_TEXT) {
		bool safe = a->safe || b->safe;
		struct value x = safe ? escape_html(r, a) : *a, y = safe ? escape_html(r, b) : *b;
		x = concatenate(r, &x, &y);
		x.safe = safe;
		return x;
	}
	if (a->kind == b->kind && (a->kind == V_LIST || a->kind == V_TUPLE))
		return join_lists(r, a, b);
	return not_for(r, "added to", a, b);
}

static struct value repeat(struct run *r, const struct value *what, const struct value *times)
{
	struct writer w = {0};
	struct value list = NONE;
	int64_t n = integer_of(times);
	if (what->kind == V_TEXT) {
		for (int64_t i = 0; i < n && !r->failed && what->n > 0; i++)
			write_bytes(r, &w, what->text.bytes, what->text.from, what->n);
		return write_done(r, &w);
	}
	list = value_list(r, (enum value_kind)what->kind);
	for (int64_t i = 0; i < n && !r->failed && what->list->count > 0; i++)
		for (size_t k = 0; k < what->list->count && !r->failed; k++)
			list_append(r, list.list, what->list->items[k]);
	return list;
}

/* '%d' of a float: its whole part, with as many digits as that has (up to 309), as Python prints it.
 * An int64_t could not hold it, and converting what does not fit is undefined. */
static void format_whole_part(struct run *r, struct writer *w, double number)
{
	char digits[512];
	if (!isfinite(number)) {
		run_fail(r, EINVAL, "%%d of %s", isnan(number) ? "NaN" : "infinity");
		return;
	}
	number = trunc(number) + 0.0; /* -0.0 + 0.0 is 0 */
	(void)snprintf(digits, sizeof digits, "%.0f", number);
	write_text(r, w, digits);
}

/* One item of '%s %d' % items. */
static void format_item(struct run *r, struct writer *w, char kind, const struct value *v)
{
	struct value text = *v;
	if (kind == 'd' || kind == 'i') {
		if (v->kind == V_FLOAT) {
			format_whole_part(r, w, v->number);
			return;
		}
		if (v->kind == V_BOOL)
			text = value_int(v->truth);
		else if (v->kind != V_INT && v->kind != V_BIG)
			run_fail(r, EINVAL, "%%d of %s", value_type_name(v));
	} else if (kind != 's')
		run_fail(r, ENOTSUP, "%%%c in a format is not known here", kind ? kind : ' ');
	print_value(r, w, &text);
}

static struct value format(struct run *r, const struct value *text, const struct value *given)
{
	const struct value *items = given->kind == V_TUPLE ? given->list->items : given;
	size_t count = given->kind == V_TUPLE ? given->list->count : 1, next = 0;
	struct writer w = {0};
	for (uint32_t i = 0; i < text->n && !r->failed; i++) {
		bool item = text->text.bytes[i] == '%' && i + 1 < text->n;
		if (item && text->text.bytes[++i] != '%') {
			if (next >= count)
				return run_fail(r, EINVAL, "a format with too few items");
			format_item(r, &w, text->text.bytes[i], &items[next++]);
		} else
			write_bytes(r, &w, text->text.bytes + i, text->text.from + i, 1);
	}
	if (next < count && given->kind != V_DICT)
		return run_fail(r, EINVAL, "a format with too many items");
	return write_done(r, &w);
}

/* ---- all of them ---- */

static bool is_whole(const struct value *v)
{
	return v->kind == V_INT || v->kind == V_BOOL;
}

static bool repeats(const struct value *v)
{
	return v->kind == V_TEXT || v->kind == V_LIST || v->kind == V_TUPLE;
}

struct value operate(struct run *r, enum operator_kind op, const struct value *a,
		     const struct value *b)
{
	static const char *const WORDS[] = {
		[OP_ADD] = "added to",		 [OP_SUBTRACT] = "lessened by",
		[OP_MULTIPLY] = "multiplied by", [OP_DIVIDE] = "divided by",
		[OP_FLOOR] = "divided by",	 [OP_MODULO] = "divided by",
		[OP_POWER] = "raised to"};
	if (!run_work(r, 1))
		return NONE;
	if (value_is_number(a) && value_is_number(b))
		return numbers(r, op, a, b);
	if (op == OP_ADD)
		return add(r, a, b);
	if (op == OP_MODULO && a->kind == V_TEXT && b->kind != V_UNDEFINED)
		return format(r, a, b);
	if (op == OP_MULTIPLY && repeats(a) && is_whole(b))
		return repeat(r, a, b);
	if (op == OP_MULTIPLY && repeats(b) && is_whole(a))
		return repeat(r, b, a);
	return not_for(r, WORDS[op], a, b);
}

struct value negate(struct run *r, const struct value *v)
{
	struct value zero = value_int(0);
	if (v->kind == V_FLOAT)
		return value_float(-v->number);
	return operate(r, OP_SUBTRACT, &zero, v);
}

bool compare_by(struct run *r, enum operator_kind op, const struct value *a, const struct value *b)
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
