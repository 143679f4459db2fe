/* What can stand behind `is`. */
#include "engine/template/template_call.h"
#include "engine/template/template_operators.h"

#include <errno.h>
#include <utf8proc.h>

#include "engine/json/utf8.h"

#define TEST(name, truth)                                                   \
	static struct value is_##name(struct run *r, const struct value *v, \
				      const struct value *const *a)         \
	{                                                                   \
		(void)r;                                                    \
		(void)a;                                                    \
		return value_bool(truth);                                   \
	}
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
TEST(eq, compare_by(r, OP_EQUAL, v, a[0]))
TEST(ne, compare_by(r, OP_NOT_EQUAL, v, a[0]))
TEST(lt, compare_by(r, OP_LESS, v, a[0]))
TEST(le, compare_by(r, OP_LESS_EQUAL, v, a[0]))
TEST(gt, compare_by(r, OP_GREATER, v, a[0]))
TEST(ge, compare_by(r, OP_GREATER_EQUAL, v, a[0]))

/* The very same: of what cannot be told apart, equal. */
static struct value is_sameas(struct run *r, const struct value *v, const struct value *const *a)
{
	return value_bool(v->kind == a[0]->kind && value_equal(r, v, a[0]));
}

/* The rest of a division. */
static int64_t rest(struct run *r, const struct value *v, int64_t divisor)
{
	struct value by = value_int(divisor);
	struct value result = operate(r, OP_MODULO, v, &by);
	return result.kind == V_INT			      ? result.integer
	       : result.kind == V_FLOAT && result.number == 0 ? 0
							      : -1;
}

static struct value is_odd(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	return value_bool(rest(r, v, 2) == 1);
}

static struct value is_even(struct run *r, const struct value *v, const struct value *const *a)
{
	(void)a;
	return value_bool(rest(r, v, 2) == 0);
}

static struct value is_divisible(struct run *r, const struct value *v, const struct value *const *a)
{
	return value_bool(rest(r, v, integer_or(r, a[0], 0)) == 0);
}

/* Whether all letters that have case have this one, and there are some. */
static bool all_in_case(const struct value *v, bool upper)
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
TEST(lower, all_in_case(v, false))
TEST(upper, all_in_case(v, true))

const struct function TEMPLATE_TESTS[] = {
	{.name = "defined", .call = is_defined},
	{.name = "undefined", .call = is_undefined},
	{.name = "none", .call = is_none},
	{.name = "boolean", .call = is_boolean},
	{.name = "true", .call = is_true},
	{.name = "false", .call = is_false},
	{.name = "number", .call = is_number},
	{.name = "integer", .call = is_integer},
	{.name = "float", .call = is_float},
	{.name = "string", .call = is_string},
	{.name = "mapping", .call = is_mapping},
	{.name = "escaped", .call = is_escaped},
	{.name = "sequence", .call = is_sequence},
	{.name = "iterable", .call = is_iterable},
	{.name = "callable", .call = is_callable},
	{.name = "lower", .call = is_lower},
	{.name = "upper", .call = is_upper},
	{.name = "odd", .call = is_odd},
	{.name = "even", .call = is_even},
	{.name = "divisibleby", .call = is_divisible, .parameters = {"num"}, .least = 1},
	{.name = "sameas", .call = is_sameas, .parameters = {"other"}, .least = 1},
	{.name = "in", .call = is_in, .parameters = {"seq"}, .least = 1},
	{.name = "eq", .call = is_eq, .parameters = {"b"}, .least = 1},
	{.name = "equalto", .call = is_eq, .parameters = {"b"}, .least = 1},
	{.name = "==", .call = is_eq, .parameters = {"b"}, .least = 1},
	{.name = "ne", .call = is_ne, .parameters = {"b"}, .least = 1},
	{.name = "!=", .call = is_ne, .parameters = {"b"}, .least = 1},
	{.name = "lt", .call = is_lt, .parameters = {"b"}, .least = 1},
	{.name = "lessthan", .call = is_lt, .parameters = {"b"}, .least = 1},
	{.name = "<", .call = is_lt, .parameters = {"b"}, .least = 1},
	{.name = "le", .call = is_le, .parameters = {"b"}, .least = 1},
	{.name = "<=", .call = is_le, .parameters = {"b"}, .least = 1},
	{.name = "gt", .call = is_gt, .parameters = {"b"}, .least = 1},
	{.name = "greaterthan", .call = is_gt, .parameters = {"b"}, .least = 1},
	{.name = ">", .call = is_gt, .parameters = {"b"}, .least = 1},
	{.name = "ge", .call = is_ge, .parameters = {"b"}, .least = 1},
	{.name = ">=", .call = is_ge, .parameters = {"b"}, .least = 1},
	{.name = NULL}};
