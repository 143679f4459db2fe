#include "engine/template/template_print.h"

#include "engine/json/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- numbers ---- */

/* The fewest digits that read back as the same number; an exponent below 1e-4 and from 1e16 on. */
static void print_float(struct run *r, struct writer *w, double number,
			const char *const special[3])
{
	char digits[40], text[64];
	if (isnan(number) || isinf(number)) {
		write_text(r, w, isnan(number) ? special[0] : special[number > 0 ? 1 : 2]);
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
	write_text(r, w, text);
}

static void print_int(struct run *r, struct writer *w, int64_t integer)
{
	char text[32];
	(void)snprintf(text, sizeof text, "%" PRId64, integer);
	write_text(r, w, text);
}

/* ---- repr ---- */

static bool is_printable(uint32_t c)
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

/* One character of a text between quotes. */
static void repr_character(struct run *r, struct writer *w, const struct value *v, size_t at,
			   size_t step, char quote)
{
	static const char ESCAPES[][2] = {{'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\\', '\\'}};
	uint32_t c = utf8_decode(v->text.bytes + at, &step);
	char text[16] = {'\\'};
	for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++)
		if (c == (unsigned char)ESCAPES[i][0])
			text[1] = ESCAPES[i][1];
	if (c == (unsigned char)quote)
		text[1] = quote;
	if (!text[1] && is_printable(c)) {
		write_bytes(r, w, v->text.bytes + at, v->text.from + at, step);
		return;
	}
	if (!text[1])
		(void)snprintf(text, sizeof text,
			       c < 0x100     ? "\\x%02x"
			       : c < 0x10000 ? "\\u%04x"
					     : "\\U%08x",
			       c);
	write_text(r, w, text);
}

static void repr_text(struct run *r, struct writer *w, const struct value *v)
{
	bool one = memchr(v->text.bytes, '\'', v->n), two = memchr(v->text.bytes, '"', v->n);
	const char quote[] = {one && !two ? '"' : '\'', '\0'};
	write_text(r, w, quote);
	for (size_t i = 0, step; i < v->n && !r->failed; i += step) {
		utf8_decode(v->text.bytes + i, &step);
		repr_character(r, w, v, i, step, quote[0]);
	}
	write_text(r, w, quote);
}

static void repr(struct run *r, struct writer *w, const struct value *v, int depth);

static void repr_items(struct run *r, struct writer *w, const struct list *l, int depth)
{
	for (size_t i = 0; i < l->count && !r->failed; i++) {
		if (i > 0)
			write_text(r, w, ", ");
		repr(r, w, &l->items[i], depth + 1);
	}
}

static void repr_dict(struct run *r, struct writer *w, const struct dict *d, int depth)
{
	write_text(r, w, "{");
	for (size_t i = 0; i < d->count && !r->failed; i++) {
		if (i > 0)
			write_text(r, w, ", ");
		repr(r, w, &d->members[i].key, depth + 1);
		write_text(r, w, ": ");
		repr(r, w, &d->members[i].value, depth + 1);
	}
	write_text(r, w, "}");
}

static void repr(struct run *r, struct writer *w, const struct value *v, int depth)
{
	static const char *const SPECIAL[] = {"nan", "inf", "-inf"};
	if (!run_work(r, 1))
		return;
	if (depth > TEMPLATE_VALUE_DEPTH) {
		run_fail(r, EINVAL, "values too deep within one another to be written");
		return;
	}
	switch (v->kind) {
	case V_UNDEFINED:
		write_text(r, w, depth ? "Undefined" : "");
		break;
	case V_NONE:
		write_text(r, w, "None");
		break;
	case V_BOOL:
		write_text(r, w, v->truth ? "True" : "False");
		break;
	case V_INT:
		print_int(r, w, v->integer);
		break;
	case V_FLOAT:
		print_float(r, w, v->number, SPECIAL);
		break;
	case V_BIG:
		write_bytes(r, w, v->text.bytes, v->text.from, v->n);
		break;
	case V_TEXT:
		repr_text(r, w, v);
		break;
	case V_LIST:
		write_text(r, w, "[");
		repr_items(r, w, v->list, depth);
		write_text(r, w, "]");
		break;
	case V_TUPLE:
		write_text(r, w, "(");
		repr_items(r, w, v->list, depth);
		write_text(r, w, v->list->count == 1 ? ",)" : ")");
		break;
	case V_DICT:
		repr_dict(r, w, v->dict, depth);
		break;
	default:
		write_text(r, w, "<");
		write_text(r, w, value_type_name(v));
		write_text(r, w, ">");
	}
}

void print_value(struct run *r, struct writer *w, const struct value *v)
{
	if (v->kind == V_TEXT)
		write_bytes(r, w, v->text.bytes, v->text.from, v->n);
	else
		repr(r, w, v, 0);
}

struct value value_string(struct run *r, const struct value *v)
{
	struct writer w = {0};
	if (v->kind == V_TEXT)
		return *v;
	print_value(r, &w, v);
	return write_done(r, &w);
}

/* ---- JSON ---- */

struct json_writer {
	struct run *r;
	struct writer w;
	const struct json_style *style;
};

static void json_value(struct json_writer *j, const struct value *v, int depth);

static void json_unit(struct json_writer *j, uint32_t unit)
{
	char text[16];
	(void)snprintf(text, sizeof text, "\\u%04x", unit);
	write_text(j->r, &j->w, text);
}

static void json_character(struct json_writer *j, const struct value *v, size_t at, size_t step)
{
	static const char ESCAPES[][2] = {{'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\\', '\\'},
					  {'"', '"'},  {'\b', 'b'}, {'\f', 'f'}};
	uint32_t c = utf8_decode(v->text.bytes + at, &step);
	for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++)
		if (c == (unsigned char)ESCAPES[i][0]) {
			write_text(j->r, &j->w, (const char[]){'\\', ESCAPES[i][1], '\0'});
			return;
		}
	if (c >= 0x10000 && j->style->ascii) {
		json_unit(j, 0xd800 + ((c - 0x10000) >> 10));
		json_unit(j, 0xdc00 + ((c - 0x10000) & 0x3ff));
	} else if (c < 0x20 || (c >= 0x7f && j->style->ascii && c != 0x7f))
		json_unit(j, c);
	else
		write_bytes(j->r, &j->w, v->text.bytes + at, v->text.from + at, step);
}

static void json_text(struct json_writer *j, const struct value *v)
{
	write_text(j->r, &j->w, "\"");
	for (size_t i = 0, step; i < v->n && !j->r->failed; i += step) {
		utf8_decode(v->text.bytes + i, &step);
		json_character(j, v, i, step);
	}
	write_text(j->r, &j->w, "\"");
}

/* Before an item, and before the closing bracket. */
static void json_break(struct json_writer *j, int depth)
{
	if (j->style->indent < 0)
		return;
	write_text(j->r, &j->w, "\n");
	for (int64_t i = 0; i < j->style->indent * depth && !j->r->failed; i++)
		write_text(j->r, &j->w, " ");
}

static void json_separator(struct json_writer *j, const struct value *given, const char *usual)
{
	if (given)
		print_value(j->r, &j->w, given);
	else
		write_text(j->r, &j->w, usual);
}

static void json_next_item(struct json_writer *j, size_t i, int depth)
{
	if (i > 0)
		json_separator(j, j->style->item_separator, j->style->indent < 0 ? ", " : ",");
	json_break(j, depth + 1);
}

static void json_list(struct json_writer *j, const struct list *l, int depth)
{
	write_text(j->r, &j->w, "[");
	for (size_t i = 0; i < l->count && !j->r->failed; i++) {
		json_next_item(j, i, depth);
		json_value(j, &l->items[i], depth + 1);
	}
	if (l->count > 0)
		json_break(j, depth);
	write_text(j->r, &j->w, "]");
}

/* Keys are texts, whatever they were. */
static void json_key_of(struct json_writer *j, const struct value *key)
{
	struct json_style plain = {.indent = -1, .ascii = j->style->ascii};
	struct value text = *key;
	if (key->kind == V_NONE || value_is_number(key))
		text = value_to_json(j->r, key, &plain);
	if (j->r->failed)
		return;
	if (text.kind != V_TEXT)
		run_fail(j->r, EINVAL, "a key that is %s cannot be JSON", value_type_name(key));
	else
		json_text(j, &text);
}

/* The members in the order of their keys; what cannot be compared fails. */
static struct member *sorted(struct run *r, const struct dict *d)
{
	struct member *members = run_allocate(r, (d->count + 1) * sizeof *members);
	for (size_t i = 0; members && i < d->count; i++) {
		size_t k = i;
		for (; k > 0 && value_compare(r, &d->members[i].key, &members[k - 1].key) < 0; k--)
			members[k] = members[k - 1];
		members[k] = d->members[i];
	}
	return r->failed ? NULL : members;
}

static void json_dict(struct json_writer *j, const struct dict *d, int depth)
{
	const struct member *members = j->style->sort_keys ? sorted(j->r, d) : d->members;
	write_text(j->r, &j->w, "{");
	for (size_t i = 0; i < d->count && !j->r->failed; i++) {
		json_next_item(j, i, depth);
		json_key_of(j, &members[i].key);
		json_separator(j, j->style->key_separator, ": ");
		json_value(j, &members[i].value, depth + 1);
	}
	if (d->count > 0)
		json_break(j, depth);
	write_text(j->r, &j->w, "}");
}

static void json_value(struct json_writer *j, const struct value *v, int depth)
{
	static const char *const SPECIAL[] = {"NaN", "Infinity", "-Infinity"};
	if (!run_work(j->r, 1))
		return;
	if (depth > TEMPLATE_VALUE_DEPTH) {
		run_fail(j->r, EINVAL, "values too deep within one another for JSON");
		return;
	}
	switch (v->kind) {
	case V_NONE:
		write_text(j->r, &j->w, "null");
		break;
	case V_BOOL:
		write_text(j->r, &j->w, v->truth ? "true" : "false");
		break;
	case V_FLOAT:
		print_float(j->r, &j->w, v->number, SPECIAL);
		break;
	case V_INT:
	case V_BIG:
		print_value(j->r, &j->w, v);
		break;
	case V_TEXT:
		json_text(j, v);
		break;
	case V_LIST:
	case V_TUPLE:
		json_list(j, v->list, depth);
		break;
	case V_DICT:
		json_dict(j, v->dict, depth);
		break;
	default:
		run_fail(j->r, EINVAL, "%s cannot be JSON", value_type_name(v));
	}
}

struct value value_to_json(struct run *r, const struct value *v, const struct json_style *style)
{
	struct json_writer j = {.r = r, .style = style};
	json_value(&j, v, 0);
	return write_done(r, &j.w);
}
