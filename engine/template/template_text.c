#include "cache/utf8.h"
#include "engine/template/template_call.h"
#include "engine/template/template_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- numbers ---- */

/* Prints the fewest digits that read back as the same number; with an exponent below 1e-4 and
 * from 1e16 on, as Python. */
static void text_print_float(struct template_run *r, struct writer *w, double number,
			     const char *const special[3])
{
	char digits[40], text[64];
	if (isnan(number) || isinf(number)) {
		value_write_text(r, w, isnan(number) ? special[0] : special[number > 0 ? 1 : 2]);
		return;
	}
	int precision = 0;
	do
		(void)snprintf(digits, sizeof digits, "%.*e", precision, number);
	while (strtod(digits, NULL) != number && ++precision < 17);
	int exponent = atoi(strchr(digits, 'e') + 1);
	if (exponent < -4 || exponent >= 16) {
		*strchr(digits, 'e') = '\0';
		(void)snprintf(text, sizeof text, "%se%c%02d", digits, exponent < 0 ? '-' : '+',
			       abs(exponent));
	} else {
		int decimals = precision > exponent ? precision - exponent : 1;
		(void)snprintf(text, sizeof text, "%.*f", decimals, number);
	}
	value_write_text(r, w, text);
}

/* ---- repr ---- */

static bool text_is_printable(uint32_t c)
{
	switch (utf8proc_category((utf8proc_int32_t)c)) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
		return false;
	case UTF8PROC_CATEGORY_ZS:
		return c == ' ';
	default:
		return true;
	}
}

/* One character of a quoted text. */
static void text_repr_character(struct template_run *r, struct writer *w, const struct value *v,
				size_t at, size_t step, char quote)
{
	static const char ESCAPES[][2] = {{'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\\', '\\'}};
	uint32_t c = utf8_decode(v->text.bytes + at, &step);
	char text[16] = {'\\'};
	for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++)
		if (c == (unsigned char)ESCAPES[i][0])
			text[1] = ESCAPES[i][1];
	if (c == (unsigned char)quote)
		text[1] = quote;
	if (!text[1] && text_is_printable(c)) {
		value_write_bytes(r, w, v->text.bytes + at, v->text.from + at, step);
		return;
	}
	if (!text[1])
		(void)snprintf(text, sizeof text,
			       c < 0x100     ? "\\x%02x"
			       : c < 0x10000 ? "\\u%04x"
					     : "\\U%08x",
			       c);
	value_write_text(r, w, text);
}

static void text_repr_text(struct template_run *r, struct writer *w, const struct value *v)
{
	bool one = memchr(v->text.bytes, '\'', v->n), two = memchr(v->text.bytes, '"', v->n);
	const char quote[] = {one && !two ? '"' : '\'', '\0'};
	value_write_text(r, w, quote);
	for (size_t i = 0, step; i < v->n && !r->failed; i += step) {
		utf8_decode(v->text.bytes + i, &step);
		text_repr_character(r, w, v, i, step, quote[0]);
	}
	value_write_text(r, w, quote);
}

static void text_repr(struct template_run *r, struct writer *w, const struct value *v, int depth);

static void text_repr_dict(struct template_run *r, struct writer *w, const struct dict *d,
			   int depth)
{
	value_write_text(r, w, "{");
	for (size_t i = 0; i < d->count && !r->failed; i++) {
		value_write_text(r, w, i > 0 ? ", " : "");
		text_repr(r, w, &d->members[i].key, depth + 1);
		value_write_text(r, w, ": ");
		text_repr(r, w, &d->members[i].value, depth + 1);
	}
	value_write_text(r, w, "}");
}

static void text_repr(struct template_run *r, struct writer *w, const struct value *v, int depth)
{
	static const char *const SPECIAL[] = {"nan", "inf", "-inf"};
	char number[32];
	if (!template_work(r, 1))
		return;
	if (depth > TEMPLATE_VALUE_DEPTH) {
		template_fail(r, EINVAL, "values are nested too deeply to be printed");
		return;
	}
	switch (v->kind) {
	case V_UNDEFINED:
		value_write_text(r, w, depth ? "Undefined" : "");
		break;
	case V_NONE:
		value_write_text(r, w, "None");
		break;
	case V_BOOL:
		value_write_text(r, w, v->truth ? "True" : "False");
		break;
	case V_INT:
		(void)snprintf(number, sizeof number, "%" PRId64, v->integer);
		value_write_text(r, w, number);
		break;
	case V_FLOAT:
		text_print_float(r, w, v->number, SPECIAL);
		break;
	case V_BIG:
		value_write_bytes(r, w, v->text.bytes, v->text.from, v->n);
		break;
	case V_TEXT:
		text_repr_text(r, w, v);
		break;
	case V_LIST:
	case V_TUPLE:
		value_write_text(r, w, v->kind == V_LIST ? "[" : "(");
		for (size_t i = 0; i < v->list->count && !r->failed; i++) {
			value_write_text(r, w, i > 0 ? ", " : "");
			text_repr(r, w, &v->list->items[i], depth + 1);
		}
		value_write_text(r, w, v->kind == V_LIST ? "]" : v->list->count == 1 ? ",)" : ")");
		break;
	case V_DICT:
		text_repr_dict(r, w, v->dict, depth);
		break;
	default:
		value_write_text(r, w, "<");
		value_write_text(r, w, value_type_name(v));
		value_write_text(r, w, ">");
	}
}

void text_print(struct template_run *r, struct writer *w, const struct value *v)
{
	if (v->kind == V_TEXT)
		value_write_bytes(r, w, v->text.bytes, v->text.from, v->n);
	else
		text_repr(r, w, v, 0);
}

struct value text_of(struct template_run *r, const struct value *v)
{
	struct writer w = {0};
	if (v->kind == V_TEXT)
		return *v;
	text_print(r, &w, v);
	return value_written(r, &w);
}

struct value text_escape_html(struct template_run *r, const struct value *v)
{
	static const struct {
		char c;
		const char *text;
	} ESCAPES[] = {
		{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
	struct value text = text_of(r, v);
	struct writer w = {0};
	if (r->failed || text.safe)
		return text;
	for (uint32_t i = 0; i < text.n && !r->failed; i++) {
		const char *escaped = NULL;
		for (size_t k = 0; k < sizeof ESCAPES / sizeof *ESCAPES; k++)
			if (text.text.bytes[i] == ESCAPES[k].c)
				escaped = ESCAPES[k].text;
		if (escaped)
			value_write_text(r, &w, escaped);
		else
			value_write_bytes(r, &w, text.text.bytes + i, text.text.from + i, 1);
	}
	text = value_written(r, &w);
	text.safe = true;
	return text;
}

/* ---- JSON ---- */

struct json_writer {
	struct template_run *r;
	struct writer w;
	const struct json_style *style;
};

static void text_json_value(struct json_writer *j, const struct value *v, int depth);

static void text_json_unit(struct json_writer *j, uint32_t unit)
{
	char text[16];
	(void)snprintf(text, sizeof text, "\\u%04x", unit);
	value_write_text(j->r, &j->w, text);
}

static void text_json_character(struct json_writer *j, const struct value *v, size_t at,
				size_t step)
{
	static const char ESCAPES[][2] = {{'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\\', '\\'},
					  {'"', '"'},  {'\b', 'b'}, {'\f', 'f'}};
	uint32_t c = utf8_decode(v->text.bytes + at, &step);
	for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++)
		if (c == (unsigned char)ESCAPES[i][0]) {
			value_write_text(j->r, &j->w, (const char[]){'\\', ESCAPES[i][1], '\0'});
			return;
		}
	if (c >= 0x10000 && j->style->ascii) {
		text_json_unit(j, 0xd800 + ((c - 0x10000) >> 10));
		text_json_unit(j, 0xdc00 + ((c - 0x10000) & 0x3ff));
	} else if (c < 0x20 || (c >= 0x7f && j->style->ascii && c != 0x7f))
		text_json_unit(j, c);
	else
		value_write_bytes(j->r, &j->w, v->text.bytes + at, v->text.from + at, step);
}

static void text_json_text(struct json_writer *j, const struct value *v)
{
	value_write_text(j->r, &j->w, "\"");
	for (size_t i = 0, step; i < v->n && !j->r->failed; i += step) {
		utf8_decode(v->text.bytes + i, &step);
		text_json_character(j, v, i, step);
	}
	value_write_text(j->r, &j->w, "\"");
}

/* A line break before an item or the closing bracket, if indented. */
static void text_json_break(struct json_writer *j, int depth)
{
	if (j->style->indent < 0)
		return;
	value_write_text(j->r, &j->w, "\n");
	for (int64_t i = 0; i < j->style->indent * depth && !j->r->failed; i++)
		value_write_text(j->r, &j->w, " ");
}

static void text_json_separator(struct json_writer *j, const struct value *given, const char *usual)
{
	if (given)
		text_print(j->r, &j->w, given);
	else
		value_write_text(j->r, &j->w, usual);
}

static void text_json_next_item(struct json_writer *j, size_t i, int depth)
{
	if (i > 0)
		text_json_separator(j, j->style->item_separator, j->style->indent < 0 ? ", " : ",");
	text_json_break(j, depth + 1);
}

static void text_json_list(struct json_writer *j, const struct list *l, int depth)
{
	value_write_text(j->r, &j->w, "[");
	for (size_t i = 0; i < l->count && !j->r->failed; i++) {
		text_json_next_item(j, i, depth);
		text_json_value(j, &l->items[i], depth + 1);
	}
	if (l->count > 0)
		text_json_break(j, depth);
	value_write_text(j->r, &j->w, "]");
}

/* Keys become strings. */
static void text_json_key(struct json_writer *j, const struct value *key)
{
	struct json_style plain = {.indent = -1, .ascii = j->style->ascii};
	struct value text = *key;
	if (key->kind == V_NONE || value_is_number(key))
		text = text_to_json(j->r, key, &plain);
	if (j->r->failed)
		return;
	if (text.kind != V_TEXT)
		template_fail(j->r, EINVAL, "%s cannot be a key in JSON", value_type_name(key));
	else
		text_json_text(j, &text);
}

/* The members sorted by key; fails if keys cannot be compared. */
static struct member *text_sorted_members(struct template_run *r, const struct dict *d)
{
	struct member *members = template_allocate(r, (d->count + 1) * sizeof *members);
	for (size_t i = 0; members && i < d->count; i++) {
		size_t k = i;
		for (; k > 0 && value_compare(r, &d->members[i].key, &members[k - 1].key) < 0; k--)
			members[k] = members[k - 1];
		members[k] = d->members[i];
	}
	return r->failed ? NULL : members;
}

static void text_json_dict(struct json_writer *j, const struct dict *d, int depth)
{
	const struct member *members =
		j->style->sort_keys ? text_sorted_members(j->r, d) : d->members;
	value_write_text(j->r, &j->w, "{");
	for (size_t i = 0; i < d->count && !j->r->failed; i++) {
		text_json_next_item(j, i, depth);
		text_json_key(j, &members[i].key);
		text_json_separator(j, j->style->key_separator, ": ");
		text_json_value(j, &members[i].value, depth + 1);
	}
	if (d->count > 0)
		text_json_break(j, depth);
	value_write_text(j->r, &j->w, "}");
}

static void text_json_value(struct json_writer *j, const struct value *v, int depth)
{
	static const char *const SPECIAL[] = {"NaN", "Infinity", "-Infinity"};
	if (!template_work(j->r, 1))
		return;
	if (depth > TEMPLATE_VALUE_DEPTH) {
		template_fail(j->r, EINVAL, "values are nested too deeply for JSON");
		return;
	}
	switch (v->kind) {
	case V_NONE:
		value_write_text(j->r, &j->w, "null");
		break;
	case V_BOOL:
		value_write_text(j->r, &j->w, v->truth ? "true" : "false");
		break;
	case V_FLOAT:
		text_print_float(j->r, &j->w, v->number, SPECIAL);
		break;
	case V_INT:
	case V_BIG:
		text_print(j->r, &j->w, v);
		break;
	case V_TEXT:
		text_json_text(j, v);
		break;
	case V_LIST:
	case V_TUPLE:
		text_json_list(j, v->list, depth);
		break;
	case V_DICT:
		text_json_dict(j, v->dict, depth);
		break;
	default:
		template_fail(j->r, EINVAL, "%s cannot be written as JSON", value_type_name(v));
	}
}

struct value text_to_json(struct template_run *r, const struct value *v,
			  const struct json_style *style)
{
	struct json_writer j = {.r = r, .style = style};
	text_json_value(&j, v, 0);
	return value_written(r, &j.w);
}

/* ---- changing texts ---- */

static bool text_in_set(struct template_run *r, const struct value *set, const char *bytes,
			size_t n)
{
	if (!template_work(r, set ? 1 + set->n / 64 : 0))
		return false;
	return set ? memmem(set->text.bytes, set->n, bytes, n) != NULL
		   : value_is_space(utf8_decode(bytes, &n));
}

struct value text_strip(struct template_run *r, const struct value *text, const struct value *set,
			int ends)
{
	size_t from = 0, to = text->n, step;
	struct value given;
	if (set && set->kind != V_NONE && !call_text_argument(r, set, &given))
		return NONE;
	set = set && set->kind != V_NONE ? &given : NULL;
	template_work(r, 1 + text->n / 64);
	while ((ends & AT_START) && from < to) {
		utf8_decode(text->text.bytes + from, &step);
		if (!text_in_set(r, set, text->text.bytes + from, step))
			break;
		from += step;
	}
	while ((ends & AT_END) && from < to) {
		size_t last = utf8_begin(text->text.bytes, to - 1);
		if (!text_in_set(r, set, text->text.bytes + last, to - last))
			break;
		to = last;
	}
	struct value part = value_text_slice(text, from, to);
	part.safe = text->safe;
	return part;
}

/* One character in another case; the result keeps its origin. */
static void text_write_case(struct template_run *r, struct writer *w, const struct value *text,
			    size_t at, size_t step, bool upper)
{
	utf8proc_int32_t c = (utf8proc_int32_t)utf8_decode(text->text.bytes + at, &step);
	char bytes[8];
	uint8_t from[8];
	size_t n =
		utf8_encode((uint32_t)(upper ? utf8proc_toupper(c) : utf8proc_tolower(c)), bytes);
	if (upper && c == 0xdf) { /* sharp s, the only common letter that becomes two */
		memcpy(bytes, "SS", 2);
		n = 2;
	}
	memset(from, text->text.from[at], sizeof from);
	value_write_bytes(r, w, bytes, from, n);
}

struct value text_in_case(struct template_run *r, const struct value *text, enum text_case to)
{
	struct writer w = {0};
	bool inside = false; /* a word (TITLE), or the text (CAPITAL) */
	for (size_t i = 0, step; i < text->n && !r->failed; i += step) {
		utf8_decode(text->text.bytes + i, &step);
		text_write_case(r, &w, text, i, step, to == UPPER || (to >= TITLE && !inside));
		utf8proc_category_t kind = utf8proc_category(
			(utf8proc_int32_t)utf8_decode(text->text.bytes + i, &step));
		inside = to == CAPITAL ||
			 (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO);
	}
	struct value changed = value_written(r, &w);
	changed.safe = text->safe;
	return changed;
}

struct value text_replace(struct template_run *r, const struct value *text, const struct value *old,
			  const struct value *new, int64_t times)
{
	struct writer w = {0};
	size_t at = 0;
	if (old->n == 0)
		return template_fail(r, ENOTSUP, "replacing an empty text is not supported");
	while (!r->failed && times != 0) {
		size_t found = value_text_find(r, text, at, old);
		if (found == text->n)
			break;
		value_write_bytes(r, &w, text->text.bytes + at, text->text.from + at, found - at);
		value_write_bytes(r, &w, new->text.bytes, new->text.from, new->n);
		at = found + old->n;
		times -= times > 0;
	}
	value_write_bytes(r, &w, text->text.bytes + at, text->text.from + at, text->n - at);
	return value_written(r, &w);
}

struct value text_join(struct template_run *r, const struct value *between,
		       const struct value *items)
{
	struct writer w = {0};
	for (size_t i = 0; !r->failed && i < items->list->count; i++) {
		if (i > 0)
			text_print(r, &w, between);
		text_print(r, &w, &items->list->items[i]);
	}
	return value_written(r, &w);
}

bool text_as_integer(struct template_run *r, const struct value *text, int base, int64_t *out)
{
	struct value inside = text_strip(r, text, NULL, AT_START | AT_END);
	char digits[80], *end;
	if (inside.n == 0 || inside.n >= sizeof digits)
		return false;
	memcpy(digits, inside.text.bytes, inside.n);
	digits[inside.n] = '\0';
	errno = 0;
	*out = strtoll(digits, &end, base);
	return *end == '\0' && errno == 0;
}
