/* Looking for a GPU in a process of its own: this program, run again, with the driver in whose
 * place threads of the system run the kernels (tests/cuda/fake_driver.c). */
#include "engine/gpu/card_find.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The driver beside this program, with one way to fail (tests/cuda.sh); skips if there is none. */
static void find_with_driver(const char *failing)
{
	char folder[4096];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - sizeof "/fake-driver");

	assert_true(n > 0);
	folder[n] = 0;
	strcpy(strrchr(folder, '/'), "/fake-driver");
	if (access(folder, R_OK)) {
		print_message("there is no %s: run make unit\n", folder);
		skip();
	}
	assert_int_equal(setenv("LD_LIBRARY_PATH", folder, 1), 0);
	assert_int_equal(setenv("FAKE_CUDA", failing, 1), 0);
}

static int find_teardown(void **state)
{
	(void)state;
	return unsetenv("LD_LIBRARY_PATH") | unsetenv("FAKE_CUDA");
}

static bool find_maps_driver(void)
{
	char line[4096];
	bool mapped = false;
	FILE *f = fopen("/proc/self/maps", "r");

	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		mapped |= strstr(line, "libcuda.so") != NULL;
	(void)fclose(f);
	return mapped;
}

static void looking_leaves_no_driver_and_no_process(void **state)
{
	struct card_found found;
	char text[1024];

	(void)state;
	card_find_apart(0, CARD_FIND_LOOK, &found);
	assert_true(card_print_found(&found, text, sizeof text) < (int)sizeof text);
	print_message("%s\n", text);
	assert_true(found.there || found.why[0]);
	assert_non_null(strstr(text, found.there ? found.facts.name : found.why));
	assert_false(find_maps_driver());
	errno = 0;
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void a_gpu_is_looked_for_once_and_when_asked_to(void **state)
{
	struct card_find f;
	struct card_found found;

	(void)state;
	find_with_driver("");
	card_find_init(&f, 0, NULL);
	card_find_answer(&f, &found);
	assert_false(found.there);
	assert_string_equal(found.why, "not looked for yet");
	card_find_look(&f);
	card_find_answer(&f, &found);
	assert_true(found.there);
	assert_string_equal(found.facts.name, "Card of threads");
	find_with_driver("none");
	card_find_look(&f);
	card_find_answer(&f, &found);
	assert_true(found.there);
	card_find_free(&f);
}

static void who_never_looks_says_why(void **state)
{
	struct card_find f;
	struct card_found found;

	(void)state;
	card_find_init(&f, 0, "gpu=off");
	card_find_look(&f);
	card_find_answer(&f, &found);
	assert_false(found.there);
	assert_string_equal(found.why, "gpu=off");
	card_find_free(&f);
}

static void a_gpu_that_does_not_exist_is_named(void **state)
{
	struct card_found found;

	(void)state;
	find_with_driver("");
	card_find_apart(7, CARD_FIND_LOOK, &found);
	assert_false(found.there);
	assert_string_equal(found.why, "there is no GPU 7: the driver has 1");
}

static void a_gpu_that_lacks_kernels_is_found_but_cannot_be_used(void **state)
{
	const char *why = cuda_images->name ? "CUDA_ERROR_NOT_FOUND" : "without GPU kernels";
	struct card_found found;

	(void)state;
	find_with_driver("old");
	card_find_apart(0, CARD_FIND_LOOK, &found);
	assert_true(found.there);
	card_find_apart(0, CARD_FIND_OPEN, &found);
	assert_false(found.there);
	assert_non_null(strstr(found.why, why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looking_leaves_no_driver_and_no_process),
		cmocka_unit_test_teardown(a_gpu_is_looked_for_once_and_when_asked_to,
					  find_teardown),
		cmocka_unit_test(who_never_looks_says_why),
		cmocka_unit_test_teardown(a_gpu_that_does_not_exist_is_named, find_teardown),
		cmocka_unit_test_teardown(a_gpu_that_lacks_kernels_is_found_but_cannot_be_used,
					  find_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
