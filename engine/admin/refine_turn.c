#include "engine/admin/refine_turn.h"
#include "engine/memory/mains.h"
#include "cache/clock.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <string.h>
#include <time.h>

int refine_set_param(struct session *s, const char *name, const char *value, struct err *e)
{
	return session_param_set(s, params_find(name), value, strlen(value), e);
}

/* What the session's turn ended with. */
static int refine_turn_failure(const struct model *m, const struct session *s, struct err *e)
{
	pthread_mutex_lock(&m->run->lock);
	*e = s->error;
	pthread_mutex_unlock(&m->run->lock);
	return e->code ? -e->code : err_set(e, EIO, "the text was not read to its end");
}

int refine_finish_turn(struct model *m, struct session *s, bool stop, struct err *e)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	for (bool stopped = false; session_working(s); nanosleep(&moment, NULL))
		if (!stopped && (stop || atomic_load(&m->run->refining.stop))) {
			session_stop(s);
			stopped = true;
		}
	if (session_status(s) == SESSION_DONE)
		return 0;
	if (atomic_load(&m->run->refining.stop))
		return err_set(e, ECANCELED, "refining was interrupted; it continues next time");
	if (session_status(s) == SESSION_STOPPED)
		return err_set(e, EAGAIN, "refining gives way to a turn; it continues later");
	return refine_turn_failure(m, s, e);
}

bool refine_is_quiet(struct model *m)
{
	pthread_mutex_lock(&m->run->lock);
	bool quiet = !run_works(m->run) && clock_ns() - m->run->asked_ns > REFINE_QUIET_NS;
	pthread_mutex_unlock(&m->run->lock);
	return quiet && mains_on("");
}

bool refine_wait_quiet(struct model *m)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	struct refining *own = &m->run->refining;
	uint64_t total = atomic_exchange(&own->progress.total, 0); /* meanwhile nothing is done */
	bool quiet = false;
	while (!quiet && !atomic_load(&own->stop)) {
		nanosleep(&pause, NULL);
		if (!refine_is_quiet(m))
			continue;
		/* A turn that begins from here on is seen by one or the other. */
		atomic_store(&own->yield, false);
		quiet = !model_working(m);
	}
	atomic_store(&own->progress.total, total);
	return quiet;
}
