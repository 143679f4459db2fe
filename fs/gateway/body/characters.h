/* What is sent is UTF-8, whatever a model says: it may draw a byte that begins no character. */
#ifndef MOEFS_FS_GATEWAY_BODY_CHARACTERS_H
#define MOEFS_FS_GATEWAY_BODY_CHARACTERS_H

#include "fs/base/text.h"

/* Adds bytes, with U+FFFD in the place of each that is no part of a character. */
void text_add_characters(struct text *out, const char *bytes, size_t n);

#endif
