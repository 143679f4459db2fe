/* The memory that a process may still take, and mains, from fake /proc and /sys trees. */
#include "engine/memory/mains.h"
#include "engine/memory/memory.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_system.h"

static char root[32];
static struct memory memory;

static const char mount_v2[] =
	"22 27 0:21 / /proc rw - proc proc rw\n"
	"29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
static const char mount_v1[] =
	"31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
	"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
	"35 31 0:32 / /sys/fs/cgroup/memory rw shared:10 master:3 - cgroup cgroup rw,memory\n"
	"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";

static int begin(void **state)
{
	(void)state;
	test_folder_make(root);
	memory_init(&memory, root);
	put_machine(root, 16 * GIB, 8 * GIB);
	return 0;
}

static int end(void **state)
{
	(void)state;
	memory_free(&memory);
	test_folder_remove(root);
	return 0;
}

static struct memory_room look(void)
{
	struct memory_room room;
	memory_look(&memory, &room);
	return room;
}

/* The spare memory of a group with this limit and usage. */
static int64_t spare_of(uint64_t limit, uint64_t used)
{
	return (int64_t)limit - (int64_t)used - (int64_t)memory_group_margin(limit);
}

static const int64_t machine_spare = 7 * (int64_t)GIB; /* 8 GiB less a sixteenth of 16 */

/* ---- the machine ---- */

static void without_groups_it_is_what_the_machine_has_less_a_margin(void **state)
{
	(void)state;
	struct memory_room room = look();
	assert_true(room.spare == machine_spare);
	assert_true(room.margin == GIB);
}

static void the_whole_is_the_least_of_the_machine_and_the_limits(void **state)
{
	(void)state;
	assert_true(look().whole == 16 * GIB);
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put(root, "/proc/self/cgroup", "0::/a/b\n");
	put_v2(root, "/sys/fs/cgroup/a/b", "4294967296", GIB, 0);
	put_v2(root, "/sys/fs/cgroup/a", "max", GIB, 0);
	assert_true(look().whole == 4 * GIB);
	put_v2(root, "/sys/fs/cgroup/a", "3221225472", GIB, 0);
	assert_true(look().whole == 3 * GIB);
	put_machine(root, 2 * GIB, GIB);
	assert_true(look().whole == 2 * GIB);
	put(root, "/proc/meminfo", "nothing");
	assert_true(look().whole == 3 * GIB);
	put(root, "/proc/self/cgroup", "0::/\n");
	assert_true(look().whole == 0); /* unknown */
}

static void missing_and_senseless_numbers_bound_nothing(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"", "MemTotal:\nMemAvailable:\n", "MemTotal: 12x kB\nMemAvailable: 7 kB\n",
		"MemTotal: -5 kB\nMemAvailable: -7 kB\n",
		"MemTotal: 99999999999999999999999 kB\nMemAvailable: 99999999999999999999999 kB\n"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		put(root, "/proc/meminfo", "%s", texts[i]);
		assert_true(look().spare == MEMORY_UNKNOWN);
	}
	memory_free(&memory);
	memory_init(&memory, "/nowhere/at/all");
	assert_true(look().spare == MEMORY_UNKNOWN);
}

/* ---- version 2 ---- */

static void a_group_of_version_2_bounds_and_its_page_cache_counts_as_free(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/user.slice/session-2.scope\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/user.slice/session-2.scope", "3221225472", 2 * GIB, GIB);
	struct memory_room room = look();
	assert_true(room.spare == spare_of(3 * GIB, GIB));
	assert_true(room.margin == memory_group_margin(3 * GIB));
}

static void the_tightest_of_a_group_and_those_above_it_counts(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/a/b/c\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/a/b/c", "max", GIB, 0);
	put_v2(root, "/sys/fs/cgroup/a/b", "4294967296", GIB, 0);
	put_v2(root, "/sys/fs/cgroup/a", "5368709120", 4 * GIB, GIB / 2);
	assert_true(look().spare == spare_of(5 * GIB, 4 * GIB - GIB / 2));
	put_v2(root, "/sys/fs/cgroup/a", "max", 4 * GIB, 0);
	assert_true(look().spare == spare_of(4 * GIB, GIB));
	put_v2(root, "/sys/fs/cgroup/a/b", "max", GIB, 0);
	assert_true(look().spare == machine_spare);
}

static void being_throttled_is_a_limit_as_well(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/a", "4294967296", GIB, 0);
	put(root, "/sys/fs/cgroup/a/memory.high", "2147483648\n");
	assert_true(look().spare == spare_of(2 * GIB, GIB));
}

static void more_in_use_than_a_limit_allows_is_missing(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/a", "1073741824", 3 * GIB, 0);
	assert_true(look().spare == spare_of(GIB, 3 * GIB));
	assert_true(look().spare < -2 * (int64_t)GIB);
}

static void senseless_numbers_of_a_group_bound_nothing(void **state)
{
	(void)state;
	static const char *const limits[] = {"", "-1", "0x1000", "12abc", "maximum"};
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		put_v2(root, "/sys/fs/cgroup/a", limits[i], GIB, 0);
		assert_true(look().spare == machine_spare);
	}
	put_v2(root, "/sys/fs/cgroup/a", "2147483648", GIB, 0);
	put(root, "/sys/fs/cgroup/a/memory.current", "much\n");
	assert_true(look().spare == machine_spare);
}

static void more_page_cache_than_is_in_use_is_not_believed(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/a", "2147483648", GIB, 4 * GIB);
	assert_true(look().spare == spare_of(2 * GIB, 0));
}

/* ---- version 1 ---- */

static void a_group_of_version_1_bounds_with_all_that_is_below_it(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v1);
	put_v1(root, "/sys/fs/cgroup/memory", v1_no_limit, 9 * GIB, GIB);
	put_v1(root, "/sys/fs/cgroup/memory/jobs", v1_no_limit, 3 * GIB, GIB);
	put_v1(root, "/sys/fs/cgroup/memory/jobs/7", 3 * GIB, 2 * GIB, GIB);
	assert_true(look().spare == spare_of(3 * GIB, GIB));
	put_v1(root, "/sys/fs/cgroup/memory/jobs", 4 * GIB, 4 * GIB, GIB);
	assert_true(look().spare == spare_of(4 * GIB, 3 * GIB));
}

static void the_largest_number_of_pages_is_no_limit(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "4:memory:/\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v1);
	put_v1(root, "/sys/fs/cgroup/memory", v1_no_limit, 9 * GIB, GIB);
	assert_true(look().spare == machine_spare);
}

static void a_limit_above_that_cannot_be_seen_is_inherited(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "4:memory:/\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v1);
	put_v1(root, "/sys/fs/cgroup/memory", 2 * GIB, GIB, 0); /* memory.stat says it, too */
	put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "%" PRIu64 "\n", v1_no_limit);
	assert_true(look().spare == spare_of(2 * GIB, GIB));
}

static void the_memory_controller_may_share_its_hierarchy(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "2:cpu,memory,cpuset:/a\n");
	put(root, "/proc/self/mountinfo",
	    "35 31 0:32 / /cg\\040roup rw - cgroup none rw,cpu,memory,cpuset\n");
	put_v1(root, "/cg roup/a", GIB, GIB / 2, 0);
	assert_true(look().spare == spare_of(GIB, GIB / 2));
}

/* ---- both, and containers ---- */

static void side_by_side_the_hierarchy_with_the_controller_counts(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "4:memory:/one\n0::/two\n");
	put(root, "/proc/self/mountinfo",
	    "%s41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", mount_v1);
	put_v1(root, "/sys/fs/cgroup/memory/one", 2 * GIB, GIB, 0);
	put_v2(root, "/sys/fs/cgroup/unified/two", "1073741824", 0, 0);
	assert_true(look().spare == spare_of(2 * GIB, GIB));

	put(root, "/proc/self/cgroup", "7:cpu:/one\n0::/two\n"); /* version 2 has it */
	assert_true(look().spare == spare_of(GIB, 0));
}

static void a_container_with_a_namespace_sees_its_group_as_the_root(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup", "2147483648", GIB, 0);
	assert_true(look().spare == spare_of(2 * GIB, GIB));
}

static void a_container_without_a_namespace_is_named_from_outside(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "4:memory:/docker/5e7/inner\n");
	put(root, "/proc/self/mountinfo",
	    "35 31 0:32 /docker/5e7 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	put_v1(root, "/sys/fs/cgroup/memory", 2 * GIB, GIB, 0);
	put_v1(root, "/sys/fs/cgroup/memory/inner", 4 * GIB, 0, 0);
	assert_true(look().spare == spare_of(2 * GIB, GIB));
	/* another name that only begins alike is not below it: then what is mounted counts */
	put(root, "/proc/self/cgroup", "4:memory:/docker/5e7f\n");
	put_v1(root, "/sys/fs/cgroup/memoryf", GIB, GIB, 0);
	assert_true(look().spare == spare_of(2 * GIB, GIB));
}

static void a_group_outside_the_namespace_is_not_taken_for_another(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/../other\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup", "1073741824", GIB, 0);
	put_v2(root, "/sys/fs/other", "1073741824", GIB, 0);
	assert_true(look().spare == machine_spare);
}

static void nothing_outside_the_mount_is_looked_at(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/a", "max", GIB, 0);
	put_v2(root, "/sys/fs", "1073741824", GIB, 0);
	assert_true(look().spare == machine_spare);
}

static void of_a_group_that_is_gone_those_above_count(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/a/b (deleted)\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/a", "2147483648", GIB, 0);
	assert_true(look().spare == spare_of(2 * GIB, GIB));
}

static void what_is_cut_or_garbled_is_survived(void **state)
{
	(void)state;
	static const char *const memberships[] = {"",
						  "\n",
						  ":",
						  "::",
						  "0:",
						  "0::",
						  "0::a",
						  "4:memory",
						  "4:memory:",
						  "nonsense\n0:/\n",
						  "5:memoryx:/a\n"};
	static const char *const mounts[] = {"",
					     "\n",
					     " - ",
					     " - cgroup2",
					     "1 2 3 / /sys/fs/cgroup",
					     "1 2 3 / - cgroup2 x rw\n",
					     "1 2 3 / /sys/fs/cgroup rw - cgroup2\n",
					     "1 2 3 / \\04 rw - cgroup2 x rw\n",
					     "1 2 3 / \\ rw - cgroup2 x rw\n"};
	put_v2(root, "/sys/fs/cgroup/a", "1073741824", GIB, 0);
	for (size_t i = 0; i < sizeof memberships / sizeof *memberships; i++) {
		put(root, "/proc/self/cgroup", "%s", memberships[i]);
		put(root, "/proc/self/mountinfo", "%s%s", mount_v2, mount_v1);
		assert_true(look().spare == machine_spare);
	}
	for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
		put(root, "/proc/self/cgroup", "0::/a%zu\n", i);
		put(root, "/proc/self/mountinfo", "%s", mounts[i]);
		assert_true(look().spare == machine_spare);
	}
}

static void a_move_to_another_group_and_a_new_limit_are_noticed(void **state)
{
	(void)state;
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/proc/self/mountinfo", "%s", mount_v2);
	put_v2(root, "/sys/fs/cgroup/a", "2147483648", GIB, 0);
	put_v2(root, "/sys/fs/cgroup/b", "4294967296", GIB, 0);
	assert_true(look().spare == spare_of(2 * GIB, GIB));
	unsigned changes = memory.changes;
	look();
	assert_int_equal(memory.changes, changes);
	put(root, "/proc/self/cgroup", "0::/b\n");
	assert_true(look().spare == spare_of(4 * GIB, GIB));
	assert_true(memory.changes > changes);
	changes = memory.changes;
	put_v2(root, "/sys/fs/cgroup/b", "3221225472", GIB, 0);
	assert_true(look().spare == spare_of(3 * GIB, GIB));
	assert_true(memory.changes > changes);
}

static void margins_are_a_part_of_a_limit_between_bounds(void **state)
{
	(void)state;
	assert_true(memory_group_margin(40 * MIB) == 10 * MIB);
	assert_true(memory_group_margin(128 * MIB) == 16 * MIB);
	assert_true(memory_group_margin(3200 * MIB) == 100 * MIB);
	assert_true(memory_group_margin(500 * GIB) == 512 * MIB);
}

static void this_machine_says_something(void **state)
{
	(void)state;
	memory_free(&memory);
	memory_init(&memory, "");
	assert_true(look().spare != MEMORY_UNKNOWN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* ---- mains ---- */

static void supply(const char *name, const char *file, const char *says)
{
	char folder[128];
	(void)snprintf(folder, sizeof folder, "/sys/class/power_supply/%s/", name);
	put_in(root, folder, file, "%s\n", says);
}

static void a_machine_that_runs_on_its_battery_is_not_on_mains(void **state)
{
	(void)state;
	assert_true(mains_on(root)); /* nothing is known */
	supply("AC", "type", "Mains");
	supply("mouse", "type", "Battery");
	supply("mouse", "scope", "Device");
	supply("mouse", "status", "Discharging");
	assert_true(mains_on(root));
	supply("BAT0", "type", "Battery");
	supply("BAT0", "status", "Charging");
	assert_true(mains_on(root));
	supply("BAT0", "status", "Discharging");
	assert_false(mains_on(root));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_machine_that_runs_on_its_battery_is_not_on_mains),
		TEST(without_groups_it_is_what_the_machine_has_less_a_margin),
		TEST(the_whole_is_the_least_of_the_machine_and_the_limits),
		TEST(missing_and_senseless_numbers_bound_nothing),
		TEST(a_group_of_version_2_bounds_and_its_page_cache_counts_as_free),
		TEST(the_tightest_of_a_group_and_those_above_it_counts),
		TEST(being_throttled_is_a_limit_as_well),
		TEST(more_in_use_than_a_limit_allows_is_missing),
		TEST(senseless_numbers_of_a_group_bound_nothing),
		TEST(more_page_cache_than_is_in_use_is_not_believed),
		TEST(a_group_of_version_1_bounds_with_all_that_is_below_it),
		TEST(the_largest_number_of_pages_is_no_limit),
		TEST(a_limit_above_that_cannot_be_seen_is_inherited),
		TEST(the_memory_controller_may_share_its_hierarchy),
		TEST(side_by_side_the_hierarchy_with_the_controller_counts),
		TEST(a_container_with_a_namespace_sees_its_group_as_the_root),
		TEST(a_container_without_a_namespace_is_named_from_outside),
		TEST(a_group_outside_the_namespace_is_not_taken_for_another),
		TEST(nothing_outside_the_mount_is_looked_at),
		TEST(of_a_group_that_is_gone_those_above_count),
		TEST(what_is_cut_or_garbled_is_survived),
		TEST(a_move_to_another_group_and_a_new_limit_are_noticed),
		TEST(margins_are_a_part_of_a_limit_between_bounds),
		TEST(this_machine_says_something),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
