/* Looking at a model (model.h): how far it is, its sizes, its experts and its complete store.
 * Nothing is loaded by looking, and nobody waits for a step. */
#include "cache/clock.h"
#include "engine/serve/internal.h"
#include "engine/serve/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* No published vocabulary has tokens that average more than this on real text. */
enum { BYTES_PER_TOKEN = 16, LEAST_PROMPT_BYTES = 64 << 10, MOST_PROMPT_BYTES = 64 << 20 };

enum model_state model_state(const struct model *m)
{
	return (enum model_state)atomic_load(&m->schedule.state);
}

bool model_working(const struct model *m)
{
	struct model *writable = (struct model *)m; /* to lock it; nothing is changed */
	pthread_mutex_lock(&writable->schedule.lock);
	bool working = schedule_works(&m->schedule);
	pthread_mutex_unlock(&writable->schedule.lock);
	return working;
}

static void copy_error(const struct model *m, const struct err *from, struct err *to)
{
	struct model *writable = (struct model *)m; /* to lock it; nothing is changed */
	pthread_mutex_lock(&writable->schedule.lock);
	*to = *from;
	pthread_mutex_unlock(&writable->schedule.lock);
}

void model_failure(const struct model *m, struct err *e)
{
	copy_error(m, &m->schedule.load_error, e);
}

void model_refining_failure(const struct model *m, struct err *e)
{
	copy_error(m, &m->refining.failure, e);
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
static void refining(const struct model *m, struct model_progress *out)
{
	const struct refining *r = &m->refining;
	uint64_t total = atomic_load(&r->progress.total);
	char why[sizeof((struct err *)0)->text];
	if (!total) {
		model_refining_error(m, why, sizeof why);
		if (*why)
			out->doing = "refining stopped";
		return;
	}
	*out = (struct model_progress){
		.doing = atomic_load(&r->gathering) ? "gathering" : "refining",
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
		refining(m, out);
}

const char *model_name(const struct model *m)
{
	return m->id.name;
}

uint64_t model_max_prompt_bytes(const struct model *m)
{
	uint64_t bytes = (uint64_t)m->id.context * BYTES_PER_TOKEN;
	if (bytes < LEAST_PROMPT_BYTES)
		return LEAST_PROMPT_BYTES;
	return bytes < MOST_PROMPT_BYTES ? bytes : MOST_PROMPT_BYTES;
}

/* ---- the complete store, and experts ---- */

uint32_t model_layers(const struct model *m)
{
	return m->id.config.layers;
}

uint32_t model_experts(const struct model *m, uint32_t layer)
{
	return config_routed(&m->id.config, layer) ? m->id.config.experts : 0;
}

uint64_t model_expert_bytes(const struct model *m, uint32_t layer)
{
	if (!model_hold_store(&m->stored))
		return 0;
	uint64_t bytes = m->stored.plan.record[m->stored.plan.routed_of[layer]].bytes;
	model_release_store(&m->stored);
	return bytes;
}

void model_expert_inspect(const struct model *m, uint32_t layer, uint32_t expert,
			  struct pager_expert *out)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->run.looking; /* nothing is changed */
	*out = (struct pager_expert){0};
	pthread_rwlock_rdlock(looking);
	if (m->run.experts)
		pager_inspect(m->run.experts, m->stored.plan.routed_of[layer], expert, out);
	pthread_rwlock_unlock(looking);
	out->pinned = wishes_pinned(&m->wishes, layer, expert);
}

void model_layer_inspect(const struct model *m, uint32_t layer, struct model_layer *out)
{
	*out = (struct model_layer){.experts = model_experts(m, layer)};
	for (uint32_t i = 0; i < out->experts; i++) {
		struct pager_expert x;
		model_expert_inspect(m, layer, i, &x);
		out->resident += x.resident;
		out->pinned += x.pinned;
		out->bytes += x.bytes;
		out->hits += x.hits;
		out->misses += x.misses;
		out->last_used = x.last_used > out->last_used ? x.last_used : out->last_used;
	}
}

/* The store is held. */
static int64_t read_expert(const struct model *m, uint32_t layer, uint32_t expert, uint64_t offset,
			   void *buffer, size_t bytes, struct err *e)
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
	int64_t n = read_expert(m, layer, expert, offset, buffer, bytes, e);
	model_release_store(&m->stored);
	return n;
}

void model_cache_stats(const struct model *m, struct pager_stats *out)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->run.looking; /* nothing is changed */
	pthread_rwlock_rdlock(looking);
	if (m->run.experts) {
		pager_source_stats(m->run.experts, out);
	} else {
		pager_stats(m->engine->pager, out);
		*out = (struct pager_stats){.budget = out->budget, .peak = out->peak};
	}
	const struct pager_stats *before = &m->run.experts_before;
	out->hits += before->hits;
	out->misses += before->misses;
	out->evictions += before->evictions;
	out->bytes_read += before->bytes_read;
	out->wait_ns += before->wait_ns;
	pthread_rwlock_unlock(looking);
}

void model_warming(const struct model *m, uint32_t *done, uint32_t *total)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->run.looking; /* nothing is changed */
	*done = *total = 0;
	pthread_rwlock_rdlock(looking);
	if (model_state(m) == MODEL_READY && m->run.experts)
		pager_warming(m->run.experts, done, total);
	pthread_rwlock_unlock(looking);
}
