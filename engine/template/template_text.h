/* What filters and methods of texts have in common. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_TEXT_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_TEXT_H

#include "engine/template/template_value.h"

/* Values as texts: Python's str and repr, and json.dumps. */

/* As str() has it; undefined is nothing. */
void text_print(struct template_run *r, struct writer *w, const struct value *v);
/* The same as a text; a text is itself. */
struct value text_of(struct template_run *r, const struct value *v);

struct json_style {
	int64_t indent;					    /* spaces; -1: all on one line */
	const struct value *item_separator, *key_separator; /* texts; NULL: the usual ones */
	bool sort_keys, ascii;
};
/* As Python's json.dumps has it. */
struct value text_to_json(struct template_run *r, const struct value *v,
			  const struct json_style *style);

enum { AT_START = 1, AT_END = 2 };
/* Without the characters of a set at its ends; NULL: without white space. */
struct value text_strip(struct template_run *r, const struct value *text, const struct value *set,
			int ends);
enum text_case { LOWER, UPPER, TITLE, CAPITAL };
struct value text_in_case(struct template_run *r, const struct value *text, enum text_case to);
/* At most `times` of them; < 0: all. */
struct value text_replace(struct template_run *r, const struct value *text, const struct value *old,
			  const struct value *new, int64_t times);
/* All items as texts, with a text between. */
struct value text_join(struct template_run *r, const struct value *between,
		       const struct value *items);
/* False where it is none. */
bool text_as_integer(struct template_run *r, const struct value *text, int base, int64_t *out);

/* A text with & < > ' " escaped for HTML, and marked as safe; a text so marked stays as it is. */
struct value text_escape_html(struct template_run *r, const struct value *v);

#endif
