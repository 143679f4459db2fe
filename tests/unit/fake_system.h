/* Fake /proc and /sys trees, as on another machine or in another control group. */
#ifndef MOEFS_TESTS_UNIT_FAKE_SYSTEM_H
#define MOEFS_TESTS_UNIT_FAKE_SYSTEM_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store_help.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Writes the file root/folder/name, with the folders above it. */
__attribute__((format(printf, 4, 5))) static inline void
put_in(const char *root, const char *folder, const char *name, const char *format, ...)
{
	char path[1024];
	int n = snprintf(path, sizeof path, "%s%s%s", root, folder, name);
	assert_in_range(n, 1, sizeof path - 1);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	va_list arguments;
	va_start(arguments, format);
	assert_true(vfprintf(f, format, arguments) >= 0);
	va_end(arguments);
	assert_int_equal(fclose(f), 0);
}
#define put(root, path, ...) put_in(root, path, "", __VA_ARGS__)

static inline void put_machine(const char *root, uint64_t total, uint64_t available)
{
	put(root, "/proc/meminfo",
	    "MemTotal:       %" PRIu64 " kB\nMemFree:  123 kB\nMemAvailable:   %" PRIu64
	    " kB\nBuffers:   1 kB\n",
	    total / 1024, available / 1024);
}

/* A group of version 2: limit is a number or "max". */
static inline void put_v2(const char *root, const char *group, const char *limit, uint64_t used,
			  uint64_t cached)
{
	put_in(root, group, "/memory.max", "%s\n", limit);
	put_in(root, group, "/memory.high", "max\n");
	put_in(root, group, "/memory.current", "%" PRIu64 "\n", used);
	put_in(root, group, "/memory.stat",
	       "anon 4096\nfile %" PRIu64 "\ninactive_anon 7\nactive_anon 8\ninactive_file %" PRIu64
	       "\nactive_file %" PRIu64 "\nslab_reclaimable 0\n",
	       cached, cached - cached / 4, cached / 4);
}

/* The same for version 1. The total cache counts, not that of this group alone. */
static inline void put_v1(const char *root, const char *group, uint64_t limit, uint64_t used,
			  uint64_t cached)
{
	put_in(root, group, "/memory.limit_in_bytes", "%" PRIu64 "\n", limit);
	put_in(root, group, "/memory.usage_in_bytes", "%" PRIu64 "\n", used);
	put_in(root, group, "/memory.stat",
	       "inactive_file 1\nactive_file 2\nhierarchical_memory_limit %" PRIu64
	       "\ntotal_inactive_file %" PRIu64 "\ntotal_active_file %" PRIu64 "\n",
	       limit, cached / 2, cached - cached / 2);
}

static const uint64_t v1_no_limit = 9223372036854771712u; /* the largest number of whole pages */

#endif
