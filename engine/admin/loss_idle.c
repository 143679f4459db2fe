/* Measuring a store's loss once, by itself, after the model was used and while nobody uses it. */
#include "cache/clock.h"
#include "engine/admin/model_loss.h"
#include "engine/memory/mains.h"
#include "engine/memory/memory.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Of a checkpoint that is read for it unasked. */
static const uint64_t source_most = UINT64_C(4) << 30;
enum { LEAST_PRIORITY = 19 };

static int64_t loss_idle_spare_memory(void)
{
	struct memory memory;
	struct memory_room room;
	memory_init(&memory, "");
	memory_look(&memory, &room);
	memory_free(&memory);
	return room.spare;
}

/* Bytes of the checkpoint's files; 0: it cannot be looked at. */
static uint64_t loss_idle_source_bytes(const struct model *m)
{
	struct source_state now;
	struct err ignored;
	uint64_t bytes = 0;
	if (!source_look(&now, m->id.directory, &ignored))
		for (uint32_t i = 0; i < now.count; i++)
			bytes += now.files[i].stamp.size;
	source_forget(&now);
	return bytes;
}

/* Heads and a layer of both models take less than half of a checkpoint that is not tiny. */
static bool loss_idle_has_room(const struct model *m)
{
	const struct config *c = &m->id.config;
	uint64_t bytes = loss_idle_source_bytes(m);
	const struct backend *b = m->engine->backend;
	uint64_t rows = forward_bytes(b, c, LOSS_TOKENS) +
			2 * forward_pass_bytes(b, c, LOSS_TOKENS) +
			2 * context_full_bytes(c, KV_F32, LOSS_TOKENS, LOSS_TOKENS);
	return bytes && bytes <= source_most &&
	       (int64_t)(bytes / 2 + rows) <= loss_idle_spare_memory();
}

/* Whether there is a store of which it is to be measured. */
static bool loss_idle_is_due(const struct model *m)
{
	static const char unknown[] = "unknown: ";
	char facts[256];
	bool stored = atomic_load(&m->stored.has_store);
	return stored && loss_print(m, facts, sizeof facts) > 0 &&
	       !strncmp(facts, unknown, sizeof unknown - 1) && loss_idle_has_room(m);
}

/* Whether nobody has used the model for a while. */
static bool loss_idle_may_begin(struct model *m)
{
	struct run *run = m->run;
	struct model_progress p;
	model_progress(m, &p);
	pthread_mutex_lock(&run->lock);
	bool quiet = atomic_load(&m->state) == MODEL_READY && !run_works(run) &&
		     clock_ns() - run->asked_ns > RUN_REST_NS;
	pthread_mutex_unlock(&run->lock);
	return quiet && !p.total && mains_on(""); /* total: the store is still being made */
}

/* A failure is not tried again: `moefs --loss` says why. */
static void *loss_idle_main(void *arg)
{
	const struct timespec pause = {.tv_sec = 1};
	struct model *m = arg;
	struct err e;
	int failed = -ECANCELED;
	(void)setpriority(PRIO_PROCESS, 0, LEAST_PRIORITY); /* of this thread */
	while (failed == -ECANCELED && !atomic_load(&m->run->refining.stop)) {
		if (!loss_idle_may_begin(m))
			nanosleep(&pause, NULL);
		else if (loss_idle_is_due(m))
			failed = model_measure_loss(m, true, &e);
		else
			break;
	}
	return NULL;
}

void loss_idle_begin(struct model *m)
{
	struct refining *r = &m->run->refining;
	if (!m->engine->options.refine)
		r->measures = !pthread_create(&r->measurer, NULL, loss_idle_main, m);
}
