/* Unicode's normal forms, as far as tokenizers ask for them. */
#ifndef MOEFS_ENGINE_TEXT_NORMALIZE_H
#define MOEFS_ENGINE_TEXT_NORMALIZE_H

#include "cache/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* NFC of valid UTF-8 that may hold NULs, into memory that the caller frees. Linear, whatever the
 * order of combining marks. */
int normalize_nfc(const char *text, size_t n, const _Atomic bool *stop, char **out, size_t *out_n,
		  struct err *e);

#endif
