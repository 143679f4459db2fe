/* Parses a JSON document with json-c, but keeps the text of whole numbers that do not fit into 64
 * bits. json-c alone turns 1000000000000000000000 into 18446744073709551615, or refuses the
 * number. */
#ifndef MOEFS_FS_GATEWAY_BODY_DOCUMENT_H
#define MOEFS_FS_GATEWAY_BODY_DOCUMENT_H

#include "fs/base/text.h"

#include <json-c/json.h>

struct document_error {
	const char *words; /* static; NULL: no memory */
	size_t at;	   /* offset in the text */
};

/* The text's last byte must be a NUL, which ends a number. `depth`: most levels of nesting. NULL:
 * *why has the reason. */
json_object *document_parse(const struct text *text, int depth, struct document_error *why);

#endif
