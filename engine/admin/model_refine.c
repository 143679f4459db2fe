#include "engine/admin/check.h"
#include "engine/admin/model_loss.h"
#include "engine/admin/refine_gather.h"
#include "engine/admin/refine_turn.h"
#include "cache/store_inspect.h"
#include "cache/store_files.h"
#include "cache/store_in_place.h"
#include "engine/convert/moments.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/model/load.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The most memory for the sums of inputs: if the layers need more, they are refined
 * in turns, each of which reads the text. */
static const uint64_t most_moments = UINT64_C(1536) << 20;

/* ---- what can be refined ---- */

static bool refine_rounds_any(const struct recipe *r)
{
	bool any = false;
	for (int c = 0; c < CLASS_MATRICES; c++)
		any |= format_is_tq(r->of[c]);
	return any;
}

/* Encodings of 8 bits lose a hundredth of what codes of 4 bits do. */
static bool refine_keeps_numbers(const char *encoding)
{
	return !encoding || !strcmp(encoding, "FP8") || !strcmp(encoding, "Q8_0");
}

/* Rounding again takes the numbers that were rounded. */
static int refine_check_model(const struct model *m, const struct model_refining *asked,
			      struct err *e)
{
	const struct model_identity *id = &m->id;
	if (!refine_keeps_numbers(id->encoding))
		return err_set(e, ENOTSUP,
			       "%s: its weights are published as %s; refining needs the original "
			       "weights of 8, 16 or 32 bits",
			       id->name, id->encoding);
	if (id->encoding && id->recipe.as_published) /* 8 bits are never replaced unasked */
		return err_set(e, ENOTSUP,
			       "%s: is used with the %s weights that are published; to refine a "
			       "smaller store of it, use -o quant=2bit, 3bit or 4bit",
			       id->name, id->encoding);
	if (!asked->quant && !refine_rounds_any(&id->recipe))
		return err_set(e, ENOTSUP,
			       "%s: quant=%s rounds no weights to codes in groups, so there is "
			       "nothing to refine; use -o quant=2bit, 3bit or 4bit",
			       id->name, id->recipe.quant);
	return 0;
}

int model_refining_check(const struct model_refining *r, struct err *e)
{
	if (r->text && (!r->length || (r->length == 1 && *r->text == '\n')))
		return err_set(e, EINVAL, "the file contains no text");
	return r->text ? utf8_check(r->text, r->length, e) : 0;
}

/* ---- one refinement ---- */

struct refinement {
	struct model *model;
	const struct model_refining *asked;
	char *folder; /* of the refined store */
	/* Of the store that serves, which may be unloaded meanwhile: */
	struct store_key key;
	char *served; /* its folder */
	/* Of the refined store: */
	struct plan plan;
	struct refine_text text;
	/* Of the layers that are refined now; whole, or NULL. `held`: of a part of the text by
	 * which they are judged. */
	struct moments *moments, *held;
	uint32_t first;		 /* of these layers */
	uint64_t tokens;	 /* that were read for them */
};

/* What the refined store is by, with the facts of the checkpoint that the serving one has found. */
static int refine_find_recipe(const struct refinement *r, struct recipe *recipe, struct err *e)
{
	const struct recipe facts = *recipe;
	if (r->asked->quant) {
		int failed = recipe_find(recipe, r->asked->quant, e);
		if (failed)
			return failed;
		recipe->draft = facts.draft;
		recipe->budget = facts.budget;
		recipe_keep(recipe, facts.kept, facts.norms);
	}
	recipe_make_refined(recipe, &r->model->id.config);
	return 0;
}

static int refine_copy_plan(struct refinement *r, const struct model_store *serving, struct err *e)
{
	const char *name = r->model->id.name;
	if (!model_hold_store(serving))
		return err_set(e, ECANCELED, "%s: was unloaded before refining began", name);
	bool in_place = store_is_in_place(serving->store);
	struct recipe recipe = serving->plan.recipe;
	r->key = store_info(serving->store)->key;
	r->served = strdup(store_folder(serving->store));
	model_release_store(serving);
	if (!r->served)
		return err_set(e, ENOMEM, "out of memory for the name of a folder");
	if (in_place)
		return err_set(e, ENOTSUP,
			       "%s is used as it is published; there is nothing to refine", name);
	int failed = refine_find_recipe(r, &recipe, e);
	return failed ? failed : plan_make(&r->plan, &r->model->id.config, &recipe, e);
}

/* Whether the folder has a complete refined store of this checkpoint, by any process and with any
 * text. */
static bool refine_is_done(const struct refinement *r)
{
	return store_complete_of(r->folder, r->key.fingerprint);
}

/* ---- the checkpoint ---- */

static int refine_refuse_changed(const struct refinement *r, struct err *e)
{
	return err_set(
		e, ESTALE,
		r->asked->idle
			? "%s: was changed since it was loaded; load it again, then refine it"
			: "%s: was changed during refining; refine it again",
		r->model->id.directory);
}

/* The checkpoint as it is now, which the caller forgets. -ESTALE: it is not the one that the store
 * is of, and moments with it: the refined store would be a mixture of two. While idle it is not
 * read for that, if its times are others: the next load does. */
static int refine_look_at_source(const struct refinement *r, struct source_state *now,
				 struct err *e)
{
	int failed = load_look(r->model, now, e);
	/* config.json is another one. That a mount must end first is advice for who has mounted. */
	if (failed == -EINVAL && !r->asked->idle)
		return refine_refuse_changed(r, e);
	if (!failed)
		failed = load_check_source(r->model, r->served, r->key.fingerprint, now,
					   !r->asked->idle, e);
	return failed == -ESTALE || failed == -EAGAIN ? refine_refuse_changed(r, e) : failed;
}

/* Before hours of gathering. */
static int refine_check_source(const struct refinement *r, struct err *e)
{
	struct source_state now;
	int failed = refine_look_at_source(r, &now, e);
	source_forget(&now);
	return failed;
}

/* ---- a store that is no better ---- */

static const char worse_file[] = "no_better", worse_partial[] = "no_better.new";

/* Keeps in the folder that its store would be no better, so that nobody tries it again while idle.
 */
static int refine_refuse_worse(const struct refinement *r, struct err *e)
{
	struct err ignored;
	if (!load_make_parents(r->folder, &ignored))
		(void)store_small_file_write(r->key.fingerprint, sizeof r->key.fingerprint,
					     r->folder, worse_file, worse_partial, &ignored);
	return err_set(e, ENODATA,
		       "%s: a refined store would be no better than the present one, by the part "
		       "of the text that was held back; a longer text, or one that is more like "
		       "what the model is asked, may help (--text)",
		       r->model->id.name);
}

static bool refine_is_known_worse(const struct refinement *r)
{
	struct err ignored;
	uint8_t *kept;
	size_t bytes;
	if (store_small_file_read(&kept, &bytes, sizeof r->key.fingerprint, r->folder, worse_file,
				  &ignored))
		return false;
	bool worse = bytes == sizeof r->key.fingerprint &&
		     !memcmp(kept, r->key.fingerprint, bytes);
	free(kept);
	return worse;
}

/* ---- the text ---- */

static int refine_check_and_make_text(struct refinement *r, struct err *e)
{
	int failed = refine_check_source(r, e);
	if (!failed)
		failed = check_room(r->model, &r->plan, r->folder, e);
	/* First, so that `moefs stores` knows the folder even after an interruption. */
	if (!failed)
		failed = store_keep_checkpoint(r->folder, r->model->id.directory, e);
	return failed ? failed
		      : refine_text_make(&r->text, r->model, r->asked, r->key.fingerprint,
					 r->folder, e);
}

/* Holds the lock of the store to be, so that only one process writes in the folder. The conversion
 * then takes that lock again. */
static int refine_make_text(struct refinement *r, bool *done, struct err *e)
{
	struct store_lock lock = {.dir = -1, .fd = -1};
	int failed = load_make_parents(r->folder, e);
	if (!failed)
		failed = store_lock_take(&lock, r->folder, e);
	if (failed == -EBUSY)
		(void)err_set(e, EBUSY,
			      "%s: another process is refining it in %s; wait until it is done",
			      r->model->id.name, r->folder);
	bool held = !failed;
	*done = held && (r->asked->idle || !r->asked->text) && refine_is_done(r);
	*done |= held && r->asked->idle && refine_is_known_worse(r);
	if (held && !*done)
		failed = refine_check_and_make_text(r, e);
	if (held)
		store_lock_remove(&lock);
	store_lock_close(&lock);
	return failed;
}

/* ---- what is known of the inputs ---- */

/* The model is not loaded for refining while idle. */
static int refine_check_loaded(const struct refinement *r, struct err *e)
{
	if (!r->asked->idle || model_state(r->model) == MODEL_READY)
		return 0;
	return err_set(e, ECANCELED, "%s: was unloaded; refining continues next time",
		       r->model->id.name);
}

static void refine_forget_moments(struct refinement *r)
{
	moments_free(r->moments);
	moments_free(r->held);
	r->moments = r->held = NULL;
}

static int refine_learn(struct refinement *r, uint32_t layer, struct err *e)
{
	uint64_t weights = XXH3_64bits(&r->key, sizeof r->key);
	int failed = refine_check_loaded(r, e);
	if (!failed)
		failed = moments_create(&r->moments, &r->plan, layer, most_moments / 2, e);
	if (!failed)
		failed = moments_create(&r->held, &r->plan, layer, most_moments / 2, e);
	if (!failed && moments_bytes(r->moments))
		failed = refine_gather(r->model, &r->text, r->asked->idle, weights, r->moments,
				       r->held, &r->tokens, e);
	r->first = layer;
	return failed;
}

/* A convert_known's `know`. */
static int refine_know(void *ctx, uint32_t layer, const struct moments **out,
		       const struct moments **held, struct err *e)
{
	struct refinement *r = ctx;
	int failed = 0;
	if (!r->moments || layer < r->first || layer >= moments_end(r->moments)) {
		refine_forget_moments(r);
		failed = refine_learn(r, layer, e);
	}
	if (failed)
		refine_forget_moments(r);
	*out = r->moments;
	*held = r->held;
	return failed;
}

/* ---- the new store ---- */

static void refine_report(void *ctx, enum convert_event event, const struct err *e)
{
	(void)ctx; /* nothing is made behind anybody's back */
	(void)event;
	(void)e;
}

/* All layers; turns of others come first. */
static int refine_layers(struct refinement *r, struct converter *c, struct err *e)
{
	const struct convert_known known = {refine_know, r};
	const _Atomic bool *yield = &r->model->run->refining.yield;
	int failed;
	do
		failed = convert_layers(c, &known, e);
	while (failed == -ECANCELED && r->asked->idle && atomic_load(yield) &&
	       refine_wait_quiet(r->model));
	return failed;
}

static int refine_begin_conversion(const struct refinement *r, struct converter **c,
				   struct plan *plan, struct err *e)
{
	struct model *m = r->model;
	bool idle = r->asked->idle;
	struct source_state now;
	struct conversion v = {
		.directory = m->id.directory,
		.folder = r->folder,
		.config = &m->id.config,
		.recipe = r->plan.recipe,
		.threads = idle ? 1 : threads_count(m->engine->threads),
		.kernels = m->engine->kernels,
		.by_layers = true,
		.stop = idle ? &m->run->refining.yield : &m->run->refining.stop,
		.progress = &m->run->refining.progress,
		.report = refine_report,
	};
	v.recipe.published = NULL;
	v.recipe.refined = (uint32_t)r->text.tokens;
	v.recipe.refined_by = (uint16_t)refine_text_sum(&r->text);
	int failed = refine_look_at_source(r, &now, e);
	if (!failed)
		failed = load_witness(m, &v, &now, r->key.fingerprint, e);
	source_forget(&now);
	return failed ? failed : convert_begin(c, &v, plan, e);
}

static int refine_convert(struct refinement *r, struct err *e)
{
	struct plan plan;
	struct converter *c;
	int failed = refine_begin_conversion(r, &c, &plan, e);
	if (failed)
		return failed == -EEXIST ? 0 : failed; /* it was refined just so before */
	failed = refine_layers(r, c, e);
	if (!failed)
		failed = refine_check_source(r, e);
	bool worse = !failed && !convert_is_better(c);
	if (worse)
		convert_discard(c);
	else if (!failed)
		failed = convert_finish(c, e);
	convert_close(c);
	plan_free(&plan);
	return worse ? refine_refuse_worse(r, e) : failed;
}

static int refine_store(struct refinement *r, struct err *e)
{
	bool done = false;
	int failed = refine_copy_plan(r, &r->model->stored, e);
	if (!failed)
		failed = refine_make_text(r, &done, e);
	if (!failed && !done)
		failed = refine_convert(r, e);
	/* Rounding makes other norms than the store has that serves. */
	while (failed == -ERANGE && recipe_widen(&r->plan.recipe))
		failed = refine_convert(r, e);
	if ((!failed || failed == -ENODATA) && !done)
		refine_text_forget(r->folder);
	refine_forget_moments(r);
	refine_text_free(&r->text);
	plan_free(&r->plan);
	free(r->served);
	return failed;
}

/* The folder of the refined store: beside the one that serves. NULL: no memory. */
static char *refine_find_folder(const struct model *m, const struct model_refining *asked)
{
	int at = atomic_load(&m->stored.folder) % STORE_PLACES;
	if (!load_may_write(m, at))
		at = 0;
	if (!asked->quant)
		return strdup(m->stored.folders[STORE_PLACES + at]);
	const char *own = m->stored.folders[at], *name = strrchr(own, '/');
	char *folder;
	int n = asprintf(&folder, "%.*s/%s" STORE_REFINED, (int)(name - own), own, asked->quant);
	return n < 0 ? NULL : folder;
}

const char *model_refining_reader(const struct model *m, const char **quant)
{
	*quant = m->id.recipe.quant;
	bool refined = atomic_load(&m->stored.has_store) && m->stored.plan.recipe.refined;
	return refined || m->id.encoding ? NULL : recipe_reader(&m->id.recipe);
}

int model_refine(struct model *m, const struct model_refining *asked, struct err *e)
{
	/* A turn that begins from here on is seen by one or the other. */
	atomic_store(&m->run->refining.yield, false);
	if (model_working(m))
		refining_send_away(&m->run->refining);
	int failed = refine_check_model(m, asked, e);
	if (!failed)
		failed = loss_wait_for_store(m, &m->run->refining.stop, e);
	if (failed)
		return failed;
	struct refinement r = {
		.model = m, .asked = asked, .folder = refine_find_folder(m, asked)};
	failed = r.folder ? refine_store(&r, e)
			  : err_set(e, ENOMEM, "out of memory for the name of a folder");
	free(r.folder);
	return failed;
}
