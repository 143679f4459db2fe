#include "engine/convert.h"
#include "engine/clock.h"
#include "engine/codec_choice.h"
#include "engine/sources.h"
#include "engine/store_header.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Norms outside the range that F16 holds with full precision make a store use F32 norms. */
static const float f16_norm_least = 6.2e-5f, f16_norm_most = 6e4f;

/* ---- one thread's work ---- */

/* A job is one store unit or the two units (weights, norms) of a TQ chunk. */
struct job {
	const struct plan_tensor *tensor; /* NULL: an expert */
	uint32_t chunk, routed_layer, expert;
};

struct shared { /* by all threads of a conversion */
	const struct conversion *conversion;
	const struct plan *plan;
	const struct sources *sources;
	struct store_writer *writer;
	_Atomic uint32_t next_job;
	_Atomic bool failed;
	pthread_mutex_t lock; /* of error; taken under nothing, with nothing taken under it */
	struct err error;     /* the first failure */
};

struct worker {
	struct shared *shared;
	uint8_t *source; /* rows as the checkpoint has them */
	float *row;
	uint8_t *packed; /* of one piece of rows */
	uint8_t *norms;	 /* of one matrix's chunk */
	float *row_norms;
	pthread_t thread;
};

enum { PIECE_BYTES = 1 << 20 }; /* of source rows read at a time */

static uint32_t piece_rows(size_t row_bytes)
{
	return row_bytes < PIECE_BYTES ? (uint32_t)(PIECE_BYTES / row_bytes) : 1;
}

static bool all_finite(const float *x, uint32_t n)
{
	const uint32_t exponent = 0x7f800000; /* all its bits set: no number */
	uint32_t bad = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, x + i, sizeof bits);
		bad |= (bits & exponent) == exponent;
	}
	return !bad;
}

/* One row as its store has it, appended at packed and norms. ERANGE: a norm does not fit F16. */
static int encode_row(struct worker *w, const struct shape *s, const struct checkpoint_tensor *t,
		      const uint8_t *source, uint8_t *packed, uint8_t *norms, struct err *e)
{
	const struct shape from = {.format = t->format, .rows = 1, .cols = s->cols};
	format_dequantise_row(w->row, &from, source, NULL);
	if (!all_finite(w->row, s->cols))
		return err_set(e, EINVAL,
			       "tensor %s holds a NaN or an infinity; the checkpoint is damaged",
			       t->name);
	if (s->format == t->format) {
		memcpy(packed, source, t->bytes / s->rows);
		return 0;
	}
	if (s->format == FORMAT_F32) {
		memcpy(packed, w->row, s->cols * sizeof *w->row);
		return 0;
	}
	size_t groups = tq_groups(s->cols);
	if (!w->shared->conversion->kernels->tq_quantise_row(packed, w->row_norms, w->row, s->cols,
							     format_tq_bits(s->format),
							     TQ_GAIN_LEAST_SQUARES))
		return err_set(e, EINVAL,
			       "tensor %s holds numbers above 1e18; the checkpoint is damaged",
			       t->name);
	for (size_t g = 0; g < groups; g++) {
		float norm = w->row_norms[g];
		uint16_t half = f32_to_f16(norm);
		if (s->norms == NORM_F32)
			memcpy(norms + g * sizeof norm, &norm, sizeof norm);
		else if (norm != 0 && (norm < f16_norm_least || norm > f16_norm_most))
			return -ERANGE;
		else
			memcpy(norms + g * sizeof half, &half, sizeof half);
	}
	return 0;
}

/* Rows [row0, row0 + rows) of a tensor: weights go to `put` piece by piece, norms to w->norms. */
static int encode_rows(struct worker *w, const struct shape *s, const struct checkpoint_tensor *t,
		       uint32_t row0, uint32_t rows, struct store_put *put, struct err *e)
{
	struct shape one = *s;
	one.rows = 1;
	size_t source_bytes = t->bytes / s->rows, packed_bytes = format_packed_bytes(&one);
	size_t norm_bytes = format_norm_bytes(&one);
	uint32_t piece = piece_rows(source_bytes);
	for (uint32_t r = 0; r < rows; r += piece) {
		uint32_t n = rows - r < piece ? rows - r : piece;
		int failed = checkpoint_read(w->shared->sources->checkpoint, t,
					     (uint64_t)(row0 + r) * source_bytes, w->source,
					     n * source_bytes, e);
		for (uint32_t i = 0; i < n && !failed; i++)
			failed = encode_row(w, s, t, w->source + i * source_bytes,
					    w->packed + i * packed_bytes,
					    w->norms + (r + i) * norm_bytes, e);
		if (!failed)
			failed = store_put_bytes(put, w->packed, n * packed_bytes, e);
		if (failed)
			return failed;
		atomic_fetch_add(&w->shared->conversion->progress->done, n * source_bytes);
	}
	return 0;
}

static int end_put(struct store_put *put, int failed, struct err *e)
{
	if (!failed)
		return store_put_commit(put, e);
	store_put_abandon(put);
	return failed;
}

static int convert_expert(struct worker *w, const struct job *j, struct err *e)
{
	const struct plan *p = w->shared->plan;
	uint32_t unit = j->routed_layer * p->experts + j->expert;
	struct store_put *put;
	int failed = store_put_begin(w->shared->writer, unit, &put, e);
	if (failed)
		return failed;
	for (uint32_t part = 0; part < EXPERT_PARTS && !failed; part++) {
		char name[256];
		const struct shape *s = &p->part[part];
		struct tensor_id id = {plan_part_role(part), p->layer_of[j->routed_layer],
				       j->expert};
		const struct checkpoint_tensor *t =
			sources_find(w->shared->sources, id, name, sizeof name, e);
		failed = t ? encode_rows(w, s, t, 0, s->rows, put, e) : -ENOENT;
		if (!failed && format_is_tq(s->format))
			failed = store_put_bytes(put, w->norms, format_norm_bytes(s), e);
	}
	return end_put(put, failed, e);
}

static int convert_dense(struct worker *w, const struct job *j, struct err *e)
{
	const struct plan_tensor *pt = j->tensor;
	const struct plan *p = w->shared->plan;
	struct shape chunk = pt->shape;
	uint32_t first = p->routed_layers * p->experts + pt->first_unit + j->chunk;
	char name[256];
	struct store_put *put;
	const struct checkpoint_tensor *t =
		sources_find(w->shared->sources, pt->id, name, sizeof name, e);
	int failed = t ? store_put_begin(w->shared->writer, first, &put, e) : -ENOENT;
	if (failed)
		return failed;
	chunk.rows = plan_chunk_rows(pt, j->chunk);
	failed = encode_rows(w, &pt->shape, t, j->chunk * pt->chunk_rows, chunk.rows, put, e);
	failed = end_put(put, failed, e);
	if (failed || !format_is_tq(chunk.format))
		return failed;
	failed = store_put_begin(w->shared->writer, first + pt->chunks, &put, e);
	if (failed)
		return failed;
	return end_put(put, store_put_bytes(put, w->norms, format_norm_bytes(&chunk), e), e);
}

/* Dense chunks first: they are the largest jobs of most models. False: there is no job i. */
static bool job_at(const struct plan *p, uint32_t i, struct job *j)
{
	*j = (struct job){0};
	for (uint32_t t = 0; t < p->dense_count; i -= p->dense[t].chunks, t++)
		if (i < p->dense[t].chunks) {
			j->tensor = &p->dense[t];
			j->chunk = i;
			return true;
		}
	if (i >= p->routed_layers * p->experts)
		return false;
	j->routed_layer = i / p->experts;
	j->expert = i % p->experts;
	return true;
}

static bool job_is_done(const struct shared *s, const struct job *j)
{
	const struct plan *p = s->plan;
	uint32_t experts = p->routed_layers * p->experts;
	if (!j->tensor)
		return store_writer_has(s->writer, j->routed_layer * p->experts + j->expert);
	uint32_t unit = experts + j->tensor->first_unit + j->chunk;
	return store_writer_has(s->writer, unit) &&
	       (!format_is_tq(j->tensor->shape.format) ||
		store_writer_has(s->writer, unit + j->tensor->chunks));
}

static uint64_t source_bytes(const struct shared *s, struct tensor_id id)
{
	char name[256];
	const struct checkpoint_tensor *t = sources_find(s->sources, id, name, sizeof name, NULL);
	return t ? t->bytes : 0;
}

/* Bytes of the source that a job reads. */
static uint64_t job_bytes(const struct shared *s, const struct job *j)
{
	const struct plan_tensor *t = j->tensor;
	uint64_t bytes = 0;
	if (t)
		return source_bytes(s, t->id) / t->shape.rows * plan_chunk_rows(t, j->chunk);
	for (uint32_t part = 0; part < EXPERT_PARTS; part++)
		bytes += source_bytes(s, (struct tensor_id){plan_part_role(part),
							    s->plan->layer_of[j->routed_layer],
							    j->expert});
	return bytes;
}

static void record_failure(struct shared *s, const struct err *e)
{
	pthread_mutex_lock(&s->lock);
	if (!atomic_exchange(&s->failed, true))
		s->error = *e;
	pthread_mutex_unlock(&s->lock);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct shared *s = w->shared;
	struct job j;
	while (!atomic_load(&s->failed) && job_at(s->plan, atomic_fetch_add(&s->next_job, 1), &j)) {
		struct err e = {0};
		int failed = 0;
		if (atomic_load(s->conversion->stop))
			failed = err_set(&e, ECANCELED, "the conversion was stopped");
		else if (job_is_done(s, &j))
			atomic_fetch_add(&s->conversion->progress->done, job_bytes(s, &j));
		else
			failed = j.tensor ? convert_dense(w, &j, &e) : convert_expert(w, &j, &e);
		if (failed) {
			e.code = -failed;
			record_failure(s, &e);
		}
	}
	return NULL;
}

/* ---- the whole ---- */

static void free_worker(struct worker *w)
{
	free(w->source);
	free(w->row);
	free(w->packed);
	free(w->norms);
	free(w->row_norms);
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Buffers for the widest row, the largest piece of rows and the largest chunk's norms. */
static bool allocate_worker(struct worker *w, const struct plan *p)
{
	size_t cols = 0, packed = 0, norms = 0;
	for (uint32_t i = 0; i < p->dense_count + EXPERT_PARTS; i++) {
		struct shape s =
			i < p->dense_count ? p->dense[i].shape : p->part[i - p->dense_count];
		if (!s.cols)
			continue; /* a model without experts */
		if (i < p->dense_count)
			s.rows = p->dense[i].chunk_rows;
		norms = larger(norms, format_norm_bytes(&s));
		s.rows = piece_rows((size_t)s.cols * 2);
		packed = larger(packed, format_packed_bytes(&s));
		cols = larger(cols, s.cols);
	}
	w->source = malloc(larger(PIECE_BYTES, cols * 4));
	w->packed = malloc(packed);
	w->row = malloc(cols * sizeof *w->row);
	w->norms = malloc(norms + 1); /* + 1: a model without TQ has none */
	w->row_norms = malloc(tq_groups((uint32_t)cols) * sizeof *w->row_norms);
	return w->source && w->packed && w->row && w->norms && w->row_norms;
}

static int run_workers(struct shared *s, struct err *e)
{
	uint32_t count = s->conversion->threads, started = 0;
	struct worker *workers = calloc(count, sizeof *workers);
	bool allocated = workers;
	for (uint32_t i = 0; i < count && allocated; i++) {
		workers[i].shared = s;
		allocated = allocate_worker(&workers[i], s->plan);
	}
	if (!allocated)
		record_failure(
			s, &(struct err){ENOMEM, "out of memory for converting the checkpoint"});
	for (; allocated && started + 1 < count; started++)
		if (pthread_create(&workers[started].thread, NULL, worker_main, &workers[started]))
			break; /* fewer threads do */
	if (allocated)
		worker_main(&workers[count - 1]);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	for (uint32_t i = 0; workers && i < count; i++)
		free_worker(&workers[i]);
	free(workers);
	if (!atomic_load(&s->failed))
		return 0;
	*e = s->error;
	return -e->code;
}

/* A plan for one choice of recipe, written from first to last. ERANGE: needs norms in F32. */
static int convert_as_planned(struct conversion *v, const struct sources *sources, struct plan *p,
			      struct err *e)
{
	struct store_plan sp = {
		.key = {.fingerprint = {v->fingerprint[0], v->fingerprint[1]}},
		.layers = p->routed_layers,
		.experts = p->experts,
		.record_bytes = p->record_bytes,
		.dense = p->units,
		.dense_units = p->unit_count,
	};
	struct store_headers headers;
	struct codec_choice choice;
	int failed = codec_choose(&choice, v, sources, p, e);
	if (failed)
		return failed;
	memcpy(v->codec_words, choice.words, sizeof v->codec_words);
	p->recipe.codec = choice.codec;
	sp.codec = choice.codec == CODEC_ZSTD ? STORE_CODED : STORE_PLAIN;
	sp.expected_bytes = choice.expected_bytes;
	recipe_to_text(&p->recipe, sp.key.recipe, sizeof sp.key.recipe);
	failed = store_headers_make(&headers, v->config->architecture, p, e);
	if (failed)
		return failed;
	sp.experts_header = headers.experts;
	sp.experts_header_bytes = headers.experts_bytes;
	sp.dense_header = headers.dense;
	sp.dense_header_bytes = headers.dense_bytes;
	struct shared s = {.conversion = v, .plan = p, .sources = sources};
	failed = store_writer_open(&s.writer, v->folder, &sp, e);
	store_headers_free(&headers);
	if (failed)
		return failed;
	pthread_mutex_init(&s.lock, NULL);
	failed = run_workers(&s, e);
	pthread_mutex_destroy(&s.lock);
	if (!failed)
		return store_writer_finish(s.writer, e);
	/* Only what the next mount would do the same way again is kept. */
	store_writer_close(s.writer, failed == -ECANCELED || failed == -EIO);
	return failed;
}

static int convert_with_norms(struct conversion *v, const struct sources *sources, enum format kept,
			      enum norm_type norms, struct err *e)
{
	struct plan p;
	struct job j;
	recipe_keep(&v->recipe, kept, norms);
	int failed = plan_make(&p, v->config, &v->recipe, e);
	if (failed)
		return failed;
	struct shared s = {.plan = &p, .sources = sources};
	uint64_t total = 0;
	for (uint32_t i = 0; job_at(&p, i, &j); i++)
		total += job_bytes(&s, &j);
	atomic_store(&v->progress->started_ns, now_ns());
	atomic_store(&v->progress->done, 0);
	atomic_store(&v->progress->total, total);
	failed = convert_as_planned(v, sources, &p, e);
	atomic_store(&v->progress->total, 0);
	plan_free(&p);
	return failed;
}

int convert_run(struct conversion *v, struct err *e)
{
	struct sources s;
	struct plan p;
	int failed = plan_make(&p, v->config, &v->recipe, e);
	if (failed)
		return failed;
	failed = sources_open(&s, v->directory, v->config, &p, e);
	plan_free(&p);
	if (failed)
		return failed;
	enum format kept = sources_kept_format(&s);
	failed = convert_with_norms(v, &s, kept, NORM_F16, e);
	if (failed == -ERANGE)
		failed = convert_with_norms(v, &s, kept, NORM_F32, e);
	sources_close(&s);
	return failed;
}
