/* Who may ask: by the Host and Origin headers, the key, and the size that is announced. */
#ifndef MOEFS_FS_GATEWAY_ADMIT_H
#define MOEFS_FS_GATEWAY_ADMIT_H

#include "fs/gateway/request.h"

/* Sets the request's key. Its route may be NULL. */
int admit(struct request *r, struct problem *p);
int admit_size(const struct request *r, struct problem *p);
/* Another server, such as a proxy before this one, may see the request's end elsewhere, and what follows
 * as another client's request. */
bool admit_is_unclear(const struct request *r);

#endif
