#include "engine/serve/refine.h"
#include "cache/store_inspect.h"
#include "cache/store_place.h"
#include "engine/convert/moments.h"
#include "engine/serve/internal.h"
#include "engine/serve/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

/* What is known of inputs takes so much memory at most, and as much on the disk. */
static const uint64_t most_moments = UINT64_C(512) << 20;

/* ---- what can be refined ---- */

static bool rounds_any(const struct recipe *r)
{
	bool any = false;
	for (int c = 0; c < CLASS_MATRICES; c++)
		any |= format_is_tq(r->of[c]);
	return any;
}

/* Rounding anew takes the numbers that were rounded. */
static int check_refinable(const struct model *m, struct err *e)
{
	const struct model_identity *id = &m->id;
	if (id->encoding)
		return err_set(e, ENOTSUP,
			       "%s: its weights are published as %s; refining needs those of 16 or "
			       "32 bits that they were made of",
			       id->name, id->encoding);
	if (!rounds_any(&id->recipe))
		return err_set(e, ENOTSUP,
			       "%s: quant=%s rounds no weights, so there is nothing to refine; "
			       "leave quant= out, or use 2bit, 3bit or 4bit",
			       id->name, id->recipe.quant);
	return 0;
}

/* A store that is not complete yet is made first. */
static int wait_for_store(struct model *m, struct err *e)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	int failed = model_wait(m, e);
	while (!failed && !atomic_load(&m->stored.has_store)) {
		struct model_progress p;
		model_progress(m, &p);
		if (atomic_load(&m->refining.stop))
			failed = err_set(e, ECANCELED, "refining was stopped");
		else if (!strcmp(p.doing, "stopped") || model_state(m) == MODEL_FAILED) {
			model_error(m, e->text, sizeof e->text);
			failed = -(e->code = EIO);
		} else
			nanosleep(&moment, NULL);
	}
	return failed;
}

/* ---- what is known of the inputs ---- */

static void key_of(struct moments_key *k, const struct model *m, const struct model_refining *r)
{
	static const char own[] = "what the model writes, version 1";
	const struct store_key *store = &store_info(m->stored.store)->key;
	XXH128_hash_t text = XXH3_128bits_withSeed(r->text ? r->text : own,
						   r->text ? r->length : sizeof own, r->tokens);
	memcpy(k->model, store->fingerprint, sizeof k->model);
	k->text[0] = text.low64;
	k->text[1] = text.high64;
}

static int make_folder(const char *folder, struct err *e)
{
	int failed = load_make_parents(folder, e);
	if (!failed && mkdir(folder, 0700) && errno != EEXIST)
		failed =
			err_sys(e, errno,
				"%s: cannot make this folder for the refined store; choose another "
				"with -o store=",
				folder);
	return failed;
}

/* Gathers what is not gathered yet. */
static int gather(struct model *m, const struct model_refining *r, struct moments *moments,
		  const char *folder, struct err *e)
{
	int failed = moments_load(moments, folder, e);
	if (failed == -ENOENT)
		failed = 0;
	if (!failed && !moments_read_of(moments)->whole)
		failed = refine_gather(m, r, moments, folder, e);
	return failed;
}

/* ---- the new store ---- */

static void report(void *ctx, enum convert_event event, const struct err *e)
{
	(void)ctx; /* nothing is made behind anybody's back */
	(void)event;
	(void)e;
}

static int convert(struct model *m, struct moments *moments, const char *folder, bool idle,
		   struct err *e)
{
	struct plan plan;
	struct converter *c;
	uint32_t tokens = (uint32_t)moments_read_of(moments)->tokens;
	struct conversion v = {
		.directory = m->id.directory,
		.folder = folder,
		.config = &m->id.config,
		.recipe = m->id.recipe,
		.threads = idle ? 1 : threads_count(m->engine->threads),
		.kernels = m->engine->kernels,
		.moments = moments,
		.stop = idle ? &m->refining.yield : &m->refining.stop,
		.progress = &m->refining.progress,
		.report = report,
	};
	v.recipe.norms = m->stored.plan.recipe.norms;
	v.recipe.refined = tokens;
	v.recipe.refined_by = (uint16_t)moments_sum(moments);
	int failed = load_witness(m, &v, e);
	if (!failed)
		failed = convert_begin(&c, &v, &plan, e);
	if (failed)
		return failed == -EEXIST ? 0 : failed; /* it was refined just so before */
	failed = convert_finish(c, e);
	convert_close(c);
	plan_free(&plan);
	return failed;
}

static int refine_into(struct model *m, const struct model_refining *r, const char *folder,
		       struct err *e)
{
	struct moments_key key;
	struct moments *moments;
	key_of(&key, m, r);
	int failed = moments_create(&moments, &m->stored.plan, &key, most_moments, e);
	if (failed)
		return failed;
	failed = make_folder(folder, e);
	if (!failed)
		failed = gather(m, r, moments, folder, e);
	if (!failed)
		failed = convert(m, moments, folder, r->idle, e);
	if (!failed)
		(void)store_keep_checkpoint(folder, m->id.directory, &(struct err){0});
	moments_free(moments);
	return failed;
}

int model_refine(struct model *m, const struct model_refining *r, struct err *e)
{
	atomic_store(&m->refining.yield, model_working(m));
	int failed = check_refinable(m, e);
	if (!failed)
		failed = wait_for_store(m, e);
	if (failed)
		return failed;
	if (store_in_place(m->stored.store))
		return err_set(e, ENOTSUP,
			       "%s is used as it is published; there is nothing to refine",
			       m->id.name);
	int at = atomic_load(&m->stored.folder) % STORE_PLACES;
	return refine_into(m, r, m->stored.folders[STORE_PLACES + at], e);
}
