/* Used by filters and methods of texts. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_TEXT_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_TEXT_H

#include "engine/template/template_value.h"

/* Values as texts (Python's str and repr, json.dumps, HTML), and changing texts. */

/* Writes str(v); undefined is empty. */
void text_print(struct template_run *r, struct writer *w, const struct value *v);
/* str(v) as a value; a text is returned as it is. */
struct value text_of(struct template_run *r, const struct value *v);

struct json_style {
	int64_t indent;					    /* spaces; -1: all on one line */
	const struct value *item_separator, *key_separator; /* texts; NULL: the defaults */
	bool sort_keys, ascii;
};
/* json.dumps(v). */
struct value text_to_json(struct template_run *r, const struct value *v,
			  const struct json_style *style);

enum { AT_START = 1, AT_END = 2 };
/* Removes the characters of `set` at the ends; NULL or none: white space. */
struct value text_strip(struct template_run *r, const struct value *text, const struct value *set,
			int ends);
enum text_case { LOWER, UPPER, TITLE, CAPITAL };
struct value text_in_case(struct template_run *r, const struct value *text, enum text_case to);
/* Replaces at most `times` occurrences; < 0: all. */
struct value text_replace(struct template_run *r, const struct value *text, const struct value *old,
			  const struct value *new, int64_t times);
/* All items as texts, separated by `between`. */
struct value text_join(struct template_run *r, const struct value *between,
		       const struct value *items);
/* False if the text is not an integer. */
bool text_as_integer(struct template_run *r, const struct value *text, int base, int64_t *out);

/* A text with & < > ' " escaped for HTML, and marked as safe; a text so marked stays as it is. */
struct value text_escape_html(struct template_run *r, const struct value *v);

#endif
