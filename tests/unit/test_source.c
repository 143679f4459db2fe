/* A checkpoint that changes, or only seems to: before, during and after its conversion, and under
 * a mount. A store of the old checkpoint is never served for the new one. */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/convert/convert_inside.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "fault_io.h"
#include "session_help.h"
#include "store_help.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static const char expert[] = "model.layers.1.mlp.experts.9.down_proj.weight";
static const char dense[] = "model.layers.1.self_attn.q_proj.weight";

static char parent[32], source[64], store[64];
static struct test_conversion conversion;
static struct converter *converter;
static struct plan plan;
static struct store *view;
static struct err e;

static int setup(void **state)
{
	struct test_checkpoint c;
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(store, sizeof store, "%s/store", parent);
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", source);
	test_checkpoint_free(&c);
	memset(&faults, 0, sizeof faults);
	memset(&conversion, 0, sizeof conversion);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	memset(&faults, 0, sizeof faults);
	test_folder_remove(parent);
	return 0;
}

/* ---- changing it ---- */

static const char *weights(void)
{
	static char path[96];
	(void)snprintf(path, sizeof path, "%s/model.safetensors", source);
	return path;
}

/* One bit of a number in the middle of a tensor, where no sample is taken; the mtime stays. */
static void edit(const char *tensor)
{
	struct checkpoint *c;
	struct stat st;
	uint8_t byte;
	if (checkpoint_open(&c, source, &e))
		fail_msg("%s", e.text);
	const struct checkpoint_tensor *t = checkpoint_find(c, tensor);
	assert_non_null(t);
	off_t place = (off_t)(t->place + t->bytes / 4 * 2);
	checkpoint_close(c);
	int fd = open(weights(), O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(place > 1 << 20);
	for (int i = 1; i <= 16; i++)
		assert_false(place >= (st.st_size - 4096) / 16 * i &&
			     place < (st.st_size - 4096) / 16 * i + 4096);
	assert_int_equal(pread(fd, &byte, 1, place), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, place), 1);
	const struct timespec times[2] = {st.st_atim, st.st_mtim};
	assert_int_equal(futimens(fd, times), 0);
	(void)close(fd);
}

/* Other times, the same bytes. */
static void touch(void)
{
	assert_int_equal(utimensat(AT_FDCWD, weights(), NULL, 0), 0);
}

/* ---- converting it ---- */

static int convert(void)
{
	return test_convert(&conversion, source, store, NULL, 2, &e);
}

static bool has_index(void)
{
	char path[128];
	(void)snprintf(path, sizeof path, "%s/index", store);
	return !access(path, F_OK);
}

/* Both have the same weights. */
static void assert_same_weights(const char *one, const char *other)
{
	static const char *const files[] = {"experts.safetensors", "dense.safetensors"};
	for (size_t i = 0; i < 2; i++) {
		char path[160];
		size_t n, k;
		(void)snprintf(path, sizeof path, "%s/%s", one, files[i]);
		uint8_t *got = test_file_read(path, &n);
		(void)snprintf(path, sizeof path, "%s/%s", other, files[i]);
		uint8_t *want = test_file_read(path, &k);
		assert_int_equal(n, k);
		assert_memory_equal(got, want, n);
		free(got);
		free(want);
	}
}

/* The next mount accepts the store for the source as it is now, without reading the source. */
static void assert_store_knows_the_source(void)
{
	struct source_state now;
	struct identity id;
	struct store *s;
	assert_int_equal(source_look(&now, source, &e), 0);
	assert_int_equal(store_open(&s, store, NULL, &e), 0);
	assert_int_equal(identity_find(&id, store, store_info(s)->key.fingerprint, &e), 0);
	assert_int_equal(identity_compare(&id, &now), IDENTITY_SAME);
	identity_free(&id);
	source_forget(&now);
	store_close(s);
}

/* The store equals that of an undisturbed conversion of the source as it is now. */
static void assert_is_of_the_source(void)
{
	struct test_conversion undisturbed = {0};
	char other[64];
	(void)snprintf(other, sizeof other, "%s/other", parent);
	assert_int_equal(test_convert(&undisturbed, source, other, NULL, 2, &e), 0);
	assert_same_weights(store, other);
	test_folder_remove(other);
	assert_store_knows_the_source();
}

static _Atomic int reported; /* an event, plus 1 */
static _Atomic int reported_code;

static void hear(void *ctx, enum convert_event event, const struct err *why)
{
	(void)ctx;
	reported_code = why->code;
	reported = (int)event + 1;
}

/* The dense part is converted, and all experts are missing. */
static int begin(void)
{
	struct test_conversion *t = &conversion;
	if (config_read(&t->config, source, &e) || recipe_find(&t->v.recipe, NULL, &e))
		fail_msg("%s", e.text);
	t->v = (struct conversion){
		.directory = source,
		.folder = store,
		.config = &t->config,
		.recipe = t->v.recipe,
		.threads = 2,
		.kernels = kernels_best(),
		.stop = &t->stop,
		.progress = &t->progress,
		.report = hear,
	};
	reported = 0;
	int failed = test_convert_begin(t, &converter, &plan, &e);
	return failed ? failed : convert_view(converter, &view, &e);
}

static void end(void)
{
	convert_close(converter);
	store_close(view);
	plan_free(&plan);
}

static int make_expert(uint32_t layer, uint32_t number)
{
	void *record = malloc(plan.record_bytes);
	struct store_put *put;
	int failed = convert_make_expert(converter, layer, number, record, &put, &e);
	if (put)
		convert_keep_expert(converter, layer, number, record, put);
	free(record);
	return failed;
}

static void make_all(void)
{
	for (uint32_t layer = 0; layer < plan.routed_layers; layer++)
		for (uint32_t i = 0; i < plan.experts; i++)
			assert_int_equal(make_expert(layer, i), 0);
}

static void a_source_that_changes_during_its_conversion_is_not_used(void **state)
{
	(void)state;
	assert_int_equal(begin(), 0);
	assert_int_equal(make_expert(0, 3), 0);
	edit(expert);
	assert_int_equal(make_expert(1, 9), -ESTALE);
	assert_non_null(strstr(e.text, "model.safetensors: was changed while it was converted"));
	assert_int_equal(reported, CONVERT_AGAIN + 1);
	assert_int_equal(make_expert(0, 4), -ESTALE); /* which is in the same file */
	end();
	assert_false(has_index());
	assert_int_equal(convert(), 0);
	assert_is_of_the_source();
}

static void a_source_that_changes_after_it_was_read_is_not_published(void **state)
{
	(void)state;
	assert_int_equal(begin(), 0);
	make_all();
	edit(expert);
	assert_int_equal(convert_finish(converter, &e), -ESTALE);
	assert_non_null(strstr(e.text, "was changed"));
	end();
	assert_false(has_index());
	assert_int_equal(convert(), 0);
	assert_is_of_the_source();
}

static void a_file_that_is_replaced_after_it_was_read_is_not_published(void **state)
{
	(void)state;
	char other[96];
	size_t n;
	(void)snprintf(other, sizeof other, "%s/download", source);
	assert_int_equal(begin(), 0);
	make_all();
	uint8_t *bytes = test_file_read(weights(), &n);
	bytes[n - 2] ^= 1;
	test_file_write(other, bytes, n);
	free(bytes);
	assert_int_equal(rename(other, weights()), 0);
	assert_int_equal(convert_finish(converter, &e), -ESTALE);
	end();
	assert_false(has_index());
	assert_int_equal(convert(), 0);
	assert_is_of_the_source();
}

static void a_change_met_by_the_rest_ends_the_conversion_and_frees_its_lock(void **state)
{
	(void)state;
	assert_int_equal(begin(), 0);
	assert_int_equal(convert_rest_start(converter, &e), 0);
	edit(dense);
	convert_rest_allow(converter, true);
	while (!reported)
		sched_yield();
	assert_int_equal(reported, CONVERT_AGAIN + 1);
	assert_int_equal(reported_code, ESTALE);
	struct test_conversion other = {0}; /* the first one's thread may still be working */
	int failed;
	while ((failed = test_convert(&other, source, store, NULL, 2, &e)) == -EBUSY)
		sched_yield(); /* as another mount does */
	assert_int_equal(failed, 0);
	end();
	assert_is_of_the_source();
}

/* ---- interrupted ---- */

/* Whether an interrupted conversion is continued. */
static bool goes_on(void)
{
	assert_int_equal(begin(), 0);
	bool resumed = store_writer_resumed(converter->writer);
	assert_int_equal(convert_finish(converter, &e), 0);
	end();
	return resumed;
}

static void an_interrupted_conversion_goes_on_with_the_same_source(void **state)
{
	(void)state;
	assert_int_equal(begin(), 0);
	end();
	assert_true(goes_on());
	assert_is_of_the_source();
}

static void an_interrupted_conversion_goes_on_with_a_copy(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(begin(), 0);
		assert_int_equal(make_expert(0, (uint32_t)i), 0);
		end();
		touch();
	}
	assert_true(goes_on());
	assert_is_of_the_source();
}

static void an_interrupted_conversion_begins_anew_after_an_edit(void **state)
{
	(void)state;
	assert_int_equal(begin(), 0);
	end();
	edit(dense); /* which was read */
	assert_false(goes_on());
	assert_is_of_the_source();
}

/* In a process that is killed at once. */
static void begin_and_die(void)
{
	int status;
	pid_t child = fork();
	if (!child)
		_exit(begin() != 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_killed_conversion_goes_on_with_the_same_times_and_no_others(void **state)
{
	(void)state;
	begin_and_die();
	assert_true(goes_on());
	assert_is_of_the_source();
	test_folder_remove(store);
	begin_and_die();
	touch();
	assert_false(goes_on());
	assert_is_of_the_source();
}

/* ---- under a mount ---- */

static struct test_model m;

static void mount(void)
{
	test_model_open(&m, source, &(struct engine_options){.quant = "3bit", .store = store});
}

static void wait_until_published(void)
{
	struct model_progress p;
	do {
		sched_yield();
		if (model_wait(m.model, &e))
			fail_msg("%s", e.text);
		model_progress(m.model, &p);
	} while (p.total || !model_expert_bytes(m.model, 0));
}

/* The source's name in the key of the store in use. */
static uint64_t name_of_store(void)
{
	return store_info(m.model->stored.store)->key.fingerprint[0];
}

/* For a mount that has made the store. */
static uint64_t make_store(void)
{
	mount();
	wait_until_published();
	uint64_t name = name_of_store();
	test_model_close(&m);
	return name;
}

static void an_edit_between_mount_and_load_is_seen(void **state)
{
	(void)state;
	uint64_t before = make_store();
	mount();
	assert_true(model_expert_bytes(m.model, 0) > 0);
	edit(expert);
	wait_until_published();
	assert_true(name_of_store() != before);
	test_model_close(&m);
}

static void a_copy_is_not_shown_before_it_is_checked_and_then_kept(void **state)
{
	(void)state;
	uint64_t before = make_store();
	touch();
	mount();
	assert_int_equal(model_expert_bytes(m.model, 0), 0);
	wait_until_published();
	assert_true(name_of_store() == before);
	test_model_close(&m);
	mount(); /* checked once */
	assert_true(model_expert_bytes(m.model, 0) > 0);
	test_model_close(&m);
}

static void checking_is_shown_as_progress(void **state)
{
	(void)state;
	char words[256];
	struct model_progress p;
	(void)make_store();
	touch();
	mount();
	/* A check takes some twenty reads, and there are hundreds of tensors. */
	faults.hold_at = faults.reads + 100;
	model_load(m.model);
	while (!faults.held)
		sched_yield();
	model_progress(m.model, &p);
	assert_string_equal(p.doing, "checking");
	assert_int_equal(model_fact(m.model, FACT_PROGRESS, words, sizeof words), 0);
	assert_int_equal(strncmp(words, "checking ", 9), 0);
	assert_non_null(strstr(words, " % "));
	faults.hold_at = 0;
	wait_until_published();
	test_model_close(&m);
}

static void a_mount_that_is_checking_can_be_closed(void **state)
{
	(void)state;
	uint64_t before = make_store();
	touch();
	mount();
	faults.hold_at = faults.reads + 100;
	model_load(m.model);
	while (!faults.held)
		sched_yield();
	m.model->leave = true; /* what model_close does before it waits */
	faults.hold_at = 0;
	test_model_close(&m);
	mount();
	wait_until_published();
	assert_true(name_of_store() == before);
	test_model_close(&m);
}

static _Atomic bool look_on;

static void *keep_looking(void *arg)
{
	char text[256];
	uint32_t done, total;
	struct pager_stats stats;
	struct err none;
	(void)arg;
	while (look_on) {
		model_warming(m.model, &done, &total);
		model_cache_stats(m.model, &stats);
		(void)model_fact(m.model, FACT_BITS_PER_WEIGHT, text, sizeof text);
		(void)model_fact(m.model, FACT_CODEC, text, sizeof text);
		(void)model_expert_bytes(m.model, 0);
		(void)model_expert_read(m.model, 1, 9, 0, text, sizeof text, &none);
		sched_yield();
	}
	return NULL;
}

/* A sanitizer would notice, too. */
static void readers_see_one_store_or_none_while_another_replaces_it(void **state)
{
	(void)state;
	pthread_t thread;
	(void)make_store();
	mount();
	look_on = true;
	assert_int_equal(pthread_create(&thread, NULL, keep_looking, NULL), 0);
	for (int i = 0; i < 4; i++) {
		edit(expert);
		wait_until_published();
		atomic_store(&m.model->state,
			     MODEL_UNLOADED); /* loaded again by the next prompt */
	}
	wait_until_published();
	look_on = false;
	assert_int_equal(pthread_join(thread, NULL), 0);
	test_model_close(&m);
}

static void a_config_that_changed_under_the_mount_is_an_error_in_words(void **state)
{
	(void)state;
	char path[96];
	size_t n;
	(void)make_store();
	mount();
	(void)snprintf(path, sizeof path, "%s/config.json", source);
	char *text = (char *)test_file_read(path, &n);
	text[n - 1] = ' ';
	test_file_write(path, text, n);
	assert_int_equal(model_wait(m.model, &e), -EINVAL);
	assert_non_null(strstr(e.text, "config.json: was changed since it was mounted"));
	text[n - 1] = '\n';
	test_file_write(path, text, n);
	free(text);
	assert_int_equal(model_wait(m.model, &e), 0);
	test_model_close(&m);
}

/* Data made from the files stays between loads: after a change the old data would answer. */
static void words_that_changed_between_loads_are_an_error_in_words(void **state)
{
	static const char *const files[] = {"tokenizer.json", "tokenizer_config.json",
					    "generation_config.json", "chat_template.jinja"};
	(void)state;
	char path[96], wanted[96];
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		(void)make_store();
		mount();
		assert_int_equal(model_wait(m.model, &e), 0);
		assert_int_equal(model_unload(m.model, &e), 0);
		(void)snprintf(path, sizeof path, "%s/%s", source, files[i]);
		(void)snprintf(wanted, sizeof wanted, "%s: was changed since it was mounted",
			       files[i]);
		size_t n = 0;
		uint8_t *before = access(path, F_OK) ? NULL : test_file_read(path, &n);
		test_file_write(path, "{}\n", 3);
		assert_int_equal(model_wait(m.model, &e), -EINVAL);
		if (!strstr(e.text, wanted))
			fail_msg("%s: %s", files[i], e.text);
		if (before)
			test_file_write(path, before, n);
		else
			assert_int_equal(unlink(path), 0);
		free(before);
		assert_int_equal(model_wait(m.model, &e), 0); /* as it was, by its contents */
		test_model_close(&m);
	}
}

static void a_store_whose_identity_is_lost_serves_a_source_with_the_same_times(void **state)
{
	(void)state;
	char path[512];
	uint64_t before = make_store();
	mount();
	(void)snprintf(path, sizeof path, "%s/" IDENTITY_FILE, store_folder(m.model->stored.store));
	test_model_close(&m);
	assert_int_equal(unlink(path), 0);
	mount();
	assert_true(model_expert_bytes(m.model, 0) > 0);
	assert_true(name_of_store() == before);
	test_model_close(&m);
	touch(); /* a copy can no longer be told from an edit */
	assert_true(make_store() != before);
}

/* ---- stores from before there were identities ---- */

/* A store that is named by the checksum of samples, in the place where a mount looks for it. */
static uint64_t make_old_store(void)
{
	struct source_state now;
	char folder[512], path[600];
	mount();
	assert_int_equal(model_fact(m.model, FACT_STORE, folder, sizeof folder), 0);
	test_model_close(&m);
	(void)snprintf(path, sizeof path, "%s", folder);
	*strrchr(path, '/') = 0;
	(void)mkdir(store, 0700);
	(void)mkdir(path, 0700);
	assert_int_equal(source_look(&now, source, &e), 0);
	uint64_t name = now.sampled[0];
	conversion.old_name = now.sampled;
	int failed = test_convert(&conversion, source, folder, NULL, 2, &e);
	conversion.old_name = NULL;
	assert_int_equal(failed, 0);
	source_forget(&now);
	(void)snprintf(path, sizeof path, "%s/" IDENTITY_FILE, folder);
	assert_int_equal(unlink(path), 0);
	return name;
}

static void an_old_store_younger_than_its_source_is_read_once_and_kept(void **state)
{
	(void)state;
	uint64_t before = make_old_store();
	mount();
	assert_int_equal(model_expert_bytes(m.model, 0), 0);
	wait_until_published();
	assert_true(name_of_store() == before);
	test_model_close(&m);
	mount();
	assert_true(model_expert_bytes(m.model, 0) > 0);
	test_model_close(&m);
	touch(); /* from now on its source is recorded */
	assert_true(make_store() == before);
	edit(expert);
	assert_true(make_store() != before);
}

static void an_old_store_older_than_its_source_is_made_anew(void **state)
{
	(void)state;
	uint64_t before = make_old_store();
	edit(expert);
	assert_true(make_store() != before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(a_source_that_changes_during_its_conversion_is_not_used),
		TEST(a_source_that_changes_after_it_was_read_is_not_published),
		TEST(a_file_that_is_replaced_after_it_was_read_is_not_published),
		TEST(a_change_met_by_the_rest_ends_the_conversion_and_frees_its_lock),
		TEST(an_interrupted_conversion_goes_on_with_the_same_source),
		TEST(an_interrupted_conversion_goes_on_with_a_copy),
		TEST(an_interrupted_conversion_begins_anew_after_an_edit),
		TEST(a_killed_conversion_goes_on_with_the_same_times_and_no_others),
		TEST(an_edit_between_mount_and_load_is_seen),
		TEST(a_copy_is_not_shown_before_it_is_checked_and_then_kept),
		TEST(checking_is_shown_as_progress),
		TEST(a_mount_that_is_checking_can_be_closed),
		TEST(readers_see_one_store_or_none_while_another_replaces_it),
		TEST(a_config_that_changed_under_the_mount_is_an_error_in_words),
		TEST(words_that_changed_between_loads_are_an_error_in_words),
		TEST(a_store_whose_identity_is_lost_serves_a_source_with_the_same_times),
		TEST(an_old_store_younger_than_its_source_is_read_once_and_kept),
		TEST(an_old_store_older_than_its_source_is_made_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
