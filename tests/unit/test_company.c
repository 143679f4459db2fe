/* Sessions in company, as a whole run has them: many at once, of different kinds, with too little
 * memory, on a bad disk, and with users who stop, remove and ask again. Each has the text that it
 * has alone, and its fair share of the steps.
 *
 * What a test claims about an order it sees from test_watch, on the thread that computes: that has
 * no assertions of its own, since those end a test on the test's thread only. */
#include "memory_help.h"
#include "random.h"
#include "session_help.h"

#include "engine/admin/observe.h"
#include "engine/model/engine_state.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Milliseconds that answers wait for a prompt: longer than any. So it does not depend on time who
 * has a step together. */
enum { STEP_MS = 1000000 };

/* What a session is asked, and how. */
struct visitor {
	const char *prompt;
	const char *params[10]; /* name and value, name and value */
	bool scores;
};

static const char schema[] = "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": "
			     "\"string\", \"maxLength\": 8}, \"age\": {\"type\": \"integer\"}}, "
			     "\"required\": [\"name\", \"age\"], \"additionalProperties\": false}";

static const struct visitor plain = {"What is the capital of France?", {"draft", "off"}, false};
static const struct visitor fox = {
	"Once upon a time there was a fox who lived",
	{"chat", "off", "max_tokens", "90", "draft", "off"},
	false,
};
static const struct visitor drafts = {
	"A fox, a fox, a fox, a fox,",
	{"chat", "off", "max_tokens", "33", "draft", "lookup 3"},
	false,
};
static const struct visitor regex = {
	"Say a number.", {"format", "regex", "grammar", "[0-9]{12}"}, false};
static const struct visitor json = {
	"Write JSON for Leo, 33 years old.", {"format", "schema", "grammar", schema}, false};
/* Two ways to ask for one grammar: a mask that one of them needs may be there already. */
static const char words_of_letters[] = "([a-z]{1,9}[ .,])*";
static const struct visitor letters = {
	"Say a word.",
	{"format", "regex", "grammar", words_of_letters, "max_tokens", "30", "temperature", "0.9",
	 "seed", "3"},
	false,
};
static const struct visitor drafted_letters = {
	"a fox, a fox, a fox, a fox,",
	{"format", "regex", "grammar", words_of_letters, "max_tokens", "30", "draft", "lookup 3"},
	false,
};
static const struct visitor fewer = {
	"What is the plural of leaf?", {"experts_per_token", "2"}, false};
static const struct visitor random_text = {
	"What is the capital of Peru?", {"temperature", "0.8", "seed", "7"}, false};
/* Tells 90 tokens, whatever the weights. */
static const struct visitor digits = {
	"Say digits.",
	{"format", "regex", "grammar", "([0-9] ){300}", "max_tokens", "90", "draft", "off"},
	false,
};
static const struct visitor score = {
	"One word after another stands in this text that is scored.", {NULL}, true};

static struct session *visitor_session(struct test_model *m, const struct visitor *v)
{
	struct session *s = test_greedy_session(m);
	for (size_t i = 0; i < 10 && v->params[i]; i += 2)
		test_set(s, v->params[i], v->params[i + 1]);
	return s;
}

static int visitor_try(struct session *s, const struct visitor *v, struct answer **a, struct err *e)
{
	return v->scores ? session_score(s, v->prompt, strlen(v->prompt), a, e)
			 : session_submit(s, v->prompt, strlen(v->prompt), a, e);
}

static struct answer *visitor_ask(struct session *s, const struct visitor *v)
{
	struct answer *a;
	struct err e;
	if (visitor_try(s, v, &a, &e))
		fail_msg("%s: %s", v->prompt, e.text);
	return a;
}

/* The whole text of an answer that must succeed. */
static char *visitor_read(struct session *s, struct answer *a)
{
	int code;
	char *text = test_read(a, &code), words[1024];
	session_error(s, words, sizeof words);
	if (code)
		fail_msg("%s", words);
	assert_true(*text);
	return text;
}

static char *visitor_alone(struct test_model *m, const struct visitor *v)
{
	struct session *s = visitor_session(m, v);
	char *text = visitor_read(s, visitor_ask(s, v));
	session_end(s);
	return text;
}

/* An answer that was cut short has the beginning of its text, and a newline. */
static void assert_beginning(const char *cut, const char *whole)
{
	size_t n = strlen(cut);
	if (n && cut[n - 1] == '\n')
		n--;
	if (strncmp(cut, whole, n) != 0)
		fail_msg("\"%s\" does not begin \"%s\"", cut, whole);
}

/* The first session of a step that is not between the layers of another one. */
static bool is_first_place(const struct run_place *p)
{
	return p == p->session->model->run->parties[0].places;
}

/* ---- an expert that cannot be read ---- */

enum { LAYERS = 8, EXPERTS = 32 }; /* of the demonstration model */

static const struct visitor *const readers[] = {
	&plain, &fox,	&drafts,
	&regex, &fewer, &random_text,
	&score, &json,	&(const struct visitor){"What is 12 x 6?", {NULL}, false},
};
enum { READERS = sizeof readers / sizeof *readers };

struct needs {
	bool of[LAYERS][EXPERTS]; /* by a row that is not a draft's */
};

static void ignore(void *ctx)
{
	(void)ctx;
}

static void needs_add_line(struct needs *x, const char *line)
{
	char name[32], kind[16];
	unsigned position, layer, expert;
	int at, n;
	assert_int_equal(sscanf(line, "%31s %u %15s %u%n", name, &position, kind, &layer, &at), 4);
	if (!strcmp(kind, "draft"))
		return;
	assert_true(layer < LAYERS);
	for (line += at; sscanf(line, " %u%n", &expert, &n) == 1; line += n) {
		assert_true(expert < EXPERTS);
		x->of[layer][expert] = true;
		n += line[n] == '*';
	}
}

/* Which experts a visitor's rows need, and the text that it has alone. */
static char *needs_find(struct needs *x, const struct visitor *v)
{
	struct trace_reader *t;
	struct err e;
	char *lines = malloc(TRACE_READ_BYTES + 1);
	size_t n;
	*x = (struct needs){0};
	assert_non_null(lines);
	if (model_trace_open(&t, fable.model, NULL, ignore, NULL, &e))
		fail_msg("%s", e.text);
	char *text = visitor_alone(&fable, v);
	while ((n = model_trace_read(t, lines, TRACE_READ_BYTES))) {
		lines[n] = 0;
		for (char *at, *line = strtok_r(lines, "\n", &at); line;
		     line = strtok_r(NULL, "\n", &at))
			needs_add_line(x, line);
	}
	model_trace_close(t);
	free(lines);
	return text;
}

/* The expert of a layer for which those who need it and the others are the most alike in number.
 * Returns how many are in the smaller group. */
static uint32_t needs_divide(const struct needs x[READERS], uint32_t layer, uint32_t *expert)
{
	uint32_t best = 0;
	for (uint32_t i = 0; i < EXPERTS; i++) {
		uint32_t users = 0, least;
		for (size_t k = 0; k < READERS; k++)
			users += x[k].of[layer][i];
		least = users < READERS - users ? users : READERS - users;
		if (least > best) {
			best = least;
			*expert = i;
		}
	}
	return best;
}

/* Bytes of an expert in the store, and out of memory. */
struct damage {
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

static void damage_begin(struct damage *d, uint32_t layer, uint32_t expert)
{
	struct model_view view;
	struct err e;
	observe_model(fable.model, &view);
	const struct pager_id id = {view.plan->routed_of[layer], expert};
	d->place = store_expert(view.store, id.layer, id.expert);
	d->bytes = malloc(d->place.bytes);
	uint8_t *noise = malloc(d->place.bytes);
	assert_true(d->bytes && noise);
	assert_int_equal(pread(d->place.fd, d->bytes, d->place.bytes, (off_t)d->place.offset),
			 d->place.bytes);
	for (size_t i = 0; i < d->place.bytes; i++)
		noise[i] = d->bytes[i] ^ 0x55;
	damage_write(d, noise);
	free(noise);
	if (pager_evict(view.experts, &id, 1, &e))
		fail_msg("%s", e.text);
}

static void damage_end(struct damage *d)
{
	damage_write(d, d->bytes);
	free(d->bytes);
}

static void assert_lost(struct session *s, struct answer *a, uint32_t layer, uint32_t expert,
			const char *alone)
{
	int code;
	char *text = test_read(a, &code), words[1024], want[64];
	(void)snprintf(want, sizeof want, "layer %u expert %u", layer, expert);
	session_error(s, words, sizeof words);
	assert_int_equal(code, -EIO);
	assert_int_equal(session_status(s), SESSION_ERROR);
	assert_string_equal(test_stats(s).finish, "error");
	if (!strstr(words, want))
		fail_msg("\"%s\" does not name %s", words, want);
	assert_beginning(text, alone);
	free(text);
}

static void damage_one(const struct needs needs[READERS], char *const alone[READERS],
		       uint32_t layer, uint32_t expert)
{
	struct session *s[READERS];
	struct answer *a[READERS];
	struct damage d;
	for (size_t i = 0; i < READERS; i++)
		s[i] = visitor_session(&fable, readers[i]);
	damage_begin(&d, layer, expert);
	test_hold(s[0], 0);
	for (size_t i = 0; i < READERS; i++)
		a[i] = visitor_ask(s[i], readers[i]);
	test_wait_held();
	test_let_go();
	for (size_t i = 0; i < READERS; i++)
		if (needs[i].of[layer][expert])
			assert_lost(s[i], a[i], layer, expert, alone[i]);
		else
			test_same_text(visitor_read(s[i], a[i]), strdup(alone[i]));
	damage_end(&d);
	for (size_t i = 0; i < READERS; i++) { /* as if the turn had never been there */
		if (needs[i].of[layer][expert])
			test_same_text(visitor_read(s[i], visitor_ask(s[i], readers[i])),
				       strdup(alone[i]));
		session_end(s[i]);
	}
}

static void an_expert_that_cannot_be_read_fails_only_sessions_that_need_it(void **state)
{
	(void)state;
	struct needs *needs = calloc(READERS, sizeof *needs);
	char *alone[READERS];
	uint32_t expert = 0, rounds = 0;
	assert_non_null(needs);
	for (size_t i = 0; i < READERS; i++)
		alone[i] = needs_find(&needs[i], readers[i]);
	(void)test_most_together(); /* from now on */
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		if (needs_divide(needs, layer, &expert) >= 2) {
			damage_one(needs, alone, layer, expert);
			rounds++;
		}
	assert_true(rounds >= 3);
	assert_true(test_most_together() >= 4);
	for (size_t i = 0; i < READERS; i++)
		free(alone[i]);
	free(needs);
}

/* ---- many at once ---- */

enum { CROWD_MOST = 1000 };

struct crowd {
	struct test_model m;
	struct session *gate; /* the turn that is held until all are asked */
	uint32_t size;
	uint64_t budget;  /* bytes */
	bool prioritised; /* the sessions have all three priorities, one after the other */
	struct session *s[CROWD_MOST];
	struct answer *a[CROWD_MOST];
	const struct session *begun[CROWD_MOST]; /* in the order in which their turns began */
	uint32_t count;				 /* of those */
	uint64_t most_used;			 /* bytes of contexts before a step */
};

static const struct visitor *const crowd_kinds[] = {&plain, &fox, &drafts, &regex, &score};
enum { CROWD_KINDS = sizeof crowd_kinds / sizeof *crowd_kinds };

static void crowd_watch(void *ctx, const struct run_place *p)
{
	struct crowd *c = ctx;
	uint64_t used = engine_context_used(c->m.engine);
	if (used > c->most_used)
		c->most_used = used;
	if (!p->session->turn->admitted && p->session != c->gate && c->count < c->size)
		c->begun[c->count++] = p->session;
}

/* All are asked before one of their turns has begun. */
static void crowd_ask(struct crowd *c)
{
	test_model_ready(&c->m, test_fable(),
			 &(struct engine_options){.context_budget = c->budget});
	for (uint32_t i = 0; i < c->size; i++) {
		c->s[i] = visitor_session(&c->m, crowd_kinds[i % CROWD_KINDS]);
		if (c->prioritised)
			test_set(c->s[i], "priority",
				 session_priority_words[i % SESSION_PRIORITIES]);
	}
	c->gate = visitor_session(&c->m, &plain);
	answer_unref(test_submit_held(c->gate, "Wait.", 0));
	for (uint32_t i = 0; i < c->size; i++)
		c->a[i] = visitor_ask(c->s[i], crowd_kinds[i % CROWD_KINDS]);
	test_watch(crowd_watch, c);
	test_let_go();
}

/* Those of a priority began in the order in which they were asked. */
static void assert_crowd_in_order(const struct crowd *c)
{
	uint32_t step = c->prioritised ? SESSION_PRIORITIES : 1, next[SESSION_PRIORITIES] = {0};
	assert_int_equal(c->count, c->size);
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t rank = 0;
		while (rank < step && (next[rank] * step + rank >= c->size ||
				       c->begun[i] != c->s[next[rank] * step + rank]))
			rank++;
		assert_in_range(rank, 0, step - 1);
		next[rank]++;
	}
}

static void crowd_is_answered(struct crowd *c)
{
	char *alone[CROWD_KINDS];
	for (size_t i = 0; i < CROWD_KINDS; i++)
		alone[i] = visitor_alone(&fable, crowd_kinds[i]);
	crowd_ask(c);
	for (uint32_t i = 0; i < c->size; i++) {
		char *text = visitor_read(c->s[i], c->a[i]);
		assert_string_equal(text, alone[i % CROWD_KINDS]);
		free(text);
	}
	test_watch(NULL, NULL);
	assert_crowd_in_order(c);
	/* It was full. */
	assert_in_range(c->most_used, c->budget - TEST_BLOCK_BYTES + 1, c->budget);
	session_end(c->gate);
	for (uint32_t i = 0; i < c->size; i++)
		session_end(c->s[i]);
	for (size_t i = 0; i < CROWD_KINDS; i++)
		free(alone[i]);
	model_close(c->m.model);
	assert_int_equal(engine_context_used(c->m.engine), 0);
	engine_destroy(c->m.engine);
}

static void a_crowd_is_answered_in_order_and_within_the_memory(void **state)
{
	(void)state;
	struct crowd c = {.size = SANITIZED ? 60 : 200, .budget = 3 * TEST_BLOCK_BYTES};
	crowd_is_answered(&c);
}

/* The prompts have a block each, and some answers grow into a second one. */
static void a_thousand_are_answered_with_contexts_for_thirty(void **state)
{
	(void)state;
	struct crowd c = {.size = SANITIZED ? 120 : CROWD_MOST,
			  .budget = 30 * TEST_BLOCK_BYTES,
			  .prioritised = true};
	crowd_is_answered(&c);
}

/* Not even its first step is computed, for which there is room. */
static void a_prompt_without_room_is_not_begun(void **state)
{
	(void)state;
	struct test_model m;
	char prompt[1200] = "";
	int code;
	for (size_t i = 0; i < 100; i++)
		strcat(prompt, "and a fox ");
	test_model_ready(
		&m, test_fable(),
		&(struct engine_options){.context_budget = 2 * TEST_BLOCK_BYTES, .chunk = 32});
	struct session *s = test_greedy_session(&m);
	test_set(s, "chat", "off");
	free(test_read(test_submit(s, prompt), &code));
	assert_int_equal(code, -EIO);
	struct session_stats st = test_stats(s);
	assert_true(st.prompt_tokens > 3 * 64);
	assert_int_equal(st.context_tokens, 0);
	assert_true(st.prefill_seconds == 0);
	session_end(s);
	test_model_close(&m);
}

/* ---- who waits for room ---- */

/* Two sessions that tell the same, and contexts for one block each and for another one: when both
 * have told 64 tokens, the second one waits until the first has ended. */
struct pair {
	struct test_model m;
	struct session *s[2];
	bool stopped;	/* the second one was told to stop */
	uint32_t steps; /* of the first one since then, until the second one had stopped */
};

static void pair_open(struct pair *x)
{
	test_model_ready(&x->m, test_fable(),
			 &(struct engine_options){.context_budget = 3ULL * TEST_BLOCK_BYTES,
						  .step_ms = STEP_MS});
	for (size_t i = 0; i < 2; i++)
		x->s[i] = visitor_session(&x->m, &digits);
}

static void pair_stop(struct pair *x)
{
	session_stop(x->s[1]);
	x->stopped = true;
}

/* Both are asked together, and the first one's text must be what it is alone. */
static void pair_run(struct pair *x, void (*watch)(void *ctx, const struct run_place *p))
{
	struct answer *a[2];
	char *alone = visitor_alone(&fable, &digits), *text;
	int code;
	test_hold(x->s[0], 0);
	for (size_t i = 0; i < 2; i++)
		a[i] = visitor_ask(x->s[i], &digits);
	test_wait_held();
	test_watch(watch, x);
	test_let_go();
	text = test_read(a[1], &code);
	assert_int_equal(code, 0);
	assert_beginning(text, alone);
	free(text);
	test_same_text(visitor_read(x->s[0], a[0]), alone);
	test_watch(NULL, NULL);
}

static void pair_close(struct pair *x)
{
	for (size_t i = 0; i < 2; i++)
		session_end(x->s[i]);
	test_model_close(&x->m);
}

static bool pair_waits(struct pair *x)
{
	struct run *r = x->m.model->run;
	pthread_mutex_lock(&r->lock);
	bool waits = x->s[1]->waits_for_room;
	pthread_mutex_unlock(&r->lock);
	return waits;
}

static void pair_stop_who_waits(void *ctx, const struct run_place *p)
{
	struct pair *x = ctx;
	(void)p;
	if (!x->stopped && pair_waits(x))
		pair_stop(x);
}

static void who_is_stopped_while_it_waits_for_room_stays_stopped(void **state)
{
	(void)state;
	struct pair x = {0};
	pair_open(&x);
	pair_run(&x, pair_stop_who_waits);
	assert_true(x.stopped);
	assert_int_equal(session_status(x.s[1]), SESSION_STOPPED);
	assert_string_equal(test_stats(x.s[1]).finish, "stopped");
	pair_close(&x);
}

/* In the step for which the second one finds no room. */
static void pair_stop_in_step(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			      uint32_t n, uint32_t width, const float *rows)
{
	struct pair *x = ctx;
	const struct step_account *second = &x->s[1]->account;
	(void)point, (void)layer, (void)position, (void)n, (void)width, (void)rows;
	if (!x->stopped && second->end == SPAN_FAILED && second->error.code == ENOSPC)
		pair_stop(x);
}

static void pair_count_steps(void *ctx, const struct run_place *p)
{
	struct pair *x = ctx;
	x->steps += x->stopped && p->session == x->s[0] && session_working(x->s[1]);
}

static void a_stop_does_not_wait_for_room(void **state)
{
	(void)state;
	struct pair x = {0};
	struct model_view view;
	pair_open(&x);
	observe_model(x.m.model, &view);
	view.forward->env.tap = pair_stop_in_step;
	view.forward->env.tap_ctx = &x;
	pair_run(&x, pair_count_steps);
	view.forward->env.tap = NULL;
	assert_true(x.stopped);
	assert_in_range(x.steps, 0, 2);
	assert_int_equal(session_status(x.s[1]), SESSION_STOPPED);
	pair_close(&x);
}

/* Texts of three blocks, which are all that there are, read in pieces of half a block: each of them
 * is in the way of the others, and of answers that grow. */
static void long_texts_find_room_one_after_the_other(void **state)
{
	(void)state;
	enum { BYTES = 440, KINDS = 3, COUNT = 5, PAIRS = 1 << COUNT, ORDERS = 2 * PAIRS };
	static const struct engine_options options = {.context_budget = 3ULL * TEST_BLOCK_BYTES,
						      .chunk = 16};
	char prompt[BYTES + 1] = {0}, *alone[KINDS];
	for (size_t i = 0; i + 10 <= BYTES; i += 10)
		memcpy(prompt + i, i % 40 ? "Words ask " : "A fox ran ", 10);
	const struct visitor long_score = {prompt, {NULL}, true},
			     long_prompt = {prompt, {"max_tokens", "6", "chat", "off"}, false},
			     *const kinds[KINDS] = {&long_prompt, &long_score, &fox};
	struct random random = {1};
	struct test_model m;
	for (size_t i = 0; i < KINDS; i++)
		alone[i] = visitor_alone(&fable, kinds[i]);
	test_model_ready(&m, test_fable(), &options);
	m.engine->options.step_ms = 0; /* answers continue after each layer of a prompt */
	for (uint32_t order = 0; order < ORDERS; order += SANITIZED ? 7 : 1) {
		struct session *s[COUNT];
		struct answer *a[COUNT];
		uint32_t kind[COUNT]; /* in every order of two kinds, and in some of three */
		for (size_t i = 0; i < COUNT; i++)
			kind[i] =
				order < PAIRS ? 1 + (order >> i & 1) : random_u32(&random) % KINDS;
		for (size_t i = 0; i < COUNT; i++)
			s[i] = visitor_session(&m, kinds[kind[i]]);
		test_hold(s[0], 0);
		for (size_t i = 0; i < COUNT; i++)
			a[i] = visitor_ask(s[i], kinds[kind[i]]);
		test_wait_held();
		test_let_go();
		for (size_t i = 0; i < COUNT; i++)
			test_same_text(visitor_read(s[i], a[i]), strdup(alone[kind[i]]));
		for (size_t i = 0; i < COUNT; i++)
			session_end(s[i]);
	}
	for (size_t i = 0; i < KINDS; i++)
		free(alone[i]);
	test_model_close(&m);
}

/* ---- stopped, removed and asked again at random ---- */

enum { CALLERS = 20, ACTS = SANITIZED ? 150 : 500 };

static const struct visitor *const callers[] = {
	&plain,	      &fox,    &drafts,	 &regex,	   &json,  &fewer,   &score, &fox,
	&random_text, &drafts, &letters, &drafted_letters, &regex, &letters, &json,  &digits,
};
enum { CALLER_KINDS = sizeof callers / sizeof *callers };

/* An answer that somebody asked for, and whether it was cut short. */
struct visit {
	size_t kind;
	struct session *session; /* until it is asked again, or removed */
	struct answer *answer;
	bool cut;
};

/* (lock) */
struct chaos {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct random random;
	struct test_model m;
	struct visit now[CALLERS], past[ACTS];
	uint32_t past_count, acts, handed; /* acts that the second thread is to do */
	uint32_t stops, removals, again;
	bool over;
	struct err failed; /* an act, in words */
};

static bool visit_is_complete(const struct visit *v)
{
	bool complete;
	(void)answer_size(v->answer, &complete);
	return complete;
}

static void chaos_ask(struct chaos *c, struct visit *v)
{
	if (visitor_try(v->session, callers[v->kind], &v->answer, &c->failed))
		c->over = true;
	v->cut = false;
}

/* Its answer is kept, to be looked at in the end. */
static void chaos_keep(struct chaos *c, const struct visit *v)
{
	c->past[c->past_count] = *v;
	c->past[c->past_count++].session = NULL;
}

static void chaos_act_at_rest(struct chaos *c, struct visit *v)
{
	struct err busy; /* its last step has not ended */
	if (session_reset(v->session, &busy))
		return;
	chaos_keep(c, v);
	chaos_ask(c, v);
	c->again++;
}

static void chaos_remove(struct chaos *c, struct visit *v)
{
	v->cut = true;
	chaos_keep(c, v);
	session_end(v->session);
	v->session = visitor_session(&c->m, callers[v->kind]);
	chaos_ask(c, v);
	c->removals++;
}

/* The lock is held. */
static void chaos_act(struct chaos *c)
{
	struct visit *v = &c->now[random_u32(&c->random) % CALLERS];
	if (c->over || c->acts == ACTS)
		return;
	c->acts++;
	if (visit_is_complete(v)) {
		chaos_act_at_rest(c, v);
	} else if (random_u32(&c->random) % 2) {
		v->cut = true;
		session_stop(v->session);
		c->stops++;
	} else {
		chaos_remove(c, v);
	}
}

/* Before a session's step: half of what is done is done here, between the steps, and half by the
 * second thread while the step is computed. */
static void chaos_watch(void *ctx, const struct run_place *p)
{
	struct chaos *c = ctx;
	(void)p;
	pthread_mutex_lock(&c->lock);
	uint32_t draw = random_u32(&c->random) % 8;
	if (draw == 0)
		chaos_act(c);
	c->handed += draw == 1;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void *chaos_second_thread(void *arg)
{
	struct chaos *c = arg;
	pthread_mutex_lock(&c->lock);
	while (!c->over) {
		for (; c->handed; c->handed--)
			chaos_act(c);
		pthread_cond_wait(&c->changed, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* Waits until all have been answered and nobody acts any more. */
static void chaos_wait(struct chaos *c)
{
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < CALLERS && !c->over;) {
		struct answer *a = answer_ref(c->now[i].answer);
		bool complete = visit_is_complete(&c->now[i]);
		pthread_mutex_unlock(&c->lock);
		test_wait(a);
		answer_unref(a);
		pthread_mutex_lock(&c->lock);
		i = complete ? i + 1 : 0;
	}
	c->over = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void visit_check(struct visit *v, const char *alone)
{
	int code;
	char *text = test_read(v->answer, &code);
	if (!v->cut) {
		assert_int_equal(code, 0);
		assert_string_equal(text, alone);
	} else if (!callers[v->kind]->scores) { /* of a score, the lines so far */
		assert_beginning(text, alone);
	}
	free(text);
}

static void chaos_run(uint64_t seed, char *const alone[CALLER_KINDS])
{
	struct chaos *c = calloc(1, sizeof *c);
	pthread_t second;
	assert_non_null(c);
	c->random.state = seed;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	test_model_ready(
		&c->m, test_fable(),
		&(struct engine_options){.context_budget = 8ULL * TEST_BLOCK_BYTES, .chunk = 32});
	for (size_t i = 0; i < CALLERS; i++) {
		c->now[i].kind = i % CALLER_KINDS;
		c->now[i].session = visitor_session(&c->m, callers[i % CALLER_KINDS]);
	}
	test_hold(c->now[0].session, 0);
	for (size_t i = 0; i < CALLERS; i++)
		chaos_ask(c, &c->now[i]);
	test_wait_held();
	test_watch(chaos_watch, c);
	assert_int_equal(pthread_create(&second, NULL, chaos_second_thread, c), 0);
	test_let_go();
	chaos_wait(c);
	assert_int_equal(pthread_join(second, NULL), 0);
	test_watch(NULL, NULL);
	if (c->failed.code)
		fail_msg("%s", c->failed.text);
	assert_true(c->stops && c->removals && c->again);
	for (size_t i = 0; i < c->past_count; i++)
		visit_check(&c->past[i], alone[c->past[i].kind]);
	for (size_t i = 0; i < CALLERS; i++) {
		visit_check(&c->now[i], alone[c->now[i].kind]);
		session_end(c->now[i].session);
	}
	model_close(c->m.model);
	assert_int_equal(engine_context_used(c->m.engine), 0);
	engine_destroy(c->m.engine);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void who_is_stopped_removed_or_asked_again_disturbs_nobody(void **state)
{
	(void)state;
	char *alone[CALLER_KINDS];
	for (size_t i = 0; i < CALLER_KINDS; i++)
		alone[i] = visitor_alone(&fable, callers[i]);
	for (uint64_t seed = 1; seed <= (SANITIZED ? 2 : 6); seed++)
		chaos_run(seed, alone);
	for (size_t i = 0; i < CALLER_KINDS; i++)
		free(alone[i]);
}

/* ---- all kinds together ---- */

static const struct visitor *const kinds_together[] = {&drafts, &regex, &json,	      &fewer,
						       &score,	&fox,	&random_text, &plain};
enum { TOGETHER = sizeof kinds_together / sizeof *kinds_together };

struct medley {
	struct test_model m;
	struct model *exact;			 /* another model of the same engine */
	_Atomic uint32_t exact_steps, meanwhile; /* of the latter: while others have turns */
};

static void medley_watch(void *ctx, const struct run_place *p)
{
	struct medley *x = ctx;
	if (p->session->model != x->exact)
		return;
	x->meanwhile += model_working(x->m.model);
	x->exact_steps++; /* from now on the test's thread lets the others go, too */
	test_let_go();	  /* the others, who wait for this one's first step */
}

static void medley_open(struct medley *x)
{
	struct err e;
	test_model_ready(&x->m, test_fable(),
			 &(struct engine_options){.budget = 2 << 20, .step_ms = STEP_MS});
	test_wait_converted(x->m.model);
	struct recipe as_others = x->m.engine->recipe;
	recipe_make_exact(&x->m.engine->recipe);
	int failed = model_open(&x->exact, x->m.engine, test_fable(), &e);
	x->m.engine->recipe = as_others;
	if (failed)
		fail_msg("%s", e.text);
	test_wait_converted(x->exact);
}

static void kinds_that_share_nothing_but_the_machine_change_nothing_of_each_other(void **state)
{
	(void)state;
	static const struct visitor dropper = {
		"Once upon a time there was a king who had",
		{"chat", "off", "max_tokens", "40", "drop_missing", "0.4"},
		false,
	};
	static const struct timespec moment = {.tv_nsec = 1000000};
	struct medley x = {0};
	struct session *s[TOGETHER], *exact, *drops;
	struct answer *a[TOGETHER], *exactly, *dropped;
	char *alone[TOGETHER], *exact_alone;
	medley_open(&x);
	struct test_model other = {x.m.engine, x.exact};
	for (size_t i = 0; i < TOGETHER; i++)
		alone[i] = visitor_alone(&x.m, kinds_together[i]);
	exact_alone = visitor_alone(&other, &fox);
	for (size_t i = 0; i < TOGETHER; i++)
		s[i] = visitor_session(&x.m, kinds_together[i]);
	exact = visitor_session(&other, &fox);
	drops = visitor_session(&x.m, &dropper);
	test_hold(s[0], 0);
	for (size_t i = 0; i < TOGETHER; i++)
		a[i] = visitor_ask(s[i], kinds_together[i]);
	dropped = visitor_ask(drops, &dropper);
	test_wait_held();
	(void)test_most_together(); /* from now on */
	test_watch(medley_watch, &x);
	exactly = visitor_ask(exact, &fox);
	for (bool complete = false; !complete && !x.exact_steps; nanosleep(&moment, NULL))
		(void)answer_size(exactly, &complete);
	for (size_t i = 0; i < TOGETHER; i++)
		test_same_text(visitor_read(s[i], a[i]), alone[i]);
	test_same_text(visitor_read(exact, exactly), exact_alone);
	free(visitor_read(drops, dropped));
	test_watch(NULL, NULL);
	assert_true(x.meanwhile > 0);
	assert_true(test_most_together() >= 6);
	assert_true(test_stats(drops).experts_dropped > 0);
	assert_true(test_stats(s[0]).drafted[0] > 0);
	for (size_t i = 0; i < TOGETHER; i++)
		session_end(s[i]);
	session_end(exact);
	session_end(drops);
	model_close(x.exact);
	test_model_close(&x.m);
}

/* ---- fairness ---- */

enum { EQUALS_MOST = 40 };

struct equals {
	struct session *s[EQUALS_MOST];
	uint32_t count;
	bool begun; /* all of them have a token */
	uint64_t first[EQUALS_MOST];
	uint32_t steps;
	uint64_t worst; /* by how many tokens one was behind another one since then */
};

static void equals_watch(void *ctx, const struct run_place *p)
{
	struct equals *x = ctx;
	uint64_t told[EQUALS_MOST], least = UINT64_MAX, most = 0;
	bool begun = true;
	if (!is_first_place(p))
		return;
	for (uint32_t i = 0; i < x->count; i++) {
		told[i] = test_stats(x->s[i]).output_tokens;
		begun = begun && told[i];
	}
	if (begun && !x->begun)
		memcpy(x->first, told, sizeof told);
	x->begun = begun;
	if (!begun)
		return;
	for (uint32_t i = 0; i < x->count; i++) {
		uint64_t gained = told[i] - x->first[i];
		if (!session_working(x->s[i]))
			continue;
		least = gained < least ? gained : least;
		most = gained > most ? gained : most;
	}
	x->steps++;
	if (most > least && most - least > x->worst)
		x->worst = most - least;
}

/* Of so many equal answers, the slowest is never more than a token behind. */
static void assert_fair(uint32_t count)
{
	struct equals x = {.count = count};
	struct answer *a[EQUALS_MOST];
	char *alone = visitor_alone(&fable, &digits);
	for (uint32_t i = 0; i < count; i++)
		x.s[i] = visitor_session(&fable, &digits);
	test_hold(x.s[0], 0);
	for (uint32_t i = 0; i < count; i++)
		a[i] = visitor_ask(x.s[i], &digits);
	test_wait_held();
	test_watch(equals_watch, &x);
	test_let_go();
	for (uint32_t i = 0; i < count; i++)
		test_same_text(visitor_read(x.s[i], a[i]), strdup(alone));
	test_watch(NULL, NULL);
	assert_true(x.steps > 80);
	assert_in_range(x.worst, 0, 1);
	for (uint32_t i = 0; i < count; i++)
		session_end(x.s[i]);
	free(alone);
}

static void the_slowest_of_equal_answers_is_a_token_behind_at_most(void **state)
{
	(void)state;
	assert_fair(8);
	assert_fair(EQUALS_MOST); /* more than have a step together */
}

/* ---- main ---- */

/* The store is complete, and from now on experts are read only when a step asks for them. */
static int company_load(void **state)
{
	int failed = fable_load(state);
	test_wait_converted(fable.model);
	test_model_load_calm(&fable);
	fable.engine->options.step_ms = STEP_MS;
	return failed;
}

#define TEST(f) cmocka_unit_test_teardown(f, test_end_watch)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_expert_that_cannot_be_read_fails_only_sessions_that_need_it),
		TEST(a_crowd_is_answered_in_order_and_within_the_memory),
		TEST(a_thousand_are_answered_with_contexts_for_thirty),
		TEST(a_prompt_without_room_is_not_begun),
		TEST(who_is_stopped_while_it_waits_for_room_stays_stopped),
		TEST(a_stop_does_not_wait_for_room),
		TEST(long_texts_find_room_one_after_the_other),
		TEST(who_is_stopped_removed_or_asked_again_disturbs_nobody),
		TEST(kinds_that_share_nothing_but_the_machine_change_nothing_of_each_other),
		TEST(the_slowest_of_equal_answers_is_a_token_behind_at_most),
	};
	return cmocka_run_group_tests(tests, company_load, fable_close);
}
