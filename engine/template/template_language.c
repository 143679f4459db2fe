/* Tests ({{ value is test }}), global functions, and the table of the whole language. */
#include "cache/utf8.h"
#include "engine/template/template_call.h"
#include "engine/template/template_operators.h"
#include "engine/template/template_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

/* ---- tests ---- */

#define TEST(name, truth) CALL_OF(language_is_##name, value_bool(truth))
TEST(defined, v->kind != V_UNDEFINED)
TEST(undefined, v->kind == V_UNDEFINED)
TEST(none, v->kind == V_NONE)
TEST(boolean, v->kind == V_BOOL)
TEST(true, v->kind == V_BOOL && v->truth)
TEST(false, v->kind == V_BOOL && !v->truth)
TEST(number, value_is_number(v))
TEST(integer, v->kind == V_INT || v->kind == V_BIG)
TEST(float, v->kind == V_FLOAT)
TEST(string, v->kind == V_TEXT)
TEST(mapping, v->kind == V_DICT)
TEST(escaped, v->kind == V_TEXT && v->safe)
TEST(sequence, v->kind == V_TEXT || v->kind == V_LIST || v->kind == V_TUPLE || v->kind == V_DICT ||
		       v->kind == V_UNDEFINED)
TEST(iterable, v->kind == V_TEXT || v->kind == V_LIST || v->kind == V_TUPLE || v->kind == V_DICT ||
		       v->kind == V_UNDEFINED || v->kind == V_LOOP)
TEST(callable,
     v->kind == V_MACRO || v->kind == V_FUNCTION || v->kind == V_METHOD || v->kind == V_LOOP)
TEST(in, value_contains(r, a[0], v))
TEST(eq, operator_compare(r, OP_EQUAL, v, a[0]))
TEST(ne, operator_compare(r, OP_NOT_EQUAL, v, a[0]))
TEST(lt, operator_compare(r, OP_LESS, v, a[0]))
TEST(le, operator_compare(r, OP_LESS_EQUAL, v, a[0]))
TEST(gt, operator_compare(r, OP_GREATER, v, a[0]))
TEST(ge, operator_compare(r, OP_GREATER_EQUAL, v, a[0]))

/* Identity; values that cannot be told apart are identical if equal. */
TEST(sameas, v->kind == a[0]->kind && value_equal(r, v, a[0]))

/* The remainder of a division; -1: not a number. */
static int64_t language_rest(struct template_run *r, const struct value *v, int64_t divisor)
{
	struct value by = value_int(divisor);
	struct value result = operator_apply(r, OP_MODULO, v, &by);
	return result.kind == V_INT			      ? result.integer
	       : result.kind == V_FLOAT && result.number == 0 ? 0
							      : -1;
}

TEST(odd, language_rest(r, v, 2) == 1)
TEST(even, language_rest(r, v, 2) == 0)
TEST(divisible, language_rest(r, v, call_integer_or(r, a[0], 0)) == 0)

/* Whether there are letters with case and all have this one. */
static bool language_all_in_case(const struct value *v, bool upper)
{
	bool some = false;
	for (size_t i = 0, step; v->kind == V_TEXT && i < v->n; i += step) {
		utf8proc_int32_t c = (utf8proc_int32_t)utf8_decode(v->text.bytes + i, &step);
		bool is_upper = utf8proc_isupper(c), is_lower = utf8proc_islower(c);
		if (upper ? is_lower : is_upper)
			return false;
		some |= is_upper || is_lower;
	}
	return some;
}
TEST(lower, language_all_in_case(v, false))
TEST(upper, language_all_in_case(v, true))

const struct function TEMPLATE_TESTS[] = {
	FUNCTION("defined", language_is_defined, 0),
	FUNCTION("undefined", language_is_undefined, 0),
	FUNCTION("none", language_is_none, 0),
	FUNCTION("boolean", language_is_boolean, 0),
	FUNCTION("true", language_is_true, 0),
	FUNCTION("false", language_is_false, 0),
	FUNCTION("number", language_is_number, 0),
	FUNCTION("integer", language_is_integer, 0),
	FUNCTION("float", language_is_float, 0),
	FUNCTION("string", language_is_string, 0),
	FUNCTION("mapping", language_is_mapping, 0),
	FUNCTION("escaped", language_is_escaped, 0),
	FUNCTION("sequence", language_is_sequence, 0),
	FUNCTION("iterable", language_is_iterable, 0),
	FUNCTION("callable", language_is_callable, 0),
	FUNCTION("lower", language_is_lower, 0),
	FUNCTION("upper", language_is_upper, 0),
	FUNCTION("odd", language_is_odd, 0),
	FUNCTION("even", language_is_even, 0),
	FUNCTION("divisibleby", language_is_divisible, 1, "num"),
	FUNCTION("sameas", language_is_sameas, 1, "other"),
	FUNCTION("in", language_is_in, 1, "seq"),
	FUNCTION("eq", language_is_eq, 1, "b"),
	FUNCTION("equalto", language_is_eq, 1, "b"),
	FUNCTION("==", language_is_eq, 1, "b"),
	FUNCTION("ne", language_is_ne, 1, "b"),
	FUNCTION("!=", language_is_ne, 1, "b"),
	FUNCTION("lt", language_is_lt, 1, "b"),
	FUNCTION("lessthan", language_is_lt, 1, "b"),
	FUNCTION("<", language_is_lt, 1, "b"),
	FUNCTION("le", language_is_le, 1, "b"),
	FUNCTION("<=", language_is_le, 1, "b"),
	FUNCTION("gt", language_is_gt, 1, "b"),
	FUNCTION("greaterthan", language_is_gt, 1, "b"),
	FUNCTION(">", language_is_gt, 1, "b"),
	FUNCTION("ge", language_is_ge, 1, "b"),
	FUNCTION(">=", language_is_ge, 1, "b"),
	{.name = NULL},
};

/* ---- global functions ---- */

/* Functions that belong to no value. */

static struct value language_range(struct template_run *r, const struct value *self,
				   const struct call_arguments *args)
{
	(void)self;
	if (args->count < 1 || args->count > 3 || args->named_count > 0)
		return template_fail(r, EINVAL, "range() takes one to three integers");
	int64_t start = args->count > 1 ? call_integer_or(r, &args->items[0], 0) : 0;
	int64_t stop = call_integer_or(r, &args->items[args->count > 1], 0);
	int64_t step = args->count > 2 ? call_integer_or(r, &args->items[2], 1) : 1;
	struct value list = value_list(r, V_LIST);
	if (step == 0)
		return template_fail(r, EINVAL, "range() with step 0");
	for (int64_t i = start; !r->failed && (step > 0 ? i < stop : i > stop);) {
		value_append(r, list.list, value_int(i));
		if (__builtin_add_overflow(i, step, &i))
			break;
	}
	return list;
}

/* A dict or namespace from an object and named arguments. */
static struct value language_members(struct template_run *r, enum value_kind kind,
				     const struct call_arguments *args)
{
	struct value made = value_dict(r, kind);
	if (args->count > 1 || (args->count == 1 && args->items[0].kind != V_DICT))
		return template_fail(r, EINVAL,
				     "dict() and namespace() take an object or keyword arguments");
	for (size_t i = 0; !r->failed && args->count == 1 && i < args->items[0].dict->count; i++)
		value_dict_put(r, made.dict, args->items[0].dict->members[i].key,
			       args->items[0].dict->members[i].value);
	for (size_t i = 0; !r->failed && i < args->named_count; i++)
		value_dict_put(r, made.dict,
			       value_text(r, args->named[i].name, args->named[i].n, FROM_TEMPLATE),
			       args->named[i].value);
	return made;
}

static struct value language_namespace(struct template_run *r, const struct value *self,
				       const struct call_arguments *args)
{
	(void)self;
	return language_members(r, V_NAMESPACE, args);
}

static struct value language_dict(struct template_run *r, const struct value *self,
				  const struct call_arguments *args)
{
	(void)self;
	return language_members(r, V_DICT, args);
}

CALL(language_raise_exception)
{
	struct value words = text_of(r, a[0]);
	if (r->failed)
		return NONE;
	return template_fail(r, EBADMSG, "%.*s", (int)(words.n < 1000 ? words.n : 1000),
			     words.text.bytes);
}

CALL(language_strftime_now)
{
	struct value format;
	struct writer w = {0};
	if (!call_text_argument(r, a[0], &format))
		return NONE;
	for (uint32_t i = 0; i < format.n && !r->failed; i++) {
		char code[3] = {'%'}, text[64] = "";
		if (format.text.bytes[i] != '%' || i + 1 == format.n) {
			value_write_bytes(r, &w, format.text.bytes + i, format.text.from + i, 1);
			continue;
		}
		code[1] = format.text.bytes[++i];
		if (!code[1] || !strchr("aAbBdeHIjmMpSyYwUWDFTR%", code[1]))
			return template_fail(r, ENOTSUP, "strftime_now: %%%c is not supported",
					     code[1] >= ' ' && code[1] < 127 ? code[1] : '?');
		(void)strftime(text, sizeof text, code, r->clock);
		value_write_text(r, &w, text);
	}
	return value_written(r, &w);
}

/* A joiner's call: nothing the first time, then the text. The list holds the text, and a second
 * item after the first call. */
static struct value language_join_next(struct template_run *r, const struct value *self,
				       const struct call_arguments *args)
{
	(void)args;
	if (self->list->count > 1)
		return self->list->items[0];
	value_append(r, self->list, NONE);
	return value_literal("");
}

static const struct function JOIN_NEXT = {.name = "joiner", .call_any = language_join_next};

CALL(language_joiner)
{
	struct value state = value_list(r, V_LIST);
	struct method *m = template_allocate(r, sizeof *m);
	if (!m)
		return NONE;
	value_append(r, state.list, a[0] ? *a[0] : value_literal(", "));
	*m = (struct method){state, &JOIN_NEXT};
	return (struct value){.kind = V_METHOD, .method = m};
}

const struct function TEMPLATE_GLOBALS[] = {
	{.name = "range", .call_any = language_range},
	{.name = "namespace", .call_any = language_namespace},
	{.name = "dict", .call_any = language_dict},
	FUNCTION("joiner", language_joiner, 0, "sep"),
	FUNCTION("raise_exception", language_raise_exception, 1, "message"),
	FUNCTION("strftime_now", language_strftime_now, 1, "format"),
	{.name = NULL},
};

/* ---- the whole language ---- */

const struct language TEMPLATE_LANGUAGE = {
	.filters = TEMPLATE_FILTERS,
	.list_filters = TEMPLATE_LIST_FILTERS,
	.tests = TEMPLATE_TESTS,
	.globals = TEMPLATE_GLOBALS,
	.text_methods = TEXT_METHODS,
	.dict_methods = DICT_METHODS,
	.list_methods = LIST_METHODS,
};
