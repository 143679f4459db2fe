/* What a mount gives back to the system once it rests. All by the loop. */
#ifndef MOEFS_FS_REST_H
#define MOEFS_FS_REST_H

struct mount;

/* Something was done. */
void rest_stir(struct mount *m);
/* Milliseconds until rest_look has something to do; -1: nothing. */
int rest_timeout(const struct mount *m);
void rest_look(struct mount *m);

#endif
