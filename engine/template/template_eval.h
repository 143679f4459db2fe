/* Expressions of a template: their values. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_EVAL_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_EVAL_H

#include "engine/template/template_scope.h"

struct value eval(struct run *r, const struct node *n);
/* An N_CALL; caller: what {% call %} hands over; NULL: nothing. */
struct value eval_call(struct run *r, const struct node *n, const struct value *caller);
/* A filter, or several, of a block's text; or a filter or test of a value (block: NULL). */
struct value eval_filter(struct run *r, const struct node *n, const struct value *block);
/* What statements write, as a text. */
struct value eval_captured(struct run *r, const struct node *body);

#endif
