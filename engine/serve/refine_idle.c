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

/* Whether there is something to refine, and nobody who has to wait for it. A model is not loaded
 * for it. */
static bool may_begin(struct model *m)
{
	pthread_mutex_lock(&m->schedule.lock);
	bool quiet = !schedule_works(&m->schedule) &&
		     atomic_load(&m->schedule.state) == MODEL_READY &&
		     now_ns() - m->schedule.asked_ns > quiet_ns;
	pthread_mutex_unlock(&m->schedule.lock);
	return quiet && atomic_load(&m->stored.has_store);
}

static void *idle_main(void *arg)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	struct model *m = arg;
	const struct model_refining own = {.tokens = IDLE_TOKENS, .idle = true};
	struct err e;
	(void)setpriority(PRIO_PROCESS, 0,
			  LEAST_PRIORITY); /* of this thread, and those it starts */
	while (!atomic_load(&m->refining.stop)) {
		if (!may_begin(m)) {
			nanosleep(&pause, NULL);
			continue;
		}
		if (m->stored.plan.recipe.refined)
			break;
		int failed = model_refine(m, &own, &e);
		if (failed != -ECANCELED) /* done, or it cannot be done */
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
