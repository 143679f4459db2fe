/* How many threads compute, from fake /proc and /sys trees: cores, siblings, quotas. */
#include "engine/memory/cpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_system.h"

static char root[32];

static int begin(void **state)
{
	(void)state;
	test_folder_make(root);
	return 0;
}

static int end(void **state)
{
	(void)state;
	test_folder_remove(root);
	return 0;
}

/* Processors 0 to 7: each of the first four has a sibling among the last four. */
static void put_siblings(void)
{
	char path[96];
	for (int cpu = 0; cpu < 8; cpu++) {
		(void)snprintf(path, sizeof path,
			       "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
		put(root, path, "%d,%d\n", cpu % 4, cpu % 4 + 4);
	}
}

static struct cpus look(int first, int last)
{
	cpu_set_t allowed;
	struct cpus c;
	CPU_ZERO(&allowed);
	for (int cpu = first; cpu <= last; cpu++)
		CPU_SET(cpu, &allowed);
	cpus_look(&c, &allowed, root);
	return c;
}

static void put_group_v2(const char *quota)
{
	put(root, "/proc/self/cgroup", "0::/a/b\n");
	put(root, "/proc/self/mountinfo",
	    "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "%s\n", quota);
}

static void siblings_count_once(void **state)
{
	(void)state;
	put_siblings();
	struct cpus c = look(0, 7);
	assert_int_equal(c.logical, 8);
	assert_int_equal(c.cores, 4);
	assert_int_equal(cpus_threads(&c), 4);
	c = look(2, 5); /* two of one core's, and one of each of two others' */
	assert_int_equal(c.logical, 4);
	assert_int_equal(c.cores, 4);
	c = look(4, 4);
	assert_int_equal(cpus_threads(&c), 1);
}

static void without_a_topology_each_processor_is_a_core(void **state)
{
	(void)state;
	struct cpus c = look(0, 5);
	assert_int_equal(cpus_threads(&c), 6);
	assert_int_equal(c.nodes, 1);
}

static void the_groups_quota_bounds_the_threads(void **state)
{
	(void)state;
	static const struct {
		const char *quota;
		uint32_t threads;
	} cases[] = {{"250000 100000", 2}, {"50000 100000", 1}, {"max 100000", 8},
		     {"1600000 100000", 8}, {"nonsense", 8},	{"0 0", 8}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put_group_v2(cases[i].quota);
		struct cpus c = look(0, 7);
		assert_int_equal(cpus_threads(&c), cases[i].threads);
	}
}

static void a_group_above_bounds_them_too(void **state)
{
	(void)state;
	put_group_v2("600000 100000");
	put(root, "/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
	struct cpus c = look(0, 7);
	assert_int_equal(cpus_threads(&c), 3);
}

static void version_1_has_its_own_files(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/a\n0::/\n");
	put(root, "/proc/self/mountinfo",
	    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
	    "35 31 0:32 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n");
	put(root, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n");
	put(root, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
	struct cpus c = look(0, 7);
	assert_int_equal(cpus_threads(&c), 4);
	put(root, "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
	c = look(0, 7);
	assert_int_equal(cpus_threads(&c), 8);
}

static void memory_nodes_are_counted(void **state)
{
	(void)state;
	put(root, "/sys/devices/system/node/node0/cpulist", "0-3\n");
	put(root, "/sys/devices/system/node/node1/cpulist", "4-7\n");
	assert_int_equal(look(0, 7).nodes, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(siblings_count_once, begin, end),
		cmocka_unit_test_setup_teardown(without_a_topology_each_processor_is_a_core, begin,
						end),
		cmocka_unit_test_setup_teardown(the_groups_quota_bounds_the_threads, begin, end),
		cmocka_unit_test_setup_teardown(a_group_above_bounds_them_too, begin, end),
		cmocka_unit_test_setup_teardown(version_1_has_its_own_files, begin, end),
		cmocka_unit_test_setup_teardown(memory_nodes_are_counted, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
