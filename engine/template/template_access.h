/* Parts of values: x.name, x[key], x[a:b:c]. */
#ifndef MOEFS_ENGINE_TEMPLATE_TEMPLATE_ACCESS_H
#define MOEFS_ENGINE_TEMPLATE_TEMPLATE_ACCESS_H

#include "engine/template/template_value.h"

/* The methods of a kind before the keys of an object; undefined where there is neither. Fails for
 * undefined. */
struct value value_attribute(struct run *r, const struct value *of, const char *name, size_t n);
/* Keys before methods. */
struct value value_item(struct run *r, const struct value *of, const struct value *key);
/* Each of the three may be NULL. Fails for what has no slices. */
struct value value_slice(struct run *r, const struct value *of, const struct value *start,
			 const struct value *stop, const struct value *step);

#endif
