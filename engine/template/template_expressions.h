/* Parsing expressions. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_EXPRESSIONS_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_EXPRESSIONS_H

#include "engine/template/template_parser.h"

struct node *parse_expression(struct parser *p);
/* One without a choice (a if b else c) of its own. */
struct node *parse_condition(struct parser *p);
/* One item, or several with commas. */
struct node *parse_tuple(struct parser *p, struct node *(*item)(struct parser *p));
struct node *parse_constant(struct parser *p, struct value v);
/* NAME behind a point, of a value. */
struct node *parse_attribute(struct parser *p, struct node *of);
/* NAME or NAME(arguments), of a value. */
struct node *parse_filter(struct parser *p, struct node *of);

#endif
