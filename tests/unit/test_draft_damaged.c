/* A draft that needs an unreadable expert: the answer continues without drafts and is the same as
 * without them. */
#include "engine/admin/observe.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Random answers from four tokens: text repeats enough to be drafted, and drafts are mostly wrong.
 * One expert per token, so that some experts are not needed. */
static struct session *session(struct test_model *m, const char *draft, const char *most)
{
	struct session *s = test_session(m);
	test_set(s, "chat", "off");
	test_set(s, "temperature", "1.3");
	test_set(s, "seed", "5");
	test_set(s, "logit_bias", "300 90\n301 90\n302 90\n303 90");
	test_set(s, "experts_per_token", "1");
	test_set(s, "max_tokens", most);
	test_set(s, "draft", draft);
	return s;
}

/* Damages all experts in an open model's store; those in memory stay right. */
static void damage_experts(const struct test_model *m)
{
	static const uint8_t noise[STORE_ALIGN] = {1, 2, 3};
	struct model_view view;
	observe_model(m->model, &view);
	const struct store_extent first = store_expert(view.store, 0, 0);
	char path[64];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", first.fd);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	uint64_t end = first.offset + store_experts_bytes(view.store);
	for (uint64_t at = first.offset; at < end; at += sizeof noise)
		assert_int_equal(pwrite(fd, noise, sizeof noise, (off_t)at), sizeof noise);
	assert_int_equal(close(fd), 0);
}

/* An answer with only its own experts in memory, in a model whose other experts are damaged: so
 * every miss comes from a draft. */
static void assert_goes_on(const char *model, const char *prompt, const char *draft,
			   const char *most)
{
	struct test_model m;
	char directory[512];
	(void)snprintf(directory, sizeof directory, "%s", model);
	test_model_open(&m, directory, &(struct engine_options){.quant = "tq3"});
	test_wait_converted(m.model);
	test_model_load_calm(&m);
	struct session *off = session(&m, "off", most), *on = session(&m, draft, most);
	char *want = test_ask(off, prompt);
	damage_experts(&m);
	test_answer(on, prompt, want);
	assert_true(test_stats(on).expert_misses > 0);
	assert_int_equal(test_stats(on).output_tokens, test_stats(off).output_tokens);
	const struct token_list *a = observe_computed(off), *b = observe_computed(on);
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
	free(want);
	session_end(off);
	session_end(on);
	test_model_close(&m);
	test_stores_remove();
}

static void a_draft_of_what_was_said_before(void **state)
{
	(void)state;
	assert_goes_on(test_fable(), "ha ha", "lookup 4", "24");
}

/* Where the recurrent state goes back to before the answer, and the rest is computed again. */
static void a_draft_in_a_hybrid(void **state)
{
	(void)state;
	assert_goes_on(test_fixture("qwen3_5_moe"), "1 2 3 4", "lookup 4", "40");
	assert_goes_on(test_fixture("qwen3_next"), "ab ab ab ab ab ab", "lookup 3", "40");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_draft_of_what_was_said_before),
		cmocka_unit_test(a_draft_in_a_hybrid),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
