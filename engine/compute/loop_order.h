/* Whose loop is next, where several models compute with the same threads.
 *
 * Fair by time: each user's loops add to what it has used, multiplied by its weight, and of those
 * who want the threads the one with the least used comes first. Two refinements: the user of the
 * last loop keeps the threads until it is LOOP_QUANTUM_NS ahead, since each change makes a thread
 * wake up; and a user who has just left is waited for until LOOP_GRACE_NS have passed, because the
 * next loop of the same step follows in a moment. So a user waits for one loop of another and the
 * quantum, and short loops get as much time as long ones. Who was away begins where the least of
 * the others is: time that nobody wanted is not saved up.
 *
 * As shares.h of engine/run, start-time fair queueing (Goyal, Vin, Cheng 1996). Knows no threads
 * and no clock: `now` is the caller's, in nanoseconds, and so is the lock.
 */
#ifndef MOEFS_ENGINE_COMPUTE_LOOP_ORDER_H
#define MOEFS_ENGINE_COMPUTE_LOOP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum { LOOP_QUANTUM_NS = 2000000, LOOP_GRACE_NS = 300000 };

struct loop_user { /* zero-initialise, but for the weight */
	struct loop_user *next;
	uint64_t used;	  /* nanoseconds times weight */
	uint64_t left_ns; /* when its last loop ended */
	uint32_t waits;	  /* callers that want a loop */
	uint32_t weight;  /* what a nanosecond counts */
};

struct loop_order { /* zero-initialise */
	struct loop_user *first;
	const struct loop_user *last; /* who had the last loop */
	bool busy;
};

void loop_order_add(struct loop_order *o, struct loop_user *u);
void loop_order_remove(struct loop_order *o, struct loop_user *u);
/* A caller wants a loop. */
void loop_order_ask(struct loop_order *o, struct loop_user *u, uint64_t now);
/* 0: the loop may begin. UINT64_MAX: ask again when a loop has ended. Else: ask again at that time
 * or when a loop has ended. */
uint64_t loop_order_wait(const struct loop_order *o, const struct loop_user *u, uint64_t now);
void loop_order_begin(struct loop_order *o, struct loop_user *u);
void loop_order_end(struct loop_order *o, struct loop_user *u, uint64_t began, uint64_t now);

#endif
