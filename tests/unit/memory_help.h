/* Bounds on this process's memory, and what it has, for tests of what happens without. */
#ifndef MOEFS_TESTS_MEMORY_HELP_H
#define MOEFS_TESTS_MEMORY_HELP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

/* Built with a sanitizer: what is many times slower then may be less of the same. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
enum { SANITIZED = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) };
#else
enum { SANITIZED = 0 };
#endif

/* Built with ThreadSanitizer: numbers that one thread computes it would only make slower. */
#if defined(__SANITIZE_THREAD__)
enum { THREADS_WATCHED = 1 };
#elif defined(__has_feature)
enum { THREADS_WATCHED = __has_feature(thread_sanitizer) };
#else
enum { THREADS_WATCHED = 0 };
#endif

/* Of the process: its address space, what of it is in memory, and what of it is the process's own
 * to write (the allocator's reserve of addresses not counted). */
struct test_memory {
	uint64_t mapped, resident, data;
};
struct test_memory test_memory_used(void);

/* Skips the calling test, saying so, under a sanitizer: its own memory would run out first. */
void test_memory_limitable(void);
/* Lets the process have so many bytes more than it has, and then as before. RLIMIT_AS bounds what
 * is mapped, RLIMIT_DATA data. */
void test_memory_limit(int resource, uint64_t bytes, struct rlimit *before);
void test_memory_unlimit(int resource, const struct rlimit *before);

#endif
