#include "engine/admin/refine_gather.h"
#include "cache/store_inspect.h"
#include "cache/store_files.h"
#include "cache/store_in_place.h"
#include "engine/convert/moments.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/model/load.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* What is known of inputs takes so much memory at most, and as much on the disk. */
static const uint64_t most_moments = UINT64_C(512) << 20;

/* ---- what can be refined ---- */

static bool refine_rounds_any(const struct recipe *r)
{
	bool any = false;
	for (int c = 0; c < CLASS_MATRICES; c++)
		any |= format_is_tq(r->of[c]);
	return any;
}

/* Rounding again takes the numbers that were rounded. */
static int refine_check_model(const struct model *m, struct err *e)
{
	const struct model_identity *id = &m->id;
	if (id->encoding)
		return err_set(e, ENOTSUP,
			       "%s: its weights are published as %s; refining needs the original "
			       "weights of 16 or 32 bits",
			       id->name, id->encoding);
	if (!refine_rounds_any(&id->recipe))
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

/* A store that is not complete yet is made first. */
static int refine_wait_for_store(struct model *m, struct err *e)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	int failed = model_wait(m, e);
	while (!failed && !atomic_load(&m->stored.has_store)) {
		struct model_progress p;
		model_progress(m, &p);
		if (atomic_load(&m->run->refining.stop))
			failed = err_set(e, ECANCELED, "refining was stopped");
		else if (!strcmp(p.doing, "stopped") || model_state(m) == MODEL_FAILED) {
			model_error(m, e->text, sizeof e->text);
			failed = -(e->code = EIO);
		} else
			nanosleep(&moment, NULL);
	}
	return failed;
}

/* ---- one refinement ---- */

struct refinement {
	struct model *model;
	const struct model_refining *asked;
	const char *folder; /* of the refined store */
	/* Of the store that serves, which may be unloaded meanwhile: */
	struct plan plan;
	struct store_key key;
	char *served; /* its folder */
	struct moments *moments;
};

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
	return plan_make(&r->plan, &r->model->id.config, &recipe, e);
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

/* ---- what is known of the inputs ---- */

static struct moments_key refine_key_of(const struct refinement *r)
{
	static const char own[] = "what the model writes, version 1";
	const struct model_refining *asked = r->asked;
	XXH128_hash_t text =
		XXH3_128bits_withSeed(asked->text ? asked->text : own,
				      asked->text ? asked->length : sizeof own, asked->tokens);
	return (struct moments_key){{r->key.fingerprint[0], r->key.fingerprint[1]},
				    {text.low64, text.high64}};
}

/* Gathers what is not gathered yet. */
static int refine_gather_rest(const struct refinement *r, struct err *e)
{
	int failed = moments_load(r->moments, r->folder, e);
	if (failed == -ENOENT)
		failed = 0;
	if (!failed && !moments_read_of(r->moments)->whole)
		failed = refine_gather(r->model, r->asked, XXH3_64bits(&r->key, sizeof r->key),
				       r->moments, r->folder, e);
	return failed;
}

static int refine_make_and_gather(struct refinement *r, struct err *e)
{
	const struct moments_key key = refine_key_of(r);
	int failed = refine_check_source(r, e);
	/* First, so that `moefs stores` knows the folder even after an interruption. */
	if (!failed)
		failed = store_keep_checkpoint(r->folder, r->model->id.directory, e);
	if (!failed)
		failed = moments_create(&r->moments, &r->plan, &key, most_moments, e);
	return failed ? failed : refine_gather_rest(r, e);
}

/* Holds the lock of the store to be, so that only one process gathers in the folder. The conversion
 * then takes that lock again. */
static int refine_gather_locked(struct refinement *r, struct err *e)
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
	if (held && !(r->asked->idle && refine_is_done(r)))
		failed = refine_make_and_gather(r, e);
	if (held)
		store_lock_remove(&lock);
	store_lock_close(&lock);
	return failed;
}

/* ---- the new store ---- */

static void refine_report(void *ctx, enum convert_event event, const struct err *e)
{
	(void)ctx; /* nothing is made behind anybody's back */
	(void)event;
	(void)e;
}

static int refine_convert(const struct refinement *r, struct err *e)
{
	struct model *m = r->model;
	bool idle = r->asked->idle;
	struct plan plan;
	struct converter *c;
	struct source_state now;
	struct conversion v = {
		.directory = m->id.directory,
		.folder = r->folder,
		.config = &m->id.config,
		.recipe = m->id.recipe,
		.threads = idle ? 1 : threads_count(m->engine->threads),
		.kernels = m->engine->kernels,
		.moments = r->moments,
		.stop = idle ? &m->run->refining.yield : &m->run->refining.stop,
		.progress = &m->run->refining.progress,
		.report = refine_report,
	};
	v.recipe.norms = r->plan.recipe.norms;
	v.recipe.refined = (uint32_t)moments_read_of(r->moments)->tokens;
	v.recipe.refined_by = (uint16_t)moments_sum(r->moments);
	int failed = refine_look_at_source(r, &now, e);
	if (!failed)
		failed = load_witness(m, &v, &now, r->key.fingerprint, e);
	source_forget(&now);
	if (!failed)
		failed = convert_begin(&c, &v, &plan, e);
	if (failed)
		return failed == -EEXIST ? 0 : failed; /* it was refined just so before */
	failed = convert_finish(c, e);
	convert_close(c);
	plan_free(&plan);
	return failed;
}

static int refine_store(struct refinement *r, struct err *e)
{
	int failed = refine_copy_plan(r, &r->model->stored, e);
	if (!failed)
		failed = refine_gather_locked(r, e);
	if (!failed && r->moments)
		failed = refine_convert(r, e);
	moments_free(r->moments);
	plan_free(&r->plan);
	free(r->served);
	return failed;
}

int model_refine(struct model *m, const struct model_refining *asked, struct err *e)
{
	/* A turn that begins from here on is seen by one or the other. */
	atomic_store(&m->run->refining.yield, false);
	if (model_working(m))
		refining_send_away(&m->run->refining);
	int failed = refine_check_model(m, e);
	if (!failed)
		failed = refine_wait_for_store(m, e);
	if (failed)
		return failed;
	int at = atomic_load(&m->stored.folder) % STORE_PLACES;
	if (!load_may_write(m, at))
		at = 0;
	struct refinement r = {
		.model = m, .asked = asked, .folder = m->stored.folders[STORE_PLACES + at]};
	return refine_store(&r, e);
}
