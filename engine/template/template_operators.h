/* Operators, attributes, items and slices, and the variable `loop`. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_OPERATORS_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_OPERATORS_H

#include "engine/template/template_call.h"
#include "engine/template/template_parse.h"
#include "engine/template/template_value.h"

struct value operator_apply(struct template_run *r, enum operator_kind op, const struct value *a,
			    const struct value *b);
bool operator_compare(struct template_run *r, enum operator_kind op, const struct value *a,
		      const struct value *b);
/* Both values as texts, joined. */
struct value operator_concatenate(struct template_run *r, const struct value *a,
				  const struct value *b);
struct value operator_negate(struct template_run *r, const struct value *v);

/* Parts of values: x.name, x[key], x[a:b:c]. */

/* x.name: methods before keys of an object; undefined if there is neither. Fails for undefined. */
struct value operator_attribute(struct template_run *r, const struct value *of, const char *name,
				size_t n);
/* x[key]: keys before methods. */
struct value operator_item(struct template_run *r, const struct value *of, const struct value *key);
/* x[start:stop:step], each may be NULL. Fails for values without slices. */
struct value operator_slice(struct template_run *r, const struct value *of,
			    const struct value *start, const struct value *stop,
			    const struct value *step);

/* The variable `loop`. */

struct template_node;
struct scope;
struct loop {
	const struct list *items;
	size_t index;	  /* from 0 */
	uint32_t depth;	  /* from 0 */
	bool changed_any; /* loop.changed was called before, with `last` */
	struct value last;
	/* For recursive loops: the for to run again, and its scope. NULL: not recursive. */
	const struct template_node *node;
	struct scope *scope;
};
extern const struct function LOOP_METHODS[];

#endif
