/* Conversions that are interrupted, run into a full disk, or run at the same time; and how a mount
 * treats the store that it finds. */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/admin/observe.h"
#include "fault_io.h"
#include "forward_help.h"
#include "golden.h"
#include "store_help.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static const char *const files[] = {"experts.safetensors", "dense.safetensors", "index"};
enum { FILES = sizeof files / sizeof *files };

static char parent[32], source[64], store[64];
static struct test_checkpoint c;
static struct test_conversion conversion;
static struct err e;

static long whole_writes; /* of an undisturbed conversion */

static int setup(void **state)
{
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(store, sizeof store, "%s/store", parent);
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", source);
	memset(&faults, 0, sizeof faults);
	conversion.stop = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_checkpoint_free(&c);
	test_folder_remove(parent);
	return 0;
}

static int convert(uint32_t threads)
{
	faults.operations = faults.failable = 0;
	return test_convert(&conversion, source, store, NULL, threads, &e);
}

static uint8_t *read_file_of(const char *folder, size_t i, size_t *n)
{
	char path[128];
	(void)snprintf(path, sizeof path, "%s/%s", folder, files[i]);
	return test_file_read(path, n);
}

/* The store is, byte for byte, what an undisturbed conversion makes of the same source. */
static void assert_store_is_whole(void)
{
	struct test_conversion undisturbed = {0};
	char other[64];
	(void)snprintf(other, sizeof other, "%s/undisturbed", parent);
	assert_int_equal(test_convert(&undisturbed, source, other, NULL, 1, &e), 0);
	for (size_t i = 0; i < FILES; i++) {
		size_t n, k;
		uint8_t *got = read_file_of(store, i, &n), *want = read_file_of(other, i, &k);
		assert_int_equal(n, k);
		assert_memory_equal(got, want, n);
		free(got);
		free(want);
	}
	test_folder_remove(other);
}

static void assert_no_store(void)
{
	struct store *s;
	struct err other;
	assert_int_equal(store_open(&s, store, NULL, &other), -ENOENT);
}

/* From the next conversion on; none fails. */
static void count_writes(void)
{
	faults.fail_on = OP_WRITE;
	faults.fail_at = LONG_MAX;
}

static int convert_undisturbed(void **state)
{
	setup(state);
	count_writes();
	int failed = convert(1);
	whole_writes = faults.failable;
	teardown(state);
	return failed;
}

/* ---- interrupted ---- */

/* The first writes record the source. If some of them are missing, the conversion begins again; it
 * must not take the checkpoint for another one forever. */
static void a_disk_that_fails_at_one_of_the_first_writes_is_recovered_from(void **state)
{
	enum { FIRST = 12 };
	(void)state;
	for (long n = 1; n <= FIRST; n++) {
		count_writes();
		faults.fail_code = EIO;
		faults.fail_at = n;
		assert_int_equal(convert(1), -EIO);
		memset(&faults, 0, sizeof faults);
		if (convert(1))
			fail_msg("after write %ld: %s", n, e.text);
		assert_store_is_whole();
		test_folder_remove(store);
	}
}

static void what_was_done_before_a_failing_disk_is_not_done_again(void **state)
{
	(void)state;
	faults.fail_on = OP_WRITE;
	faults.fail_code = EIO;
	faults.fail_at = 100;
	assert_int_equal(convert(1), -EIO);
	assert_non_null(strstr(e.text, store));
	assert_no_store();
	count_writes();
	assert_int_equal(convert(1), 0);
	/* All but the heads, and perhaps the unit that met it. */
	assert_true(faults.failable < whole_writes - 90);
	faults.fail_on = 0;
	assert_int_equal(conversion.progress.total, 0); /* none is running any more */
	assert_store_is_whole();
}

static void *stop_midway(void *arg)
{
	struct test_conversion *t = arg;
	while (t->progress.done < (1u << 20))
		sched_yield();
	t->stop = true;
	return NULL;
}

static void a_stopped_conversion_is_continued(void **state)
{
	(void)state;
	pthread_t thread;
	conversion.progress.done = 0;
	assert_int_equal(pthread_create(&thread, NULL, stop_midway, &conversion), 0);
	int failed = convert(2);
	pthread_join(thread, NULL);
	/* It may have been done before the stop was seen. */
	if (failed) {
		assert_int_equal(failed, -ECANCELED);
		assert_no_store();
		conversion.stop = true; /* from its first job on */
		assert_int_equal(convert(2), -ECANCELED);
		conversion.stop = false;
		assert_int_equal(convert(2), 0);
	}
	assert_store_is_whole();
}

/* True if the child finished. */
static bool convert_until_killed(long operation)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		faults.kill_at = operation;
		_exit(convert(2) ? 1 : 0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return false;
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	return true;
}

static void a_killed_conversion_ends_in_the_same_bytes(void **state)
{
	(void)state;
	/* There are more operations than writes; how many depends on how units share a sync. */
	for (int i = 1; i <= 7; i++) {
		assert_false(convert_until_killed(whole_writes * i / 9));
		assert_no_store();
		if (i % 2) /* and once more while it continues, or where it has just published */
			(void)convert_until_killed(30);
		int failed = convert(2);
		assert_true(failed == 0 || (i % 2 && failed == -EEXIST));
		assert_store_is_whole();
		test_folder_remove(store);
	}
}

/* ---- a full disk, a folder that cannot be made ---- */

static void a_full_disk_is_reported_and_leaves_nothing(void **state)
{
	(void)state;
	for (long n = 1; n < whole_writes / 3; n += 37) {
		faults.fail_on = OP_WRITE | OP_RESERVE;
		faults.fail_code = ENOSPC;
		faults.fail_at = n;
		assert_int_equal(convert(2), -ENOSPC);
		assert_non_null(strstr(e.text, store));
		assert_int_equal(access(store, F_OK), -1);
	}
	faults.fail_on = 0;
	faults.free_bytes = 1000;
	assert_int_equal(convert(2), -ENOSPC);
	assert_non_null(strstr(e.text, "-o store="));
	assert_int_equal(access(store, F_OK), -1);
}

static void a_checkpoint_that_cannot_be_read_through_is_an_error(void **state)
{
	(void)state;
	faults.fail_on = OP_READ;
	faults.fail_at = 40;
	faults.fail_code = EIO;
	assert_int_equal(convert(2), -EIO);
	assert_non_null(strstr(e.text, "model.safetensors"));
	assert_no_store();
	test_folder_remove(store);
	faults.fail_code = 0; /* the file ends too early */
	assert_int_equal(convert(2), -EIO);
	assert_non_null(strstr(e.text, "cut short"));
	faults.fail_on = 0;
	assert_int_equal(convert(2), 0);
	assert_store_is_whole();
}

/* ---- through a model ---- */

struct mount {
	struct engine *engine;
	struct model *model;
};

/* -EXXX: the model cannot be mounted, in words. */
static int mount_begin(struct mount *m, const char *directory, const char *folder)
{
	struct engine_options o = {.quant = "3bit", .store = folder, .threads = 2, .budget = 64 << 20};
	e = (struct err){0};
	*m = (struct mount){0};
	if (engine_create(&m->engine, &o, &e))
		fail_msg("%s", e.text);
	int failed = model_open(&m->model, m->engine, directory, &e);
	if (failed)
		engine_destroy(m->engine);
	return failed;
}

static int mount_open(struct mount *m, const char *directory, const char *folder)
{
	if (mount_begin(m, directory, folder))
		fail_msg("%s", e.text);
	return model_wait(m->model, &e);
}

/* Waits until the store is complete: before that the model may be loaded again, and only its own
 * thread may compute. */
static void mount_complete(struct mount *m)
{
	struct model_progress p;
	do {
		sched_yield();
		if (model_wait(m->model, &e))
			fail_msg("%s", e.text);
		model_progress(m->model, &p);
	} while (p.total || !model_expert_bytes(m->model, 0));
}

static void mount_close(struct mount *m)
{
	model_close(m->model);
	engine_destroy(m->engine);
}

/* The logits after a few tokens: [vocabulary]. */
static void compute_logits(struct mount *m, float *logits)
{
	static const uint32_t tokens[] = {3, 141, 59, 26, 53, 58};
	struct context x;
	struct model_view view;
	observe_model(m->model, &view);
	context_init(&x, view.context_budget, view.config, view.kv);
	if (test_step(view.forward, &x, tokens, 6, NULL, &e))
		fail_msg("%s", e.text);
	memcpy(logits, view.forward->logits, view.config->vocabulary * sizeof *logits);
	context_free(&x);
}

enum { VOCABULARY = 384 };

static void mount_and_compute(float *logits)
{
	struct mount m;
	if (mount_open(&m, source, store))
		fail_msg("%s", e.text);
	mount_complete(&m);
	compute_logits(&m, logits);
	mount_close(&m);
}

static void scale(const char *part, float factor)
{
	char name[128];
	for (int x = 0; x < 16; x++) {
		(void)snprintf(name, sizeof name, "model.layers.1.mlp.experts.%d.%s.weight", x,
			       part);
		struct test_tensor *t = test_tensor_find(&c, name);
		for (size_t i = 0; i < test_tensor_elements(t); i++)
			test_tensor_set(t, i, test_tensor_get(t, i) * factor);
	}
}

/* One model written in two ways, each with norms that only F32 can hold: powers of two in one
 * projection are undone in the other. */
static void a_model_with_norms_beyond_f16_computes_the_same(void **state)
{
	(void)state;
	float usual[VOCABULARY], one[VOCABULARY], other[VOCABULARY];
	mount_and_compute(usual);
	scale("up_proj", 0x1p-24f);
	scale("down_proj", 0x1p24f);
	test_checkpoint_make(&c, "qwen3_moe", source);
	mount_and_compute(one);
	scale("up_proj", 0x1p48f);
	scale("down_proj", 0x1p-48f);
	test_checkpoint_make(&c, "qwen3_moe", source);
	mount_and_compute(other);
	assert_memory_equal(one, other, sizeof one);
	double dot = 0, power = 0, power_usual = 0;
	for (int i = 0; i < VOCABULARY; i++) {
		dot += (double)one[i] * (double)usual[i];
		power += (double)one[i] * (double)one[i];
		power_usual += (double)usual[i] * (double)usual[i];
	}
	/* Norms in F16 are right to 5e-4, but may tip the choice of an expert. */
	assert_true(dot > .9 * sqrt(power * power_usual));
}

static void a_changed_checkpoint_gets_a_new_store(void **state)
{
	(void)state;
	float before[VOCABULARY], after[VOCABULARY], again[VOCABULARY];
	mount_and_compute(before);
	mount_and_compute(again);
	assert_memory_equal(before, again, sizeof before);
	struct test_tensor *t = test_tensor_find(&c, "model.norm.weight");
	for (size_t i = 0; i < test_tensor_elements(t); i += 2)
		test_tensor_set(t, i, 0);
	test_checkpoint_make(&c, "qwen3_moe", source);
	mount_and_compute(after);
	assert_memory_not_equal(before, after, sizeof before);
}

static void a_finished_store_is_opened_and_not_made_again(void **state)
{
	(void)state;
	float logits[VOCABULARY];
	mount_and_compute(logits);
	faults.fail_on = OP_WRITE | OP_RESERVE | OP_FOLDER | OP_SYNC;
	faults.fail_code = EROFS;
	faults.failable = 0;
	mount_and_compute(logits);
	/* Saving the heat and the store's source, and restoring both. */
	assert_int_equal(faults.failable, 4);
}

static void two_mounts_of_a_new_checkpoint_share_one_store(void **state)
{
	(void)state;
	enum { MOUNTS = 3 };
	struct mount m[MOUNTS];
	float logits[MOUNTS][VOCABULARY];
	struct engine_options o = {.store = store, .threads = 1, .budget = 64 << 20};
	for (int i = 0; i < MOUNTS; i++) {
		m[i] = (struct mount){0};
		if (engine_create(&m[i].engine, &o, &e) ||
		    model_open(&m[i].model, m[i].engine, source, &e))
			fail_msg("%s", e.text);
	}
	for (int i = 0; i < MOUNTS; i++)
		model_load(m[i].model); /* all at once, each in its own thread */
	for (int i = 0; i < MOUNTS; i++) {
		if (model_wait(m[i].model, &e))
			fail_msg("mount %d: %s", i, e.text);
		mount_complete(&m[i]);
		compute_logits(&m[i], logits[i]);
		assert_memory_equal(logits[i], logits[0], sizeof *logits);
	}
	for (int i = 0; i < MOUNTS; i++)
		mount_close(&m[i]);
}

static void closing_a_mount_ends_its_conversion_and_the_next_goes_on(void **state)
{
	(void)state;
	float logits[VOCABULARY];
	for (int i = 0; i < 6; i++) {
		struct engine_options o = {.store = store, .threads = 2, .budget = 64 << 20};
		struct mount m = {0};
		if (engine_create(&m.engine, &o, &e) || model_open(&m.model, m.engine, source, &e))
			fail_msg("%s", e.text);
		model_load(m.model);
		for (int k = 0; k < i * 200; k++)
			sched_yield();
		mount_close(&m);
	}
	mount_and_compute(logits);
}

static void a_file_in_the_place_of_the_folder_is_an_error_in_words(void **state)
{
	(void)state;
	struct mount m;
	for (int mounted = 0; mounted < 2; mounted++) {
		assert_int_equal(mounted ? mount_begin(&m, source, store) : 0, 0);
		test_file_write(store, "not a folder", 12);
		int failed = mounted ? model_wait(m.model, &e) : mount_begin(&m, source, store);
		assert_int_equal(failed, -ENOTDIR);
		assert_non_null(strstr(e.text, store));
		assert_non_null(strstr(e.text, "-o store="));
		assert_int_equal(mounted ? 0 : unlink(store), 0);
	}
	char text[256];
	model_error(m.model, text, sizeof text);
	assert_string_equal(text, e.text);
	assert_int_equal(model_state(m.model), MODEL_FAILED);
	/* Once the obstacle is gone, the next attempt works. */
	assert_int_equal(unlink(store), 0);
	assert_int_equal(model_wait(m.model, &e), 0);
	mount_close(&m);
}

/* As a user without rights: 0 if the store was made in the cache folder, else the failure. */
static int mount_without_rights(void)
{
	struct mount m;
	char text[256];
	if (!getuid() && (setgid(65534) || setuid(65534)))
		return -ENOSYS;
	int failed = mount_begin(&m, source, NULL);
	if (failed)
		return strstr(e.text, "-o store=") ? failed : -EPROTO;
	if (model_wait(m.model, &e))
		return -EPROTO;
	model_fact(m.model, FACT_STORE, text, sizeof text);
	mount_close(&m);
	return strstr(text, "/cache/") ? 0 : -EPROTO;
}

static int in_a_child(int (*run)(void))
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(-run());
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void where_the_checkpoints_folder_is_read_only_the_cache_folder_serves(void **state)
{
	(void)state;
	char cache[64];
	(void)snprintf(cache, sizeof cache, "%s/cache", parent);
	setenv("XDG_CACHE_HOME", cache, 1);
	assert_int_equal(mkdir(cache, 0500), 0);
	assert_int_equal(chmod(source, 0555) | chmod(parent, 0555), 0);
	assert_int_equal(in_a_child(mount_without_rights), -EACCES);
	assert_int_equal(chmod(cache, 0777), 0);
	assert_int_equal(in_a_child(mount_without_rights), 0);
	assert_int_equal(chmod(source, 0755) | chmod(parent, 0755), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(a_disk_that_fails_at_one_of_the_first_writes_is_recovered_from),
		TEST(what_was_done_before_a_failing_disk_is_not_done_again),
		TEST(a_stopped_conversion_is_continued),
		TEST(a_killed_conversion_ends_in_the_same_bytes),
		TEST(a_full_disk_is_reported_and_leaves_nothing),
		TEST(a_checkpoint_that_cannot_be_read_through_is_an_error),
		TEST(a_model_with_norms_beyond_f16_computes_the_same),
		TEST(a_changed_checkpoint_gets_a_new_store),
		TEST(a_finished_store_is_opened_and_not_made_again),
		TEST(two_mounts_of_a_new_checkpoint_share_one_store),
		TEST(closing_a_mount_ends_its_conversion_and_the_next_goes_on),
		TEST(a_file_in_the_place_of_the_folder_is_an_error_in_words),
		TEST(where_the_checkpoints_folder_is_read_only_the_cache_folder_serves),
	};
	return cmocka_run_group_tests(tests, convert_undisturbed, NULL);
}
