/* Rows that look back, shared by threads: one token's spans too, where its heads are too few for
 * all. The same bits from any number of threads, with a window, sinks, latents and a gate, for rows
 * of several contexts, and where the parts of all spans have no room at once. */
#include "engine/cpu/layers.h"
#include "kernels/attention.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POSITIONS = 2900, CONTEXTS = 2, ROWS_MOST = 40, THREADS_MOST = 7 };

/* A layer, and how many rows each context has. Context 1 is a third as long. */
struct layer_case {
	uint32_t heads, kv_heads, dim, latent, window, rows[CONTEXTS];
	bool sinks, gate;
};
static const struct layer_case cases[] = {
	{8, 1, 64, 0, 0, {1, 0}, false, false},
	{8, 1, 64, 0, 0, {5, 0}, true, true},
	{6, 3, 40, 0, 0, {1, 2}, false, true},
	{6, 1, 128, 0, 700, {5, 1}, true, false},
	{20, 1, 80, 64, 0, {1, 0}, false, false}, /* two groups of heads, the second smaller */
	{20, 1, 80, 64, 0, {3, 1}, false, false},
	{4, 2, 64, 0, 0, {35, 5}, false, false}, /* runs of 16 rows */
};

static struct context_budget budget;
static struct config config;
static struct context contexts[CONTEXTS];
static struct step_span spans[CONTEXTS];
static uint32_t span_of[ROWS_MOST];
static struct environment env;
static struct step step;
static struct look look;
static size_t out_floats;
static float *q, *gate, *sinks;
static struct err e;

static float *drawn(struct random *random, size_t n)
{
	float *x = malloc(n * sizeof *x);
	assert_non_null(x);
	random_normal(random, x, n);
	return x;
}

/* Fills a context's blocks with positions up to `count`. */
static void fill(struct context *x, struct random *random, uint32_t count)
{
	const struct layer *l = &config.layer[0];
	float *key = drawn(random, l->head_dim), *value = drawn(random, l->head_dim);
	if (context_reserve(x, count, &e))
		fail_msg("%s", e.text);
	for (uint32_t j = 0; j < count; j++)
		for (uint32_t h = 0; h < l->kv_heads; h++) {
			void *block = (void *)context_blocks_of(x, l)[j / KV_BLOCK];
			random_normal(random, key, l->head_dim);
			random_normal(random, value, l->head_dim);
			env.kernels->kv_put(block, x->type, context_key_offset(x->type, l, h),
					    context_value_offset(x->type, l, h), j % KV_BLOCK, key,
					    value, l->head_dim, 0);
		}
	free(key);
	free(value);
}

static void begin(const struct layer_case *c)
{
	struct random random = {3};
	uint32_t length = POSITIONS;
	config = (struct config){
		.heads = c->heads, .layers = 1, .max_positions = POSITIONS, .attention_scale = .1F};
	config.layer[0] = (struct layer){.mixer = c->latent ? MIXER_LATENT : MIXER_ATTENTION,
					 .head_dim = c->dim,
					 .kv_heads = c->kv_heads,
					 .window = c->window};
	/* Rooms for values are there with latents, too, and hold what nobody looks at. */
	config.kv_width[config_kv_kind(&config.layer[0])] = (uint64_t)2 * c->kv_heads * c->dim;
	config.window = c->window;
	env = (struct environment){.config = &config, .kernels = kernels_best()};
	step = (struct step){.env = &env, .spans = spans, .span_of = span_of};
	context_budget_init(&budget, 1 << 30);
	for (uint32_t i = 0; i < CONTEXTS; i++, length /= 3) {
		context_init(&contexts[i], &budget, &config, i ? KV_F32 : KV_F16);
		fill(&contexts[i], &random, length);
		for (uint32_t t = 0; t < c->rows[i]; t++)
			span_of[step.n + t] = i;
		spans[i] = (struct step_span){.context = &contexts[i],
					      .first = step.n,
					      .n = c->rows[i],
					      .position = length - c->rows[i]};
		step.n += c->rows[i];
		step.span_count += c->rows[i] > 0;
	}
	out_floats = (size_t)step.n * c->heads * (c->latent ? c->latent : c->dim);
	q = drawn(&random, (size_t)step.n * c->heads * c->dim);
	gate = drawn(&random, out_floats);
	sinks = drawn(&random, c->heads);
	look = (struct look){.step = &step,
			     .layer = &config.layer[0],
			     .q = q,
			     .gate = c->gate ? gate : NULL,
			     .head_dim = c->dim,
			     .latent_dim = c->latent,
			     .group = c->latent ? 16 : c->heads / c->kv_heads,
			     .sinks = c->sinks ? sinks : NULL};
}

static void end(void)
{
	for (int i = 0; i < CONTEXTS; i++)
		context_free(&contexts[i]);
	context_budget_free(&budget);
	free(q);
	free(gate);
	free(sinks);
}

/* What so many threads give, with room for so many floats of parts, or as look_back_take has it;
 * malloc'ed. */
static float *looked(const struct layer_case *c, uint32_t threads, size_t room)
{
	struct look_scratch s;
	struct arena a = {0};
	float *out = malloc(out_floats * sizeof *out);
	uint32_t dim = c->latent ? c->latent : c->dim;
	look_back_take(&s, &a, &config, step.n, dim);
	a = (struct arena){.memory = aligned_alloc(ARENA_ALIGNMENT, a.used)};
	assert_true(out && a.memory);
	look_back_take(&s, &a, &config, step.n, dim);
	memset(s.parts, 0xff, s.room * sizeof *s.parts);
	memset(out, 0xff, out_floats * sizeof *out);
	s.room = room && room < s.room ? room : s.room;
	assert_int_equal(threads_create(&env.threads, threads, &e), 0);
	look.out = out;
	look_back_run(&s, &look);
	threads_destroy(env.threads);
	free(a.memory);
	return out;
}

/* The first row's first heads, by the kernel alone. */
static void assert_is_attention(const struct layer_case *c, const float *out)
{
	const struct layer *l = look.layer;
	struct attention a = {
		.type = contexts[0].type,
		.head_dim = c->dim,
		.latent_dim = c->latent,
		.heads = c->heads / c->kv_heads,
		.length = spans[0].position + 1,
		.scale = config.attention_scale,
		.blocks = context_blocks_of(&contexts[0], l),
		.value_offset = context_value_offset(contexts[0].type, l, 0),
		.window = c->window,
		.sinks = look.sinks,
	};
	size_t n = (size_t)a.heads * (c->latent ? c->latent : c->dim);
	float *expected = malloc(n * sizeof *expected);
	assert_non_null(expected);
	kernels_scalar.attend(expected, q, &a);
	if (c->gate)
		kernels_scalar.sigmoid_mul(expected, gate, n);
	assert_memory_equal(out, expected, n * sizeof *expected);
	free(expected);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct layer_case *c = &cases[i];
		begin(c);
		float *alone = looked(c, 1, 0);
		assert_is_attention(c, alone);
		/* A row's parts, and what is joined of them: room for all, for waves of 3, none. */
		size_t row =
			(size_t)step.n * c->heads * attention_part(c->latent ? c->latent : c->dim);
		const size_t rooms[] = {0, 4 * row, row};
		for (uint32_t threads = 2; threads <= THREADS_MOST; threads++)
			for (size_t r = 0; r < 3; r++) {
				float *out = looked(c, threads, rooms[r]);
				if (memcmp(out, alone, out_floats * sizeof *out) != 0)
					fail_msg("case %zu differs with %u threads, room %zu", i,
						 threads, r);
				free(out);
			}
		free(alone);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
