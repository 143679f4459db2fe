/* What operators do to values. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_OPERATORS_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_OPERATORS_H

#include "engine/template/template_tree.h"

struct value operate(struct run *r, enum operator_kind op, const struct value *a,
		     const struct value *b);
bool compare_by(struct run *r, enum operator_kind op, const struct value *a, const struct value *b);
/* a as texts, one behind the other. */
struct value concatenate(struct run *r, const struct value *a, const struct value *b);
struct value negate(struct run *r, const struct value *v);
/* A text with & < > ' " as HTML, marked so; one that is marked stays. */
struct value escape_html(struct run *r, const struct value *v);

#endif
