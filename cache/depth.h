/* How many reads to keep in flight: the smallest number that gives a device's bandwidth.
 *
 * More in flight than that only makes the read that somebody waits for queue behind others. The
 * number is found while reading: stretches of reads that had a full queue behind them are timed at
 * the present depth and, from time to time, at the one above or below.
 *
 * No clock and no lock of its own: the caller gives times and serialises the calls.
 */
#ifndef MOEFS_CACHE_DEPTH_H
#define MOEFS_CACHE_DEPTH_H

#include <stdint.h>

enum { DEPTH_MOST = 8, DEPTH_START = 4 };

struct depth_tuner {
	uint32_t depth;		     /* to use now: 1 … DEPTH_MOST */
	uint32_t base;		     /* the best so far; depth is this or a trial beside it */
	double rate[DEPTH_MOST + 1]; /* bytes per ns at each depth, smoothed; 0: not yet known */
	/* The stretch being timed. */
	uint64_t start_ns, bytes;
	uint32_t reads, stretches;
};

void depth_init(struct depth_tuner *t);
/* The device has nothing to do, or has just got something again: what was being timed says
 * nothing. */
void depth_restart(struct depth_tuner *t);
/* A read of so many bytes has ended at that time while others waited for the device. */
void depth_note(struct depth_tuner *t, uint64_t bytes, uint64_t now_ns);

#endif
