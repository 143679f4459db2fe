/* Attention to chosen positions, and to entries, is that to a text of these alone, which the scalar
 * kernel computes: where whole blocks are chosen and where they are copied, for any number of threads,
 * and for rows of several contexts. */
#include "engine/cpu/layers.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POSITIONS = 1700, CONTEXTS = 2, ROWS = 7, MOST = 9, GROUPS = 2, HEADS = 20 };

struct choosing_case {
	enum mixer mixer;
	enum index_entry entry;
	uint32_t ratio, groups, kv_heads, dim, latent;
	uint32_t pool, window; /* MIXER_COMPRESSED */
	bool index;	       /* entries are chosen */
};
static const struct choosing_case cases[] = {
	{MIXER_ATTENTION, INDEX_BLOCKS, 128, 2, 4, 40, 0, 0, 0, true}, /* the context's own blocks */
	{MIXER_ATTENTION, INDEX_BLOCKS, 64, 1, 2, 64, 0, 0, 0, true},
	{MIXER_ATTENTION, INDEX_MEANS, 4, 1, 4, 24, 0, 0, 0, true},
	{MIXER_LATENT, INDEX_TOKENS, 1, 1, 1, 72, 64, 0, 0, true},
	{MIXER_LATENT, INDEX_POOLS, 16, 1, 1, 40, 24, 0, 0, true},
	{MIXER_COMPRESSED, INDEX_MEANS, 4, 1, 1, 40, 40, 4, 70, true},
	{MIXER_COMPRESSED, INDEX_NONE, 4, 1, 1, 40, 40, 16, 70, false}, /* all entries: 106 and 35 */
	{MIXER_COMPRESSED, INDEX_NONE, 4, 1, 1, 40, 40, 128, 70, false},
};

static struct context_budget budget;
static struct config config;
static struct context contexts[CONTEXTS];
static struct step_span spans[CONTEXTS];
static uint32_t span_of[ROWS], count[ROWS * GROUPS], entries[ROWS * GROUPS * MOST];
static struct residual_stream stream = {
	.chosen = {.most = MOST, .count = count, .entries = entries}};
static struct environment env;
static struct step step = {.env = &env, .spans = spans, .span_of = span_of, .stream = &stream};
static struct look look;
static struct err e;
static float q[ROWS * HEADS * 72], out[ROWS * HEADS * 72];

static void fill_table(const struct context *x, enum kv_kind kind, struct random *random)
{
	for (uint32_t b = 0; b < x->kv[kind].count; b++)
		for (size_t i = 0; i < x->kv[kind].bytes / kv_type_element(x->type); i++) {
			float one;
			void *block = (void *)x->kv[kind].blocks[b];
			random_normal(random, &one, 1);
			if (x->type == KV_F32)
				((float *)block)[i] = one;
			else
				((uint16_t *)block)[i] = f16_from_f32(one);
		}
}

/* Some candidates of every row, ascending: a third, and no more than MOST. */
static void choose(struct random *random)
{
	memset(count, 0, sizeof count);
	for (uint32_t i = 0; i < ROWS * stream.chosen.groups; i++) {
		uint32_t row = i / stream.chosen.groups;
		const struct step_span *s = step_span_of(&step, row);
		uint32_t n = config_index_candidates(&config, s->position + row - s->first + 1);
		for (uint32_t c = 0; c < n && count[i] < MOST; c++)
			if (random_u32(random) % (n / MOST + 3) == 0)
				entries[i * MOST + count[i]++] = c;
	}
}

static void begin(const struct choosing_case *c)
{
	static const uint32_t rows[CONTEXTS] = {5, 2};
	struct random random = {7};
	uint32_t length = POSITIONS;
	struct layer *l = &config.layer[0];
	config = (struct config){.heads = HEADS,
				 .layers = 1,
				 .head_dim = c->dim,
				 .max_positions = POSITIONS,
				 .attention_scale = .1F,
				 .window = c->window,
				 .latent = {.rank = c->latent ? c->latent : c->dim,
					    .rope = c->latent ? c->dim - c->latent : 0},
				 .chooser = {.entry = c->entry,
					     .ratio = c->ratio,
					     .groups = c->groups,
					     .most = MOST,
					     .dim = 8}};
	*l = (struct layer){.mixer = c->mixer,
			    .head_dim = c->dim,
			    .kv_heads = c->kv_heads,
			    .window = c->window,
			    .pool = c->pool,
			    .index = c->index ? INDEX_OWN : INDEX_UNUSED};
	config.kv_width[config_kv_kind(l)] = config_kv_width(&config, 0);
	config.kv_width[KV_INDEX] = config_entries_width(&config, 0);
	env = (struct environment){.config = &config, .kernels = kernels_best()};
	stream.chosen.groups = c->groups;
	step.n = step.span_count = 0;
	context_budget_init(&budget, 1 << 30);
	for (uint32_t i = 0; i < CONTEXTS; i++, length /= 3) {
		context_init(&contexts[i], &budget, &config, i ? KV_F32 : KV_F16);
		assert_int_equal(context_reserve(&contexts[i], length, &e), 0);
		for (int kind = 0; kind < KV_KINDS; kind++)
			fill_table(&contexts[i], kind, &random);
		for (uint32_t t = 0; t < rows[i]; t++)
			span_of[step.n + t] = i;
		spans[step.span_count++] = (struct step_span){.context = &contexts[i],
							      .first = step.n,
							      .n = rows[i],
							      .position = length - rows[i]};
		step.n += rows[i];
	}
	random_normal(&random, q, sizeof q / sizeof *q);
	choose(&random);
	look = (struct look){.step = &step,
			     .layer = l,
			     .q = q,
			     .out = out,
			     .head_dim = c->dim,
			     .latent_dim = c->latent,
			     .group = c->latent ? 16 : HEADS / c->kv_heads};
}

static void end(void)
{
	for (int i = 0; i < CONTEXTS; i++)
		context_free(&contexts[i]);
	context_budget_free(&budget);
}

static void looked(const struct choosing_case *c, uint32_t threads)
{
	struct look_scratch whole;
	struct chosen_scratch s;
	struct arena a = {0};
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			a = (struct arena){.memory = aligned_alloc(ARENA_ALIGNMENT, a.used)};
		if (c->mixer == MIXER_COMPRESSED)
			look_entries_take(&s, &a, &config, step.n);
		else
			look_chosen_take(&s, &a, &config, step.n);
		look_back_take(&whole, &a, &config, step.n, c->latent ? c->latent : c->dim);
	}
	assert_non_null(a.memory);
	memset(out, 0xff, sizeof out);
	assert_int_equal(threads_create(&env.threads, threads, &e), 0);
	if (c->mixer == MIXER_COMPRESSED)
		look_entries_run(&s, &look);
	else
		look_chosen_run(&s, &whole, &look);
	threads_destroy(env.threads);
	free(a.memory);
}

/* ---- the same by the scalar kernel ---- */

/* Keys and values of what a row looks at with a key-value head, one after the other. */
struct text {
	float memory[(MOST * 128 + 256) * 2 * 72];
	const void *blocks[POSITIONS / KV_BLOCK + 1];
	uint32_t length;
};

static float element(const struct context *x, const void *block, size_t at)
{
	return x->type == KV_F32 ? ((const float *)block)[at]
				 : f16_to_f32(((const uint16_t *)block)[at]);
}

/* Number d of a key at keys[d · stride], and values. */
static void append(struct text *t, const struct context *x, const void *block, size_t key,
		   size_t stride, size_t value)
{
	size_t dim = look.head_dim, slot = t->length % KV_BLOCK;
	float *to = t->memory + t->length / KV_BLOCK * 2 * dim * KV_BLOCK;
	t->blocks[t->length++ / KV_BLOCK] = to;
	for (size_t d = 0; d < dim; d++)
		to[d * KV_BLOCK + slot] = element(x, block, key + d * stride);
	for (size_t d = 0; d < dim && !look.latent_dim; d++)
		to[dim * KV_BLOCK + slot * dim + d] = element(x, block, value + d);
}

static void append_position(struct text *t, const struct context *x, uint32_t head, size_t position)
{
	size_t slot = position % KV_BLOCK;
	append(t, x, context_blocks_of(x, look.layer)[position / KV_BLOCK],
	       context_key_offset(x->type, look.layer, head) + slot, KV_BLOCK,
	       context_value_offset(x->type, look.layer, head) + slot * look.head_dim);
}

static void append_entry(struct text *t, const struct context *x, uint32_t entry)
{
	uint32_t pool = look.layer->pool;
	size_t last = (size_t)(entry + 1) * pool - 1;
	append(t, x, context_entries(x, 0, last), context_entry_column(pool, last),
	       context_entry_columns(pool), 0);
}

static void write_text(struct text *t, uint32_t row, uint32_t head)
{
	const struct step_span *s = step_span_of(&step, row);
	const struct layer *l = look.layer;
	uint32_t length = s->position + row - s->first + 1, ratio = config.chooser.ratio;
	uint32_t group = look.latent_dim ? 0 : head * stream.chosen.groups / l->kv_heads;
	size_t list = (size_t)row * stream.chosen.groups + group;
	uint32_t tail = l->pool ? length - l->window
				: config_index_candidates(&config, length) * ratio;
	t->length = 0;
	for (uint32_t i = 0; i < (l->index == INDEX_OWN ? count[list] : length / l->pool); i++)
		if (l->pool)
			append_entry(t, s->context, l->index == INDEX_OWN ? entries[list * MOST + i] : i);
		else
			for (uint32_t j = 0; j < ratio; j++)
				append_position(t, s->context, head, entries[list * MOST + i] * ratio + j);
	for (; tail < length; tail++)
		append_position(t, s->context, head, tail);
}

static void assert_row(size_t number, uint32_t row, uint32_t group)
{
	static struct text t;
	float want[HEADS * 72];
	uint32_t head = group * look.group, value_dim = look.latent_dim ? look.latent_dim : look.head_dim;
	uint32_t heads = HEADS - head < look.group ? HEADS - head : look.group;
	size_t at = (size_t)row * HEADS + head;
	write_text(&t, row, look.latent_dim ? 0 : group);
	const struct attention a = {.type = KV_F32,
				    .head_dim = look.head_dim,
				    .latent_dim = look.latent_dim,
				    .heads = heads,
				    .length = t.length,
				    .scale = config.attention_scale,
				    .blocks = t.blocks,
				    .value_offset = (size_t)look.head_dim * KV_BLOCK};
	kernels_scalar.attend(want, q + at * look.head_dim, &a);
	if (memcmp(out + at * value_dim, want, (size_t)heads * value_dim * sizeof *want) != 0)
		fail_msg("case %zu: row %u, group %u of heads differs", number, row, group);
}

static void what_is_chosen_is_looked_at_as_a_text_of_it_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(&cases[i]);
		for (uint32_t threads = 1; threads <= 3; threads += 2) {
			looked(&cases[i], threads);
			for (uint32_t row = 0; row < step.n; row++)
				for (uint32_t g = 0; g * look.group < HEADS; g++)
					assert_row(i, row, g);
		}
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_chosen_is_looked_at_as_a_text_of_it_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
