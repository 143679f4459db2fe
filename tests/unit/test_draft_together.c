/* Answers that are drafted in company: several of a step, depth by depth, and each has the text
 * that it has alone, whoever is stopped or fails meanwhile.
 *
 * Whether "auto" drafts depends on time, so these tests tell the meter what everything costs,
 * before each step. What a test claims about a step it sees from test_watch, on the thread that
 * computes. */
#include "engine/admin/observe.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

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

enum { DRAFTERS = 4, STEP_MS = 1000000 /* longer than any prompt */ };

static const char *const prompts[DRAFTERS] = {"Once upon a time", "ab ab ab ab ab ab", "1 2 3 4",
					      "The old lighthouse"};

/* Sessions that answer together. */
struct drafters {
	struct test_model m;
	const char *const *draft;  /* the params of each */
	const char *param, *value; /* of all; NULL: none */
	struct session *s[DRAFTERS];
	struct answer *a[DRAFTERS];
	char *alone[DRAFTERS];	  /* their texts */
	struct draft_meter meter; /* before each step, if it is preset */
	bool preset;
	uint64_t drafted[DRAFTERS]; /* by draft layers and by lookup, until the last step */
	uint32_t most;		    /* sessions that were drafted in one step */
	bool stopped;		    /* the second one */
};

/* Drafts take next to nothing, and those of the draft layer nearly always stand. */
static void drafters_preset(struct drafters *x)
{
	struct draft_meter *m = &x->meter;
	m->credit = 100;
	for (uint32_t rows = 1; rows <= DRAFTERS * (DRAFT_MOST + 1); rows++)
		for (int times = 0; times < 3; times++)
			draft_costs_count(&m->company, rows, 0, 1 + 1e-3 * rows, false);
	for (uint32_t d = 1; d <= DRAFT_MOST; d++) {
		m->cost[d] = 1 + 1e-3 * d;
		m->kind[DRAFT_MTP].drafting[d] = 1e-3 * d;
		m->kind[DRAFT_MTP].stood[d] = 0.9;
		m->kind[DRAFT_MTP].seen[d] = m->kind[DRAFT_LOOKUP].seen[d] = 20;
	}
	draft_costs_count(&m->first_pass, 1, 0, 1e-3, false);
	m->turns = DRAFTERS;
	x->preset = true;
}

static uint64_t drafted_by(const struct session *s)
{
	struct session_stats st = test_stats(s);
	return st.drafted_by[DRAFT_MTP] + st.drafted_by[DRAFT_LOOKUP];
}

/* Before a step: looks at what the last one drafted. */
static void drafters_watch(void *ctx, const struct run_place *p)
{
	struct drafters *x = ctx;
	struct run *r = p->session->model->run;
	uint32_t drafting = 0;
	if (p != r->parties[0].places)
		return;
	for (uint32_t i = 0; i < DRAFTERS; i++) {
		uint64_t now = drafted_by(x->s[i]);
		drafting += now > x->drafted[i];
		x->drafted[i] = now;
	}
	x->most = drafting > x->most ? drafting : x->most;
	if (x->preset)
		r->draft_meter = x->meter;
}

static struct session *drafters_session(struct drafters *x, const char *draft)
{
	struct session *s = test_session(&x->m);
	test_set(s, "chat", "off");
	test_set(s, "draft", draft);
	test_set(s, "temperature", "0.6");
	test_set(s, "seed", "3");
	test_set(s, "max_tokens", "40");
	if (x->param)
		test_set(s, x->param, x->value);
	return s;
}

static void drafters_open(struct drafters *x, const char *directory, uint32_t chunk)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s", directory);
	test_model_open(&x->m, path, &(struct engine_options){.step_ms = STEP_MS, .chunk = chunk});
	test_wait_converted(x->m.model);
	test_model_load_calm(&x->m);
	for (uint32_t i = 0; i < DRAFTERS; i++) {
		struct session *s = drafters_session(x, "off");
		x->alone[i] = test_ask(s, prompts[i]);
		session_end(s);
	}
}

static void drafters_close(struct drafters *x)
{
	for (uint32_t i = 0; i < DRAFTERS; i++)
		free(x->alone[i]);
	test_model_close(&x->m);
}

/* Asks all of them so that they begin together. */
static void drafters_ask(struct drafters *x)
{
	for (uint32_t i = 0; i < DRAFTERS; i++) {
		x->s[i] = drafters_session(x, x->draft[i]);
		x->drafted[i] = 0;
	}
	test_hold(x->s[0], 0);
	for (uint32_t i = 0; i < DRAFTERS; i++)
		x->a[i] = test_submit(x->s[i], prompts[i]);
	test_wait_held();
	(void)test_most_together(); /* from now on */
	x->most = 0;
	test_watch(drafters_watch, x);
	test_let_go();
}

/* Waits for all, and checks the texts of those that were not stopped. So many had a step together,
 * at least. */
static void drafters_read(struct drafters *x, uint32_t least)
{
	for (uint32_t i = 0; i < DRAFTERS; i++) {
		int code;
		char *text = test_read(x->a[i], &code);
		assert_int_equal(code, 0);
		if (i == 1 && x->stopped)
			assert_string_equal(test_stats(x->s[i]).finish, "stopped");
		else
			assert_string_equal(text, x->alone[i]);
		free(text);
	}
	test_watch(NULL, NULL);
	assert_in_range(test_most_together(), least, DRAFTERS);
}

static void drafters_end(struct drafters *x)
{
	for (uint32_t i = 0; i < DRAFTERS; i++)
		session_end(x->s[i]);
}

static const char *const automatic[DRAFTERS] = {"auto", "auto", "auto", "auto"};
static const char *const same[DRAFTERS] = {"mtp 4", "mtp 4", "mtp 4", "mtp 4"};
static const char *const asked[DRAFTERS] = {"mtp 3", "mtp 2", "mtp 4", "mtp 3"};

/* ---- texts ---- */

/* least: of the sessions, as some texts are short. Returns how many drafts stood. */
static uint64_t assert_drafted_together(const char *model, uint32_t least)
{
	struct drafters x = {.draft = automatic};
	uint64_t stood = 0;
	drafters_open(&x, model, 0);
	drafters_preset(&x);
	drafters_ask(&x);
	drafters_read(&x, least);
	assert_in_range(x.most, least, DRAFTERS);
	for (uint32_t i = 0; i < DRAFTERS; i++)
		stood += test_stats(x.s[i]).draft_stood_by[DRAFT_MTP];
	drafters_end(&x);
	drafters_close(&x);
	return stood;
}

static void in_company_auto_drafts_for_all_and_changes_no_text(void **state)
{
	(void)state;
	assert_drafted_together(test_fixture("qwen3_5_moe"), DRAFTERS);
}

static void drafts_of_a_company_stand(void **state)
{
	(void)state;
	const char *trained = shared_data("models/fable-hybrid-18m");
	if (!trained)
		skip();
	assert_true(assert_drafted_together(trained, 2) > 0);
}

/* Four tokens alone are drawn, so that the text repeats itself. */
static void what_each_asks_for_is_drafted_beside_the_others(void **state)
{
	(void)state;
	static const char *const mixed[DRAFTERS] = {"auto", "mtp 3", "lookup 2", "off"};
	struct drafters x = {
		.draft = mixed, .param = "logit_bias", .value = "300 90\n301 90\n302 90\n303 90"};
	drafters_open(&x, test_fixture("qwen3_5_moe"), 0);
	drafters_preset(&x);
	drafters_ask(&x);
	drafters_read(&x, DRAFTERS);
	assert_int_equal(x.most, 3);
	assert_true(test_stats(x.s[0]).drafted_by[DRAFT_MTP] > 0);
	assert_true(test_stats(x.s[1]).drafted[2] > 0);
	assert_true(test_stats(x.s[2]).drafted_by[DRAFT_LOOKUP] > 0);
	assert_int_equal(x.drafted[3], 0);
	drafters_end(&x);
	drafters_close(&x);
}

/* A step of 7 rows has all four sessions, and room for three drafts, which they get in turn. */
static void a_short_step_has_all_sessions_and_shares_the_rest(void **state)
{
	(void)state;
	struct drafters x = {.draft = asked};
	drafters_open(&x, test_fixture("qwen3_5_moe"), 7);
	drafters_ask(&x);
	drafters_read(&x, DRAFTERS);
	assert_int_equal(x.most, 3);
	for (uint32_t i = 0; i < DRAFTERS; i++)
		assert_true(test_stats(x.s[i]).drafted[0] > 0);
	drafters_end(&x);
	drafters_close(&x);
}

/* ---- who leaves ---- */

/* Stops the second session when the first two have one drafted token: between the first depth and
 * the third. */
static void drafters_stop_one(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			      uint32_t n, uint32_t width, const float *rows)
{
	struct drafters *x = ctx;
	(void)point, (void)layer, (void)position, (void)n, (void)width, (void)rows;
	const struct turn_state *first = x->s[0]->turn, *second = x->s[1]->turn;
	if (x->stopped || !first || !second || first->draft.choice.depth != 1 ||
	    second->draft.choice.depth != 1)
		return;
	session_stop(x->s[1]);
	x->stopped = true;
}

static void who_is_stopped_between_two_depths_leaves_the_others_drafts(void **state)
{
	(void)state;
	struct drafters x = {.draft = same};
	struct model_view view;
	drafters_open(&x, test_fixture("qwen3_5_moe"), 0);
	observe_model(x.m.model, &view);
	view.forward->env.tap_ctx = &x;
	view.forward->env.tap = drafters_stop_one;
	drafters_ask(&x);
	drafters_read(&x, DRAFTERS - 1); /* one is stopped before the last has begun */
	view.forward->env.tap = NULL;
	assert_true(x.stopped);
	assert_int_equal(session_status(x.s[1]), SESSION_STOPPED);
	for (uint32_t i = 0; i < DRAFTERS; i++)
		assert_true(i == 1 || test_stats(x.s[i]).drafted[3] > 0);
	drafters_end(&x);
	drafters_close(&x);
}

/* ---- an expert of the draft layer that cannot be read ---- */

struct damage { /* bytes of an expert in the store, and out of memory */
	struct store_extent place;
	uint8_t *bytes;
};

static void damage_write(const struct damage *d, const uint8_t *bytes)
{
	char path[64];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", d->place.fd);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, d->place.bytes, (off_t)d->place.offset), d->place.bytes);
	assert_int_equal(close(fd), 0);
}

static void damage_begin(struct damage *d, const struct model_view *view, uint32_t expert)
{
	struct err e;
	const struct pager_id id = {view->plan->routed_of[view->config->layers], expert};
	d->place = store_expert(view->store, id.layer, id.expert);
	d->bytes = malloc(d->place.bytes);
	uint8_t *noise = malloc(d->place.bytes);
	assert_true(d->bytes && noise);
	assert_int_equal(pread(d->place.fd, d->bytes, d->place.bytes, (off_t)d->place.offset),
			 d->place.bytes);
	for (size_t i = 0; i < d->place.bytes; i++)
		noise[i] = d->bytes[i] ^ 0x55;
	damage_write(d, noise);
	free(noise);
	if (pager_evict(view->experts, &id, 1, &e))
		fail_msg("%s", e.text);
}

static void damage_end(struct damage *d)
{
	damage_write(d, d->bytes);
	free(d->bytes);
}

/* Whether somebody had drafts after somebody else's had failed: all ask for as many in a step. */
static bool drafters_went_on(const struct drafters *x)
{
	uint64_t least = UINT64_MAX, most = 0;
	bool rests = false;
	for (uint32_t i = 0; i < DRAFTERS; i++) {
		uint64_t drafted = drafted_by(x->s[i]);
		rests |= observe_drafter(x->s[i])->resting;
		least = drafted < least ? drafted : least;
		most = drafted > most ? drafted : most;
	}
	return rests && most > least + DRAFT_MOST;
}

/* One expert for each token: not all sessions need it at once. */
static void a_draft_expert_that_cannot_be_read_fails_no_session(void **state)
{
	(void)state;
	struct drafters x = {.draft = same, .param = "experts_per_token", .value = "1"};
	struct model_view view;
	uint32_t went_on = 0;
	drafters_open(&x, test_fixture("qwen3_5_moe"), 0);
	observe_model(x.m.model, &view);
	for (uint32_t expert = 0; expert < 6; expert++) {
		struct damage d;
		damage_begin(&d, &view, expert);
		drafters_ask(&x);
		drafters_read(&x, DRAFTERS);
		went_on += drafters_went_on(&x);
		drafters_end(&x);
		damage_end(&d);
	}
	assert_true(went_on > 0);
	drafters_close(&x);
}

#define TEST(f) cmocka_unit_test_teardown(f, test_end_watch)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(in_company_auto_drafts_for_all_and_changes_no_text),
		TEST(drafts_of_a_company_stand),
		TEST(what_each_asks_for_is_drafted_beside_the_others),
		TEST(a_short_step_has_all_sessions_and_shares_the_rest),
		TEST(who_is_stopped_between_two_depths_leaves_the_others_drafts),
		TEST(a_draft_expert_that_cannot_be_read_fails_no_session),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
