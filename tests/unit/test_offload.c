/* Contexts on disk: an idle session whose memory was needed has its context again for its next
 * turn; whatever fails, its text is the same. */
#include "session_help.h"

#include "fault_io.h"
#include "golden.h"

#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct err e;
static const char first[] = "What is the capital of Chad?", then[] = "And of France?",
		  others[] = "What is 7 x 8?";

/* More than two blocks of tokens. */
static const char system_text[] =
	"You are a careful clerk. You answer in one short line, in plain words, and you never ask "
	"anything back. If a question has a number in it, you say the number first. If it has "
	"none, you begin with the noun. You know the capitals of all countries, the tables up to "
	"twelve, and the names of the months. You do not know anything else, and you say so.";

static struct session *clerk(struct test_model *m, const char *system)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "max_tokens", "8");
	test_set(s, "system", system);
	return s;
}

/* A model whose contexts have room for one clerk, but not for two, and `disk` bytes for others. */
static void open_small(struct test_model *m, const char *directory, uint64_t disk)
{
	test_model_ready(m, directory, &(struct engine_options){.offload = disk, .chunk = 16});
	struct session *s = clerk(m, system_text);
	free(test_ask(s, first));
	free(test_ask(s, then));
	uint64_t used = test_context_used(m);
	session_end(s);
	assert_int_equal(engine_set_context_budget(m->engine, used, &e), 0);
}

static uint64_t on_disk(const struct test_model *m)
{
	return atomic_load(&m->engine->offload.used);
}

static void assert_why(struct session *s, const char *words)
{
	char *text = test_text(s, SESSION_WHY);
	if (!strstr(text, words))
		fail_msg("why does not say \"%s\":\n%s", words, text);
	free(text);
}

/* The second answer of a clerk that nobody disturbs. */
static char *undisturbed(struct test_model *m)
{
	struct session *s = clerk(m, system_text);
	free(test_ask(s, first));
	char *text = test_ask(s, then);
	session_end(s);
	return text;
}

/* Memory of a session that has ended comes back a moment later, so how many contexts disturbed() sends to the disk differs, and
 * with it which write fails: such a test runs by MOEFS_OFFLOAD=1 alone, until that moment can be waited for. */
static void skip_unless_alone(void)
{
	if (getenv("MOEFS_OFFLOAD"))
		return;
	print_message("how many contexts are written is not fixed; MOEFS_OFFLOAD=1 runs this\n");
	skip();
}

/* A clerk has answered, and then another one has needed its memory. Checkpoints of recurrent states
 * give way before a context does, so there is less and less until they are gone. */
static struct session *disturbed(struct test_model *m, struct session **other)
{
	struct session *s = clerk(m, system_text);
	uint64_t budget = engine_context_budget(m->engine);
	free(test_ask(s, first));
	test_come_to_rest(m);
	uint64_t used = test_context_used(m);
	*other = NULL;
	for (uint64_t eighths = 8; s->context.tokens.count; eighths--) {
		if (*other)
			session_end(*other);
		test_come_to_rest(m);
		*other = clerk(m, system_text + 1);
		assert_true(eighths > 0);
		assert_int_equal(
			engine_set_context_budget(m->engine, used * eighths / 8, &e), 0);
		free(test_ask(*other, others));
	}
	assert_int_equal(engine_set_context_budget(m->engine, budget, &e), 0);
	return s;
}

static void it_comes_back(struct test_model *m)
{
	struct session *other;
	char *alone = undisturbed(m);
	struct session *s = disturbed(m, &other);
	uint64_t held = test_stats(s).context_tokens;
	assert_int_equal(test_stats(s).on_disk_tokens, held);
	assert_true(on_disk(m) > 0);
	test_same_text(test_ask(s, then), alone);
	struct session_stats st = test_stats(s);
	assert_int_equal(st.from_disk_tokens, held);
	assert_int_equal(st.on_disk_tokens, 0);
	if (m->model->run->prefixes.goes_back) { /* else the text may part before what is kept */
		assert_true(st.cached_tokens + KV_BLOCK >= held);
		assert_why(s, "found_in session\nfrom_disk_tokens ");
		assert_true(test_stats(other).on_disk_tokens > 0); /* in its turn */
	}
	session_end(other);
	session_end(s);
	test_come_to_rest(m);
	assert_int_equal(on_disk(m), 0);
}

static void an_idle_context_comes_back_from_disk(void **state)
{
	(void)state;
	/* recurrent states; windows; index keys and entries; the keys of other layers */
	static const char *const fixtures[] = {
		NULL,	     "qwen3_5_moe", "gpt_oss",	 "lfm2_moe",	"granitemoehybrid",
		"nemotron_h", "kimi_linear", "qwen4_exp", "glm_moe_dsa", "minimax_m3",
		"glm5_next",  "deepseek_v4", "gemma4_ple"};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		struct test_model m;
		const char *directory = fixtures[i] ? test_fixture(fixtures[i]) : test_fable();
		if (!directory)
			continue; /* its line said which is missing */
		open_small(&m, directory, 1 << 30);
		it_comes_back(&m);
		test_model_close(&m);
	}
}

/* ---- what is not there ---- */

static void without_room_on_disk_it_is_computed_again(void **state)
{
	(void)state;
	struct test_model m;
	struct session *other;
	open_small(&m, test_fable(), 4096);
	char *alone = undisturbed(&m);
	struct session *s = disturbed(&m, &other);
	assert_int_equal(test_stats(s).on_disk_tokens, 0);
	assert_int_equal(on_disk(&m), 0);
	test_same_text(test_ask(s, then), alone);
	assert_int_equal(test_stats(s).from_disk_tokens, 0);
	assert_why(s, "there was no room for it on disk");
	session_end(other);
	session_end(s);
	test_model_close(&m);
}

static void nothing_is_written_unless_it_is_asked_for(void **state)
{
	(void)state;
	struct test_model m;
	struct session *other;
	open_small(&m, test_fable(), 0);
	char *alone = undisturbed(&m);
	struct session *s = disturbed(&m, &other);
	assert_int_equal(m.model->run->offload.fd, -1);
	test_same_text(test_ask(s, then), alone);
	assert_why(s, "had computed it, but its memory was needed\n");
	session_end(other);
	session_end(s);
	test_model_close(&m);
}

/* Each write in turn is the one for which the disk is full, or which fails. */
static void a_full_disk_means_computing_again(void **state)
{
	(void)state;
	skip_unless_alone();
	static const int codes[] = {ENOSPC, EIO};
	for (int i = 0; i < 2; i++)
		for (long at = 1; at <= 3; at++) {
			struct test_model m;
			struct session *other;
			open_small(&m, test_fable(), 1 << 30);
			char *alone = undisturbed(&m);
			faults.fail_code = codes[i];
			faults.fail_at = at;
			faults.failable = 0;
			faults.fail_on = OP_WRITE;
			struct session *s = disturbed(&m, &other);
			faults.fail_on = 0;
			assert_int_equal(on_disk(&m), 0);
			test_same_text(test_ask(s, then), alone);
			assert_why(s, codes[i] == ENOSPC ? "no room for it on disk"
							 : "could not be read back");
			session_end(other);
			session_end(s);
			test_model_close(&m);
		}
}

static void a_wrong_checksum_means_computing_again(void **state)
{
	(void)state;
	struct test_model m;
	struct session *other;
	open_small(&m, test_fable(), 1 << 30);
	char *alone = undisturbed(&m);
	struct session *s = disturbed(&m, &other);
	int fd = m.model->run->offload.fd;
	assert_int_equal(pwrite(fd, "x", 1, 9000), 1);
	test_same_text(test_ask(s, then), alone);
	assert_int_equal(test_stats(s).from_disk_tokens, 0);
	assert_why(s, "could not be read back from disk");
	session_end(other);
	session_end(s);
	test_model_close(&m);
}

/* ---- the file ---- */

static void the_file_has_no_name_and_is_its_users_alone(void **state)
{
	(void)state;
	struct test_model m;
	struct session *other;
	struct stat st;
	open_small(&m, test_fable(), 1 << 30);
	struct session *s = disturbed(&m, &other);
	assert_int_equal(fstat(m.model->run->offload.fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	session_end(other);
	session_end(s);
	test_model_close(&m);
}

/* Two contexts that share a long beginning take little more than one of them. */
static void what_contexts_share_is_written_once(void **state)
{
	(void)state;
	struct test_model m;
	struct context_save save;
	struct offload *o;
	struct context x;
	test_model_ready(&m, test_fable(), &(struct engine_options){.offload = 1 << 30});
	struct session *s = clerk(&m, system_text);
	free(test_ask(s, first));
	o = &m.model->run->offload;
	context_init(&x, s->context.budget, &m.model->id.config, s->context.type);
	struct offload_text *t[2];
	uint64_t used[2];
	for (int i = 0; i < 2; i++) {
		assert_int_equal(context_save_open(&save, &s->context, &m.model->id.config, &e), 0);
		t[i] = offload_begin(o, s->context.tokens.count);
		offload_write(o, t[i], &save);
		context_save_close(&save);
		assert_int_equal(t[i]->failed, 0);
		used[i] = on_disk(&m);
	}
	assert_true(used[0] > 0);
	assert_int_equal(used[1], used[0]);
	offload_drop(t[0]);
	assert_int_equal(on_disk(&m), used[0]); /* the other one has all of it */
	assert_int_equal(offload_read(o, t[1], &x, &m.model->id.config, &e), 0);
	assert_int_equal(x.tokens.count, s->context.tokens.count);
	offload_drop(t[1]);
	assert_int_equal(on_disk(&m), 0);
	context_free(&x);
	session_end(s);
	test_model_close(&m);
}

static int offload_teardown(void **state)
{
	faults.fail_on = 0;
	return stores_remove(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_context_comes_back_from_disk),
		cmocka_unit_test(without_room_on_disk_it_is_computed_again),
		cmocka_unit_test(nothing_is_written_unless_it_is_asked_for),
		cmocka_unit_test(a_full_disk_means_computing_again),
		cmocka_unit_test(a_wrong_checksum_means_computing_again),
		cmocka_unit_test(the_file_has_no_name_and_is_its_users_alone),
		cmocka_unit_test(what_contexts_share_is_written_once),
	};
	faults_begin();
	return cmocka_run_group_tests(tests, NULL, offload_teardown);
}
