/* Looking at a model (model.h): how far it is, its sizes, its experts and its complete store.
 * Looking loads nothing, and waits for no step. */
#include "cache/clock.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/model/load.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool model_working(const struct model *m)
{
	struct model *writable = (struct model *)m; /* to lock it; nothing is changed */
	pthread_mutex_lock(&writable->run->lock);
	bool working = run_works(m->run);
	pthread_mutex_unlock(&writable->run->lock);
	return working;
}

void model_count_sessions(const struct model *m, uint32_t *sessions, uint32_t *working)
{
	struct model *writable = (struct model *)m; /* to lock it; nothing is changed */
	pthread_mutex_lock(&writable->run->lock);
	for (const struct session *s = m->run->all; s; s = s->all_next) {
		*sessions += !s->background && !s->ended;
		*working += !s->background && s->working;
	}
	pthread_mutex_unlock(&writable->run->lock);
}

static void model_copy_error(const struct model *m, const struct err *from, struct err *to)
{
	struct model *writable = (struct model *)m; /* to lock it; nothing is changed */
	pthread_mutex_lock(&writable->run->lock);
	*to = *from;
	pthread_mutex_unlock(&writable->run->lock);
}

void model_failure(const struct model *m, struct err *e)
{
	model_copy_error(m, &m->run->load_error, e);
}

void model_refining_failure(const struct model *m, struct err *e)
{
	model_copy_error(m, &m->run->refining.failure, e);
}

void model_error(const struct model *m, char *text, size_t size)
{
	struct err e;
	model_failure(m, &e);
	(void)snprintf(text, size, "%s", e.text);
}

void model_refining_error(const struct model *m, char *text, size_t size)
{
	struct err e;
	model_refining_failure(m, &e);
	(void)snprintf(text, size, "%s", e.text);
}

/* A better store is made, while the one that is there serves. */
static void model_refining_progress(const struct model *m, struct model_progress *out)
{
	const struct refining *r = &m->run->refining;
	uint64_t total = atomic_load(&r->progress.total);
	char why[sizeof((struct err *)0)->text];
	if (!total) {
		model_refining_error(m, why, sizeof why);
		if (*why)
			out->doing = "refining stopped";
		return;
	}
	static const char *const phases[] = {[REFINING_ROUNDS] = "refining",
					     [REFINING_WRITES] = "writing",
					     [REFINING_GATHERS] = "gathering"};
	*out = (struct model_progress){
		.doing = atomic_load(&r->measuring) ? "measuring" : phases[atomic_load(&r->phase)],
		.done = atomic_load(&r->progress.done),
		.total = total,
		.seconds = clock_seconds_since(atomic_load(&r->progress.started_ns)),
	};
}

void model_progress(const struct model *m, struct model_progress *out)
{
	uint64_t total = atomic_load(&m->stored.progress.total);
	bool loading = model_state(m) == MODEL_LOADING;
	*out = (struct model_progress){
		.doing = atomic_load(&m->stored.checking)		     ? "checking"
			 : atomic_load(&m->stored.waiting)		     ? "waiting"
			 : total && atomic_load(&m->stored.progress.stopped) ? "stopped"
			 : total					     ? "converting"
			 : loading					     ? "reading"
									     : "idle",
		.done = total ? atomic_load(&m->stored.progress.done) : 0,
		.total = total,
		.seconds = total ? clock_seconds_since(atomic_load(&m->stored.progress.started_ns))
				 : 0,
	};
	if (!strcmp(out->doing, "idle"))
		model_refining_progress(m, out);
}

/* ---- the complete store, and experts ---- */

uint64_t model_expert_bytes(const struct model *m, uint32_t layer)
{
	if (!model_hold_store(&m->stored))
		return 0;
	uint64_t bytes = m->stored.plan.record[m->stored.plan.routed_of[layer]].bytes;
	model_release_store(&m->stored);
	return bytes;
}

static uint64_t model_later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void model_expert_inspect(const struct model *m, uint32_t layer, uint32_t expert,
			  struct model_expert *out)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->loaded.looking; /* nothing is changed */
	struct pager_expert here = {0};
	struct cuda_expert there = {0};
	pthread_rwlock_rdlock(looking);
	uint32_t routed = m->loaded.experts ? m->stored.plan.routed_of[layer] : 0;
	if (m->loaded.experts)
		pager_inspect(m->loaded.experts, routed, expert, &here);
	if (m->loaded.shown_card)
		cuda_experts_look_at(m->loaded.shown_card, routed, expert, &there);
	bool on_gpu = there.bytes && !m->loaded.no_card.code;
	pthread_rwlock_unlock(looking);
	*out = (struct model_expert){
		.resident = here.resident,
		.pinned = model_pins_pinned(&m->pins, layer, expert, PIN_SET),
		.on_gpu = on_gpu,
		.gpu_pinned = model_pins_pinned(&m->pins, layer, expert, PIN_GPU),
		.bytes = here.bytes,
		.gpu_bytes = on_gpu ? there.bytes : 0,
		.hits = here.hits + there.uses,
		.misses = here.misses,
		.last_token = model_later(here.last_token, there.last_token),
		.last_used = model_later(here.last_used, there.last_used),
	};
}

void model_gpu_inspect(const struct model *m, struct model_gpu *out)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->loaded.looking; /* nothing is changed */
	struct cuda_experts_state now = {0};
	pthread_rwlock_rdlock(looking);
	if (m->loaded.shown_card)
		cuda_experts_look(m->loaded.shown_card, &now);
	bool works = !m->loaded.no_card.code;
	*out = (struct model_gpu){.experts = works ? now.held : 0,
				  .bytes = works ? now.held_bytes : 0,
				  .hits = m->loaded.gpu_hits_before + now.hits};
	pthread_rwlock_unlock(looking);
}

void model_layer_inspect(const struct model *m, uint32_t layer, struct model_layer *out)
{
	*out = (struct model_layer){.experts = model_experts(m, layer)};
	for (uint32_t i = 0; i < out->experts; i++) {
		struct model_expert x;
		model_expert_inspect(m, layer, i, &x);
		out->resident += x.resident;
		out->pinned += x.pinned;
		out->on_gpu += x.on_gpu;
		out->bytes += x.bytes;
		out->gpu_bytes += x.gpu_bytes;
		out->hits += x.hits;
		out->misses += x.misses;
		out->last_used = x.last_used > out->last_used ? x.last_used : out->last_used;
	}
}

/* The store is held. */
static int64_t model_read_expert(const struct model *m, uint32_t layer, uint32_t expert,
				 uint64_t offset, void *buffer, size_t bytes, struct err *e)
{
	uint64_t size = m->stored.plan.record[m->stored.plan.routed_of[layer]].bytes;
	if (offset >= size)
		return 0;
	uint64_t rest = size - offset;
	size_t want = rest < bytes ? (size_t)rest : bytes;
	struct err cause;
	int failed = store_read_expert(m->stored.store, m->stored.plan.routed_of[layer], expert,
				       offset, buffer, want, &cause);
	if (failed)
		return err_set(e, -failed, "expert %u/%u cannot be read: %s", layer, expert,
			       cause.text);
	return (int64_t)want;
}

int64_t model_expert_read(const struct model *m, uint32_t layer, uint32_t expert, uint64_t offset,
			  void *buffer, size_t bytes, struct err *e)
{
	if (!model_hold_store(&m->stored))
		return 0;
	int64_t n = model_read_expert(m, layer, expert, offset, buffer, bytes, e);
	model_release_store(&m->stored);
	return n;
}

void model_warming(const struct model *m, uint32_t *done, uint32_t *total)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->loaded.looking; /* nothing is changed */
	*done = *total = 0;
	pthread_rwlock_rdlock(looking);
	if (model_state(m) == MODEL_READY && m->loaded.experts)
		pager_warming(m->loaded.experts, done, total);
	pthread_rwlock_unlock(looking);
}

/* ---- the trace ---- */

int model_trace_open(struct trace_reader **out, struct model *m, const uint32_t *owner,
		     void (*told)(void *ctx), void *ctx, struct err *e)
{
	return trace_reader_open(out, &m->run->tracing.ring, owner, told, ctx, e);
}

void model_trace_close(struct trace_reader *t)
{
	trace_reader_close(t);
}

size_t model_trace_read(struct trace_reader *t, char *buffer, size_t bytes)
{
	return trace_reader_read(t, buffer, bytes);
}

bool model_trace_has_lines(const struct trace_reader *t)
{
	return trace_reader_has_lines(t);
}
