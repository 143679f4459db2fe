/* Rules for JSON.
 *
 * Numbers have as many digits as a double keeps (15 before and after the point, 2 in the exponent),
 * and white space is bounded, so that a model cannot continue endlessly where a text should end.
 * Strings may have any length; \u escapes are whole characters. */
#include "engine/grammar/grammar_build.h"

#include "engine/json/text_out.h"

#include <errno.h>
#include <string.h>

enum { INDENTATION = 32, DIGITS = 15 };

/* ---- white space ---- */

uint32_t json_gap(struct grammar_source *s)
{
	uint32_t blank = expr_word(s, " ");
	uint32_t line = expr_then(s, expr_word(s, "\n"), expr_repeat(s, blank, 0, INDENTATION));
	return expr_maybe(s, expr_either(s, blank, line));
}

uint32_t json_colon(struct grammar_source *s)
{
	return expr_then(s, expr_word(s, ":"), expr_maybe(s, expr_word(s, " ")));
}

/* ---- characters ---- */

/* A character that must be escaped, as text_out_json writes it. */
static uint32_t json_escaped(struct grammar_source *s, uint32_t c)
{
	static const char digits[] = "0123456789abcdef";
	static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* a character, its letter */
	for (const char *e = letters; *e; e += 2)
		if ((uint32_t)*e == c)
			return expr_text(s, (const char[]){'\\', e[1]}, 2);
	return expr_text(s, (const char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
}

static bool json_stands_for_itself(uint32_t c, enum spelling_of spelling)
{
	switch (spelling) {
	case SPELL_JSON:
		return c >= ' ' && c != '"' && c != '\\';
	case SPELL_XML: /* a tag would end the value */
		return c && c != '<';
	default:
		return c != 0; /* answers hold no NUL */
	}
}

uint32_t grammar_characters(struct grammar_source *s, const struct char_range *r, uint32_t count,
			    enum spelling_of spelling)
{
	uint32_t any = NOTHING;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t from = r[i].from;
		for (uint32_t c = from; c <= r[i].to && c < 0x80; c++) {
			if (json_stands_for_itself(c, spelling))
				continue;
			if (c > from)
				any = expr_either(s, any, expr_characters(s, from, c - 1));
			if (spelling == SPELL_JSON)
				any = expr_either(s, any, json_escaped(s, c));
			from = c + 1;
		}
		if (from <= r[i].to)
			any = expr_either(s, any, expr_characters(s, from, r[i].to));
	}
	return any;
}

/* ---- texts ---- */

static uint32_t json_hex(struct grammar_source *s, const char *ranges)
{
	uint32_t any = NOTHING;
	for (; *ranges; ranges += 2)
		any = expr_either(s, any, expr_bytes(s, (uint8_t)ranges[0], (uint8_t)ranges[1]));
	return any;
}

/* \uXXXX, or a surrogate pair. */
static uint32_t json_unicode_escape(struct grammar_source *s)
{
	uint32_t u = expr_word(s, "\\u"), d = json_hex(s, "ddDD"), any = json_hex(s, "09afAF");
	uint32_t two = expr_then(s, any, any), three = expr_then(s, any, two);
	uint32_t low = expr_then(s, d, expr_then(s, json_hex(s, "07"), two));
	uint32_t other = expr_then(s, json_hex(s, "09acefACEF"), three);
	uint32_t high = expr_then(s, d, expr_then(s, json_hex(s, "89abAB"), two));
	uint32_t second = expr_then(s, d, expr_then(s, json_hex(s, "cfCF"), two));
	uint32_t pair = expr_then(s, high, expr_then(s, u, second));
	return expr_then(s, u, expr_either(s, expr_either(s, other, low), pair));
}

static uint32_t json_text_expr(struct json_rules *j)
{
	struct grammar_source *s = j->s;
	static const struct char_range all[] = {{0, 0x10ffff}};
	uint32_t quote = expr_word(s, "\"");
	uint32_t one = grammar_characters(s, all, 1, SPELL_JSON);
	one = expr_either(s, one, expr_either(s, json_unicode_escape(s), expr_word(s, "\\/")));
	return SEQUENCE(s, quote, expr_repeat(s, one, 0, REPEAT_ENDLESS), quote);
}

/* The expression of a written text, which is freed. */
static uint32_t json_written_expr(struct grammar_source *s, struct text_out *out)
{
	uint32_t expr = out->failed ? grammar_fail(s, ENOMEM, "out of memory for a grammar")
				    : expr_text(s, out->bytes, out->n);
	text_out_free(out);
	return expr;
}

uint32_t json_quoted(struct grammar_source *s, const char *text)
{
	struct text_out out = {0};
	text_out_json_text(&out, text, strlen(text));
	return json_written_expr(s, &out);
}

uint32_t json_literal(struct grammar_source *s, const struct json *value)
{
	struct text_out out = {0};
	if (!value)
		return expr_word(s, "null");
	text_out_json(&out, value);
	return json_written_expr(s, &out);
}

/* ---- numbers ---- */

static uint32_t json_integer_expr(struct json_rules *j)
{
	struct grammar_source *s = j->s;
	uint32_t digit = expr_bytes(s, '0', '9'), zero = expr_word(s, "0");
	uint32_t more = expr_then(s, expr_bytes(s, '1', '9'), expr_repeat(s, digit, 0, DIGITS - 1));
	return expr_then(s, expr_maybe(s, expr_word(s, "-")), expr_either(s, zero, more));
}

static uint32_t json_number_expr(struct json_rules *j)
{
	struct grammar_source *s = j->s;
	uint32_t digit = expr_bytes(s, '0', '9');
	uint32_t part = expr_then(s, expr_word(s, "."), expr_repeat(s, digit, 1, DIGITS));
	uint32_t e = expr_either(s, expr_word(s, "e"), expr_word(s, "E"));
	uint32_t sign = expr_either(s, expr_word(s, "-"), expr_word(s, "+"));
	uint32_t power = SEQUENCE(s, e, expr_maybe(s, sign), expr_repeat(s, digit, 1, 2));
	return SEQUENCE(s, json_integer_expr(j), expr_maybe(s, part), expr_maybe(s, power));
}

/* ---- lists and objects ---- */

/* OPEN gap (one (, gap one)*)? gap CLOSE */
static uint32_t json_listed(struct grammar_source *s, char open, uint32_t one, char close)
{
	uint32_t gap = json_gap(s), comma = expr_then(s, expr_word(s, ","), gap);
	uint32_t more = expr_repeat(s, expr_then(s, comma, one), 0, REPEAT_ENDLESS);
	uint32_t inside = SEQUENCE(s, gap, one, more, gap);
	return SEQUENCE(s, expr_text(s, &open, 1), expr_either(s, inside, gap),
			expr_text(s, &close, 1));
}

static uint32_t json_list_expr(struct json_rules *j)
{
	return json_listed(j->s, '[', json_rule_call(j, JSON_RULE_VALUE), ']');
}

static uint32_t json_object_expr(struct json_rules *j)
{
	uint32_t name = json_rule_call(j, JSON_RULE_STRING);
	uint32_t member =
		SEQUENCE(j->s, name, json_colon(j->s), json_rule_call(j, JSON_RULE_VALUE));
	return json_listed(j->s, '{', member, '}');
}

static uint32_t json_value_expr(struct json_rules *j)
{
	static const char *const words[] = {"true", "false", "null"};
	uint32_t any = NOTHING;
	for (int i = JSON_RULE_OBJECT; i <= JSON_RULE_NUMBER; i++)
		any = expr_either(j->s, any, json_rule_call(j, (enum json_rule)i));
	for (int i = 0; i < 3; i++)
		any = expr_either(j->s, any, expr_word(j->s, words[i]));
	return any;
}

/* ---- rules ---- */

static uint32_t (*const makers[JSON_RULES])(struct json_rules *j) = {
	[JSON_RULE_VALUE] = json_value_expr,   [JSON_RULE_OBJECT] = json_object_expr,
	[JSON_RULE_LIST] = json_list_expr,     [JSON_RULE_STRING] = json_text_expr,
	[JSON_RULE_NUMBER] = json_number_expr, [JSON_RULE_INTEGER] = json_integer_expr,
};

uint32_t json_rule_call(struct json_rules *j, enum json_rule which)
{
	if (!j->rule[which]) { /* set before the rule is made: the rule may call itself */
		uint32_t rule = expr_new_rule(j->s);
		j->rule[which] = rule + 1;
		expr_set_rule(j->s, rule, makers[which](j));
	}
	return expr_call(j->s, j->rule[which] - 1);
}
