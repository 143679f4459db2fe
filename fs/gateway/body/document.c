/* See document.h.
 *
 * json-c keeps the spelling of a number only if the number is a fraction or has an exponent. So a
 * whole number that is too wide gets an exponent of zero, MARK, which is removed again after
 * parsing. */
#include "fs/gateway/body/document.h"

#include <errno.h>
#include <json-c/json_visit.h>
#include <stdlib.h>
#include <string.h>

static const char MARK[] = "e+0000000000"; /* no real document writes a zero like this */
enum {
	MARK_LENGTH = sizeof MARK - 1,
	DIGITS_LEAST = 19, /* least digits of a number that may be too wide */
};

/* Whether number[n] is a whole number that does not fit into 64 bits. */
static bool document_is_wide(const char *number, size_t n)
{
	char digits[DIGITS_LEAST + 3]; /* a sign, and one digit more than the widest that fits */
	bool negative = *number == '-';
	if (n - negative < DIGITS_LEAST || strcspn(number, ".eE") < n)
		return false;
	if (n >= sizeof digits)
		return true;
	memcpy(digits, number, n);
	digits[n] = '\0';
	errno = 0;
	if (negative)
		(void)strtoll(digits, NULL, 10);
	else
		(void)strtoull(digits, NULL, 10);
	return errno == ERANGE;
}

/* Copies a text with a MARK after each number that is too wide. False: there is none, and `marked`
 * is empty. */
static bool document_mark(const struct text *text, struct text *marked)
{
	const char *const begin = text->data, *copied = begin;
	bool quoted = false;
	for (const char *p = begin; *p;) {
		size_t n = quoted ? 0 : strspn(p, "+-.0123456789eE");
		if (!n) {
			quoted ^= *p == '"';
			p += quoted && *p == '\\' && p[1] ? 2 : 1;
			continue;
		}
		if (document_is_wide(p, n)) {
			text_add(marked, copied, (size_t)(p + n - copied));
			text_add(marked, MARK, MARK_LENGTH);
			copied = p + n;
		}
		p += n;
	}
	if (copied > begin)
		text_add(marked, copied, text->length - (size_t)(copied - begin));
	return copied > begin;
}

/* Removes the MARK from a number's spelling. */
static int document_unmark(json_object *o, int flags, json_object *parent, const char *key,
			   size_t *index, void *failed)
{
	(void)flags, (void)parent, (void)key, (void)index;
	if (!json_object_is_type(o, json_type_double))
		return JSON_C_VISIT_RETURN_CONTINUE;
	const char *spelling = json_object_get_string(o);
	size_t n = strlen(spelling);
	if (n < MARK_LENGTH || strcmp(spelling + n - MARK_LENGTH, MARK) != 0)
		return JSON_C_VISIT_RETURN_CONTINUE;
	char *own = strndup(spelling, n - MARK_LENGTH);
	*(bool *)failed |= !own;
	if (own)
		json_object_set_serializer(o, json_object_userdata_to_json_string, own,
					   json_object_free_userdata);
	return JSON_C_VISIT_RETURN_CONTINUE;
}

/* Converts an offset in the marked text to one in the original text. */
static size_t document_place(const struct text *marked, size_t at)
{
	size_t marks = 0;
	for (const char *p = marked->data; (p = strstr(p, MARK)) && p < marked->data + at;
	     p += MARK_LENGTH)
		marks++;
	return at > marks * MARK_LENGTH ? at - marks * MARK_LENGTH : 0;
}

static json_object *document_parse_as_it_is(const struct text *text, int depth,
					    struct document_error *why)
{
	struct json_tokener *t = json_tokener_new_ex(depth);
	*why = (struct document_error){0};
	if (!t)
		return NULL;
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	json_object *o = json_tokener_parse_ex(t, text->data, (int)text->length);
	enum json_tokener_error error = json_tokener_get_error(t);
	*why = (struct document_error){
		error == json_tokener_success ? "nothing is there" : json_tokener_error_desc(error),
		json_tokener_get_parse_end(t)};
	json_tokener_free(t);
	if (o && error == json_tokener_success)
		return o;
	json_object_put(o);
	return NULL;
}

json_object *document_parse(const struct text *text, int depth, struct document_error *why)
{
	struct text marked = {0};
	bool failed = text->failed || !text->data;
	*why = (struct document_error){0};
	if (failed || !document_mark(text, &marked))
		return failed ? NULL : document_parse_as_it_is(text, depth, why);
	json_object *o = marked.failed ? NULL : document_parse_as_it_is(&marked, depth, why);
	if (o) {
		(void)json_c_visit(o, 0, document_unmark, &failed);
		if (failed) {
			json_object_put(o);
			o = NULL;
			*why = (struct document_error){0};
		}
	} else if (why->words)
		why->at = document_place(&marked, why->at);
	text_free(&marked);
	return o;
}
