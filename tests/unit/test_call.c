/* Waiting requests: each is served again when its own time is over, whatever waits before it. */
#include "fs/mount/call.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct file_call *served;

static void serve(struct file_call *c)
{
	served = c;
}

static struct file_call *waiting(struct mount *m, struct link *list, unsigned milliseconds)
{
	struct file_call *c = call_new(NULL, m, serve);
	assert_non_null(c);
	c->waited = true; /* no request is behind it that could be interrupted */
	call_wait(c, list, milliseconds);
	return c;
}

static void the_shorter_wait_ends_first(void **state)
{
	enum { LONG = 1000000, SHORT = 1 };
	struct mount m = {0};
	struct link list;
	(void)state;
	list_init(&m.deadlines);
	list_init(&m.woken);
	list_init(&m.polled);
	list_init(&m.interrupted);
	list_init(&list);
	struct file_call *before = waiting(&m, &list, LONG), *brief = waiting(&m, &list, SHORT),
			 *after = waiting(&m, &list, LONG);
	assert_in_range(calls_timeout(&m), 0, SHORT);
	while (list_empty(&m.woken)) {
		(void)poll(NULL, 0, calls_timeout(&m));
		calls_expire(&m);
	}
	calls_serve_woken(&m, 10);
	assert_ptr_equal(served, brief);
	assert_true(calls_timeout(&m) > SHORT);
	assert_ptr_equal(m.deadlines.next, &before->deadline_link);
	assert_ptr_equal(m.deadlines.prev, &after->deadline_link);
	call_free(before);
	call_free(brief);
	call_free(after);
	assert_int_equal(calls_timeout(&m), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_shorter_wait_ends_first)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
