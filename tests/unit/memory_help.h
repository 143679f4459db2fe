/* Limits and measures this process's memory, for tests of running out of memory. */
#ifndef MOEFS_TESTS_UNIT_MEMORY_HELP_H
#define MOEFS_TESTS_UNIT_MEMORY_HELP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

/* Built with a sanitizer: tests that are many times slower may then run fewer cases. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
enum { SANITIZED = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) };
#else
enum { SANITIZED = 0 };
#endif

/* Built with ThreadSanitizer: single-threaded numeric tests then gain nothing and are slower. */
#if defined(__SANITIZE_THREAD__)
enum { THREADS_WATCHED = 1 };
#elif defined(__has_feature)
enum { THREADS_WATCHED = __has_feature(thread_sanitizer) };
#else
enum { THREADS_WATCHED = 0 };
#endif

/* The process's address space, its resident memory, and its private writable memory (without
 * addresses that the allocator only reserves). */
struct test_memory {
	uint64_t mapped, resident, data;
};
struct test_memory test_memory_used(void);

/* Skips the calling test with a message under a sanitizer: the sanitizer's own memory would run
 * out first. */
void test_memory_limitable(void);
/* Limits the process to `bytes` more memory than it has now; removes the limit. RLIMIT_AS bounds
 * mapped memory, RLIMIT_DATA data. */
void test_memory_limit(int resource, uint64_t bytes, struct rlimit *before);
void test_memory_unlimit(int resource, const struct rlimit *before);

/* Makes the calling thread's n-th call of malloc, calloc, realloc or reallocarray from now on fail,
 * once. Only calls of the program and its tests count, not those of libraries. 0: none fails. */
void test_memory_fail_at(long n);
/* Whether that call was made, and failed. */
bool test_memory_has_failed(void);

#endif
