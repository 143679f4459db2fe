/* Beginning and ending a conversion, and converting with all threads. */
#include "engine/convert/convert_inside.h"
#include "engine/convert/moments.h"
#include "engine/convert/store_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- all threads at once ---- */

/* More threads than compute threads, since some wait for the source's disk. Not for rounding by
 * moments, which takes long and needs much memory per thread. */
enum { WAITING_THREADS = 4 };

/* Does job i. The buffer has room for any chunk and any record. */
typedef int convert_job_fn(struct converter *c, struct encoder *x, void *buffer, uint32_t i,
			   struct err *e);

struct convert_crew { /* shared by the threads of one run */
	struct converter *converter;
	convert_job_fn *job;
	uint32_t jobs;
	_Atomic uint32_t next;
	_Atomic bool failed;
	pthread_mutex_t lock; /* of error; no lock is taken under it */
	struct err error;     /* the first failure */
};

struct convert_crew_thread {
	struct convert_crew *crew;
	struct encoder *encoder;
	void *buffer;
	pthread_t thread;
};

static void convert_crew_fail(struct convert_crew *w, const struct err *e)
{
	pthread_mutex_lock(&w->lock);
	if (!atomic_exchange(&w->failed, true))
		w->error = *e;
	pthread_mutex_unlock(&w->lock);
}

static void convert_crew_note(struct converter *c, uint32_t unit, int failed, const struct err *e)
{
	(void)unit;
	if (failed)
		convert_crew_fail(c->crew, e);
}

/* From now on the results of units go to the crew; NULL: to the background threads. */
static void convert_set_crew(struct converter *c, struct convert_crew *w)
{
	pthread_mutex_lock(&c->lock);
	convert_wait_for_users(c);
	c->crew = w;
	c->note = w ? convert_crew_note : convert_rest_note;
	pthread_mutex_unlock(&c->lock);
}

static void *convert_crew_main(void *arg)
{
	struct convert_crew_thread *t = arg;
	struct convert_crew *w = t->crew;
	uint32_t i;
	while (!atomic_load(&w->failed) && (i = atomic_fetch_add(&w->next, 1)) < w->jobs) {
		struct err e = {0};
		int failed = atomic_load(w->converter->v.stop)
				     ? err_set(&e, ECANCELED, "the conversion was stopped")
				     : w->job(w->converter, t->encoder, t->buffer, i, &e);
		if (failed)
			convert_crew_fail(w, &e);
	}
	return NULL;
}

static void convert_crew_run(struct convert_crew *w, struct convert_crew_thread *threads,
			     uint32_t count)
{
	struct converter *c = w->converter;
	size_t chunk = encoder_chunk_bytes(c->plan);
	size_t bytes = chunk > c->plan->record_bytes ? chunk : c->plan->record_bytes;
	const struct err no_memory = {.code = ENOMEM,
				      .text = "out of memory for converting the checkpoint"};
	uint32_t started = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct err ignored;
		threads[i].crew = w;
		threads[i].buffer = malloc(bytes);
		if (encoder_create(&threads[i].encoder, c->plan, &c->sources, c->v.kernels,
				   &ignored) ||
		    !threads[i].buffer)
			convert_crew_fail(w, &no_memory);
		if (threads[i].encoder)
			encoder_know(threads[i].encoder, c->moments, c->held, c->v.stop);
	}
	while (started + 1 < count && !pthread_create(&threads[started].thread, NULL,
						      convert_crew_main, &threads[started]))
		started++; /* fewer threads are enough */
	convert_crew_main(&threads[count - 1]);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i].thread, NULL);
	for (uint32_t i = 0; i < count; i++) {
		if (threads[i].encoder)
			encoder_judge(threads[i].encoder, &c->verdict);
		encoder_free(threads[i].encoder);
		free(threads[i].buffer);
	}
}

/* Does all jobs. Fails with the first error. */
static int convert_run_jobs(struct converter *c, convert_job_fn *job, uint32_t jobs, struct err *e)
{
	struct convert_crew w = {.converter = c, .job = job, .jobs = jobs};
	uint32_t count = c->v.threads + (c->v.by_layers ? 0 : WAITING_THREADS);
	struct convert_crew_thread *threads = calloc(count, sizeof *threads);
	if (!threads)
		return err_set(e, ENOMEM, "out of memory for converting the checkpoint");
	pthread_mutex_init(&w.lock, NULL);
	convert_set_crew(c, &w);
	convert_crew_run(&w, threads, count);
	convert_set_crew(c, NULL);
	pthread_mutex_destroy(&w.lock);
	free(threads);
	if (!atomic_load(&w.failed))
		return 0;
	*e = w.error;
	return -e->code;
}

/* Job i is the i-th chunk of all dense tensors. */
static int convert_dense_job(struct converter *c, struct encoder *x, void *buffer, uint32_t i,
			     struct err *e)
{
	const struct plan_tensor *t = c->plan->dense;
	for (; i >= t->chunks; t++)
		i -= t->chunks;
	uint32_t unit = c->records + t->first_unit + i;
	const struct shape s = plan_chunk_shape(t, i);
	bool has[PLAN_PIECES], all = true;
	for (uint32_t k = 0; k < PLAN_PIECES; k++) {
		has[k] = !plan_piece_bytes(&s, k) ||
			 store_writer_has(c->writer, unit + k * t->chunks);
		all = all && has[k];
	}
	uint8_t *piece = buffer;
	int failed = all ? 0 : encoder_chunk(x, t, i, buffer, e);
	for (uint32_t k = 0; k < PLAN_PIECES && !failed; k++) {
		struct store_put *put;
		if (!has[k])
			failed = store_put_begin(c->writer, unit + k * t->chunks, &put, e);
		if (!has[k] && !failed)
			convert_put_unit(c, put, unit + k * t->chunks, piece,
					 plan_piece_bytes(&s, k));
		piece += plan_piece_bytes(&s, k);
	}
	if (!failed)
		convert_count_chunk(c, t, i);
	return failed;
}

static int convert_expert_job(struct converter *c, struct encoder *x, void *buffer, uint32_t unit,
			      struct err *e)
{
	struct store_put *put;
	int failed = convert_begin_expert(c, x, unit, buffer, &put, e);
	if (!failed)
		convert_put_expert(c, put, unit, buffer);
	if (failed != -EEXIST)
		return failed;
	convert_count_expert(c, unit); /* made by an earlier conversion, not by another thread */
	return 0;
}

static int convert_dense(struct converter *c, struct err *e)
{
	uint32_t jobs = 0;
	for (uint32_t i = 0; i < c->plan->dense_count; i++)
		jobs += c->plan->dense[i].chunks;
	convert_begin_progress(c);
	return c->v.by_layers ? 0 : convert_run_jobs(c, convert_dense_job, jobs, e);
}

/* ---- layer by layer ---- */

/* Job i of c->jobs: records, then chunks of dense tensors. */
static int convert_any_job(struct converter *c, struct encoder *x, void *buffer, uint32_t i,
			   struct err *e)
{
	uint32_t job = c->jobs[i];
	return job < c->records ? convert_expert_job(c, x, buffer, job, e)
				: convert_dense_job(c, x, buffer, job - c->records, e);
}

static bool convert_has_chunk(struct converter *c, const struct plan_tensor *t, uint32_t chunk)
{
	const struct shape s = plan_chunk_shape(t, chunk);
	for (uint32_t k = 0; k < PLAN_PIECES; k++)
		if (plan_piece_bytes(&s, k) &&
		    !store_writer_has(c->writer, c->records + t->first_unit + chunk + k * t->chunks))
			return false;
	return true;
}

/* Lists in c->jobs everything that is missing of the layers [layer, end). Counts the rest as
 * progress. */
static uint32_t convert_list_jobs(struct converter *c, uint32_t layer, uint32_t end)
{
	const struct plan *p = c->plan;
	uint32_t n = 0, job = c->records;
	for (uint32_t unit = 0; unit < c->records; unit++) {
		uint32_t of = p->layer_of[unit / p->experts];
		if (of < layer || of >= end)
			continue;
		if (store_writer_has(c->writer, unit))
			convert_count_expert(c, unit);
		else
			c->jobs[n++] = unit;
	}
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		uint32_t of = plan_layer_of(p, t->id);
		for (uint32_t chunk = 0; chunk < t->chunks; chunk++, job++)
			if (of >= layer && of < end && !convert_has_chunk(c, t, chunk))
				c->jobs[n++] = job;
	}
	return n;
}

/* Converts layers from `layer` on for which moments are known together; returns the layer after the
 * last. */
static int convert_known_layers(struct converter *c, const struct convert_known *k, uint32_t layer,
				uint32_t *end, struct err *e)
{
	*end = layer + 1;
	if (!convert_list_jobs(c, layer, *end)) /* by an earlier conversion */
		return 0;
	int failed = k->know(k->ctx, layer, &c->moments, &c->held, e);
	if (failed)
		return failed;
	*end = moments_end(c->moments);
	failed = convert_run_jobs(c, convert_any_job, convert_list_jobs(c, layer, *end), e);
	c->moments = c->held = NULL;
	return failed;
}

bool convert_is_better(const struct converter *c)
{
	return !c->verdict.rows || c->verdict.sum < 0;
}

void convert_discard(struct converter *c)
{
	c->differently = true;
}

int convert_layers(struct converter *c, const struct convert_known *k, struct err *e)
{
	int failed = 0;
	convert_begin_progress(c);
	for (uint32_t layer = 0, end; layer <= c->plan->layers && !failed; layer = end)
		failed = convert_known_layers(c, k, layer, &end, e);
	return failed;
}

/* ---- beginning ---- */

/* Makes the plan of the current recipe, and the data for the store's writer. The caller frees
 * *headers. */
static int convert_describe(struct converter *c, struct store_headers *headers,
			    struct store_plan *out, struct err *e)
{
	struct plan *p = c->plan;
	plan_free(p);
	struct codec_choice choice;
	int failed = plan_make(p, c->v.config, &c->v.recipe, e);
	if (!failed)
		failed = codec_choose(&choice, &c->v, &c->sources, p, e);
	if (failed)
		return failed;
	memcpy(c->codec_words, choice.words, sizeof c->codec_words);
	p->recipe.codec = choice.codec;
	failed = store_describe(out, headers, c->v.config, p, c->v.fingerprint, e);
	if (!failed)
		out->expected_bytes = choice.expected_bytes;
	return failed;
}

/* Widens the recipe if an earlier conversion in the folder did so and can be resumed. */
static void convert_widen_as_left(struct converter *c)
{
	const struct recipe asked = c->v.recipe;
	struct store_headers headers;
	struct store_plan sp;
	struct store_key unfinished;
	if (store_unfinished(c->v.folder, &unfinished))
		return;
	while (recipe_widen(&c->v.recipe)) {
		if (convert_describe(c, &headers, &sp, NULL))
			break;
		bool left = store_interrupted(c->v.folder, &sp);
		store_headers_free(&headers);
		if (left)
			return;
	}
	c->v.recipe = asked;
}

static int convert_begin_store(struct converter *c, struct err *e)
{
	struct store_headers headers;
	struct store_plan sp;
	int failed = convert_describe(c, &headers, &sp, e);
	if (failed)
		return failed;
	c->records = plan_records(c->plan);
	failed = store_writer_open(&c->writer, c->v.folder, &sp, e);
	store_headers_free(&headers);
	if (!failed)
		failed = store_writer_defer(c->writer, convert_committed, c, e);
	if (!failed)
		failed = witness_open(c->v.witness, e);
	if (!failed)
		failed = convert_dense(c, e);
	/* Keeps the files only if the next mount can resume the conversion. */
	bool again =
		failed == -ECANCELED || failed == -EIO || failed == -ESTALE || failed == -EBUSY;
	if (failed && c->writer) {
		again |= failed == -ENOSPC && store_writer_resumed(c->writer);
		convert_close_writer(c, c->writer, again);
		c->writer = NULL;
	}
	return failed;
}

static int convert_begin_source(struct converter *c, struct err *e)
{
	int failed = sources_open(&c->sources, c->v.directory, c->v.config, e);
	if (!failed)
		failed = sources_plan(&c->sources, &c->published, &c->v.recipe, c->plan, e);
	if (!failed)
		failed = witness_attach(c->v.witness, package_files(c->sources.package), e);
	if (failed)
		return failed;
	convert_widen_as_left(c);
	do
		failed = convert_begin_store(c, e);
	while (failed == -ERANGE && recipe_widen(&c->v.recipe));
	if (failed)
		return failed;
	c->in = calloc((size_t)c->records + 1, sizeof *c->in);
	c->damaged = calloc((size_t)c->records + 1, sizeof *c->damaged);
	uint32_t jobs = c->records;
	for (uint32_t i = 0; i < c->plan->dense_count; i++)
		jobs += c->plan->dense[i].chunks;
	c->jobs = calloc((size_t)jobs + 1, sizeof *c->jobs);
	return c->in && c->damaged && c->jobs ? 0 : err_set(e, ENOMEM, "out of memory for a list of experts");
}

int convert_begin(struct converter **out, const struct conversion *v, struct plan *plan,
		  struct err *e)
{
	struct converter *c = calloc(1, sizeof *c);
	*out = NULL;
	*plan = (struct plan){0};
	if (!c) {
		witness_free(v->witness);
		return err_set(e, ENOMEM, "out of memory for converting the checkpoint");
	}
	c->v = *v;
	c->plan = plan;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	int failed = convert_begin_source(c, e);
	if (failed) {
		convert_close(c);
		plan_free(plan);
		return failed;
	}
	*out = c;
	return 0;
}

const char *convert_codec_words(const struct converter *c)
{
	return c->codec_words;
}

int convert_view(struct converter *c, struct store **out, struct err *e)
{
	int failed = store_writer_view(c->writer, out, e);
	c->view = *out;
	return failed;
}

/* ---- the end ---- */

int convert_finish(struct converter *c, struct err *e)
{
	int failed = convert_run_jobs(c, convert_expert_job, c->records, e);
	c->differently = failed && failed != -ECANCELED && failed != -EIO && failed != -ESTALE;
	return failed ? failed : convert_publish(c, e);
}

void convert_close(struct converter *c)
{
	if (!c)
		return;
	convert_rest_end(c);
	if (c->writer || c->complete)
		convert_close_writer(c, c->writer ? c->writer : c->complete, !c->differently);
	sources_close(&c->sources);
	sources_free_published(&c->published);
	witness_free(c->v.witness);
	atomic_store(&c->v.progress->total, 0);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c->damaged);
	free(c->jobs);
	free((void *)c->in);
	free(c);
}
