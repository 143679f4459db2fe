/* A conversion's beginning and end, and the threads that convert all at once. */
#include "engine/convert/convert.h"
#include "engine/convert/codec_choice.h"
#include "engine/convert/converter.h"
#include "engine/convert/store_header.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- all threads at once ---- */

/* More threads than compute: some wait for the source's disk meanwhile. Rounding by what is known
 * of inputs takes so long, and so much memory for each, that there it is not worth it. */
enum { WAITING_THREADS = 4 };

/* Does job i with a buffer that holds any chunk and any record. */
typedef int job_fn(struct converter *c, struct encoder *x, void *buffer, uint32_t i, struct err *e);

struct crew { /* what the threads of one run share */
	struct converter *converter;
	job_fn *job;
	uint32_t jobs;
	_Atomic uint32_t next;
	_Atomic bool failed;
	pthread_mutex_t lock; /* of error; nothing is taken under it */
	struct err error;     /* the first failure */
};

struct crew_thread {
	struct crew *crew;
	struct encoder *encoder;
	void *buffer;
	pthread_t thread;
};

static void crew_fail(struct crew *w, const struct err *e)
{
	pthread_mutex_lock(&w->lock);
	if (!atomic_exchange(&w->failed, true))
		w->error = *e;
	pthread_mutex_unlock(&w->lock);
}

static void crew_note(struct converter *c, uint32_t unit, int failed, const struct err *e)
{
	(void)unit;
	if (failed)
		crew_fail(c->crew, e);
}

/* What becomes of units is the crew's from now on, or no more. */
static void crew_listen(struct converter *c, struct crew *w)
{
	pthread_mutex_lock(&c->lock);
	converter_wait_for_users(c);
	c->crew = w;
	c->note = w ? crew_note : convert_rest_note;
	pthread_mutex_unlock(&c->lock);
}

static void *crew_main(void *arg)
{
	struct crew_thread *t = arg;
	struct crew *w = t->crew;
	uint32_t i;
	while (!atomic_load(&w->failed) && (i = atomic_fetch_add(&w->next, 1)) < w->jobs) {
		struct err e = {0};
		int failed = atomic_load(w->converter->v.stop)
				     ? err_set(&e, ECANCELED, "the conversion was stopped")
				     : w->job(w->converter, t->encoder, t->buffer, i, &e);
		if (failed)
			crew_fail(w, &e);
	}
	return NULL;
}

static void crew_start(struct crew *w, struct crew_thread *threads, uint32_t count)
{
	const struct plan *p = w->converter->plan;
	size_t chunk = encode_chunk_bytes(p);
	size_t bytes = chunk > p->record_bytes ? chunk : p->record_bytes;
	struct err e;
	uint32_t started = 0;
	for (uint32_t i = 0; i < count; i++) {
		threads[i].crew = w;
		threads[i].buffer = malloc(bytes);
		if (encoder_create(&threads[i].encoder, p, &w->converter->sources,
				   w->converter->v.kernels, &e) ||
		    !threads[i].buffer)
			crew_fail(w, &(struct err){
					     .code = ENOMEM,
					     .text = "out of memory for converting the checkpoint",
				     });
		if (threads[i].encoder)
			encoder_know(threads[i].encoder, w->converter->v.moments,
				     w->converter->v.stop);
	}
	while (started + 1 < count &&
	       !pthread_create(&threads[started].thread, NULL, crew_main, &threads[started]))
		started++; /* fewer threads do */
	crew_main(&threads[count - 1]);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i].thread, NULL);
	for (uint32_t i = 0; i < count; i++) {
		encoder_free(threads[i].encoder);
		free(threads[i].buffer);
	}
}

/* Does all the jobs, or fails with the first failure. */
static int run(struct converter *c, job_fn *job, uint32_t jobs, struct err *e)
{
	struct crew w = {.converter = c, .job = job, .jobs = jobs};
	uint32_t count = c->v.threads + (c->v.moments ? 0 : WAITING_THREADS);
	struct crew_thread *threads = calloc(count, sizeof *threads);
	if (!threads)
		return err_set(e, ENOMEM, "out of memory for converting the checkpoint");
	pthread_mutex_init(&w.lock, NULL);
	crew_listen(c, &w);
	crew_start(&w, threads, count);
	crew_listen(c, NULL);
	pthread_mutex_destroy(&w.lock);
	free(threads);
	if (!atomic_load(&w.failed))
		return 0;
	*e = w.error;
	return -e->code;
}

static int dense_job(struct converter *c, struct encoder *x, void *buffer, uint32_t i,
		     struct err *e)
{
	const struct plan_tensor *t = c->plan->dense;
	for (; i >= t->chunks; t++)
		i -= t->chunks;
	uint32_t unit = c->records + t->first_unit + i;
	struct shape s = t->shape;
	s.rows = plan_chunk_rows(t, i);
	bool has[PLAN_PIECES], all = true;
	for (uint32_t k = 0; k < PLAN_PIECES; k++) {
		has[k] = !plan_piece_bytes(&s, k) ||
			 store_writer_has(c->writer, unit + k * t->chunks);
		all = all && has[k];
	}
	uint8_t *piece = buffer;
	int failed = all ? 0 : encode_chunk(x, t, i, buffer, e);
	for (uint32_t k = 0; k < PLAN_PIECES && !failed; k++) {
		struct store_put *put;
		if (!has[k])
			failed = store_put_begin(c->writer, unit + k * t->chunks, &put, e);
		if (!has[k] && !failed)
			converter_leave(c, put, unit + k * t->chunks, piece,
					plan_piece_bytes(&s, k));
		piece += plan_piece_bytes(&s, k);
	}
	if (!failed)
		converter_count_chunk(c, t, i);
	return failed;
}

static int expert_job(struct converter *c, struct encoder *x, void *buffer, uint32_t unit,
		      struct err *e)
{
	struct store_put *put;
	int failed = converter_make_expert(c, x, unit, buffer, &put, e);
	if (!failed)
		converter_leave_expert(c, put, unit, buffer);
	if (failed != -EEXIST)
		return failed;
	converter_count(c, unit); /* an earlier conversion's: nobody else is at work here */
	return 0;
}

static int convert_dense(struct converter *c, struct err *e)
{
	uint32_t jobs = 0;
	for (uint32_t i = 0; i < c->plan->dense_count; i++)
		jobs += c->plan->dense[i].chunks;
	converter_begin_progress(c);
	return run(c, dense_job, jobs, e);
}

/* ---- beginning ---- */

/* A plan for one choice of recipe, and what the store's writer must know of it. */
static int describe(struct converter *c, enum format kept, enum norm_type norms,
		    struct store_headers *headers, struct store_plan *out, struct err *e)
{
	struct plan *p = c->plan;
	recipe_keep(&c->v.recipe, kept, norms);
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

/* Whether an earlier conversion here had found out that F16 does not do. */
static bool left_with_f32_norms(struct converter *c, enum format kept)
{
	struct store_headers headers;
	struct store_plan sp;
	struct store_key unfinished;
	if (store_unfinished(c->v.folder, &unfinished) ||
	    describe(c, kept, NORM_F32, &headers, &sp, NULL))
		return false;
	bool left = store_interrupted(c->v.folder, &sp);
	store_headers_free(&headers);
	return left;
}

static int begin_with(struct converter *c, enum format kept, enum norm_type norms, struct err *e)
{
	struct store_headers headers;
	struct store_plan sp;
	int failed = describe(c, kept, norms, &headers, &sp, e);
	if (failed)
		return failed;
	c->records = c->plan->routed_layers * c->plan->experts;
	failed = store_writer_open(&c->writer, c->v.folder, &sp, e);
	store_headers_free(&headers);
	if (!failed)
		failed = store_writer_defer(c->writer, converter_committed, c, e);
	if (!failed)
		failed = witness_open(c->v.witness, e);
	if (!failed)
		failed = convert_dense(c, e);
	/* Only what the next mount would do the same way again is kept. */
	bool again =
		failed == -ECANCELED || failed == -EIO || failed == -ESTALE || failed == -EBUSY;
	if (failed && c->writer) {
		again |= failed == -ENOSPC && store_writer_resumed(c->writer);
		converter_close_writer(c, c->writer, again);
		c->writer = NULL;
	}
	return failed;
}

static int begin(struct converter *c, struct err *e)
{
	int failed = sources_open(&c->sources, c->v.directory, c->v.config, e);
	if (failed)
		return failed;
	c->v.recipe.draft = c->sources.draft;
	if (c->v.recipe.as_published)
		failed = published_find(&c->published, &c->sources, e);
	c->v.recipe.published = &c->published;
	if (!failed)
		failed = plan_make(c->plan, c->v.config, &c->v.recipe, e);
	if (!failed)
		failed = sources_check(&c->sources, c->plan, e);
	if (!failed)
		failed = witness_attach(c->v.witness, package_files(c->sources.package), e);
	if (failed)
		return failed;
	enum format kept = sources_kept_format(&c->sources);
	enum norm_type norms = c->v.recipe.norms;
	if (norms == NORM_F16 && left_with_f32_norms(c, kept))
		norms = NORM_F32;
	failed = begin_with(c, kept, norms, e);
	if (failed == -ERANGE)
		failed = begin_with(c, kept, NORM_F32, e);
	if (failed)
		return failed;
	c->in = calloc((size_t)c->records + 1, sizeof *c->in);
	c->damaged = calloc((size_t)c->records + 1, sizeof *c->damaged);
	return c->in && c->damaged ? 0 : err_set(e, ENOMEM, "out of memory for a list of experts");
}

const char *convert_codec_words(const struct converter *c)
{
	return c->codec_words;
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
	int failed = begin(c, e);
	if (failed) {
		convert_close(c);
		plan_free(plan);
		return failed;
	}
	*out = c;
	return 0;
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
	int failed = run(c, expert_job, c->records, e);
	c->differently = failed && failed != -ECANCELED && failed != -EIO && failed != -ESTALE;
	return failed ? failed : converter_publish(c, e);
}

void convert_close(struct converter *c)
{
	if (!c)
		return;
	converter_rest_end(c);
	if (c->writer || c->complete)
		converter_let_go(c, c->writer ? c->writer : c->complete);
	sources_close(&c->sources);
	published_free(&c->published);
	witness_free(c->v.witness);
	atomic_store(&c->v.progress->total, 0);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c->damaged);
	free((void *)c->in);
	free(c);
}
