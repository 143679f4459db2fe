/* How many reads to keep in flight: the smallest number that reaches the device's bandwidth. With
 * more in flight, a read that a batch waits for queues behind the others.
 *
 * The number is found while reading. A stretch of reads with a full queue behind them is timed at
 * the present depth and, from time to time, at the depth above or below.
 *
 * No clock and no lock: the caller passes times and serialises the calls.
 */
#ifndef MOEFS_CACHE_DEPTH_H
#define MOEFS_CACHE_DEPTH_H

#include <stdint.h>

enum { DEPTH_MOST = 8, DEPTH_START = 4 };

struct depth_tuner {
	uint32_t depth;		     /* the depth to use now: 1 … DEPTH_MOST */
	uint32_t base;		     /* the best so far; depth is this number or a neighbour on
				      * trial */
	double rate[DEPTH_MOST + 1]; /* bytes per ns at each depth, smoothed; 0: not yet known */
	/* The stretch being timed. */
	uint64_t start_ns, bytes;
	uint32_t reads, stretches;
};

void depth_init(struct depth_tuner *t);
/* Discards the stretch being timed. Call this when the device becomes idle, or busy again. */
void depth_restart(struct depth_tuner *t);
/* Records that a read of `bytes` ended at `now_ns` while other reads waited for the device. */
void depth_note(struct depth_tuner *t, uint64_t bytes, uint64_t now_ns);

#endif
