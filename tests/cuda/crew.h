/* The threads of a block, without a card: they run one function and wait for each other. One block at a
 * time in a program.
 *
 * They take turns on the stack of one thread of the system, which is fast; an order that alternates shows
 * most barriers that are missing. Under ThreadSanitizer each is a thread of the system, so that it sees
 * what two of them do without a barrier. */
#ifndef MOEFS_TESTS_CUDA_CREW_H
#define MOEFS_TESTS_CUDA_CREW_H

#include <stdint.h>

enum { CREW_MOST = 1024, CREW_WARP = 32 };

/* Has so many threads, whole warps, call work() once, and returns when all have. */
void crew_run(uint32_t threads, void (*work)(void));
/* The number of the thread that calls, within work(). */
uint32_t crew_place(void);
/* Waits for all threads, or for those of the warp. */
void crew_wait(void);
void crew_wait_warp(void);

#endif
