/* How a document lies in memory; only json.c and json_parse.c include this.
 *
 * Its values are one array in the order of the text, a list's items and an object's keys and values
 * right behind it; behind the array come the bytes of all texts and numbers, each with a NUL after
 * it. All of it is one allocation. */
#ifndef MOEFS_ENGINE_JSON_JSON_VALUE_H
#define MOEFS_ENGINE_JSON_JSON_VALUE_H

#include "engine/json/json.h"

struct json {
	const char *text; /* of a text, unescaped, or of a number or truth, as it is written */
	uint32_t length;  /* its bytes, or how many items or members there are */
	uint32_t kind : 3, span : 29; /* span: how many values and keys lie inside it */
};

#endif
