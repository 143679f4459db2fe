/* moefs-bench recipe: what each choice of a recipe costs.
 *
 * For every class of tensors and every format: how far the model's distributions move, when that
 * class alone is in that format and all else is exact, and when all else is as the default recipe
 * has it. The measure is the Kullback-Leibler divergence from the exact model, in nats, the mean
 * over all predicted tokens of a text and of the answers of known turns.
 *
 * The model is loaded once, in exact mode. A choice replaces weights in memory by what is left of
 * them after quantising and back (rounded to the checkpoint's own type again, which is far finer),
 * so what is measured is that of the weights alone; the rows of whole recipes say what the 8-bit
 * activations and the 16-bit keys of the other mode add.
 */
#include "tests/bench/bench.h"
#include "tests/bench/text.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 512, CHUNK = 64, TOKENS_DEFAULT = 8192 };

/* ---- choices ---- */

enum choice { CHOICE_TQ2, CHOICE_TQ3, CHOICE_TQ4, CHOICE_8_BITS, CHOICE_KEPT, CHOICES };
static const struct {
	const char *name;
	enum format format; /* of a TQ choice */
} choices[CHOICES] = {
	[CHOICE_TQ2] = {"tq2", FORMAT_TQ2},	[CHOICE_TQ3] = {"tq3", FORMAT_TQ3},
	[CHOICE_TQ4] = {"tq4", FORMAT_TQ4},	[CHOICE_8_BITS] = {"8 bits", FORMAT_COUNT},
	[CHOICE_KEPT] = {"kept", FORMAT_COUNT},
};
static const enum choice tried[] = {CHOICE_TQ3, CHOICE_TQ4, CHOICE_8_BITS, CHOICE_KEPT};

/* Tensors that a recipe treats alike. The embedding is read by the row, and always kept. */
static const struct group {
	const char *name;
	uint32_t count;
	enum tensor_role roles[3];
} groups[] = {
	{"attention-qkv", 3, {TENSOR_Q, TENSOR_K, TENSOR_V}},
	{"attention-o", 1, {TENSOR_O}},
	{"delta-qkv", 1, {TENSOR_DELTA_QKV}},
	{"delta-z", 1, {TENSOR_DELTA_Z}},
	{"delta-ba", 2, {TENSOR_DELTA_B, TENSOR_DELTA_A}},
	{"delta-out", 1, {TENSOR_DELTA_OUT}},
	{"dense-gate-up", 2, {TENSOR_GATE, TENSOR_UP}},
	{"dense-down", 1, {TENSOR_DOWN}},
	{"router", 1, {TENSOR_ROUTER}},
	{"shared-gate-up", 2, {TENSOR_SHARED_GATE, TENSOR_SHARED_UP}},
	{"shared-down", 1, {TENSOR_SHARED_DOWN}},
	{"shared-scale", 1, {TENSOR_SHARED_SCALE}},
	{"experts-gate-up", 2, {TENSOR_EXPERT_GATE, TENSOR_EXPERT_UP}},
	{"experts-down", 1, {TENSOR_EXPERT_DOWN}},
	{"head", 1, {TENSOR_HEAD}},
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* By role. */
struct selection {
	enum choice of[TENSOR_ROLES];
};

static struct selection all_kept(void)
{
	struct selection s;
	for (int role = 0; role < TENSOR_ROLES; role++)
		s.of[role] = CHOICE_KEPT;
	return s;
}

static struct selection of_recipe(const struct recipe *r)
{
	struct selection s = all_kept();
	for (int role = 0; role < TENSOR_ROLES; role++)
		for (int c = 0; c < CHOICE_8_BITS; c++)
			if (recipe_format(r, (enum tensor_role)role) == choices[c].format)
				s.of[role] = (enum choice)c;
	return s;
}

static struct selection with_group(struct selection s, const struct group *g, enum choice c)
{
	for (uint32_t i = 0; i < g->count; i++)
		s.of[g->roles[i]] = c;
	return s;
}

/* ---- what is predicted ---- */

/* Ids that are computed from an empty context; from `counted` on they are predicted. */
struct passage {
	size_t first, count, counted;
};
struct corpus {
	struct token_list ids;
	struct passage *passages;
	size_t count, predicted;
	float *exact; /* [predicted][vocabulary]: the exact model's log-probabilities */
};

static int add_passage(struct corpus *c, struct passage p, struct err *e)
{
	struct passage *more = reallocarray(c->passages, c->count + 1, sizeof *more);
	if (!more)
		return err_set(e, ENOMEM, "out of memory for a list of passages");
	c->passages = more;
	c->passages[c->count++] = p;
	c->predicted += p.count - p.counted;
	return 0;
}

static int add_text(struct corpus *c, const struct model_view *m, const char *path, uint64_t tokens,
		    struct err *e)
{
	int failed = text_read_ids(&c->ids, m, path, tokens, e);
	for (size_t at = 0; at + 1 < c->ids.count && !failed; at += WINDOW) {
		size_t left = c->ids.count - at;
		failed = add_passage(c, (struct passage){at, left < WINDOW ? left : WINDOW, 1}, e);
	}
	return failed;
}

static const char *member(struct json_object *turn, const char *key)
{
	struct json_object *value;
	return json_object_object_get_ex(turn, key, &value) ? json_object_get_string(value) : NULL;
}

/* Appends the conversation's ids: all of it, or up to where the model answers. */
static int encode(const struct model_view *m, const struct messages *messages, bool answer,
		  struct token_list *ids, struct err *e)
{
	static const struct tm clock = {.tm_year = 126, .tm_mday = 1};
	struct chat_input in = {.messages = messages, .clock = &clock, .answer = answer};
	return chat_encode(m->chat, &in, NULL, ids, e);
}

/* A question and its answer as the model was trained to see them; the answer is predicted. */
static int add_turn(struct corpus *c, const struct model_view *m, const char *line, struct err *e)
{
	struct json_object *turn = json_tokener_parse(line);
	const char *question = member(turn, "question"), *answer = member(turn, "answer");
	struct passage p = {.first = c->ids.count};
	struct messages messages = {0};
	struct token_list asked = {0};
	int failed =
		question && answer ? 0 : err_set(e, EINVAL, "no question and answer in: %s", line);
	if (!failed)
		failed = messages_add(&messages, "user", question, strlen(question), e);
	if (!failed)
		failed = encode(m, &messages, true, &asked, e);
	if (!failed)
		failed = messages_add(&messages, "assistant", answer, strlen(answer), e);
	if (!failed)
		failed = encode(m, &messages, false, &c->ids, e);
	json_object_put(turn);
	messages_free(&messages);
	p.counted = asked.count;
	token_list_free(&asked);
	p.count = c->ids.count - p.first;
	return failed ? failed : add_passage(c, p, e);
}

/* Lines of JSON, as many as have so many tokens. */
static int add_turns(struct corpus *c, const struct model_view *m, const char *path,
		     uint64_t tokens, struct err *e)
{
	char *text, *rest;
	size_t length;
	int failed = text_read(path, &text, &length, e);
	if (!failed && !m->chat)
		failed = err_set(e, ENOTSUP, "%s: the model has no chat", path);
	char *line = failed ? NULL : strtok_r(text, "\n", &rest);
	for (; line && !failed && c->ids.count < tokens; line = strtok_r(NULL, "\n", &rest))
		failed = add_turn(c, m, line, e);
	free(text);
	return failed;
}

static void corpus_free(struct corpus *c)
{
	token_list_free(&c->ids);
	free(c->passages);
	free(c->exact);
}

/* ---- the model ---- */

struct mount {
	struct engine *engine;
	struct model *model;
	struct model_view view;
	struct context context;
	struct batch batch;
	float *logits; /* [CHUNK][vocabulary] */
};

struct bench {
	const char *directory, *text, *turns, *tensors, *store;
	uint64_t tokens, threads;
	bool json;

	struct mount exact;
	struct corpus corpora[2];  /* of the text, and of the turns */
	struct selection standard; /* the default recipe's */
	void *dense, *experts;	   /* the weights as they were loaded */
};

static void mount_close(struct mount *m)
{
	free(m->logits);
	context_free(&m->context);
	batch_free(&m->batch);
	model_close(m->model);
	engine_destroy(m->engine);
	*m = (struct mount){0};
}

static int mount_open(struct mount *m, const struct bench *b, const char *quant, struct err *e)
{
	const struct engine_options options = {
		.budget = UINT64_C(1) << 40, /* all experts, and for context what it takes */
		.context_budget = UINT64_C(1) << 40,
		.threads = (uint32_t)b->threads,
		.chunk = CHUNK,
		.quant = quant,
		.codec = "none",
		.store = b->store,
	};
	int failed = engine_create(&m->engine, &options, e);
	if (!failed)
		failed = model_open(&m->model, m->engine, b->directory, e);
	if (!failed)
		failed = model_wait(m->model, e);
	if (failed)
		return failed;
	model_observe(m->model, &m->view);
	const struct config *c = m->view.config;
	context_init(&m->context, m->view.context_budget, c, m->view.kv);
	m->logits = calloc((size_t)CHUNK * c->vocabulary, sizeof *m->logits);
	return m->logits ? 0 : err_set(e, ENOMEM, "out of memory for logits");
}

/* ---- weights in memory ---- */

/* Replaces a row by what is left of it. */
static void degrade_tq(const struct kernels *k, float *row, uint32_t cols, enum format format,
		       uint8_t *packed)
{
	const struct shape s = {.format = format, .norms = NORM_F32, .rows = 1, .cols = cols};
	float norms[CONFIG_MAX_WIDTH / TQ_GROUP + 1];
	(void)k->tq_quantise_row(packed, norms, row, cols, format_tq_bits(format),
				 TQ_GAIN_LEAST_SQUARES);
	for (size_t g = 0; g < tq_groups(cols); g++)
		norms[g] = f16_to_f32(f32_to_f16(norms[g]));
	format_dequantise_row(row, &s, &(struct pieces){.weights = packed, .scales = norms});
}

/* Blocks of 32 with one scale in 16 bits, as Q8_0 has them. */
static void degrade_8_bits(float *row, uint32_t cols)
{
	enum { BLOCK = 32 };
	for (uint32_t at = 0; at < cols; at += BLOCK) {
		uint32_t n = cols - at < BLOCK ? cols - at : BLOCK;
		float most = 0;
		for (uint32_t i = 0; i < n; i++)
			most = fmaxf(most, fabsf(row[at + i]));
		float scale = f16_to_f32(f32_to_f16(most / 127));
		for (uint32_t i = 0; i < n && scale > 0; i++)
			row[at + i] = scale * roundf(row[at + i] / scale);
	}
}

static void put_row(void *to, const float *row, const struct shape *s)
{
	for (uint32_t i = 0; i < s->cols; i++)
		if (s->format == FORMAT_F32)
			((float *)to)[i] = row[i];
		else
			((uint16_t *)to)[i] =
				s->format == FORMAT_F16 ? f32_to_f16(row[i]) : f32_to_bf16(row[i]);
}

/* A matrix in memory; 16- and 32-bit ones lie as they do on disk. */
static int degrade(const struct kernels *k, void *data, const struct shape *s, enum choice c,
		   struct err *e)
{
	struct shape one = *s;
	one.rows = 1;
	size_t bytes = format_packed_bytes(&one);
	float *row = malloc(((size_t)s->cols + TQ_GROUP) * sizeof *row);
	uint8_t *packed = malloc(tq_groups(s->cols) * TQ_GROUP), *at = data;
	int failed = row && packed ? 0 : err_set(e, ENOMEM, "out of memory for a row");
	for (uint32_t r = 0; r < s->rows && !failed; r++, at += bytes) {
		format_dequantise_row(row, &one, &(struct pieces){.weights = at});
		if (c == CHOICE_8_BITS)
			degrade_8_bits(row, s->cols);
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
	for (uint32_t part = 0; part < EXPERT_PARTS && !failed; part++) {
		enum choice c = s->of[plan_part_role(part)];
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
	b->dense = malloc(m->weights->memory_bytes);
	b->experts = malloc(count * m->plan->slot_bytes + 1);
	if (!b->dense || !b->experts)
		return err_set(e, ENOMEM, "out of memory for a copy of the weights");
	memcpy(b->dense, m->weights->memory, m->weights->memory_bytes);
	return each_expert(b, NULL, keep_slot, e);
}

static int set_weights(struct bench *b, const struct selection *s, struct err *e)
{
	const struct model_view *m = &b->exact.view;
	memcpy(m->weights->memory, b->dense, m->weights->memory_bytes);
	int failed = 0;
	for (uint32_t i = 0; i < m->plan->dense_count && !failed; i++) {
		const struct plan_tensor *t = &m->plan->dense[i];
		enum tensor_role role = t->id.role;
		if (s->of[role] == CHOICE_KEPT || t->draft)
			continue;
		const struct layer_weights *at = tensor_roles[role].place == PLACE_LAYER
							 ? &m->weights->layer[t->id.layer]
							 : &m->weights->once;
		failed = degrade(b->exact.view.kernels, (void *)at->m[role].data, &t->shape,
				 s->of[role], e);
	}
	return failed ? failed : each_expert(b, s, set_slot, e);
}

/* ---- measuring ---- */

struct divergence {
	double nats; /* mean of KL(exact || this) */
	double same; /* share of tokens whose likeliest one stays so */
};

/* Logits become logarithms of probabilities; returns the likeliest. */
static uint32_t normalise(float *logits, uint32_t n)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += expf(logits[i] - logits[best]);
	float whole = (float)log(sum) + logits[best];
	for (uint32_t i = 0; i < n; i++)
		logits[i] -= whole;
	return best;
}

/* exact: logarithms of probabilities. */
static void add_divergence(struct divergence *d, const float *exact, float *now, uint32_t n)
{
	uint32_t best = normalise(now, n);
	bool same = true;
	for (uint32_t i = 0; i < n; i++) {
		d->nats += expf(exact[i]) * ((double)exact[i] - now[i]);
		same &= exact[i] <= exact[best];
	}
	d->same += same;
}

/* What the model says of a passage's tokens [first, first + n), whose rows are given: it is
 * compared with what the exact model said, at *exact, or, if d is NULL, is that. */
static void take_rows(const struct passage *p, size_t first, size_t n, float *logits,
		      uint32_t vocabulary, float **exact, struct divergence *d)
{
	for (size_t t = 0; t < n; t++, logits += vocabulary) {
		size_t next = first + t + 1;
		if (next < p->counted || next >= p->count)
			continue;
		if (d) {
			add_divergence(d, *exact, logits, vocabulary);
		} else {
			(void)normalise(logits, vocabulary);
			memcpy(*exact, logits, vocabulary * sizeof *logits);
		}
		*exact += vocabulary;
	}
}

static int predict(struct mount *m, struct corpus *c, struct divergence *d, struct err *e)
{
	uint32_t vocabulary = m->view.config->vocabulary;
	float *exact = c->exact;
	const struct row row = {.context = &m->context, .logits = true};
	for (const struct passage *p = c->passages; p < c->passages + c->count; p++) {
		context_rollback(&m->context, 0);
		for (size_t done = 0, n; done < p->count; done += n) {
			n = p->count - done < CHUNK ? p->count - done : CHUNK;
			batch_clear(&m->batch);
			int failed = batch_add(&m->batch, &row, c->ids.ids + p->first + done,
					       (uint32_t)n, e);
			if (!failed)
				failed = forward_run(m->view.forward, &m->batch, m->logits, e);
			if (failed)
				return failed;
			take_rows(p, done, n, m->logits, vocabulary, &exact, d);
		}
	}
	return 0;
}

static int diverge(struct bench *b, struct mount *m, struct divergence out[2], struct err *e)
{
	int failed = 0;
	for (int i = 0; i < 2 && !failed; i++) {
		struct corpus *c = &b->corpora[i];
		out[i] = (struct divergence){0};
		failed = predict(m, c, &out[i], e);
		out[i].nats /= (double)c->predicted;
		out[i].same /= (double)c->predicted;
	}
	return failed;
}

/* With the weights of a selection. An expert that had been read anew would be an exact one. */
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

static int keep_exact(struct bench *b, struct err *e)
{
	uint32_t vocabulary = b->exact.view.config->vocabulary;
	int failed = 0;
	for (int i = 0; i < 2 && !failed; i++) {
		struct corpus *c = &b->corpora[i];
		c->exact = calloc(c->predicted, (size_t)vocabulary * sizeof *c->exact);
		failed = c->exact ? predict(&b->exact, c, NULL, e)
				  : err_set(e, ENOMEM,
					    "out of memory for %zu tokens' probabilities; ask for "
					    "fewer "
					    "with --tokens",
					    c->predicted);
	}
	return failed;
}

/* ---- reporting ---- */

/* Parameters of a role that a token meets. */
static double active(const struct model_view *m, enum tensor_role role)
{
	double sum = 0;
	for (uint32_t layer = 0; layer < m->config->layers; layer++) {
		const struct tensor_kind *k = &tensor_roles[role];
		uint32_t rows, cols;
		config_tensor_shape(m->config, role, layer, &rows, &cols);
		if (!config_has_tensor(m->config, role, layer))
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
	for (uint32_t i = 0; i < g->count; i++)
		sum += active(m, g->roles[i]);
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
	for (size_t i = 0; i < sizeof tried / sizeof *tried && !failed; i++) {
		struct divergence alone[2], within[2];
		struct selection s = with_group(all_kept(), g, tried[i]);
		failed = diverge_with(b, &s, alone, e);
		s = with_group(b->standard, g, tried[i]);
		if (!failed)
			failed = diverge_with(b, &s, within, e);
		if (failed)
			break;
		table_text(t, g->name);
		table_number(t, share);
		table_text(t, choices[tried[i]].name);
		table_text(t, b->standard.of[g->roles[0]] == tried[i] ? "default" : "");
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
		{"within_text", "in the default: text", 3},
		{"within_turns", "answers", 3},
	};
	struct table t;
	double all = 0;
	int failed = 0;
	for (size_t i = 0; i < GROUPS; i++)
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
	struct selection s = of_recipe(&r);
	if (!failed)
		failed = diverge_with(b, &s, d, e);
	if (failed)
		return failed;
	put_recipe(t, quant, "exact", d);
	failed = mount_open(&m, b, quant, e);
	if (!failed)
		failed = diverge(b, &m, d, e);
	if (!failed)
		put_recipe(t, quant, "its own", d);
	mount_close(&m);
	return failed;
}

static int measure_recipes(struct bench *b, struct report *r, struct err *e)
{
	static const char *const quants[] = {"tq2", "tq3", "tq4"};
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
		failed = measure_recipe(b, &t, quants[i], e);
	table_end(&t);
	return failed;
}

/* ---- the command ---- */

static int prepare(struct bench *b, struct err *e)
{
	struct recipe standard;
	int failed = b->text && b->turns
			     ? recipe_find(&standard, NULL, e)
			     : err_set(e, EINVAL, "--text FILE and --turns FILE are wanted");
	if (failed)
		return failed;
	b->standard = of_recipe(&standard);
	failed = mount_open(&b->exact, b, "bf16", e);
	if (!failed)
		failed = add_text(&b->corpora[0], &b->exact.view, b->text, b->tokens, e);
	if (!failed)
		failed = add_turns(&b->corpora[1], &b->exact.view, b->turns, b->tokens, e);
	if (!failed)
		failed = keep_weights(b, e);
	return failed ? failed : keep_exact(b, e);
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
	struct bench b = {.tokens = TOKENS_DEFAULT, .threads = effort_default().threads};
	const struct bench_option options[] = {
		{"text", OPTION_TEXT, &b.text, 0, 0, "a text to predict, in UTF-8"},
		{"turns", OPTION_TEXT, &b.turns, 0, 0,
		 "lines of JSON with a question and an answer, such as a skills.jsonl"},
		{"tensors", OPTION_TEXT, &b.tensors, 0, 0,
		 "classes of the second table, such as router,head (all)"},
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
