/* Contexts as bytes. For every kind of state a saved context continues bit for bit like a freshly
 * computed one, has the size that follows from its counts, and does not change while the original
 * continues. Bytes of anything else are refused with a sentence and leave nothing behind. */
#include "engine/compute/context_save.h"
#include "engine/compute/recurrent.h"
#include "context_help.h"
#include "forward_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MARK = 40, MOST = 1000 };

/* Softmax attention, a hybrid with and without a draft layer, a latent, windows. */
static const char *const fixtures[] = {"qwen3_moe",   "qwen3_5_moe", "qwen3_next",
				       "deepseek_v3", "gemma4_moe",  "gpt_oss", "gemma4_ple",
				       /* recurrent: */
				       "lfm2_moe", "granitemoehybrid", "nemotron_h",
				       "kimi_linear",

				       /* with an index: */
				       "qwen4_exp", "glm_moe_dsa", "minimax_m3", "glm5_next",
				       "deepseek_v4"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static struct err e;

/* HEAD tokens, with a copy to go back to after MARK. */
static void begin_head(struct context *x)
{
	uint32_t text[HEAD + TAIL];
	context_text(0, text);
	context_begin(x);
	free(context_go_on(x, text, MARK));
	context_checkpoint(x, MARK);
	free(context_go_on(x, text + MARK, HEAD - MARK));
}

/* ---- bytes ---- */

struct bytes {
	uint8_t *at;
	size_t n;
};

static struct bytes read_whole(const struct context_save *s)
{
	struct bytes b = {.n = context_save_bytes(s)};
	b.at = malloc(b.n);
	assert_non_null(b.at);
	context_save_read(s, 0, b.at, b.n);
	return b;
}

static struct bytes save(struct context *x)
{
	struct context_save s;
	if (context_save_open(&s, x, view.config, &e))
		fail_msg("%s", e.text);
	assert_int_equal(context_save_bytes(&s), context_save_size(x));
	struct bytes b = read_whole(&s);
	context_save_close(&s);
	return b;
}

/* In pieces of this size. */
static int load_pieces(struct context_load *l, const struct bytes *b, size_t piece)
{
	int failed = 0;
	struct context like;
	context_begin(&like);
	context_load_begin(l, &like, view.config, MOST, b->n);
	for (size_t at = 0, n; at < b->n && !failed; at += n) {
		n = b->n - at < piece ? b->n - at : piece;
		failed = context_load_feed(l, b->at + at, n, &e);
	}
	return failed;
}

static void load_into(struct context *x, const struct bytes *b, size_t piece)
{
	struct context_load l;
	if (load_pieces(&l, b, piece))
		fail_msg("%s", e.text);
	assert_true(context_load_done(&l));
	context_load_end(&l);
	context_begin(x);
	context_move(x, &l.x);
	context_load_free(&l);
}

/* ---- tests ---- */

/* Before the ids; with one checkpoint. */
static uint64_t counts_bytes(void)
{
	const uint64_t *width = view.config->kv_width;
	return 32 + (width[KV_WINDOWED] ? 16 + 8 : 0) + (width[KV_INDEX] ? 8 : 0);
}

/* So few positions that all blocks are before a checkpoint or the end. */
static uint64_t arithmetic(uint64_t positions, uint64_t states)
{
	const uint64_t *width = view.config->kv_width;
	uint64_t position_bytes =
		(width[KV_WHOLE] + width[KV_WINDOWED]) * (view.kv == KV_F32 ? 4 : 2);
	uint64_t index_bytes = width[KV_INDEX] * (view.kv == KV_F32 ? 4 : 2);
	return counts_bytes() + positions * 4 +
	       (positions + 63) / 64 * (64 * position_bytes + index_bytes) +
	       states * (16 + 4 * recurrent_state_floats(view.config));
}

static void goes_round(void)
{
	struct context x, y, z;
	struct bytes b;
	begin_head(&x);
	b = save(&x);
	bool hybrid = x.recurrent.bytes;
	assert_int_equal(b.n, arithmetic(HEAD, hybrid ? 2 : 0));
	load_into(&y, &b, SIZE_MAX);
	load_into(&z, &b, 1009); /* no part ends where a piece does */
	assert_int_equal(y.tokens.count, HEAD);
	struct bytes again = save(&z);
	assert_int_equal(again.n, b.n);
	assert_memory_equal(again.at, b.at, b.n);
	assert_goes_on(&y, 3);
	assert_goes_on(&x, 3);
	assert_goes_on(&z, 4);
	assert_int_equal(context_rollback(&z, HEAD - 1), hybrid ? MARK : HEAD - 1);
	assert_goes_on(&z, 5);
	free(b.at);
	free(again.at);
	context_free(&x);
	context_free(&y);
	context_free(&z);
}

static void every_kind_of_state_goes_on_to_the_bit(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		for (int exact = 0; exact < 2; exact++) {
			if (!contexts_load(fixtures[i], exact ? "bf16" : NULL))
				continue;
			assert_int_equal(view.kv, exact ? KV_F32 : KV_F16);
			goes_round();
			contexts_unload();
		}
}

static void nothing_computed_is_saved_as_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct context x, y;
		assert_true(contexts_load(fixtures[i], NULL));
		context_begin(&x);
		struct bytes b = save(&x);
		assert_int_equal(b.n, 32);
		load_into(&y, &b, 5);
		assert_int_equal(y.tokens.count, 0);
		assert_goes_on(&y, 3);
		free(b.at);
		context_free(&y);
		context_free(&x);
		contexts_unload();
	}
}

static void it_is_read_from_any_offset(void **state)
{
	(void)state;
	struct context x;
	struct context_save s;
	assert_true(contexts_load("qwen3_5_moe", NULL));
	begin_head(&x);
	assert_int_equal(context_save_open(&s, &x, view.config, &e), 0);
	struct bytes b = read_whole(&s);
	char piece[3000];
	for (size_t at = 0; at < b.n; at += 997) {
		size_t n = b.n - at < sizeof piece ? b.n - at : sizeof piece;
		context_save_read(&s, at, piece, n);
		assert_memory_equal(piece, b.at + at, n);
	}
	free(b.at);
	context_save_close(&s);
	context_free(&x);
	contexts_unload();
}

/* A held state costs nothing until the text writes to shared memory. */
static void what_is_held_stays_as_it_was(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct context x, y;
		struct context_save s;
		if (!contexts_load(fixtures[i], NULL))
			continue;
		begin_head(&x);
		uint64_t used = engine_context_used(model.engine);
		assert_int_equal(context_save_open(&s, &x, view.config, &e), 0);
		assert_int_equal(engine_context_used(model.engine), used);
		struct bytes before = read_whole(&s);
		assert_goes_on(&x, 7);
		assert_int_equal(engine_context_used(model.engine),
				 used + x.kv[KV_WHOLE].bytes + x.kv[KV_WINDOWED].bytes +
					 x.kv[KV_INDEX].bytes +
					 x.recurrent.bytes);
		context_rollback(&x, MARK - 1);
		assert_goes_on(&x, 8);
		context_rollback(&x, 0);
		struct bytes after = read_whole(&s);
		assert_memory_equal(before.at, after.at, before.n);
		context_save_close(&s);
		load_into(&y, &before, SIZE_MAX);
		assert_goes_on(&y, 9);
		free(before.at);
		free(after.at);
		context_free(&x);
		context_free(&y);
		contexts_unload();
	}
}

/* With the state held, going back needs no memory and loses nothing but the copy itself. */
static void a_text_goes_back_while_its_state_is_held(void **state)
{
	(void)state;
	struct context x;
	struct context_save s;
	assert_true(contexts_load("qwen3_5_moe", NULL));
	begin_head(&x);
	assert_int_equal(context_save_open(&s, &x, view.config, &e), 0);
	uint64_t used = engine_context_used(model.engine);
	assert_int_equal(engine_set_context_budget(model.engine, used, &e), 0);
	assert_int_equal(context_rollback(&x, MARK + 2), MARK);
	assert_true(engine_context_used(model.engine) <= used);
	assert_int_equal(engine_set_context_budget(model.engine, 4 * used, &e), 0);
	assert_goes_on(&x, 6);
	context_save_close(&s);
	context_free(&x);
	contexts_unload();
}

/* Nobody continues from the state that a step left when it failed halfway. */
static void after_a_failed_step_the_copy_before_it_is_saved(void **state)
{
	(void)state;
	struct context x, y;
	assert_true(contexts_load("qwen3_5_moe", NULL));
	begin_head(&x);
	x.recurrent.spoiled = true;
	struct bytes b = save(&x);
	assert_int_equal(b.n, arithmetic(MARK, 1));
	load_into(&y, &b, SIZE_MAX);
	assert_int_equal(y.tokens.count, MARK);
	assert_goes_on(&y, 2);
	free(b.at);
	context_free(&x);
	context_free(&y);
	contexts_unload();
}

/* Tokens that were taken back are not in the bytes: two contexts with the same text are saved
 * alike. */
static void what_was_taken_back_is_not_saved(void **state)
{
	(void)state;
	struct context x, y;
	uint32_t text[HEAD + TAIL];
	context_text(9, text);
	assert_true(contexts_load("qwen3_moe", NULL));
	begin_head(&x);
	begin_head(&y);
	free(context_go_on(&x, text + HEAD, TAIL));
	context_rollback(&x, HEAD);
	struct bytes one = save(&x), other = save(&y);
	assert_int_equal(one.n, other.n);
	assert_memory_equal(one.at, other.at, one.n);
	free(one.at);
	free(other.at);
	context_free(&x);
	context_free(&y);
	contexts_unload();
}

static void states_that_are_behind_are_saved_as_they_are(void **state)
{
	(void)state;
	struct context x, y;
	uint32_t text[HEAD + TAIL];
	context_text(3, text);
	assert_true(contexts_load("qwen3_5_moe", NULL));
	begin_head(&x);
	assert_int_equal(test_verify(view.forward, &x, text + HEAD, 3, NULL, &e), 0);
	context_rollback(&x, HEAD + 2);
	assert_int_equal(x.recurrent.behind, 1);
	struct bytes b = save(&x);
	load_into(&y, &b, 4096);
	assert_int_equal(y.recurrent.behind, 1);
	assert_goes_on(&y, 3);
	free(b.at);
	context_free(&x);
	context_free(&y);
	contexts_unload();
}

static void refused(const struct bytes *b, int code, const char *words)
{
	struct context_load l;
	uint64_t used = engine_context_used(model.engine);
	e = (struct err){0};
	assert_int_equal(load_pieces(&l, b, 500), code);
	if (!strstr(e.text, words))
		fail_msg("\"%s\" lacks \"%s\"", e.text, words);
	context_load_free(&l);
	assert_int_equal(engine_context_used(model.engine), used);
}

static void with_number(const struct bytes *b, size_t at, uint64_t value, size_t width, int code,
			const char *words)
{
	uint8_t before[8];
	memcpy(before, b->at + at, width);
	memcpy(b->at + at, &value, width);
	refused(b, code, words);
	memcpy(b->at + at, before, width);
}

static void hostile_counts_are_refused_in_words(void **state)
{
	(void)state;
	struct context x;
	assert_true(contexts_load("qwen3_5_moe", NULL));
	begin_head(&x);
	struct bytes b = save(&x);
	const struct context_head *h = (const void *)b.at;
	size_t states = b.n - 2 * (16 + h->state_bytes), second = states + 16 + h->state_bytes;
	static const struct {
		size_t at, width;
		uint64_t value;
	} heads[] = {
		{0, 4, 1},  {0, 4, 7},	 {4, 4, 0},	   {4, 4, 1},		{4, 4, 10},
		{4, 4, -1}, {8, 8, 0},	 {8, 8, HEAD + 1}, {8, 8, HEAD - 8},	{16, 8, 0},
		{16, 8, 1}, {16, 8, -1}, {24, 8, 0},	   {24, 8, 1ULL << 63},
	};
	for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
		with_number(&b, heads[i].at, heads[i].value, heads[i].width, -EINVAL,
			    "computed context");
	with_number(&b, 8, MOST + 1, 8, -EFBIG, "-o context=");
	with_number(&b, 8, -1, 8, -EFBIG, "-o context=");
	with_number(&b, 32 + 4 * 5, view.config->vocabulary, 4, -EINVAL, "vocabulary");
	const uint64_t positions[] = {0, HEAD, HEAD + 1, -1};
	for (size_t i = 0; i < 4; i++)
		with_number(&b, states, positions[i], 8, -EINVAL, "contradict");
	with_number(&b, second, HEAD - 1, 8, -EINVAL, "contradict");
	with_number(&b, second, MARK, 8, -EINVAL, "contradict");
	with_number(&b, second + 8, 5, 8, -EINVAL, "contradict");
	with_number(&b, states + 8, -1, 8, -EINVAL, "contradict");
	struct bytes shorter = {b.at, b.n - 1};
	refused(&shorter, -EINVAL, "contradict");
	free(b.at);
	context_free(&x);
	contexts_unload();
}

static void another_models_context_is_refused(void **state)
{
	(void)state;
	struct context x;
	assert_true(contexts_load("qwen3_moe", NULL));
	begin_head(&x);
	struct bytes b = save(&x);
	context_free(&x);
	contexts_unload();
	static const char *const others[] = {"qwen3_5_moe", "gemma4_moe", "deepseek_v3"};
	for (int i = 0; i < 3; i++) {
		if (!contexts_load(others[i], NULL))
			continue;
		refused(&b, -EINVAL, "another model");
		contexts_unload();
	}
	assert_true(contexts_load("qwen3_moe", "bf16"));
	refused(&b, -EINVAL, "another model");
	contexts_unload();
	free(b.at);
}

/* Memory is asked for when the counts are known, not when the bytes come; copies are spare. */
static void without_room_it_is_refused_and_nothing_is_kept(void **state)
{
	(void)state;
	struct context x, y;
	struct context_load l;
	assert_true(contexts_load("qwen3_5_moe", NULL));
	begin_head(&x);
	struct bytes b = save(&x);
	uint64_t least = 2 * x.kv[KV_WHOLE].bytes + x.recurrent.bytes;
	context_free(&x);
	assert_int_equal(engine_set_context_budget(model.engine, least - 1, &e), 0);
	struct bytes head = {b.at, 32};
	struct context like;
	context_begin(&like);
	context_load_begin(&l, &like, view.config, MOST, b.n);
	assert_int_equal(context_load_feed(&l, head.at, head.n, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "context_budget"));
	context_load_free(&l);
	assert_int_equal(engine_context_used(model.engine), 0);
	assert_int_equal(engine_set_context_budget(model.engine, least, &e), 0);
	load_into(&y, &b, 700);
	assert_int_equal(y.recurrent.checkpoint_count, 0);
	assert_int_equal(engine_set_context_budget(model.engine, 1 << 30, &e), 0);
	assert_goes_on(&y, 2);
	context_free(&y);
	free(b.at);
	contexts_unload();
}

static void half_a_context_is_not_done(void **state)
{
	(void)state;
	struct context x;
	assert_true(contexts_load("qwen3_5_moe", NULL));
	begin_head(&x);
	struct bytes b = save(&x);
	for (size_t n = 0; n < b.n; n += b.n / 37) {
		struct context_load l;
		struct context like;
		context_begin(&like);
		context_load_begin(&l, &like, view.config, MOST, b.n);
		assert_int_equal(context_load_feed(&l, b.at, n, &e), 0);
		assert_false(context_load_done(&l));
		context_load_free(&l);
	}
	free(b.at);
	context_free(&x);
	contexts_unload();
}

/* NaNs may be forged: the text computed from them is meaningless, but nothing else goes wrong. */
static void keys_that_are_not_numbers_harm_nobody(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct context x, y;
		uint32_t text[HEAD + TAIL];
		context_text(3, text);
		if (!contexts_load(fixtures[i], NULL))
			continue;
		begin_head(&x);
		struct bytes b = save(&x);
		size_t states = x.recurrent.bytes ? 2 : 0,
		       each = 16 + 4 * recurrent_state_floats(view.config);
		size_t before = counts_bytes() + 4 * HEAD;
		memset(b.at + before, 0xff, b.n - before - states * each);
		for (size_t k = 1; k <= states; k++)
			memset(b.at + b.n - k * each + 16, 0xff, each - 16);
		load_into(&y, &b, SIZE_MAX);
		(void)test_step(view.forward, &y, text + HEAD, TAIL, NULL, &e);
		free(b.at);
		context_free(&x);
		context_free(&y);
		contexts_unload();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_state_goes_on_to_the_bit),
		cmocka_unit_test(nothing_computed_is_saved_as_nothing),
		cmocka_unit_test(it_is_read_from_any_offset),
		cmocka_unit_test(what_is_held_stays_as_it_was),
		cmocka_unit_test(a_text_goes_back_while_its_state_is_held),
		cmocka_unit_test(after_a_failed_step_the_copy_before_it_is_saved),
		cmocka_unit_test(what_was_taken_back_is_not_saved),
		cmocka_unit_test(states_that_are_behind_are_saved_as_they_are),
		cmocka_unit_test(hostile_counts_are_refused_in_words),
		cmocka_unit_test(another_models_context_is_refused),
		cmocka_unit_test(without_room_it_is_refused_and_nothing_is_kept),
		cmocka_unit_test(half_a_context_is_not_done),
		cmocka_unit_test(keys_that_are_not_numbers_harm_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
