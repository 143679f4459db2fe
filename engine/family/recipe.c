#include "engine/family/recipe.h"
#include "engine/family/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A row for each recipe, a column for each class (role.h) from CLASS_SMALL on. Experts are what is
 * read from disk and what the cache holds, and a dense feed-forward is most of a model without
 * experts; what the other classes are worth was measured (README.md). Rows of the embedding are
 * read one by one, and it is always kept. KP: the checkpoint's own type. */
#define T2 FORMAT_TQ2
#define T3 FORMAT_TQ3
#define T4 FORMAT_TQ4
#define C2 FORMAT_TC2
#define C3 FORMAT_TC3
#define C4 FORMAT_TC4
#define Q8 FORMAT_Q8_0
#define KP FORMAT_COUNT
enum { CHOSEN = CLASS_MATRICES - CLASS_SMALL };
static const struct {
	const char *quant;
	bool as_published;
	uint8_t of[CHOSEN];
} recipes[] = {
	/* clang-format off */
	/*               small, attention in, values, out, delta in, out, dense in, down, shared in, down,
	 *               experts, their down, head */
	{"2bit",  false, {C4, C2, C3, C3, C2, C3, C2, C2, C2, C3, C2, C2, C2}},
	{"3bit",  false, {C4, C3, C4, C3, C3, C3, C3, C3, C3, C4, C3, C3, C3}},
	{"4bit",  false, {Q8, C4, C4, C4, C4, C4, C4, C4, C4, C4, C4, C4, C4}},
	{"tq2",   false, {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T2, T2, T4}},
	{"tq3",   false, {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T3, T3, T4}},
	{"tq4",   false, {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T4, T4, T4}},
	{"bf16",  false, {KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP}},
	/* What is not published in a format that is kept is stored as earlier versions did. */
	{"auto",  true,  {KP, T4, T4, T4, T4, KP, T4, T4, T4, KP, T3, T3, T4}},
	{"exact", true,  {KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP, KP}},
	/* clang-format on */
};
/* Rows that differ for models with delta nets: errors of these stay in a state, and attention is a
 * small part of such a model. */
static const struct {
	const char *quant;
	uint8_t of[CHOSEN];
} hybrids[] = {
	{"3bit", {C4, C4, C4, C4, C4, C4, C3, C3, C4, C4, C3, C3, C3}},
};
enum { HYBRIDS = sizeof hybrids / sizeof *hybrids };
/* In a model without experts each token uses all weights. */
static const char default_recipe[] = "3bit", default_dense[] = "4bit", former_recipe[] = "tq3";
static const char exact_recipe[] = "exact", plain_recipe[] = "bf16";
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

/* Makes a recipe from row i of the table and these facts of a checkpoint. */
static void recipe_fill(struct recipe *r, size_t i, enum format kept, enum norm_type norms,
			bool draft, enum recipe_codec codec)
{
	*r = (struct recipe){
		.codec = codec,
		.quant = recipes[i].quant,
		.exact = recipes[i].of[0] == KP && recipes[i].of[1] == KP,
		.as_published = recipes[i].as_published,
		.kept = kept,
		.norms = norms,
		.draft = draft,
	};
	const uint8_t *of = recipes[i].of, *of_hybrids = recipe_row_of_hybrids(i);
	for (int c = 0; c < CLASS_MATRICES; c++) {
		bool chosen = c >= CLASS_SMALL;
		r->of[c] = recipe_or_kept(chosen ? of[c - CLASS_SMALL] : KP, kept);
		r->of_hybrids[c] = recipe_or_kept(chosen ? of_hybrids[c - CLASS_SMALL] : KP, kept);
	}
}

static size_t recipe_row(const char *quant)
{
	size_t i = 0;
	while (i < RECIPES && strcmp(recipes[i].quant, quant) != 0)
		i++;
	return i;
}

int recipe_find(struct recipe *r, const char *quant, struct err *e)
{
	size_t i = recipe_row(quant ? quant : default_recipe);
	if (i == RECIPES)
		return err_set(e, EINVAL,
			       "quant=%s: no such recipe; use 2bit, 3bit, 4bit, tq2, tq3, tq4, "
			       "bf16 or auto",
			       quant);
	recipe_fill(r, i, FORMAT_BF16, NORM_F16, false, CODEC_NONE);
	return 0;
}

/* Changes to another row of the table, with the same facts. */
static void recipe_change(struct recipe *r, const char *quant)
{
	const struct recipe before = *r;
	recipe_fill(r, recipe_row(quant), r->kept, r->norms, r->draft, r->codec);
	r->published = before.published;
	r->refined = before.refined;
	r->refined_by = before.refined_by;
}

void recipe_make_exact(struct recipe *r)
{
	if (r->as_published)
		recipe_change(r, exact_recipe);
	r->exact = true;
}

bool recipe_is_plain(const struct recipe *r)
{
	return !strcmp(r->quant, plain_recipe);
}

static const char *recipe_default(const struct config *c)
{
	for (uint32_t i = 0; i < c->layers; i++)
		if (config_routed(c, i))
			return default_recipe;
	return default_dense;
}

void recipe_find_default(struct recipe *r, const struct config *c)
{
	recipe_fill(r, recipe_row(recipe_default(c)), FORMAT_BF16, NORM_F16, false, CODEC_NONE);
}

void recipe_keep_none(struct recipe *r, const struct config *c)
{
	recipe_change(r, r->exact ? plain_recipe : recipe_default(c));
	r->published = NULL;
}

bool recipe_is_default(const struct recipe *r, const struct config *c)
{
	return !strcmp(r->quant, recipe_default(c));
}

void recipe_make_former(struct recipe *r)
{
	recipe_change(r, former_recipe);
}

void recipe_keep(struct recipe *r, enum format kept, enum norm_type norms)
{
	bool exact = r->exact;
	r->kept = kept;
	r->norms = norms;
	recipe_change(r, r->quant);
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
	char refined[32] = "";
	if (r->refined)
		(void)snprintf(refined, sizeof refined, "%s%u.%04x", refined_suffix, r->refined,
			       r->refined_by);
	(void)snprintf(text, size, "%s kept %s norms %s%s%s%s", r->quant, format_name(r->kept),
		       norm_names[r->norms], r->draft ? draft_suffix : "",
		       r->codec == CODEC_ZSTD ? coded_suffix : "", refined);
}

/* Reads the refinement from a text. recipe_from_text refuses a wrong number, since it would be
 * written differently. */
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

enum format recipe_format(const struct recipe *r, const struct config *c, enum tensor_role role)
{
	enum tensor_class class = tensor_roles[role].class;
	if (class >= CLASS_MATRICES)
		return FORMAT_F32;
	if (class == CLASS_HEADS && r->as_published && !r->exact)
		return FORMAT_BF16; /* enough for numbers that were codes */
	return c->mixers[MIXER_DELTA_NET] ? r->of_hybrids[class] : r->of[class];
}

const struct published_format *recipe_published(const struct recipe *r, struct tensor_id id)
{
	const struct published *p = r->published;
	if (!p || id.layer >= p->layers)
		return NULL;
	const struct published_format *f = &p->of[(size_t)id.layer * TENSOR_ROLES + id.role];
	return f->format == FORMAT_COUNT ? NULL : f;
}
