/* What every part of a conversion does: units one by one, progress, publishing, letting go of the
 * writer. convert.c begins and ends one, convert_rest.c makes the experts of a model that answers
 * already. */
#include "engine/convert/converter.h"
#include "engine/convert/store_checkpoint.h"

#include "cache/clock.h"

#include <errno.h>

/* ---- progress ---- */

static uint64_t source_bytes(const struct converter *c, struct tensor_id id)
{
	struct source from;
	return sources_find(&c->sources, id, &from, NULL) ? 0 : from.rows * from.row_bytes;
}

static uint64_t expert_source_bytes(const struct converter *c, uint32_t unit)
{
	const struct plan *p = c->plan;
	uint64_t bytes = 0;
	for (uint32_t part = 0; part < EXPERT_PARTS; part++)
		bytes += source_bytes(c, (struct tensor_id){plan_part_role(part),
							    p->layer_of[unit / p->experts],
							    unit % p->experts});
	return bytes;
}

void converter_begin_progress(struct converter *c)
{
	const struct plan *p = c->plan;
	struct convert_progress *g = c->v.progress;
	uint64_t total = 0;
	for (uint32_t i = 0; i < p->dense_count; i++)
		total += source_bytes(c, p->dense[i].id);
	for (uint32_t unit = 0; unit < c->records; unit++)
		total += expert_source_bytes(c, unit);
	atomic_store(&g->started_ns, clock_ns());
	atomic_store(&g->done, 0);
	atomic_store(&g->stopped, false);
	atomic_store(&g->total, total);
}

void converter_count_chunk(struct converter *c, const struct plan_tensor *t, uint32_t chunk)
{
	uint64_t bytes = source_bytes(c, t->id) / t->shape.rows * plan_chunk_rows(t, chunk);
	atomic_fetch_add(&c->v.progress->done, bytes);
}

void converter_count(struct converter *c, uint32_t unit)
{
	if (!atomic_exchange(&c->in[unit], true))
		atomic_fetch_add(&c->v.progress->done, expert_source_bytes(c, unit));
}

/* ---- units ---- */

void converter_use(struct converter *c)
{
	pthread_mutex_lock(&c->lock);
	c->users++;
	pthread_mutex_unlock(&c->lock);
}

void converter_end_use(struct converter *c)
{
	c->users--;
	pthread_cond_broadcast(&c->changed);
}

void converter_wait_for_users(struct converter *c)
{
	while (c->users > 0)
		pthread_cond_wait(&c->changed, &c->lock);
}

void converter_committed(void *ctx, uint32_t unit, int failed, const struct err *e)
{
	struct converter *c = ctx;
	pthread_mutex_lock(&c->lock);
	if (!failed && unit < c->records)
		converter_count(c, unit);
	c->note(c, unit, failed, e);
	converter_end_use(c);
	pthread_mutex_unlock(&c->lock);
}

void converter_leave(struct converter *c, struct store_put *put, uint32_t unit, const void *data,
		     size_t bytes)
{
	struct err e = {0};
	converter_use(c);
	int failed = store_put_bytes(put, data, bytes, &e);
	if (failed)
		store_put_abandon(put);
	else
		failed = store_put_defer(put, &e);
	if (failed)
		converter_committed(c, unit, failed, &e);
}

void converter_leave_expert(struct converter *c, struct store_put *put, uint32_t unit,
			    const void *record)
{
	const struct plan *p = c->plan;
	converter_leave(c, put, unit, record, p->record[unit / p->experts].bytes);
}

int converter_make_expert(struct converter *c, struct encoder *x, uint32_t unit, void *record,
			  struct store_put **put, struct err *e)
{
	const struct plan *p = c->plan;
	/* Begun before the work, so that nobody else does it, too. */
	int failed = store_put_begin(c->writer, unit, put, e);
	if (failed)
		return failed;
	failed = encode_expert(x, unit / p->experts, unit % p->experts, record, e);
	if (failed)
		store_put_abandon(*put);
	return failed;
}

/* ---- the writer's end ---- */

int converter_publish(struct converter *c, struct err *e)
{
	pthread_mutex_lock(&c->lock);
	converter_wait_for_users(c);
	if (c->writer)
		c->complete = c->writer;
	c->writer = NULL;
	pthread_mutex_unlock(&c->lock);
	int failed = witness_finish(c->v.witness, e);
	if (failed)
		return failed;
	/* Whoever wants the checkpoint's space back need not unmount for it. */
	sources_close(&c->sources);
	/* The store serves without what makes it a checkpoint, too. */
	struct err none;
	(void)store_make_checkpoint(c->v.folder, c->v.directory, c->v.config, c->plan, &none);
	failed = store_writer_publish(c->complete, e);
	if (failed)
		return failed;
	witness_publish(c->v.witness);
	store_writer_close(c->complete, true);
	c->complete = NULL;
	return 0;
}

void converter_close_writer(struct converter *c, struct store_writer *w, bool keep)
{
	witness_close(c->v.witness, keep); /* while the store's lock is held */
	store_writer_close(w, keep);
}

void converter_let_go(struct converter *c, struct store_writer *w)
{
	converter_close_writer(c, w, !c->differently);
}
