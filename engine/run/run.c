/* A model's generation thread: loads the weights when they are needed, computes steps while
 * sessions have turns (run_step.c), and unloads the model. */
#include "cache/clock.h"
#include "cache/thread_trim.h"
#include "engine/compute/threads.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/model/load.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <stdlib.h>

/* ---- loading ---- */

/* The model keeps the error until the next load, or until it no longer applies. */
static void run_converted(void *ctx, enum convert_event event, const struct err *e)
{
	struct model *m = ctx;
	pthread_mutex_lock(&m->run->lock);
	m->run->load_error = *e;
	if (event == CONVERT_COMPLETE)
		atomic_store(&m->stored.has_store, true);
	if (event == CONVERT_AGAIN) {
		/* With a wider recipe, the conversion begins again at once, so that a later mount
		 * finds it in the folder. After a disk failure it begins again with the next
		 * prompt. */
		if (e->code == ERANGE) {
			atomic_fetch_add(&m->stored.widened, 1);
			m->run->load_wanted |= !m->run->unload_wanted;
		}
		atomic_store(&m->state, MODEL_FAILED);
		pthread_cond_signal(&m->run->work);
	}
	pthread_mutex_unlock(&m->run->lock);
}

static struct session *run_first_asked_until(const struct run *r, uint64_t ns)
{
	struct session *const first[] = {r->runnable.first, r->unprepared.first};
	for (int i = 0; i < 2; i++)
		if (first[i] && first[i]->asked.submitted_ns <= ns)
			return first[i];
	return NULL;
}

/* Lock held. Fails every waiting turn with the reason why the model cannot be loaded. A turn that
 * is submitted while the lock is released here asks for another load. */
static void run_fail_waiting(struct model *m, const struct err *e)
{
	const uint64_t failed_ns = clock_ns();
	struct session *s;
	while ((s = run_first_asked_until(m->run, failed_ns))) {
		run_unqueue(s);
		session_end_turn(s, "error", -EIO, e);
	}
}

/* Lock held, released while loading. */
static void run_load_now(struct model *m)
{
	struct err e = {0};
	atomic_store(&m->state, MODEL_LOADING);
	m->run->loads = true;
	run_wait_for_preparation(m->run);
	m->run->looked = false;
	pthread_mutex_unlock(&m->run->lock);
	budgets_need(&m->engine->budgets, &m->loaded.need, NEED_COMING);
	int failed = load_model(m, &e);
	budgets_need(&m->engine->budgets, &m->loaded.need, failed ? NEED_AHEAD : NEED_TAKEN);
	pthread_mutex_lock(&m->run->lock);
	m->run->asked_ns = clock_ns();
	if (failed && m->run->unload_wanted) {
		m->run->loads = false; /* unloading comes next; new turns wait */
		return;
	}
	if (!m->run->unload_wanted)
		m->run->load_wanted = false;
	m->run->load_error = e;
	atomic_store(&m->state, failed ? MODEL_FAILED : MODEL_READY);
	if (failed)
		run_fail_waiting(m, &e);
	m->run->loads = false;
	pthread_cond_signal(&m->run->prepare);
	pthread_cond_broadcast(&m->run->loaded);
}

/* Lock held, released meanwhile. If a turn was submitted after the unload was asked for, the model
 * is loaded again afterwards. */
static void run_unload_now(struct model *m)
{
	run_wait_for_preparation(m->run);
	pthread_mutex_unlock(&m->run->lock);
	load_undo(m);
	budgets_need(&m->engine->budgets, &m->loaded.need, NEED_AHEAD);
	pthread_mutex_lock(&m->run->lock);
	m->run->load_error = (struct err){0};
	atomic_store(&m->state, MODEL_UNLOADED);
	atomic_store(&m->leave, false);
	m->run->unload_wanted = false;
	m->run->unloads++;
	pthread_cond_broadcast(&m->run->loaded);
}

/* ---- other work ---- */

/* Lock held, released meanwhile. A turn has failed, perhaps because the store is damaged; then its
 * error advised to remove the store's folder. If the user has removed it, the store is made again
 * for the next turn. */
static void run_look_again(struct model *m)
{
	m->stored.doubted = false;
	pthread_mutex_unlock(&m->run->lock);
	bool gone = load_store_is_gone(&m->stored);
	pthread_mutex_lock(&m->run->lock);
	pthread_cond_signal(&m->run->prepare);
	if (!gone)
		return;
	m->stored.doubted = m->run->load_wanted = true;
	atomic_store(&m->state, MODEL_UNLOADED);
}

/* Lock held, released meanwhile. Called when the model is idle: saves the experts' heat, which
 * would be lost if the daemon were killed. */
static void run_keep_heat(struct model *m)
{
	const uint64_t interval = 30 * UINT64_C(1000000000);
	uint64_t now = clock_ns();
	if (now - m->loaded.heat_ns < interval)
		return;
	m->loaded.heat_ns = now;
	pthread_mutex_unlock(&m->run->lock);
	load_keep_heat(m);
	pthread_mutex_lock(&m->run->lock);
}

/* Whether turns wait for run_look_again. */
static bool run_is_doubted(const struct model *m)
{
	return m->stored.doubted && (m->run->runnable.first || m->run->unprepared.first);
}

static bool run_has_work(const struct model *m)
{
	return m->run->runnable.first || m->run->unload_wanted || run_must_load(m) ||
	       run_is_doubted(m);
}

/* Whether something other than a turn needs the model: a conversion, refining, or pinned experts.
 */
static bool run_is_wanted(const struct model *m)
{
	bool converting = m->stored.converter && !atomic_load(&m->stored.has_store) &&
			  !atomic_load(&m->stored.progress.stopped);
	return converting || atomic_load(&m->run->refining.progress.total) ||
	       model_pins_any_pinned(&m->pins);
}

/* Lock held, released meanwhile. Waits until there is work or the time `until` is reached. True:
 * the time is reached and the model is not needed. */
static bool run_wait_until(struct model *m, uint64_t until)
{
	const uint64_t second = UINT64_C(1000000000);
	struct run *run = m->run;
	const struct timespec t = {(time_t)(until / second), (long)(until % second)};
	return pthread_cond_timedwait(&run->work, &run->lock, &t) == ETIMEDOUT &&
	       !run_has_work(m) && !run_prepares(run) && !run_is_wanted(m);
}

/* Lock held, released meanwhile. Waits until there is work, or until the model has been idle long
 * enough to be measured or unloaded. */
static void run_wait_while_idle(struct model *m)
{
	struct run *run = m->run;
	uint64_t idle = m->engine->options.idle * UINT64_C(1000000000);
	bool ready = atomic_load(&m->state) == MODEL_READY;
	bool rests = ready && m->rests && run->answered_ns && !run->rested;
	if (!ready || (!idle && !rests)) {
		pthread_cond_wait(&run->work, &run->lock);
		return;
	}
	if (run_is_wanted(m))
		run->asked_ns = clock_ns();
	if (rests && (!idle || idle > RUN_REST_NS)) {
		run->rested = run_wait_until(m, run->asked_ns + RUN_REST_NS);
		if (run->rested)
			m->rests(m);
	} else if (run_wait_until(m, run->asked_ns + idle)) {
		run->load_wanted = false; /* turns submitted during loading had set it */
		run->unload_wanted = true;
	}
}

/* Lock held. The conversion uses all threads while there is no turn. */
static void run_wait_for_work(struct model *m, bool *keeps)
{
	if (run_has_work(m) || atomic_load(&m->run->quit))
		return;
	if (run_prepares(m->run)) {
		pthread_cond_wait(&m->run->work, &m->run->lock);
		return;
	}
	load_let_convert(m, true);
	if (*keeps)
		thread_wait_and_trim(&m->run->work, &m->run->lock, keeps);
	else
		run_wait_while_idle(m);
	load_let_convert(m, false);
}

static void *run_main(void *arg)
{
	struct model *m = arg;
	bool keeps = false, stepped = false;
	threads_ask_long_slice();
	pthread_mutex_lock(&m->run->lock);
	while (!atomic_load(&m->run->quit)) {
		keeps |= run_has_work(m);
		if (m->run->unload_wanted)
			run_unload_now(m);
		else if (run_must_load(m))
			run_load_now(m);
		else if (run_is_doubted(m))
			run_look_again(m);
		else if (m->run->runnable.first) {
			run_step(m);
			stepped = true;
		} else {
			run_keep_heat(m);
			if (stepped)
				load_turn_ended(m);
			stepped = false;
			run_wait_for_work(m, &keeps);
		}
	}
	pthread_mutex_unlock(&m->run->lock);
	return NULL;
}

/* The condition's deadlines are in CLOCK_MONOTONIC, like clock_ns. */
static void run_init_work(pthread_cond_t *work)
{
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(work, &a);
	pthread_condattr_destroy(&a);
}

int run_create(struct model *m, struct err *e)
{
	struct run *r = calloc(1, sizeof *r);
	if (!r)
		return err_set(e, ENOMEM, "out of memory for a model");
	tracing_init(&r->tracing);
	pthread_mutex_init(&r->notify, NULL);
	pthread_mutex_init(&r->lock, NULL);
	run_init_work(&r->work);
	thread_cond_init(&r->prepare);
	pthread_cond_init(&r->loaded, NULL);
	r->env = (struct turn_env){.model = m,
				   .meter = &r->draft_meter,
				   .grammars = &r->grammars,
				   .prefixes = &r->prefixes,
				   .remember = m->engine->remember};
	r->parties[0].run = r->parties[1].run = r;
	m->run = r;
	m->converted = run_converted;
	return 0;
}

void run_free(struct model *m)
{
	struct run *r = m->run;
	if (!r)
		return;
	pthread_cond_destroy(&r->work);
	pthread_cond_destroy(&r->prepare);
	pthread_cond_destroy(&r->loaded);
	pthread_mutex_destroy(&r->notify);
	pthread_mutex_destroy(&r->lock);
	grammars_free(&r->grammars);
	prefixes_free(&r->prefixes);
	if (r->offload.room)
		offload_free(&r->offload);
	for (int i = 0; i < 2; i++) {
		step_batch_free(&r->parties[i].batch);
		for (uint32_t k = 0; k < RUN_PLACES; k++)
			tracing_span_free(&r->parties[i].places[k].trace);
	}
	for (int i = 0; i < HEAD_ROWS; i++)
		free(r->scratch[i].mask);
	tracing_free(&r->tracing);
	free(r);
	m->run = NULL;
}

void run_stop_rest(struct model *m)
{
	pthread_mutex_lock(&m->run->lock);
	m->run->rested = true;
	pthread_mutex_unlock(&m->run->lock);
}

static void run_quit(struct model *m)
{
	pthread_mutex_lock(&m->run->lock);
	atomic_store(&m->run->quit, true);
	atomic_store(&m->leave, true);
	pthread_cond_broadcast(&m->run->work);
	pthread_cond_broadcast(&m->run->prepare);
	pthread_cond_broadcast(&m->run->loaded);
	pthread_mutex_unlock(&m->run->lock);
}

int run_start(struct model *m, struct err *e)
{
	struct run *r = m->run;
	prefixes_init(&r->prefixes, &m->engine->context_budget, &m->id.config,
		      model_kv_type(&m->id));
	offload_init(&r->offload, &m->engine->offload, m->stored.folders,
		     sizeof m->stored.folders / sizeof *m->stored.folders);
	int code = pthread_create(&r->preparer, NULL, run_prepare_turns, m);
	if (code)
		return err_sys(e, code, "cannot start the preparing thread of %s", m->id.name);
	code = pthread_create(&r->thread, NULL, run_main, m);
	if (!code)
		return 0;
	run_quit(m);
	pthread_join(r->preparer, NULL);
	return err_sys(e, code, "cannot start the run's thread of %s", m->id.name);
}

void run_stop(struct model *m)
{
	run_quit(m);
	pthread_join(m->run->thread, NULL);
	pthread_join(m->run->preparer, NULL);
}

/* ---- asking for the weights ---- */

void run_load(struct model *m)
{
	pthread_mutex_lock(&m->run->lock);
	m->run->load_wanted = true;
	m->run->asked_ns = clock_ns();
	pthread_cond_signal(&m->run->work);
	pthread_mutex_unlock(&m->run->lock);
}

int run_wait(struct model *m, struct err *e)
{
	pthread_mutex_lock(&m->run->lock);
	m->run->load_wanted = true;
	pthread_cond_signal(&m->run->work);
	while (atomic_load(&m->state) != MODEL_READY && m->run->load_wanted &&
	       !atomic_load(&m->run->quit))
		pthread_cond_wait(&m->run->loaded, &m->run->lock);
	bool ready = atomic_load(&m->state) == MODEL_READY;
	if (!ready)
		*e = m->run->load_error;
	pthread_mutex_unlock(&m->run->lock);
	if (!ready && !e->code)
		err_set(e, ECANCELED, "%s: was unloaded while it was loading", m->id.name);
	return ready ? 0 : -e->code;
}

/* Lock held. Whether the model is not loaded, and no load is in progress or asked for. */
static bool run_is_unloaded(const struct model *m)
{
	return atomic_load(&m->state) == MODEL_UNLOADED && !m->run->unload_wanted;
}

int run_unload(struct model *m, struct err *e)
{
	struct run *run = m->run;
	pthread_mutex_lock(&run->lock);
	run_send_away(m);
	int failed = run_has_turn(m->run)
			     ? err_set(e, EBUSY,
				       "%s: one of its sessions is still working; wait, "
				       "or echo stop > its ctl",
				       m->id.name)
			     : 0;
	uint64_t before = run->unloads;
	if (!failed) {
		run->load_wanted = false;
		pthread_cond_broadcast(&run->loaded); /* ends run_wait */
	}
	if (!failed && !run_is_unloaded(m)) {
		run->unload_wanted = true;
		atomic_store(&m->leave, true);
		pthread_cond_signal(&run->work);
		while (run->unloads == before && !atomic_load(&run->quit))
			pthread_cond_wait(&run->loaded, &run->lock);
	}
	pthread_mutex_unlock(&run->lock);
	return failed;
}
