/* The variable `loop`. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_LOOP_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_LOOP_H

#include "engine/template/template_call.h"

struct node;
struct scope;
struct loop {
	const struct list *items;
	size_t index;	  /* from 0 */
	uint32_t depth;	  /* from 0 */
	bool changed_any; /* loop.changed was asked before, with `last` */
	struct value last;
	/* Of a recursive one: what it runs again, and where. NULL: it is none. */
	const struct node *node;
	struct scope *scope;
};
struct value loop_attribute(struct run *r, const struct loop *l, const char *name, size_t n);
extern const struct function LOOP_METHODS[];

#endif
