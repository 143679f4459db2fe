/* JSON as it is sent: always UTF-8, although names of models and files, and what a request says of
 * itself in an error, may be any bytes. */
#ifndef MOEFS_FS_GATEWAY_BODY_CHARACTERS_H
#define MOEFS_FS_GATEWAY_BODY_CHARACTERS_H

#include "fs/base/text.h"

#include <json-c/json.h>

/* Adds the text of `json` (borrowed), with U+FFFD for each byte that is part of no character.
 * flags: JSON_C_TO_STRING_… */
void text_add_object(struct text *out, struct json_object *json, int flags);

#endif
