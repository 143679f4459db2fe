/* params/experts_bias: numbers added to the router's scores of single experts. Written as lines
 * `LL/EEE NUMBER` or `LL/EEE off`, with the same patterns as in experts/ctl.
 * engine/cpu/router.c applies them. */
#ifndef MOEFS_ENGINE_SESSION_STEER_H
#define MOEFS_ENGINE_SESSION_STEER_H

#include "cache/err.h"
#include "engine/compute/step.h"

#include <stdbool.h>

enum {
	STEER_LINES = 4096, /* most lines */
	STEER_MOST = 1000,  /* numbers are from -STEER_MOST to STEER_MOST */
};

struct steer {	    /* zero-initialised: no biases; freed by steer_free */
	char *text; /* as written, without a newline at the end; NULL: empty */
	struct steering table;
	uint64_t sum;	/* checksum of the table, to compare tables; 0: no biases */
	uint32_t count; /* number of experts with a bias other than 0 */
};

/* Replaces the biases. -EINVAL: a line has another form, an expert does not exist, a number is NaN,
 * or all experts of a layer or group are off; -ERANGE: a number is beyond 1000, there are too many
 * lines, or the model has no experts. After an error the old biases stay. */
int steer_set(struct steer *s, const char *text, const struct config *c, struct err *e);
bool steer_copy(struct steer *to, const struct steer *from); /* false: out of memory */
void steer_free(struct steer *s);

#endif
