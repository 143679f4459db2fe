/* Who may answer now: so many turns at once, and a bounded queue behind them. A slot that becomes
 * free goes to the waiting key with the fewest turns, and among its requests to the oldest, so that
 * no key's many starve another's one. */
#ifndef MOEFS_FS_GATEWAY_TURN_GATE_H
#define MOEFS_FS_GATEWAY_TURN_GATE_H

#include <stddef.h>

struct gate;

/* NULL: out of memory. */
struct gate *gate_create(unsigned active, unsigned queue);
void gate_free(struct gate *g);
/* Waits for a slot. 0; -EBUSY: the queue is full; -EPIPE: the client has gone away meanwhile. */
int gate_enter(struct gate *g, size_t key, int client);
void gate_leave(struct gate *g, size_t key);
void gate_look(struct gate *g, unsigned *active, unsigned *waiting);

#endif
