/* Making a store: begins the conversion, for which the model waits, and handles events of the rest,
 * which goes on while the model answers. */
#include "engine/model/model_state.h"
#include "engine/model/load.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* ---- while the model answers ---- */

void load_let_convert(struct model *m, bool work)
{
	if (m->stored.converter)
		convert_rest_allow(m->stored.converter, work);
}

void load_turn_ended(struct model *m)
{
	if (m->stored.converter)
		convert_retry_publish(m->stored.converter);
}

/* ---- the beginning ---- */

/* Takes over the converter. For a model without experts, the conversion is complete at this time.
 */
static int load_take_conversion(struct model *m, struct converter *c, struct err *e)
{
	bool experts = m->stored.plan.routed_layers > 0;
	int failed = experts ? convert_view(c, &m->stored.store, e) : convert_finish(c, e);
	if (!failed && experts) {
		m->stored.converter = c;
		return 0;
	}
	convert_close(c);
	plan_free(&m->stored.plan);
	return failed ? failed : load_store(m, true, e);
}

int load_witness(struct model *m, struct conversion *v, const struct source_state *now,
		 const uint64_t name[2], struct err *e)
{
	struct witness_watch watch = load_watch(m);
	int failed = witness_begin(&v->witness, now, name, v->folder, &watch, e);
	if (!failed)
		memcpy(v->fingerprint, witness_name(v->witness), sizeof v->fingerprint);
	return failed;
}

/* Looks at the source and begins a witness for it. */
static int load_watch_source(struct model *m, struct conversion *v, struct err *e)
{
	struct source_state now;
	int failed = load_look(m, &now, e);
	if (!failed)
		failed = load_witness(m, v, &now, NULL, e);
	source_forget(&now);
	return failed;
}

void load_widen(const struct model *m, struct recipe *r)
{
	for (int i = atomic_load(&m->stored.widened); i; i--)
		(void)recipe_widen(r);
}

static int load_convert_to(struct model *m, const char *folder, struct err *e)
{
	struct converter *c;
	struct conversion v = {
		.directory = m->id.directory,
		.folder = folder,
		.config = &m->id.config,
		.recipe = m->id.recipe,
		.threads = threads_count(m->engine->threads),
		.kernels = m->engine->kernels,
		.stop = &m->leave,
		.progress = &m->stored.progress,
		.report = m->converted,
		.ctx = m,
	};
	load_widen(m, &v.recipe);
	int failed = load_make_parents(folder, e);
	if (!failed)
		failed = load_watch_source(m, &v, e);
	if (!failed)
		failed = convert_begin(&c, &v, &m->stored.plan, e);
	if (failed)
		return failed;
	memcpy(m->stored.codec_words, convert_codec_words(c), sizeof m->stored.codec_words);
	return load_take_conversion(m, c, e);
}

/* Converts into the first writable folder. */
static int load_convert(struct model *m, struct err *e)
{
	int failed = -EACCES;
	for (int i = 0;
	     i < STORE_PLACES && load_may_write(m, i) && (failed == -EACCES || failed == -EROFS);
	     i++) {
		atomic_store(&m->stored.folder, i);
		failed = load_convert_to(m, m->stored.folders[i], e);
	}
	return failed;
}

/* If another process makes the same store, waits until the store is complete, or takes over if that
 * process ends. */
int load_by_converting(struct model *m, struct err *e)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	int failed;
	while ((failed = load_convert(m, e)) == -EBUSY && !atomic_load(&m->leave)) {
		atomic_store(&m->stored.waiting, true);
		nanosleep(&pause, NULL);
		if (!load_store(m, true, e)) {
			failed = 0;
			break;
		}
	}
	atomic_store(&m->stored.waiting, false);
	/* -EEXIST: another process was faster, after our last look. */
	return failed == -EEXIST ? load_store(m, true, e) : failed;
}
