/* Texts and numbers of a JSON schema. */
#include "engine/grammar/grammar_schema.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

#define DATE "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
#define CLOCK                                                                                      \
	"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][" \
	"0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

/* How texts of a format look; of days no more than that there are 31. */
static const struct {
	const char *name, *regex;
} formats[] = {
	{"date", DATE},
	{"time", CLOCK},
	{"date-time", DATE "T" CLOCK},
	{"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
	{"ipv4", BYTE "(\\." BYTE "){3}"},
	{"hostname", LABEL "(\\." LABEL "){0,9}"},
	{"email", "[A-Za-z0-9_%+-]+(\\.[A-Za-z0-9_%+-]+)*@" LABEL "(\\." LABEL "){1,9}"},
	{"uri", "[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+"},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static uint32_t format_expr(struct schema_rules *r, const struct json *format,
			    enum spelling_of spelling)
{
	char shown[64];
	size_t n;
	const char *name = json_bytes(format, &n);
	for (int i = 0; i < FORMATS; i++)
		if (!strcmp(name, formats[i].name))
			return regex_expr(r->s, formats[i].regex, strlen(formats[i].regex), true,
					  spelling, "format");
	return source_fail(r->s, ENOTSUP,
			   "schema: \"format\": %s is not known here; say it as a pattern",
			   json_show(format, shown, sizeof shown));
}

static uint32_t pattern_expr(struct schema_rules *r, const struct json *pattern,
			     enum spelling_of spelling)
{
	size_t n;
	const char *regex = json_bytes(pattern, &n);
	if (json_kind(pattern) != JSON_TEXT)
		return source_fail(r->s, EINVAL, "schema: \"pattern\" must be a text");
	return regex_expr(r->s, regex, n, false, spelling, "pattern");
}

static uint32_t of_length(struct schema_rules *r, const struct layers *l, enum spelling_of spelling)
{
	static const struct char_range all[] = {{0, 0x10ffff}};
	uint64_t least = layers_count(r, l, "minLength", true, 0);
	uint64_t most = layers_count(r, l, "maxLength", false, REPEAT_ENDLESS);
	if (least > most)
		return NOTHING;
	return expr_repeat(r->s, spelled_characters(r->s, all, 1, spelling), (uint32_t)least,
			   (uint32_t)most);
}

uint32_t schema_string(struct schema_rules *r, const struct layers *l, enum spelling_of spelling)
{
	const struct json *pattern = layers_only(r, l, "pattern");
	const struct json *format = layers_only(r, l, "format");
	bool sized = layers_have(l, "minLength") || layers_have(l, "maxLength");
	uint32_t inside = EMPTY, quote = expr_bytes(r->s, '"', '"');
	if ((pattern != NULL) + (format != NULL) + sized > 1)
		return source_fail(r->s, ENOTSUP,
				   "schema: of pattern, format and lengths only one is known for "
				   "one text; say the length in the pattern");
	if (pattern)
		inside = pattern_expr(r, pattern, spelling);
	else if (format)
		inside = format_expr(r, format, spelling);
	else if (sized || spelling != SPELL_JSON)
		inside = of_length(r, l, spelling);
	else
		return json_rule_call(&r->json, JSON_RULE_STRING);
	if (spelling != SPELL_JSON)
		return inside;
	return expr_then(r->s, expr_then(r->s, quote, inside), quote);
}

/* ---- digits ---- */

#define MOST_DIGITS 15
static const uint64_t LARGEST = 999999999999999; /* of so many digits */

/* Numbers of `digits` digits, zeros in front included; p is 10 to the power digits - 1. */
static uint32_t digits_between(struct grammar_source *s, uint64_t least, uint64_t most, uint64_t p)
{
	uint32_t any = NOTHING;
	if (!p)
		return EMPTY;
	for (uint64_t d = least / p; d <= most / p;) {
		uint64_t from = d == least / p ? least % p : 0;
		uint64_t to = d == most / p ? most % p : p - 1, last = d;
		if (!from && to == p - 1) /* as many digits as go on alike */
			while (last < most / p && (last + 1 < most / p || most % p == p - 1))
				last++;
		uint32_t digit = expr_bytes(s, (uint8_t)('0' + d), (uint8_t)('0' + last));
		uint32_t rest = digits_between(s, from, to, p / 10);
		any = expr_either(s, any, expr_then(s, digit, rest));
		d = last + 1;
	}
	return any;
}

/* Whole numbers without a sign or zeros in front. */
static uint32_t whole_between(struct grammar_source *s, uint64_t least, uint64_t most)
{
	uint32_t any = NOTHING;
	uint64_t p = 1;
	for (int digits = 1; digits <= MOST_DIGITS && least <= most; digits++, p *= 10) {
		uint64_t from = least > p || digits == 1 ? least : p, to = 10 * p - 1;
		to = to < most ? to : most;
		if (from <= to)
			any = expr_either(s, any, digits_between(s, from, to, p));
	}
	return any;
}

/* ---- numbers between bounds ---- */

struct bound { /* of amounts, signs aside */
	uint64_t at;
	bool open; /* not this number itself */
};

static uint32_t fraction(struct grammar_source *s, bool zeros, bool other)
{
	uint32_t point = expr_bytes(s, '.', '.'), digit = expr_bytes(s, '0', '9');
	uint32_t zero = expr_bytes(s, '0', '0'), any = NOTHING;
	if (zeros)
		any = expr_repeat(s, zero, 1, MOST_DIGITS);
	if (other)
		any = expr_either(s, any,
				  expr_then(s,
					    expr_then(s, expr_repeat(s, zero, 0, MOST_DIGITS - 1),
						      expr_bytes(s, '1', '9')),
					    expr_repeat(s, digit, 0, MOST_DIGITS - 1)));
	return expr_then(s, point, any);
}

/* The lowest whole part has what lies above it, the highest no more than zeros. */
static uint32_t amounts(struct grammar_source *s, struct bound low, struct bound high, bool whole)
{
	uint32_t any = NOTHING;
	if (whole) {
		low.at += low.open;
		if (high.open && !high.at--)
			return NOTHING;
		return low.at <= high.at ? whole_between(s, low.at, high.at) : NOTHING;
	}
	if (low.at > high.at || (low.at == high.at && (low.open || high.open)))
		return NOTHING;
	uint32_t zeros = expr_maybe(s, fraction(s, true, false));
	uint32_t all = expr_maybe(s, fraction(s, true, true));
	if (low.at < high.at) {
		uint32_t first = low.open ? fraction(s, false, true) : all;
		any = expr_then(s, whole_between(s, low.at, low.at), first);
		if (low.at + 1 < high.at)
			any = expr_either(
				s, any,
				expr_then(s, whole_between(s, low.at + 1, high.at - 1), all));
	}
	if (!high.open)
		any = expr_either(s, any, expr_then(s, whole_between(s, high.at, high.at), zeros));
	return any;
}

struct limit {
	double at;
	bool open, given;
};

/* The narrower of a bound that takes its number and one that does not, of all layers. */
static struct limit limit_of(struct schema_rules *r, const struct layers *l, bool least)
{
	static const char *const names[2][2] = {{"maximum", "exclusiveMaximum"},
						{"minimum", "exclusiveMinimum"}};
	struct limit found = {0};
	for (uint32_t i = 0; i < l->count; i++)
		for (int open = 0; open < 2; open++) {
			struct err e;
			double at;
			const char *name = names[least][open];
			const struct json *v = layer_get(&l->at[i], name);
			if (!v)
				continue;
			if (json_as_double(v, name, "schema", -1e300, 1e300, &at, &e)) {
				source_fail(r->s, EINVAL, "%s", e.text);
				return found;
			}
			bool narrower = least ? at > found.at : at < found.at;
			if (!found.given || narrower || (at == found.at && open))
				found = (struct limit){at, open, true};
		}
	return found;
}

/* Whole bounds, of whole numbers also where they are not; what is not given is as far as digits
 * go. */
static bool to_whole(struct schema_rules *r, struct limit *l, bool least, bool whole)
{
	double most = (double)LARGEST;
	if (!l->given)
		*l = (struct limit){least ? -most : most, false, true};
	if (whole && l->at != floor(l->at)) {
		l->at = least ? ceil(l->at) : floor(l->at);
		l->open = false;
	}
	if (l->at != floor(l->at)) {
		source_fail(r->s, ENOTSUP, "schema: the bounds of a number must be whole here");
		return false;
	}
	if (fabs(l->at) > most) {
		bool none = least == (l->at > 0);
		*l = (struct limit){l->at > 0 ? most : -most, none, true};
	}
	return true;
}

uint32_t schema_number(struct schema_rules *r, const struct layers *l, bool whole)
{
	struct grammar_source *s = r->s;
	struct limit low = limit_of(r, l, true), high = limit_of(r, l, false);
	if (!low.given && !high.given)
		return json_rule_call(&r->json, whole ? JSON_RULE_INTEGER : JSON_RULE_NUMBER);
	if (!to_whole(r, &low, true, whole) || !to_whole(r, &high, false, whole))
		return NOTHING;
	uint32_t any = NOTHING;
	if (high.at >= 0) {
		struct bound from = {low.at > 0 ? (uint64_t)low.at : 0, low.at >= 0 && low.open};
		any = amounts(s, from, (struct bound){(uint64_t)high.at, high.open}, whole);
	}
	if (low.at < 0) { /* amounts grow the other way; zero has no sign */
		struct bound from = {high.at < 0 ? (uint64_t)-high.at : 0,
				     high.at < 0 ? high.open : true};
		uint32_t below =
			amounts(s, from, (struct bound){(uint64_t)-low.at, low.open}, whole);
		any = expr_either(s, any, expr_then(s, expr_bytes(s, '-', '-'), below));
	}
	return any;
}
