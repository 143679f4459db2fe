/* -o kv=: contexts whose keys and values are codes. Of every kind of model and with every type, a
 * text gives the same bits however it is cut, shared, taken back, saved and loaded; codes are near
 * what floats give; and whoever cannot have them is refused in words. */
#include "engine/compute/context_save.h"
#include "context_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Attention with heads of several widths, hybrids with and without a draft layer, a latent, windows
 * and sinks, shared keys, other recurrent layers. */
static const char *const fixtures[] = {"qwen3_moe",   "olmoe",	    "qwen3_5_moe",     "qwen3_next",
				       "deepseek_v3", "gemma4_moe", "gpt_oss",	       "gemma3",
				       "gemma4_ple",  "lfm2_moe",   "granitemoehybrid"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };
static const char *const kinds[] = {"q8", "q4", "q8q4"};
enum { KINDS = sizeof kinds / sizeof *kinds, MARK = 40 };

static struct err e;

/* HEAD tokens in pieces, with a copy to go back to after MARK. */
static void begin_head(struct context *x)
{
	static const uint32_t ends[] = {1, 7, MARK, MARK + 1, HEAD};
	uint32_t text[HEAD + TAIL], at = 0;
	context_text(0, text);
	context_begin(x);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; at = ends[i++]) {
		free(context_go_on(x, text + at, ends[i] - at));
		if (ends[i] == MARK)
			context_checkpoint(x, MARK);
	}
}

static uint8_t *save(struct context *x, uint64_t *n)
{
	struct context_save s;
	if (context_save_open(&s, x, view.config, &e))
		fail_msg("%s", e.text);
	*n = context_save_bytes(&s);
	uint8_t *bytes = malloc(*n);
	assert_non_null(bytes);
	for (uint64_t at = 0, piece; at < *n; at += piece) {
		piece = *n - at < 1013 ? *n - at : 1013;
		context_save_read(&s, at, bytes + at, piece);
	}
	context_save_close(&s);
	return bytes;
}

/* A context from such bytes: computed by the type `like` has. */
static int load(struct context *to, const struct context *like, const uint8_t *bytes, uint64_t n)
{
	struct context_load l;
	context_load_begin(&l, like, view.config, 1000, n);
	int failed = 0;
	for (uint64_t at = 0, piece; at < n && !failed; at += piece) {
		piece = n - at < 997 ? n - at : 997;
		failed = context_load_feed(&l, bytes + at, piece, &e);
	}
	if (!failed) {
		assert_true(context_load_done(&l));
		context_load_end(&l);
		context_begin(to);
		context_move(to, &l.x);
	}
	context_load_free(&l);
	return failed;
}

static void goes_round(void)
{
	struct context x, fork, loaded, other;
	uint64_t n, again;
	begin_head(&x);
	uint8_t *bytes = save(&x, &n);
	context_begin(&fork);
	pthread_mutex_lock(&view.context_budget->lock);
	assert_int_equal(context_fork(&fork, &x, &e), 0);
	pthread_mutex_unlock(&view.context_budget->lock);
	assert_goes_on(&fork, 3);
	assert_goes_on(&x, 4);
	if (!x.recurrent.bytes) { /* what was taken back is not in what is saved */
		assert_int_equal(context_rollback(&x, HEAD), HEAD);
		uint8_t *back = save(&x, &again);
		assert_int_equal(n, again);
		assert_memory_equal(bytes + 64, back + 64, n - 64);
		free(back);
		assert_goes_on(&x, 5);
	}
	assert_int_equal(load(&loaded, &x, bytes, n), 0);
	assert_goes_on(&loaded, 6);
	context_rollback(&loaded, MARK);
	assert_goes_on(&loaded, 7);
	/* Of another type. */
	context_init(&other, view.context_budget, view.config, KV_F16);
	assert_int_equal(load(&loaded, &other, bytes, n), -EINVAL);
	free(bytes);
	context_free(&other);
	context_free(&x);
	context_free(&fork);
	context_free(&loaded);
}

static void every_model_goes_on_to_the_bit_with_every_type(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		for (int k = 0; k < KINDS; k++) {
			if (!contexts_load_kv(fixtures[i], kinds[k]))
				continue;
			assert_string_equal(kv_type_name(view.kv), kinds[k]);
			goes_round();
			contexts_unload();
		}
}

/* The mean difference of the log-probabilities' exponents would need a real model: here only that
 * logits are nearer, the more bits there are. */
static void more_bits_are_nearer_to_floats(void **state)
{
	(void)state;
	uint32_t text[HEAD + TAIL];
	float *logits[KV_TYPES];
	double far[KV_TYPES] = {0}, size = 0;
	context_text(0, text);
	size_t count = 0;
	for (enum kv_type type = KV_F16; type < KV_TYPES; type++) {
		struct context x;
		assert_true(contexts_load_kv("qwen3_moe", kv_type_name(type)));
		context_begin(&x);
		logits[type] = context_go_on(&x, text, HEAD + TAIL);
		count = (HEAD + TAIL) * logits_bytes() / sizeof(float);
		context_free(&x);
		contexts_unload();
	}
	for (size_t i = 0; i < count; i++) {
		size += pow(logits[KV_F16][i], 2);
		for (enum kv_type type = KV_F16; type < KV_TYPES; type++)
			far[type] += pow(logits[type][i] - logits[KV_F16][i], 2);
	}
	for (enum kv_type type = KV_F16; type < KV_TYPES; type++)
		free(logits[type]);
	assert_true(far[KV_Q8] > 0 && far[KV_Q8] < 1e-4 * size);
	assert_true(far[KV_Q8] < far[KV_Q8Q4] && far[KV_Q8Q4] < far[KV_Q4]);
	assert_true(far[KV_Q4] < .1 * size);
}

static void codes_take_half_and_a_quarter(void **state)
{
	(void)state;
	assert_true(contexts_load_kv("qwen3_moe", "q8"));
	const uint64_t *codes = view.config->codes_bytes[KV_WHOLE];
	double f16 = 2. * KV_BLOCK * (double)view.config->kv_width[KV_WHOLE];
	assert_true((double)codes[KV_Q8] < .54 * f16); /* heads of 32 have a scale for each 32 */
	assert_true((double)codes[KV_Q8Q4] < .44 * f16);
	assert_true((double)codes[KV_Q4] < .35 * f16);
	contexts_unload();
}

static void who_cannot_have_codes_is_told(void **state)
{
	(void)state;
	struct engine *g;
	assert_int_equal(engine_create(&g, &(struct engine_options){.kv = "q8", .exact = 1}, &e),
			 -EINVAL);
	assert_non_null(strstr(e.text, "exact"));
	assert_int_equal(engine_create(&g, &(struct engine_options){.kv = "q5"}, &e), -EINVAL);
	assert_non_null(strstr(e.text, "q8q4"));

	struct config *c = calloc(1, sizeof *c);
	assert_non_null(c);
	c->layers = 1;
	c->model_type = "wide";
	c->layer[0] = (struct layer){.mixer = MIXER_ATTENTION, .head_dim = 2048, .kv_heads = 1};
	assert_int_equal(config_check_kv(c, KV_F16, &e), 0);
	assert_int_equal(config_check_kv(c, KV_Q8, &e), -EINVAL);
	assert_non_null(strstr(e.text, "too wide"));
	c->layer[0] = (struct layer){.mixer = MIXER_LATENT};
	c->latent.rank = 24;
	assert_int_equal(config_check_kv(c, KV_Q8, &e), -EINVAL);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_model_goes_on_to_the_bit_with_every_type),
		cmocka_unit_test(more_bits_are_nearer_to_floats),
		cmocka_unit_test(codes_take_half_and_a_quarter),
		cmocka_unit_test(who_cannot_have_codes_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
