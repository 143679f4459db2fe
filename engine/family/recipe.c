#include "engine/family/recipe.h"
#include "engine/family/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A row for each recipe, a column for each class (role.h) from CLASS_SMALL on. Experts are read
 * from disk and fill the cache; a dense feed-forward is most of a model without experts. The effect
 * of the other classes was measured (README.md). The embedding is read row by row and always keeps
 * its type. KP: keep the checkpoint's type.
 *
 * Stores have the table number of their recipe in their key, so a row must never change. To improve
 * a recipe, add a row of the same name before it, with the next table number. */
#define T2 FORMAT_TQ2
#define T3 FORMAT_TQ3
#define T4 FORMAT_TQ4
#define C2 FORMAT_TC2
#define C3 FORMAT_TC3
#define C4 FORMAT_TC4
#define Q5 FORMAT_Q5_0
#define Q6 FORMAT_Q6_K
#define Q8 FORMAT_Q8_0
#define KP FORMAT_COUNT
enum { CHOSEN = CLASS_MATRICES - CLASS_SMALL };
static const struct {
	const char *quant;
	uint8_t table;
	bool as_published;
	/* Replaces formats with groups in the last layer, since no later layer compensates for its
	 * errors. 0: no exception. */
	uint8_t last;
	uint8_t of[CHOSEN];
	/* Only for refined stores of dense models: rounding by moments compensates for fewer bits.
	 * Unrefined stores use the next row of this name. */
	bool refined;
	/* 0: as everywhere. */
	uint8_t more;  /* of down in the layers that recipe_has_more names */
	uint8_t first; /* of codes in groups in the first layer, and of k in all */
} recipes[] = {
	/* clang-format off */
	/* last; small, attention in, values, out, delta in, out, dense in, down, shared in, down,
	 * experts, their down, head */
	{"2bit",  1, false,  0, {C4, C2, C3, C3, C2, C3, C2, C2, C2, C3, C2, C2, C2}, false, 0, 0},
	{"3bit",  2, false, C4, {C4, C3, C4, C3, C3, C3, C3, C4, C3, C4, C3, C3, C3}, true, 0, C4},
	{"3bit",  1, false,  0, {C4, C3, C4, C3, C3, C3, C3, C3, C3, C4, C3, C3, C3}, false, 0, 0},
	{"4bit",  3, false, Q6, {Q8, C4, Q6, C4, C4, C4, C4, C4, C4, C4, C4, C4, C4}, true, Q6, 0},
	{"4bit",  2, false, Q6, {Q8, C4, Q6, C4, C4, C4, C4, Q6, C4, C4, C4, C4, C4}, false, 0, 0},
	{"4bit",  1, false,  0, {Q8, C4, C4, C4, C4, C4, C4, C4, C4, C4, C4, C4, C4}, false, 0, 0},
	{"6bit",  1, false,  0, {Q8, Q6, Q8, Q6, Q6, Q6, Q6, Q6, Q6, Q6, Q6, Q6, Q6}, false, 0, 0},
	{"8bit",  1, false,  0, {Q8, Q8, Q8, Q8, Q8, Q8, Q8, Q8, Q8, Q8, Q8, Q8, Q8}, false, 0, 0},
	{"tq2",   1, false,  0, {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T2, T2, T4}, false, 0, 0},
	{"tq3",   1, false,  0, {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T3, T3, T4}, false, 0, 0},
	{"tq4",   1, false,  0, {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T4, T4, T4}, false, 0, 0},
	{"bf16",  1, false,  0, {KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP}, false, 0, 0},
	/* Tensors whose published format is not kept get the formats of earlier versions. */
	{"auto",  1, true,   0, {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T3, T3, T4}, false, 0, 0},
	{"exact", 1, true,   0, {KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP}, false, 0, 0},
	/* clang-format on */
};
/* Rows with other formats for models with delta nets, since errors of delta nets stay in their
 * state, and attention is a small part of such models. */
static const struct {
	const char *quant;
	uint8_t of[CHOSEN];
} hybrids[] = {
	{"3bit", {C4, C4, C4, C4, C4, C4, C3, C3, C4, C4, C3, C3, C3}},
};
enum { HYBRIDS = sizeof hybrids / sizeof *hybrids };
/* Replacements of formats with groups for rows whose last group would be padded, since padding
 * takes as much space as a better format. Tables without a row here pad. */
static const struct {
	const char *quant;
	uint8_t table;
	uint8_t of[CHOSEN];
} uneven[] = {
	{"4bit", 2, {Q8, Q8, Q8, Q5, Q5, Q5, Q5, Q8, Q5, Q5, Q5, Q5, Q5}},
};
enum { UNEVEN = sizeof uneven / sizeof *uneven };
static const char exact_recipe[] = "exact", plain_recipe[] = "bf16";
/* Models with experts: the better recipe, if all experts then fit into memory. */
static const char roomy_recipe[] = "4bit", roomy_models[] = "models whose experts fit the budget";
static const char tight_recipe[] = "3bit",
		  tight_models[] = "models whose experts, in 4bit, do not fit the budget";
/* Dense models by number of weights, without embedding and head. The same error harms a small model
 * more, and a smaller store helps it less. */
static const struct {
	uint64_t most;
	const char *quant, *models;
} dense_defaults[] = {
	{UINT64_C(1000000000), "8bit", "dense models of up to 1 billion weights"},
	{UINT64_C(4000000000), "6bit", "dense models of up to 4 billion weights"},
	{UINT64_MAX, "4bit", "dense models of more than 4 billion weights"},
};
/* The default recipes of earlier versions, the latest first. */
static const struct recipe_former {
	const char *quant;
	uint8_t table;
	bool dense; /* for models without experts; else for models with experts */
} formers[] = {{"4bit", 1, true},
	       {"tq3", 1, true},
	       {"3bit", 1, false},
	       {"4bit", 2, false}, /* the current default for another budget */
	       {"tq3", 1, false}};
enum { FORMERS = sizeof formers / sizeof *formers };
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* Optional parts of the text. */
static const char draft_suffix[] = " draft", coded_suffix[] = " codec zstd",
		  refined_suffix[] = " ref";
static const char *const norm_names[] = {[NORM_F16] = "f16", [NORM_F32] = "f32"};

static const char *const codec_names[] = {
	[CODEC_NONE] = "none", [CODEC_ZSTD] = "zstd", [CODEC_AUTO] = "auto"};
enum { CODECS = sizeof codec_names / sizeof *codec_names };

static enum format recipe_or_kept(int f, enum format kept)
{
	return f == KP ? kept : (enum format)f;
}

static const uint8_t *recipe_row_of_hybrids(size_t i)
{
	for (int h = 0; h < HYBRIDS; h++)
		if (!strcmp(hybrids[h].quant, recipes[i].quant))
			return hybrids[h].of;
	return recipes[i].of;
}

/* The replacements for uneven rows in row i; NULL: pad. */
static const uint8_t *recipe_row_of_uneven(size_t i)
{
	for (int k = 0; k < UNEVEN; k++)
		if (!strcmp(uneven[k].quant, recipes[i].quant) &&
		    uneven[k].table == recipes[i].table)
			return uneven[k].of;
	return NULL;
}

/* Makes a recipe from row i of the table and facts about a checkpoint. */
static void recipe_fill(struct recipe *r, size_t i, enum format kept, enum norm_type norms,
			bool draft, enum recipe_codec codec)
{
	*r = (struct recipe){
		.codec = codec,
		.quant = recipes[i].quant,
		.table = recipes[i].table,
		.last = (enum format)(recipes[i].last ? recipes[i].last : FORMAT_COUNT),
		.more = (enum format)(recipes[i].more ? recipes[i].more : FORMAT_COUNT),
		.first = (enum format)(recipes[i].first ? recipes[i].first : FORMAT_COUNT),
		.exact = recipes[i].of[0] == KP && recipes[i].of[1] == KP,
		.as_published = recipes[i].as_published,
		.kept = kept,
		.norms = norms,
		.draft = draft,
	};
	const uint8_t *of = recipes[i].of, *of_hybrids = recipe_row_of_hybrids(i),
		      *of_uneven = recipe_row_of_uneven(i);
	for (int c = 0; c < CLASS_MATRICES; c++) {
		bool chosen = c >= CLASS_SMALL;
		r->of[c] = recipe_or_kept(chosen ? of[c - CLASS_SMALL] : KP, kept);
		r->of_hybrids[c] = recipe_or_kept(chosen ? of_hybrids[c - CLASS_SMALL] : KP, kept);
		r->of_uneven[c] = chosen && of_uneven ? (enum format)of_uneven[c - CLASS_SMALL]
						      : FORMAT_COUNT;
	}
}

/* The row with this name and table number; table 0: the newest row for unrefined stores. */
static size_t recipe_row(const char *quant, uint8_t table)
{
	size_t i = 0;
	while (i < RECIPES && (strcmp(recipes[i].quant, quant) != 0 ||
			       (table ? recipes[i].table != table : recipes[i].refined)))
		i++;
	return i;
}

int recipe_find(struct recipe *r, const char *quant, struct err *e)
{
	size_t i = recipe_row(quant ? quant : tight_recipe, 0);
	if (i == RECIPES)
		return err_set(e, EINVAL,
			       "quant=%s: no such recipe; use 2bit, 3bit, 4bit, 6bit, 8bit, tq2, "
			       "tq3, tq4, bf16 or auto",
			       quant);
	recipe_fill(r, i, FORMAT_BF16, NORM_F16, false, CODEC_NONE);
	return 0;
}

/* Changes to another row of the table, with the same facts. */
static void recipe_change(struct recipe *r, const char *quant, uint8_t table)
{
	const struct recipe before = *r;
	recipe_fill(r, recipe_row(quant, table), r->kept, r->norms, r->draft, r->codec);
	r->published = before.published;
	r->budget = before.budget;
	r->refined = before.refined;
	r->refined_by = before.refined_by;
}

void recipe_make_exact(struct recipe *r)
{
	if (r->as_published)
		recipe_change(r, exact_recipe, 0);
	r->exact = true;
}

bool recipe_is_plain(const struct recipe *r)
{
	return !strcmp(r->quant, plain_recipe);
}

/* ---- the default recipe ---- */

static bool recipe_model_is_dense(const struct config *c)
{
	for (uint32_t i = 0; i < c->layers; i++)
		if (config_routed(c, i))
			return false;
	return true;
}

/* Counts the weights of a dense model's layers. Embedding and head do not count, since they grow
 * with the vocabulary. */
static uint64_t recipe_count_weights(const struct config *c)
{
	uint64_t sum = 0;
	for (uint32_t layer = 0; layer < c->layers; layer++)
		for (int role = 0; role < TENSOR_ROLES; role++) {
			uint32_t rows, cols;
			if (tensor_roles[role].place != PLACE_LAYER ||
			    !config_has_tensor(c, (enum tensor_role)role, layer))
				continue;
			config_tensor_shape(c, (enum tensor_role)role, layer, &rows, &cols);
			sum += (uint64_t)rows * cols;
		}
	return sum;
}

/* Bytes of all experts in memory with a recipe. */
static uint64_t recipe_count_expert_bytes(const struct config *c, const char *quant)
{
	static const enum tensor_role parts[] = {TENSOR_EXPERT_GATE, TENSOR_EXPERT_UP,
						 TENSOR_EXPERT_DOWN};
	struct recipe r;
	uint64_t sum = 0;
	recipe_fill(&r, recipe_row(quant, 0), FORMAT_BF16, NORM_F16, false, CODEC_NONE);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		for (size_t i = 0; config_routed(c, layer) && i < 3; i++) {
			const struct tensor_id id = {parts[i], layer, 0};
			struct shape s = {.norms = NORM_F16};
			config_tensor_shape(c, parts[i], layer, &s.rows, &s.cols);
			s.format = recipe_format(&r, c, id, s.cols);
			sum += format_arranged_bytes(&s) * c->experts;
		}
	return sum;
}

/* The name of the default recipe for this expert budget; *models: a description of the models with
 * this default. */
static const char *recipe_default(const struct config *c, uint64_t budget, const char **models)
{
	if (!recipe_model_is_dense(c)) {
		bool roomy = recipe_count_expert_bytes(c, roomy_recipe) <= budget;
		*models = roomy ? roomy_models : tight_models;
		return roomy ? roomy_recipe : tight_recipe;
	}
	uint64_t weights = recipe_count_weights(c);
	size_t i = 0;
	while (weights > dense_defaults[i].most)
		i++;
	*models = dense_defaults[i].models;
	return dense_defaults[i].quant;
}

void recipe_find_default(struct recipe *r, const struct config *c, uint64_t budget)
{
	const char *models;
	recipe_fill(r, recipe_row(recipe_default(c, budget, &models), 0), FORMAT_BF16, NORM_F16,
		    false, CODEC_NONE);
	r->budget = budget;
}

void recipe_keep_none(struct recipe *r, const struct config *c)
{
	const char *models;
	recipe_change(r, r->exact ? plain_recipe : recipe_default(c, r->budget, &models), 0);
	r->published = NULL;
}

const char *recipe_default_of(const struct recipe *r, const struct config *c)
{
	const char *models;
	return strcmp(r->quant, recipe_default(c, r->budget, &models)) ? NULL : models;
}

bool recipe_make_former(struct recipe *r, const struct config *c, size_t i)
{
	bool dense = recipe_model_is_dense(c);
	for (size_t k = 0; k < FORMERS; k++)
		if (formers[k].dense == dense && !i--) {
			recipe_change(r, formers[k].quant, formers[k].table);
			return true;
		}
	return false;
}

bool recipe_includes(const struct recipe *r, const struct recipe *stored)
{
	return !strcmp(stored->quant, r->quant) &&
	       (stored->table <= r->table ||
		recipes[recipe_row(stored->quant, stored->table)].refined);
}

void recipe_make_refined(struct recipe *r, const struct config *c)
{
	for (size_t i = 0; i < RECIPES && recipe_model_is_dense(c); i++)
		if (recipes[i].refined && !strcmp(recipes[i].quant, r->quant)) {
			recipe_take_table(r, &(struct recipe){.table = recipes[i].table});
			return;
		}
}

void recipe_take_table(struct recipe *r, const struct recipe *stored)
{
	bool exact = r->exact;
	recipe_change(r, r->quant, stored->table);
	r->exact = exact;
}

const char *recipe_reader(const struct recipe *r)
{
	return !strcmp(r->quant, "2bit") || !strcmp(r->quant, "3bit") ? roomy_recipe : NULL;
}

bool recipe_can_pad(const struct recipe *r)
{
	return r->of_uneven[CLASS_EXPERT] != FORMAT_COUNT;
}

bool recipe_widen(struct recipe *r)
{
	bool pads = r->norms == NORM_F32;
	if (pads && !recipe_can_pad(r))
		return false;
	if (pads)
		recipe_take_table(r, &(struct recipe){.table = 1});
	r->norms = NORM_F32;
	return true;
}

void recipe_keep(struct recipe *r, enum format kept, enum norm_type norms)
{
	bool exact = r->exact;
	r->kept = kept;
	r->norms = norms;
	recipe_change(r, r->quant, r->table);
	r->exact = exact;
}

bool recipe_can_code(const struct recipe *r)
{
	return r->of[CLASS_EXPERT] == FORMAT_BF16 || r->of[CLASS_EXPERT] == FORMAT_F16;
}

int recipe_ask_codec(struct recipe *r, const char *codec, struct err *e)
{
	size_t i = CODEC_AUTO;
	if (codec)
		for (i = 0; i < CODECS && strcmp(codec_names[i], codec) != 0; i++)
			;
	if (i == CODECS)
		return err_set(e, EINVAL, "codec=%s: no such codec; use none, zstd or auto", codec);
	if (i == CODEC_ZSTD && !recipe_can_code(r))
		return err_set(e, EINVAL,
			       "codec=zstd: quantised experts do not shrink any further; use it "
			       "with quant=bf16, or leave it out");
	r->codec = (enum recipe_codec)i;
	return 0;
}

const char *recipe_codec_name(enum recipe_codec codec)
{
	return codec_names[codec];
}

void recipe_to_text(const struct recipe *r, char *text, size_t size)
{
	char refined[32] = "", table[8] = "";
	if (r->table > 1)
		(void)snprintf(table, sizeof table, ".%u", r->table);
	if (r->refined)
		(void)snprintf(refined, sizeof refined, "%s%u.%04x", refined_suffix, r->refined,
			       r->refined_by);
	(void)snprintf(text, size, "%s%s kept %s norms %s%s%s%s", r->quant, table,
		       format_name(r->kept), norm_names[r->norms], r->draft ? draft_suffix : "",
		       r->codec == CODEC_ZSTD ? coded_suffix : "", refined);
}

/* Reads the refinement from a text. A wrong number is found by recipe_from_text, which writes the
 * recipe again and compares. */
static void recipe_read_refined(struct recipe *r, const char *text)
{
	const char *at = strstr(text, refined_suffix);
	unsigned by = 0;
	if (at && sscanf(at + strlen(refined_suffix), "%u.%4x", &r->refined, &by) == 2)
		r->refined_by = (uint16_t)by;
}

bool recipe_from_text(struct recipe *r, const char *text)
{
	static const enum format kept[] = {FORMAT_BF16, FORMAT_F16, FORMAT_F32};
	enum { KEPT = sizeof kept / sizeof *kept, NORMS = 2, DRAFTS = 2, STORED = 2 };
	char candidate[64];
	for (size_t i = 0; i < (size_t)RECIPES * KEPT * NORMS * DRAFTS * STORED; i++) {
		size_t d = i / STORED, k = d / DRAFTS, n = k / NORMS, row = n / KEPT;
		recipe_fill(r, row, kept[n % KEPT], (enum norm_type)(k % NORMS), d % DRAFTS,
			    (enum recipe_codec)(i % STORED));
		recipe_read_refined(r, text);
		recipe_to_text(r, candidate, sizeof candidate);
		if (!strcmp(candidate, text))
			return r->codec == CODEC_NONE || recipe_can_code(r);
	}
	return false;
}

/* The nearest format in which rows of this length consist of whole blocks. */
static enum format recipe_fit(const struct recipe *r, enum format f, uint32_t cols)
{
	if (f == FORMAT_Q6_K && cols % format_block_cols(&(struct shape){.format = f}))
		f = FORMAT_Q8_0;
	return cols % format_block_cols(&(struct shape){.format = f}) ? r->kept : f;
}

/* Whether down has more bits in this layer of refined stores: in the first and the last eighth of
 * the layers, where errors cost most, and in every third layer between. */
static bool recipe_has_more(uint32_t layer, uint32_t layers)
{
	uint32_t eighth = layers / 8;
	return layer < eighth || layer >= layers - eighth || (layer - eighth) % 3 == 2;
}

enum format recipe_format(const struct recipe *r, const struct config *c, struct tensor_id id,
			  uint32_t cols)
{
	enum tensor_class class = tensor_roles[id.role].class;
	if (class >= CLASS_MATRICES)
		return FORMAT_F32;
	if (class == CLASS_FLOATS)
		return FORMAT_F32;
	if (class == CLASS_STEER && r->of[CLASS_SMALL] != r->kept)
		return recipe_fit(r, FORMAT_Q8_0, cols);
	if (class == CLASS_HEADS && r->as_published && !r->exact)
		return FORMAT_BF16; /* enough for numbers that were quantised */
	enum format f = config_recurrent_layers(c) ? r->of_hybrids[class] : r->of[class];
	/* The effect of the last layer was measured only on dense models without recurrent layers.
	 */
	bool last = tensor_roles[id.role].place == PLACE_LAYER && id.layer + 1 == c->layers &&
		    !c->experts && !config_recurrent_layers(c);
	if (last && format_is_tq(f) && r->last != FORMAT_COUNT)
		f = r->last;
	bool first = tensor_roles[id.role].place == PLACE_LAYER && !id.layer;
	if ((first || id.role == TENSOR_K) && format_is_tq(f) && r->first != FORMAT_COUNT)
		f = r->first;
	if (class == CLASS_DOWN && r->more != FORMAT_COUNT && recipe_has_more(id.layer, c->layers))
		f = r->more;
	enum format padded = r->of_uneven[class];
	if (format_is_tq(f) && cols % TQ_GROUP && padded != FORMAT_COUNT &&
	    recipe_fit(r, padded, cols) == padded)
		f = padded;
	return recipe_fit(r, f, cols);
}

const struct published_format *recipe_published(const struct recipe *r, struct tensor_id id)
{
	const struct published *p = r->published;
	if (!p || id.layer >= p->layers)
		return NULL;
	const struct published_format *f = &p->of[(size_t)id.layer * TENSOR_ROLES + id.role];
	return f->format == FORMAT_COUNT ? NULL : f;
}
