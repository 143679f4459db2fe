/* Turns of refining's own sessions. */
#ifndef MOEFS_ENGINE_ADMIN_REFINE_TURN_H
#define MOEFS_ENGINE_ADMIN_REFINE_TURN_H

#include "cache/err.h"

#include <stdbool.h>

struct model;
struct session;

int refine_set_param(struct session *s, const char *name, const char *value, struct err *e);
/* Waits until the session's turn has ended; `stop` ends it, and so does the end of refining
 * (-ECANCELED). -EAGAIN: somebody else's turn came first. */
int refine_finish_turn(struct model *m, struct session *s, bool stop, struct err *e);

/* After the last turn, before refining while idle begins or goes on: a user who has asked often
 * asks again soon. */
#define REFINE_QUIET_NS (UINT64_C(10) * 1000000000)
/* Whether nobody asked anything for that long, and the machine is not on its battery. */
bool refine_is_quiet(struct model *m);
/* Waits for that, and takes back that refining was sent away. False: refining has ended. */
bool refine_wait_quiet(struct model *m);

#endif
