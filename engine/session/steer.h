/* params/experts_bias: what a session adds to its router's scores of single experts, and its text:
 * lines `LL/EEE NUMBER` or `LL/EEE off`, with patterns as experts/ctl has them. What it does is in
 * engine/cpu/router.c. */
#ifndef MOEFS_ENGINE_SESSION_STEER_H
#define MOEFS_ENGINE_SESSION_STEER_H

#include "cache/err.h"
#include "engine/compute/step.h"

#include <stdbool.h>

enum {
	STEER_LINES = 4096, /* most lines */
	STEER_MOST = 1000,  /* largest number */
};

struct steer {	    /* zero-initialise: nothing; freed by steer_free */
	char *text; /* as it was written, without a newline at its end; NULL: empty */
	struct steering table;
	uint64_t sum;	/* of the table, for comparing; 0: nothing is biased */
	uint32_t count; /* experts whose bias is not 0 */
};

/* Replaces the biases. -EINVAL: lines of another form, experts that do not exist, NaN, or all
 * experts of a layer or a group off; -ERANGE: a number beyond 1000, too many lines, or a model
 * without experts. In words; the old biases stay. */
int steer_set(struct steer *s, const char *text, const struct config *c, struct err *e);
bool steer_copy(struct steer *to, const struct steer *from); /* false: out of memory */
void steer_free(struct steer *s);

#endif
