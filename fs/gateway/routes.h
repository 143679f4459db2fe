/* The table of all that is served: a row for each method and path. */
#ifndef MOEFS_FS_GATEWAY_ROUTES_H
#define MOEFS_FS_GATEWAY_ROUTES_H

#include "fs/gateway/request.h"

enum route_flags {
	ROUTE_JSON = 1, /* its body must be a JSON object */
	ROUTE_OPEN = 2, /* without a key, too: it tells nothing of models and conversations */
	ROUTE_PAGE = 4, /* a browser shows it: it says what may run in it, and is not kept */
};

struct route {
	const char *method;
	const char *path; /* one that ends in a slash is all that lies below it */
	enum protocol protocol;
	unsigned flags;
	enum MHD_Result (*handle)(struct request *r);
};

/* The row for a request. NULL: none; then *other is one with this path and another method, if there
 * is any. */
const struct route *route_find(const char *method, const char *path, const struct route **other);
/* Those that a path can be asked by, as an Allow header lists them. */
void route_methods(const char *path, char *methods, size_t size);

#endif
