/* What MOUNT/README says. */
#ifndef MOEFS_FS_README_H
#define MOEFS_FS_README_H

struct text;

/* Appends it. */
void readme_make(struct text *out);

#endif
