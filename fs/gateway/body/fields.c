/* Fields, checked. See fields.h. */
#include "fs/gateway/body/fields.h"

#include <inttypes.h>
#include <string.h>

struct json_object *field_get(struct json_object *in, const char *name)
{
	struct json_object *value = NULL;
	if (json_object_is_type(in, json_type_object))
		(void)json_object_object_get_ex(in, name, &value);
	return value;
}

static int wrong(const char *name, const char *what, struct problem *p)
{
	return problem_set(p, PROBLEM_INVALID, name, "'%s' must be %s", name, what);
}

int field_text(struct json_object *in, const char *name, const char **out, struct problem *p)
{
	struct json_object *value = field_get(in, name);
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_string))
		return wrong(name, "a text", p);
	*out = json_object_get_string(value);
	if (strlen(*out) != (size_t)json_object_get_string_len(value))
		return wrong(name, "a text without NUL characters", p);
	return 1;
}

int field_bool(struct json_object *in, const char *name, bool *out, struct problem *p)
{
	struct json_object *value = field_get(in, name);
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_boolean))
		return wrong(name, "true or false", p);
	*out = json_object_get_boolean(value);
	return 1;
}

int field_number(struct json_object *in, const char *name, double least, double most, double *out,
		 struct problem *p)
{
	struct json_object *value = field_get(in, name);
	if (!value)
		return 0;
	bool number = json_object_is_type(value, json_type_double) ||
		      json_object_is_type(value, json_type_int);
	*out = number ? json_object_get_double(value) : 0;
	if (!number || !(*out >= least && *out <= most))
		return problem_set(p, PROBLEM_INVALID, name, "'%s' must be a number from %g to %g",
				   name, least, most);
	return 1;
}

int field_count(struct json_object *in, const char *name, uint64_t least, uint64_t most,
		uint64_t *out, struct problem *p)
{
	struct json_object *value = field_get(in, name);
	if (!value)
		return 0;
	bool whole = json_object_is_type(value, json_type_int);
	int64_t number = whole ? json_object_get_int64(value) : -1;
	/* What does not fit it is brought to its end. */
	*out = whole && number >= 0 ? json_object_get_uint64(value) : 0;
	if (number < 0 || *out < least || *out > most)
		return problem_set(p, PROBLEM_INVALID, name,
				   "'%s' must be a whole number from %" PRIu64 " to %" PRIu64, name,
				   least, most);
	return 1;
}

int field_list(struct json_object *in, const char *name, struct json_object **out,
	       struct problem *p)
{
	struct json_object *value = field_get(in, name);
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_array))
		return wrong(name, "a list", p);
	*out = value;
	return 1;
}

int field_object(struct json_object *in, const char *name, struct json_object **out,
		 struct problem *p)
{
	struct json_object *value = field_get(in, name);
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_object))
		return wrong(name, "an object", p);
	*out = value;
	return 1;
}
