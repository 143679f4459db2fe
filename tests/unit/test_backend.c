/* A second backend: its arrays are of its own making, and what they hold is the CPU's, to which it
 * hands each operation on. The forward pass looks into none of its arrays and computes nothing
 * beside it: so the logits are the CPU's, and a layer's operations are called once for each step. */
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include "engine/admin/observe.h"
#include "engine/cpu/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST = 25, TOKENS = 40 };

/* What stands behind the names that the forward pass has. */
struct held_stream {
	struct residual_stream *cpus;
};
struct held_scratch {
	struct scratch *cpus;
};

static struct {
	uint32_t mix, feed, finish, route, end_experts, head;
} calls;

static int make_stream(struct residual_stream **out, const struct environment *env, uint32_t rows,
		       struct err *e)
{
	struct held_stream *held = calloc(1, sizeof *held);
	assert_non_null(held);
	*out = (struct residual_stream *)held;
	return cpu_backend.stream_make(&held->cpus, env, rows, e);
}

static void free_stream(struct residual_stream *x)
{
	struct held_stream *held = (struct held_stream *)x;
	cpu_backend.stream_free(held ? held->cpus : NULL);
	free(held);
}

static int make_scratch(struct scratch **out, const struct environment *env, uint32_t rows,
			struct err *e)
{
	struct held_scratch *held = calloc(1, sizeof *held);
	assert_non_null(held);
	*out = (struct scratch *)held;
	return cpu_backend.scratch_make(&held->cpus, env, rows, e);
}

static void free_scratch(struct scratch *x)
{
	struct held_scratch *held = (struct held_scratch *)x;
	cpu_backend.scratch_free(held ? held->cpus : NULL);
	free(held);
}

/* ---- handing on ---- */

/* A step whose arrays are the CPU's for the time of an operation. */
struct handed {
	struct residual_stream *stream;
	struct scratch *scratch;
};

/* An operation of the CPU's may take dead rows out of the stream, by `move`. */
static uint32_t depth;

static struct handed hand_on(struct step *s)
{
	struct handed own = {s->stream, s->scratch};
	if (depth++)
		return own;
	s->stream = ((struct held_stream *)own.stream)->cpus;
	s->scratch = ((struct held_scratch *)own.scratch)->cpus;
	return own;
}

static void take_back(struct step *s, struct handed own)
{
	depth--;
	s->stream = own.stream;
	s->scratch = own.scratch;
}

#define OPERATION(name, parameters, arguments)      \
	static void name parameters                 \
	{                                           \
		struct handed own = hand_on(s);     \
		cpu_backend.name arguments;         \
		take_back(s, own);                  \
	}
#define COUNTED(name, parameters, arguments)        \
	static void name parameters                 \
	{                                           \
		struct handed own = hand_on(s);     \
		calls.name++;                       \
		cpu_backend.name arguments;         \
		take_back(s, own);                  \
	}

OPERATION(embed, (struct step *s), (s))
OPERATION(begin, (struct step *s), (s))
OPERATION(move, (struct step *s, uint32_t to, uint32_t from, uint32_t n), (s, to, from, n))
OPERATION(ngrams, (struct step *s, uint32_t layer), (s, layer))
COUNTED(mix, (struct step *s, uint32_t layer), (s, layer))
COUNTED(feed, (struct step *s, uint32_t layer), (s, layer))
COUNTED(finish, (struct step *s, uint32_t layer), (s, layer))
COUNTED(route, (struct step *s, uint32_t layer), (s, layer))
OPERATION(guess, (struct step *s, uint32_t later), (s, later))
OPERATION(begin_experts, (struct step *s, uint32_t layer), (s, layer))
OPERATION(wave,
	  (struct step *s, uint32_t layer, const struct pager_ready *ready, uint32_t count),
	  (s, layer, ready, count))
COUNTED(end_experts, (struct step *s, uint32_t layer), (s, layer))
OPERATION(end, (struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n),
	  (s, norm, rows, n))
COUNTED(head, (struct step *s, uint32_t n, float *logits), (s, n, logits))

static float *normed(struct scratch *x)
{
	return cpu_backend.normed(((struct held_scratch *)x)->cpus);
}

/* Without what only taps, lossy sessions and draft layers need. */
static struct backend second(void)
{
	struct backend b = {
		.computes = cpu_backend.computes,
		.stream_make = make_stream,
		.stream_free = free_stream,
		.stream_bytes = cpu_backend.stream_bytes,
		.scratch_make = make_scratch,
		.scratch_free = free_scratch,
		.scratch_bytes = cpu_backend.scratch_bytes,
		.embed = embed,
		.begin = begin,
		.move = move,
		.ngrams = ngrams,
		.mix = mix,
		.feed = feed,
		.finish = finish,
		.route = route,
		.guess = guess,
		.begin_experts = begin_experts,
		.wave = wave,
		.end_experts = end_experts,
		.end = end,
		.head = head,
		.normed = normed,
	};
	return b;
}

/* ---- tests ---- */

/* logits[TOKENS][vocabulary] of a text in two steps. */
static void logits_of(struct forward *f, const struct model_view *v, float *logits)
{
	struct context x;
	struct err e;
	uint32_t tokens[TOKENS];
	for (uint32_t i = 0; i < TOKENS; i++)
		tokens[i] = (i * 37 + 5) % v->config->vocabulary;
	context_init(&x, v->context_budget, v->config, v->kv);
	if (test_step(f, &x, tokens, FIRST, logits, &e) ||
	    test_step(f, &x, tokens + FIRST, TOKENS - FIRST,
		      logits + (size_t)FIRST * v->config->vocabulary, &e))
		fail_msg("%s", e.text);
	context_free(&x);
}

static void assert_calls(const struct config *c, uint32_t steps)
{
	uint32_t mixers = 0, feeds = 0, routed = 0;
	for (uint32_t l = 0; l < c->layers; l++) {
		mixers += config_has_part(&c->layer[l], PART_MIXER);
		routed += config_routed(c, l);
		feeds += config_has_part(&c->layer[l], PART_FEED_FORWARD) && !config_routed(c, l);
	}
	assert_int_equal(calls.mix, mixers * steps);
	assert_int_equal(calls.feed, feeds * steps);
	assert_int_equal(calls.route, routed * steps);
	assert_int_equal(calls.end_experts, routed * steps);
	assert_int_equal(calls.finish, c->layers * steps);
	assert_int_equal(calls.head, steps);
}

static void a_backend_with_arrays_of_its_own_computes_the_same(void **state)
{
	static const char *const fixtures[] = {"qwen3_moe",   "deepseek_v3_fp8", "deepseek_v4",
					       "gemma4_ple",  "qwen4_exp",   "qwen3_next",
					       "kimi_linear", "nemotron_h",  "lfm2_moe"};
	const struct backend b = second();
	struct err e;
	(void)state;
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		struct test_model m;
		struct model_view v;
		const char *path = test_fixture(fixtures[i]);
		if (!path)
			skip();
		test_model_ready(&m, path,
				 &(struct engine_options){.exact = 1, .store = test_folder});
		test_wait_converted(m.model);
		observe_model(m.model, &v);
		size_t all = (size_t)TOKENS * v.config->vocabulary;
		float *cpus = malloc(all * sizeof *cpus), *seconds = calloc(all, sizeof *seconds);
		struct forward f = {.env = v.forward->env, .chunk = v.forward->chunk};
		f.env.backend = &b;
		memset(&calls, 0, sizeof calls);
		if (!cpus || !seconds || forward_init(&f, &e))
			fail_msg("%s", fixtures[i]);
		logits_of(v.forward, &v, cpus);
		logits_of(&f, &v, seconds);
		assert_memory_equal(seconds, cpus, all * sizeof *cpus);
		assert_calls(v.config, 2);
		forward_free(&f);
		free(cpus);
		free(seconds);
		test_model_close(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_backend_with_arrays_of_its_own_computes_the_same),
	};
	return cmocka_run_group_tests(tests, test_folder_setup_fast, test_folder_teardown);
}
