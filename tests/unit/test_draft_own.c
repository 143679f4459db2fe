/* Drafts by a model's own draft layer change the number of tokens that a step yields, and nothing
 * that can be read, at any temperature, seed, cache and number of threads; and samples have the
 * model's distribution. */
#include "engine/admin/observe.h"
#include "checkpoint_help.h"
#include "golden.h"
#include "forward_help.h"
#include "memory_help.h"
#include "session_help.h"
#include "store_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Under a sanitizer the first ones: from the engine's side one depth is like another, and
 * test_draft looks up what it drafts. */
static const char *const modes[] = {"mtp 4", "auto", "mtp 2", "mtp", "mtp 3", "lookup 3"};
enum { MODES = SANITIZED ? 2 : sizeof modes / sizeof *modes };

/* A model whose drafts are accepted often enough for the test; NULL: it is not available. */
static const char *hybrid(void)
{
	return shared_data("models/fable-hybrid-18m");
}

static void open_model(struct test_model *m, const char *directory, const struct engine_options *o)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s", directory);
	test_model_open(m, path, o);
	test_wait_converted(m->model);
}

struct how {
	const char *draft, *temperature, *seed, *max_tokens;
};

static struct session *session(struct test_model *m, struct how how)
{
	struct session *s = test_session(m);
	test_set(s, "chat", "off");
	test_set(s, "draft", how.draft);
	test_set(s, "temperature", how.temperature);
	test_set(s, "seed", how.seed);
	test_set(s, "max_tokens", how.max_tokens);
	return s;
}

/* The context, bit for bit: its content and its next logits. */
static void assert_same_context(const struct session *one, const struct session *other)
{
	const struct token_list *a = observe_computed(one), *b = observe_computed(other);
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
	assert_int_equal(test_stats(one).output_tokens, test_stats(other).output_tokens);
	assert_string_equal(test_stats(one).finish, test_stats(other).finish);
}

static const char *const prompts[] = {"Once upon a time", "ab ab ab ab ab ab", "1 2 3 4"};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

/* The texts of one way of sampling without drafts: each prompt's answer, then its next turn's. */
struct texts {
	char *text[PROMPTS][2];
};

static struct texts write_texts(struct test_model *m, struct how how, uint64_t *stood)
{
	struct texts t;
	for (int p = 0; p < PROMPTS; p++) {
		struct session *s = session(m, how);
		t.text[p][0] = test_ask(s, prompts[p]);
		*stood += test_stats(s).draft_stood_by[DRAFT_MTP];
		t.text[p][1] = test_ask(s, prompts[(p + 1) % PROMPTS]);
		*stood += test_stats(s).draft_stood_by[DRAFT_MTP];
		session_end(s);
	}
	return t;
}

static size_t assert_same_texts(const struct texts *one, const struct texts *other)
{
	size_t bytes = 0;
	for (int p = 0; p < PROMPTS; p++)
		for (int turn = 0; turn < 2; turn++) {
			assert_string_equal(one->text[p][turn], other->text[p][turn]);
			bytes += strlen(one->text[p][turn]);
		}
	return bytes;
}

static void free_texts(struct texts *t)
{
	for (int p = 0; p < PROMPTS; p++)
		for (int turn = 0; turn < 2; turn++)
			free(t->text[p][turn]);
}

/* Checks that every mode gives `want` in an engine with these options. Returns the number of
 * accepted drafts of the model's own layer. */
static uint64_t assert_all_modes(const char *directory, const struct engine_options *o,
				 struct how how, const struct texts *want)
{
	struct test_model m;
	uint64_t stood = 0;
	open_model(&m, directory, o);
	for (int i = 0; i < MODES; i++) {
		how.draft = modes[i];
		struct texts have = write_texts(&m, how, &stood);
		assert_true(assert_same_texts(want, &have) > 0);
		free_texts(&have);
	}
	test_model_close(&m);
	return stood;
}

/* Under a sanitizer only the way of sampling with most threads and the smallest cache. */
enum { WAYS = 3, FIRST_WAY = SANITIZED ? WAYS - 1 : 0 };
/* Of the drafts of one depth by the hottest way, as under a sanitizer, fewest stand (34); what
 * "auto" adds there is a question of time. */
enum { LEAST_STOOD = SANITIZED ? 20 : 600 };

static uint64_t assert_same_everywhere(const char *model, const char *quant, const char *max_tokens)
{
	static const struct how ways[WAYS] = {
		{"off", "0", "1", NULL}, {"off", "0.8", "2", NULL}, {"off", "1.3", "3", NULL}};
	char directory[512];
	struct test_model m;
	uint64_t stood = 0, none = 0;
	(void)snprintf(directory, sizeof directory, "%s", model);
	for (int i = FIRST_WAY; i < WAYS; i++) {
		struct how how = ways[i];
		how.max_tokens = max_tokens;
		open_model(&m, directory, &(struct engine_options){.quant = quant});
		struct texts want = write_texts(&m, how, &none);
		struct model_view view;
		observe_model(m.model, &view);
		uint64_t one_expert = pager_slot_bytes(view.plan->slot_bytes);
		bool routed = view.plan->routed_layers;
		test_model_close(&m);
		/* Each way of sampling with other threads, another cache and other steps. */
		struct engine_options o = {.quant = quant,
					   .threads = 1U << i,
					   .chunk = i == 1 ? 7 : 64,
					   .budget = routed && i == 2 ? one_expert : 0};
		stood += assert_all_modes(directory, &o, how, &want);
		free_texts(&want);
	}
	assert_int_equal(none, 0);
	return stood;
}

static void the_text_of_a_fixture_is_the_same(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_5", "qwen3_5_moe"};
	for (int i = 0; i < 2; i++) { /* under a sanitizer each, and each recipe, once */
		if (!SANITIZED || i == 0)
			assert_same_everywhere(test_fixture(fixtures[i]), NULL, "40");
		if (!SANITIZED || i == 1)
			assert_same_everywhere(test_fixture(fixtures[i]), "bf16", "40");
	}
}

/* Three ways of sampling, six of drafting, three prompts with a turn more each: several thousand
 * tokens, of which many were drafted and stood. */
static void the_text_of_a_trained_model_is_the_same(void **state)
{
	(void)state;
	if (!hybrid())
		skip();
	uint64_t stood = assert_same_everywhere(hybrid(), NULL, "60");
	assert_true(stood > LEAST_STOOD);
}

/* ---- ends ---- */

static void a_turn_that_ends_in_a_draft_leaves_the_context_as_without(void **state)
{
	(void)state;
	struct test_model m;
	if (!hybrid())
		skip();
	open_model(&m, hybrid(), &(struct engine_options){0});
	uint64_t stood = 0;
	for (int most = 1; most <= 20; most++) {
		char number[16];
		(void)snprintf(number, sizeof number, "%d", most);
		struct session *off = session(&m, (struct how){"off", "0", "1", number});
		struct session *on = session(&m, (struct how){"mtp 4", "0", "1", number});
		test_same_text(test_ask(off, prompts[0]), test_ask(on, prompts[0]));
		assert_same_context(off, on);
		test_same_text(test_ask(off, prompts[2]), test_ask(on, prompts[2]));
		assert_same_context(off, on);
		assert_int_equal(test_stats(off).cached_tokens, test_stats(on).cached_tokens);
		stood += test_stats(on).draft_stood_by[DRAFT_MTP];
		session_end(off);
		session_end(on);
	}
	assert_true(stood > 20);
	test_model_close(&m);
}

/* Every piece of an answer as the text that stops it; under a sanitizer some. */
static void a_stop_text_in_a_draft_ends_the_answer_there(void **state)
{
	(void)state;
	struct test_model m;
	if (!hybrid())
		skip();
	open_model(&m, hybrid(), &(struct engine_options){0});
	struct session *off = session(&m, (struct how){"off", "0", "1", "40"});
	char *whole = test_ask(off, prompts[0]);
	session_end(off);
	for (size_t at = 0; at + 4 < strlen(whole) && at < 60; at += SANITIZED ? 12 : 3) {
		char stop[4] = {whole[at], whole[at + 1], whole[at + 2], 0};
		if (strpbrk(stop, "\n\\"))
			continue;
		off = session(&m, (struct how){"off", "0", "1", "40"});
		struct session *on = session(&m, (struct how){"mtp 4", "0", "1", "40"});
		test_set(off, "stop", stop);
		test_set(on, "stop", stop);
		test_same_text(test_ask(off, prompts[0]), test_ask(on, prompts[0]));
		assert_string_equal(test_stats(off).finish, "stop");
		assert_same_context(off, on);
		test_same_text(test_ask(off, prompts[2]), test_ask(on, prompts[2]));
		session_end(off);
		session_end(on);
	}
	free(whole);
	test_model_close(&m);
}

/* Drafts in a conversation do not depend on turns that were undone. */
static void a_turn_that_was_taken_back_is_not_in_the_drafts(void **state)
{
	(void)state;
	struct test_model m;
	struct err e;
	if (!hybrid())
		skip();
	open_model(&m, hybrid(), &(struct engine_options){0});
	struct session *both[2];
	for (int i = 0; i < 2; i++) {
		both[i] = session(&m, (struct how){"mtp 3", "0", "1", "30"});
		test_set(both[i], "chat", "on");
		free(test_ask(both[i], "What is the capital of France?"));
	}
	free(test_ask(both[0], "What is two plus two?"));
	assert_int_equal(session_undo(both[0], &e), 0);
	test_same_text(test_ask(both[0], "Tell me a story"), test_ask(both[1], "Tell me a story"));
	struct session_stats one = test_stats(both[0]), other = test_stats(both[1]);
	assert_true(one.drafted_by[DRAFT_MTP] > 0);
	assert_memory_equal(one.drafted, other.drafted, sizeof one.drafted);
	assert_memory_equal(one.draft_stood, other.draft_stood, sizeof one.drafted);
	const struct drafter *a = observe_drafter(both[0]), *b = observe_drafter(both[1]);
	assert_true(a->first == 0 && b->first == 0);
	assert_int_equal(a->rows + a->pending, b->rows + b->pending);
	session_end(both[0]);
	session_end(both[1]);
	test_model_close(&m);
}

/* ---- what is drawn ---- */

enum { LIKELY = 3, DRAWN = 3, PATHS = LIKELY * LIKELY * LIKELY, SEEDS = 300 };

/* The likeliest ids after the context's tokens, and their probabilities among themselves. */
static void likeliest(const struct model_view *m, struct context *x, const uint32_t *ids,
		      uint32_t n, double temperature, uint32_t id[LIKELY], double p[LIKELY])
{
	struct forward *f = m->forward;
	struct err e = {0};
	double sum = 0;
	if (test_step(f, x, ids, n, NULL, &e))
		fail_msg("%s", e.text);
	float *logits = f->logits;
	for (int i = 0; i < LIKELY; i++) {
		id[i] = sampler_greedy(logits, m->config->vocabulary);
		p[i] = exp((double)logits[id[i]] / temperature);
		sum += p[i];
		logits[id[i]] = -INFINITY;
	}
	for (int i = 0; i < LIKELY; i++)
		p[i] /= sum;
}

/* All tokens that can be drawn after ids[n], with their probabilities. */
struct path {
	uint32_t ids[DRAWN];
	double p;
	int drawn; /* how often it was */
};

static void find_paths(struct test_model *m, const uint32_t *ids, uint32_t n, double temperature,
		       struct path paths[PATHS])
{
	uint32_t text[128];
	struct model_view view;
	observe_model(m->model, &view);
	assert_true(n + DRAWN <= 128);
	memcpy(text, ids, n * sizeof *ids);
	for (int i = 0; i < PATHS; i++) {
		struct path *path = &paths[i];
		*path = (struct path){.p = 1};
		for (int k = 0, choice = i; k < DRAWN; k++, choice /= LIKELY) {
			struct context x;
			uint32_t id[LIKELY];
			double p[LIKELY];
			context_init(&x, view.context_budget, view.config, KV_F16);
			likeliest(&view, &x, text, n + (uint32_t)k, temperature, id, p);
			context_free(&x);
			path->ids[k] = text[n + (uint32_t)k] = id[choice % LIKELY];
			path->p *= p[choice % LIKELY];
		}
	}
}

/* Pearson's: paths that are expected less than five times count as one. */
static double chi_squared(const struct path paths[PATHS], int *bins)
{
	double sum = 0, rare = 0, rare_drawn = 0;
	*bins = 0;
	for (int i = 0; i < PATHS; i++) {
		double expected = paths[i].p * SEEDS, d = paths[i].drawn - expected;
		if (expected < 5) {
			rare += expected;
			rare_drawn += paths[i].drawn;
			continue;
		}
		sum += d * d / expected;
		++*bins;
	}
	if (rare > 0)
		sum += (rare_drawn - rare) * (rare_drawn - rare) / rare;
	*bins += rare > 0;
	return sum;
}

static void drafted_answers_have_the_distribution_that_the_model_gives_them(void **state)
{
	(void)state;
	struct test_model m;
	if (!hybrid())
		skip();
	open_model(&m, hybrid(), &(struct engine_options){.threads = 1});
	struct path paths[PATHS];
	uint64_t stood = 0, drafted = 0;
	uint32_t prompt_ids = 0;
	for (int seed = 0; seed < SEEDS; seed++) {
		char number[16];
		(void)snprintf(number, sizeof number, "%d", seed);
		/* The last token that is drawn is not computed: one more is asked for. */
		struct session *s = session(&m, (struct how){"mtp 3", "1.5", number, "4"});
		test_set(s, "top_k", "3");
		test_set(s, "top_p", "1");
		free(test_ask(s, "The old lighthouse"));
		const struct token_list *have = observe_computed(s);
		stood += test_stats(s).draft_stood_by[DRAFT_MTP];
		drafted += test_stats(s).drafted_by[DRAFT_MTP];
		if (!prompt_ids) {
			prompt_ids = (uint32_t)test_stats(s).prompt_tokens;
			find_paths(&m, have->ids, prompt_ids, 1.5, paths);
		}
		assert_int_equal(have->count, prompt_ids + DRAWN);
		int found = 0;
		for (int i = 0; i < PATHS; i++)
			if (!memcmp(paths[i].ids, have->ids + prompt_ids, sizeof paths[i].ids)) {
				paths[i].drawn++;
				found++;
			}
		assert_int_equal(found, 1);
		session_end(s);
	}
	int bins;
	double chi = chi_squared(paths, &bins), freedom = bins - 1;
	printf("%d seeds: chi squared %.1f of %d bins; %.0f %% of drafts stood\n", SEEDS, chi, bins,
	       100 * (double)stood / (double)drafted);
	assert_true(bins >= 8);
	/* Four standard deviations: the seeds are what they are, so this does not come and go. */
	assert_true(chi < freedom + 4 * sqrt(2 * freedom));
	assert_true(stood > SEEDS / 4);
	test_model_close(&m);
}

/* ---- what may be asked for ---- */

static void off_and_lookup_keep_nothing_of_it(void **state)
{
	(void)state;
	static const char *const without[] = {"off", "lookup"};
	struct test_model m;
	open_model(&m, test_fixture("qwen3_5_moe"), &(struct engine_options){0});
	for (int i = 0; i < 2; i++) {
		struct session *s = session(&m, (struct how){"mtp", "0", "1", "20"});
		free(test_ask(s, prompts[0]));
		assert_non_null(observe_drafter(s)->hidden);
		test_set(s, "draft", without[i]);
		free(test_ask(s, prompts[0]));
		assert_null(observe_drafter(s)->hidden);
		assert_int_equal(observe_drafter(s)->keys.kv[KV_WHOLE].count, 0);
		assert_int_equal(test_stats(s).drafted_by[DRAFT_MTP], 0);
		session_end(s);
	}
	test_model_close(&m);
}

static void with_drop_missing_nothing_is_drafted(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fixture("qwen3_5_moe"), &(struct engine_options){0});
	struct session *s = session(&m, (struct how){"mtp 2", "0", "1", "20"});
	test_set(s, "drop_missing", "0.1");
	free(test_ask(s, prompts[0]));
	assert_int_equal(test_stats(s).drafted_by[DRAFT_MTP], 0);
	assert_null(observe_drafter(s)->hidden);
	session_end(s);
	test_model_close(&m);
}

/* With fewer experts the drafts use fewer too, and the text is that of fewer experts. */
static void with_fewer_experts_the_text_is_the_same_drafted_or_not(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fixture("qwen3_5_moe"), &(struct engine_options){0});
	struct session *off = session(&m, (struct how){"off", "0", "1", "60"});
	struct session *on = session(&m, (struct how){"mtp 3", "0", "1", "60"});
	test_set(off, "experts_per_token", "1");
	test_set(on, "experts_per_token", "1");
	test_same_text(test_ask(off, prompts[1]), test_ask(on, prompts[1]));
	assert_true(test_stats(on).drafted_by[DRAFT_MTP] > 0);
	session_end(off);
	session_end(on);
	test_model_close(&m);
}

static void a_context_reports_the_memory_of_its_drafts(void **state)
{
	(void)state;
	struct test_model m;
	char text[32];
	open_model(&m, test_fixture("qwen3_5_moe"), &(struct engine_options){0});
	struct model_view view;
	observe_model(m.model, &view);
	uint64_t bare = context_full_bytes(view.config, KV_F16, view.context, 1),
		 drafts = drafter_full_bytes(view.config, KV_F16, view.context);
	assert_int_equal(model_fact(m.model, FACT_CONTEXT_BYTES, text, sizeof text), 0);
	assert_int_equal(strtoull(text, NULL, 10), bare + drafts);
	test_model_close(&m);
}

/* Drafts give up memory that a text needs. The budget has room for a context, but not for its
 * drafts. */
static void without_room_for_drafts_the_text_goes_on(void **state)
{
	(void)state;
	struct test_model m;
	open_model(&m, test_fixture("qwen3_5"), &(struct engine_options){.quant = "tq3"});
	struct session *off = session(&m, (struct how){"off", "0", "1", "150"});
	char *want = test_ask(off, prompts[0]);
	uint64_t used = engine_context_used(m.engine);
	session_end(off);
	test_model_close(&m);
	open_model(&m, test_fixture("qwen3_5"),
		   &(struct engine_options){.quant = "tq3", .context_budget = used});
	struct session *on = session(&m, (struct how){"mtp 2", "0", "1", "150"});
	test_same_text(test_ask(on, prompts[0]), want);
	assert_true(test_stats(on).drafted_by[DRAFT_MTP] > 0);
	assert_true(observe_drafter(on)->resting);
	session_end(on);
	test_model_close(&m);
}

static void a_checkpoint_without_a_draft_layer_has_none_whatever_its_config_says(void **state)
{
	(void)state;
	char folder[32], path[64];
	struct test_checkpoint c;
	struct test_model m;
	struct err e;
	test_folder_make(folder);
	(void)snprintf(path, sizeof path, "%s/without", folder);
	test_checkpoint_read(&c, "qwen3_5");
	for (size_t i = c.count; i-- > 0;)
		if (!strncmp(c.tensors[i].name, "mtp.", 4))
			test_tensor_remove(&c, c.tensors[i].name);
	test_checkpoint_make(&c, "qwen3_5", path);
	test_checkpoint_free(&c);
	open_model(&m, path, &(struct engine_options){0});
	struct model_view view;
	observe_model(m.model, &view);
	assert_true(view.config->draft);
	struct session *s = session(&m, (struct how){"auto", "0", "1", "40"});
	for (size_t i = 0; i < params_count(); i++)
		if (!strcmp(params_name(i), "draft"))
			assert_int_equal(session_param_set(s, i, "mtp", 3, &e), -EINVAL);
	assert_non_null(strstr(e.text, "no draft layer"));
	free(test_ask(s, prompts[0]));
	assert_int_equal(test_stats(s).drafted_by[DRAFT_MTP], 0);
	session_end(s);
	test_model_close(&m);
	test_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_of_a_fixture_is_the_same),
		cmocka_unit_test(the_text_of_a_trained_model_is_the_same),
		cmocka_unit_test(a_turn_that_was_taken_back_is_not_in_the_drafts),
		cmocka_unit_test(off_and_lookup_keep_nothing_of_it),
		cmocka_unit_test(with_drop_missing_nothing_is_drafted),
		cmocka_unit_test(with_fewer_experts_the_text_is_the_same_drafted_or_not),
		cmocka_unit_test(a_context_reports_the_memory_of_its_drafts),
		cmocka_unit_test(without_room_for_drafts_the_text_goes_on),
		cmocka_unit_test(
			a_checkpoint_without_a_draft_layer_has_none_whatever_its_config_says),
	};
	/* One session after the other, many times: the tests above cover the same interplay of
	 * threads. */
	const struct CMUnitTest many[] = {
		cmocka_unit_test(a_turn_that_ends_in_a_draft_leaves_the_context_as_without),
		cmocka_unit_test(a_stop_text_in_a_draft_ends_the_answer_there),
	};
	/* A numeric test of one thread: a sanitizer would find nothing new in its hundreds of
	 * turns. */
	const struct CMUnitTest number[] = {
		cmocka_unit_test(drafted_answers_have_the_distribution_that_the_model_gives_them),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!THREADS_WATCHED)
		failed += cmocka_run_group_tests(many, NULL, NULL);
	if (!SANITIZED)
		failed += cmocka_run_group_tests(number, NULL, NULL);
	test_stores_remove();
	return failed;
}
