/* The keys of -o key_file=. */
#ifndef MOEFS_FS_GATEWAY_KEYS_H
#define MOEFS_FS_GATEWAY_KEYS_H

#include "cache/err.h"

#include <stddef.h>

struct keys;

/* A key a line, without the blanks at its ends; empty lines and those that begin with # are none. A
 * key that no client can send is refused, and never cut. Who else may read the file knows the keys:
 * refused. */
int keys_read(struct keys **out, const char *path, struct err *e);
/* The key's number, from 1; 0: it is none of them. Takes as long whatever is given. */
size_t keys_find(const struct keys *k, const char *given);
/* A key by a mark that stays its own wherever it stands in the file, and from which nobody learns
 * the key: 16 hexadecimal digits. */
enum { KEY_MARK = 17 };
void keys_mark(const struct keys *k, size_t number, char mark[KEY_MARK]);
void keys_free(struct keys *k); /* NULL is fine */

#endif
