/* Who may send requests. Checked are the Host and Origin headers, keys (-o key_file=), or without
 * keys the user whose process owns the client's socket. */
#ifndef MOEFS_FS_GATEWAY_ACCESS_H
#define MOEFS_FS_GATEWAY_ACCESS_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>

struct http_request;
struct problem;

/* ---- requests ---- */

/* -1: *p says why the request is refused. Sets r->key. r->route may be NULL. */
int access_check(struct http_request *r, struct problem *p);
/* -1: the size that the request announces is too large. */
int access_check_size(const struct http_request *r, struct problem *p);
/* Whether another server, such as a proxy in front of this one, may see the end of the request
 * elsewhere, and take the rest for another client's request. */
bool access_is_unclear(const struct http_request *r);

/* ---- keys ---- */

struct access_keys;

/* Reads a file with one key per line. Blanks around a key, empty lines and lines that begin with #
 * are ignored. Refuses a key that no client can send, and a file that others can read. */
int access_keys_read(struct access_keys **out, const char *path, struct err *e);
/* The key's number, from 1; 0: unknown. Takes the same time for every `given`. */
size_t access_keys_find(const struct access_keys *k, const char *given);
/* A key's mark: 16 hexadecimal digits, which do not reveal the key, and do not depend on the key's
 * place in the file. */
enum { KEY_MARK = 17 };
void access_keys_mark(const struct access_keys *k, size_t number, char mark[KEY_MARK]);
void access_keys_free(struct access_keys *k); /* NULL is fine */

/* ---- the client's user: peer.c ---- */

/* Loopback addresses are open to every local user. So without keys this asks the kernel which user
 * owns the client's socket, and only the gateway's own user and root are served. A program that
 * forwards for others (a proxy, `ssh -L`, a container's port) counts as the user that it runs as.
 *
 * Call this once, when the connection is accepted: later the client may have closed its end, and
 * another client may have its addresses. False also if the kernel does not tell. */
bool peer_is_own_user(int socket);

#endif
