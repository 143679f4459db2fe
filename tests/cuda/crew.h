/* The threads of a block, without a card: they run one function and wait for each other. One block at a
 * time in a program.
 *
 * They take turns on the stack of one thread of the system, which is fast; an order that alternates shows
 * most barriers that are missing. Under ThreadSanitizer each is a thread of the system, so that it sees
 * what two of them do without a barrier. */
#ifndef MOEFS_TESTS_CUDA_CREW_H
#define MOEFS_TESTS_CUDA_CREW_H

#include <stdint.h>

#if defined(__has_feature)
#define CREW_HAS(feature) __has_feature(feature)
#else
#define CREW_HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || CREW_HAS(thread_sanitizer)
#define CREW_OF_SYSTEM_THREADS 1
#else
#define CREW_OF_SYSTEM_THREADS 0
#endif

enum { CREW_MOST = 1024, CREW_WARP = 32 };

/* Has so many threads, whole warps, call work() once, and returns when all have. */
void crew_run(uint32_t threads, void (*work)(void));
/* The number of the thread that calls, within work(). */
uint32_t crew_place(void);
/* Waits for all threads, or for those of the warp. */
void crew_wait(void);
void crew_wait_warp(void);

#endif
