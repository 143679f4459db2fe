/* Signals of memory pressure: the registered ones, and the effect of a signal. The files are fake,
 * so the test writes to the eventfds instead of the kernel. */
#include "engine/memory/pressure.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_system.h"

enum { FOREVER = -1 };

static char root[32];
static struct memory memory;
static struct pressure pressure;
static int wake;

static int begin(void **state)
{
	(void)state;
	test_folder_make(root);
	memory_init(&memory, root);
	wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_true(wake >= 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	pressure_close(&pressure);
	memory_free(&memory);
	close(wake);
	test_folder_remove(root);
	return 0;
}

static void subscribe(void)
{
	struct memory_room room;
	memory_look(&memory, &room);
	pressure_open(&pressure, &memory);
}

/* The process is in /a/b of version 1, where /a has a limit of 1 GiB. */
static void put_group_v1(void)
{
	put(root, "/proc/self/cgroup", "4:memory:/a/b\n");
	put(root, "/proc/self/mountinfo", "35 31 0:32 / /sys/mem rw - cgroup cgroup rw,memory\n");
	put_v1(root, "/sys/mem/a", GIB, 0, 0);
	put_v1(root, "/sys/mem/a/b", v1_no_limit, 0, 0);
	put(root, "/sys/mem/a/cgroup.event_control", "%s", "");
	put(root, "/sys/mem/a/b/cgroup.event_control", "%s", "");
	put(root, "/sys/mem/a/b/memory.pressure_level", "%s", "");
}

static void read_file(char *text, size_t size, const char *path)
{
	char name[256];
	(void)snprintf(name, sizeof name, "%s%s", root, path);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t n = read(fd, text, size - 1);
	assert_true(n >= 0);
	text[n] = 0;
	close(fd);
}

static void without_any_source_it_waits_its_time(void **state)
{
	(void)state;
	subscribe();
	assert_int_equal(pressure.count, 0);
	assert_int_equal(pressure_wait(&pressure, wake, 1), PRESSURE_NONE);
}

static void the_caller_can_end_a_wait(void **state)
{
	(void)state;
	subscribe();
	assert_int_equal(eventfd_write(wake, 1), 0);
	assert_int_equal(pressure_wait(&pressure, wake, FOREVER), PRESSURE_NONE);
}

static void version_1_watches_shortage_here_and_usage_at_the_limits_above(void **state)
{
	(void)state;
	char text[128], wanted[128];
	put_group_v1();
	subscribe();
	assert_int_equal(pressure.count, 2);
	read_file(text, sizeof text, "/sys/mem/a/b/cgroup.event_control");
	(void)snprintf(wanted, sizeof wanted, "%d ", pressure.fds[0].fd);
	assert_int_equal(strncmp(text, wanted, strlen(wanted)), 0);
	assert_non_null(strstr(text, " medium,hierarchy"));
	read_file(text, sizeof text, "/sys/mem/a/cgroup.event_control");
	(void)snprintf(wanted, sizeof wanted, " %" PRIu64, GIB - memory_group_margin(GIB) / 2);
	assert_non_null(strstr(text, wanted));
}

static void an_event_is_a_signal_once(void **state)
{
	(void)state;
	put_group_v1();
	subscribe();
	assert_int_equal(eventfd_write(pressure.fds[1].fd, 3), 0);
	assert_int_equal(pressure_wait(&pressure, wake, FOREVER), PRESSURE_LOOK);
	assert_int_equal(pressure_wait(&pressure, wake, 0), PRESSURE_NONE);
}

static void of_several_signals_the_gravest_counts(void **state)
{
	(void)state;
	put_group_v1();
	subscribe();
	pressure.source[0].signal = PRESSURE_SHORT; /* as it is in version 2 */
	assert_int_equal(eventfd_write(pressure.fds[0].fd, 1), 0);
	assert_int_equal(eventfd_write(pressure.fds[1].fd, 1), 0);
	assert_int_equal(pressure_wait(&pressure, wake, FOREVER), PRESSURE_SHORT);
	assert_int_equal(pressure_wait(&pressure, wake, 0), PRESSURE_NONE);
}

static void version_2_watches_stalls_here_and_events_of_all_groups(void **state)
{
	(void)state;
	char text[128];
	put(root, "/proc/pressure/memory", "%s", "");
	put(root, "/proc/self/cgroup", "0::/a/b\n");
	put(root, "/proc/self/mountinfo", "29 23 0:26 / /sys/cg rw - cgroup2 cgroup2 rw\n");
	put_v2(root, "/sys/cg/a/b", "max", 0, 0);
	put(root, "/sys/cg/a/memory.events", "high 0\nmax 0\n");
	put(root, "/sys/cg/a/b/memory.events", "high 0\nmax 0\n");
	put(root, "/sys/cg/a/b/memory.pressure", "%s", "");
	subscribe();
	assert_int_equal(pressure.count, 4);
	assert_int_equal(pressure.source[0].signal, PRESSURE_LOOK); /* of the whole machine */
	assert_int_equal(pressure.source[1].signal, PRESSURE_SHORT);
	read_file(text, sizeof text, "/proc/pressure/memory");
	assert_int_equal(strncmp(text, "some ", 5), 0);
	read_file(text, sizeof text, "/sys/cg/a/b/memory.pressure");
	assert_int_equal(strncmp(text, "some ", 5), 0);
}

static void a_source_that_breaks_is_left_alone(void **state)
{
	(void)state;
	put_group_v1();
	subscribe();
	/* its descriptor is one that cannot be polled any more */
	int broken = dup(pressure.fds[0].fd);
	close(pressure.fds[0].fd);
	pressure.fds[0].fd = 1 << 20;
	assert_int_equal(pressure_wait(&pressure, wake, FOREVER), PRESSURE_NONE);
	assert_int_equal(pressure.fds[0].fd, -1);
	assert_int_equal(pressure_wait(&pressure, wake, 0), PRESSURE_NONE);
	assert_int_equal(eventfd_write(pressure.fds[1].fd, 1), 0);
	assert_int_equal(pressure_wait(&pressure, wake, FOREVER), PRESSURE_LOOK);
	close(broken);
}

static void groups_beyond_the_limit_are_not_watched(void **state)
{
	(void)state;
	char path[256] = "/sys/mem", membership[256] = "4:memory:";
	put(root, "/proc/self/mountinfo", "35 31 0:32 / /sys/mem rw - cgroup cgroup rw,memory\n");
	for (int i = 0; i < 2 * PRESSURE_SOURCES; i++) {
		strcat(path, "/g");
		strcat(membership, "/g");
		put_v1(root, path, GIB, 0, 0);
		put_in(root, path, "/cgroup.event_control", "%s", "");
	}
	put(root, "/proc/self/cgroup", "%s\n", membership);
	subscribe();
	assert_int_equal(pressure.count, PRESSURE_SOURCES);
	assert_int_equal(pressure_wait(&pressure, wake, 0), PRESSURE_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_any_source_it_waits_its_time),
		TEST(the_caller_can_end_a_wait),
		TEST(version_1_watches_shortage_here_and_usage_at_the_limits_above),
		TEST(an_event_is_a_signal_once),
		TEST(of_several_signals_the_gravest_counts),
		TEST(version_2_watches_stalls_here_and_events_of_all_groups),
		TEST(a_source_that_breaks_is_left_alone),
		TEST(groups_beyond_the_limit_are_not_watched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
