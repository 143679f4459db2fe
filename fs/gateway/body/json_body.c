/* Reading bodies and writing answers and events with json-c; see wanted.h. */
#include "fs/gateway/body/characters.h"
#include "fs/gateway/body/wanted.h"

#include <errno.h>
#include <string.h>

json_object *json_at(const json_object *o, const char *key)
{
	json_object *v = NULL;
	if (json_object_is_type(o, json_type_object))
		json_object_object_get_ex(o, key, &v);
	return v;
}

const char *json_text(const json_object *o, const char *key)
{
	json_object *v = json_at(o, key);
	if (!json_object_is_type(v, json_type_string))
		return NULL;
	const char *text = json_object_get_string(v);
	return strlen(text) == (size_t)json_object_get_string_len(v) ? text : NULL;
}

bool json_true(const json_object *o, const char *key)
{
	json_object *v = json_at(o, key);
	return json_object_is_type(v, json_type_boolean) && json_object_get_boolean(v);
}

int json_text_or_none(const json_object *o, const char *key, const char **text, struct err *e)
{
	*text = json_text(o, key);
	return *text || !json_at(o, key) ? 0 : err_set(e, EINVAL, "%s: must be a text", key);
}

void json_put(json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text ? json_object_new_string(text) : NULL);
}

void json_put_n(json_object *o, const char *key, const char *text, size_t n)
{
	json_object_object_add(o, key, json_object_new_string_len(text ? text : "", (int)n));
}

void json_put_number(json_object *o, const char *key, uint64_t number)
{
	json_object_object_add(o, key, json_object_new_int64((int64_t)number));
}

void json_finish(struct text *out, json_object *o)
{
	enum { FLAGS = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };
	text_add_object(out, o, FLAGS);
	json_object_put(o);
}

void json_event(struct text *out, const char *name, json_object *data)
{
	text_format(out, "event: %s\ndata: ", name);
	json_finish(out, data);
	text_string(out, "\n\n");
}
