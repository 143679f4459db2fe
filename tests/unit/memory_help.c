#include "tests/unit/memory_help.h"
#include "engine/model.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct test_memory test_memory_used(void)
{
	struct test_memory used = {0};
	const struct {
		const char *name;
		uint64_t *bytes;
	} wanted[] = {
		{"VmSize:", &used.mapped}, {"VmRSS:", &used.resident}, {"VmData:", &used.data}};
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");
	assert_non_null(status);
	while (fgets(line, sizeof line, status))
		for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
			if (!strncmp(line, wanted[i].name, strlen(wanted[i].name)))
				*wanted[i].bytes =
					strtoull(line + strlen(wanted[i].name), NULL, 10) * 1024;
	(void)fclose(status);
	assert_true(used.mapped && used.resident && used.data);
	return used;
}

void test_memory_limitable(void)
{
	if (!SANITIZED)
		return;
	print_message("not under a sanitizer: skipped, its own memory would run out first\n");
	skip();
}

void test_memory_limit(int resource, uint64_t bytes, struct rlimit *before)
{
	struct test_memory used = test_memory_used();
	uint64_t now = resource == RLIMIT_AS ? used.mapped : used.data;
	assert_int_equal(getrlimit((__rlimit_resource_t)resource, before), 0);
	struct rlimit tight = {now + bytes, before->rlim_max};
	assert_int_equal(setrlimit((__rlimit_resource_t)resource, &tight), 0);
}

void test_memory_unlimit(int resource, const struct rlimit *before)
{
	assert_int_equal(setrlimit((__rlimit_resource_t)resource, before), 0);
}

/* ---- allocations that fail ---- */

static _Thread_local long fail_at; /* calls until one fails, 1: the next; 0: none does */
static _Thread_local bool has_failed;

void test_memory_fail_at(long n)
{
	fail_at = n;
	has_failed = false;
}

bool test_memory_has_failed(void)
{
	return has_failed;
}

static bool fails_now(void)
{
	if (!fail_at || --fail_at)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

/* These wrap every call (--wrap in the Makefile). */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__real_reallocarray(void *old, size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	return fails_now() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_reallocarray(void *old, size_t count, size_t bytes)
{
	return fails_now() ? NULL : __real_reallocarray(old, count, bytes);
}

/* A model's loss is not measured by itself in tests: the measurement would take the reads that a test has fail. */
void __wrap_loss_idle_begin(struct model *m);
void __wrap_loss_idle_begin(struct model *m)
{
	(void)m;
}
