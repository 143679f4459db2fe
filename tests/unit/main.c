/* The program of all unit tests: `unit NAME` runs the group of test_NAME.c, `unit NAME PATTERN`
 * its matching tests, `unit` lists the groups. One program, because a hundred programs take long
 * to link and a gigabyte of disk.
 *
 * The Makefile renames each group's main after its file, and lists them all. SEED, a number,
 * shuffles the tests of a group. */
#include "engine/gpu/card_find.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GROUP(name) int group_##name(void);
#include "groups.h"
#undef GROUP

static const struct group {
	const char *name;
	int (*run)(void);
} groups[] = {
#define GROUP(name) {#name, group_##name},
#include "groups.h"
};

enum { GROUP_COUNT = sizeof groups / sizeof *groups };

/* Called by cmocka_run_group_tests; wrapped by the linker. */
int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
				   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
				   CMFixtureFunction setup, CMFixtureFunction teardown);

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
				   CMFixtureFunction setup, CMFixtureFunction teardown)
{
	const char *seed = getenv("SEED");
	struct CMUnitTest *order = malloc(n * sizeof *order);
	if (!order)
		return 1;
	memcpy(order, tests, n * sizeof *order);
	unsigned state = seed ? (unsigned)strtoul(seed, NULL, 10) : 0;
	for (size_t i = n; seed && i > 1; i--) {
		size_t other = (size_t)rand_r(&state) % i;
		struct CMUnitTest last = order[i - 1];
		order[i - 1] = order[other];
		order[other] = last;
	}
	int failed = __real__cmocka_run_group_tests(name, order, n, setup, teardown);
	free(order);
	return failed;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	int status;
	if (card_find_serve(argc, argv, &status)) /* for test_card_find.c */
		return status;
	if (!strncmp(name, "test_", 5))
		name += 5;
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	for (size_t i = 0; i < GROUP_COUNT; i++) {
		if (argc == 1)
			puts(groups[i].name);
		else if (!strcmp(groups[i].name, name))
			return groups[i].run();
	}
	if (argc > 1)
		fprintf(stderr, "no group of tests is called %s\n", name);
	return argc > 1 ? 2 : 0;
}
