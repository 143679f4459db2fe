/* What tells this gateway's sessions in the tree from those of others. */
#ifndef MOEFS_FS_GATEWAY_IDENTITY_H
#define MOEFS_FS_GATEWAY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

/* MACHINE.PROCESS.START. */
void identity_make(char *id, size_t size);
/* Whether an identity is of a process of this machine that has ended: nobody else will remove what
 * it has left. */
bool identity_is_over(const char *id);

#endif
