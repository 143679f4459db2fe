/* -o refine=idle: a thread for each model, which refines its store while nobody asks anything. */
#include "cache/clock.h"
#include "engine/serve/internal.h"
#include "engine/serve/refine.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

/* Of a text that the model writes. */
enum { IDLE_TOKENS = 32768 };
/* After the last turn: who asks once often asks again. */
static const uint64_t quiet_ns = UINT64_C(10) * 1000000000;
enum { LEAST_PRIORITY = 19 };

/* Of what failed, before it is tried again, unless somebody asked since: a disk may have room then.
 */
static const uint64_t again_ns = UINT64_C(60) * 1000000000;

/* Whether nobody has to wait for it. A model is not loaded for it. */
static bool may_begin(struct model *m, uint64_t failed_ns)
{
	uint64_t now = clock_ns();
	pthread_mutex_lock(&m->schedule.lock);
	uint64_t asked = m->schedule.asked_ns;
	bool quiet = !schedule_works(&m->schedule) &&
		     atomic_load(&m->schedule.state) == MODEL_READY && now - asked > quiet_ns;
	pthread_mutex_unlock(&m->schedule.lock);
	bool again = !failed_ns || asked > failed_ns || now - failed_ns > again_ns;
	return quiet && again && atomic_load(&m->stored.has_store);
}

static void tell(struct model *m, const struct err *e)
{
	pthread_mutex_lock(&m->schedule.lock);
	m->refining.failure = *e;
	pthread_mutex_unlock(&m->schedule.lock);
}

/* Whether there is nothing more to do, or nothing that can be done. */
static bool refine_once(struct model *m, uint64_t *failed_ns)
{
	const struct model_refining own = {.tokens = IDLE_TOKENS, .idle = true};
	struct err e = {0};
	int failed = model_refine(m, &own, &e);
	bool over = !failed || failed == -ENOTSUP;
	bool waits = failed == -ECANCELED || failed == -EBUSY; /* for turns, or another process */
	*failed_ns = failed && failed != -ECANCELED ? clock_ns() : 0;
	tell(m, over || waits ? &(struct err){0} : &e);
	return over;
}

static void *idle_main(void *arg)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	struct model *m = arg;
	uint64_t failed_ns = 0;
	(void)setpriority(PRIO_PROCESS, 0,
			  LEAST_PRIORITY); /* of this thread, and those it starts */
	while (!atomic_load(&m->refining.stop)) {
		if (!may_begin(m, failed_ns))
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
	int code = pthread_create(&m->refining.thread, NULL, idle_main, m);
	m->refining.has_thread = !code;
	return code ? err_sys(e, code, "cannot start the thread that refines %s", m->id.name) : 0;
}
