/* Parses a JSON document with json-c, and keeps whole numbers that fit into no 64 bits as they are
 * written. json-c alone makes 18446744073709551615 of 1000000000000000000000, or refuses it. */
#ifndef MOEFS_FS_GATEWAY_BODY_DOCUMENT_H
#define MOEFS_FS_GATEWAY_BODY_DOCUMENT_H

#include "fs/base/text.h"

#include <json-c/json.h>

struct document_error {
	const char *words; /* static; NULL: no memory */
	size_t at;	   /* byte of the text */
};

/* The text's last byte must be a NUL, which ends a number. `depth`: levels of nesting, at most.
 * NULL: *why says what is wrong. */
json_object *document_parse(const struct text *text, int depth, struct document_error *why);

#endif
