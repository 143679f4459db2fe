/* The fields of a request's body, checked. A field that is missing or null is not there: 0.
 * Otherwise 1 and the value, or -1 and the refusal in words. */
#ifndef MOEFS_FS_GATEWAY_BODY_FIELDS_H
#define MOEFS_FS_GATEWAY_BODY_FIELDS_H

#include "fs/gateway/problem.h"

#include <stdbool.h>
#include <stdint.h>

/* A member that is there and not null; else NULL. */
struct json_object *field_get(struct json_object *in, const char *name);
int field_text(struct json_object *in, const char *name, const char **out, struct problem *p);
int field_bool(struct json_object *in, const char *name, bool *out, struct problem *p);
int field_number(struct json_object *in, const char *name, double least, double most, double *out,
		 struct problem *p);
int field_count(struct json_object *in, const char *name, uint64_t least, uint64_t most,
		uint64_t *out, struct problem *p);
int field_list(struct json_object *in, const char *name, struct json_object **out,
	       struct problem *p);
int field_object(struct json_object *in, const char *name, struct json_object **out,
		 struct problem *p);

#endif
