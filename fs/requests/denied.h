/* What the tree does not allow, and saying why (EPERM). */
#ifndef MOEFS_FS_DENIED_H
#define MOEFS_FS_DENIED_H

#include "fs/requests/request.h"

enum denied { DENIED_CREATE, DENIED_MKDIR, DENIED_REMOVE, DENIED_RENAME, DENIED_LINK };

/* Answers with EPERM, and tells the caller why in error. Of names that programs make beside the
 * files that they write (.x.swp, x~, sedXXXXXX, 4913) nothing is said: nobody typed them. */
void denied(fuse_req_t req, fuse_ino_t parent, const char *name, enum denied what);
bool denied_is_tools(const char *name);
/* A mode or an owner of a node's own. */
void denied_attributes(const struct node *n);
/* The name of another user's session, or of his question. */
void denied_others(fuse_req_t req, const struct node *folder, const char *name);

#endif
