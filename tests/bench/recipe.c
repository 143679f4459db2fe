/* moefs-bench recipe: the cost of each choice of a recipe.
 *
 * For every class of tensors, every layer at the ends, and every format: how far the model's
 * distributions move, when that class alone is in that format and all else is exact, and when all
 * else is as the default recipe (or another) has it. The measure is the Kullback-Leibler divergence
 * from the exact model, in nats, the mean over all predicted tokens of a text and of the answers of
 * known turns.
 *
 * The model is loaded once, in exact mode. A choice replaces weights in memory by what is left of
 * them after quantising and back (rounded to the checkpoint's own type again, which is far finer),
 * so what is measured is that of the weights alone; the rows of whole recipes say what the 8-bit
 * activations and the 16-bit keys of the other mode add.
 */
#include "kernels/block.h"
#include "tests/bench/bench.h"
#include "tests/bench/divergence.h"
#include "tests/bench/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_DEFAULT = 8192, LAST = 1 << 16 };

/* ---- choices ---- */

enum choice {
	CHOICE_TQ2,
	CHOICE_TQ3,
	CHOICE_TQ4,
	CHOICE_TC2,
	CHOICE_TC3,
	CHOICE_TC4,
	CHOICE_Q5_0,
	CHOICE_Q6_K,
	CHOICE_8_BITS,
	CHOICE_KEPT,
	CHOICES
};
static const struct {
	const char *name;
	enum format format; /* FORMAT_COUNT: none, it is kept */
} choices[CHOICES] = {
	[CHOICE_TQ2] = {"tq2", FORMAT_TQ2},	   [CHOICE_TQ3] = {"tq3", FORMAT_TQ3},
	[CHOICE_TQ4] = {"tq4", FORMAT_TQ4},	   [CHOICE_TC2] = {"tc2", FORMAT_TC2},
	[CHOICE_TC3] = {"tc3", FORMAT_TC3},	   [CHOICE_TC4] = {"tc4", FORMAT_TC4},
	[CHOICE_Q5_0] = {"q5_0", FORMAT_Q5_0},	   [CHOICE_Q6_K] = {"q6_k", FORMAT_Q6_K},
	[CHOICE_8_BITS] = {"8 bits", FORMAT_Q8_0}, [CHOICE_KEPT] = {"kept", FORMAT_COUNT},
};
static const char usual_formats[] = "tq3,tq4,tc2,tc3,tc4,q5_0,q6_k,8 bits,kept";

/* Tensors that a recipe treats alike, or all of a layer. The embedding is read by the row, and
 * always kept. */
static const struct group {
	const char *name;
	uint32_t count; /* 0: all roles … */
	enum tensor_role roles[3];
	uint32_t layer; /* … in this layer, counted from 1; LAST is the last */
} groups[] = {
	{"attention-q", 1, {TENSOR_Q}, 0},
	{"attention-k", 1, {TENSOR_K}, 0},
	{"attention-v", 1, {TENSOR_V}, 0},
	{"attention-o", 1, {TENSOR_O}, 0},
	{"delta-qkv", 1, {TENSOR_DELTA_QKV}, 0},
	{"delta-z", 1, {TENSOR_DELTA_Z}, 0},
	{"delta-ba", 2, {TENSOR_DELTA_B, TENSOR_DELTA_A}, 0},
	{"delta-out", 1, {TENSOR_DELTA_OUT}, 0},
	{"dense-gate-up", 2, {TENSOR_GATE, TENSOR_UP}, 0},
	{"dense-down", 1, {TENSOR_DOWN}, 0},
	{"router", 1, {TENSOR_ROUTER}, 0},
	{"shared-gate-up", 2, {TENSOR_SHARED_GATE, TENSOR_SHARED_UP}, 0},
	{"shared-down", 1, {TENSOR_SHARED_DOWN}, 0},
	{"shared-scale", 1, {TENSOR_SHARED_SCALE}, 0},
	{"experts-gate-up", 2, {TENSOR_EXPERT_GATE, TENSOR_EXPERT_UP}, 0},
	{"experts-down", 1, {TENSOR_EXPERT_DOWN}, 0},
	{"head", 1, {TENSOR_HEAD}, 0},
	{"first-layer", 0, {0}, 1},
	{"second-layer", 0, {0}, 2},
	{"last-but-one-layer", 0, {0}, LAST - 1},
	{"last-layer", 0, {0}, LAST},
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* By role, in the last layer and in the others, but for one layer. */
struct selection {
	enum choice of[TENSOR_ROLES], of_last[TENSOR_ROLES];
	uint32_t last;	/* the last layer, counted from 1 */
	uint32_t layer; /* counted from 1; 0: there is none */
	enum choice in_layer;
};

static struct selection all_kept(void)
{
	struct selection s = {.layer = 0};
	for (int role = 0; role < TENSOR_ROLES; role++)
		s.of[role] = s.of_last[role] = CHOICE_KEPT;
	return s;
}

static enum choice choice_of(const struct selection *s, enum tensor_role role, uint32_t layer)
{
	enum tensor_class class = tensor_roles[role].class;
	bool in_layer =
		tensor_roles[role].place == PLACE_LAYER || tensor_roles[role].place == PLACE_EXPERT;
	if (class >= CLASS_MATRICES || class == CLASS_EMBEDDING)
		return CHOICE_KEPT;
	if (in_layer && layer + 1 == s->layer)
		return s->in_layer;
	return in_layer && layer + 1 == s->last ? s->of_last[role] : s->of[role];
}

static enum choice choice_of_recipe(const struct recipe *r, const struct config *model,
				    struct tensor_id id)
{
	uint32_t rows, cols;
	config_tensor_shape(model, id.role, id.layer, &rows, &cols);
	int c = 0;
	while (c < CHOICE_KEPT && (!cols || recipe_format(r, model, id, cols) != choices[c].format))
		c++;
	return (enum choice)c;
}

static struct selection of_recipe(const struct recipe *r, const struct config *model)
{
	struct selection s = all_kept();
	s.last = model->layers;
	for (uint32_t layer = model->layers; layer-- > 0;)
		for (int role = 0; role < TENSOR_ROLES; role++) {
			const struct tensor_id id = {(enum tensor_role)role, layer, 0};
			if (!config_has_tensor(model, id.role, layer))
				continue;
			s.of[role] = choice_of_recipe(r, model, id);
			if (layer + 1 == s.last)
				s.of_last[role] = s.of[role];
		}
	return s;
}

static struct selection with_group(struct selection s, const struct group *g, uint32_t layers,
				   enum choice c)
{
	if (!g->count) {
		s.layer = g->layer > LAST / 2 ? layers - (LAST - g->layer) : g->layer;
		s.in_layer = c;
	}
	for (uint32_t i = 0; i < g->count; i++)
		s.of[g->roles[i]] = s.of_last[g->roles[i]] = c;
	return s;
}

/* ---- the model ---- */

struct bench {
	const char *directory, *text, *turns, *tensors, *formats, *recipes, *within, *store;
	uint64_t tokens, threads;
	bool json;

	struct mount exact;
	struct corpus corpora[2];  /* of the text, and of the turns */
	struct selection standard; /* the recipe's that others are seen within */
	void *dense, *experts;	   /* the weights as they were loaded */
};

static int open_mount(struct mount *m, const struct bench *b, const char *quant, struct err *e)
{
	const struct mount_options o = {b->directory, quant, b->store, b->threads, 0};
	return mount_open(m, &o, e);
}

/* ---- weights in memory ---- */

/* Replaces a row by what is left of it. */
static void degrade_tq(const struct kernels *k, float *row, uint32_t cols, enum format format,
		       uint8_t *packed)
{
	const struct shape s = {.format = format, .norms = NORM_F32, .rows = 1, .cols = cols};
	float norms[CONFIG_MAX_WIDTH / TQ_GROUP + 1];
	if (format_is_trellis(format))
		(void)k->tc_quantise_row(packed, norms, row, cols, format_tq_bits(format));
	else
		(void)k->tq_quantise_row(packed, norms, row, cols, format_tq_bits(format),
					 TQ_GAIN_LEAST_SQUARES);
	for (size_t g = 0; g < tq_groups(cols); g++)
		norms[g] = f16_to_f32(f16_from_f32(norms[g]));
	format_dequantise_row(row, &s, &(struct pieces){.weights = packed, .scales = norms});
}

/* Rows that are no whole number of blocks stay as they are. */
static void degrade_blocks(float *row, uint32_t cols, enum format format, uint8_t *packed)
{
	const struct shape s = {.format = format, .rows = 1, .cols = cols};
	if (format_shape_fits(&s) && block_quantise(format, packed, row, cols))
		format_dequantise_row(row, &s, &(struct pieces){.weights = packed});
}

static void put_row(void *to, const float *row, const struct shape *s)
{
	for (uint32_t i = 0; i < s->cols; i++)
		if (s->format == FORMAT_F32)
			((float *)to)[i] = row[i];
		else
			((uint16_t *)to)[i] = s->format == FORMAT_F16 ? f16_from_f32(row[i])
								      : bf16_from_f32(row[i]);
}

/* A matrix in memory; 16- and 32-bit ones lie as they do on disk. */
static int degrade(const struct kernels *k, void *data, const struct shape *s, enum choice c,
		   struct err *e)
{
	struct shape one = *s;
	one.rows = 1;
	size_t bytes = format_packed_bytes(&one);
	float *row = malloc(((size_t)s->cols + TQ_GROUP) * sizeof *row);
	uint8_t *packed = malloc(2 * tq_groups(s->cols) * TQ_GROUP), *at = data;
	int failed = row && packed ? 0 : err_set(e, ENOMEM, "out of memory for a row");
	for (uint32_t r = 0; r < s->rows && !failed; r++, at += bytes) {
		format_dequantise_row(row, &one, &(struct pieces){.weights = at});
		if (format_is_block(choices[c].format))
			degrade_blocks(row, s->cols, choices[c].format, packed);
		else
			degrade_tq(k, row, s->cols, choices[c].format, packed);
		put_row(at, row, s);
	}
	free(row);
	free(packed);
	return failed;
}

/* Does something with the slot of each expert. `number` counts them. */
typedef int slot_fn(struct bench *b, const struct selection *s, size_t number, void *slot,
		    struct err *e);

static int each_expert(struct bench *b, const struct selection *s, slot_fn *each, struct err *e)
{
	const struct model_view *m = &b->exact.view;
	uint32_t layers = m->plan->routed_layers, experts = m->config->experts;
	int failed = 0;
	for (uint32_t n = 0; n < layers * experts && !failed; n++) {
		struct pager_batch batch;
		struct pager_ready ready;
		uint32_t expert = n % experts;
		failed = pager_begin(&batch, m->experts, n / experts, &expert, NULL, 1, 0, e);
		if (failed)
			break;
		int got = pager_next(&batch, &ready, 1, e);
		if (got > 0 && ready.error) {
			*e = *ready.error;
			got = -e->code;
		}
		failed = got < 0 ? got : each(b, s, n, (void *)ready.data, e);
		if (got > 0)
			pager_put(&batch, &ready);
		pager_end(&batch);
	}
	return failed;
}

static int keep_slot(struct bench *b, const struct selection *s, size_t number, void *slot,
		     struct err *e)
{
	(void)s;
	(void)e;
	const struct plan *p = b->exact.view.plan;
	memcpy((char *)b->experts + number * p->slot_bytes, slot,
	       p->record[number / p->experts].slot_bytes);
	return 0;
}

static int set_slot(struct bench *b, const struct selection *s, size_t number, void *slot,
		    struct err *e)
{
	const struct plan *p = b->exact.view.plan;
	const struct plan_record *record = &p->record[number / p->experts];
	memcpy(slot, (char *)b->experts + number * p->slot_bytes, record->slot_bytes);
	int failed = 0;
	for (uint32_t part = p->first_part; part < EXPERT_PARTS && !failed; part++) {
		enum choice c =
			choice_of(s, plan_part_role(part), p->layer_of[number / p->experts]);
		if (c != CHOICE_KEPT)
			failed = degrade(b->exact.view.kernels,
					 (char *)slot + record->slot_offset[part],
					 &record->part[part], c, e);
	}
	return failed;
}

static int keep_weights(struct bench *b, struct err *e)
{
	const struct model_view *m = &b->exact.view;
	size_t count = (size_t)m->plan->routed_layers * m->config->experts;
	b->dense = malloc(m->weights->memory.bytes);
	b->experts = malloc(count * m->plan->slot_bytes + 1);
	if (!b->dense || !b->experts)
		return err_set(e, ENOMEM, "out of memory for a copy of the weights");
	memcpy(b->dense, m->weights->memory.at, m->weights->memory.bytes);
	return each_expert(b, NULL, keep_slot, e);
}

static int set_weights(struct bench *b, const struct selection *s, struct err *e)
{
	const struct model_view *m = &b->exact.view;
	memcpy(m->weights->memory.at, b->dense, m->weights->memory.bytes);
	int failed = 0;
	for (uint32_t i = 0; i < m->plan->dense_count && !failed; i++) {
		const struct plan_tensor *t = &m->plan->dense[i];
		enum tensor_role role = t->id.role;
		enum choice c = choice_of(s, role, t->id.layer);
		if (c == CHOICE_KEPT || t->draft)
			continue;
		const struct layer_weights *at = tensor_roles[role].place == PLACE_LAYER
							 ? &m->weights->layer[t->id.layer]
							 : &m->weights->once;
		failed = degrade(b->exact.view.kernels, (void *)at->m[role].data, &t->shape, c, e);
	}
	return failed ? failed : each_expert(b, s, set_slot, e);
}

/* ---- measuring ---- */

static int diverge(struct bench *b, struct mount *m, struct divergence out[2], struct err *e)
{
	int failed = 0;
	for (int i = 0; i < 2 && !failed; i++)
		failed = corpus_diverge(&b->corpora[i], m, &out[i], e);
	return failed;
}

/* With the weights of a selection. An expert that had been read again would be an exact one. */
static int diverge_with(struct bench *b, const struct selection *s, struct divergence out[2],
			struct err *e)
{
	struct pager_stats before, after;
	int failed = set_weights(b, s, e);
	model_cache_stats(b->exact.model, &before);
	if (!failed)
		failed = diverge(b, &b->exact, out, e);
	model_cache_stats(b->exact.model, &after);
	if (!failed && after.misses != before.misses)
		failed = err_set(e, ENOMEM, "the experts do not all fit into memory");
	return failed;
}

/* ---- reporting ---- */

/* Parameters of a role that a token meets, in a layer counted from 1, or in all (0). */
static double active(const struct model_view *m, enum tensor_role role, uint32_t only)
{
	double sum = 0;
	for (uint32_t layer = 0; layer < m->config->layers; layer++) {
		const struct tensor_kind *k = &tensor_roles[role];
		uint32_t rows, cols;
		config_tensor_shape(m->config, role, layer, &rows, &cols);
		if (!config_has_tensor(m->config, role, layer) || (only && layer + 1 != only))
			continue;
		double one = (double)rows * cols;
		if (k->place == PLACE_OUTPUT)
			return one;
		sum += one * (k->place == PLACE_EXPERT ? m->config->experts_per_token : 1);
	}
	return sum;
}

static double active_of(const struct model_view *m, const struct group *g)
{
	double sum = 0;
	uint32_t layer = g->layer > LAST / 2 ? m->config->layers - (LAST - g->layer) : g->layer;
	for (uint32_t i = 0; i < g->count; i++)
		sum += active(m, g->roles[i], 0);
	for (size_t i = 0; i < GROUPS && !g->count; i++)
		for (uint32_t k = 0; k < groups[i].count; k++)
			if (tensor_roles[groups[i].roles[k]].place != PLACE_OUTPUT)
				sum += active(m, groups[i].roles[k], layer);
	return sum;
}

static void put_divergence(struct table *t, const struct divergence d[2])
{
	for (int i = 0; i < 2; i++)
		table_number(t, 1000 * d[i].nats);
}

static int measure_group(struct bench *b, struct table *t, const struct group *g, double share,
			 struct err *e)
{
	int failed = 0;
	uint32_t layers = b->exact.view.config->layers;
	for (int c = 0; c < CHOICES && !failed; c++) {
		struct divergence alone[2], within[2];
		if (!name_listed(b->formats, choices[c].name))
			continue;
		struct selection s = with_group(all_kept(), g, layers, (enum choice)c);
		failed = diverge_with(b, &s, alone, e);
		s = with_group(b->standard, g, layers, (enum choice)c);
		if (!failed)
			failed = diverge_with(b, &s, within, e);
		if (failed)
			break;
		table_text(t, g->name);
		table_number(t, share);
		table_text(t, choices[c].name);
		bool standard = g->count && b->standard.of[g->roles[0]] == (enum choice)c;
		table_text(t, standard ? "default" : "");
		put_divergence(t, alone);
		put_divergence(t, within);
	}
	return failed;
}

static int measure_groups(struct bench *b, struct report *r, struct err *e)
{
	static const struct column columns[] = {
		{"tensors", "tensors", -1},
		{"share_percent", "% of a token's weights", 1},
		{"format", "format", -1},
		{"default", "", -1},
		{"alone_text", "alone: text", 3},
		{"alone_turns", "answers", 3},
		{"within_text", "in the recipe: text", 3},
		{"within_turns", "answers", 3},
	};
	struct table t;
	double all = 0;
	int failed = 0;
	for (size_t i = 0; i < GROUPS && groups[i].count; i++)
		all += active_of(&b->exact.view, &groups[i]);
	table_begin(&t, r, "groups",
		    "divergence in nats / 1000, of one class of tensors in a format", columns,
		    sizeof columns / sizeof *columns);
	for (size_t i = 0; i < GROUPS && !failed; i++) {
		double own = active_of(&b->exact.view, &groups[i]);
		if (own > 0 && name_listed(b->tensors, groups[i].name))
			failed = measure_group(b, &t, &groups[i], 100 * own / all, e);
	}
	table_end(&t);
	return failed;
}

static void put_recipe(struct table *t, const char *name, const char *arithmetic,
		       const struct divergence d[2])
{
	table_text(t, name);
	table_text(t, arithmetic);
	put_divergence(t, d);
	for (int i = 0; i < 2; i++)
		table_number(t, 100 * d[i].same);
}

/* A whole recipe: its weights in exact arithmetic, and as it is. */
static int measure_recipe(struct bench *b, struct table *t, const char *quant, struct err *e)
{
	struct recipe r;
	struct divergence d[2];
	struct mount m = {0};
	int failed = recipe_find(&r, quant, e);
	struct selection s = of_recipe(&r, b->exact.view.config);
	if (!failed)
		failed = diverge_with(b, &s, d, e);
	if (failed)
		return failed;
	put_recipe(t, quant, "exact", d);
	failed = open_mount(&m, b, quant, e);
	if (!failed)
		failed = diverge(b, &m, d, e);
	if (!failed)
		put_recipe(t, quant, "its own", d);
	mount_close(&m);
	return failed;
}

static int measure_recipes(struct bench *b, struct report *r, struct err *e)
{
	static const char *const quants[] = {"tq2",  "tq3",  "tq4",  "2bit",
					     "3bit", "4bit", "6bit", "8bit"};
	static const struct column columns[] = {
		{"recipe", "recipe", -1},
		{"arithmetic", "arithmetic", -1},
		{"text", "text", 3},
		{"turns", "answers", 3},
		{"same_text", "same best, %: text", 2},
		{"same_turns", "answers", 2},
	};
	struct table t;
	int failed = 0;
	table_begin(&t, r, "recipes", "divergence in nats / 1000, of whole recipes", columns,
		    sizeof columns / sizeof *columns);
	for (size_t i = 0; i < sizeof quants / sizeof *quants && !failed; i++)
		if (name_listed(b->recipes, quants[i]))
			failed = measure_recipe(b, &t, quants[i], e);
	table_end(&t);
	return failed;
}

/* ---- the command ---- */

static int prepare(struct bench *b, struct err *e)
{
	struct recipe standard;
	int failed = b->text && b->turns
			     ? recipe_find(&standard, b->within, e)
			     : err_set(e, EINVAL, "--text FILE and --turns FILE are wanted");
	if (!failed)
		failed = open_mount(&b->exact, b, "bf16", e);
	if (failed)
		return failed;
	if (!b->within)
		recipe_find_default(&standard, b->exact.view.config, UINT64_MAX);
	b->standard = of_recipe(&standard, b->exact.view.config);
	failed = corpus_add_text(&b->corpora[0], &b->exact.view, b->text, b->tokens, e);
	if (!failed)
		failed = corpus_add_turns(&b->corpora[1], &b->exact.view, b->turns, b->tokens, e);
	if (!failed)
		failed = keep_weights(b, e);
	for (int i = 0; i < 2 && !failed; i++) {
		struct divergence none;
		failed = corpus_keep_exact(&b->corpora[i], &b->exact, &none, e);
	}
	return failed;
}

static int run(struct bench *b, struct err *e)
{
	struct report r;
	int failed = prepare(b, e);
	if (failed)
		return failed;
	report_begin(&r, "recipe", b->json);
	report_text(&r, "model", "model", model_name(b->exact.model));
	report_number(&r, "text_tokens", "tokens predicted of the text",
		      (double)b->corpora[0].predicted, 0);
	report_number(&r, "turn_tokens", "tokens predicted of answers",
		      (double)b->corpora[1].predicted, 0);
	failed = measure_recipes(b, &r, e);
	if (!failed)
		failed = measure_groups(b, &r, e);
	int unsaid = report_end(&r, failed ? NULL : e);
	return failed ? failed : unsaid;
}

int recipe_command(int argc, char **argv, struct err *e)
{
	struct bench b = {.formats = usual_formats,
			  .tokens = TOKENS_DEFAULT,
			  .threads = effort_default().threads};
	const struct bench_option options[] = {
		{"text", OPTION_TEXT, &b.text, 0, 0, "a text to predict, in UTF-8"},
		{"turns", OPTION_TEXT, &b.turns, 0, 0,
		 "lines of JSON with a question and an answer, such as a skills.jsonl"},
		{"tensors", OPTION_TEXT, &b.tensors, 0, 0,
		 "classes of the second table, such as router,head (all)"},
		{"formats", OPTION_TEXT, &b.formats, 0, 0, "what they are tried in (all but tq2)"},
		{"recipes", OPTION_TEXT, &b.recipes, 0, 0, "of the first table (all)"},
		{"within", OPTION_TEXT, &b.within, 0, 0,
		 "the recipe of the last columns (the model's default)"},
		{"tokens", OPTION_NUMBER, &b.tokens, 2, TEXT_MOST, "at most so many of either"},
		{"store", OPTION_TEXT, &b.store, 0, 0, "folder of stores, as moefs -o store="},
		{"threads", OPTION_NUMBER, &b.threads, 1, 1024, "all threads"},
		{"json", OPTION_FLAG, &b.json, 0, 0, "one JSON object"},
	};
	const struct command_line line = {"recipe MODEL --text FILE --turns FILE", options,
					  sizeof options / sizeof *options, &b.directory, 1};
	int failed = command_line_parse(&line, argc, argv, e);
	if (!failed)
		failed = run(&b, e);
	free(b.dense);
	free(b.experts);
	for (int i = 0; i < 2; i++)
		corpus_free(&b.corpora[i]);
	mount_close(&b.exact);
	return failed;
}
