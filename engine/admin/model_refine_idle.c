/* -o refine=idle: a thread for each model, which refines its store while the model is idle. */
#include "cache/clock.h"
#include "engine/admin/refine_turn.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/run/refining.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

/* Of a text that the model writes. */
enum { IDLE_TOKENS = 32768 };
enum { LEAST_PRIORITY = 19 };

/* Of what failed, before it is tried again, unless somebody asked since: a disk may have room then.
 */
static const uint64_t again_ns = UINT64_C(60) * 1000000000;

/* Whether refining may begin: somebody has asked the model, and it is ready and has been idle for a
 * while. */
static bool refine_may_begin(struct model *m, uint64_t failed_ns)
{
	pthread_mutex_lock(&m->run->lock);
	uint64_t asked = m->run->asked_ns;
	pthread_mutex_unlock(&m->run->lock);
	bool again = !failed_ns || asked > failed_ns || clock_ns() - failed_ns > again_ns;
	return again && atomic_load(&m->run->refining.asked) &&
	       atomic_load(&m->state) == MODEL_READY && atomic_load(&m->stored.has_store) &&
	       refine_is_quiet(m);
}

static void refine_tell(struct model *m, const struct err *e)
{
	pthread_mutex_lock(&m->run->lock);
	m->run->refining.failure = *e;
	pthread_mutex_unlock(&m->run->lock);
}

/* Whether there is nothing more to do, or nothing that can be done. */
static bool refine_once(struct model *m, uint64_t *failed_ns)
{
	const struct model_refining own = {.tokens = IDLE_TOKENS, .idle = true};
	struct err e = {0};
	int failed = model_refine(m, &own, &e);
	bool over = !failed || failed == -ENOTSUP || failed == -ENODATA;
	bool waits = failed == -ECANCELED || failed == -EBUSY; /* for turns, or another process */
	*failed_ns = failed && failed != -ECANCELED ? clock_ns() : 0;
	refine_tell(m, over || waits ? &(struct err){0} : &e);
	return over;
}

static void *refine_idle_main(void *arg)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	struct model *m = arg;
	uint64_t failed_ns = 0;
	(void)setpriority(PRIO_PROCESS, 0,
			  LEAST_PRIORITY); /* of this thread, and those it starts */
	while (!atomic_load(&m->run->refining.stop)) {
		if (!refine_may_begin(m, failed_ns))
			nanosleep(&pause, NULL);
		else if (refine_once(m, &failed_ns))
			break;
	}
	return NULL;
}

int model_refine_idle(struct model *m, struct err *e)
{
	if (!m->engine->options.refine)
		return 0;
	int code = pthread_create(&m->run->refining.thread, NULL, refine_idle_main, m);
	m->run->refining.has_thread = !code;
	return code ? err_sys(e, code, "cannot start the thread that refines %s", m->id.name) : 0;
}
