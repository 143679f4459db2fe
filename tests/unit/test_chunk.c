/* How a prompt is cut into steps: a few long ones if experts must be read, short ones if all are
 * in memory; the memory of long steps is given back. */
#include "engine/cpu/cpu.h"
#include "engine/cpu/layers.h"
#include "engine/model/chunk.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "memory_help.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SMALL = 1 << 20, ALL = 64 << 20 }; /* of the demonstration model's 13 MiB of experts */

/* Requested sizes, so that nothing depends on the memory of the machine. */
static void open_fable(uint64_t budget, uint32_t chunk)
{
	const struct engine_options o = {.budget = budget, .chunk = chunk, .context_budget = ALL};
	test_model_open(&fable, test_fable(), &o);
	test_model_load_calm(&fable);
	test_wait_converted(fable.model);
}

static int close_fable(void **state)
{
	(void)state;
	test_model_close(&fable);
	return 0;
}

/* ---- cutting ---- */

static void steps_are_long_where_experts_must_be_read(void **state)
{
	(void)state;
	open_fable(SMALL, 0);
	assert_int_equal(chunk_next(fable.model, 2000, UINT32_MAX), 2000);
	assert_int_equal(fable.model->loaded.forward.chunk, 2000);
	chunk_end(fable.model);
	assert_int_equal(fable.model->loaded.forward.chunk, CHUNK_DEFAULT);
}

static void steps_are_equal_and_no_longer_than_allowed(void **state)
{
	(void)state;
	open_fable(SMALL, 0);
	for (size_t left = 9000; left; left -= 3000)
		assert_int_equal(chunk_next(fable.model, left, UINT32_MAX), 3000);
	chunk_end(fable.model);
}

static void steps_are_short_where_all_experts_fit(void **state)
{
	(void)state;
	open_fable(ALL, 0);
	assert_int_equal(chunk_next(fable.model, 2000, UINT32_MAX), 500);
	assert_int_equal(chunk_next(fable.model, 400, UINT32_MAX), 400);
	assert_int_equal(fable.model->loaded.scratch.bytes, 0);
}

static void steps_are_as_long_as_requested(void **state)
{
	(void)state;
	open_fable(SMALL, 7);
	assert_int_equal(chunk_next(fable.model, 2000, UINT32_MAX), 7);
	assert_int_equal(chunk_next(fable.model, 7, UINT32_MAX), 7);
	assert_int_equal(chunk_next(fable.model, 3, UINT32_MAX), 3);
	assert_int_equal(fable.model->loaded.scratch.bytes, 0);
}

/* ---- memory ---- */

static uint64_t scratch_bytes(uint32_t rows)
{
	const struct config *c = &fable.model->id.config;
	return forward_bytes(&cpu_backend, c, rows) + forward_pass_bytes(&cpu_backend, c, rows);
}

static void long_steps_are_counted_until_they_are_given_back(void **state)
{
	(void)state;
	open_fable(SMALL, 0);
	const struct budgets *b = &fable.engine->budgets;
	const struct budget_need *need = &fable.model->loaded.scratch;
	(void)chunk_next(fable.model, 2000, UINT32_MAX);
	assert_true(b->needs == need && need->state == NEED_TAKEN);
	assert_true(need->bytes == scratch_bytes(2000) - scratch_bytes(CHUNK_DEFAULT));
	chunk_end(fable.model);
	assert_true(b->needs == &fable.model->loaded.need && !b->needs->next);
	chunk_end(fable.model); /* of which there is nothing left */
}

static void assert_in_memory(void *memory, size_t bytes)
{
	enum { PAGES_MOST = 1 << 16 };
	static unsigned char in_memory[PAGES_MOST];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes - 1) / page + 1;
	assert_in_range(pages, 1, PAGES_MOST);
	assert_int_equal(mincore(memory, bytes, in_memory), 0);
	for (size_t i = 0; i < pages; i++)
		assert_true(in_memory[i] & 1);
}

/* Otherwise free memory would be overestimated. */
static void what_steps_take_is_in_memory_once_it_is_counted(void **state)
{
	(void)state;
	open_fable(SMALL, 0);
	const struct forward *f = &fable.model->loaded.forward;
	for (uint32_t left = CHUNK_DEFAULT; left <= 2000; left += 2000 - CHUNK_DEFAULT) {
		(void)chunk_next(fable.model, left, UINT32_MAX);
		assert_in_memory(f->memory, f->bytes);
		assert_in_memory(f->scratch, f->scratch->bytes);
		assert_in_memory(f->pass.memory, f->pass.bytes);
		assert_in_memory(f->pass.stream, f->pass.stream->bytes);
	}
	chunk_end(fable.model);
}

static void without_memory_steps_are_short(void **state)
{
	(void)state;
	struct rlimit before;
	test_memory_limitable();
	open_fable(SMALL, 0);
	test_memory_limit(RLIMIT_DATA, SMALL, &before);
	uint32_t n = chunk_next(fable.model, 2000, UINT32_MAX);
	test_memory_unlimit(RLIMIT_DATA, &before);
	assert_true(n == 500 || n == 1000); /* the heap may have some left */
	assert_true(fable.model->loaded.forward.chunk >= n);
	chunk_end(fable.model);
	assert_int_equal(fable.model->loaded.scratch.bytes, 0);
	assert_int_equal(chunk_next(fable.model, 2000, UINT32_MAX), 2000);
	chunk_end(fable.model);
}

/* ---- turns ---- */

/* A turn with more tokens than a short step; malloc'ed. */
static char *ask_at_length(uint64_t budget, uint32_t chunk)
{
	enum { TIMES = 100 };
	static const char line[] = "The fox and the crow met at the river. ";
	char *prompt = calloc(1, TIMES * sizeof line);
	assert_non_null(prompt);
	for (int i = 0; i < TIMES; i++)
		strcat(prompt, line);
	open_fable(budget, chunk);
	struct session *s = test_greedy_session(&fable);
	test_set(s, "max_tokens", "24");
	char *text = test_ask(s, prompt);
	struct session_stats stats = test_stats(s);
	assert_true(stats.prompt_tokens > CHUNK_DEFAULT);
	free(prompt);
	session_end(s);
	return text;
}

static void a_text_is_the_same_by_long_and_by_short_steps(void **state)
{
	(void)state;
	char *all = ask_at_length(ALL, 0);
	test_model_close(&fable);
	char *one = ask_at_length(SMALL, 0);
	test_model_close(&fable);
	test_same_text(one, strdup(all));
	test_same_text(ask_at_length(SMALL, 100), all);
}

static void what_a_turn_took_is_given_back_when_its_prompt_is_over(void **state)
{
	(void)state;
	free(ask_at_length(SMALL, 0));
	struct budgets *b = &fable.engine->budgets;
	for (bool back = false; !back;) { /* the answer comes slightly earlier */
		pthread_mutex_lock(&b->lock);
		back = b->needs == &fable.model->loaded.need && !b->needs->next;
		pthread_mutex_unlock(&b->lock);
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

#define TEST(name) cmocka_unit_test_teardown(name, close_fable)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_memory_steps_are_short), /* first: before there is heap to reuse */
		TEST(steps_are_long_where_experts_must_be_read),
		TEST(steps_are_equal_and_no_longer_than_allowed),
		TEST(steps_are_short_where_all_experts_fit),
		TEST(steps_are_as_long_as_requested),
		TEST(long_steps_are_counted_until_they_are_given_back),
		TEST(what_steps_take_is_in_memory_once_it_is_counted),
		TEST(a_text_is_the_same_by_long_and_by_short_steps),
		TEST(what_a_turn_took_is_given_back_when_its_prompt_is_over),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
