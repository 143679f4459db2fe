/* A model's generation thread: loads the weights when they are wanted, takes the sessions that have
 * a turn in rotation, one step (a chunk of a prompt, or one token) each, and unloads. */
#include "cache/clock.h"
#include "cache/thread_trim.h"
#include "engine/compute/threads.h"
#include "engine/serve/chunk.h"
#include "engine/serve/internal.h"
#include "engine/serve/load.h"
#include "engine/serve/session_state.h"

#include <errno.h>

/* ---- loading ---- */

/* Lock held. Every waiting turn fails with the reason why the model cannot be loaded; one that is
 * submitted while the lock is free here asks to load again. */
static void fail_waiting(struct model *m, const struct err *e)
{
	const uint64_t failed_ns = clock_ns();
	struct session *s;
	while ((s = m->schedule.runnable.first) && s->turn.submitted_ns <= failed_ns) {
		session_unqueue(s);
		s->stepping = true; /* keeps it alive while the lock is free */
		turn_end(s, "error", -EIO, e);
		pthread_mutex_unlock(&m->schedule.lock);
		session_notify(s);
		pthread_mutex_lock(&m->schedule.lock);
		s->stepping = false;
		if (s->ended)
			session_free(s);
	}
}

/* Lock held, released while loading. */
static void load(struct model *m)
{
	struct err e = {0};
	atomic_store(&m->schedule.state, MODEL_LOADING);
	pthread_mutex_unlock(&m->schedule.lock);
	budgets_need(&m->engine->budgets, &m->run.need, NEED_COMING);
	int failed = load_model(m, &e);
	budgets_need(&m->engine->budgets, &m->run.need, failed ? NEED_AHEAD : NEED_TAKEN);
	pthread_mutex_lock(&m->schedule.lock);
	m->schedule.asked_ns = clock_ns();
	if (failed &&
	    m->schedule.unload_wanted) /* which comes next, and whoever asked since waits */
		return;
	if (!m->schedule.unload_wanted)
		m->schedule.load_wanted = false;
	m->schedule.load_error = e;
	atomic_store(&m->schedule.state, failed ? MODEL_FAILED : MODEL_READY);
	if (failed)
		fail_waiting(m, &e);
	pthread_cond_broadcast(&m->schedule.loaded);
}

/* Lock held, released meanwhile. Turns that were begun since it was asked for have the model loaded
 * again after it. */
static void unload(struct model *m)
{
	pthread_mutex_unlock(&m->schedule.lock);
	unload_model(m);
	budgets_need(&m->engine->budgets, &m->run.need, NEED_AHEAD);
	pthread_mutex_lock(&m->schedule.lock);
	m->schedule.load_error = (struct err){0};
	atomic_store(&m->schedule.state, MODEL_UNLOADED);
	atomic_store(&m->schedule.leave, false);
	m->schedule.unload_wanted = false;
	m->schedule.unloads++;
	pthread_cond_broadcast(&m->schedule.loaded);
}

/* ---- stepping ---- */

/* Lock held, released meanwhile. What long steps took goes back when no prompt needs it. */
static void shorten_steps(struct model *m)
{
	if (!m->run.scratch.bytes)
		return;
	for (const struct session *s = m->schedule.runnable.first; s; s = s->next)
		if (s->status == SESSION_QUEUED || s->status == SESSION_PROMPTING)
			return;
	pthread_mutex_unlock(&m->schedule.lock);
	chunk_end(m);
	pthread_mutex_lock(&m->schedule.lock);
}

/* Lock held. */
static bool can_be_read(const struct session *s)
{
	bool complete;
	return s->answer && answer_size(s->answer, &complete);
}

/* Lock held, released meanwhile. The first bytes of an answer are what somebody waits for by the
 * microsecond, and whoever brings them there needs a processor: the loop thread, then the reader.
 * Compute threads may have taken all of them, and a scheduler that has just run these two finds
 * that they had their share and lets them wait for its next tick, milliseconds later. So who
 * computes sleeps for a moment, once an answer, unless others wait for their own. */
static void give_way(struct model *m, const struct session *s)
{
	static const struct timespec MOMENT = {0, 300000};
	if (m->schedule.runnable.first != s || s->next)
		return;
	pthread_mutex_unlock(&m->schedule.lock);
	nanosleep(&MOMENT, NULL);
	pthread_mutex_lock(&m->schedule.lock);
}

/* Lock held, released during the step. */
static void step(struct model *m)
{
	struct session *s = m->schedule.runnable.first;
	bool began = can_be_read(s);
	session_unqueue(s);
	s->stepping = true;
	m->schedule.at_step = s;
	pthread_mutex_unlock(&m->schedule.lock);
	bool more = turn_step(s);
	session_notify(s);
	pthread_mutex_lock(&m->schedule.lock);
	m->schedule.at_step = NULL;
	m->schedule.asked_ns = clock_ns();
	s->stepping = false;
	if (s->ended)
		session_free(s);
	else if (more) {
		session_queue(s);
		if (!began && can_be_read(s))
			give_way(m, s);
	}
	if (!schedule_works(&m->schedule)) /* who reads has come to the end */
		trace_ring_tell(&m->tracing.ring);
	shorten_steps(m);
}

/* Lock held, released meanwhile. A turn has failed, perhaps over what is wrong in the store, with
 * the words to remove its folder: if somebody has, the next turn has it made anew. */
static void look_again(struct model *m)
{
	m->stored.doubted = false;
	pthread_mutex_unlock(&m->schedule.lock);
	bool gone = load_store_is_gone(&m->stored);
	pthread_mutex_lock(&m->schedule.lock);
	if (!gone)
		return;
	m->stored.doubted = m->schedule.load_wanted = true;
	atomic_store(&m->schedule.state, MODEL_UNLOADED);
}

/* Lock held, released meanwhile. Nothing is to do: the time to keep what a killed daemon would
 * lose.
 */
static void keep_heat(struct model *m)
{
	const uint64_t interval = 30 * UINT64_C(1000000000);
	uint64_t now = clock_ns();
	if (now - m->run.heat_ns < interval)
		return;
	m->run.heat_ns = now;
	pthread_mutex_unlock(&m->schedule.lock);
	load_keep_heat(m);
	pthread_mutex_lock(&m->schedule.lock);
}

bool generate_works(const struct model *m)
{
	const struct schedule *c = &m->schedule;
	return c->runnable.first || (c->at_step && c->at_step->working);
}

static bool has_work(const struct model *m)
{
	return m->schedule.runnable.first || m->schedule.unload_wanted ||
	       (m->schedule.load_wanted && atomic_load(&m->schedule.state) != MODEL_READY);
}

/* A conversion that goes on wants the model as a prompt does, and so do refining and who pinned
 * experts. */
static bool is_wanted(const struct model *m)
{
	bool converting = m->stored.converter && !atomic_load(&m->stored.has_store) &&
			  !atomic_load(&m->stored.progress.stopped);
	return converting || atomic_load(&m->refining.progress.total) ||
	       wishes_any_pinned(&m->wishes);
}

/* Lock held, released meanwhile. Until there is work, or nobody has asked for so long that the
 * model is to be unloaded. */
static void wait_while_idle(struct model *m)
{
	const uint64_t second = UINT64_C(1000000000);
	struct schedule *c = &m->schedule;
	uint64_t idle = m->engine->options.idle * second;
	if (!idle || atomic_load(&c->state) != MODEL_READY) {
		pthread_cond_wait(&c->work, &c->lock);
		return;
	}
	if (is_wanted(m))
		c->asked_ns = clock_ns();
	uint64_t until = c->asked_ns + idle;
	const struct timespec t = {(time_t)(until / second), (long)(until % second)};
	if (pthread_cond_timedwait(&c->work, &c->lock, &t) == ETIMEDOUT && !has_work(m) &&
	    !is_wanted(m))
		c->unload_wanted = true;
}

/* Lock held. While there is no turn the conversion has the machine. */
static void wait_for_work(struct model *m, bool *keeps)
{
	if (has_work(m) || atomic_load(&m->schedule.quit))
		return;
	load_let_convert(m, true);
	if (*keeps)
		thread_wait_and_trim(&m->schedule.work, &m->schedule.lock, keeps);
	else
		wait_while_idle(m);
	load_let_convert(m, false);
}

static void *thread_main(void *arg)
{
	struct model *m = arg;
	bool keeps = false;
	threads_ask_long_slice();
	pthread_mutex_lock(&m->schedule.lock);
	while (!atomic_load(&m->schedule.quit)) {
		keeps |= has_work(m);
		if (m->schedule.unload_wanted)
			unload(m);
		else if (m->schedule.load_wanted && atomic_load(&m->schedule.state) != MODEL_READY)
			load(m);
		else if (m->stored.doubted && m->schedule.runnable.first)
			look_again(m);
		else if (m->schedule.runnable.first)
			step(m);
		else {
			keep_heat(m);
			wait_for_work(m, &keeps);
		}
	}
	pthread_mutex_unlock(&m->schedule.lock);
	return NULL;
}

int generate_start(struct model *m, struct err *e)
{
	int code = pthread_create(&m->schedule.thread, NULL, thread_main, m);
	return code ? err_sys(e, code, "cannot start the generation thread of %s", m->id.name) : 0;
}

void generate_stop(struct model *m)
{
	pthread_mutex_lock(&m->schedule.lock);
	atomic_store(&m->schedule.quit, true);
	atomic_store(&m->schedule.leave, true);
	pthread_cond_broadcast(&m->schedule.work);
	pthread_cond_broadcast(&m->schedule.loaded);
	pthread_mutex_unlock(&m->schedule.lock);
	pthread_join(m->schedule.thread, NULL);
}
