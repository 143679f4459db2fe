/* Drafts along a text, against the exact reference. They depend only on the text, however it was
 * computed, taken back and computed again. */
#include "engine/admin/observe.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

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

static const char *const fixtures[] = {"qwen3_5", "qwen3_5_moe"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };
static const double tolerance = 2e-5; /* L2, relative, of a row */

/* A text of a model, and what follows it. */
struct text {
	struct test_model m;
	struct model_view view;
	struct forward *f;
	struct draft_layer *layer;
	struct context x;
	struct drafter d;
	struct golden *golden;
	uint32_t ids[64], count; /* the fixture's */
	uint32_t vocabulary;
	bool last_only; /* the text is not followed */
	float *logits;	/* [vocabulary]: where the next draft's go */
};

static void text_begin(struct text *t)
{
	const struct model_view *m = &t->view;
	context_init(&t->x, m->context_budget, m->config, m->kv);
	drafter_init(&t->d, m->context_budget, m->config, m->kv);
}

static void text_end(struct text *t)
{
	context_free(&t->x);
	drafter_free(&t->d);
	assert_int_equal(engine_context_used(t->m.engine), 0);
}

static void read_ids(struct text *t)
{
	struct golden_tensor ids = golden_get(t->golden, "input_ids", "I32");
	assert_in_range(ids.count, 33, 64);
	memcpy(t->ids, ids.data, ids.bytes);
	t->count = (uint32_t)ids.count;
}

static void text_open(struct text *t, const char *fixture, const struct engine_options *options)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s", test_fixture(fixture));
	*t = (struct text){0};
	test_model_open(&t->m, path, options);
	test_wait_converted(t->m.model);
	(void)snprintf(path + strlen(path), sizeof path - strlen(path), "/golden.safetensors");
	t->golden = golden_open(path);
	read_ids(t);
	observe_model(t->m.model, &t->view);
	t->f = t->view.forward;
	t->layer = t->view.draft_layer;
	t->vocabulary = t->view.config->vocabulary;
	assert_non_null(t->layer->forward);
	text_begin(t);
}

static void text_close(struct text *t)
{
	text_end(t);
	golden_close(t->golden);
	test_model_close(&t->m);
}

/* ---- steps ---- */

static void compute(struct text *t, enum row_kind kind, const uint32_t *rows, uint32_t n)
{
	struct err e = {0};
	struct step_batch b = {.normed = true};
	drafter_make_room(&t->d, t->layer, &t->x, *rows, kind, !t->last_only);
	if (test_add(&b, &t->x, rows, n, kind, false, &e) || forward_run(t->f, &b, NULL, &e))
		fail_msg("%s", e.text);
	step_batch_free(&b);
}

/* In steps no longer than the forward pass takes. */
static void prompt(struct text *t, const uint32_t *ids, uint32_t n)
{
	for (uint32_t done = 0, piece; done < n; done += piece) {
		piece = n - done < t->f->chunk ? n - done : t->f->chunk;
		compute(t, ROW_PROMPT, ids + done, piece);
		drafter_follow_prompt(&t->d, t->layer, &t->x, piece, !t->last_only);
		recurrent_checkpoint(&t->x.recurrent, t->x.tokens.count);
	}
}

/* A step of which n tokens are accepted, and no further rows. */
static void answer(struct text *t, const uint32_t *ids, uint32_t n, uint32_t refused)
{
	uint32_t rows[ANSWER_ROWS];
	size_t held = t->x.tokens.count + n;
	assert_true(n + refused <= ANSWER_ROWS);
	for (uint32_t i = 0; i < n + refused; i++)
		rows[i] = i < n ? ids[i] : 5 + i;
	compute(t, ROW_ANSWER, rows, n + refused);
	assert_int_equal(context_rollback(&t->x, held), held);
	drafter_follow_answer(&t->d, t->layer, &t->x, 0, n);
}

/* Computes up to `held` tokens of the fixture, in an answer's steps of all sizes. */
static void answer_to(struct text *t, size_t held)
{
	for (uint32_t i = 0; t->x.tokens.count < held; i++) {
		size_t at = t->x.tokens.count, left = held - at;
		uint32_t n = 1 + i % 3;
		answer(t, t->ids + at, left < n ? (uint32_t)left : n, i % 2);
	}
}

/* draft_reader.read of a text that drafts alone. */
static int take_logits(void *ctx, const uint32_t *asks, uint32_t n, const float *logits,
		       struct err *e)
{
	const struct text *t = ctx;
	(void)asks, (void)n, (void)e;
	memcpy(t->logits, logits, t->vocabulary * sizeof *logits);
	return 0;
}

/* A pass of the draft layer for a text alone: its logits are then in t->logits. Returns the error
 * of the text. */
static int draft_one(struct text *t, int depth, uint32_t next, struct draft_ask *ask)
{
	struct err e = {0};
	const struct draft_reader reader = {take_logits, t};
	ask->drafter = &t->d;
	ask->text = &t->x;
	ask->next = next;
	if ((depth ? drafter_next_together : drafter_first_together)(t->layer, ask, 1, &reader, &e))
		fail_msg("%s", e.text);
	return ask->account->end == SPAN_DONE ? 0 : -ask->account->error.code;
}

/* The logits of `depth` drafts, of which each feeds the next: [depth][vocabulary], malloc'ed. */
enum { DEPTH = 4 };
static float *draft(struct text *t, const uint32_t drafted[DEPTH])
{
	struct step_account account = {0};
	struct draft_ask ask = {.account = &account};
	float *logits = malloc((size_t)DEPTH * t->vocabulary * sizeof *logits);
	assert_non_null(logits);
	assert_true(drafter_ready(&t->d, &t->x));
	uint32_t next = t->ids[t->x.tokens.count];
	for (int i = 0; i < DEPTH; i++) {
		t->logits = logits + (size_t)i * t->vocabulary;
		assert_int_equal(draft_one(t, i, next, &ask), 0);
		next = drafted ? drafted[i] : sampler_greedy(t->logits, t->vocabulary);
	}
	t->logits = NULL;
	return logits;
}

static void assert_same_drafts(const struct text *t, float *one, float *other)
{
	assert_memory_equal(one, other, (size_t)DEPTH * t->vocabulary * sizeof *one);
	free(one);
	free(other);
}

/* ---- the reference ---- */

static double row_error(const float *got, const float *want, size_t width)
{
	double error = 0, norm = 0;
	for (size_t i = 0; i < width; i++) {
		double d = (double)got[i] - want[i];
		error += d * d;
		norm += (double)want[i] * want[i];
	}
	return sqrt(error / norm);
}

static double compare(struct text *t, uint32_t held, const uint32_t drafted[DEPTH],
		      const float *want)
{
	double worst = 0;
	float *got = draft(t, drafted);
	for (int i = 0; i < DEPTH; i++) {
		size_t at = (size_t)i * t->vocabulary;
		double error = row_error(got + at, want + at, t->vocabulary);
		if (!(error < tolerance))
			fail_msg("%u held, draft %d: relative error %.2e", held, i + 1, error);
		assert_int_equal(sampler_greedy(got + at, t->vocabulary), drafted[i]);
		worst = error > worst ? error : worst;
	}
	free(got);
	return worst;
}

static void a_decoding_s_drafts_agree_with_the_reference(void **state)
{
	(void)state;
	for (int k = 0; k < FIXTURES; k++) {
		struct text t;
		double worst = 0;
		text_open(&t, fixtures[k], &(struct engine_options){.quant = "bf16"});
		struct golden_tensor held = golden_get(t.golden, "mtp_decoding_held", "I32"),
				     ids = golden_get(t.golden, "mtp_decoding_ids", "I32"),
				     want = golden_get(t.golden, "mtp_decoding_logits", "F32");
		assert_int_equal(want.count, held.count * DEPTH * t.vocabulary);
		prompt(&t, t.ids, 1);
		for (size_t i = 0; i < held.count; i++) {
			uint32_t to = ((const uint32_t *)held.data)[i];
			answer_to(&t, to);
			double error = compare(&t, to, (const uint32_t *)ids.data + DEPTH * i,
					       (const float *)want.data + DEPTH * t.vocabulary * i);
			worst = error > worst ? error : worst;
		}
		printf("%s: worst relative error of any draft %.1e\n", fixtures[k], worst);
		text_close(&t);
	}
}

/* ---- the same whatever happened before ---- */

/* The drafts after a prompt of the fixture's first tokens. */
static float *fresh(const struct text *like, size_t held)
{
	struct text t = *like;
	text_begin(&t);
	prompt(&t, t.ids, (uint32_t)held);
	float *logits = draft(&t, NULL);
	context_free(&t.x);
	drafter_free(&t.d);
	return logits;
}

static void it_is_the_same_however_the_text_was_cut(void **state)
{
	(void)state;
	static const uint32_t chunks[] = {1, 7, 64};
	struct text t;
	float *first = NULL;
	for (int i = 0; i < 3; i++) {
		text_open(&t, "qwen3_5_moe", &(struct engine_options){.chunk = chunks[i]});
		float *logits = fresh(&t, 32);
		if (first)
			assert_memory_equal(first, logits, DEPTH * t.vocabulary * sizeof *logits);
		else
			first = logits;
		if (first != logits)
			free(logits);
		if (chunks[i] >= ANSWER_ROWS)
			for (size_t held = 3; held < 32; held += 5) {
				prompt(&t, t.ids, (uint32_t)held);
				answer_to(&t, 32);
				assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 32));
				context_rollback(&t.x, 0);
				drafter_begin(&t.d, &t.x);
			}
		text_close(&t);
	}
	free(first);
}

/* Earlier drafts leave no trace, and rows that waited are like those that did not. */
static void drafts_leave_no_trace(void **state)
{
	(void)state;
	struct text t;
	for (int k = 0; k < FIXTURES; k++) {
		text_open(&t, fixtures[k], &(struct engine_options){0});
		prompt(&t, t.ids, 4);
		for (size_t held = 5; held < 32; held += 1 + held % 4) {
			answer_to(&t, held);
			assert_same_drafts(&t, draft(&t, NULL), fresh(&t, held));
		}
		text_close(&t);
	}
}

/* More tokens than can wait: they are computed when there is no room for more. */
static void many_steps_without_a_draft_are_caught_up_with(void **state)
{
	(void)state;
	struct text t;
	text_open(&t, "qwen3_5_moe", &(struct engine_options){0});
	uint32_t long_ids[64];
	for (uint32_t i = 0; i < 64; i++)
		long_ids[i] = t.ids[i % t.count];
	memcpy(t.ids, long_ids, sizeof long_ids);
	prompt(&t, t.ids, 1);
	for (size_t held = 2; held < 62; held++) {
		answer(&t, t.ids + held - 1, 1, 0);
		assert_true(t.d.pending <= DRAFTER_ROWS);
	}
	assert_true(t.d.rows >= 61 - DRAFTER_ROWS);
	assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 61));
	text_close(&t);
}

/* The text goes back to where a state was copied, and on with other tokens. */
static void after_a_rollback_it_drafts_as_if_the_text_had_never_been(void **state)
{
	(void)state;
	struct text t;
	static const uint32_t others[] = {9, 8, 7, 6, 5, 4, 3, 9, 9, 1};
	for (int k = 0; k < FIXTURES; k++) {
		text_open(&t, fixtures[k], &(struct engine_options){0});
		prompt(&t, t.ids, 10);
		prompt(&t, t.ids + 10, 10);
		answer_to(&t, 30);
		free(draft(&t, NULL));
		memcpy(t.ids + 10, others, sizeof others);
		assert_int_equal(context_rollback(&t.x, 10), 10);
		drafter_begin(&t.d, &t.x);
		assert_true(drafter_ready(&t.d, &t.x));
		assert_int_equal(t.d.first, 0);
		assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 10));
		drafter_begin(&t.d, &t.x); /* a turn that was stopped before its first step */
		assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 10));
		prompt(&t, t.ids + 10, 5);
		answer_to(&t, 25);
		assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 25));
		assert_int_equal(context_rollback(&t.x, 12), 10);
		drafter_begin(&t.d, &t.x);
		answer_to(&t, 19);
		assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 19));
		text_close(&t);
	}
}

/* Taken back within the rows that wait: no copy of a state is needed. */
static void rows_that_wait_are_taken_back_by_their_number(void **state)
{
	(void)state;
	struct text t;
	text_open(&t, "qwen3_5_moe", &(struct engine_options){0});
	prompt(&t, t.ids, 10);
	answer(&t, t.ids + 10, 5, 0);
	assert_int_equal(context_rollback(&t.x, 12), 12);
	drafter_begin(&t.d, &t.x);
	assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 12));
	text_close(&t);
}

/* If nothing followed the text, or the model's state of the last position is unknown. */
static void a_text_that_went_on_unfollowed_is_followed_from_there(void **state)
{
	(void)state;
	struct text t;
	struct err e = {0};
	text_open(&t, "qwen3_5_moe", &(struct engine_options){0});
	prompt(&t, t.ids, 10);
	assert_int_equal(test_step(t.f, &t.x, t.ids + 10, 6, NULL, &e), 0);
	drafter_begin(&t.d, &t.x);
	assert_false(drafter_ready(&t.d, &t.x));
	assert_int_equal(t.d.keys.tokens.count, 0);
	prompt(&t, t.ids + 16, 5);
	assert_int_equal(t.d.first, 16);
	free(draft(&t, NULL));
	answer_to(&t, 25);
	free(draft(&t, NULL));
	assert_int_equal(t.d.rows, 25 - 16 - 1);
	assert_int_equal(context_rollback(&t.x, 10), 10);
	drafter_begin(&t.d, &t.x);
	assert_false(drafter_ready(&t.d, &t.x));
	text_close(&t);
}

/* If following costs more than it gains: the last rows are kept, and a draft begins there. */
static void of_a_text_that_is_not_followed_the_last_rows_are_known(void **state)
{
	(void)state;
	struct text t;
	text_open(&t, "qwen3_5_moe", &(struct engine_options){0});
	t.last_only = true;
	prompt(&t, t.ids, 12);
	assert_int_equal(t.d.keys.tokens.count, 0);
	assert_int_equal(t.d.first, 12 - DRAFTER_LAST);
	free(draft(&t, NULL));
	drafter_begin(&t.d, &t.x);
	for (size_t held = 13; held < 36; held++) {
		answer(&t, t.ids + held - 1, 1, 0);
		assert_in_range(t.d.pending, 1, DRAFTER_MOST_LAST);
		assert_true(drafter_ready(&t.d, &t.x));
	}
	float *late = draft(&t, NULL);
	uint32_t waited = (uint32_t)(35 - t.d.first);
	/* The same drafts as from rows that are computed one by one from there on. */
	struct text other = t;
	text_begin(&other);
	other.last_only = false;
	struct err e = {0};
	assert_int_equal(test_step(t.f, &other.x, t.ids, 35 - waited, NULL, &e), 0);
	answer_to(&other, 35);
	assert_int_equal(other.d.first, t.d.first);
	assert_same_drafts(&t, late, draft(&other, NULL));
	context_free(&other.x);
	drafter_free(&other.d);
	text_close(&t);
}

/* ---- side by side ---- */

enum { SIDES = 3 };
static const uint32_t side_held[SIDES] = {12, 33, 24};

struct sides {
	struct text t[SIDES];
	struct draft_ask asks[SIDES];
	struct step_account accounts[SIDES];
	uint32_t of[SIDES];    /* whose each ask is */
	uint32_t depth[SIDES]; /* how many drafts each has got */
	float *logits[SIDES];  /* [DEPTH][vocabulary] */
};

static int side_read(void *ctx, const uint32_t *asks, uint32_t n, const float *logits,
		     struct err *e)
{
	struct sides *s = ctx;
	(void)e;
	for (uint32_t i = 0; i < n; i++) {
		size_t vocabulary = s->t[0].vocabulary;
		uint32_t side = s->of[asks[i]];
		const float *row = logits + i * vocabulary;
		memcpy(s->logits[side] + s->depth[side]++ * vocabulary, row,
		       vocabulary * sizeof *row);
		s->asks[asks[i]].next = sampler_greedy(row, (uint32_t)vocabulary);
	}
	return 0;
}

/* Texts of one model, whose rows wait, or have been computed, to different extents. */
static void sides_open(struct sides *s, const char *fixture, uint32_t chunk)
{
	memset(s, 0, sizeof *s);
	text_open(&s->t[0], fixture, &(struct engine_options){.threads = 2, .chunk = chunk});
	for (uint32_t i = 0; i < SIDES; i++) {
		struct text *t = &s->t[i];
		if (i)
			*t = s->t[0];
		text_begin(t);
	}
	for (uint32_t i = 0; i < SIDES; i++) {
		struct text *t = &s->t[i];
		prompt(t, t->ids, i == 1 ? side_held[i] - 9 : side_held[i]);
		answer_to(t, side_held[i]);
		s->logits[i] = calloc((size_t)DEPTH * t->vocabulary, sizeof(float));
		s->of[i] = i;
		s->asks[i] = (struct draft_ask){.drafter = &t->d,
						.text = &t->x,
						.next = t->ids[side_held[i]],
						.account = &s->accounts[i]};
	}
}

static void sides_close(struct sides *s)
{
	for (uint32_t i = 1; i < SIDES; i++) {
		context_free(&s->t[i].x);
		drafter_free(&s->t[i].d);
	}
	text_close(&s->t[0]);
}

/* A depth of those that are left. */
static void side_depth(struct sides *s, uint32_t depth, uint32_t count)
{
	struct err e = {0};
	const struct draft_reader reader = {side_read, s};
	if ((depth ? drafter_next_together : drafter_first_together)(s->t[0].layer, s->asks, count,
								     &reader, &e))
		fail_msg("%s", e.text);
}

/* The first `depth` drafts of each are those that it makes alone. */
static void assert_side(struct sides *s, uint32_t i, uint32_t depth)
{
	struct text *t = &s->t[i];
	assert_int_equal(s->depth[i], depth);
	drafter_begin(&t->d, &t->x);
	float *want = draft(t, NULL);
	assert_memory_equal(s->logits[i], want, depth * t->vocabulary * sizeof *want);
	free(want);
	free(s->logits[i]);
}

static void drafters_side_by_side_draft_what_each_drafts_alone(void **state)
{
	(void)state;
	for (int k = 0; k < 2 * FIXTURES; k++) {
		struct sides s; /* with room for all rows in a pass, or for fewer than wait */
		sides_open(&s, fixtures[k / 2], k % 2 ? 5 : 0);
		for (uint32_t depth = 0; depth < DEPTH; depth++) {
			side_depth(&s, depth, depth < 2 ? SIDES : SIDES - 1);
			if (depth != 1)
				continue;
			for (uint32_t i = 0; i + 1 < SIDES; i++) { /* the first leaves */
				s.asks[i] = s.asks[i + 1];
				s.of[i] = i + 1;
			}
		}
		for (uint32_t i = 0; i < SIDES; i++)
			assert_side(&s, i, i ? DEPTH : 2);
		sides_close(&s);
	}
}

static void one_that_fails_or_is_stopped_leaves_the_others(void **state)
{
	(void)state;
	static const _Atomic bool stop = true;
	struct sides s;
	sides_open(&s, "qwen3_5_moe", 0);
	s.asks[0].next = s.t[0].vocabulary;
	s.accounts[2].stop = &stop;
	for (uint32_t depth = 0; depth < DEPTH; depth++)
		side_depth(&s, depth, SIDES);
	assert_int_equal(s.accounts[0].end, SPAN_FAILED);
	assert_int_equal(s.accounts[0].error.code, ERANGE);
	assert_true(s.t[0].d.resting);
	assert_false(drafter_ready(&s.t[0].d, &s.t[0].x));
	free(s.logits[0]);
	assert_int_equal(s.accounts[2].end, SPAN_STOPPED);
	assert_false(s.t[2].d.resting);
	assert_side(&s, 1, DEPTH);
	assert_side(&s, 2, 0);
	sides_close(&s);
}

/* ---- memory and failures ---- */

static void its_memory_is_counted_and_given_to_others(void **state)
{
	(void)state;
	struct text t;
	text_open(&t, "qwen3_5", &(struct engine_options){0});
	prompt(&t, t.ids, 30);
	context_rollback(&t.x, 0);
	assert_int_equal(engine_context_used(t.m.engine),
			 drafter_full_bytes(t.view.config, KV_F16, KV_BLOCK));
	assert_true(drafter_yield(&t.d));
	assert_int_equal(engine_context_used(t.m.engine), 0);
	assert_false(drafter_yield(&t.d));
	prompt(&t, t.ids, 10); /* it stops drafting */
	assert_false(drafter_ready(&t.d, &t.x));
	drafter_begin(&t.d, &t.x);
	prompt(&t, t.ids + 10, 10);
	assert_true(drafter_ready(&t.d, &t.x));
	text_close(&t);
}

static void without_memory_it_rests(void **state)
{
	(void)state;
	struct text t;
	struct err e = {0};
	text_open(&t, "qwen3_5", &(struct engine_options){0});
	struct context_budget *budget = t.view.context_budget;
	uint64_t limit = atomic_load(&budget->limit);
	assert_int_equal(context_reserve(&t.x, 40, &e), 0);
	atomic_store(&budget->limit, atomic_load(&budget->used));
	prompt(&t, t.ids, 10);
	assert_false(drafter_ready(&t.d, &t.x));
	assert_true(t.d.resting);
	atomic_store(&budget->limit, limit);
	text_close(&t);
}

static void a_draft_that_was_stopped_loses_nothing(void **state)
{
	(void)state;
	static const _Atomic bool stop = true;
	struct text t;
	struct step_account account = {.stop = &stop};
	text_open(&t, "qwen3_5_moe", &(struct engine_options){0});
	prompt(&t, t.ids, 10);
	struct draft_ask ask = {.account = &account};
	(void)draft_one(&t, 0, t.ids[10], &ask);
	assert_int_equal(account.end, SPAN_STOPPED);
	drafter_begin(&t.d, &t.x);
	assert_same_drafts(&t, draft(&t, NULL), fresh(&t, 10));
	text_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_decoding_s_drafts_agree_with_the_reference),
		cmocka_unit_test(it_is_the_same_however_the_text_was_cut),
		cmocka_unit_test(drafts_leave_no_trace),
		cmocka_unit_test(many_steps_without_a_draft_are_caught_up_with),
		cmocka_unit_test(after_a_rollback_it_drafts_as_if_the_text_had_never_been),
		cmocka_unit_test(rows_that_wait_are_taken_back_by_their_number),
		cmocka_unit_test(a_text_that_went_on_unfollowed_is_followed_from_there),
		cmocka_unit_test(of_a_text_that_is_not_followed_the_last_rows_are_known),
		cmocka_unit_test(its_memory_is_counted_and_given_to_others),
		cmocka_unit_test(without_memory_it_rests),
		cmocka_unit_test(a_draft_that_was_stopped_loses_nothing),
		cmocka_unit_test(drafters_side_by_side_draft_what_each_drafts_alone),
		cmocka_unit_test(one_that_fails_or_is_stopped_leaves_the_others),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
