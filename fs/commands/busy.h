/* Who keeps a mount in use. */
#ifndef MOEFS_FS_COMMANDS_BUSY_H
#define MOEFS_FS_COMMANDS_BUSY_H

#include <stddef.h>

/* The processes that stand in it, or have a file of it open, as far as this user may see: "bash
 * (812), tail (840)"; empty: none that can be seen. */
void busy_words(const char *point, char *words, size_t size);
/* The processes, in this form, in whose mount namespaces a file system is mounted (device:
 * MAJOR:MINOR of mountinfo), as far as this user may see. */
void busy_elsewhere(const char *device, char *words, size_t size);

#endif
