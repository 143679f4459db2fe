/* What the 48 layers of one token of Qwen3-30B-A3B take, as one chain of launches: in 3 bits, and as a file of
 * Q4_K_M has them. The weights of 8 layers lie in memory and take turns. */
#include "kernels/cuda/cuda_tables.h"
#include "kernels/kernels.h"
#include "tests/cuda/card_chain.h"
#include "tests/cuda/card_runner.h"
#include "tests/unit/random.h"

#include <stdio.h>

enum { LAYERS = 48, SETS = 8, HIDDEN = 2048, WIDTH = 4096, HEADS = 32, KV = 4, DIM = 128 };
enum { LAUNCHES = 11 }; /* of a layer */
enum { EXPERTS = 128, TOP_K = 8, SIZE = 768, POSITIONS = 4096, BLOCK_BYTES = 2 * KV * DIM * 64 * 2 };

/* The matrices of a layer, one after the other. */
enum layer_matrix { QUERY, KEY, VALUE, OUT, ROUTER, GATE, UP, DOWN, MATRICES };
static const struct layer_model {
	const char *name;
	enum format format[MATRICES];
} layer_models[] = {
	{"3bit",
	 {FORMAT_TC3, FORMAT_TC3, FORMAT_TC4, FORMAT_TC3, FORMAT_TC4, FORMAT_TC3, FORMAT_TC3,
	  FORMAT_TC3}},
	{"Q4_K_M, a layer of Q4_K alone",
	 {FORMAT_Q4_K, FORMAT_Q4_K, FORMAT_Q4_K, FORMAT_Q4_K, FORMAT_F32, FORMAT_Q4_K, FORMAT_Q4_K,
	  FORMAT_Q4_K}},
	{"Q4_K_M, a layer with Q6_K",
	 {FORMAT_Q4_K, FORMAT_Q4_K, FORMAT_Q6_K, FORMAT_Q4_K, FORMAT_F32, FORMAT_Q4_K, FORMAT_Q4_K,
	  FORMAT_Q6_K}},
};
enum { LAYER_MODELS = sizeof layer_models / sizeof *layer_models };
static const struct {
	uint32_t rows, cols;
} layer_sizes[MATRICES] = {{WIDTH, HIDDEN},   {KV * DIM, HIDDEN}, {KV * DIM, HIDDEN}, {HIDDEN, WIDTH},
			   {EXPERTS, HIDDEN}, {SIZE, HIDDEN},	  {SIZE, HIDDEN},     {HIDDEN, SIZE}};

/* Memory on the card. Experts follow the matrices that are not of experts: TOP_K records; all experts
 * have one of those. */
struct layers {
	struct card *card;
	const struct layer_model *model;
	gpu_address memory, weights, end;
	size_t used, at[MATRICES], layer_bytes, record, room;
	uint32_t positions;
};

#define LAYER_AT(address) ((void *)(uintptr_t)(address))

static size_t layers_bytes(const struct layer_model *model, enum layer_matrix m)
{
	const struct shape s = {model->format[m], NORM_F16, layer_sizes[m].rows, layer_sizes[m].cols, 0};
	return (format_arranged_bytes(&s) + 255) / 256 * 256;
}

/* A piece of the memory for one step's values. */
static void *layers_take(struct layers *x, size_t bytes)
{
	void *p = LAYER_AT(x->memory + x->used);
	x->used += (bytes + 255) / 256 * 256;
	return p;
}

static bool layers_begin(struct layers *x, struct card *c, const struct layer_model *model)
{
	struct err e;

	*x = (struct layers){.card = c, .model = model};
	for (size_t m = QUERY; m < GATE; m++) {
		x->at[m] = x->layer_bytes;
		x->layer_bytes += layers_bytes(x->model, (enum layer_matrix)m);
	}
	for (size_t m = GATE; m < MATRICES; m++) {
		x->at[m] = x->record;
		x->record += layers_bytes(x->model, (enum layer_matrix)m);
	}
	x->room = x->layer_bytes + TOP_K * x->record;
	if (card_take(c, (size_t)64 << 20, &x->memory, &e) ||
	    card_take(c, SETS * x->room, &x->weights, &e))
		return false;
	return !c->driver.fill(x->memory, 0x35, (size_t)64 << 20, c->stream) &&
	       !c->driver.fill(x->weights, 0x35, SETS * x->room, c->stream) && !card_wait(c, &e);
}

/* Copies data to a new piece. */
static void *layers_put(struct layers *x, const void *data, size_t bytes)
{
	void *to = layers_take(x, bytes);
	struct err e;

	(void)card_copy_in(x->card, (uintptr_t)to, data, bytes, &e);
	(void)card_wait(x->card, &e);
	return to;
}

/* The values of a step. */
struct layer_step {
	float *x, *between, *q, *key, *placed, *value, *out, *logits, *gate, *down, *norm, *scale;
	int8_t *inputs;
	uint32_t *chosen, *order, *count;
	float *weight, *parts;
	struct cuda_item *items;
	const struct cuda_row *rows;
	const uint8_t *const *slots[SETS];
	const uint8_t *const *matrix[SETS][GATE];
	float *normed;
	int16_t *sum; /* of blocks; NULL: inputs are those of TC */
	struct cuda_trellis tc3, tc4;
	const struct layer_model *model;
};

static void layers_addresses(struct layers *x, struct layer_step *s)
{
	static uint64_t blocks[POSITIONS / 64], slots[EXPERTS], one;
	const uint8_t *kv = layers_take(x, POSITIONS / 64 * BLOCK_BYTES);
	uint16_t pairs[CUDA_PAIRS];

	for (size_t b = 0; b < POSITIONS / 64; b++)
		blocks[b] = (uintptr_t)kv + b * BLOCK_BYTES;
	const struct cuda_row row = {layers_put(x, blocks, sizeof blocks), x->positions - 1, 0,
				     x->positions - 1, 0};
	s->rows = layers_put(x, &row, sizeof row);
	for (size_t set = 0; set < SETS; set++) {
		const gpu_address at = x->weights + set * x->room;
		for (size_t e = 0; e < EXPERTS; e++)
			slots[e] = at + x->layer_bytes + e % TOP_K * x->record;
		s->slots[set] = layers_put(x, slots, sizeof slots);
		for (size_t m = QUERY; m < GATE; m++) {
			one = at + x->at[m];
			s->matrix[set][m] = layers_put(x, &one, sizeof one);
		}
	}
	cuda_fill_pairs(pairs);
	cuda_fill_trellis(&s->tc3, FORMAT_TC3);
	cuda_fill_trellis(&s->tc4, FORMAT_TC4);
	s->tc3.pairs = s->tc4.pairs = layers_put(x, pairs, sizeof pairs);
}

static void layers_step(struct layers *x, struct layer_step *s)
{
	static float numbers[HIDDEN];
	struct random random = {1};
	static const uint32_t chosen[TOP_K] = {7, 1, 4, 2, 0, 5, 3, 6};

	x->used = 0;
	layers_addresses(x, s);
	random_normal(&random, numbers, HIDDEN);
	s->x = layers_put(x, numbers, sizeof numbers);
	s->norm = layers_put(x, numbers, sizeof numbers);
	s->between = layers_take(x, HIDDEN * 4);
	s->q = layers_take(x, WIDTH * 4);
	s->key = layers_take(x, KV * DIM * 4);
	s->placed = layers_take(x, KV * DIM * 4);
	s->value = layers_take(x, KV * DIM * 4);
	s->out = layers_take(x, HIDDEN * 4);
	s->logits = layers_take(x, EXPERTS * 4);
	s->gate = layers_take(x, 2 * TOP_K * SIZE * 4);
	s->down = layers_take(x, TOP_K * HIDDEN * 4);
	s->inputs = layers_take(x, 2 * TOP_K * HIDDEN);
	s->scale = layers_take(x, 2 * TOP_K * HIDDEN);
	s->normed = layers_take(x, HIDDEN * 4);
	s->model = x->model;
	s->sum = format_is_block(x->model->format[QUERY]) ? layers_take(x, TOP_K * HIDDEN) : NULL;
	s->chosen = layers_put(x, chosen, sizeof chosen);
	s->weight = layers_take(x, 4096);
	s->order = layers_take(x, 4096);
	s->items = layers_take(x, 4096);
	s->count = layers_take(x, 4096);
	s->parts = layers_take(x, (size_t)POSITIONS / 256 * HEADS * 160 * 4);
}

/* The product of one token, or of its experts, without y and slots. */
static struct cuda_product layer_product(const struct layer_step *s, enum layer_matrix m)
{
	const enum format format = s->model->format[m];
	struct cuda_product p = {
		.divide = 1,
		.n = m < GATE ? 1 : TOP_K,
		.most = 1,
		.parts = 1,
		.x = s->normed,
		.q = s->inputs,
		.scale = s->scale,
		.sum = s->sum,
		.kind = cuda_block_kind_of(&(struct shape){.format = format}),
		.ldy = layer_sizes[m].rows,
		.rows = layer_sizes[m].rows,
		.groups = cuda_product_groups(format, layer_sizes[m].cols),
		.norm_bytes = 2,
		.trellis = format == FORMAT_TC3 ? s->tc3 : s->tc4,
	};
	if (m >= GATE) {
		p.items = s->items;
		p.order = s->order;
	}
	return p;
}

static void layer_multiply(struct card_chain *chain, const struct layer_step *s, size_t set,
			   enum layer_matrix m, float *y)
{
	const struct cuda_room room = {chain->card->facts.processors, chain->card->facts.shared};
	const enum cuda_kernel k = cuda_product_kernel(s->model->format[m], 1);
	struct cuda_product p = layer_product(s, m);

	p.slots = m < GATE ? s->matrix[set][m] : NULL;
	p.y = y;
	if (m == GATE) {
		p.divide = TOP_K;
		p.parts = 2;
		p.part_bytes = layers_bytes(s->model, GATE);
		p.y_part = TOP_K * SIZE;
		p.next = 2 * layers_bytes(s->model, GATE);
		p.next_bytes = (uint32_t)layers_bytes(s->model, DOWN) / (2 * SIZE / 16) / 16 * 16;
	} else if (m == DOWN) {
		p.offset = 2 * layers_bytes(s->model, GATE);
	}
	const struct cuda_grid g = cuda_product_grid(k, &p, m < GATE ? 1 : TOP_K, &room);
	card_chain_add(chain, k, g, &p);
}

static void layer_project(struct card_chain *chain, const struct layer_step *s, size_t set)
{
	const struct cuda_room room = {chain->card->facts.processors, chain->card->facts.shared};
	float *const y[] = {s->q, s->key, s->value};
	struct cuda_products all = {.count = 3};

	for (size_t m = QUERY; m <= VALUE; m++) {
		all.p[m] = layer_product(s, (enum layer_matrix)m);
		all.p[m].slots = s->matrix[set][m];
		all.p[m].y = y[m];
	}
	const enum cuda_kernel k = cuda_products_kernel(s->model->format, VALUE + 1, 1);
	const struct cuda_grid g = cuda_products_grid(k, &all, &room);
	card_chain_add(chain, k, g, &all);
}

static void layer_attend(struct card_chain *chain, const struct layer_step *s, uint32_t positions)
{
	const struct cuda_room room = {chain->card->facts.processors, chain->card->facts.shared};
	const struct cuda_heads heads = {
		.keys = {.key = s->key, .value = s->value, .rows = s->rows, .key_step = DIM * 64,
			 .value_offset = KV * DIM * 64, .value_step = DIM * 64, .n = 1, .heads = KV,
			 .head_dim = DIM, .half = 1},
		.q = s->q, .key = s->placed, .q_from = s->q, .q_step = DIM, .q_norm = s->norm, .key_norm = s->norm, .cos = s->norm, .sin = s->norm,
		.heads = HEADS, .turned = DIM / 2, .eps = 1e-6F};
	struct cuda_join_inputs join = {
		.attention = {.q = s->q, .parts = s->parts, .rows = s->rows, .key_step = DIM * 64,
			      .value_offset = KV * DIM * 64, .value_step = DIM * 64, .n = 1,
			      .heads = HEADS, .group = HEADS / KV, .head_dim = DIM,
			      .spans = (positions + 255) / 256, .half = 1, .scale = 0.088F, .copy_keys = 1},
		.q = s->inputs, .scale = s->scale, .sum = s->sum};

	cuda_fill_signs(&join.signs);
	struct cuda_attend_heads together = {.attention = join.attention, .heads = heads};
	if (cuda_attends_heads(&together, &room)) {
		const struct cuda_grid g = cuda_attend_heads_grid(&together);
		card_chain_add(chain, cuda_attend_heads_number, g, &together);
	} else {
		card_chain_add(chain, cuda_place_heads_number, cuda_heads_grid(&heads), &heads);
		card_chain_add(chain, cuda_attend_spans_number, cuda_spans_grid(&join.attention),
			       &join.attention);
	}
	card_chain_add(chain, cuda_join_kernel(&join), cuda_join_inputs_grid(&join), &join);
}

static void layer_experts(struct card_chain *chain, const struct layer_step *s, size_t set)
{
	const struct cuda_route route = {
		.choice = {.logits = s->logits, .chosen = s->chosen, .weight = s->weight,
			   .rank = s->count + TOP_K, .rows = 1, .experts = EXPERTS, .top_k = TOP_K,
			   .normalise = 1, .multiplier = 1, .scaling = 1},
		.groups = {.chosen = s->chosen, .slots = s->slots[set], .rows = 1, .top_k = TOP_K,
			   .experts = EXPERTS, .most = 1, .order = s->order, .items = s->items,
			   .item_count = s->count}};
	struct cuda_gate_inputs gate = {.gate = s->gate, .up = s->gate + TOP_K * SIZE, .q = s->inputs,
					.scale = s->scale, .sum = s->sum, .k = SIZE, .n = TOP_K};

	cuda_fill_signs(&gate.signs);
	layer_multiply(chain, s, set, ROUTER, s->logits);
	card_chain_add(chain, cuda_route_number, cuda_choice_grid(&route.choice), &route);
	layer_multiply(chain, s, set, GATE, s->gate);
	card_chain_add(chain, cuda_gate_kernel(&gate), cuda_gate_inputs_grid(&gate), &gate);
	layer_multiply(chain, s, set, DOWN, s->down);
}

/* One layer. */
static void layer_add(struct card_chain *chain, const struct layer_step *s, size_t set,
		      uint32_t positions)
{
	struct cuda_norm_inputs norm = {.x = s->x, .to = s->between,
					.experts = {.outputs = s->down, .weight = s->weight, .top_k = TOP_K},
					.w = s->norm, .q = s->inputs, .scale = s->scale,
					.sum = s->sum, .rows = 1,
					.n = HIDDEN, .eps = 1e-6F};

	cuda_fill_signs(&norm.signs);
	card_chain_add(chain, cuda_norm_kernel(&norm), cuda_norm_inputs_grid(&norm), &norm);
	layer_project(chain, s, set);
	layer_attend(chain, s, positions);
	layer_multiply(chain, s, set, OUT, s->out);
	norm.x = s->between;
	norm.to = s->x;
	norm.added = s->out;
	norm.y = s->sum ? s->normed : NULL; /* for the router */
	norm.experts = (struct cuda_expert_sum){0};
	card_chain_add(chain, cuda_norm_kernel(&norm), cuda_norm_inputs_grid(&norm), &norm);
	layer_experts(chain, s, set);
}

/* The chain of all layers, whose launches begin early or not, in microseconds of a layer; without the launch of
 * that number of each. */
static double layers_time(const struct layers *x, const struct layer_step *s, bool early, uint32_t left_out)
{
	struct card_chain chain;

	card_chain_begin(&chain, x->card, early);
	chain.period = left_out < LAUNCHES ? LAUNCHES : 0;
	chain.left_out = left_out;
	for (size_t i = 0; i < LAYERS; i++)
		layer_add(&chain, s, i % SETS, x->positions);
	return card_chain_end(&chain) / LAYERS;
}

/* By how much a layer is faster without one of its launches. */
static void layers_parts(const struct layers *x, const struct layer_step *s, double whole)
{
	static const char *const name[LAUNCHES] = {"norm", "queries, keys, values", "attention",
						   "joined", "out", "norm", "router", "choice", "gate and up",
						   "gated", "down"};

	for (uint32_t i = 0; i < LAUNCHES; i++)
		printf("%s: %s: %.2f us\n", x->model->name, name[i], whole - layers_time(x, s, true, i));
}

static void card_measure_model(struct card *c, const struct layer_model *model)
{
	struct layers x;
	struct layer_step s;

	if (!layers_begin(&x, c, model)) {
		printf("# no memory for layers\n");
		card_give(c, x.memory);
		return;
	}
	for (x.positions = 256; x.positions <= POSITIONS; x.positions *= 4) {
		layers_step(&x, &s);
		const double late = layers_time(&x, &s, false, LAUNCHES);
		const double early = layers_time(&x, &s, true, LAUNCHES);
		printf("%s: one token, %u positions: %.2f (%.2f) us\n", model->name, x.positions, late, early);
		if (x.positions == 256)
			layers_parts(&x, &s, early);
	}
	card_give(c, x.memory);
	card_give(c, x.weights);
}

void card_measure_layers(struct card *c)
{
	for (size_t i = 0; i < LAYER_MODELS; i++)
		card_measure_model(c, &layer_models[i]);
}
