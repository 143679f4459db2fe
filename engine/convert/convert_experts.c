/* The experts of a growing store: units and progress, experts on demand, background threads for the
 * rest, publishing. No thread waits for the store's disk: units go to the store's writer, which
 * reports each unit's result. */
#include "cache/clock.h"
#include "engine/convert/convert_inside.h"
#include "engine/convert/store_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* How long a turn waits for an expert that a low-priority thread is making. On a busy machine that
 * thread may not run for a while; after this time it is faster to make the expert again. */
enum { PATIENCE_MS = 100 };
/* The pause after a failed write, until there may be space again. An expert on demand, and
 * publishing after a turn, try without this pause. */
static const uint64_t retry_after_ns = UINT64_C(60) * 1000000000;
/* With this nice value, other threads get ten times the share of a core. With SCHED_IDLE the
 * background threads would get 3 of 1000, and an expert or a group of commits begun just before a
 * prompt would delay the prompt for seconds. SCHED_IDLE did not help during a turn either, since
 * the threads compete for the disk (from ready to the first token: 2.8 s with SCHED_IDLE, 2.7 s
 * with nice, 1.8 s with the threads paused). See convert_rest_allow. */
enum { NICE = 10 };

struct convert_idle_encoder {
	struct convert_idle_encoder *next;
	struct encoder *encoder;
};

struct convert_rest_thread {
	struct converter *converter;
	struct encoder *encoder;
	void *record;
	pthread_t thread;
};

/* ---- progress ---- */

static uint64_t convert_source_bytes(const struct converter *c, struct tensor_id id)
{
	struct source from;
	return sources_find(&c->sources, id, &from, NULL) ? 0 : from.rows * from.row_bytes;
}

static uint64_t convert_expert_bytes(const struct converter *c, uint32_t unit)
{
	uint64_t bytes = 0;
	for (uint32_t part = c->plan->first_part; part < EXPERT_PARTS; part++)
		bytes += convert_source_bytes(c, plan_part_id(c->plan, unit, part));
	return bytes;
}

void convert_begin_progress(struct converter *c)
{
	struct convert_progress *g = c->v.progress;
	uint64_t total = 0;
	for (uint32_t i = 0; i < c->plan->dense_count; i++)
		total += convert_source_bytes(c, c->plan->dense[i].id);
	for (uint32_t unit = 0; unit < c->records; unit++)
		total += convert_expert_bytes(c, unit);
	atomic_store(&g->started_ns, clock_ns());
	atomic_store(&g->done, 0);
	atomic_store(&g->stopped, false);
	atomic_store(&g->total, total);
}

void convert_count_chunk(struct converter *c, const struct plan_tensor *t, uint32_t chunk)
{
	uint64_t bytes = convert_source_bytes(c, t->id) / t->shape.rows * plan_chunk_rows(t, chunk);
	atomic_fetch_add(&c->v.progress->done, bytes);
}

void convert_count_expert(struct converter *c, uint32_t unit)
{
	if (!atomic_exchange(&c->in[unit], true))
		atomic_fetch_add(&c->v.progress->done, convert_expert_bytes(c, unit));
}

/* ---- units ---- */

/* The lock is held. */
static void convert_end_use(struct converter *c)
{
	c->users--;
	pthread_cond_broadcast(&c->changed);
}

void convert_wait_for_users(struct converter *c)
{
	while (c->users > 0)
		pthread_cond_wait(&c->changed, &c->lock);
}

void convert_committed(void *ctx, uint32_t unit, int failed, const struct err *e)
{
	struct converter *c = ctx;
	pthread_mutex_lock(&c->lock);
	if (!failed && unit < c->records)
		convert_count_expert(c, unit);
	c->note(c, unit, failed, e);
	convert_end_use(c);
	pthread_mutex_unlock(&c->lock);
}

void convert_put_unit(struct converter *c, struct store_put *put, uint32_t unit, const void *data,
		      size_t bytes)
{
	struct err e = {0};
	pthread_mutex_lock(&c->lock);
	c->users++;
	pthread_mutex_unlock(&c->lock);
	int failed = store_put_bytes(put, data, bytes, &e);
	if (failed)
		store_put_abandon(put);
	else
		failed = store_put_defer(put, &e);
	if (failed)
		convert_committed(c, unit, failed, &e);
}

void convert_put_expert(struct converter *c, struct store_put *put, uint32_t unit,
			const void *record)
{
	convert_put_unit(c, put, unit, record, c->plan->record[unit / c->plan->experts].bytes);
}

int convert_begin_expert(struct converter *c, struct encoder *x, uint32_t unit, void *record,
			 struct store_put **put, struct err *e)
{
	const struct plan *p = c->plan;
	/* The unit is begun before the work, so that no other thread does the same work. */
	int failed = store_put_begin(c->writer, unit, put, e);
	if (failed)
		return failed;
	failed = encoder_expert(x, unit / p->experts, unit % p->experts, record, e);
	if (failed)
		store_put_abandon(*put);
	return failed;
}

/* ---- publishing ---- */

int convert_publish(struct converter *c, struct err *e)
{
	pthread_mutex_lock(&c->lock);
	convert_wait_for_users(c);
	if (c->writer)
		c->complete = c->writer;
	c->writer = NULL;
	pthread_mutex_unlock(&c->lock);
	int failed = witness_finish(c->v.witness, e);
	if (failed)
		return failed;
	/* Closes the source, so that deleting the checkpoint frees its disk space without
	 * unmounting. */
	sources_close(&c->sources);
	/* The store works without the files that make it a checkpoint, so an error here is ignored.
	 */
	struct err ignored;
	(void)store_make_checkpoint(c->v.folder, c->v.directory, c->v.config, c->plan, &ignored);
	failed = store_writer_publish(c->complete, e);
	if (failed)
		return failed;
	witness_publish(c->v.witness);
	store_writer_close(c->complete, true);
	c->complete = NULL;
	return 0;
}

void convert_close_writer(struct converter *c, struct store_writer *w, bool keep)
{
	witness_close(c->v.witness, keep); /* with the store's lock held */
	store_writer_close(w, keep);
}

/* ---- failures ---- */

/* The lock is held, and released during a report. Reports are in the order of events: a failed
 * write is reported after an earlier success. */
static void convert_report(struct converter *c, enum convert_event event, const struct err *e)
{
	uint32_t turn = c->reports++;
	while (c->reported != turn)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	c->v.report(c->v.ctx, event, e);
	pthread_mutex_lock(&c->lock);
	c->reported++;
	pthread_cond_broadcast(&c->changed);
}

/* The lock is held. Whether a failure ends the conversion; reports the first such failure. */
static bool convert_ends_by(struct converter *c, int failed, const struct err *e)
{
	if (failed != -ERANGE && failed != -ESTALE &&
	    !(failed && c->writer && store_writer_failed(c->writer)))
		return false;
	if (!c->over) {
		c->over = true;
		c->differently = failed == -ERANGE;
		atomic_store(&c->v.progress->stopped, true);
		convert_report(c, CONVERT_AGAIN, e);
		c->over_reported = true;
		pthread_cond_broadcast(&c->changed);
	}
	/* Waits for the report. Otherwise this turn could fail and the next one start before the
	 * model knows that the conversion must restart. */
	while (!c->over_reported)
		pthread_cond_wait(&c->changed, &c->lock);
	return true;
}

void convert_rest_note(struct converter *c, uint32_t unit, int failed, const struct err *e)
{
	if (!failed && c->retry_ns) { /* the first success after a failed write */
		c->retry_ns = 0;
		atomic_store(&c->v.progress->stopped, false);
		pthread_cond_broadcast(&c->changed);
		if (!c->damaged_count)
			convert_report(c, CONVERT_TROUBLE, &(struct err){0});
	}
	if (failed == -EEXIST && store_writer_has(c->writer, unit)) /* else it is being written */
		convert_count_expert(c, unit);
	if (!failed || failed == -EEXIST)
		return;
	/* Waits until no turn runs, so that restarting the conversion disturbs no turn. */
	while (failed == -ERANGE && !c->allowed && !c->quit)
		pthread_cond_wait(&c->changed, &c->lock);
	if (c->quit || convert_ends_by(c, failed, e))
		return;
	if (failed == -EINVAL) {
		c->damaged[unit] = true;
		c->damaged_count++;
	} else {
		c->retry_ns = clock_ns() + retry_after_ns;
		c->next = 0;
		atomic_store(&c->v.progress->stopped, true);
	}
	convert_report(c, CONVERT_TROUBLE, e);
}

/* ---- on demand ---- */

static int convert_take_encoder(struct converter *c, struct convert_idle_encoder **out,
				struct err *e)
{
	pthread_mutex_lock(&c->lock);
	struct convert_idle_encoder *i = c->idle;
	if (i)
		c->idle = i->next;
	pthread_mutex_unlock(&c->lock);
	*out = i;
	if (i)
		return 0;
	i = calloc(1, sizeof *i);
	if (!i)
		return err_set(e, ENOMEM, "out of memory for converting an expert");
	int failed = encoder_create(&i->encoder, c->plan, &c->sources, c->v.kernels, e);
	if (failed)
		free(i);
	else
		*out = i;
	return failed;
}

static void convert_return_encoder(struct converter *c, struct convert_idle_encoder *i)
{
	pthread_mutex_lock(&c->lock);
	i->next = c->idle;
	c->idle = i;
	pthread_mutex_unlock(&c->lock);
}

/* Makes an expert; or, if another thread is making it, waits and reads it. *put: not NULL if the
 * expert was made here and must be written. */
static int convert_make_or_wait(struct converter *c, struct encoder *x, uint32_t unit, void *record,
				struct store_put **put, struct err *e)
{
	const struct plan *p = c->plan;
	uint32_t layer = unit / p->experts, expert = unit % p->experts;
	for (;;) {
		int failed = convert_begin_expert(c, x, unit, record, put, e);
		if (failed)
			*put = NULL;
		if (failed != -EEXIST)
			return failed;
		if (!store_writer_wait(c->writer, unit, PATIENCE_MS))
			return encoder_expert(x, layer, expert, record, e); /* without writing */
		if (!store_writer_has(c->writer, unit))
			continue; /* the other thread gave up */
		convert_count_expert(c, unit);
		return store_read_record(c->view, layer, expert, record, p->record[layer].bytes, e);
	}
}

int convert_make_expert(struct converter *c, uint32_t routed_layer, uint32_t expert, void *record,
			struct store_put **put, struct err *e)
{
	struct convert_idle_encoder *i;
	*put = NULL;
	pthread_mutex_lock(&c->lock);
	bool writing = c->writer;
	c->users += writing;
	pthread_mutex_unlock(&c->lock);
	if (!writing && store_has_expert(c->view, routed_layer, expert)) /* meanwhile */
		return store_read_record(c->view, routed_layer, expert, record,
					 c->plan->record[routed_layer].bytes, e);
	struct err own = {0};
	int failed = convert_take_encoder(c, &i, &own);
	if (!failed) {
		/* Without a writer the conversion was given up because of a damaged expert: making
		 * this expert fails again. */
		uint32_t unit = routed_layer * c->plan->experts + expert;
		failed = writing ? convert_make_or_wait(c, i->encoder, unit, record, put, &own)
				 : encoder_expert(i->encoder, routed_layer, expert, record, &own);
		convert_return_encoder(c, i);
	}
	if (writing && !*put) {
		pthread_mutex_lock(&c->lock);
		(void)convert_ends_by(c, failed, &own);
		convert_end_use(c);
		pthread_mutex_unlock(&c->lock);
	}
	if (failed)
		*e = own;
	return failed;
}

void convert_keep_expert(struct converter *c, uint32_t routed_layer, uint32_t expert,
			 const void *record, struct store_put *put)
{
	convert_put_expert(c, put, routed_layer * c->plan->experts + expert, record);
	pthread_mutex_lock(&c->lock);
	convert_end_use(c);
	pthread_mutex_unlock(&c->lock);
}

/* ---- the rest ---- */

/* Finds the next unit from c->next on that is neither in the store nor damaged. */
static bool convert_find_unit(struct converter *c, uint32_t *unit)
{
	while (c->next < c->records && (atomic_load(&c->in[c->next]) || c->damaged[c->next]))
		c->next++;
	*unit = c->next;
	return c->next < c->records && ++c->next;
}

/* Waits for a change, or until c->retry_ns. The lock is held, and released while waiting. */
static void convert_wait_for_change(struct converter *c)
{
	if (!c->allowed || clock_ns() >= c->retry_ns) {
		pthread_cond_wait(&c->changed, &c->lock);
		return;
	}
	struct timespec until = {.tv_sec = (time_t)(c->retry_ns / 1000000000),
				 .tv_nsec = (long)(c->retry_ns % 1000000000)};
	pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &until);
}

static bool convert_rest_may_work(const struct converter *c)
{
	return c->allowed && clock_ns() >= c->retry_ns;
}

/* Waits for the next unit. False: nothing is left to do. No thread ends while others work, since
 * their units may fail. The lock is held, and released while waiting. */
static bool convert_next_unit(struct converter *c, uint32_t *unit)
{
	while (!c->quit && !c->over && !c->finished) {
		if (!convert_rest_may_work(c)) {
			convert_wait_for_change(c);
			continue;
		}
		if (convert_find_unit(c, unit))
			return true;
		if (c->users) {
			convert_wait_for_change(c);
			continue;
		}
		c->next = 0;
		if (convert_find_unit(c, unit))
			return true;
		c->finished = true;
		atomic_store(&c->v.progress->stopped, c->damaged_count > 0);
	}
	return false;
}

/* The lock is held, and released meanwhile. */
static bool convert_try_publish(struct converter *c)
{
	struct err e = {0};
	pthread_mutex_unlock(&c->lock);
	bool published = !convert_publish(c, &e);
	pthread_mutex_lock(&c->lock);
	c->retry_ns = clock_ns() + retry_after_ns;
	c->over = !published && e.code == ESTALE;
	atomic_store(&c->v.progress->stopped, !published);
	if (published)
		convert_report(c, CONVERT_COMPLETE, &(struct err){0});
	else
		convert_report(c, c->over ? CONVERT_AGAIN : CONVERT_TROUBLE, &e);
	c->over_reported = c->over;
	return published;
}

/* Tries to publish until it succeeds, can never succeed, or the thread must end. The lock is held,
 * and released meanwhile. */
static void convert_rest_finish(struct converter *c)
{
	bool published = convert_try_publish(c);
	while (!published && !c->over && !store_writer_failed(c->complete)) {
		while (!c->quit && !convert_rest_may_work(c))
			convert_wait_for_change(c);
		if (c->quit)
			return;
		published = convert_try_publish(c);
	}
	if (published) /* last, since a thread that sees no conversion must find the store */
		atomic_store(&c->v.progress->total, 0);
}

/* The lock is held. Whether this is the last background thread and the store can never be
 * published. */
static bool convert_rest_is_stuck(const struct converter *c)
{
	if (c->quit || c->rest_left || (!c->writer && !c->complete))
		return false;
	return c->over || (c->finished && c->damaged_count) ||
	       (c->complete && store_writer_failed(c->complete));
}

static void *convert_rest_main(void *arg)
{
	struct convert_rest_thread *t = arg;
	struct converter *c = t->converter;
	uint32_t unit;
	(void)setpriority(PRIO_PROCESS, 0, NICE); /* for this thread; failure does not matter */
	pthread_mutex_lock(&c->lock);
	while (convert_next_unit(c, &unit)) {
		struct store_put *put;
		struct err e = {0};
		c->users++;
		pthread_mutex_unlock(&c->lock);
		int failed = convert_begin_expert(c, t->encoder, unit, t->record, &put, &e);
		if (!failed)
			convert_put_expert(c, put, unit, t->record);
		pthread_mutex_lock(&c->lock);
		if (failed)
			convert_rest_note(c, unit, failed, &e);
		convert_end_use(c);
	}
	if (c->finished && !c->quit && c->writer && !c->damaged_count && !c->publishing) {
		c->publishing = true;
		convert_rest_finish(c);
	}
	c->rest_left--;
	if (convert_rest_is_stuck(c)) {
		/* Gives up: another process may resume the conversion. The view stays usable.
		 */
		convert_wait_for_users(c);
		struct store_writer *w = c->writer ? c->writer : c->complete;
		c->writer = c->complete = NULL;
		/* the disk may hang, and other threads need the lock */
		pthread_mutex_unlock(&c->lock);
		convert_close_writer(c, w, !c->differently);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int convert_rest_start(struct converter *c, struct err *e)
{
	c->rest = calloc(c->v.threads, sizeof *c->rest);
	int failed = c->rest ? 0 : -ENOMEM;
	/* so that no thread takes itself for the last before all are started */
	pthread_mutex_lock(&c->lock);
	while (!failed && c->rest_count < c->v.threads) {
		struct convert_rest_thread *t = &c->rest[c->rest_count];
		t->converter = c;
		t->record = malloc(c->plan->record_bytes);
		failed = t->record ? encoder_create(&t->encoder, c->plan, &c->sources, c->v.kernels,
						    e)
				   : -ENOMEM;
		if (!failed)
			failed = -pthread_create(&t->thread, NULL, convert_rest_main, t);
		if (failed) {
			encoder_free(t->encoder);
			free(t->record);
			break;
		}
		c->rest_left = ++c->rest_count;
	}
	pthread_mutex_unlock(&c->lock);
	if (c->rest_count > 0) /* fewer threads are enough */
		return 0;
	return err_sys(e, -failed, "cannot start a thread for converting the checkpoint");
}

void convert_rest_allow(struct converter *c, bool work)
{
	pthread_mutex_lock(&c->lock);
	c->allowed = work;
	if (work)
		pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

void convert_retry_publish(struct converter *c)
{
	pthread_mutex_lock(&c->lock);
	if (c->publishing)
		c->retry_ns = 0;
	pthread_mutex_unlock(&c->lock);
}

void convert_rest_end(struct converter *c)
{
	pthread_mutex_lock(&c->lock);
	c->quit = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	for (uint32_t i = 0; i < c->rest_count; i++) {
		pthread_join(c->rest[i].thread, NULL);
		encoder_free(c->rest[i].encoder);
		free(c->rest[i].record);
	}
	free(c->rest);
	while (c->idle) {
		struct convert_idle_encoder *i = c->idle;
		c->idle = i->next;
		encoder_free(i->encoder);
		free(i);
	}
}
