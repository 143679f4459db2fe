/* The experts of a model that answers already: on demand, and the rest behind its back. Nobody
 * waits for a disk: what is made is left to the store's writer, which says what came of it. */
#include "cache/clock.h"
#include "engine/convert/converter.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Somebody waits for an expert that a thread of low priority has begun. On a busy machine that
 * thread may not run for long: beyond this, making it a second time is faster. */
enum { PATIENCE_MS = 100 };
/* After a write that failed: until there may be space again. Making one on demand tries at once,
 * and so does publishing when a turn has ended. */
static const uint64_t retry_after_ns = UINT64_C(60) * 1000000000;
/* Others get ten times as much of a core that both want. SCHED_IDLE would leave the rest 3 of 1000,
 * and an expert or a group of commits begun just before a prompt would hold that up for seconds; as
 * the disk is what they compete for, it was no better beside a turn either (from ready to the first
 * token 2.8 s with SCHED_IDLE, 2.7 s so, 1.8 s with the rest at rest): see convert_rest_let. */
enum { NICE = 10 };

struct idle_encoder {
	struct idle_encoder *next;
	struct encoder *encoder;
};

struct rest_thread {
	struct converter *converter;
	struct encoder *encoder;
	void *record;
	pthread_t thread;
};

/* ---- what went wrong ---- */

/* The lock is held, and released for a report. What is reported last is what came last: that a
 * write failed is not overtaken by that one before it had not. */
static void report(struct converter *c, enum convert_event event, const struct err *e)
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

/* The lock is held. True if the failure ends this conversion, of which the first is reported. */
static bool ends_conversion(struct converter *c, int failed, const struct err *e)
{
	if (failed != -ERANGE && failed != -ESTALE &&
	    !(failed && c->writer && store_writer_failed(c->writer)))
		return false;
	if (!c->over) {
		c->over = true;
		c->differently = failed == -ERANGE;
		atomic_store(&c->v.progress->stopped, true);
		report(c, CONVERT_AGAIN, e);
		c->over_said = true;
		pthread_cond_broadcast(&c->changed);
	}
	/* Or a turn that fails here could end, and the next one begin, before the model has heard
	 * that it must begin anew. */
	while (!c->over_said)
		pthread_cond_wait(&c->changed, &c->lock);
	return true;
}

/* The lock is held. A write succeeded after one that had not. */
static void end_trouble(struct converter *c)
{
	if (!c->retry_ns)
		return;
	c->retry_ns = 0;
	atomic_store(&c->v.progress->stopped, false);
	pthread_cond_broadcast(&c->changed);
	if (!c->damaged_count)
		report(c, CONVERT_TROUBLE, &(struct err){0});
}

void convert_rest_note(struct converter *c, uint32_t unit, int failed, const struct err *e)
{
	if (!failed) {
		end_trouble(c);
		return;
	}
	if (failed == -EEXIST) {
		if (store_writer_has(c->writer, unit)) /* else it is on its way */
			converter_count(c, unit);
		return;
	}
	/* Found while nobody asks anything, a new beginning disturbs nobody. */
	while (failed == -ERANGE && !c->let && !c->quit)
		pthread_cond_wait(&c->changed, &c->lock);
	if (c->quit || ends_conversion(c, failed, e))
		return;
	if (failed == -EINVAL) {
		c->damaged[unit] = true;
		c->damaged_count++;
	} else {
		c->retry_ns = clock_ns() + retry_after_ns;
		c->next = 0;
		atomic_store(&c->v.progress->stopped, true);
	}
	report(c, CONVERT_TROUBLE, e);
}

/* ---- on demand ---- */

static int take_encoder(struct converter *c, struct idle_encoder **out, struct err *e)
{
	pthread_mutex_lock(&c->lock);
	struct idle_encoder *i = c->idle;
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

static void return_encoder(struct converter *c, struct idle_encoder *i)
{
	pthread_mutex_lock(&c->lock);
	i->next = c->idle;
	c->idle = i;
	pthread_mutex_unlock(&c->lock);
}

static int make(struct converter *c, struct encoder *x, uint32_t unit, void *record,
		struct store_put **put, struct err *e)
{
	const struct plan *p = c->plan;
	uint32_t layer = unit / p->experts, expert = unit % p->experts;
	for (;;) {
		int failed = converter_make_expert(c, x, unit, record, put, e);
		if (failed)
			*put = NULL;
		if (failed != -EEXIST)
			return failed;
		if (!store_writer_wait(c->writer, unit, PATIENCE_MS))
			return encode_expert(x, layer, expert, record, e); /* it will be put */
		if (!store_writer_has(c->writer, unit))
			continue; /* whoever had begun it gave up */
		converter_count(c, unit);
		return store_read_record(c->view, layer, expert, record, p->record[layer].bytes, e);
	}
}

int convert_make_expert(struct converter *c, uint32_t routed_layer, uint32_t expert, void *record,
			struct store_put **put, struct err *e)
{
	struct idle_encoder *i;
	*put = NULL;
	pthread_mutex_lock(&c->lock);
	bool writing = c->writer;
	c->users += writing;
	pthread_mutex_unlock(&c->lock);
	if (!writing && store_has_expert(c->view, routed_layer, expert)) /* meanwhile */
		return store_read_record(c->view, routed_layer, expert, record,
					 c->plan->record[routed_layer].bytes, e);
	struct err own = {0};
	int failed = take_encoder(c, &i, &own);
	if (!failed) {
		/* What is given up is never written: it is damaged, and says so again. */
		uint32_t unit = routed_layer * c->plan->experts + expert;
		failed = writing ? make(c, i->encoder, unit, record, put, &own)
				 : encode_expert(i->encoder, routed_layer, expert, record, &own);
		return_encoder(c, i);
	}
	if (writing && !*put) {
		pthread_mutex_lock(&c->lock);
		(void)ends_conversion(c, failed, &own);
		converter_end_use(c);
		pthread_mutex_unlock(&c->lock);
	}
	if (failed)
		*e = own;
	return failed;
}

void convert_keep_expert(struct converter *c, uint32_t routed_layer, uint32_t expert,
			 const void *record, struct store_put *put)
{
	converter_leave_expert(c, put, routed_layer * c->plan->experts + expert, record);
	pthread_mutex_lock(&c->lock);
	converter_end_use(c);
	pthread_mutex_unlock(&c->lock);
}

/* ---- the rest ---- */

/* The next unit that is neither in nor damaged, from c->next on. */
static bool find_unit(struct converter *c, uint32_t *unit)
{
	while (c->next < c->records && (atomic_load(&c->in[c->next]) || c->damaged[c->next]))
		c->next++;
	*unit = c->next;
	return c->next < c->records && ++c->next;
}

static void wait_for_change(struct converter *c)
{
	if (!c->let || clock_ns() >= c->retry_ns) {
		pthread_cond_wait(&c->changed, &c->lock);
		return;
	}
	struct timespec until = {.tv_sec = (time_t)(c->retry_ns / 1000000000),
				 .tv_nsec = (long)(c->retry_ns % 1000000000)};
	pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &until);
}

/* The lock is held, released while waiting. False: there is nothing to do any more. What others
 * have in work may fail, so nobody leaves before they are through. */
static bool next_unit(struct converter *c, uint32_t *unit)
{
	while (!c->quit && !c->over && !c->finished) {
		if (!c->let || clock_ns() < c->retry_ns) {
			wait_for_change(c);
			continue;
		}
		if (find_unit(c, unit))
			return true;
		if (c->users) {
			wait_for_change(c);
			continue;
		}
		c->next = 0;
		if (find_unit(c, unit))
			return true;
		c->finished = true;
		atomic_store(&c->v.progress->stopped, c->damaged_count > 0);
	}
	return false;
}

/* The lock is held, and released meanwhile. Whether to try to publish again, when it is time. */
static bool wait_to_publish(struct converter *c)
{
	while (!c->quit && (!c->let || clock_ns() < c->retry_ns))
		wait_for_change(c);
	return !c->quit;
}

/* The lock is held, and released meanwhile. */
static bool publish(struct converter *c)
{
	struct err e = {0};
	pthread_mutex_unlock(&c->lock);
	bool published = !converter_publish(c, &e);
	pthread_mutex_lock(&c->lock);
	c->retry_ns = clock_ns() + retry_after_ns;
	c->over = !published && e.code == ESTALE;
	atomic_store(&c->v.progress->stopped, !published);
	report(c,
	       published ? CONVERT_COMPLETE
	       : c->over ? CONVERT_AGAIN
			 : CONVERT_TROUBLE,
	       published ? &(struct err){0} : &e);
	c->over_said = c->over;
	return published;
}

/* The lock is held, by the thread that found that nothing is left. */
static void finish(struct converter *c)
{
	bool published = publish(c);
	while (!published && !c->over && !store_writer_failed(c->complete) && wait_to_publish(c))
		published = publish(c);
	if (published) /* last: who sees that nothing is converted any more finds the store */
		atomic_store(&c->v.progress->total, 0);
}

/* The lock is held, and released meanwhile. A conversion that will never publish does not keep
 * another process from trying: that one goes on with what is there. The view stays as it is. */
static void give_up(struct converter *c)
{
	converter_wait_for_users(c);
	struct store_writer *w = c->writer ? c->writer : c->complete;
	c->writer = c->complete = NULL;
	pthread_mutex_unlock(
		&c->lock); /* the disk may hang, and who has to wait for it waits here */
	converter_let_go(c, w);
	pthread_mutex_lock(&c->lock);
}

/* The lock is held: whether this thread, the last of the rest, leaves what cannot be ended. */
static bool is_stuck(const struct converter *c)
{
	if (c->quit || c->rest_left || (!c->writer && !c->complete))
		return false;
	return c->over || (c->finished && c->damaged_count) ||
	       (c->complete && store_writer_failed(c->complete));
}

static void *rest_main(void *arg)
{
	struct rest_thread *t = arg;
	struct converter *c = t->converter;
	uint32_t unit;
	(void)setpriority(PRIO_PROCESS, 0, NICE); /* of this thread; a wish */
	pthread_mutex_lock(&c->lock);
	while (next_unit(c, &unit)) {
		struct store_put *put;
		struct err e = {0};
		c->users++;
		pthread_mutex_unlock(&c->lock);
		int failed = converter_make_expert(c, t->encoder, unit, t->record, &put, &e);
		if (!failed)
			converter_leave_expert(c, put, unit, t->record);
		pthread_mutex_lock(&c->lock);
		if (failed)
			convert_rest_note(c, unit, failed, &e);
		converter_end_use(c);
	}
	if (c->finished && !c->quit && c->writer && !c->damaged_count && !c->publishing) {
		c->publishing = true;
		finish(c);
	}
	c->rest_left--;
	if (is_stuck(c))
		give_up(c);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int convert_rest_start(struct converter *c, struct err *e)
{
	c->rest = calloc(c->v.threads, sizeof *c->rest);
	int failed = c->rest ? 0 : -ENOMEM;
	pthread_mutex_lock(&c->lock); /* so that none is the last before all are there */
	while (!failed && c->rest_count < c->v.threads) {
		struct rest_thread *t = &c->rest[c->rest_count];
		t->converter = c;
		t->record = malloc(c->plan->record_bytes);
		failed = t->record ? encoder_create(&t->encoder, c->plan, &c->sources, c->v.kernels,
						    e)
				   : -ENOMEM;
		if (!failed)
			failed = -pthread_create(&t->thread, NULL, rest_main, t);
		if (failed) {
			encoder_free(t->encoder);
			free(t->record);
			break;
		}
		c->rest_left = ++c->rest_count;
	}
	pthread_mutex_unlock(&c->lock);
	if (c->rest_count > 0) /* fewer do */
		return 0;
	return err_sys(e, -failed, "cannot start a thread for converting the checkpoint");
}

void convert_rest_let(struct converter *c, bool work)
{
	pthread_mutex_lock(&c->lock);
	if (work && !c->let && c->publishing)
		c->retry_ns = 0; /* a turn has ended */
	c->let = work;
	if (work)
		pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

void converter_rest_end(struct converter *c)
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
		struct idle_encoder *i = c->idle;
		c->idle = i->next;
		encoder_free(i->encoder);
		free(i);
	}
}
