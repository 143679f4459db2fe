/* A list of objects with ids, as both protocols' clients page through it. */
#ifndef MOEFS_FS_GATEWAY_LISTING_H
#define MOEFS_FS_GATEWAY_LISTING_H

#include "fs/gateway/request.h"

/* What a protocol calls its queries; NULL: it has none such. */
struct listing_way {
	const char *after, *before;
	size_t limit, most; /* of a page: where the query says nothing, and at most */
};

/* Answers with the page of `data` (taken) that the request's query asks for. */
enum MHD_Result listing_reply(struct request *r, struct json_object *data,
			      const struct listing_way *way);
/* A member of the query; NULL: it is not there. */
const char *listing_query(const struct request *r, const char *name);

#endif
