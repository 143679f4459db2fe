/* See characters.h. */
#include "fs/gateway/body/characters.h"

/* Bytes beyond ASCII stand only within JSON's strings, so that replacing them there leaves JSON. */
void text_add_object(struct text *out, struct json_object *json, int flags)
{
	size_t n;
	const char *text = json ? json_object_to_json_string_length(json, flags, &n) : NULL;
	if (text)
		text_add_characters(out, text, n);
	else
		out->failed = true;
}
