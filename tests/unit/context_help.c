/* Contexts computed directly; see the header. */
#include "context_help.h"

#include "forward_help.h"
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct test_model model;
struct model_view view;

static bool contexts_load_with(const char *fixture, const struct engine_options *options)
{
	const char *folder = test_fixture(fixture);
	if (!folder)
		return false;
	test_model_open(&model, folder, options);
	test_wait_converted(model.model);
	observe_model(model.model, &view);
	return true;
}

bool contexts_load(const char *fixture, const char *quant)
{
	return contexts_load_with(
		fixture,
		&(struct engine_options){.threads = 2, .quant = quant, .exact = quant != NULL});
}

bool contexts_load_kv(const char *fixture, const char *kv)
{
	return contexts_load_with(
		fixture, &(struct engine_options){.threads = 2, .quant = "bf16", .kv = kv});
}

void contexts_unload(void)
{
	assert_int_equal(engine_context_used(model.engine), 0);
	test_model_close(&model);
}

void context_begin(struct context *x)
{
	context_init(x, view.context_budget, view.config, view.kv);
}

void context_text(uint32_t seed, uint32_t text[HEAD + TAIL])
{
	for (uint32_t i = 0; i < HEAD + TAIL; i++)
		text[i] = (i * i * 7 + i * (i < HEAD ? 3 : seed) + seed * (i >= HEAD)) % 380;
}

size_t logits_bytes(void)
{
	return view.config->vocabulary * sizeof(float);
}

float *context_go_on(struct context *x, const uint32_t *tokens, uint32_t n)
{
	struct err e = {0};
	float *logits = malloc(n * logits_bytes());
	assert_non_null(logits);
	if (test_step(view.forward, x, tokens, n, logits, &e))
		fail_msg("%s", e.text);
	return logits;
}

void assert_goes_to(struct context *x, uint32_t seed, uint32_t end)
{
	uint32_t text[HEAD + TAIL], held = (uint32_t)x->tokens.count;
	struct context afresh;
	context_text(seed, text);
	context_begin(&afresh);
	float *want = context_go_on(&afresh, text, end),
	      *got = context_go_on(x, text + held, end - held);
	assert_memory_equal(got, (char *)want + held * logits_bytes(),
			    (end - held) * logits_bytes());
	free(want);
	free(got);
	context_free(&afresh);
}

void assert_goes_on(struct context *x, uint32_t seed)
{
	assert_goes_to(x, seed, HEAD + TAIL);
}
