/* Measuring what a model's store loses against its checkpoint. */
#include "engine/admin/model_loss.h"
#include "cache/store_in_place.h"
#include "engine/model/load.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const _Atomic bool *loss_stop(const struct model *m, bool idle)
{
	return idle ? &m->run->refining.yield : &m->run->refining.stop;
}

int loss_wait_for_store(struct model *m, const _Atomic bool *stop, struct err *e)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	int failed = run_wait(m, e);
	while (!failed && !atomic_load(&m->stored.has_store)) {
		struct model_progress p;
		model_progress(m, &p);
		if (atomic_load(stop))
			failed = err_set(e, ECANCELED, "%s: waiting for its store was stopped",
					 m->id.name);
		else if (!strcmp(p.doing, "stopped") || model_state(m) == MODEL_FAILED) {
			model_error(m, e->text, sizeof e->text);
			failed = -(e->code = EIO);
		} else
			nanosleep(&moment, NULL);
	}
	return failed;
}

/* ---- why there is nothing to measure ---- */

/* NULL: there is. In words that follow a model's name. */
static const char *loss_none(const struct model *m)
{
	if (recipe_is_plain(&m->id.recipe))
		return "none: the weights are the checkpoint's own";
	if (m->id.recipe.as_published)
		return "none: the weights are used as they are published";
	return NULL;
}

/* Whether a file of the checkpoint is not there any more. The store is held. */
static bool loss_source_is_gone(const struct source_state *s)
{
	struct err ignored;
	bool gone = false;
	for (uint32_t i = 0; i < s->count && !gone; i++)
		gone = source_compare(s, &s->files[i], &ignored) == -ENOENT;
	return gone;
}

int loss_print(const struct model *m, char *text, size_t size)
{
	const char *none = loss_none(m);
	if (none)
		return snprintf(text, size, "%s", none);
	if (!model_hold_store(&m->stored))
		return snprintf(text, size, "unknown until converted");
	const struct store_loss l = m->stored.loss;
	bool gone = !l.tokens && loss_source_is_gone(&m->stored.looked);
	model_release_store(&m->stored);
	if (l.tokens)
		return snprintf(text, size, "kl %.4f\nkl_error %.4f\nsame %.3f\ntokens %u", l.kl,
				l.error, l.same, l.tokens);
	return snprintf(text, size, "unknown: %s",
			gone ? "the checkpoint is gone" : "moefs --loss measures it");
}

/* ---- a store ---- */

/* The checkpoint as it is now, which the caller forgets: the one that the store is of. While idle it
 * is not read for that, if its times are others. */
static int loss_look_at_source(struct model *m, const char *folder, const struct store_key *key,
			       bool idle, struct source_state *now, struct err *e)
{
	int failed = load_look(m, now, e);
	if (failed == -ENOENT)
		return err_set(e, ENOENT,
			       "%s: its checkpoint is gone, so what its store loses cannot be "
			       "measured",
			       m->id.name);
	return failed ? failed : load_check_source(m, folder, key->fingerprint, now, !idle, e);
}

static int loss_find_key(const char *folder, struct store_key *key, struct err *e)
{
	struct store *s;
	int failed = store_open(&s, folder, NULL, e);
	if (failed)
		return failed;
	*key = store_info(s)->key;
	store_close(s);
	return 0;
}

static int loss_compare_shared(struct model *m, struct loss_of *of, const struct loss_text *text,
			       struct store_loss *out, struct err *e)
{
	enum { IDLE_WEIGHT = 8 };
	struct threads *threads;
	struct refining *r = &m->run->refining;
	int failed = threads_share(&threads, m->engine->threads, e);
	if (failed)
		return failed;
	if (of->stop == &r->yield)
		threads_weigh(threads, IDLE_WEIGHT);
	of->threads = threads;
	atomic_store(&r->measuring, true);
	failed = loss_compare(of, text, out, e);
	atomic_store(&r->measuring, false);
	threads_destroy(threads);
	return failed;
}

int loss_measure_store(struct model *m, const char *folder, const struct loss_text *text, bool idle,
		       struct store_loss *out, struct err *e)
{
	struct store_key key;
	struct source_state now = {0};
	struct err ignored; /* where nothing can be written, nothing is kept */
	struct loss_of of = {
		.config = &m->id.config,
		.backend = m->engine->backend,
		.kernels = m->engine->kernels,
		.directory = m->id.directory,
		.folder = folder,
		.stop = loss_stop(m, idle),
		.progress = &m->run->refining.progress,
	};
	int failed = loss_find_key(folder, &key, e);
	if (!failed)
		failed = loss_look_at_source(m, folder, &key, idle, &now, e);
	if (!failed) {
		source_number(&now, of.number);
		failed = loss_compare_shared(m, &of, text, out, e);
	}
	source_forget(&now);
	if (!failed)
		(void)store_loss_write(out, folder, &key, &ignored);
	return failed;
}

/* ---- the store in use ---- */

static int loss_copy_folder(const struct model *m, char *folder, size_t size, struct err *e)
{
	if (!model_hold_store(&m->stored))
		return err_set(e, ECANCELED, "%s: was unloaded", m->id.name);
	bool in_place = store_is_in_place(m->stored.store);
	int n = snprintf(folder, size, "%s", store_folder(m->stored.store));
	model_release_store(&m->stored);
	if (in_place)
		return err_set(e, ENOTSUP, "%s: its weights are used as they are published",
			       m->id.name);
	return n >= 0 && (size_t)n < size ? 0 : err_set(e, ENAMETOOLONG, "%s: too long", folder);
}

/* Unless another store serves by now. */
static void loss_show(struct model *m, const char *folder, const struct store_loss *l)
{
	pthread_rwlock_wrlock(&m->stored.lock);
	if (m->stored.store && !strcmp(store_folder(m->stored.store), folder))
		m->stored.loss = *l;
	pthread_rwlock_unlock(&m->stored.lock);
}

int model_measure_loss(struct model *m, bool idle, struct err *e)
{
	char folder[4096];
	struct store_loss loss;
	static const char *const words = "%s: there is nothing to measure: %s";
	const char *none = loss_none(m);
	struct loss_text *text = calloc(1, sizeof *text);
	int failed = text ? 0 : err_set(e, ENOMEM, "out of memory for a text");
	if (!failed && none)
		failed = err_set(e, ENOTSUP, words, m->id.name, none + strlen("none: "));
	/* A turn that begins from here on is seen by one or the other. */
	atomic_store(&m->run->refining.yield, false);
	if (idle && model_working(m))
		refining_send_away(&m->run->refining);
	if (!failed)
		failed = loss_wait_for_store(m, loss_stop(m, idle), e);
	if (!failed)
		failed = loss_copy_folder(m, folder, sizeof folder, e);
	if (!failed)
		failed = loss_write_text(m, idle, text, e);
	if (!failed)
		failed = loss_measure_store(m, folder, text, idle, &loss, e);
	if (!failed)
		loss_show(m, folder, &loss);
	free(text);
	return failed;
}
