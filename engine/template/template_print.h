/* Values as texts: Python's str and repr, and json.dumps. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_PRINT_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_PRINT_H

#include "engine/template/template_value.h"

/* As str() has it; undefined is nothing. */
void print_value(struct run *r, struct writer *w, const struct value *v);
/* The same as a text; a text is itself. */
struct value value_string(struct run *r, const struct value *v);

struct json_style {
	int64_t indent;					    /* spaces; -1: all on one line */
	const struct value *item_separator, *key_separator; /* texts; NULL: the usual ones */
	bool sort_keys, ascii;
};
/* As Python's json.dumps has it. */
struct value value_to_json(struct run *r, const struct value *v, const struct json_style *style);

#endif
