/* What filters and methods of texts have in common. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_TEXTS_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_TEXTS_H

#include "engine/template/template_value.h"

enum { AT_START = 1, AT_END = 2 };
/* Without the characters of a set at its ends; NULL: without white space. */
struct value text_strip(struct run *r, const struct value *text, const struct value *set, int ends);
enum text_case { LOWER, UPPER, TITLE, CAPITAL };
struct value text_in_case(struct run *r, const struct value *text, enum text_case to);
/* At most `times` of them; < 0: all. */
struct value text_replace(struct run *r, const struct value *text, const struct value *old,
			  const struct value *new, int64_t times);
/* All items as texts, with a text between. */
struct value texts_join(struct run *r, const struct value *between, const struct value *items);
/* False where it is none. */
bool text_as_integer(struct run *r, const struct value *text, int base, int64_t *out);

#endif
