/* fs/models/kept.h: a session's file reads back as what was written, and anything else is refused. */
#include "fs/models/kept.h"
#include "fs/base/text.h"
#include "tests/unit/session_help.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct test_model model;
static char where[] = "/tmp/moefs-kept.XXXXXX";
static int folder = -1;
static struct err e;

static const char MESSAGES[] = "[{\"role\": \"user\", \"content\": \"Say\\nhello.\"}]";
static const char TOOLS[] =
	"[{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"parameters\": {}}}]";

static int begin(void **state)
{
	(void)state;
	const struct engine_options none = {0};
	test_model_open(&model, test_fable(), &none);
	if (!mkdtemp(where))
		return -1;
	folder = open(where, O_RDONLY | O_DIRECTORY);
	return folder < 0 ? -1 : 0;
}

static int end(void **state)
{
	(void)state;
	char name[64];
	(void)snprintf(name, sizeof name, "%s/1", where);
	(void)unlink(name);
	close(folder);
	(void)rmdir(where);
	test_model_close(&model);
	test_stores_remove();
	return 0;
}

static struct session *fresh(void)
{
	struct session *s;
	assert_int_equal(session_create(&s, model.model, NULL, NULL, &e), 0);
	return s;
}

static void write_one(void)
{
	static const struct kept_head head = {.name = "zwei W\xc3\xb6rter", .gid = 7};
	struct session *s = fresh();
	test_set(s, "temperature", "0.25");
	test_set(s, "stop", "one\n\ntwo");
	assert_int_equal(session_text_set(s, SESSION_MESSAGES, MESSAGES, strlen(MESSAGES), &e), 0);
	assert_int_equal(session_text_set(s, SESSION_TOOLS, TOOLS, strlen(TOOLS), &e), 0);
	assert_int_equal(kept_file_write(folder, 1, &head, s, &e), 0);
	session_end(s);
}

static void assert_text(const struct session *s, enum session_text what, const char *wanted)
{
	size_t length;
	char *text = session_text_get(s, what, &length, &e);
	assert_non_null(text);
	if (!strstr(text, wanted))
		fail_msg("%s is not in %s", wanted, text);
	free(text);
}

static void assert_param(const struct session *s, const char *name, const char *wanted)
{
	char *value = session_param_get(s, params_find(name));
	assert_string_equal(value, wanted);
	free(value);
}

static bool skips_temperature(const struct mount *m, size_t param)
{
	(void)m;
	return param == params_find("temperature");
}

static void a_file_reads_back_as_the_session(void **state)
{
	(void)state;
	struct kept_head head;
	struct text text = {0};
	struct stat st;
	write_one();
	assert_int_equal(fstatat(folder, "1", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(fstatat(folder, "1.part", &st, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(kept_file_read(folder, 1, &head, &text, &e), 0);
	assert_string_equal(head.name, "zwei W\xc3\xb6rter");
	assert_int_equal(head.gid, 7);
	struct kept_target to = {.session = fresh()};
	assert_int_equal(kept_file_apply(&text, &to, &e), 0);
	assert_param(to.session, "temperature", "0.25");
	assert_param(to.session, "stop", "one\n\ntwo");
	assert_text(to.session, SESSION_MESSAGES, "Say\\nhello.");
	assert_text(to.session, SESSION_TOOLS, "clock");
	session_end(to.session);
	to = (struct kept_target){.session = fresh(), .skips = skips_temperature};
	assert_int_equal(kept_file_apply(&text, &to, &e), 0);
	assert_param(to.session, "temperature", "0.7");
	session_end(to.session);
	text_free(&text);
}

static void put(const char *bytes, size_t n)
{
	int fd = openat(folder, "1", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static void assert_refused(const char *bytes, size_t n)
{
	struct kept_head head;
	struct text text = {0};
	put(bytes, n);
	if (!kept_file_read(folder, 1, &head, &text, &e))
		fail_msg("%zu bytes are taken", n);
	text_free(&text);
}

static void a_file_that_was_cut_short_is_refused(void **state)
{
	(void)state;
	struct kept_head head;
	struct text text = {0};
	write_one();
	assert_int_equal(kept_file_read(folder, 1, &head, &text, &e), 0);
	for (size_t n = 0; n < text.length; n += n < 200 ? 1 : 37)
		assert_refused(text.data, n);
	assert_refused(text.data, text.length - 1);
	text_free(&text);
}

static void a_file_of_another_form_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"session 1\n2\nend 0\n\n",
		"session 18446744073709551615\n1\n",
		"session 99999999999999999999999\n1\n",
		"session -1\n1\nend 0\n\n",
		"session 1 \n1\nend 0\n\n",
		"session 1\n1end 0\n\n",
		"a key that is longer than any key of a file may be, which is sixty-three bytes 1\n1\n",
		"\n\n",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_refused(bad[i], strlen(bad[i]));
}

static void what_is_refused_is_named_and_the_rest_is_taken(void **state)
{
	(void)state;
	static const char text_of[] = "session 1\n1\nname 1\nx\nparams/temperature 3\nhot\nparams/no_such 1\n1\n"
				      "params/seed 2\n17\nmessages.json 1\n7\nend 0\n\n";
	struct kept_head head;
	struct text text = {0};
	const struct kept_target to = {.session = fresh()};
	put(text_of, strlen(text_of));
	assert_int_equal(kept_file_read(folder, 1, &head, &text, &e), 0);
	assert_int_equal(kept_file_apply(&text, &to, &e), -EINVAL);
	assert_non_null(strstr(e.text, "params/temperature"));
	assert_param(to.session, "seed", "17");
	session_end(to.session);
	text_free(&text);
}

static void links_and_pipes_are_not_read(void **state)
{
	(void)state;
	struct kept_head head;
	struct text text = {0};
	(void)unlinkat(folder, "1", 0);
	assert_int_equal(symlinkat("/etc/passwd", folder, "1"), 0);
	assert_int_equal(kept_file_read(folder, 1, &head, &text, &e), -ELOOP);
	assert_int_equal(unlinkat(folder, "1", 0), 0);
	assert_int_equal(mkfifoat(folder, "1", 0600), 0);
	assert_int_equal(kept_file_read(folder, 1, &head, &text, &e), -EPERM);
	assert_int_equal(unlinkat(folder, "1", 0), 0);
	text_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_reads_back_as_the_session),
		cmocka_unit_test(a_file_that_was_cut_short_is_refused),
		cmocka_unit_test(a_file_of_another_form_is_refused),
		cmocka_unit_test(what_is_refused_is_named_and_the_rest_is_taken),
		cmocka_unit_test(links_and_pipes_are_not_read),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
